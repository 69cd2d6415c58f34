"""Single columns of many requests, read once: what each costs, and its entries, side by side.

A program does not change while it is rounded.  So what the passes of :mod:`copter.shims.choose_one` look at
again and again is copied out of the store first; they then touch a few short arrays, and not the two dozen of
a view, of which every hand-over costs more than the numbers that are read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel

Array = Any

_ENDLESS = 1e300
"""Of a row without a bound: sums of it stay finite."""
_HALF_AN_ULP = 2.0**-53 * (1.0 - 1e-9)


class Columns(NamedTuple):
    """Columns, each with its entries; one that is closed (upper bound below 1) costs infinitely much.

    Attributes
    ----------
    column : (k,) array
        Place in the request; -1, without cost and entries, for no column.
    price, cost : (k,) arrays
        Cost with its usage paid, and without.
    begin, end : (k,) arrays
        Its entries are those from ``begin`` to ``end``.
    row, value : (entries,) arrays
    """

    column: NDArray[np.int64]
    price: NDArray[np.float64]
    cost: NDArray[np.float64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    row: NDArray[np.int64]
    value: NDArray[np.float64]


@kernel(allocates=True)
def read_columns(view: Any, y: Array, slots: Array, places: Array, columns: Array) -> Any:
    """Read columns of requests.

    Parameters
    ----------
    y : (row slots,) array
        Prices.
    slots, places, columns : (k,) arrays
        Slot of the request, place in the view and in the request; a negative place for no column.
    """
    usage, pointers, entries, values = view.usage, view.pointer_start, view.entry_start, view.value_start
    pointer, row_of, coefficient = view.pointer, view.row, view.coefficient
    pool, cost_start, scale, vector = view.cost, view.cost_start, view.scale, view.vector
    own_start, own_length, own_column, own_cost = (
        view.override_start,
        view.override_length,
        view.override_column,
        view.override_value,
    )
    bound, bound_start, bounds = view.upper, view.upper_start, view.uppers
    m = slots.size
    price, cost = np.zeros(m), np.zeros(m)
    begin, end = np.zeros(m, np.int64), np.zeros(m, np.int64)
    row, value = np.empty(2 * m + 16, np.int64), np.empty(2 * m + 16)
    count = 0
    for k in range(m):
        q, j = slots[k], places[k]
        begin[k] = end[k] = count
        if j < 0:
            continue
        cap = bound[q] if bound_start[q] < 0 else bounds[bound_start[q] + j]
        c = scale[q] * pool[cost_start[q] + j]
        if vector[q] >= 0:
            for i in range(own_start[q], own_start[q] + own_length[q]):
                if own_column[i] == j:
                    c = own_cost[i]
        if cap < 1.0:
            cost[k] = price[k] = np.inf
            continue
        u = usage[q]
        first, last = pointer[pointers[u] + j], pointer[pointers[u] + j + 1]
        if count + last - first > row.size:
            row, value = _longer(row, value, 2 * row.size + last - first)
        paid = 0.0
        for e in range(first, last):
            row[count] = row_of[entries[u] + e]
            # a usage that stores none of its coefficients has 1 for each
            value[count] = coefficient[values[u] + e] if values[u] >= 0 else 1.0
            paid += y[row[count]] * value[count]
            count += 1
        cost[k], price[k], end[k] = c, c + paid, count
    return Columns(columns, price, cost, begin, end, row, value)


@kernel(allocates=True, inner=True)
def _longer(row, value, size):  # type: ignore[no-untyped-def]
    rows, values = np.empty(size, np.int64), np.empty(size)
    rows[: row.size], values[: value.size] = row, value
    return rows, values


def left_of(upper: NDArray[np.float64], rounded: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What is left of rows that nobody uses yet, two numbers a row, side by side.

    Their sum is what is left: the second is what rounding took off the first.  That makes 106 bits, so that
    what is given and taken a thousand times is exactly what it was, and a column fits or does not.  Numbers
    that are not whole may be off by half a unit in their last place (:mod:`copter.proof.whole`); what a full
    row may be off by is there from the beginning.

    Parameters
    ----------
    upper : (row slots,) array
    rounded : (row slots,) array
        Whether a coefficient of the row is no whole number.

    Returns
    -------
    (2 * row slots,) ndarray
    """
    finite = np.where(np.isfinite(upper), abs(upper), 0.0)
    off = _HALF_AN_ULP * finite * ((finite != np.rint(finite)) + 1.0 * rounded)
    return np.stack((np.minimum(upper, _ENDLESS), off), axis=1).ravel()


@kernel(inlined=True)
def take(row: Array, value: Array, begin: int, end: int, sign: float, left: Array) -> None:
    """Take a column's entries off what is left (sign -1), or give them back (+1)."""
    for e in range(begin, end):
        r = row[e]
        a, b = left[2 * r], sign * value[e]
        s = a + b
        low = left[2 * r + 1] + ((a - (s - (s - a))) + (b - (s - a)))
        left[2 * r] = s + low
        left[2 * r + 1] = low - (left[2 * r] - s)


@kernel(inlined=True)
def fits(row: Array, value: Array, begin: int, end: int, left: Array) -> bool:
    """Whether what is left is enough for a column's entries."""
    for e in range(begin, end):
        high = left[2 * row[e]]
        if value[e] > high or (value[e] == high and left[2 * row[e] + 1] < 0.0):
            return False
    return True
