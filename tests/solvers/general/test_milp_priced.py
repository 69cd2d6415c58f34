"""`milp` on large programs of the shape of an allocation: the same optimum as HiGHS on everything."""

import numpy as np
import pytest
from scipy.sparse import coo_array

from copter import milp
from copter.clock import Clock
from copter.models.linear_program import LinearProgram
from copter.solvers.exact import solver as exact
from copter.solvers.general import allocation as allocation_module
from copter.solvers.general import integer
from copter.solvers.general.integer import by_prices, solve_integer
from support.amounts import seeds
from support.ticking import tick


def allocation(seed, requests=40, choices=25, rows=3):
    """Every request takes at most one choice, or exactly one; choices use something of each row."""
    rng = np.random.default_rng(seed)
    n = requests * choices
    owner = np.repeat(np.arange(requests), choices)
    size = rng.integers(0, 5, (rows, n)).astype(float)
    size[:, ::choices] = 0.0  # the first choice is nothing
    cost = -(size.sum(0) ** 0.7) * rng.uniform(0.5, 1.5, requests)[owner] * rng.uniform(0.9, 1.1, n)
    sums = coo_array((np.ones(n), (owner, np.arange(n))), (requests, n)).toarray()
    exactly = rng.random(requests) < 0.5
    low = np.concatenate((np.where(exactly, 1.0, -np.inf), np.full(rows, -np.inf)))
    high = np.concatenate((np.ones(requests), np.full(rows, 1.5 * requests)))
    return cost, np.vstack((sums, size)), low, high


@pytest.fixture
def small(monkeypatch):
    """Programs of almost any size may go by prices."""
    monkeypatch.setattr(integer, "_LEAST_COLUMNS", 100)
    monkeypatch.setattr(allocation_module, "_COLUMNS_A_ROW", 100)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_the_same_optimum_as_on_everything(seed, small):
    cost, A, low, high = allocation(seed)
    found = milp(cost, integrality=1, constraints=(A, low, high), options={"mip_rel_gap": 1e-9})
    assert "proven" in found.message
    # an option of HiGHS' own is a wish for HiGHS
    options = {"mip_rel_gap": 0.0, "presolve": True}
    expected = milp(cost, integrality=1, constraints=(A, low, high), options=options)
    assert "proven" not in expected.message
    assert found.success and found.fun == pytest.approx(expected.fun, rel=1e-8)
    assert found.mip_gap <= 1e-8 and found.mip_dual_bound <= found.fun
    activity = A @ found.x
    assert (activity <= high + 1e-9).all() and (activity >= low - 1e-9).all()
    assert (found.x == np.rint(found.x)).all() and found.fun == pytest.approx(cost @ found.x)


def test_fixed_columns_stay_fixed_and_other_lower_bounds_are_for_branch_and_bound(small):
    cost, A, low, high = allocation(9)
    bounds = np.zeros(cost.size), np.ones(cost.size)
    bounds[1][30:40] = 0.0
    for forced in (0.0, 1.0):
        bounds[0][3] = forced
        given = {"integrality": 1, "bounds": bounds, "constraints": (A, low, high)}
        found, expected = milp(cost, **given), milp(cost, **given, options={"presolve": True})
        assert ("proven" in found.message) == (forced == 0.0)
        assert found.x[3] >= forced and not found.x[30:40].any()
        assert found.fun == pytest.approx(expected.fun, rel=2e-4)


def test_other_shapes_are_left_to_branch_and_bound(small):
    """A continuous column, a column without a block, many rows: none of them goes by prices."""
    cost, A, low, high = allocation(5)
    whole = np.ones(cost.size, bool)

    def tried(A, low, high, integral):
        lp = LinearProgram(
            cost, coo_array(A).tocsc(), low, high, np.zeros(cost.size), np.ones(cost.size), 0.0, integral
        )
        return by_prices(lp, 1e-4, Clock())

    assert tried(A, low, high, whole) is not None
    assert tried(A, low, high, np.append(whole[1:], False)) is None
    assert tried(A[1:], low[1:], high[1:], whole) is None
    more = np.vstack((A, *[A[-3:] * (k + 2) for k in range(4)]))
    assert tried(more, np.append(low, np.full(12, -np.inf)), np.append(high, np.full(12, 1e6)), whole) is None


@pytest.mark.parametrize("seconds,given", [(None, integer._SECONDS), (7.0, 3.5)])
def test_the_attempt_has_a_limit_also_without_one(seconds, given, small, monkeypatch):
    deadlines, plain = [], exact.ExactSolver

    def spy(**settings):
        deadlines.append(settings["time_limit"])
        return plain(**settings)

    monkeypatch.setattr(exact, "ExactSolver", spy)
    tick(monkeypatch, 0.0)
    cost, A, low, high = allocation(5)
    zeros, whole = np.zeros(cost.size), np.ones(cost.size, bool)
    lp = LinearProgram(cost, coo_array(A).tocsc(), low, high, zeros, np.ones(cost.size), 0.0, whole)
    assert by_prices(lp, 1e-4, Clock(seconds)) is not None
    assert deadlines == [given]


def test_what_is_infeasible_is_what_highs_says(small):
    cost, A, low, high = allocation(6)
    high = high.copy()
    high[-3:] = -1.0
    lp = LinearProgram(
        cost, coo_array(A).tocsc(), low, high, np.zeros(cost.size), np.ones(cost.size), 0.0, cost < 1
    )
    answer = solve_integer(lp, 1e-4, Clock())
    assert str(answer.status) == "infeasible" and answer.x is None
