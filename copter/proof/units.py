"""Natural units of columns, which make the figures of certificates independent of units.

The natural unit of a column is its upper bound or its request's total. The unit of a free column follows from
the rows that it uses (:class:`LooseColumns`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.parallel import chunk_bounds, run_chunks
from copter.proof.magnitudes import components, geometric_means, medians
from copter.store.executor import Part
from copter.store.slabs import slice_indices
from copter.store.store import AT_MOST, EXACTLY, NO_TOTAL, ConstraintStore
from copter.store.view import cap_of, coefficients_of, cost_of, costs_at, entries_of, view_of

_MEAN_PASSES, _SAMPLE = 12, 16


def least_cost_range(store: ConstraintStore, enough: float) -> float:
    """Return the least cost range of any request, or any cost range of at most ``enough``.

    The cost range of a request with a sum row is (second smallest cost - smallest cost) times the largest
    value of a column. It is a unit of cost for programs with negligible objectives. Return infinity if no
    request has a choice.
    """
    least = min(store.executor.once(_cost_range_part, 0.0, slots=_sample(store)))
    return least if least <= enough else min(store.executor.map(_cost_range_part, enough))


class LooseColumns(NamedTuple):
    """Free columns (k,), without an upper bound or sum row, ascending, with natural units from their rows.

    Rows are scaled by r and columns by s so that the geometric mean of the entries of each is 1. This gives
    units up to a common factor. The factor is the median of r_i |b_i| over connected rows, where b_i is the
    bound of a row, or the largest usage of the row by its other columns. The unit of column j is s_j times
    the factor. `pointer`, `row` and `value` have the entries as CSC. `unit` (k,) has the natural units; 0 if
    no row has a nonzero bound.
    """

    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    pointer: NDArray[np.int64]
    row: NDArray[np.int64]
    value: NDArray[np.float64]
    unit: NDArray[np.float64]

    @classmethod
    def of(cls, store: ConstraintStore) -> LooseColumns:
        """Return the free columns of a store."""
        rows = store.rows
        slot, column, pointer, row, value = _merged(store.executor.map(_loose_part))
        each = np.arange(slot.size + 1)
        with np.errstate(divide="ignore"):  # entries may be 0
            size = np.log(abs(value))
        counted = np.ones(slot.size, np.bool_)
        typical, own = geometric_means(pointer, row, size, each, counted, rows.size, _MEAN_PASSES)
        factor, scale = np.exp(-typical), np.exp(-own)
        used = np.bincount(row, minlength=rows.size) > 0
        sides = [each[: rows.size] * factor for each in (rows.lower, rows.upper)]
        sides.append(_row_units(store, used) * factor)
        owner = np.repeat(np.arange(slot.size), np.diff(pointer))
        label, of_row, count = components(row, owner, rows.size, slot.size)
        bounds = np.concatenate([np.where(used, abs(each), 0.0) for each in sides])
        level = medians(np.tile(of_row, 3), bounds, count)
        return cls(slot, column, pointer, row, value, scale * level[label])

    def units_of(self, slot: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the natural units of columns, ascending by slot and column; 0 if they are not free."""
        width = int(max(self.column.max(initial=0), column.max(initial=0))) + 1
        keys, wanted = self.slot * width + self.column, slot * width + column
        units = np.zeros(slot.size)
        units[np.isin(wanted, keys)] = self.unit[np.isin(keys, wanted)]
        return units

    def dual(
        self, store: ConstraintStore, y: NDArray[np.float64], little: float, cost_factor: float = 1.0
    ) -> float:
        """Return the largest -p_j of requests without convex terms, relative to |c_j| + |a_j|'|y|.

        Denominators are at least :meth:`floors`. The columns are those of `store`, and the prices y (row
        slots,). Costs are multiplied by `cost_factor`, which is 0 for a ray.
        """
        owner = np.repeat(np.arange(self.slot.size), np.diff(self.pointer))
        view, column = store.executor.columns(self.slot, self.column)
        cost, paid = cost_factor * costs_at(view, self.slot, column), y[self.row] * self.value
        p = cost + np.bincount(owner, paid, self.slot.size)
        whole = abs(cost) + np.bincount(owner, abs(paid), self.slot.size)
        curved = np.zeros(store.requests.size, np.bool_)
        curved[store.terms.slots()] = True
        wrong = (p < 0) & ~curved[self.slot]
        return float((-p[wrong] / np.maximum(whole, _floors(self.unit, little))[wrong]).max(initial=0.0))

    def floors(
        self, slot: NDArray[np.int64], column: NDArray[np.int64], little: float
    ) -> NDArray[np.float64]:
        """Return floors for the denominators of relative reduced costs of columns, which ascend.

        Without floors, rounding errors would count if a column has no cost and its rows have no prices.
        `little` is the negligible cost of a natural unit of a column, in objective units. The floor is
        `little` over the unit of the column, or 0 if the column is not free.
        """
        return _floors(self.units_of(slot, column), little)


def _floors(units: NDArray[np.float64], little: float) -> NDArray[np.float64]:
    return np.divide(little, units, out=np.zeros(units.size), where=units > 0)


def _row_limits(store: ConstraintStore) -> NDArray[np.float64]:
    """Return the larger absolute finite bound of each row, (row slots,); 0 without a finite bound."""
    rows = store.rows
    limits: NDArray[np.float64] = _limits(rows.lower[: rows.size], rows.upper[: rows.size])
    return limits


@kernel(allocates=True)
def _limits(lower, upper):  # type: ignore[no-untyped-def]
    """Return :func:`_row_limits` of given bounds."""
    limits = np.zeros(lower.size)
    for i in range(lower.size):
        for bound in (lower[i], upper[i]):
            if np.isfinite(bound):
                limits[i] = max(limits[i], abs(bound))
    return limits


@kernel(inner=True)
def _most(view, limit, q, j):  # type: ignore[no-untyped-def]
    """Return the largest value of a column by its bound, its request's total, and the widest of its rows."""
    most = cap_of(view, q, j)
    if view.relation[q] != NO_TOTAL:
        most = min(most, view.total[q])
    if view.relation[q] == EXACTLY:
        return most
    widest = 0.0
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for e in range(first, last):
        value = view.coefficient[shift + stride * e]
        if value != 0.0:
            widest = max(widest, limit[np.uint32(view.row[e])] / abs(value))
    return min(most, widest) if widest > 0.0 and most < np.inf else most


def _sample(store: ConstraintStore) -> NDArray[np.int64]:
    """Return an evenly spaced sample of the requests."""
    n = store.requests.size
    return np.arange(0, n, max(1, n // _SAMPLE))


def _cost_range_part(part: Part, enough: float, slots: NDArray[np.int64] | None = None) -> float:
    """Return the least cost range of some or all requests of a part, or any of at most ``enough``."""
    store = part.store
    some = np.arange(store.requests.size) if slots is None else slots
    return float(_cost_range_of(view_of(store), _row_limits(store), enough, some))


@kernel
def _cost_range_of(view, limit, enough, slots):  # type: ignore[no-untyped-def]
    """Return the least cost range of requests, or the first of at most ``enough``; inf without a choice."""
    least = np.inf
    for q in slots:
        if least <= enough:
            break
        summed = view.relation[q] != NO_TOTAL
        best, next_best, most, first = np.inf, np.inf, 0.0, np.int64(-1)
        if view.relation[q] == AT_MOST:
            best = 0.0
        for j in range(view.n_columns[q]):
            c, cap = cost_of(view, q, j), cap_of(view, q, j)
            if not cap > 0.0:
                continue
            if not summed:
                continue
            noise = 1e-12 * max(abs(c), abs(best) if best < np.inf else 0.0)
            if c < best - noise:
                best, next_best, first = c, best, np.int64(j)
            elif c > best + noise and c < next_best:
                next_best = c
        if first >= 0:
            most = _most(view, limit, q, first)
        if next_best < np.inf and most > 0.0:
            least = min(least, (next_best - best) * most)
    return least


def _row_units(store: ConstraintStore, wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the largest usage of rows by single columns with a bound or a total; 0 for other rows."""
    if not wanted.any():
        return np.zeros(wanted.size)
    return np.maximum.reduce(store.executor.map(_units_part, wanted))


def _units_part(part: Part, wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
    view, limit = view_of(part.store), _row_limits(part.store)
    bounds = chunk_bounds(view.n_columns)
    parts = run_chunks(
        lambda k: _units_of(view, limit, wanted, bounds[k], bounds[k + 1]), bounds.size - 1, threads=None
    )
    units: NDArray[np.float64] = np.maximum.reduce(parts)
    return units


@kernel(allocates=True)
def _units_of(view, limit, wanted, begin, end):  # type: ignore[no-untyped-def]
    units = np.zeros(wanted.size)
    for q in range(begin, end):
        for j in range(view.n_columns[q]):
            most = _most(view, limit, q, j)
            if most == np.inf:
                continue
            first, last = entries_of(view, view.usage[q], j, j + 1)
            shift, stride = coefficients_of(view, view.usage[q])
            for e in range(first, last):
                r = np.uint32(view.row[e])
                if wanted[r]:
                    units[r] = max(units[r], abs(view.coefficient[shift + stride * e]) * most)
    return units


def _loose_part(part: Part) -> Any:
    slot, *others = _loose_columns(view_of(part.store))
    return part.slots(slot), *others


def _merged(lists: list[Any]) -> Any:
    """Return the lists of parts as one list, ascending by slot."""
    if len(lists) == 1:
        return lists[0]
    slot, column, row, value = (np.concatenate([each[k] for each in lists]) for k in (0, 1, 3, 4))
    counts = np.concatenate([np.diff(each[2]) for each in lists])
    order = np.argsort(slot, kind="stable")
    flat = slice_indices((np.cumsum(counts) - counts)[order], counts[order])
    pointer = np.concatenate(([0], np.cumsum(counts[order])))
    return slot[order], column[order], pointer, row[flat], value[flat]


@kernel(allocates=True)
def _loose_columns(view):  # type: ignore[no-untyped-def]
    """Return (slot, column, pointer, row, value) of the columns without an upper bound and a sum row."""
    columns, entries = 0, np.int64(0)
    for q in range(view.n_columns.size):
        if view.relation[q] == NO_TOTAL:
            for j in range(view.n_columns[q]):
                if cap_of(view, q, j) == np.inf:
                    columns += 1
                    first, last = entries_of(view, view.usage[q], j, j + 1)
                    entries += int(last - first)
    slot, column = np.empty(columns, np.int64), np.empty(columns, np.int64)
    starts, row, value = np.zeros(columns + 1, np.int64), np.empty(entries, np.int64), np.empty(entries)
    k = n = 0
    for q in range(view.n_columns.size):
        if view.relation[q] == NO_TOTAL:
            for j in range(view.n_columns[q]):
                if cap_of(view, q, j) == np.inf:
                    first, last = entries_of(view, view.usage[q], j, j + 1)
                    shift, stride = coefficients_of(view, view.usage[q])
                    for e in range(first, last):
                        row[n], value[n] = np.uint32(view.row[e]), view.coefficient[shift + stride * e]
                        n += 1
                    slot[k], column[k] = q, j
                    k += 1
                    starts[k] = n
    return slot, column, starts, row, value
