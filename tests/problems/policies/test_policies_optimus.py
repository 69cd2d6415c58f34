"""Optimus: the greedy allocation against brute force where curves are concave, and its behaviour on steps."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.workload import JobSubmission
from copter.problems.policies import Optimus
from support.amounts import examples

GPUS = 6


def state_of(name, curve, work, types=("t0",), kind="strong-scaling", gpus=None):
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
    states = [state_of(f"j{k}", curve, work) for k, (curve, work) in enumerate(jobs)]
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
    assert answer(Cluster([GpuType("t0", 4, 2)]), state_of("a", curve, 100.0))["a"].gpus == 4


def test_a_job_is_put_on_the_type_with_more_room():
    cluster = Cluster([GpuType("t0", 1, 2), GpuType("t1", 1, 4)])
    given_ = answer(cluster, state_of("a", [1.0, 2.0, 3.0, 4.0], 100.0, types=("t0", "t1")))
    assert given_["a"] == (4, 4, "t1")
