"""Rounds of small programs: what is compiled into few calls does what its parts say, and needs few passes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from copter import ContinualProgram, ProximalPoint, Status
from copter.solution import CHURN_THRESHOLD, churn
from copter.solvers.inner.gather import lightest, union
from copter.store.allocation import SparseX

KEYS = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=30)
VALUES = st.dictionaries(
    st.tuples(st.integers(0, 9), st.integers(0, 4)), st.sampled_from([0.1, 0.5, 0.5004, 0.9]), max_size=30
)


def arrays(keys):
    ordered = sorted(keys)
    slot, column = (np.array([key[k] for key in ordered], np.int64) for k in (0, 1))
    return slot, column


def sparse(values):
    return SparseX(*arrays(values), np.array([values[key] for key in sorted(values)]))


@given(KEYS, KEYS)
def test_union_is_that_of_sets(one, other):
    slot, column = union(*arrays(one), *arrays(other))
    assert list(zip(slot.tolist(), column.tolist(), strict=True)) == sorted(one | other)


@given(VALUES, VALUES, st.sets(st.integers(0, 9)))
def test_churn_is_that_of_dictionaries(old, new, gone):
    last = sparse(old)
    marked = last._replace(slot=np.where(np.isin(last.slot, list(gone)), -1 - last.slot, last.slot))
    before = {(-1 - slot if slot in gone else slot, column): v for (slot, column), v in old.items()}
    entries = before.keys() | new.keys()
    changed = sum(abs(before.get(key, 0.0) - new.get(key, 0.0)) > CHURN_THRESHOLD for key in entries)
    assert churn(marked, sparse(new)) == (changed / len(entries) if entries else 0.0)
    assert churn(None, sparse(new)) == float(bool(new))


def choices(jobs=24, columns=30, seed=0):
    """A packing of jobs with one choice each, and what to replace them by."""
    rng, program = np.random.default_rng(seed), ContinualProgram()
    for row in range(3):
        program.add_resource(row, 2.0 * jobs)
    uses = {
        row: np.where(np.arange(columns) % 3 == row, 1.0 + np.arange(columns) // 3, 0.0) for row in range(3)
    }
    template = program.share_columns({row: use.tolist() for row, use in uses.items()}, columns)

    def add(name):
        costs = rng.uniform(0.5, 1.5, columns) / np.sqrt(1.0 + np.arange(columns) // 3)
        program.add_request(name, costs, template, total=1.0, relation="==")

    for job in range(jobs):
        add(job)
    return program, add


def test_a_set_of_all_columns_leaves_nothing_for_a_third_pass():
    program, add = choices()
    passes = []
    solver = ProximalPoint(tolerance=1e-4, callback=lambda _, proof: passes.append(proof.relative.gap))
    for step in range(5):
        passes.clear()
        assert solver.solve(program).status is Status.OPTIMAL
        assert len(passes) == 2 and passes[1] <= 1e-4 < passes[0]
        program.remove_request(program.request_ids[step])
        add(("new", step))
    passes.clear()
    program.update_resources(0, upper=50.0)  # of which enough is left
    assert solver.solve(program).iterations >= 0 and len(passes) <= 2


def test_the_lightest_column_is_that_of_each_request():
    program, _ = choices(5, 12)
    program.add_request("own", np.ones(10), {0: np.arange(10.0, 0.0, -1.0).tolist()}, total=1.0)
    program.add_request("free", np.ones(10), {0: [1.0] * 10}, upper=1e3)  # no sum row
    program.add_request("few", np.ones(3), {0: [1.0] * 3}, total=1.0)  # all its columns are looked at anyway
    slot, column = lightest(program.store)
    assert dict(zip(slot.tolist(), column.tolist(), strict=True)) == {
        program.slot_of[job]: 9 if job == "own" else 0 for job in (*range(5), "own")
    }
