"""The Sia policy: what each kind of job may choose, nodes that come and go, how a choice is taken over."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.sia import Cluster, Configuration, GpuType, InfeasibleRoundError, SiaJob, SiaPolicy
from copter.shims.choose_one import Choice
from copter.solvers.registry import make_solver
from support.amounts import examples
from support.sia_cases import BIG, LAM, PAIR, RISING, columns, force, gpus, make, milp, table

# ---- what a job may choose ---------------------------------------------------------------------------


def test_a_job_starts_with_its_smallest_and_at_most_doubles():
    policy = make(BIG)
    policy.submit(SiaJob("J", RISING))
    seen = []
    for k in range(1, 7):
        policy.round(milp(), 60.0 * k)
        seen.append(policy.allocation["J"].gpus)
    assert seen == [1, 2, 4, 8, 16, 16]


def test_a_job_without_gpus_starts_again_from_its_smallest():
    policy = make(BIG)
    policy.submit(SiaJob("J", RISING))
    force(policy, 60.0, J=Configuration(1, 1, "B"))
    force(policy, 120.0, J=Configuration(1, 2, "A"))
    force(policy, 180.0, J=None)
    policy.apply(240.0)
    assert gpus(policy, "J") == [None, ("A", 1), ("B", 1)]
    assert policy.program.requests["J"].costs == pytest.approx([LAM, 1.0, 1.0])  # no discount without GPUs


def test_restarting_jobs_are_pinned_until_they_run():
    policy = make(PAIR)
    policy.submit(SiaJob("J", table([1.0, 2.0, 1.0, 2.0, 4.0], seconds=100.0)))
    force(policy, 60.0, J=Configuration(1, 1, "A"))
    policy.apply(120.0)
    assert gpus(policy, "J") == [("A", 1)]
    policy.apply(160.0)
    assert gpus(policy, "J") == [None, ("A", 1), ("A", 2), ("B", 1), ("B", 2)]


def test_rigid_jobs_choose_among_types():
    policy = make(BIG)
    policy.submit(SiaJob("J", RISING, kind="rigid", gpus=8))
    policy.apply(60.0)
    assert gpus(policy, "J") == [None, ("A", 8), ("B", 8)]
    assert policy.program.requests["J"].costs == pytest.approx([LAM, 8**-0.5, 8**-0.5])  # N_min is 8


def test_strong_scaling_jobs_are_given_their_throughput():
    scaling = Scaling(16.0, (0.5, 50.0), 0.2, (0.1, 0.5))
    profile = TrainingProfile("m", 0.0, 100.0, {"A": 1.0, "B": 2.0}, scaling)
    policy = make(BIG, p=1.0, scale_up_limit=None)
    policy.submit(SiaJob("J", profile, kind="strong-scaling"))
    policy.apply(60.0)
    found = BIG.configurations
    throughput = replace(scaling, m_max=1.0).speedup(found.gpus, found.nodes, 0.0)
    throughput *= np.where(found.type_index == 0, 1.0, 2.0)
    assert policy.program.requests["J"].costs[1:] == pytest.approx(-throughput / throughput.min())


def test_reserved_jobs_are_given_gpus():
    # Without the reservation the best answer leaves J without GPUs: lambda is small and K is worth more.
    policy = make(Cluster([GpuType("A", 1, 1)]), p=1.0, lam=0.0)
    one = Cluster([GpuType("A", 1, 1)])
    policy.submit(SiaJob("K", table([5.0], one)))
    policy.submit(SiaJob("J", table([5.0], one), reserved=True))
    policy.apply(60.0)
    assert gpus(policy, "J") == [("A", 1)]
    assert policy.round(milp(), 60.0).allocation == {"K": None, "J": Configuration(1, 1, "A")}


def test_reservations_that_do_not_fit_are_an_error():
    one = Cluster([GpuType("A", 1, 1)])
    policy = make(one)
    policy.submit(SiaJob("J", table([5.0], one), reserved=True))
    policy.submit(SiaJob("K", table([5.0], one), reserved=True))
    with pytest.raises(InfeasibleRoundError, match="at 60 s"):
        policy.round(milp(), 60.0)


def test_a_shim_that_leaves_a_pinned_job_out_is_an_error_and_changes_nothing():
    policy = make(PAIR)
    for name in ("J", "K"):
        policy.submit(SiaJob(name, table([1.0, 2.0, 1.0, 2.0, 4.0]), preemptible=name == "J"))
    force(policy, 60.0, K=Configuration(1, 1, "A"))
    policy.apply(120.0)
    with pytest.raises(InfeasibleRoundError, match="'K' must have GPUs"):
        policy.assign({"J": 1, "K": -1}, 120.0)
    assert policy.allocation == {"J": None, "K": Configuration(1, 1, "A")}


# ---- nodes come and go -------------------------------------------------------------------------------


def test_pins_of_restarts_are_released_when_nodes_vanish():
    policy = make(BIG, scale_up_limit=None)
    profile = table(list(BIG.configurations.gpus.astype(float)), BIG, seconds=500.0)
    for name in ("J", "K"):
        policy.submit(SiaJob(name, profile))
    force(policy, 60.0, J=Configuration(2, 8, "A"))
    force(policy, 120.0, J=Configuration(2, 8, "A"), K=Configuration(2, 8, "A"))
    policy.set_nodes("A", 2)
    done = policy.round(milp(), 180.0)
    assert done.released == ["K"]  # the younger restart
    assert done.allocation["J"] == Configuration(2, 8, "A")
    assert done.allocation["K"] != Configuration(2, 8, "A")


def test_non_preemptible_jobs_on_vanished_nodes_are_an_error():
    policy = make(BIG, scale_up_limit=None)
    for name in ("J", "K"):
        policy.submit(SiaJob(name, RISING, preemptible=False))
    force(policy, 60.0, J=Configuration(1, 8, "B"), K=Configuration(1, 8, "B"))
    policy.set_nodes("B", 1)
    with pytest.raises(InfeasibleRoundError, match=r"'B': 8 GPUs.*hold 16"):
        policy.apply(120.0)


def test_a_round_that_failed_leaves_nothing_behind():
    """r loses what it can run on: no edit may survive, not even those of the jobs that came before it."""
    policy, solver = make(BIG, scale_up_limit=None), milp()
    only_big = np.where((BIG.configurations.type_index == 1) & (BIG.configurations.gpus == 16), 5.0, 0.0)
    rising = BIG.configurations.gpus.astype(float)
    policy.submit(SiaJob("a", table([rising, rising**0.9], BIG)))
    policy.submit(SiaJob("b", table([rising, rising**0.9], BIG)))
    policy.submit(SiaJob("r", table(only_big, BIG), reserved=True))
    assert policy.round(solver, 60.0).allocation["r"] == Configuration(2, 16, "B")
    policy.set_nodes("B", 1)
    policy.update_levels(["a", "b"], [1, 1])
    policy.submit(SiaJob("c", RISING))
    with pytest.raises(InfeasibleRoundError, match="'r' is reserved"):
        policy.round(solver, 120.0)
    assert policy.program.request_ids == ["a", "b", "r"]
    assert policy.program.resources["B"] == (-np.inf, 16.0)
    policy.complete("a")
    policy.set_nodes("B", 2)
    done = policy.round(solver, 180.0)
    assert done.allocation["r"] == Configuration(2, 16, "B")
    assert policy.program.request_ids == ["b", "r", "c"]
    four = columns(policy, "b").index(Configuration(1, 4, "A"))
    assert policy.program.requests["b"].costs[four] == pytest.approx(
        (4**0.9) ** -0.5
    )  # no restart seconds: factor 1


def test_a_pin_that_is_released_keeps_the_scale_up_limit():
    policy = make(BIG)
    rising = BIG.configurations.gpus.astype(float)
    without = rising.copy()
    without[BIG.configurations.index(Configuration(1, 2, "A"))] = 0.0
    policy.submit(SiaJob("J", table([rising, without], BIG, seconds=500.0)))
    force(policy, 60.0, J=Configuration(1, 1, "A"))
    policy.update("J", restarting_until=0.0)
    force(policy, 120.0, J=Configuration(1, 2, "A"))
    policy.update("J", level=1)
    policy.apply(180.0)  # still restarting, but its level cannot run on 2 GPUs any more
    assert gpus(policy, "J") == [None, ("A", 1), ("A", 4), ("B", 1), ("B", 2), ("B", 4)]


def test_a_baseline_s_time_is_its_own_clock():
    policy = make(PAIR)
    policy.submit(SiaJob("J", table([2.0, 8.0, 4.0, 8.0, 32.0])))
    done = policy.round(milp(), 60.0)
    timings = done.solution.timings
    assert (done.edit_seconds, done.solve_seconds) == (timings.edit, timings.solve)
    assert done.store_seconds > 0 and done.certify_seconds > 0
    done = policy.round(make_solver("copter"), 120.0)
    assert done.edit_seconds >= done.store_seconds > 0
    assert done.certify_seconds == pytest.approx(0.0, abs=1e-9)


def policy_of(seed):
    """A policy after two rounds of random choices: jobs that run, wait, restart, and must have GPUs."""
    rng = np.random.default_rng(seed)
    policy = SiaPolicy(PAIR, scale_up_limit=None)
    for k in range(6):
        goodput = np.sort(rng.uniform(1.0, 5.0, 5))
        policy.submit(SiaJob(f"job {k}", table(goodput, seconds=float(rng.choice([0.0, 90.0])))))
    policy.submit(SiaJob("reserved", table(np.arange(1.0, 6.0)), reserved=True))
    for now in (0.0, 60.0):
        policy.apply(now)
        policy.assign(drawn(policy, rng), now)
        policy.complete(policy.program.request_ids[0])
        policy.submit(SiaJob(f"late {now}", table(np.arange(1.0, 6.0))))
    policy.apply(120.0)
    return policy, rng


def drawn(policy, rng):
    """A random column of every job; capacities do not matter to who takes a choice over."""
    program = policy.program
    sizes = {job: int(program.store.requests.n_columns[slot]) for job, slot in program.slot_of.items()}
    return {job: int(rng.integers(size)) for job, size in sizes.items()}


def by_slot(policy, columns):
    program = policy.program
    array = np.full(program.store.requests.size, -1)
    for job, column in columns.items():
        array[program.slot_of[job]] = column
    return Choice.of_program(program, array)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(25), deadline=None)
def test_arrays_and_mappings_decide_the_same(seed):
    (one, rng), (other, _) = policy_of(seed), policy_of(seed)
    columns = drawn(one, rng)
    choices, before = one.choices(), one.allocation
    wanted = {}
    for job, column in columns.items():
        picked = int(choices[job].columns[column])
        wanted[job] = one.cluster.configurations[picked] if picked >= 0 else None
    changes = one.assign(columns, 120.0)
    assert other.assign(by_slot(other, columns), 120.0) == changes
    assert one.allocation == other.allocation == wanted
    assert changes == {job: wanted[job] for job in wanted if wanted[job] != before[job]}
