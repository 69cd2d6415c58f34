"""Copy of single columns of requests, with costs and entries, for the passes of the shim.

A program does not change while it is rounded.  So the data that the passes of :mod:`copter.shims.choose_one`
read repeatedly is copied from the store to a few short arrays first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.store.view import StoreView, cap_of, coefficients_of, cost_of, entries_of

_Array = Any

_ENDLESS = 1e300
"""Stand-in for an infinite row bound: sums of it remain finite."""
_HALF_AN_ULP = 2.0**-53 * (1.0 - 1e-9)


class PricedColumns(NamedTuple):
    """Columns with their prices and entries; a closed column (upper bound below 1) has infinite cost.

    `column`: number in the request; -1, without cost and entries, for no column. `price`: reduced cost
    c_j + a_j'y. `cost`: c_j. `begin`, `end`: range of the column's entries in `row` and `value`.
    """

    column: Ints
    price: Floats
    cost: Floats
    begin: Ints
    end: Ints
    row: Ints
    value: Floats


def read_columns(view: StoreView, y: Floats, slots: Ints, places: Ints, columns: Ints) -> PricedColumns:
    """Read columns of requests.

    `y`: prices. `slots`, `places`, `columns`: slot of each column's request, and the column's position in the
    view and in the request; a negative position for no column.
    """
    price, cost = np.zeros(slots.size), np.zeros(slots.size)
    begin, end = np.zeros(slots.size, np.int64), np.zeros(slots.size, np.int64)
    size = _count_entries(view, slots, places)
    row, value = np.empty(size, np.int64), np.empty(size)
    _read(view, y, slots, places, price, cost, begin, end, row, value)
    return PricedColumns(columns, price, cost, begin, end, row, value)


@kernel
def _count_entries(view, slots, places):  # type: ignore[no-untyped-def]
    count = 0
    for k in range(slots.size):
        if places[k] >= 0:
            first, last = entries_of(view, view.usage[slots[k]], places[k], places[k] + 1)
            count += last - first
    return count


@kernel
def _read(view, y, slots, places, price, cost, begin, end, row, value):  # type: ignore[no-untyped-def]
    count = 0
    for k in range(slots.size):
        q, j = slots[k], places[k]
        begin[k] = end[k] = count
        if j < 0:
            continue
        if cap_of(view, q, j) < 1.0:
            cost[k] = price[k] = np.inf
            continue
        first, last = entries_of(view, view.usage[q], j, j + 1)
        shift, stride = coefficients_of(view, view.usage[q])
        paid = 0.0
        for e in range(first, last):
            row[count] = view.row[e]
            value[count] = view.coefficient[shift + stride * e]
            paid += y[row[count]] * value[count]
            count += 1
        cost[k] = cost_of(view, q, j)
        price[k], end[k] = cost[k] + paid, count


def left_of(upper: Floats, rounded: Flags) -> Floats:
    """Return the remaining capacities of rows before any column is placed, two adjacent numbers a row.

    The sum of both is the remaining capacity; the second is the rounding error of the first. This gives 106
    bits, so that a capacity is exactly restored after thousands of changes, and the test whether a column
    fits is exact. Non-integral numbers may be off by half a unit in the last place, which is at most the
    error that :mod:`copter.proof.whole` permits. This error is added to the capacity from the beginning.

    `rounded`: True if a coefficient of the row is not an integer.
    """
    finite = np.where(np.isfinite(upper), abs(upper), 0.0)
    off = _HALF_AN_ULP * finite * ((finite != np.rint(finite)) + 1.0 * rounded)
    return np.stack((np.minimum(upper, _ENDLESS), off), axis=1).ravel()


@kernel(inlined=True)
def take(row: _Array, value: _Array, begin: int, end: int, sign: float, left: _Array) -> None:
    """Subtract a column's entries from the remaining capacities (sign -1), or add them (+1)."""
    for e in range(begin, end):
        r = row[e]
        a, b = left[2 * r], sign * value[e]
        s = a + b
        low = left[2 * r + 1] + ((a - (s - (s - a))) + (b - (s - a)))
        left[2 * r] = s + low
        left[2 * r + 1] = low - (left[2 * r] - s)


@kernel(inlined=True)
def fits(row: _Array, value: _Array, begin: int, end: int, left: _Array) -> bool:
    """Return whether the remaining capacities suffice for a column's entries."""
    for e in range(begin, end):
        high = left[2 * row[e]]
        if value[e] > high or (value[e] == high and left[2 * row[e] + 1] < 0.0):
            return False
    return True
