"""Failures by their mean time, and slowdowns of jobs that share a node."""

import numpy as np
import pytest

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.nodes import draw_failures
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.simulation.resize import SharedNodes
from copter.problems.cluster.workload import JobSubmission

TYPES = [GpuType("a", 4, 30), GpuType("b", 8, 20)]


def test_failures_have_the_mean_time_and_never_overlap():
    failures = draw_failures(TYPES, 2000.0, np.random.default_rng(0), mean_hours=50.0, repair_hours=10.0)
    assert [one.time for one in failures] == sorted(one.time for one in failures)
    assert len(failures) == pytest.approx(50 * 2000 / 60, rel=0.1)  # a cycle is 60 h
    assert np.mean([one.repair_seconds for one in failures]) == pytest.approx(36000, rel=0.1)
    back = {}
    for one in failures:
        assert one.time >= back.get((one.type, one.node), 0.0)
        back[one.type, one.node] = one.time + one.repair_seconds
    assert len(back) == 50


def test_failures_are_those_of_the_seed():
    first, again, other = (
        draw_failures(TYPES, 100.0, np.random.default_rng(seed), mean_hours=50.0) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("wrong", ["mean_hours", "repair_hours"])
def test_times_must_be_positive(wrong):
    with pytest.raises(ValueError, match=f"{wrong} = 0"):
        draw_failures(TYPES, 1.0, np.random.default_rng(0), **({"mean_hours": 1.0} | {wrong: 0.0}))


def test_distributed_jobs_that_share_a_node_run_slower():
    cluster, timer = Cluster([GpuType("a", 4, 4)]), Timer()
    profile = CountProfile("app", 0.0, 1000.0, [1, 2, 4, 6], {"a": [1.0, 2.0, 4.0, 6.0]})
    places = {
        "x": ((0, 4), (1, 2)),
        "y": ((1, 2), (2, 2)),
        "within": ((2, 2),),
        "apart": ((3, 4), (4, 2)),
        "waits": None,
    }
    jobs = {
        name: SimulatedJob(JobSubmission(name, 0.0, "", ""), profile, "adaptive", timer) for name in places
    }
    for name, place in places.items():
        if place is not None:
            jobs[name].give(0.0, cluster.packed("a", sum(gpus for _, gpus in place)), place)
    assert SharedNodes(0.25).factors(jobs) == {"x": 0.75, "y": 0.75}
    assert SharedNodes(0.0).factors(jobs) == {}
    jobs["x"].slow_down(0.0, 0.75)
    assert jobs["x"].finish_at == pytest.approx(1000 / 6 / 0.75)
    with pytest.raises(ValueError, match="slowdown = 1"):
        SharedNodes(1.0)
