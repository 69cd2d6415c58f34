"""Certificates: recomputed with numpy from the model alone, held against HiGHS and all integral points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, Status
from copter.proof.certificate import certify
from copter.store.allocation import SparseX, dense_to_sparse, row_activity
from support.amounts import seeds
from support.numpy_twins import INF, certificate, reference
from support.strategies import KINDS, PlainProgram, PlainRequest, random_plain

NOTHING = SparseX(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def sparse(program: ContinualProgram, x: np.ndarray) -> SparseX:
    slots = program.request_slots
    return dense_to_sparse(slots, program.store.requests.n_columns[slots], x)


def by_slot(program: ContinualProgram, y: np.ndarray) -> np.ndarray:
    spread = np.zeros(program.store.rows.size)
    spread[program.resource_slots] = y
    return spread


def shuffled(plain: PlainProgram, rng: np.random.Generator) -> ContinualProgram:
    """The program, built through removals and drops, so that slots are in no order."""
    program = ContinualProgram()
    for k in range(5):
        program.add_resource(("old", k), 1.0)
        program.add_request(("old", k), [1.0] * 4, {("old", k): 1.0}, total=1)
    for k in rng.permutation(5).tolist():
        program.remove_request(("old", k))
        program.remove_resources(("old", k))
    return plain.build(program)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_any_point_and_any_prices(kind, seed):
    """Also infeasible points, and prices of either sign on bounds that do not exist."""
    rng = np.random.default_rng([seed, 11])
    plain = random_plain(rng, kind)
    program, model = shuffled(plain, rng), plain.model()
    optimum = reference(model).objective
    for scale in (0.0, 1.0, 100.0):
        x = scale * rng.normal(size=model.c.size) * (rng.random(model.c.size) < 0.6)
        y = scale * rng.normal(size=model.row_lower.size)
        found, wanted = (
            certify(program.store, sparse(program, x), by_slot(program, y)),
            certificate(model, x, y),
        )
        near = {"rel": 1e-10, "abs": 1e-9 * (1 + scale)}
        assert found.objective == pytest.approx(wanted.objective, **near)
        assert wanted.bound - near["abs"] - wanted.rounding <= found.bound <= wanted.bound
        assert found.absolute.primal == pytest.approx(wanted.primal, **near)
        assert found.bound <= optimum + 1e-9 * (1 + abs(optimum))


@pytest.mark.parametrize("kind", KINDS)
def test_optimal_prices_of_highs_certify_its_optimum(kind):
    """The sign convention of prices is the usual one: p = c + A'y, y > 0 on a binding upper bound."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(17)
    plain = random_plain(rng, kind)
    model = plain.model()
    sums, low, high = model.sum_rows()
    equal, above = np.flatnonzero(low == high), np.flatnonzero(low != high)
    below = np.flatnonzero(np.isfinite(model.row_upper))
    over = np.flatnonzero(np.isfinite(model.row_lower))
    dense, inner = model.A.toarray(), sums.toarray()
    result = linprog(
        model.c,
        A_ub=np.vstack((dense[below], -dense[over], inner[above])),
        b_ub=np.concatenate((model.row_upper[below], -model.row_lower[over], high[above])),
        A_eq=inner[equal],
        b_eq=high[equal],
        bounds=np.column_stack((np.zeros(model.c.size), model.upper)),
    )
    y = np.zeros(model.row_lower.size)
    y[below] -= result.ineqlin.marginals[: below.size]
    y[over] += result.ineqlin.marginals[below.size : below.size + over.size]
    program = plain.build()
    found = certify(program.store, sparse(program, result.x), by_slot(program, y))
    assert found.within(1e-7)
    assert found.bound <= result.fun + 1e-9 * (1 + abs(result.fun))
    assert found.bound == pytest.approx(result.fun, abs=1e-6 * (1 + abs(result.fun)))


@pytest.mark.parametrize("seed", seeds(3, 12))
def test_the_bound_holds_for_every_integral_point(seed):
    rng = np.random.default_rng([seed, 5])
    plain = PlainProgram()
    for i in range(2):
        plain.resources[i] = (-INF, float(rng.integers(2, 6)))
    for q in range(4):
        usage = {i: {j: float(rng.integers(1, 4)) for j in range(3)} for i in range(2)}
        relation = str(rng.choice(["<=", "=="]))
        plain.requests[q] = PlainRequest([*(-rng.random(2)), 0.0], usage, 1.0, relation, integral=True)
        if relation == "==":  # a way out, so that it stays feasible
            for i in range(2):
                usage[i].pop(2)
    model = plain.model()
    best = INF
    for choice in itertools.product(range(4), repeat=4):  # column 3: none
        x = np.zeros(12)
        x[[3 * q + j for q, j in enumerate(choice) if j < 3]] = 1.0
        if certificate(model, x, np.zeros(2)).primal == 0:
            best = min(best, float(model.c @ x))
    assert best == pytest.approx(reference(model, integral=True).objective)
    program = plain.build()
    solution = ProximalPoint(tolerance=1e-7).solve(program)
    assert solution.status is Status.OPTIMAL
    assert solution.bound <= best + 1e-9
    for y in rng.normal(size=(20, 2)):
        assert certify(program.store, NOTHING, by_slot(program, abs(y))).bound <= best + 1e-9


def test_a_price_of_the_wrong_sign_counts_as_none():
    program = ContinualProgram()
    program.add_resource("only below", INF, lower=1.0)
    program.add_request("q", [1.0], {"only below": 1.0}, upper=4.0)
    x = sparse(program, np.array([1.0]))
    right, wrong = certify(program.store, x, np.array([-1.0])), certify(program.store, x, np.array([0.5]))
    assert (right.bound, right.within(1e-9)) == (pytest.approx(1.0), True)
    assert right.bound <= 1.0
    assert (wrong.bound, wrong.relative.gap) == (0.0, 1.0)


def test_any_prices_have_a_finite_bound():
    program = ContinualProgram()
    program.add_request("q", [3.0, -4.0, 0.0], {}, upper=2.0)
    found = certify(program.store, NOTHING, np.zeros(0))
    assert (found.objective, found.bound) == (0.0, pytest.approx(-8.0)) and found.bound <= -8.0
    assert not found.within(0.5)


def test_nothing_within_a_tolerance_is_nan():
    program = ContinualProgram()
    program.add_request("q", [1.0], {}, total=1.0, relation="==", upper=0.5)
    found = certify(program.store, NOTHING, np.zeros(0))
    assert found.bound == INF
    assert not found.within(0.999)


def test_row_activity():
    rng = np.random.default_rng(2)
    plain = random_plain(rng, "mixed")
    program, model = shuffled(plain, rng), plain.model()
    x = rng.normal(size=model.c.size)
    activity = row_activity(program.store, sparse(program, x))
    np.testing.assert_allclose(activity[program.resource_slots], model.A @ x, atol=1e-12)


# ---- solutions ---------------------------------------------------------------------------------------


def test_sparse_x_ascends_by_slot_and_column():
    x = dense_to_sparse(np.array([7, 2, 4]), np.array([2, 3, 1]), np.array([0.0, 5.0, 1.0, 0.0, 3.0, 0.0]))
    assert [part.tolist() for part in x] == [[2, 2, 7], [0, 2, 1], [1.0, 3.0, 5.0]]
