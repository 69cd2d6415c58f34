"""Branch and bound in exact arithmetic, for programs whose coefficients differ too much for HiGHS.

HiGHS satisfies rows, bounds and integrality within tolerances.  If a row has a coefficient of 1e9, a column
that is 1e-9 off an integer changes the row by a unit, so a point that HiGHS calls optimal can be infeasible.
HiGHS still provides prices for bounds.  A node is

- pruned if the bound at those prices, rounded outwards (Neumaier and Shcherbina 2004), is no better than the
  best known allocation, or if a ray, rounded in the same way, proves that the node is infeasible;
- otherwise branched at an integral column, until all integral columns are fixed.

An allocation is accepted if :mod:`copter.proof.whole` finds that it satisfies all rows. Errors of HiGHS' LPs
can only lengthen the search. A node that cannot be decided keeps the bound of its parent.

Tests: ``tests/solvers/test_exact_integers.py`` has programs with coefficients of 1e7 and more next to 1
(``scaled``, ``switch``, ``big_m``). Points that violate a row by less than HiGHS' tolerance need
:func:`completed`.

Source: Neumaier and Shcherbina (2004), "Safe bounds in linear and mixed-integer linear programming".
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.errors import SolverError
from copter.models.highs import HighsEngine, check
from copter.models.linear_program import LinearProgram
from copter.proof.rigorous import EPS, bound_at, paid_prices
from copter.proof.whole import CALCULATED, cost_between, larger_bound
from copter.solution import Status
from copter.solvers.exact.checks import grain_of, keeps

if TYPE_CHECKING:
    from copter.clock import Clock

MOST_COLUMNS, _MOST_NODES = 400, 3_000
"""Limits on the program's columns and on nodes."""
_WHOLE = 1e-6
_FEW_TERMS = 400
"""Largest number of nonzeros for which the rows tighten the bounds of columns in every node."""
_PASSES = 3


class _ExactResult(NamedTuple):
    """Result of the search.

    `x` (n,): the best feasible point. `cost`: its cost, rounded up; infinite without a point. `bound`: lower
    bound on the cost of every point. `complete`: True if the bound is within the permitted gap of the cost.
    """

    x: NDArray[np.float64] | None
    cost: float
    bound: float
    complete: bool
    nodes: int


def solve_exactly(
    model: LinearProgram,
    known: NDArray[np.float64] | None = None,
    *,
    gap: float,
    clock: Clock,
) -> _ExactResult:
    """Return the best point and a bound that holds in exact arithmetic; `known` must be feasible.

    The search ends at an absolute `gap` between cost and bound.
    """
    return _Search(model, known, gap, clock).run()


def completed(model: LinearProgram, x: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return a feasible point with the integral values of `x`, or None without one.

    An LP over the continuous columns is solved.
    """
    if model.integral.all():
        return None
    rest, fixed = model.fixed_at(x)
    try:
        highs = HighsEngine.loaded(
            rest, 1, primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10
        )
        check(highs.run(), "run")
    except SolverError:
        return None
    found, _ = highs.point()
    if found is None:
        return None
    fixed[~model.integral] = np.clip(found, rest.lower, rest.upper)
    return fixed if keeps(model, fixed) else None


class _Search:
    def __init__(
        self,
        model: LinearProgram,
        known: NDArray[np.float64] | None,
        gap: float,
        clock: Clock,
    ) -> None:
        self.given, self.gap, self.clock = model, gap, clock
        self.x: NDArray[np.float64] | None = None
        self.cost, self.nodes = math.inf, 0
        self.model = _relaxed(model)
        loose = model.c[~model.integral]
        self.grain = 0.0 if loose.any() else grain_of(model.c)
        self.highs = HighsEngine(
            1,
            presolve="off",
            solver="simplex",
            primal_feasibility_tolerance=1e-10,
            dual_feasibility_tolerance=1e-10,
        )
        self.usable = True
        if known is not None:
            self._offer(known)

    @property
    def enough(self) -> float:
        """Cutoff: a node with at least this bound contains no point that is better by more than the gap."""
        if self.cost == math.inf:
            return math.inf
        # all costs are multiples of the grain: a better point costs at least one grain less
        return math.nextafter(self.cost - self.grain, math.inf) if self.grain else self.cost - self.gap

    def run(self) -> _ExactResult:
        try:
            self.highs.pass_model(self.model)
        except SolverError:  # HiGHS rejects the coefficients: search without its prices
            self.usable = False
        whole = self.model.integral
        lower = np.where(whole, np.ceil(self.model.lower), self.model.lower)
        upper = np.where(whole, np.floor(self.model.upper), self.model.upper)
        rows = _rows_of(self.model) if self.model.A.nnz <= _FEW_TERMS else []
        open_nodes, lost = [(-math.inf, lower, upper)], math.inf
        while open_nodes:
            if self.nodes >= _MOST_NODES or self.clock.over():
                break
            bound, lower, upper = open_nodes.pop()
            if bound >= self.enough:
                lost = min(lost, bound)
                continue
            for row, most in _PASSES * rows:
                _tighten(row, most, lower, upper, whole)
            if (lower > upper).any():
                continue
            self.nodes += 1
            before = self.cost
            bound, children = self._node(bound, lower, upper)
            if children:
                open_nodes.extend((bound, *child) for child in children)
            elif self.cost < before and bound < self.enough:
                open_nodes.append((bound, lower, upper))  # the new cost may prune it
            else:
                lost = min(lost, bound)
        complete = not open_nodes
        bound = min([self.cost, lost, *(each[0] for each in open_nodes)])
        if self.grain and self.cost < math.inf and bound > self.cost - self.grain:
            bound = self.cost
        complete = complete and bound >= self.enough
        return _ExactResult(self.x, self.cost, bound, complete, self.nodes)

    def _offer(self, x: NDArray[np.float64]) -> bool:
        """Store a point if it is feasible and cheaper; return whether it is feasible."""
        if not keeps(self.given, x):
            return False
        cost = cost_between(self.model.c, x)[1]
        if cost < self.cost:
            self.x, self.cost = x, cost
        return True

    # ---- nodes -----------------------------------------------------------------------------------

    def _node(self, bound, lower, upper):  # type: ignore[no-untyped-def]
        """Return (bound, child nodes); the bound is infinite if the node contains no better point."""
        whole = self.model.integral
        free = np.flatnonzero(whole & (lower < upper))
        point = None
        if free.size or not whole.all():
            proved, point = self._prices(lower, upper)
            bound = max(bound, proved)
            if bound >= self.enough:
                return bound, []
        if point is not None:
            rounded = np.clip(np.where(whole, np.rint(point), point), lower, upper)
            if not self._offer(rounded) and (more := completed(self.given, rounded)) is not None:
                self._offer(more)
        if not free.size:
            if whole.all():
                self._offer(lower)
                return math.inf, []  # the only point of the node
            return bound, []
        return bound, [] if bound >= self.enough else self._split(free, point, lower, upper)

    def _split(self, free, point, lower, upper):  # type: ignore[no-untyped-def]
        """Return two or three child nodes; the search processes the last one first."""
        at = None if point is None else np.clip(point, lower, upper)[free]
        if at is None:
            j = int(free[np.argmin(upper[free] - lower[free])])
            value = lower[j] if lower[j] > -np.inf else min(upper[j], 0.0)
        else:
            away = abs(at - np.rint(at))
            k = int(np.argmax(away))
            if away[k] <= _WHOLE:
                k = int(np.argmax(abs(self.model.c[free]) + 1e-3 * (at > lower[free])))
            j, value = int(free[k]), float(at[k])

        part = partial(_part, lower, upper, j)
        near = float(np.rint(value))
        if abs(value - near) <= _WHOLE * max(1.0, abs(near)):
            parts = [part(-np.inf, near - 1.0), part(near + 1.0, np.inf), part(near, near)]
        else:
            down, up = part(-np.inf, math.floor(value)), part(math.floor(value) + 1.0, np.inf)
            parts = [up, down] if value - math.floor(value) < 0.5 else [down, up]
        return [each for each in parts if each[0][j] <= each[1][j]]

    def _prices(self, lower, upper):  # type: ignore[no-untyped-def]
        """Return (lower bound on the cost within bounds, HiGHS' optimal point or None)."""
        if not self.usable:
            return self._bound(np.zeros(self.model.row_lower.size), self.model.c, lower, upper), None
        highs, n = self.highs, self.model.c.size
        highs.change_bounds(np.arange(n, dtype=np.int32), lower, upper)
        highs.limit_time(max(self.clock.left(), 0.01))
        if highs.run() == highspy.HighsStatus.kError:
            highs.clearSolver()
            return -math.inf, None
        status, _ = highs.outcome()
        if status is Status.INFEASIBLE:
            ray = highs.ray(status)
            if ray is not None:
                ray = ray / (abs(ray).max(initial=0.0) or 1.0)
                none = np.zeros(n)
                if max(self._bound(sign * ray, none, lower, upper) for sign in (1.0, -1.0)) > 0.0:
                    return math.inf, None
            return -math.inf, None
        point, prices = highs.point()
        if prices is None:
            return -math.inf, point
        return self._bound(prices, self.model.c, lower, upper), point

    def _bound(self, y, c, lower, upper):  # type: ignore[no-untyped-def]
        """Return a lower bound of c'x within rows and bounds at prices y, rounded down; maybe -inf."""
        lp = replace(self.model, c=c)
        return bound_at(lp, paid_prices(lp, y), lower, upper).value


def _part(lower, upper, j, low, high):  # type: ignore[no-untyped-def]
    """Return the bounds, intersected with [low, high] in column j."""
    lower, upper = lower.copy(), upper.copy()
    lower[j], upper[j] = max(lower[j], low), min(upper[j], high)
    return lower, upper


def _relaxed(model: LinearProgram) -> LinearProgram:
    """Return the model with rows widened by the rounding errors that :mod:`copter.proof.whole` permits."""
    m, data = model.row_lower.size, model.A.data
    reach = np.maximum(abs(model.lower), abs(model.upper))
    rounded = data != np.rint(data)
    terms = np.where(rounded, abs(data), 0.0) * np.where(
        rounded, np.repeat(reach, np.diff(model.A.indptr)), 0.0
    )
    off = np.bincount(model.A.indices, np.where(np.isfinite(terms), terms, 0.0), m)
    ends = []
    calculated = CALCULATED * larger_bound(model.row_lower, model.row_upper)
    for bound, sign in ((model.row_lower, -1.0), (model.row_upper, 1.0)):
        own = off + np.where(np.isfinite(bound) & (bound != np.rint(bound)), calculated, 0.0)
        ends.append(np.where(own > 0.0, np.nextafter(bound + sign * EPS * own, sign * np.inf), bound))
    return replace(model, row_lower=ends[0], row_upper=ends[1])


def _rows_of(model: LinearProgram) -> list[tuple[list[tuple[int, Fraction]], float]]:
    """Return columns and coefficients of each row, and its largest sum; ">=" rows are negated."""
    by_row, rows = model.A.tocsr(), []
    cuts = zip(by_row.indptr, by_row.indptr[1:], model.row_lower, model.row_upper, strict=False)
    for first, end, low, high in cuts:
        row = list(zip(by_row.indices[first:end].tolist(), by_row.data[first:end].tolist(), strict=True))
        for sign, most in ((1, high), (-1, -low)):
            if most < np.inf:
                rows.append(([(j, sign * Fraction(a)) for j, a in row if a], most))
    return rows


def _tighten(
    row: list[tuple[int, Fraction]],
    bound: float,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    whole: NDArray[np.bool_],
) -> None:
    """Tighten the bounds of the columns by a row, whose sum is at most `bound`, in rational arithmetic."""
    ends = [Fraction(lower[j] if a > 0 else upper[j]) for j, a in row]
    spare = Fraction(bound) - sum(a * end for (_, a), end in zip(row, ends, strict=True))
    for (j, a), end in zip(row, ends, strict=True):
        limit = end + spare / a
        if a > 0 and limit < upper[j]:
            most = max(math.floor(limit) if whole[j] else limit, Fraction(lower[j]) - 1)
            near = float(most)
            upper[j] = math.nextafter(near, math.inf) if near < most else near
        elif a < 0 and limit > lower[j]:
            least = min(math.ceil(limit) if whole[j] else limit, Fraction(upper[j]) + 1)
            near = float(least)
            lower[j] = math.nextafter(near, -math.inf) if near > least else near
