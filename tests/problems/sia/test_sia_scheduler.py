"""Sia in the simulator: what it is told, what limits do, and that it replays as it did before."""

import numpy as np
import pytest

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.nodes import NodeFailure
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.sia import Sia, generate

PAIR = Cluster([GpuType("A", 4, 2), GpuType("B", 8, 1)])
LINEAR = ReplicaProfile("m", 10.0, 40_000.0, {"A": (1, 1.0), "B": (1, 1.0)})


def simulate(jobs, cluster=PAIR, policy=None, **options):
    simulator = Simulator(Scenario(cluster, jobs, {"m": LINEAR}), policy or Sia(), **options)
    list(simulator.run())
    return simulator


def job(name, time=0.0, **options):
    return JobSubmission(name, time, "", "m", **options)


def widths(simulator, name):
    return {segment.gpus for segment in simulator.segments if segment.job == name}


def test_limits_of_the_user_mask_configurations():
    simulator = simulate([job("few", max_gpus=2), job("many", min_gpus=4), job("one", kind="rigid", gpus=1)])
    assert widths(simulator, "few") == {1, 2}
    assert min(widths(simulator, "many")) == 4
    assert widths(simulator, "one") == {1}


def test_a_reserved_job_never_waits():
    jobs = [job(str(k)) for k in range(20)] + [job("mine", 600.0, reserved=True)]
    simulator = simulate(jobs)
    (mine,) = (one for one in simulator.job_results() if one.name == "mine")
    assert mine.started == 600.0


def test_a_job_that_lost_its_node_is_known_to_hold_nothing():
    failure = NodeFailure(630.0, "A", 0, 1200.0)
    only_a = Cluster([GpuType("A", 4, 2)])
    simulator = simulate([job("a")], only_a, placer=SiaPlacer(), events=[failure])
    at = {record.time: sum(record.gpus.values()) for record in simulator.records}
    # It starts again on one GPU, as every job without GPUs does, and doubles up to what is left.
    assert [at[600.0], at[660.0], at[720.0], at[780.0], at[840.0]] == [8, 1, 2, 4, 4]


@pytest.mark.long
def test_it_replays_as_the_simulator_of_sia_alone_did():
    """Recorded with the replay that this one took the place of, at commit 368569c."""
    simulator = Simulator(generate(256, 1000, hours=6, seed=1), Sia())
    list(simulator.run())
    jobs = simulator.job_results()
    assert np.mean([one.jct for one in jobs]) / 3600 == pytest.approx(0.42279490882, rel=0.01)
    assert max(one.finished for one in jobs) - jobs[0].submitted == pytest.approx(
        9.906107608 * 3600, rel=0.01
    )
    assert np.mean([one.restarts for one in jobs]) == pytest.approx(3.816, rel=0.03)


def test_figures_of_a_round_are_recorded():
    simulator = simulate([job("a"), job("b")])
    figures = simulator.records[0].figures
    assert figures["variables"] == 2 * 3  # 1 A, 1 B and nothing, each
    assert 0 <= figures["gap"] <= 1e-5 and figures["missed"] == 0
