"""Costs of changes by hand and level by level; failures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster import Cluster, GpuType, JobSubmission
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.nodes import draw_failures
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles.tables import CountProfile, TableProfile
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.simulation.resize import CheckpointRestart, DispatchRestart

CLUSTER = Cluster([GpuType("a", 4, 4)])
ONE = CLUSTER.packed("a", 1)


def job_of(profile):
    timer = Timer()
    return SimulatedJob(JobSubmission("x", 0.0, "", "app"), profile, "adaptive", timer), timer


def linear(work=1000.0, restart=30.0):
    return CountProfile("app", restart, work, [1, 2, 3, 4], {"a": [1.0, 2.0, 3.0, 4.0]})


def state(time, job, index=1, seconds=120.0):
    return ClusterState(time, index, seconds, CLUSTER, {"x": job})


def change(job, timer, model, time, new):
    timer.time = time
    now = state(time, job)
    job.give(time, new, None, model.seconds(job, new, now))


ENDS = (20.0, 50.0, 400.0)


def run(profile, progress, begin, end, configuration):
    """Progress at the end of a time, one level after the other."""
    for level, reached in enumerate(ENDS):
        rate = profile.curve(configuration)[level]
        if progress < reached and begin < end:
            seconds = min(end - begin, (reached - progress) / rate)
            progress, begin = progress + seconds * rate, begin + seconds
    return progress


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 30), st.sampled_from([1, 2, 4])), min_size=1, max_size=6))
def test_progress_over_levels_is_that_of_each_stretch(changes):
    grid = [Configuration(1, gpus, "a") for gpus in (1, 2, 4)]
    profile = TableProfile("app", 3.0, ENDS, grid, [[1, 1.5, 2], [2, 3, 5], [1, 2, 4]])
    job, timer = job_of(profile)
    progress, time = 0.0, 0.0
    for wait, gpus in changes:
        new = Configuration(1, gpus, "a")
        change(job, timer, CheckpointRestart(), time, new)
        progress = run(profile, progress, time + 3.0, time + wait, new)
        timer.time = time = time + wait
        assert job.progress == pytest.approx(progress, rel=1e-9)


def test_dispatch_is_paid_for_when_a_job_did_not_run_before():
    job, timer = job_of(linear(work=1000.0))
    model = DispatchRestart()
    assert model.seconds(job, ONE, state(0.0, job, index=0)) == 0.0
    assert model.seconds(job, ONE, state(120.0, job)) == 20.0
    change(job, timer, model, 120.0, ONE)
    assert model.seconds(job, ONE, state(240.0, job)) == 0.0
    for work, seconds in ((115.0, 0.0), (116.0, 20.0)):
        job, timer = job_of(linear(work=work))
        assert model.seconds(job, ONE, state(120.0, job)) == seconds


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
