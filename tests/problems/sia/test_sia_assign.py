"""Taking over a shim's choice: the same from arrays by slot as from a mapping by job."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.sia import SiaJob, SiaPolicy
from copter.shims.choose_one import Choice
from support.amounts import examples
from support.sia_cases import PAIR, table


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
