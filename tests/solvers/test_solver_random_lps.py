"""Random programs with every kind of row and bound: both inner solvers against HiGHS and the twins."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ProximalPoint
from copter.solvers.proximal.solver import USUAL
from copter.solvers.proximal.tuning import ProximalTuning, ScreeningTuning
from support.amounts import seeds
from support.numpy_twins import INF, verify
from support.strategies import (
    KINDS,
    PlainProgram,
    PlainRequest,
    make_infeasible,
    random_plain,
)

#: inner solver and the tolerance it is asked for, and then held to
INNERS = [("newton", 1e-6), ("cd", 1e-4), ("auto", 1e-6)]
PATIENCE = 600.0
"""Seconds; a solve takes milliseconds."""


SCREENED = ProximalTuning(screening=ScreeningTuning(screen_from=0))
"""Small programs are screened by prices too, as large ones are."""


def check(plain: PlainProgram, inner: str, tolerance: float, tuning: ProximalTuning = USUAL) -> str:
    program = plain.build()
    solver = ProximalPoint(inner=inner, tolerance=tolerance, time_limit=PATIENCE, tuning=tuning)
    solution = solver.solve(program)
    return verify(solution, program, plain.model(), tolerance)


@pytest.mark.parametrize(("inner", "tolerance"), INNERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(5, 25))
def test_feasible_and_bounded(seed, kind, inner, tolerance):
    rng = np.random.default_rng([seed, len(kind)])
    assert check(random_plain(rng, kind), inner, tolerance) == "optimal"


@pytest.mark.parametrize(("inner", "tolerance"), INNERS[:2])
@pytest.mark.parametrize("seed", seeds(8, 40))
def test_infeasible(seed, inner, tolerance):
    rng = np.random.default_rng([seed, 99])
    plain = random_plain(rng, str(rng.choice(KINDS)))
    make_infeasible(rng, plain)
    assert check(plain, inner, tolerance) == "infeasible"


# ---- degenerate ones -----------------------------------------------------------------------------------


def assignment(n: int, rng: np.random.Generator) -> PlainProgram:
    """n workers, n tasks, few different costs: optima are many, and every vertex is degenerate."""
    plain = PlainProgram({i: (1.0, 1.0) for i in range(n)})
    for k in range(n):
        usage = {i: {i: 1.0} for i in range(n)}
        plain.requests[k] = PlainRequest(rng.integers(0, 4, n).astype(float).tolist(), usage, 1.0, "==")
    return plain


def transport(n: int, rng: np.random.Generator) -> PlainProgram:
    """Supplies equal demands: rows and sum rows depend on each other."""
    demand = rng.integers(1, 5, n).astype(float)
    plain = PlainProgram({i: (d, d) for i, d in enumerate(demand.tolist())})
    supply = rng.permutation(demand).tolist()
    for k, s in enumerate(supply):
        usage = {i: {i: 1.0} for i in range(n)}
        plain.requests[k] = PlainRequest(rng.integers(1, 9, n).astype(float).tolist(), usage, s, "==")
    return plain


def redundant(n: int, rng: np.random.Generator) -> PlainProgram:
    """The same row n times, its columns twice in each request, costs that tie."""
    plain = PlainProgram({i: (-INF, 4.0) for i in range(n)} | {"equal": (4.0, 4.0)})
    for k in range(n):
        sizes = {j: float(1 + j % 3) for j in range(6)}
        usage = {i: dict(sizes) for i in plain.resources}
        plain.requests[k] = PlainRequest([-1.0, -2.0, -3.0] * 2, usage, 1.0, upper=[1.0] * 6)
    return plain


def tight(n: int, rng: np.random.Generator) -> PlainProgram:
    """One feasible point: capacities at zero, totals at zero, closed and fixed columns."""
    plain = PlainProgram({"zero": (-INF, 0.0), "both": (0.0, 0.0), "full": (2.0, 2.0)})
    for k in range(n):
        plain.requests[k] = PlainRequest([-1.0] * 10, {"zero": {j: 1.0 for j in range(10)}}, 1.0)
        plain.requests[-k - 1] = PlainRequest([-5.0, 1.0], {"both": {0: 1.0}}, 0.0, "==")
    plain.requests["closed"] = PlainRequest([-9.0] * 3, {"full": {0: 1.0}}, upper=0.0)
    plain.requests["fixed"] = PlainRequest([3.0] * 2, {"full": {0: 1.0, 1: 1.0}}, 2.0, "==", [1.0, 1.0])
    return plain


@pytest.mark.parametrize(("inner", "tolerance"), INNERS)
@pytest.mark.parametrize("family", [assignment, transport, redundant, tight])
@pytest.mark.parametrize("n", [3, 12])
def test_degenerate(n, family, inner, tolerance):
    assert check(family(n, np.random.default_rng(n)), inner, tolerance) == "optimal"


# ---- screened columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("inner", "tolerance"), INNERS[:2])
@pytest.mark.parametrize("kind", ["wide", "mixed", "degenerate"])
@pytest.mark.parametrize("seed", range(12))
def test_screened(seed, kind, inner, tolerance):
    rng = np.random.default_rng([seed, 8])
    assert check(random_plain(rng, kind), inner, tolerance, SCREENED) == "optimal"


@pytest.mark.parametrize(("inner", "tolerance"), INNERS[:2])
@pytest.mark.parametrize("seed", range(12))
def test_screened_without_an_optimum(seed, inner, tolerance):
    rng = np.random.default_rng([seed, 9])
    plain = random_plain(rng, "wide")
    make_infeasible(rng, plain)
    assert check(plain, inner, tolerance, SCREENED) == "infeasible"


@pytest.mark.parametrize(("inner", "tolerance"), INNERS)
def test_columns_that_only_feasibility_asks_for(inner, tolerance):
    """The row is met by dear columns alone: prices of optimality never point at them."""
    n = 40
    costs = np.linspace(1.0, 2.0, n).tolist()
    costs[-1] = 500.0
    plain = PlainProgram({"need": (3.0, INF)})
    for k in range(4):
        plain.requests[k] = PlainRequest(list(costs), {"need": {n - 1: 1.0}}, 1.0, "==")
    assert check(plain, inner, tolerance, SCREENED) == "optimal"
