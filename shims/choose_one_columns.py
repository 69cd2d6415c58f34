"""Single columns of many requests, read once: what each costs, and its entries, side by side.

A program does not change while it is rounded.  So what the passes of :mod:`copter.shims.choose_one` look at
again and again is copied out of the store first; they then touch a few short arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.store.view import StoreView, cap_of, coefficients_of, cost_of, entries_of

_Array = Any

_ENDLESS = 1e300
"""Of a row without a bound: sums of it stay finite."""
_HALF_AN_ULP = 2.0**-53 * (1.0 - 1e-9)


class PricedColumns(NamedTuple):
    """PricedColumns, each with its entries; one that is closed (upper bound below 1) costs infinitely much.

    `column`: place in the request; -1, without cost and entries, for no column. `price`, `cost`: cost with
    its usage paid, and without. `begin`, `end`: its entries are those from ``begin`` to ``end``.
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

    `y`: prices. `slots`, `places`, `columns`: slot of the request, place in the view and in the request; a
    negative place for no column.
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
    """What is left of rows that nobody uses yet, two numbers a row, side by side.

    Their sum is what is left: the second is what rounding took off the first.  That makes 106 bits, so that
    what is given and taken a thousand times is exactly what it was, and a column fits or does not.  Numbers
    that are not whole may be off by half a unit in their last place, which is never more than
    :mod:`copter.proof.whole` allows; what a full row may be off by is there from the beginning.

    `rounded`: whether a coefficient of the row is no whole number.
    """
    finite = np.where(np.isfinite(upper), abs(upper), 0.0)
    off = _HALF_AN_ULP * finite * ((finite != np.rint(finite)) + 1.0 * rounded)
    return np.stack((np.minimum(upper, _ENDLESS), off), axis=1).ravel()


@kernel(inlined=True)
def take(row: _Array, value: _Array, begin: int, end: int, sign: float, left: _Array) -> None:
    """Take a column's entries off what is left (sign -1), or give them back (+1)."""
    for e in range(begin, end):
        r = row[e]
        a, b = left[2 * r], sign * value[e]
        s = a + b
        low = left[2 * r + 1] + ((a - (s - (s - a))) + (b - (s - a)))
        left[2 * r] = s + low
        left[2 * r + 1] = low - (left[2 * r] - s)


@kernel(inlined=True)
def fits(row: _Array, value: _Array, begin: int, end: int, left: _Array) -> bool:
    """Whether what is left is enough for a column's entries."""
    for e in range(begin, end):
        high = left[2 * row[e]]
        if value[e] > high or (value[e] == high and left[2 * row[e] + 1] < 0.0):
            return False
    return True
