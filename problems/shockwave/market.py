"""The volatile Fisher market: budgets buy several types of resources over T rounds (Shockwave, appendix C).

Buyer i has a budget B_i and a utility that adds up over rounds; what is there of resource j in round t cannot
be kept for later.

    U_i(X_i) = sum_t u_it(x_it),     linear:    u_it = sum_j u_ijt x_ijt
                                     Leontief:  u_it = min_j x_ijt / a_ijt
    maximise  sum_i B_i log U_i(X_i)     s.t.    sum_i x_ijt <= c_jt,  x >= 0                            (3)

The prices p_jt of the capacity rows and the X of (3) are the equilibrium (theorem C.1): every buyer gets as
much utility as its budget can buy, all budgets are spent, and what is not free is sold out.

**One form for both.**  Buyers choose levels z of *activities*: of linear utilities, one unit of a resource in
a round; of Leontief utilities, one unit of utility in a round, which takes a_ijt of every resource.  With V
the utility of activities (a row for each buyer) and A what they use (a row for each resource and round),

    minimise  -sum_i B_i log(V_i z_i)    s.t.    A z + s = c,    z, s >= 0.

**Method.**  A primal-dual interior point method with a predictor and a corrector step (Mehrotra 1992).
Eliminating z and s leaves a system in the prices p and in beta_i = B_i / U_i that is positive definite as it
stands, of size J T + N whatever the number of activities,

    [ A D^-1 A' + S/P      -A D^-1 V'          ]
    [ -V D^-1 A'           V D^-1 V' + U/beta  ],      D = W/Z,

so that no rank-one term is ever subtracted from a nearly equal one.

**Certificate.**  For any prices p > 0 the optimum of (3) is at most

    sum_jt p_jt c_jt - sum_i B_i + sum_i B_i log(B_i / cost_i(p)),

where cost_i(p) is the least price of a unit of utility.  ``Equilibrium.gap`` is the distance to it, over the
sum of the budgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from threadpoolctl import threadpool_limits

from copter.arrays import Floats
from copter.errors import CopterError, SolverError

TOLERANCE = 1e-9
"""Certified gap, over all budgets, at which the method stops."""
_ITERATIONS = 100
_SHORT = 0.2
_Point = tuple[Floats, Floats, Floats, Floats, Floats, Floats]
"""z, s, p, w, U, beta, all positive; z w, s p and U beta are the complementary products."""
_TO_THE_BORDER = 0.995


class MarketError(CopterError, ValueError):
    """A market that makes no sense; says which part of it."""


class Utility(StrEnum):
    """What a buyer makes of the resources of a round."""

    LINEAR = "linear"
    LEONTIEF = "leontief"


@dataclass(frozen=True)
class Market:
    """Buyers and resources.

    Attributes
    ----------
    values : (N, J, T) array
        u_ijt >= 0 of linear utilities.  Of Leontief utilities a_ijt >= 0: what a unit of utility takes; inf
        in a round where the buyer has no use for anything.
    budgets : (N,) array
        B_i >= 0.  Who has none gets nothing.
    supply : (J, T) array
        c_jt >= 0; of the paper, 1.
    """

    kind: Utility
    values: Floats
    budgets: Floats
    supply: Floats

    @classmethod
    def of(
        cls,
        kind: str | Utility,
        values: ArrayLike,
        budgets: ArrayLike | None = None,
        supply: ArrayLike | None = None,
    ) -> Market:
        """Check and complete a market.

        Parameters
        ----------
        values : (N, J, T) array_like
            See :class:`Market`.
        budgets : (N,) array_like, optional
            1 each by default.
        supply : (J, T) array_like, optional
            1 each by default.

        Raises
        ------
        MarketError
            Names the argument, and where it can the entry.
        """
        if kind not in set(Utility):
            raise MarketError(f"kind = {kind!r}: must be one of {', '.join(Utility)}")
        of = np.asarray(values, float)
        if of.ndim != 3 or 0 in of.shape[1:]:
            raise MarketError(f"values: shape {of.shape}, must be (buyers, resources, rounds)")
        money = np.ones(of.shape[0]) if budgets is None else np.asarray(budgets, float)
        there = np.ones(of.shape[1:]) if supply is None else np.asarray(supply, float)
        if money.shape != of.shape[:1] or there.shape != of.shape[1:]:
            raise MarketError(
                f"budgets {money.shape}, supply {there.shape}: must be {of.shape[:1]}, {of.shape[1:]}"
            )
        for name, array in (("budgets", money), ("supply", there)):
            if not (np.isfinite(array).all() and (array >= 0).all()):
                raise MarketError(f"{name}: must be finite and not negative")
        bad = np.isnan(of) | (of < 0) | (np.isinf(of) & (kind == Utility.LINEAR))
        if bad.any():
            i, j, t = (int(k[0]) for k in np.nonzero(bad))
            raise MarketError(f"values[{i}, {j}, {t}] = {of[i, j, t]}: must be finite and not negative")
        if kind == Utility.LEONTIEF and (free := (of == 0).all(axis=1)).any():
            i, t = (int(k[0]) for k in np.nonzero(free))
            raise MarketError(
                f"buyer {i}, round {t}: a unit of utility takes nothing, so there is no limit to it"
            )
        return cls(Utility(kind), of, money, there)

    def utilities(self, allocation: ArrayLike) -> Floats:
        """Utility of each buyer, U_i.

        Parameters
        ----------
        allocation : (N, J, T) array_like

        Returns
        -------
        (N,) array
        """
        x = np.asarray(allocation, float)
        if self.kind is Utility.LINEAR:
            return np.einsum("ijt,ijt->i", self.values, x)
        needed = self.values > 0
        ratio = np.divide(x, self.values, out=np.full(x.shape, np.inf), where=needed)
        return ratio.min(axis=1).sum(axis=1)

    def unit_costs(self, prices: Floats) -> Floats:
        """Price of a unit of each buyer's utility where it is cheapest; inf if there is none to be had.

        Parameters
        ----------
        prices : (J, T) array

        Returns
        -------
        (N,) array
        """
        if self.kind is Utility.LINEAR:
            each = np.divide(
                prices, self.values, out=np.full(self.values.shape, np.inf), where=self.values > 0
            )
            return np.where(self.supply > 0, each, np.inf).min(axis=(1, 2), initial=np.inf)
        each = np.where(self.open_rounds(), _costs(self.values, prices), np.inf)
        return each.min(axis=1, initial=np.inf)

    def open_rounds(self) -> NDArray[np.bool_]:
        """Whether a buyer with Leontief utility can have any in a round, shape (N, T)."""
        closed: NDArray[np.bool_] = np.isinf(self.values) | ((self.values > 0) & (self.supply <= 0))
        return ~np.any(closed, axis=1)


def _costs(values: Floats, prices: Floats) -> Floats:
    """(N, T) price of a unit of Leontief utility by round, rounds without use left to the caller."""
    return np.einsum("ijt,jt->it", np.where(np.isinf(values), 0.0, values), prices)


@dataclass(frozen=True)
class Equilibrium:
    """Allocation and prices of a market.

    Attributes
    ----------
    allocation : (N, J, T) array
        x_ijt.  Utilities and, of linear markets, prices are unique, the allocation need not be.
    prices : (J, T) array
    utilities : (N,) array
    spent : (N,) array
        Payments; the budget, but 0 for a buyer that no resource is of use to.
    gap : float
        Certified, over the sum of the budgets.
    """

    allocation: Floats
    prices: Floats
    utilities: Floats
    spent: Floats
    gap: float
    iterations: int


@dataclass(frozen=True)
class _Activities:
    """Market in the form that is solved: buyers that take part, what their activities use and are worth."""

    buyer: NDArray[np.int64]
    use: Any
    worth: Any
    budgets: Floats
    supply: Floats


def solve_market(market: Market, *, tolerance: float = TOLERANCE) -> Equilibrium:
    """Find the equilibrium.

    Parameters
    ----------
    tolerance : float
        Gap over the sum of the budgets.

    Raises
    ------
    SolverError
        The method did not get there.
    """
    count, types, rounds = market.values.shape
    nothing = np.zeros((count, types, rounds))
    if market.kind is Utility.LINEAR:
        usable = (market.values > 0) & (market.supply > 0) & (market.budgets > 0)[:, None, None]
        buyer, j, t = np.nonzero(usable)
        rows, columns = j * rounds + t, np.arange(buyer.size)
        amount, worth = np.ones(buyer.size), market.values[usable]
    else:
        buyer, t = np.nonzero(market.open_rounds() & (market.budgets > 0)[:, None])
        needs = market.values[buyer, :, t]
        columns, j = np.nonzero(needs)
        rows, amount, worth = j * rounds + t[columns], needs[columns, j], np.ones(buyer.size)
    if not buyer.size:
        return Equilibrium(nothing, np.zeros((types, rounds)), np.zeros(count), np.zeros(count), 0.0, 0)
    active, place = np.unique(buyer, return_inverse=True)
    sold, row = np.unique(rows, return_inverse=True)
    supply = market.supply.ravel()[sold]
    # Resources in units of their supply, utilities of a buyer in units of its best activity.
    use = sparse.csr_array((amount / supply[row], (row, columns)), (sold.size, buyer.size))
    heavy = use.max(axis=0).toarray().ravel()
    best = np.zeros(active.size)
    np.maximum.at(best, place, worth / heavy)
    value = sparse.csr_array((worth / heavy / best[place], (place, np.arange(buyer.size))))
    budgets = market.budgets[active] / market.budgets[active].sum()
    scaled = _Activities(place, use @ sparse.diags_array(1.0 / heavy), value, budgets, np.ones(sold.size))
    # Systems are small: threads of BLAS would only wait for each other.
    with threadpool_limits(limits=1, user_api="blas"):
        z, p, iterations = _interior_point(scaled, 0.1 * tolerance)
    level = z / heavy
    flat = np.zeros((count, types * rounds))
    entries = use.tocoo()
    taken = entries.data * supply[entries.coords[0]] * level[entries.coords[1]]
    np.add.at(flat, (buyer[entries.coords[1]], sold[entries.coords[0]]), taken)
    allocation = flat.reshape(count, types, rounds)
    each = np.zeros(types * rounds)
    each[sold] = p * market.budgets[active].sum() / supply
    prices = each.reshape(types, rounds)
    utilities = market.utilities(allocation)
    spent = np.einsum("ijt,jt->i", allocation, prices)
    gap = certified_gap(market, allocation, prices)
    if not gap <= tolerance:
        raise SolverError(f"market of {count} buyers: gap {gap:.1e} after {iterations} steps")
    return Equilibrium(allocation, prices, utilities, spent, gap, iterations)


def certified_gap(market: Market, allocation: Floats, prices: Floats) -> float:
    """How far the welfare of a feasible allocation is below the bound of these prices, over all budgets.

    Parameters
    ----------
    allocation : (N, J, T) array
    prices : (J, T) array
        Not negative.

    Returns
    -------
    float
        Infinite if a buyer who can buy has no utility, or one whose utility costs nothing.
    """
    utilities, cost = market.utilities(allocation), market.unit_costs(prices)
    active = (market.budgets > 0) & np.isfinite(cost)
    money = market.budgets[active]
    if not money.size:
        return 0.0
    if (utilities[active] <= 0).any() or (cost[active] <= 0).any():
        return np.inf
    total = float(money.sum())
    over = float((prices * market.supply).sum()) - total
    lost = float(money @ np.log(money / (cost[active] * utilities[active])))
    return max(over + lost, 0.0) / total


def _interior_point(market: _Activities, tolerance: float) -> tuple[Floats, Floats, int]:
    """Levels within supply, prices, and the steps that it took."""
    use, worth, money, supply = market.use, market.worth, market.budgets, market.supply
    # Half of the busiest resource is used, all activities alike.
    z = np.full(market.buyer.size, 0.5) / (use @ np.ones(market.buyer.size)).max()
    p = np.full(supply.size, money.sum() / supply.size)
    utility = worth @ z
    beta = money / utility
    w = np.maximum(use.T @ p - worth.T @ beta, 0.0) + 0.1 * p.mean()
    now: _Point = (z, supply - use @ z, p, w, utility, beta)
    best, best_score, iteration = now, _score(market, z, p), 0
    while best_score > tolerance and iteration < _ITERATIONS:
        iteration += 1
        newton = _Newton(market, now)
        guess = newton.move(0.0)
        target = newton.mu * (newton.mu_after(guess) / newton.mu) ** 3
        move = newton.move(target, guess)
        if _longest(now, move) < _SHORT:
            # The corrector trusts a guess that goes far; back to the middle without it.
            move = newton.move(newton.mu)
        far = min(1.0, _TO_THE_BORDER * _longest(now, move))
        now = _along(now, move, far)
        score = _score(market, now[0], now[2])
        if score < best_score:
            best, best_score = now, score
    return _feasible(market, best[0]), best[2], iteration


class _Newton:
    """The linear system at a point, factorised once for both steps."""

    def __init__(self, market: _Activities, now: _Point) -> None:
        self.now, self.money = now, market.budgets
        z, s, p, w, utility, beta = now
        use, worth = market.use, market.worth
        self.dual = use.T @ p - worth.T @ beta - w
        self.primal = use @ z + s - market.supply
        self.link = worth @ z - utility
        self.mu = _mean_product(now)
        self.d = z / w
        self.stacked = sparse.vstack([use, -worth]).tocsr()
        self.transposed = self.stacked.T.tocsr()
        system = ((self.stacked @ sparse.diags_array(self.d)) @ self.transposed).toarray()
        system[np.diag_indices_from(system)] += np.concatenate((s / p, utility / beta))
        self.factor = _factor(system)

    def move(self, target: float, guess: _Point | None = None) -> _Point:
        """Step to complementary products of ``target``, corrected by what the guess would leave of them."""
        z, s, p, w, utility, beta = self.now
        left_z, left_s, left_u = target - z * w, target - s * p, self.money - beta * utility
        if guess is not None:
            left_z -= guess[0] * guess[3]
            left_s -= guess[1] * guess[2]
            left_u -= guess[4] * guess[5]
        right_z = left_z / z - self.dual
        right = self.stacked @ (self.d * right_z)
        right += np.concatenate((self.primal + left_s / p, left_u / beta - self.link))
        prices = linalg.cho_solve(self.factor, right, check_finite=False)
        dp, dbeta = prices[: p.size], prices[p.size :]
        dz = self.d * (right_z - self.transposed @ prices)
        ds = (left_s - s * dp) / p
        dw = (left_z - w * dz) / z
        return dz, ds, dp, dw, (left_u - utility * dbeta) / beta, dbeta

    def mu_after(self, move: _Point) -> float:
        """Mean complementary product at the end of a step."""
        return _mean_product(_along(self.now, move, _longest(self.now, move)))


def _mean_product(point: _Point) -> float:
    z, s, p, w, *_ = point
    return (float(z @ w) + float(s @ p)) / (z.size + s.size)


def _along(point: _Point, move: _Point, far: float) -> _Point:
    z, s, p, w, utility, beta = (a + far * da for a, da in zip(point, move, strict=True))
    return z, s, p, w, utility, beta


def _longest(point: _Point, move: _Point) -> float:
    """Share of a step, at most 1, that leaves nothing negative."""
    longest = 1.0
    for value, change in zip(point, move, strict=True):
        falling = change < 0
        longest = min(longest, float(np.min(-value[falling] / change[falling], initial=1.0)))
    return longest


def _factor(system: Floats) -> tuple[Floats, bool]:
    """Cholesky factor; close to the end a pivot may vanish in rounding."""
    extra = 0.0
    largest = float(system.diagonal().max())
    for attempt in range(12):
        try:
            factor: tuple[Floats, bool] = linalg.cho_factor(
                system + extra * np.eye(len(system)), lower=True, check_finite=False
            )
            return factor
        except linalg.LinAlgError:
            extra = largest * 10.0 ** (attempt - 16)
    raise SolverError("market: the Newton system is not positive definite")


def _feasible(market: _Activities, z: Floats) -> Floats:
    """Levels within supply: what uses a resource that is oversold shrinks."""
    over = np.maximum(market.use @ z / market.supply, 1.0)
    shrink = np.ones(z.size)
    entries = market.use.tocoo()
    np.maximum.at(shrink, entries.coords[1], over[entries.coords[0]])
    return z / shrink


def _score(market: _Activities, z: Floats, p: Floats) -> float:
    """Certified gap of levels and prices, in the scaled market."""
    utility = market.worth @ _feasible(market, z)
    worth = market.worth.tocoo()
    each = (market.use.T @ p)[worth.coords[1]] / worth.data
    cost = np.full(market.budgets.size, np.inf)
    np.minimum.at(cost, worth.coords[0], each)
    lost = float(market.budgets @ np.log(market.budgets / (cost * utility)))
    return max(float(p @ market.supply) - 1.0 + lost, 0.0)
