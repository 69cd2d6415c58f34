"""The volatile Fisher market: what makes an equilibrium, on random markets, and against cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.errors import SolverError
from copter.problems.shockwave.market import Market, MarketError, Utility, certified_gap, solve_market

KINDS = list(Utility)


def random_market(kind, seed, buyers=5, types=2, rounds=4, holes=0.3):
    """Utilities that change from round to round; some resources, rounds, budgets are of no use or nothing."""
    rng = np.random.default_rng(seed)
    values = rng.lognormal(0.0, 1.0, (buyers, types, rounds))
    values[rng.random(values.shape) < holes] = 0.0
    if kind == Utility.LEONTIEF:
        free = (values == 0).all(axis=1)
        values[:, 0, :][free] = np.where(rng.random(int(free.sum())) < 0.5, np.inf, 1.0)
    budgets = rng.lognormal(0.0, 1.0, buyers) * (rng.random(buyers) > 0.1)
    supply = rng.uniform(0.2, 3.0, (types, rounds)) * (rng.random((types, rounds)) > 0.1)
    return Market.of(kind, values, budgets, supply)


@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 10_000), buyers=st.integers(1, 8), types=st.integers(1, 3), rounds=st.integers(1, 6)
)
@settings(deadline=None, max_examples=60)
def test_it_is_an_equilibrium(kind, seed, buyers, types, rounds):
    market = random_market(kind, seed, buyers, types, rounds)
    found = solve_market(market)
    x, prices, money = found.allocation, found.prices, market.budgets
    scale = max(money.sum(), 1e-12)
    assert (x >= 0).all() and (prices >= 0).all()
    sold = x.sum(axis=0)
    assert (sold <= market.supply * (1 + 1e-12)).all()
    # Markets clear: what has a price is sold out.
    assert (prices * (market.supply - sold)).max() <= 1e-6 * scale
    # Budgets are spent by all whom anything is of use to.
    can = np.isfinite(market.unit_costs(np.ones((types, rounds)))) & (money > 0)
    assert found.spent[can] == pytest.approx(money[can], rel=1e-5, abs=1e-6 * scale)
    assert (x[~can] == 0).all() and (found.utilities[~can] == 0).all()
    assert found.utilities == pytest.approx(market.utilities(x))
    # Maximal bang per buck: nobody could have more utility for its budget at these prices.
    cost = market.unit_costs(prices)[can]
    assert found.utilities[can] * cost == pytest.approx(money[can], rel=1e-5, abs=1e-6 * scale)
    # Over time nobody prefers the bundle of another, seen per budget, or a share of everything.
    for i in np.flatnonzero(can):
        own = found.utilities[i] / money[i]
        for k in np.flatnonzero(can):
            assert market.utilities(np.broadcast_to(x[k], x.shape))[i] / money[k] <= own * (1 + 1e-4)
        share = market.supply * money[i] / money.sum()
        assert market.utilities(np.broadcast_to(share, x.shape))[i] <= found.utilities[i] * (1 + 1e-5)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10_000), buyers=st.integers(1, 6), equal=st.booleans())
@settings(deadline=None, max_examples=25)
def test_the_product_of_fairness_is_least(kind, seed, buyers, equal):
    """Corollary 4.0.1: rho_i = U_i(an equal share) / U_i(X_i), by budgets; with equal ones all <= 1."""
    market = random_market(kind, seed, buyers, holes=0.0)
    budgets = np.ones(buyers) if equal else market.budgets + 0.1
    market = Market.of(kind, market.values, budgets, market.supply + 0.1)
    share = market.utilities(np.broadcast_to(market.supply / buyers, market.values.shape))

    def logs(utilities):
        return float(budgets @ np.log(share / utilities))

    found = solve_market(market)
    rng = np.random.default_rng(seed)
    for _ in range(50):
        split = rng.dirichlet(np.ones(buyers) * rng.choice([0.3, 1.0, 10.0]), market.supply.shape)
        utilities = market.utilities(np.moveaxis(split, -1, 0) * market.supply)
        if (utilities > 0).all():
            assert logs(found.utilities) <= logs(utilities) + 1e-6 * budgets.sum()
    if equal:
        assert (share <= found.utilities * (1 + 1e-5)).all()


def by_cvxpy(market):
    """Program (3) as it is printed, one variable for each x_ijt and u_it; utilities and prices."""
    count, types, rounds = market.values.shape
    x = [cp.Variable((types, rounds), nonneg=True) for _ in range(count)]
    constraints, utilities = [], []
    for i in range(count):
        if market.kind is Utility.LINEAR:
            utilities.append(cp.sum(cp.multiply(market.values[i], x[i])))
        else:
            u = cp.Variable(rounds, nonneg=True)
            constraints += [cp.multiply(market.values[i, j], u) <= x[i][j] for j in range(types)]
            utilities.append(cp.sum(u))
    capacity = sum(x) <= market.supply
    welfare = sum(b * cp.log(u) for b, u in zip(market.budgets.tolist(), utilities, strict=True))
    exact = {name: 1e-11 for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas")}
    cp.Problem(cp.Maximize(welfare), [*constraints, capacity]).solve(solver=cp.CLARABEL, **exact)
    return np.array([u.value for u in utilities]), np.asarray(capacity.dual_value), welfare.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_it_agrees_with_cvxpy(kind, seed):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.1, 2.0, (8, 3, 6))
    market = Market.of(kind, values, rng.uniform(0.5, 2.0, 8), rng.uniform(0.5, 2.0, (3, 6)))
    found = solve_market(market)
    utilities, prices, welfare = by_cvxpy(market)
    assert float(market.budgets @ np.log(found.utilities)) == pytest.approx(welfare, rel=1e-5)
    assert found.utilities == pytest.approx(utilities, rel=1e-5)
    if kind is Utility.LINEAR:  # those of Leontief markets need not be unique
        assert found.prices == pytest.approx(prices, rel=1e-5, abs=1e-5 * prices.max())


def test_a_market_of_two_by_hand():
    """a wants only the first resource, b both, the second twice as much; a has three times b's budget."""
    market = Market.of("linear", [[[1.0], [0.0]], [[1.0], [2.0]]], [3.0, 1.0])
    found = solve_market(market)
    assert found.prices.ravel() == pytest.approx([3.0, 1.0], rel=1e-6)
    assert found.allocation[:, :, 0] == pytest.approx(np.eye(2), abs=1e-6)
    # With little money a cannot keep b away: one price for a unit of b's utility.
    found = solve_market(Market.of("linear", [[[1.0], [0.0]], [[1.0], [2.0]]], [0.1, 1.4]))
    assert found.prices.ravel() == pytest.approx([0.5, 1.0], rel=1e-6)
    assert found.allocation[0, :, 0] == pytest.approx([0.2, 0.0], abs=1e-6)


def test_dominant_resources_in_one_round_and_time_as_a_way_out():
    """The example of DRF: 9 CPUs and 18 GB, tasks of (1, 4) and (3, 1); then b has a second round alone."""
    needs = np.array([[1.0, 4.0], [3.0, 1.0]])[:, :, None]
    supply = np.array([[9.0], [18.0]])
    found = solve_market(Market.of("leontief", needs, [1.0, 1.0], supply))
    # Nash welfare: maximise log a + log b with a + 3 b <= 9, 4 a + b <= 18.
    a, b = 45 / 11, 18 / 11
    assert found.utilities == pytest.approx([a, b], rel=1e-6)
    late = np.concatenate([needs, needs], axis=2)
    late[0, :, 1] = np.inf
    found = solve_market(Market.of("leontief", late, [1.0, 1.0], np.concatenate([supply, supply], axis=1)))
    # b has 3 more; the corner of CPUs and memory is still where log a + log b is best.
    assert found.utilities == pytest.approx([a, b + 3.0], rel=1e-6)
    assert (found.allocation[0, :, 1] == 0).all()


def test_what_nobody_wants_is_free_and_who_has_no_use_or_no_money_gets_nothing():
    values = np.zeros((3, 1, 3))
    values[0, 0, 0] = values[1, 0, 0] = 1.0
    market = Market.of("linear", values, [1.0, 0.0, 2.0])
    found = solve_market(market)
    assert found.prices.ravel() == pytest.approx([1.0, 0.0, 0.0])
    assert found.spent == pytest.approx([1.0, 0.0, 0.0]) and found.utilities[1:].tolist() == [0.0, 0.0]
    nothing = solve_market(Market.of("linear", values, np.zeros(3)))
    assert (nothing.allocation == 0).all() and (nothing.prices == 0).all() and nothing.gap == 0.0
    assert solve_market(Market.of("linear", np.zeros((0, 2, 2)))).utilities.shape == (0,)


def test_the_certificate_does_not_trust_prices_or_allocations():
    market = random_market("linear", 4, holes=0.0)
    found = solve_market(market)
    assert found.gap <= 1e-9
    assert certified_gap(market, 0.9 * found.allocation, found.prices) == pytest.approx(
        -np.log(0.9), rel=1e-6
    )
    assert certified_gap(market, found.allocation, 1.3 * found.prices) > 0.01
    with pytest.raises(SolverError, match="gap"):
        solve_market(market, tolerance=0.0)


def test_units_do_not_matter():
    market = random_market("leontief", 11, holes=0.0)
    found = solve_market(market)
    other = solve_market(
        Market.of("leontief", 1e6 * market.values, 1e-5 * market.budgets, 1e6 * market.supply)
    )
    assert other.utilities == pytest.approx(found.utilities, rel=1e-6)
    assert other.spent == pytest.approx(1e-5 * found.spent, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cubic", np.ones((1, 1, 1))), "must be one of linear, leontief"),
        (("linear", np.ones((2, 2))), "buyers, resources, rounds"),
        (("linear", np.ones((2, 1, 1)), [1.0]), "budgets"),
        (("linear", np.ones((2, 1, 1)), [1.0, -1.0]), "budgets: must be finite"),
        (("linear", np.ones((2, 1, 1)), None, [[np.inf]]), "supply: must be finite"),
        (("linear", np.full((1, 1, 1), np.inf)), r"values\[0, 0, 0\] = inf"),
        (("leontief", np.full((1, 1, 1), -1.0)), r"values\[0, 0, 0\] = -1.0"),
        (("leontief", np.zeros((1, 2, 1))), "buyer 0, round 0: a unit of utility takes nothing"),
    ],
)
def test_markets_that_make_no_sense_are_refused(arguments, said):
    with pytest.raises(MarketError, match=said):
        Market.of(*arguments)
