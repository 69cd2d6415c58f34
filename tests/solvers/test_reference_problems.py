"""Every registered solver on reference programs: status, value, point, prices and their signs."""

import math

import pytest

from copter import make_solver
from copter.errors import UnsupportedError
from copter.solvers.api import SOLVERS, Feature
from support.reference_problems import REFERENCES

TOLERANCE = 1e-6
BEYOND = {("highs-pdlp", "large_usage_small_costs")}
"""Where a solver does not reach the tolerance: HiGHS' PDLP judges by norms over rows of all scales."""


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda one: one.name)
@pytest.mark.parametrize("name", SOLVERS)
def test_reference_problem(name, reference):
    solver, program = make_solver(name, tolerance=TOLERANCE), reference.build()
    if reference.terms and Feature.CONVEX_TERMS not in solver.features:
        with pytest.raises(UnsupportedError, match="convex term"):
            solver.solve(program)
        return
    solution = solver.solve(program)
    if (name, reference.name) in BEYOND:
        assert solution.status == "unproved" and "off by" in solution.reason
        return
    assert solution.status == reference.status, solution.reason
    if reference.status != "optimal":
        assert not solution.found and not solution.x and math.isnan(solution.objective)
        assert reference.status == "infeasible" and solution.ray.value > 0
        return
    integral = reference.whole is not None and Feature.INTEGRALITY in solver.features
    scale = max(abs(reference.value), 1e-4)
    value = reference.whole if integral else reference.value
    assert solution.objective == pytest.approx(value, abs=10 * TOLERANCE * scale)
    assert solution.bound == pytest.approx(reference.value, abs=10 * TOLERANCE * scale)
    for id, x in ({} if integral else reference.x).items():
        assert solution.x[id] == pytest.approx(x, abs=(2e-3 if reference.terms else 1e-4) * max(1.0, *x))
    for id, price in reference.prices.items():
        assert solution.price[id] == pytest.approx(price, rel=1e-3, abs=1e-5 * scale)
    rows, y = program.store.rows, solution.y
    assert (y[(rows.lower[: y.size] == -math.inf)] >= 0).all(), "a price of a lower bound that is none"
    assert (y[(rows.upper[: y.size] == math.inf)] <= 0).all(), "a price of an upper bound that is none"
