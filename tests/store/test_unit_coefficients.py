"""Coefficients that are all 1 are not stored, and nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array, random_array

from copter import ChooseOneShim, ContinualProgram, make_solver
from copter.durable.soundness import check_program
from copter.shims.flow import FlowShim
from copter.store.compiled import compile_program
from support.amounts import examples

ROWS, COLUMNS = 6, 4


def columns_of(rng: np.random.Generator, unit: bool) -> csc_array:
    """Columns of one request, some without entries."""
    matrix = random_array((ROWS, COLUMNS), density=0.5, rng=rng, format="csc")
    matrix.data[:] = 1.0 if unit else rng.integers(2, 9, matrix.nnz)
    return csc_array(matrix)


def stored(program: ContinualProgram, requests: dict) -> None:
    """The store has what was given, and no more coefficients than it needs."""
    given = [requests[id].toarray() for id in program.request_ids]
    built = compile_program(program).A[: len(program.resource_ids)].toarray()
    np.testing.assert_array_equal(built, np.concatenate(given, axis=1)[list(program.resource_ids)])
    pool = program.store.coefficients
    some = [matrix for matrix in requests.values() if (matrix.data != 1.0).any()]
    assert pool.used - pool.garbage == 1 + sum(matrix.nnz for matrix in some)
    check_program(program)
    for id, matrix in requests.items():
        for row, (columns, values) in program.requests[id].usage.items():
            np.testing.assert_array_equal(matrix.toarray()[row][columns], values)


@settings(deadline=None, max_examples=examples(40))
@given(seed=st.integers(0, 2**31), edits=st.lists(st.sampled_from("aur"), min_size=1, max_size=25))
def test_any_edits_leave_what_was_given(seed, edits):
    rng, program, requests = np.random.default_rng(seed), ContinualProgram(), {}
    for row in range(ROWS):
        program.add_resource(row, 1.0)
    for number, edit in enumerate(edits):
        matrix = columns_of(rng, bool(rng.integers(2)))
        if edit == "a" or not requests:
            two = [matrix, columns_of(rng, bool(rng.integers(2)))]
            ids = [f"{number} {k}" for k in range(2)]
            joined = csc_array(np.concatenate([each.toarray() for each in two], axis=1))
            program.add_requests(ids, np.zeros(2 * COLUMNS), [COLUMNS] * 2, joined, upper=1e3)
            requests |= dict(zip(ids, two, strict=True))
            continue
        chosen = sorted(requests)[int(rng.integers(len(requests)))]
        if edit == "u":
            program.update_request(chosen, costs=np.ones(COLUMNS), usage=matrix)
            requests[chosen] = matrix
        else:
            program.remove_request(chosen)
            del requests[chosen]
    if requests:
        stored(program, requests)


def test_dropped_rows_are_purged_from_usages_of_both_kinds():
    program, ones = ContinualProgram(), {}
    for row in range(200):
        program.add_resource(row, 1.0)
    rng = np.random.default_rng(5)
    for k in range(40):
        rows = np.sort(rng.choice(200, 30, replace=False))
        values = np.ones(30) if k % 2 else rng.integers(2, 9, 30).astype(float)
        program.add_request(k, [1.0], dict(zip(rows.tolist(), values.tolist(), strict=True)), upper=1e3)
        ones[k] = dict(zip(rows.tolist(), values.tolist(), strict=True))
    for row in range(150):
        program.remove_resources(row)
    assert program.store.entries.garbage > 0  # they were purged
    for k, used in ones.items():
        left = {row: values.tolist() for row, (_, values) in program.requests[k].usage.items()}
        assert left == {row: [value] for row, value in used.items() if row >= 150}
    check_program(program)


def packing(unit: float, seed: int) -> ContinualProgram:
    """Demands over paths; every second takes one unit of its rows, the others two, in any unit of rows."""
    rng, program = np.random.default_rng(seed), ContinualProgram()
    for row in range(30):
        program.add_resource(row, unit * float(rng.integers(3, 9)))
    for k in range(200):
        paths = rng.random((30, 3)) < 0.15
        paths[0] |= ~paths.any(axis=0)
        matrix = csc_array(paths * unit * (1.0 + k % 2))
        program.add_request(k, -rng.integers(1, 4, 3).astype(float), matrix, total=1, relation="<=")
    return program


@pytest.mark.parametrize("seed", range(3))
def test_answers_and_shims_do_not_depend_on_whether_coefficients_are_stored(seed):
    found = []
    for unit in (1.0, 4.0):
        program = packing(unit, seed)
        solution = make_solver("copter", tolerance=1e-9).solve(program)
        exact = make_solver("highs-simplex").solve(program)
        assert solution.objective == pytest.approx(exact.objective, rel=1e-7)
        assert abs(solution.bound) == pytest.approx(abs(exact.objective), rel=1e-7)
        flows = FlowShim().round(program, solution)
        assert (flows.load <= program.store.rows.upper[: flows.load.size] + 1e-9).all()
        one = ChooseOneShim().round(program, solution)
        # which of equal optima is rounded is left to rounding errors
        assert solution.bound <= one.objective and 0.0 <= one.gap <= 0.1
        found.append((solution.objective, flows.objective))
    assert found[0] == pytest.approx(found[1], rel=1e-7)
