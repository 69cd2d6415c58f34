"""Working set: the columns of a subproblem, in units in which typical values are about 1.

Requests with many columns are screened by their prices (:mod:`copter.proof.pricing`). A working set contains
the columns that could be nonzero near the current prices. All other columns are 0 until the next pricing pass
over the store.  In a Sia round of 1.8 million columns some 10 to 20 columns a job remain.

In the units of the set, a typical total is 1, a typical cost is 1, and rows have unit norm. The cost that a
request cannot avoid is subtracted from its costs.  So the parameters of the solvers do not depend on the
program's units, and rounding errors of a large constant cost do not hide the other costs.
:mod:`copter.solvers.inner.gather` makes working sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.array_record import ArrayRecord
from copter.compile.kernels import kernel
from copter.parallel import dot
from copter.store.allocation import SparseX

_ROUNDING = 1e-14
"""Permitted violation of a row as a share of the norm of x: some hundred rounding errors of float64."""
_ALMOST = 1e-12
"""Relative slack up to which a sum row counts as tight."""
_NEXT_TO_NOTHING = 1e-9
"""Share of |c|'|x| up to which an objective is negligible, as in the certificate."""
_NO_BLOCKS = np.empty(0, np.bool_)
_RUNAWAY = 1e10
"""Prices above this multiple of the largest cost count as diverging: double precision ends there."""


class RowTest:
    """Test of row violations, each relative to the size of its row.

    The size of a row is the smaller absolute value of its finite bounds. If this is 0, the size is the least
    usage of the row by a column at its bound (:mod:`copter.proof.measure`).
    """

    def __init__(self, working: WorkingSet) -> None:
        self.sizes: NDArray[np.float64] = _row_sizes(working)

    def worst(self, off: NDArray[np.float64], x: NDArray[np.float64], closeness: float) -> float:
        """Return the largest ratio of a violation `off` (rows,) to its tolerance; at most 1 if all are met.

        The tolerance of a row is `closeness` times its size, but at least the rounding error.
        """
        return self.worst_of(off, dot(x, x), closeness)

    def worst_of(self, off: NDArray[np.float64], square: float, closeness: float) -> float:
        """Return the ratio of :meth:`worst` for an allocation with the sum of squares `square`."""
        return float(worst_row(off, square, self.sizes, closeness))


class InnerResult(NamedTuple):
    """Result of an inner solver: allocation, scaled prices, and its accuracy.

    `converged`: True if the tolerance was reached. `left`: last residual as a share of the first. `residual`:
    norm of the rows' violations r. `paid`, `off`: y'r and |y|'|r|; in the second, |y| is at least a typical
    price.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    converged: bool
    iterations: int
    left: float = 1.0
    residual: float = math.inf
    paid: float = 0.0
    off: float = 0.0


@dataclass(frozen=True, eq=False)
class WorkingSet(ArrayRecord):
    """Scaled program of some columns; a block contains the columns of one request, ascending by slot.

    `slot`, `exact`, `total` (blocks,). `first` (blocks + 1,): starts of the blocks' columns. `block`,
    `column`, `cost`, `upper` (columns,). `pointer`, `row`, `value`: compressed columns of the scaled coupling
    matrix (row numbers are unsigned: kernels that gather by them are a third faster, because no index is
    negative). `lower_row`, `upper_row` (rows,): scaled. `row_scale` (rows,): factor on each row.
    `column_scale` (columns,): unit; the value in the set is x / unit. `cost_scale`: unit of cost; the price
    of a scaled row is price / (row_scale cost_scale).
    """

    slot: NDArray[np.int64]
    exact: NDArray[np.bool_]
    total: NDArray[np.float64]
    first: NDArray[np.int64]
    block: NDArray[np.int64]
    column: NDArray[np.int64]
    cost: NDArray[np.float64]
    upper: NDArray[np.float64]
    pointer: NDArray[np.int64]
    row: NDArray[np.uint32]
    value: NDArray[np.float64]
    lower_row: NDArray[np.float64]
    upper_row: NDArray[np.float64]
    row_scale: NDArray[np.float64]
    column_scale: NDArray[np.float64]
    cost_scale: float

    def values_at(self, x: SparseX) -> NDArray[np.float64]:
        """Return the values of an allocation on the columns of the set, (columns,)."""
        values = _lookup(self.slot, self.first, self.column, x.slot, x.column, x.value)
        return values / self.column_scale

    def sparse(self, x: NDArray[np.float64]) -> SparseX:
        """Return the allocation with the nonzero values on the columns of the set."""
        nonzero = np.flatnonzero(x)
        slot, value = self.slot[self.block[nonzero]], x[nonzero] * self.column_scale[nonzero]
        return SparseX(slot, self.column[nonzero], value)

    def scaled_prices(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert prices of the program's rows to the set's units."""
        return y / (self.row_scale * self.cost_scale)

    def prices(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert prices of the set's rows to the program's units."""
        return y * (self.row_scale * self.cost_scale)

    def with_cost_unit(self, unit: float) -> WorkingSet:
        """Return the set with costs divided by `unit`."""
        return replace(self, cost=self.cost / unit, cost_scale=self.cost_scale * unit)

    def holding(self, x: NDArray[np.float64], y: NDArray[np.float64], sigma: float) -> WorkingSet:
        """Return the set with costs for which x is optimal and columns at their bounds stay there.

        The costs are `sigma` times the reduced costs at scaled prices y, but those of columns between their
        bounds equal the dual price of the sum row, so that these columns move freely.
        """
        return replace(self, cost=sigma * _holding_costs(self, x, y))

    def with_full_rows(self, y: NDArray[np.float64]) -> WorkingSet:
        """Return the set in which rows with a scaled price are equalities at the bound that is priced."""
        lower = np.where(y > 0.0, self.upper_row, self.lower_row)
        return replace(self, lower_row=lower, upper_row=np.where(y < 0.0, self.lower_row, self.upper_row))

    def gap(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
        """Return gap denominator and objective - bound of the set as a separate program."""
        spent, objective = _spent(self.cost, x)
        bound = self.bound(x, y, _NO_BLOCKS)
        size = max(abs(objective), abs(bound) if math.isfinite(bound) else 0.0)
        return max(size, _NEXT_TO_NOTHING * spent), objective - bound

    def bound(self, x: NDArray[np.float64], y: NDArray[np.float64], without: NDArray[np.bool_]) -> float:
        """Return the bound at scaled prices y, without the blocks marked in `without`.

        x determines the multiplier of tight sum rows.
        """
        return float(_bound(self, x, y, without))


def runaway_price(w: WorkingSet) -> float:
    """Return a price, in the set's units, above which prices count as diverging: the rows are infeasible."""
    return _RUNAWAY * (1.0 + float(abs(w.cost).max(initial=0.0)))


@kernel(allocates=True)
def _lookup(blocks, first, column, x_slot, x_column, x_value):  # type: ignore[no-untyped-def]
    """Merge two lists in ascending order of (slot, column); return x's values on the set's columns."""
    values = np.zeros(column.size)
    k = 0
    for b in range(blocks.size):
        for j in range(first[b], first[b + 1]):
            while k < x_slot.size and (
                x_slot[k] < blocks[b] or (x_slot[k] == blocks[b] and x_column[k] < column[j])
            ):
                k += 1
            if k < x_slot.size and x_slot[k] == blocks[b] and x_column[k] == column[j]:
                values[j] = x_value[k]
    return values


@kernel(allocates=True)
def _holding_costs(w, x, y):  # type: ignore[no-untyped-def]
    """Compute the costs of :meth:`WorkingSet.holding`, without the factor sigma."""
    cost = np.empty(x.size)
    for b in range(w.slot.size):
        begin, end = w.first[b], w.first[b + 1]
        mass, level = 0.0, -np.inf
        for j in range(begin, end):
            cost[j] = w.cost[j]
            for k in range(w.pointer[j], w.pointer[j + 1]):
                cost[j] += w.value[k] * y[w.row[k]]
            mass += x[j]
            if x[j] > 0.0 and x[j] < w.upper[j]:
                level = max(level, cost[j])
        summed = w.exact[b] or mass >= w.total[b] * (1.0 - _ALMOST)
        if not summed or level == -np.inf or (level > 0.0 and not w.exact[b]):
            level = 0.0
        for j in range(begin, end):
            if x[j] <= 0.0:
                cost[j] = max(cost[j], level)
            elif x[j] >= w.upper[j]:
                cost[j] = min(cost[j], level)
            else:
                cost[j] = level
    return cost


@kernel
def _spent(cost, x):  # type: ignore[no-untyped-def]
    """Return |c|'x and c'x."""
    size, objective = 0.0, 0.0
    for j in range(x.size):
        size += abs(cost[j]) * x[j]
        objective += cost[j] * x[j]
    return size, objective


@kernel
def _bound(w, x, y, without):  # type: ignore[no-untyped-def]
    """Return the bound: least cost of the requests minus the cost of row bounds."""
    bound = _request_bound(w, x, y, without)
    for i in range(y.size):
        if y[i] != 0.0:
            bound -= y[i] * (w.upper_row[i] if y[i] > 0.0 else w.lower_row[i])
    return bound


@kernel(inner=True)
def _request_bound(w, x, y, without):  # type: ignore[no-untyped-def]
    """Return sum_q min p_q'x over X_q, or with column bounds a lower bound on it.

    The lower bound uses a multiplier of each sum row that is estimated from x.
    """
    bound = 0.0
    for b in range(w.slot.size):
        if without.size and without[b]:
            continue
        low, capped = np.inf, False
        level, mass = -np.inf, 0.0
        for j in range(w.first[b], w.first[b + 1]):
            p = w.cost[j]
            for k in range(w.pointer[j], w.pointer[j + 1]):
                p += y[w.row[k]] * w.value[k]
            low = min(low, p)
            capped = capped or w.upper[j] < w.total[b]
            mass += x[j]
            if x[j] > 0.0:
                level = max(level, p)
        if w.total[b] == np.inf:
            level = 0.0
        elif not capped:
            bound += w.total[b] * (low if w.exact[b] else min(0.0, low))
            continue
        else:
            level = max(level, low)
            if not w.exact[b]:
                level = min(level, 0.0) if mass >= (1.0 - 1e-12) * w.total[b] else 0.0
            bound += w.total[b] * level
        for j in range(w.first[b], w.first[b + 1]):
            p = w.cost[j] - level
            for k in range(w.pointer[j], w.pointer[j + 1]):
                p += y[w.row[k]] * w.value[k]
            if p < 0.0 and w.upper[j] < np.inf:
                bound += p * w.upper[j]
    return bound


@kernel(allocates=True)
def _row_sizes(w):  # type: ignore[no-untyped-def]
    """Return sizes of rows by bounds and by the least usage of a column."""
    step = np.full(w.lower_row.size, np.inf)
    for j in range(w.cost.size):
        most = min(w.upper[j], w.total[w.block[j]])
        if 0.0 < most < np.inf:
            for k in range(w.pointer[j], w.pointer[j + 1]):
                if w.value[k] != 0.0:
                    step[w.row[k]] = min(step[w.row[k]], abs(w.value[k]) * most)
    size = np.zeros(w.lower_row.size)
    for i in range(size.size):
        least = np.inf
        for bound in (w.lower_row[i], w.upper_row[i]):
            if np.isfinite(bound):
                least = min(least, abs(bound))
        size[i] = least if least < np.inf else 0.0
        if size[i] == 0.0 and step[i] < np.inf:
            size[i] = step[i]
    return size


@kernel
def worst_row(off, square, size, closeness):  # type: ignore[no-untyped-def]
    """Compute :meth:`RowTest.worst_of`; NaN if a violation is NaN."""
    rounding = _ROUNDING * (1.0 + np.sqrt(square))
    worst = 0.0
    for i in range(off.size):
        ratio = abs(off[i]) / max(closeness * size[i], rounding)
        if np.isnan(ratio):
            return ratio
        worst = max(worst, ratio)
    return worst
