"""The columns a solver works on, gathered from the store, in units in which typical figures are about 1.

Requests of many columns are screened by their prices (:mod:`copter.proof.pricing`): a working set holds the
columns that could be nonzero near the current prices, and everything else is known to be zero until the
next pass over the whole store says otherwise.  For a Sia round of 1.8 million columns that leaves some
10 to 20 columns a job.

Inside the set a typical request's total is 1, a typical cost is 1, and rows have unit norm; what a request
costs in any case is taken off its costs.  So no constant of the solvers depends on the units of the program,
and no forced cost drowns the others in rounding errors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.parallel import dot
from copter.proof.certificate import TRIFLE
from copter.proof.pricing import KEEP_ALL
from copter.solvers.inner.scaling import levels, root_mean_square, scales, typical, weights, without_forced
from copter.store.allocation import SparseX
from copter.store.store import EXACTLY, NO_TOTAL, ConstraintStore

_ROUNDING = 1e-14
_DUST = 1e-12
_LEAST_UNIT = 1e-6


class RowTest:
    """How far rows are from where they should be, each relative to its own size.

    The size of a row is its bound, or what flows through it if that is more, as for the certificate
    (:mod:`copter.proof.measure`).

    Parameters
    ----------
    working : WorkingSet
    """

    def __init__(self, working: WorkingSet) -> None:
        self.working = working
        low, high = (
            np.where(np.isfinite(bound), abs(bound), np.inf)
            for bound in (working.lower_row, working.upper_row)
        )
        size = np.minimum(low, high)
        self._size = np.where(np.isfinite(size), size, 0.0)
        self._heavy = (self._size == 0) | _mixed(working)

    def limits(self, x: NDArray[np.float64], closeness: float) -> NDArray[np.float64]:
        """What each row may be off by: ``closeness`` of its size, and rounding errors."""
        weight = row_weight(self.working, x) if self._heavy.any() else 0.0
        return np.maximum(closeness * np.maximum(self._size, weight), self._rounding(x))

    def worst(self, off: NDArray[np.float64], x: NDArray[np.float64], closeness: float) -> float:
        """The largest of the distances ``off`` over what the rows may be off by."""
        limit = np.maximum(closeness * self._size, self._rounding(x))
        beyond = abs(off) > limit
        if not (beyond & ~self._heavy).any() and beyond.any():
            limit = self.limits(x, closeness)
        return float((abs(off) / limit).max(initial=0.0))

    def _rounding(self, x: NDArray[np.float64]) -> float:
        return _ROUNDING * (1.0 + math.sqrt(dot(x, x)))


class InnerResult(NamedTuple):
    """What an inner solver returns.

    Attributes
    ----------
    x, y : allocation and (scaled) prices
    converged : whether it met its tolerance
    iterations : steps it took
    left : what is left of the residual that it began with, as a share of it
    residual : norm of what rows are off by
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    converged: bool
    iterations: int
    left: float = 1.0
    residual: float = math.inf


class WorkingSet(NamedTuple):
    """Blocks b = requests with columns in the set; columns ascending by slot and column.

    Attributes
    ----------
    slot, relation, total : (blocks,) arrays
    first : (blocks + 1,) starts of the blocks' columns
    block, column, cost, upper : (columns,) arrays
    pointer, row, value : compressed columns of the scaled coupling matrix (unsigned rows: kernels that
        gather by them are a third faster, because nothing counts from the end)
    lower_row, upper_row : (rows,) scaled row bounds
    row_scale : (rows,) factor on each row
    column_scale : (columns,) unit of each column: its value in the set is x / unit
    cost_scale : unit of cost; a price of the scaled row is price / (row_scale cost_scale)
    dust : values that are no more count as 0, where no bound or total says what is large: only 0 or a ray is
        then an answer
    """

    slot: NDArray[np.int64]
    relation: NDArray[np.int8]
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
    dust: float

    def values_at(self, x: SparseX) -> NDArray[np.float64]:
        """Values of an allocation on the columns of the set, (columns,)."""
        values = _lookup(self.slot, self.first, self.column, x.slot, x.column, x.value)
        return values / self.column_scale

    def sparse(self, x: NDArray[np.float64]) -> SparseX:
        """Nonzeros of values on the columns of the set."""
        nonzero = np.flatnonzero(abs(x) > self.dust)
        slot, value = self.slot[self.block[nonzero]], x[nonzero] * self.column_scale[nonzero]
        return SparseX(slot, self.column[nonzero], value)

    def scaled_prices(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Prices of the set's rows for prices of the program's."""
        return y / (self.row_scale * self.cost_scale)

    def prices(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Prices of the program's rows for prices of the set's."""
        return y * (self.row_scale * self.cost_scale)

    def with_cost_unit(self, unit: float) -> WorkingSet:
        """The set with its costs in another unit."""
        return self._replace(cost=self.cost / unit, cost_scale=self.cost_scale * unit)

    def gap(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
        """Size of the objective, objective - bound and dual residual of the set as a program of its own."""
        size = dot(abs(self.cost), x)
        bound, dual = self.bound(x, y, np.zeros(self.slot.size, np.bool_), size)
        return size, dot(self.cost, x) - bound, dual

    def bound(
        self, x: NDArray[np.float64], y: NDArray[np.float64], without: NDArray[np.bool_], size: float
    ) -> tuple[float, float]:
        """Bound and dual residual at scaled prices, without what some blocks add to them.

        x helps where sum rows bind; ``size`` of the objective says what is little for a reduced cost.
        """
        paid = np.where(y > 0, self.upper_row, np.where(y < 0, self.lower_row, 0.0))
        bound, dual = _request_bound(self, x, y, without, TRIFLE * size)
        return float(bound) - dot(y, paid), float(dual)


def union(
    slot: NDArray[np.int64],
    column: NDArray[np.int64],
    more_slot: NDArray[np.int64],
    more_column: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Union of two sets of (slot, column), ascending."""
    if not more_slot.size:
        return slot, column
    width = int(max(column.max(initial=0), more_column.max(initial=0))) + 1
    keys = np.concatenate((slot * width + column, more_slot * width + more_column))
    keys.sort(kind="stable")  # merges the two ascending runs
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return keys // width, keys % width


def lightest(store: ConstraintStore) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each screened request the column that uses least; with them a working set is rarely infeasible."""
    table, usages = store.requests, store.usages
    screened = table.n_columns[: table.size] > KEEP_ALL
    slot = np.flatnonzero(screened & (table.relation[: table.size] != NO_TOTAL))
    usage, inverse = np.unique(table.usage[slot], return_inverse=True)
    column = _lightest(
        usages.pointer_start[usage],
        usages.entry_start[usage],
        usages.n_columns[usage],
        store.pointers.pointer,
        store.entries.value,
    )
    return slot, column[inverse]


def typical_slack(
    store: ConstraintStore, y: NDArray[np.float64], wanted: int, *, cost_factor: float = 1.0
) -> float:
    """Slack at which about ``wanted`` columns of a screened request are candidates; from a sample."""
    slots = np.flatnonzero(store.requests.n_columns[: store.requests.size] > max(KEEP_ALL, wanted))
    slacks = []
    for slot in slots[:: max(1, slots.size // 48)].tolist():
        prices = np.partition(store.priced_columns(slot, y, cost_factor), wanted)[: wanted + 1]
        slacks.append(prices[wanted] - prices.min())
    return float(np.median(slacks)) if slacks else 0.0


class Held(NamedTuple):
    """What a working set leaves out.

    Attributes
    ----------
    usage : (row slots,) usage of the requests that are not in the set
    rows : (row slots,) bool, rows that the set sees; the others count as without bounds
    """

    usage: NDArray[np.float64]
    rows: NDArray[np.bool_]


def gather(
    store: ConstraintStore,
    slot: NDArray[np.int64],
    column: NDArray[np.int64],
    held: Held | None = None,
    stands_for: NDArray[np.float64] | None = None,
) -> WorkingSet:
    """Working set of the given columns (ascending by slot and column, no duplicates).

    The columns of a request have the unit total / sqrt(weight), where its weight is how much it uses of its
    rows compared with others: the total itself, where all requests have the same unit.  A step of length
    sigma then moves a large and a small request by the same share for the same difference of prices, and no
    small one jumps while a large one still crawls.  (So of all optima the one with the least sum of
    weight |x - x^0|^2 / total^2.)

    ``stands_for`` is how many requests each slot represents, if that is not 1.

    Where what is ``held`` leaves less than nothing of a row, its bounds are moved to what the set can reach.
    """
    table, usages, rows = store.requests, store.usages, store.rows
    changes = np.flatnonzero(np.diff(slot, prepend=-1))
    first = np.append(changes, slot.size)
    blocks = slot[changes]
    block = np.repeat(np.arange(blocks.size), np.diff(first))
    cost, upper = store.column_costs(slot, column), store.column_uppers(slot, column)
    total = table.total[blocks]
    if stands_for is not None:
        upper, total = upper * stands_for[slot], total * stands_for[blocks]
    usage = table.usage[slot]
    at = usages.pointer_start[usage] + column
    seen = np.ones(rows.size, np.bool_) if held is None else held.rows
    pointer, row, value = _take_entries(
        store.pointers.pointer, store.entries.row, store.entries.value, at, usages.entry_start[usage], seen
    )
    relation = table.relation[blocks]
    single = (relation == NO_TOTAL)[block]
    cost = without_forced(first, relation, cost, upper)
    decided = (relation == EXACTLY) & (table.n_columns[blocks] == 1)
    summed = (relation != NO_TOTAL) & (total > 0)
    by_column = weights(pointer, row, value, first, total, decided, summed, rows.size)
    weight = by_column[first[:-1]]
    usual = typical(weight[summed & ~decided])
    share = np.where(summed, np.maximum(np.sqrt(weight / usual), _LEAST_UNIT), 1.0)
    unit = np.where(summed, total / share, 1.0)
    units = np.where(summed[block], unit[block], usual / by_column)
    row_scale, column_scale = scales(row, value, pointer, single, units, rows.size)
    lower_row, upper_row = rows.lower[: rows.size], rows.upper[: rows.size]
    if held is not None:
        reach = value * np.repeat(np.minimum(upper, total[block]), np.diff(pointer))
        least = np.bincount(row, np.minimum(reach, 0.0), rows.size)
        largest = np.bincount(row, np.maximum(reach, 0.0), rows.size)
        lower_row = np.where(seen, np.minimum(lower_row - held.usage, largest), -np.inf)
        upper_row = np.where(seen, np.maximum(upper_row - held.usage, least), np.inf)
    dust = 0.0
    if single.any():
        level = levels(block, single, pointer, row, row_scale, lower_row, upper_row, upper / column_scale)
        row_scale, column_scale = row_scale / level.rows, column_scale * level.columns
        dust = 0.0 if level.known or not single.all() else _DUST
    _scale_entries(pointer, row, value, row_scale, column_scale)
    cost *= column_scale
    used = ~single | (np.diff(pointer) > 0)  # the others are decided by their costs alone
    cost_scale = root_mean_square((cost / share[block])[used]) or root_mean_square(cost) or 1.0
    return WorkingSet(
        blocks,
        relation,
        total / unit,
        first,
        block,
        column,
        cost / cost_scale,
        upper / column_scale,
        pointer,
        row,
        value,
        lower_row * row_scale,
        upper_row * row_scale,
        row_scale,
        column_scale,
        cost_scale,
        dust,
    )


@kernel
def _take_entries(pointer, row, value, at, entry, seen):  # type: ignore[no-untyped-def]
    """Entries, in rows that are seen, of the columns whose pointers are ``at``."""
    first = np.empty(at.size + 1, np.int64)
    first[0] = 0
    for j in range(at.size):
        count = 0
        for k in range(entry[j] + pointer[at[j]], entry[j] + pointer[at[j] + 1]):
            count += seen[np.uint32(row[k])]
        first[j + 1] = first[j] + count
    rows, values = np.empty(first[-1], np.uint32), np.empty(first[-1])
    n = 0
    for j in range(at.size):
        for k in range(entry[j] + pointer[at[j]], entry[j] + pointer[at[j] + 1]):
            if seen[np.uint32(row[k])]:
                rows[n], values[n] = row[k], value[k]
                n += 1
    return first, rows, values


@kernel
def _scale_entries(pointer, row, value, row_scale, column_scale):  # type: ignore[no-untyped-def]
    for j in range(column_scale.size):
        for k in range(pointer[j], pointer[j + 1]):
            value[k] *= row_scale[row[k]] * column_scale[j]


def runaway_price(w: WorkingSet) -> float:
    """A price, in the set's units, so large that rows which need it cannot be met."""
    return 1e10 * (1.0 + float(abs(w.cost).max(initial=0.0)))


@kernel
def _lookup(blocks, first, column, x_slot, x_column, x_value):  # type: ignore[no-untyped-def]
    """Merge of two lists that ascend by (slot, column)."""
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


@kernel
def _request_bound(w, x, y, without, little):  # type: ignore[no-untyped-def]
    """sum_q min p_q'x over X_q; a capped sum row by the multiplier that x suggests, a lower bound too.

    And the largest -p of a column without bound, relative to |c| + |a|'|y|, or to what is little.
    """
    bound, dual = 0.0, 0.0
    for b in range(w.slot.size):
        if without[b]:
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
        if w.relation[b] == NO_TOTAL:
            level = 0.0
        elif not capped:
            bound += w.total[b] * (low if w.relation[b] == EXACTLY else min(0.0, low))
            continue
        else:
            level = max(level, low)
            if w.relation[b] != EXACTLY:
                level = min(level, 0.0) if mass >= (1.0 - 1e-12) * w.total[b] else 0.0
            bound += w.total[b] * level
        for j in range(w.first[b], w.first[b + 1]):
            p = w.cost[j] - level
            for k in range(w.pointer[j], w.pointer[j + 1]):
                p += y[w.row[k]] * w.value[k]
            if p < 0.0 and w.upper[j] < np.inf:
                bound += p * w.upper[j]
            elif p < 0.0 and w.relation[b] == NO_TOTAL:
                size = abs(w.cost[j])
                for k in range(w.pointer[j], w.pointer[j + 1]):
                    size += abs(y[w.row[k]] * w.value[k])
                dual = max(dual, -p / max(size, little))
    return bound, dual


@kernel
def _lightest(pointer_start, entry_start, n_columns, pointer, value):  # type: ignore[no-untyped-def]
    column = np.zeros(n_columns.size, np.int64)
    for u in range(n_columns.size):
        low = np.inf
        for j in range(n_columns[u]):
            weight = 0.0
            begin, end = pointer[pointer_start[u] + j], pointer[pointer_start[u] + j + 1]
            for k in range(entry_start[u] + begin, entry_start[u] + end):
                weight += abs(value[k])
            if weight < low:
                low = weight
                column[u] = j
    return column


@kernel
def row_weight(w, x):  # type: ignore[no-untyped-def]
    """|A| |x| of a working set."""
    weight = np.zeros(w.lower_row.size)
    for j in range(x.size):
        for k in range(w.pointer[j], w.pointer[j + 1]):
            weight[w.row[k]] += abs(w.value[k] * x[j])
    return weight


@kernel
def _mixed(w):  # type: ignore[no-untyped-def]
    """Whether a row has coefficients of both signs, so that more may flow through it than its bound says."""
    positive, negative = np.zeros(w.lower_row.size, np.bool_), np.zeros(w.lower_row.size, np.bool_)
    for k in range(w.value.size):
        positive[w.row[k]] |= w.value[k] > 0.0
        negative[w.row[k]] |= w.value[k] < 0.0
    return positive & negative
