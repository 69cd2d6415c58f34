"""Primal simplex for small working sets, in one compiled call from the last allocation.

With at most a hundred rows, a pivot on an explicit inverse of the basis takes a few microseconds, and a round
a few dozen pivots. So the whole solve takes less time than the Python code around the proximal-point steps.

The sum rows are rows of the basis like the others. Row i has a logical variable, its activity, so that the
system is A x - s = 0, and all rows are bounds of variables:

    minimise c'x   subject to   A x - s = 0,   0 <= x <= upper,   lower_row <= s <= upper_row

The first basis is made from an allocation: in each request a column with the total replaces the sum row, and
columns between their bounds replace rows with a price. Phase 1 minimises the sum of the violations.  The
result is certified like every other, and the proximal-point method solves what this method cannot.

Source: Maros, Computational Techniques of the Simplex Method (2003), chapter 9; Harris (1973) for the ratio
test.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.solvers.inner.working_set import WorkingSet

MOST_ROWS, MOST_COLUMNS = 128, 2_000
"""Largest sets for the method: the sum rows count as rows, and the inverse has their square as elements."""
_AT_LOWER, _AT_UPPER = -1, -2
"""Places of variables that are not in the basis."""
_FIXED, _PIVOT, _DUAL = 1e-12, 1e-9, 1e-9
"""Least range of a variable that may enter, least pivot, and negligible reduced cost, in the set's units."""
_STABLE = 1e-3
"""Least pivot of the first basis."""
_NOTHING = 1e-14
"""Values up to which a basic variable is 0: rounding errors, in the set's units."""
_FULL = 1e-9
"""Share of a bound up to which a value counts as at the bound."""


class SimplexResult(NamedTuple):
    """Optimum of a set in its units: values (columns,), prices of the coupling rows (rows,), and pivots."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    pivots: int


def suits(rows: int, requests: int, columns: int) -> bool:
    """Return whether the method suits a set of these sizes, in which each request may have a sum row."""
    return rows + requests <= MOST_ROWS and columns <= MOST_COLUMNS


def solve_small(
    working: WorkingSet, x: NDArray[np.float64], y: NDArray[np.float64], feasible: float
) -> SimplexResult | None:
    """Return the optimum of a set; None if it has none, or if the method does not find it.

    `x` (columns,), `y` (rows,): allocation and prices, in the set's units, near which the search begins.
    `feasible`: largest violation of a row in these units.
    """
    rows = working.lower_row.size + int(np.count_nonzero(working.total < np.inf))
    found, values, prices, pivots = _simplex(working, x, y, feasible, 50 + 10 * rows)
    return SimplexResult(values, prices, pivots) if found else None


@kernel(allocates=True)
def _simplex(w, near, prices, feasible, limit):  # type: ignore[no-untyped-def]  # noqa: C901 - one loop
    """Return (whether an optimum was found, x, y, pivots)."""
    n, m = w.column.size, w.lower_row.size
    sum_row, lower, upper, cost = _bounds(w)
    size = lower.size - n
    basic, place = np.empty(size, np.int64), np.full(n + size, _AT_LOWER)
    inverse = np.zeros((size, size))  # row k is the inverse times the unit vector k
    for i in range(size):
        basic[i], place[n + i], inverse[i, i] = n + i, i, -1.0
    _first_basis(w, near, prices, sum_row, lower, upper, basic, place, inverse)
    value, dual = _values(w, sum_row, lower, upper, basic, place, inverse), np.zeros(size)
    fresh, priced, found, pivots = True, False, False, 0
    sign = np.empty(size)  # phase 1: the slope of each variable's violation
    while True:
        violated = _find_violated(value, basic, lower, upper, feasible, sign)
        if violated:
            dual, priced = _duals(inverse, sign), False
        elif not priced:
            dual, priced = _duals(inverse, cost[basic]), True
        entering, slope = _entering(w, sum_row, cost, lower, upper, place, dual, violated)
        if entering < 0 and (violated or fresh):
            found = not violated
            break
        if entering < 0:  # price once more, without the rounding errors of the updates
            value, priced = _values(w, sum_row, lower, upper, basic, place, inverse), False
            fresh = True
            continue
        direction = _column(w, sum_row, inverse, entering)
        towards = -1.0 if slope < 0.0 else 1.0  # change of the basic variables along the direction
        range_of_entering = upper[entering] - lower[entering]
        r, length, at = _leaving(
            direction, towards, value, basic, lower, upper, sign, feasible, range_of_entering
        )
        if length == np.inf or pivots >= limit:
            break
        pivots, fresh = pivots + 1, False
        for i in range(size):
            value[i] += towards * length * direction[i]
        if r < 0:
            place[entering] = _AT_LOWER if place[entering] == _AT_UPPER else _AT_UPPER
            continue
        start = upper[entering] if place[entering] == _AT_UPPER else lower[entering]
        if priced:
            _add_column(dual, slope / direction[r], inverse, r)
        place[basic[r]] = at
        _replace(inverse, direction, r)
        basic[r], place[entering] = entering, r
        value[r] = start - towards * length
    x = np.zeros(n)
    for j in range(n):
        if place[j] == _AT_UPPER:
            x[j] = upper[j]
        elif place[j] >= 0 and value[place[j]] > _NOTHING:
            x[j] = min(value[place[j]], upper[j])
    y = np.empty(m)
    for i in range(m):
        y[i] = -dual[i]
    return found, x, y, pivots


@kernel(inner=True)
def _find_violated(value, basic, lower, upper, feasible, sign):  # type: ignore[no-untyped-def]
    """Write -1 for a basic variable below its bounds, 1 above, 0 within; return whether any is outside."""
    violated = False
    for i in range(value.size):
        sign[i] = 0.0
        if value[i] < lower[basic[i]] - feasible:
            sign[i], violated = -1.0, True
        elif value[i] > upper[basic[i]] + feasible:
            sign[i], violated = 1.0, True
    return violated


@kernel(allocates=True, inner=True)
def _bounds(w):  # type: ignore[no-untyped-def]
    """Return the sum row of each block, and lower bounds, upper bounds and costs of all variables."""
    n, m = w.column.size, w.lower_row.size
    sum_row, size = np.full(w.slot.size, -1), m
    for b in range(w.slot.size):
        if w.total[b] < np.inf:
            sum_row[b] = size
            size += 1
    lower, upper, cost = np.zeros(n + size), np.empty(n + size), np.zeros(n + size)
    for j in range(n):
        closed = sum_row[w.block[j]] >= 0 and w.total[w.block[j]] <= 0.0
        upper[j], cost[j] = 0.0 if closed else w.upper[j], w.cost[j]
    for i in range(m):
        lower[n + i], upper[n + i] = w.lower_row[i], w.upper_row[i]
    for b in range(w.slot.size):
        if sum_row[b] >= 0:
            lower[n + sum_row[b]] = w.total[b] if w.exact[b] else 0.0
            upper[n + sum_row[b]] = w.total[b]
    return sum_row, lower, upper, cost


@kernel(inner=True)
def _add_row(target, factor, inverse, k):  # type: ignore[no-untyped-def]
    for i in range(target.size):
        target[i] += factor * inverse[k, i]


@kernel(inner=True)
def _add_column(target, factor, inverse, r):  # type: ignore[no-untyped-def]
    for k in range(target.size):
        target[k] += factor * inverse[k, r]


@kernel(allocates=True, inner=True)
def _column(w, sum_row, inverse, v):  # type: ignore[no-untyped-def]
    """Return the inverse times the column of a variable."""
    n, direction = w.column.size, np.zeros(inverse.shape[0])
    if v >= n:
        _add_row(direction, -1.0, inverse, v - n)
        return direction
    for k in range(w.pointer[v], w.pointer[v + 1]):
        _add_row(direction, w.value[k], inverse, np.int64(w.row[k]))
    if sum_row[w.block[v]] >= 0:
        _add_row(direction, 1.0, inverse, sum_row[w.block[v]])
    return direction


@kernel(allocates=True, inner=True)
def _replace(inverse, direction, r):  # type: ignore[no-untyped-def]
    """Replace column r of the basis by the one with this direction."""
    at, count = np.empty(direction.size, np.int64), 0
    for i in range(direction.size):
        if direction[i] != 0.0:
            at[count] = i
            count += 1
    for k in range(direction.size):
        if inverse[k, r] != 0.0:
            share = inverse[k, r] / direction[r]
            for i in range(count):
                inverse[k, at[i]] -= share * direction[at[i]]
            inverse[k, r] = share


@kernel(allocates=True, inner=True)
def _duals(inverse, cost):  # type: ignore[no-untyped-def]
    """Return the costs of the basic variables times the inverse."""
    dual = np.zeros(cost.size)
    for i in range(cost.size):
        if cost[i] != 0.0:
            _add_column(dual, cost[i], inverse, i)
    return dual


@kernel(allocates=True, inner=True)
def _values(w, sum_row, lower, upper, basic, place, inverse):  # type: ignore[no-untyped-def]
    """Return the values of the basic variables."""
    n = w.column.size
    right = np.zeros(basic.size)
    for j in range(n):
        if place[j] == _AT_UPPER and upper[j] > 0.0:
            for k in range(w.pointer[j], w.pointer[j + 1]):
                right[w.row[k]] += w.value[k] * upper[j]
            if sum_row[w.block[j]] >= 0:
                right[sum_row[w.block[j]]] += upper[j]
    value = np.zeros(basic.size)
    for i in range(basic.size):
        if place[n + i] < 0:
            right[i] -= upper[n + i] if place[n + i] == _AT_UPPER else lower[n + i]
        if right[i] != 0.0:
            _add_row(value, -right[i], inverse, i)
    return value


@kernel(allocates=True, inner=True)
def _first_basis(w, near, prices, sum_row, lower, upper, basic, place, inverse):  # type: ignore[no-untyped-def]  # noqa: C901
    """Put columns into the basis of all rows, near an allocation and prices."""
    n, m = w.column.size, w.lower_row.size
    for b in range(w.slot.size):
        begin, end, key, mass = w.first[b], w.first[b + 1], -1, 0.0
        for j in range(begin, end):
            mass += near[j]
            if near[j] > 0.0 and upper[j] > 0.0 and (key < 0 or near[j] > near[key]):
                key = j
        s = sum_row[b]
        if s >= 0 and w.total[b] > 0.0:
            if key < 0 and w.exact[b]:
                key = _cheapest(w, prices, upper, begin, end)
            elif mass < w.total[b] * (1.0 - _FULL) and not w.exact[b]:
                key = -1
            if key >= 0:
                direction = _column(w, sum_row, inverse, key)
                if abs(direction[s]) > _PIVOT:
                    _replace(inverse, direction, s)
                    basic[s], place[key], place[n + s] = key, s, _AT_UPPER
        for j in range(begin, end):
            if near[j] <= 0.0 or upper[j] <= 0.0 or place[j] >= 0:
                continue
            if near[j] >= upper[j] * (1.0 - _FULL):
                place[j] = _AT_UPPER
                continue
            direction, r = _column(w, sum_row, inverse, j), -1
            for i in range(m):
                side = upper[n + i] if prices[i] > 0.0 else lower[n + i]
                tight = prices[i] != 0.0 and abs(side) < np.inf and basic[i] == n + i
                if tight and abs(direction[i]) > (_STABLE if r < 0 else abs(direction[r])):
                    r = i
            if r >= 0:
                _replace(inverse, direction, r)
                basic[r], place[j] = j, r
                place[n + r] = _AT_UPPER if prices[r] > 0.0 else _AT_LOWER


@kernel(inner=True)
def _cheapest(w, prices, upper, begin, end):  # type: ignore[no-untyped-def]
    """Return the column of a block with the least cost at the prices; -1 if all are fixed."""
    least, key = np.inf, -1
    for j in range(begin, end):
        if upper[j] > 0.0:
            p = w.cost[j]
            for k in range(w.pointer[j], w.pointer[j + 1]):
                p += prices[w.row[k]] * w.value[k]
            if p < least:
                least, key = p, j
    return key


@kernel(inner=True)
def _entering(w, sum_row, cost, lower, upper, place, dual, violated):  # type: ignore[no-untyped-def]
    """Return the variable with the steepest reduced cost, and this cost; -1 if no variable may enter."""
    n, best, slope = w.column.size, -1, _DUAL
    for b in range(w.slot.size):
        own = dual[sum_row[b]] if sum_row[b] >= 0 else 0.0
        for j in range(w.first[b], w.first[b + 1]):
            if place[j] >= 0 or upper[j] <= _FIXED:
                continue
            d = (0.0 if violated else cost[j]) - own
            for k in range(w.pointer[j], w.pointer[j + 1]):
                d -= dual[w.row[k]] * w.value[k]
            gain = -d if place[j] == _AT_LOWER else d
            if gain > slope:
                slope, best = gain, j
    for i in range(dual.size):
        v = n + i
        if place[v] < 0 and upper[v] - lower[v] > _FIXED:
            gain = -dual[i] if place[v] == _AT_LOWER else dual[i]
            if gain > slope:
                slope, best = gain, v
    if best >= 0 and place[best] == _AT_LOWER:
        slope = -slope
    return best, slope


@kernel(inner=True)
def _leaving(direction, towards, value, basic, lower, upper, sign, feasible, own):  # type: ignore[no-untyped-def]
    """Return (position that leaves the basis, step length, the bound at which it leaves).

    The position is -1 if the entering variable moves to its other bound, at the length `own`. A variable that
    violates a bound blocks when it reaches this bound.
    """
    longest = np.inf
    for i in range(direction.size):
        change = towards * direction[i]
        if abs(change) > _PIVOT:
            room = _room(change, value[i], lower[basic[i]], upper[basic[i]], sign[i])
            longest = min(longest, (max(room, 0.0) + feasible) / abs(change))
    if own <= longest:
        return -1, own, _AT_LOWER
    r, largest, length = -1, 0.0, np.inf
    for i in range(direction.size):
        change = towards * direction[i]
        if abs(change) > _PIVOT:
            room = max(_room(change, value[i], lower[basic[i]], upper[basic[i]], sign[i]), 0.0)
            if room / abs(change) <= longest and abs(change) > largest:
                r, largest, length = i, abs(change), room / abs(change)
    if r < 0:
        return -1, np.inf, _AT_LOWER
    down = towards * direction[r] < 0.0
    if sign[r] != 0.0:
        return r, length, _AT_UPPER if sign[r] > 0.0 else _AT_LOWER
    return r, length, _AT_LOWER if down else _AT_UPPER


@kernel(inlined=True)
def _room(change, value, lower, upper, sign):  # type: ignore[no-untyped-def]
    """Return how far a basic variable may move; infinite if nothing stops it."""
    if sign < 0.0:
        return lower - value if change > 0.0 else np.inf
    if sign > 0.0:
        return value - upper if change < 0.0 else np.inf
    return value - lower if change < 0.0 else upper - value
