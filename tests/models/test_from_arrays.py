"""Programs from scipy's arrays: rows that are totals become requests, and answers come back to the arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from scipy.sparse import csr_array

from copter import ProximalPoint, from_arrays, make_solver
from copter.errors import EditError
from support.lp_cases import random_general, scipy_form

INF = np.inf


def allocation(seed: int, relation: str = "<=") -> dict:
    """An allocation as arrays: a total for each of several blocks, shuffled among the capacities."""
    rng = np.random.default_rng([seed, 41])
    blocks, width, resources = int(rng.integers(3, 7)), int(rng.integers(2, 5)), 2
    n = blocks * width
    totals = np.kron(np.eye(blocks), np.ones(width)) * rng.integers(1, 4, blocks)[:, None]
    usage = rng.integers(0, 4, (resources, n)).astype(float)
    order = rng.permutation(n)
    given = {"c": -rng.random(n), "bounds": (0, 2)}
    if relation == "==":
        given |= {"A_ub": usage, "b_ub": usage.sum(axis=1) + 1, "A_eq": totals, "b_eq": np.ones(blocks)}
    else:
        given |= {"A_ub": np.vstack((usage[:1], totals, usage[1:]))}
        given["b_ub"] = np.concatenate(([n / 2], np.ones(blocks), [n / 2]))
    return {key: value[..., order] if key in ("c", "A_ub", "A_eq") else value for key, value in given.items()}


@pytest.mark.parametrize("relation", ["<=", "=="])
@pytest.mark.parametrize("seed", range(6))
def test_totals_of_blocks_become_requests(seed, relation):
    given = allocation(seed, relation)
    truth = scipy.optimize.linprog(**given)
    found = from_arrays(**given)
    assert len(found.program.resource_ids) == 2
    assert all(found.program.requests[request].total is not None for request in found.program.request_ids)
    for solver in (make_solver("highs-simplex"), ProximalPoint(tolerance=1e-7)):
        solution = solver.solve(found.program)
        x, y = found.solution(solution).x, found.solution(solution).y
        assert given["c"] @ x == pytest.approx(truth.fun, rel=1e-4)
        assert found.solution(solution).objective == pytest.approx(given["c"] @ x)
        assert (given["A_ub"] @ x <= given["b_ub"] + 1e-5).all() and (x >= 0).all() and (x <= 2 + 1e-5).all()
        reduced = given["c"] + np.vstack((given["A_ub"], given.get("A_eq", np.empty((0, x.size))))).T @ y
        bound = np.minimum(0, reduced) @ np.full(x.size, 2.0) - y @ np.append(
            given["b_ub"], given.get("b_eq", [])
        )
        assert bound == pytest.approx(truth.fun, rel=1e-3)


@pytest.mark.parametrize("seed", range(10))
def test_any_lp_keeps_its_optimum(seed):
    given = scipy_form(random_general(seed))
    found = from_arrays(**given)
    solution = make_solver("highs-simplex").solve(found.program)
    truth = scipy.optimize.linprog(**given)
    assert found.solution(solution).objective == pytest.approx(truth.fun, rel=1e-6, abs=1e-6)
    assert given["c"] @ found.solution(solution).x == pytest.approx(truth.fun, rel=1e-6, abs=1e-6)


def test_one_total_among_many_rows_is_enough_and_edits_are_rounds():
    A = np.vstack(([1.0, 1.0, 0.0], np.random.default_rng(2).random((4, 3)) + 0.1))
    found = from_arrays([-3.0, -1.0, -2.0], A_ub=csr_array(A), b_ub=[1, 1.5, 1.5, 1.5, 1.5])
    assert (len(found.program), found.program.resource_ids) == (2, [1, 2, 3, 4])
    solver = ProximalPoint(tolerance=1e-7)
    solver.solve(found.program)
    found.program.update_resources(3, upper=0.7)
    x = found.solution(solver.solve(found.program)).x
    truth = scipy.optimize.linprog([-3.0, -1.0, -2.0], A_ub=A, b_ub=[1, 1.5, 1.5, 0.7, 1.5])
    assert [-3.0, -1.0, -2.0] @ x == pytest.approx(truth.fun, rel=1e-5)


def test_integral_columns():
    given = {"c": [-5.0, -4.0, -3.0], "A_ub": [[2.0, 3.0, 1.0], [1.0, 1.0, 1.0]], "b_ub": [5.5, 2.0]}
    found = from_arrays(**given, bounds=[(0, 1.5), (0, 3), (-1, 3)], integrality=1)
    solution = make_solver("highs-milp", mip_gap=0.0).solve(found.program)
    truth = scipy.optimize.linprog(**given, bounds=[(0, 1.5), (0, 3), (-1, 3)], integrality=1)
    np.testing.assert_allclose(found.solution(solution).x, truth.x, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"c": [1.0, 1.0], "integrality": [1, 2]}, "column 1"),
        ({"c": [1.0], "bounds": (2, 1)}, "column 0"),
        ({"c": [1.0], "A_ub": [[1.0, 2.0]], "b_ub": [1.0]}, "A_ub"),
    ],
)
def test_what_is_no_program_is_named(given, subject):
    with pytest.raises(EditError) as caught:
        from_arrays(**given)
    assert caught.value.subject == subject
