"""Baselines of rigid jobs in the simulator: shares become rounds; first come, Optimus, Tiresias by hand."""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.nodes import NodeChange
from copter.problems.cluster.policy import ClusterState, PolicyError
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.workload import JobSubmission
from copter.problems.policies import FirstCome, Mechanism, Optimus, Tiresias, look
from support.amounts import examples
from support.policy_cases import cluster_of, random_scenario, round_of, scenario_of, simulate, state_of

NAMES = (
    "allox",
    "gandiva-fair",
    "gavel",
    "gavel-ftf",
    "gavel-makespan",
    "gavel-max-sum",
    "ossp",
    "srpt",
    "themis",
)


class Fixed(Mechanism):
    """Shares that a test sets, by name."""

    name = "fixed"

    def __init__(self, shares):
        super().__init__()
        self.by_name = shares

    def shares(self, now):
        return np.array([self.by_name[name] for name in now.names])


def hours_by_type(simulator):
    held = defaultdict(float)
    for segment in simulator.segments:
        held[segment.job, segment.type] += segment.end - segment.begin
    return held


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_rounds_follow_the_shares(share):
    """Two jobs, one GPU of each type: each job is on each type for its share of the time."""
    jobs = [(name, (1.0, 1.0), 1, 1e6, 0.0) for name in ("a", "b")]
    source = Fixed({"a": [share, 1 - share], "b": [1 - share, share]})
    run = simulate(scenario_of(cluster_of(1, 1), jobs), source, max_hours=40.0)
    held = hours_by_type(run)
    total = sum(held["a", f"t{k}"] for k in (0, 1))
    assert held["a", "t0"] / total == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_no_gpu_idles_while_a_job_fits(name, seed):
    scenario = random_scenario(seed)
    policy = make_policy(name)
    schedule, sizes = policy.schedule, scenario.cluster.capacity

    def watched(now):
        answer = schedule(now)
        free = dict(sizes)
        for configuration in answer.values():
            free[configuration.type] -= configuration.gpus
        for job in look(now).jobs:
            if job.name not in answer:
                runs = [
                    t for t, n in free.items() if job.gpus <= n and job.speed(now.cluster.packed(t, job.gpus))
                ]
                assert not runs
        return answer

    policy.schedule = watched
    run = simulate(scenario, policy)
    assert run.completed == len(scenario.jobs)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_alone_runs_on_its_quickest_type(name):
    run = simulate(scenario_of(cluster_of(2, 2), [("a", (1.0, 2.0), 2, 1000.0, 0.0)]), make_policy(name))
    assert run.job_results()[0].jct == pytest.approx(20.0 + 500.0)
    assert {segment.type for segment in run.segments} == {"t1"}


def test_a_job_moves_only_if_that_is_worth_the_restart():
    near, far = state_of("near", [1.0, 1.1]), state_of("far", [1.0, 3.0], work=1e5)
    for state in (near, far):
        state.profile.restart_seconds = 200.0
        state.allocation = cluster_of(1, 1).packed("t0", 1)
    now = round_of(cluster_of(1, 1), [near, far])
    assert now.preferences(0) == [0, 1]
    assert now.preferences(1) == [1, 0]


def test_adaptive_jobs_are_refused_by_name():
    state = state_of("a", [1.0])
    state.gpus, state.kind = None, "adaptive"
    with pytest.raises(PolicyError, match="job 'a': kind = adaptive: must be rigid"):
        look(ClusterState(0.0, 0, 360.0, cluster_of(1), {"a": state}))


def test_a_job_that_does_not_fit_blocks_those_behind_it():
    sizes = {"first": 2, "large": 3, "small": 1}
    jobs = [(name, (1.0,), gpus, 500.0, float(k)) for k, (name, gpus) in enumerate(sizes.items())]
    run = simulate(scenario_of(cluster_of(3), jobs), FirstCome(round_seconds=60.0))
    first, large, small = run.job_results()
    assert (first.started, first.finished) == (0.0, 520.0)
    assert (large.started, large.finished) == (540.0, 1060.0)
    assert small.started == 1080.0


def test_a_job_takes_the_type_with_room_on_which_it_is_fastest():
    jobs = [(name, (1.0, 2.0), 1, 5000.0, float(k)) for k, name in enumerate("abc")]
    run = simulate(scenario_of(cluster_of(2, 1), jobs), FirstCome(round_seconds=60.0))
    types = {segment.job: segment.type for segment in run.segments}
    assert types == {"a": "t1", "b": "t0", "c": "t0"}


GPUS = 6


def state_of_optimus(name, curve, work, types=("t0",), kind="strong-scaling", gpus=None):
    """A job with a throughput for each number of GPUs from 1 on; None where it does not run."""
    counts = [k for k, value in enumerate(curve, 1) if value]
    profile = CountProfile(name, 0.0, work, counts, {type: [v for v in curve if v] for type in types})
    submission = JobSubmission(name, 0.0, "", name, kind, gpus)
    return SimulatedJob(submission, profile, kind, Timer())


def answer(cluster, *states):
    jobs = {state.name: state for state in states}
    return Optimus().schedule(ClusterState(0.0, 0, 60.0, cluster, jobs))


@st.composite
def curves(draw):
    """Throughput n^a: seconds left are convex in n."""
    power = draw(st.sampled_from([0.2, 0.5, 0.8, 1.0]))
    return [n**power for n in range(1, GPUS + 1)], draw(st.floats(10.0, 1000.0))


@given(jobs=st.lists(curves(), min_size=1, max_size=4))
@settings(deadline=None, max_examples=examples(60))
def test_the_time_left_in_all_is_least(jobs):
    states = [state_of_optimus(f"j{k}", curve, work) for k, (curve, work) in enumerate(jobs)]
    given_ = answer(Cluster([GpuType("t0", GPUS, 1)]), *states)
    total = sum(work / curve[given_[f"j{k}"].gpus - 1] for k, (curve, work) in enumerate(jobs))
    best = min(
        sum(work / curve[n - 1] for n, (curve, work) in zip(counts, jobs, strict=True))
        for counts in product(range(1, GPUS + 1), repeat=len(jobs))
        if sum(counts) <= GPUS
    )
    assert total == pytest.approx(best)


def test_a_job_does_not_grow_past_a_number_that_makes_it_slower():
    """Five GPUs are slower than four, so it never gets to eight, where it is fastest: one GPU at a time."""
    curve = [1.0, 1.9, 2.7, 3.5, 3.0, 3.6, 4.2, 5.0]
    assert answer(Cluster([GpuType("t0", 4, 2)]), state_of_optimus("a", curve, 100.0))["a"].gpus == 4


def test_a_job_is_put_on_the_type_with_more_room():
    cluster = Cluster([GpuType("t0", 1, 2), GpuType("t1", 1, 4)])
    given_ = answer(cluster, state_of_optimus("a", [1.0, 2.0, 3.0, 4.0], 100.0, types=("t0", "t1")))
    assert given_["a"] == (4, 4, "t1")


def held(simulator):
    """When each job held GPUs, from and to, in order."""
    spans = {}
    for one in sorted(simulator.segments, key=lambda one: one.begin):
        spans.setdefault(one.job, []).append((one.begin, one.end))
    return spans


def test_a_job_that_has_had_its_service_makes_way():
    """Restarts of 20 s: the first job is at its limit of 600 GPU-seconds after 10 rounds."""
    jobs = [("long", (1.0,), 1, 2000.0, 0.0), ("short", (1.0,), 1, 100.0, 0.0)]
    spans = held(simulate(scenario_of(cluster_of(1), jobs), Tiresias(limits=(600.0,))))
    assert spans["long"][0] == (0.0, 600.0)
    assert spans["short"] == [(600.0, 720.0)]
    assert spans["long"][1:] == [(720.0, 720.0 + 20.0 + 1420.0)]


def test_in_a_queue_the_first_come_first_and_small_ones_fill_up():
    jobs = [("a", (1.0,), 2, 500.0, 0.0), ("b", (1.0,), 2, 500.0, 1.0), ("c", (1.0,), 1, 500.0, 2.0)]
    spans = held(simulate(scenario_of(cluster_of(3), jobs), Tiresias()))
    assert spans["a"] == [(0.0, 520.0)]
    assert spans["c"] == [(60.0, 580.0)]  # passes b, which does not fit
    assert spans["b"] == [(540.0, 1060.0)]


def test_an_earlier_job_takes_its_gpus_back():
    """The wide job came first: when there is room for it again it goes before the narrow ones."""
    jobs = [("wide", (1.0,), 3, 3000.0, 0.0), ("thin", (1.0,), 1, 3000.0, 30.0)]
    events = [NodeChange(120.0, "t0", 2), NodeChange(540.0, "t0", 3)]
    simulator = simulate(scenario_of(cluster_of(3), jobs), Tiresias(), events=events)
    spans = held(simulator)
    assert spans["wide"][0] == (0.0, 120.0)
    assert spans["thin"][0] == (120.0, 540.0)
    assert spans["wide"][1][0] == 540.0


def test_limits_must_ascend():
    with pytest.raises(ValueError, match="ascending"):
        Tiresias(limits=(600.0, 60.0))
