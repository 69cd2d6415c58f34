"""Costs of changes by hand and in fine steps of time; failures; distributed jobs that share a node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Placement, Scenario, Simulator
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.nodes import draw_failures
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles.tables import CountProfile, TableProfile
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.simulation.resize import Coddl, DispatchRestart, SharedNodes

CLUSTER = Cluster([GpuType("a", 4, 4)])
ONE, TWO, FOUR = (CLUSTER.packed("a", gpus) for gpus in (1, 2, 4))


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
    job.give(
        time,
        new.configuration if isinstance(new, Placement) else new,
        new.nodes if isinstance(new, Placement) else None,
        model.seconds(job, new, now),
        model.overlap(job, new, now),
    )


@pytest.mark.parametrize(("cancellation", "joins"), [(True, 65.0), (False, 80.0)])
def test_an_order_cancels_the_one_that_is_prepared(cancellation, joins):
    job, timer = job_of(linear())
    model = Coddl(pause=0.0, prepare_seconds=20.0, cancellation=cancellation)
    change(job, timer, model, 0.0, ONE)
    change(job, timer, model, 40.0, TWO)
    change(job, timer, model, 45.0, FOUR)  # runs on with one GPU, never with two
    assert job.runs_on(50.0) == (ONE, None)
    assert job.joins_at == joins
    timer.time = joins + 10.0
    assert job.progress == pytest.approx((joins - 30) + 40)


def test_a_move_to_other_nodes_is_a_restart_in_coddl():
    job, timer = job_of(linear())
    model = Coddl()
    at = Placement("a", ((0, 2),))
    change(job, timer, model, 0.0, at)
    now = state(100.0, job)
    assert model.seconds(job, Placement("a", ((1, 2),)), now) == 30.0
    assert model.overlap(job, Placement("a", ((1, 4),)), now) == 0.0
    assert model.overlap(job, Placement("a", ((0, 4),)), now) == 30.0
    assert model.seconds(job, Placement("a", ((0, 4),)), now) == 0.004


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
    model = Coddl(pause=0.5)
    progress, time, runs, until, joins = 0.0, 0.0, None, 0.0, 0.0
    for wait, gpus in changes:
        new = Configuration(1, gpus, "a")
        change(job, timer, model, time, new)
        if runs is None:
            runs, until, joins = new, time + 3.0, time
        elif new.gpus > runs.gpus:
            until, joins = max(until, time + 0.5), time + 3.0
        else:
            runs, until, joins = new, time + 0.5, time
        end = time + wait
        progress = run(profile, progress, max(time, until), min(joins, end), runs)
        runs = new if end >= joins else runs
        progress = run(profile, progress, max(time, until, joins), end, new)
        timer.time = time = end
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


class OnNodes:
    name, kind, round_seconds = "on-nodes", "adaptive", 100.0

    def __init__(self, **places):
        self.places = {name: Placement("a", nodes) for name, nodes in places.items()}

    def schedule(self, now):
        return {name: self.places[name] for name in now.jobs}


@pytest.mark.parametrize("slowdown", [0.0, 0.5])
def test_both_run_slower_until_one_is_gone(slowdown):
    """One unit a second and GPU; x has 450 units, y 1,000, and their nodes overlap; z is on one node."""
    apps = {
        name: CountProfile(name, 0.0, work, [2], {"a": [2.0]}) for name, work in (("s", 450), ("l", 1000))
    }
    jobs = [JobSubmission(name, 0.0, "", app) for name, app in (("x", "s"), ("y", "l"), ("z", "l"))]
    policy = OnNodes(x=((0, 1), (1, 1)), y=((1, 1), (2, 1)), z=((1, 2),))
    scenario = Scenario(Cluster([GpuType("a", 4, 3)]), jobs, apps)
    simulator = Simulator(scenario, policy, placer=SiaPlacer(), interference=SharedNodes(slowdown))
    list(simulator.run())
    results = {job.name: job for job in simulator.job_results()}
    if slowdown:  # x ends at 450, y makes the other 550 at full speed
        assert [results[name].finished for name in "xyz"] == pytest.approx([450, 450 + 275, 500])
    else:
        assert [results[name].finished for name in "xyz"] == pytest.approx([225, 500, 500])
    for job in results.values():
        held = [one for one in simulator.segments if one.job == job.name]
        assert len(held) == 1 and held[0].begin == 0.0 and held[0].end == job.finished
        assert job.gpu_seconds == pytest.approx(2 * job.finished)
