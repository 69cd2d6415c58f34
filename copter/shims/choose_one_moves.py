"""Steps 4 and 5 of :mod:`copter.shims.choose_one`: moves of requests to better columns.

Every choice of a request is an item of :class:`copter.shims.choose_one_columns.PricedColumns`: its
present column, its offers (the columns to which moving may pay), and the empty choice, which is the last
item. A
request is identified by its position k among all requests; ``has[k]`` is its present item.

A pass computes the merit of every request's best move and stores it in a heap. It repeatedly makes the best
move.  Each move uses capacity, so other merits become outdated; they rarely rise.  So the merit at the top of
the heap is computed again before its move is made.  If it is smaller now, the move sinks in the heap.  The
next pass finds merits that rose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from copter.compile.kernels import kernel
from copter.shims.choose_one_columns import fits, take

_Array = Any

_PASSES = 3
_WORTH_MAKING_ROOM = 2e-5
_ROOM_FOR = 12
_EJECTIONS = 6
_TARGETS = 3
"""Number of columns that are tried for a request for which others make room."""
ZERO_TOLERANCE = 1e-12
"""Smallest gain, as a share of a typical request's cost, that is not a rounding error."""


@kernel(allocates=True)
def improve(
    exact: _Array,
    requests: _Array,
    first: _Array,
    items: Any,
    has: _Array,
    chosen: _Array,
    left: _Array,
    upper: _Array,
    marginal: _Array,
    size: float,
) -> Any:
    """Move requests while that lowers the cost; return (cost as a sum of two doubles, unplaced).

    `requests`: slots of all requests, ascending. `first`, `items`: result of :func:`offers`, its columns read
    by :func:`read_columns`. `has`: item of each request; changed. `chosen`: output, column of each request by
    slot, -1 for none. `left`: remaining capacities; changed. `marginal`: best price of each request. `size`:
    denominator of the gap: gains far below it are rounding errors. `unplaced` is the number of requests that
    must have a column and have none.
    """
    n = requests.size
    zero_tolerance = ZERO_TOLERANCE * size / max(1, n)
    least, strict = marginal[requests], exact[requests]
    everyone = np.arange(n)
    below = np.flatnonzero(items.price[has] > least + zero_tolerance)
    _move(first, items, has, strict, left, below, np.bool_(False), zero_tolerance)
    _move(first, items, has, strict, left, everyone, np.bool_(True), zero_tolerance)
    worst = _worst(items.price[has] - least, _WORTH_MAKING_ROOM * size)
    for k in worst:
        _make_room(first, items, has, left, upper, k, zero_tolerance)
    if worst.size:
        _move(first, items, has, strict, left, everyone, np.bool_(True), zero_tolerance)
    objective, beneath, unserved = 0.0, 0.0, 0
    for k in range(n):
        q, cost = requests[k], items.cost[has[k]]
        chosen[q] = items.column[has[k]]
        total = objective + cost
        beneath += (objective - (total - (total - objective))) + (cost - (total - objective))
        objective = total
        unserved += chosen[q] < 0 and strict[k]
    return objective, beneath, unserved


@kernel(allocates=True)
def offers(
    n_columns: _Array, requests: _Array, chosen: _Array, far: _Array, slot: _Array, column: _Array
) -> Any:
    """Return (first, slots, columns): present columns, then offers, and last the empty choice.

    A request may move to the candidates, or to any of its columns if its price is far above its best.

    `requests`: slots of all requests, ascending. `chosen`: column of each, -1 for none. `far`: True if all
    columns are offers. `slot`, `column`: candidates, ascending by slot. The offers of request k are those
    from ``first[k]`` to ``first[k + 1]``; a column of -1 is the empty choice.
    """
    n = requests.size
    room = n + slot.size + n_columns[requests[far]].sum() + 1
    slots, columns = np.empty(room, np.int64), np.empty(room, np.int64)
    first = np.empty(n + 1, np.int64)
    count, at = n, 0
    for k in range(n):
        q = requests[k]
        slots[k], columns[k], first[k] = q, chosen[q], count
        while at < slot.size and slot[at] <= q:
            if slot[at] == q and not far[k]:
                slots[count], columns[count] = q, column[at]
                count += 1
            at += 1
        if far[k]:
            for j in range(n_columns[q]):
                slots[count], columns[count] = q, j
                count += 1
    first[n] = count
    slots[count], columns[count] = 0, -1
    return first, slots[: count + 1], columns[: count + 1]


@kernel(inner=True)
def _give(items, has, k, i, left):  # type: ignore[no-untyped-def]
    """Replace the item of request k by item i."""
    take(items.row, items.value, items.begin[has[k]], items.end[has[k]], 1.0, left)
    take(items.row, items.value, items.begin[i], items.end[i], -1.0, left)
    has[k] = i


@kernel(inner=True)
def _best_move(first, items, has, strict, left, k, fill, zero_tolerance):  # type: ignore[no-untyped-def]
    """Return (merit, item) of the best move of request k that fits after it returns its present item.

    The merit is the gain at the prices. With `fill` it is the gain in plain cost for each unit of price that
    the move uses, so that requests with the best use of the remaining capacity come first.
    """
    prices, costs, begin, end, row, value = (
        items.price,
        items.cost,
        items.begin,
        items.end,
        items.row,
        items.value,
    )
    own, nothing = has[k], prices.size - 1
    now, cost = prices[own], costs[own]
    best, merit, returned = own, 0.0, False
    if not strict[k] and not fill and now > 0.0:
        best, merit = nothing, now
    for i in range(first[k], first[k + 1]):
        gain = now - prices[i]
        if fill:
            saved = cost - costs[i]
            if saved <= zero_tolerance:
                continue
            gain = saved / max(saved - gain, 1e3 * zero_tolerance, 1e-9 * saved)
        if gain > merit:
            if not returned:
                take(row, value, begin[own], end[own], 1.0, left)
                returned = True
            if fits(row, value, begin[i], end[i], left):
                best, merit = i, gain
    if returned:
        take(row, value, begin[own], end[own], -1.0, left)
    return merit, best


@kernel(allocates=True, inner=True)
def _move(first, items, has, strict, left, places, fill, zero_tolerance):  # type: ignore[no-untyped-def]
    """Make moves in decreasing order of merit; ties are resolved by the order of requests."""
    least = ZERO_TOLERANCE if fill else zero_tolerance
    merit, heap = np.empty(places.size), np.empty(places.size, np.int64)
    for _ in range(_PASSES):
        count = np.int64(0)
        for k in places:
            found, _ = _best_move(first, items, has, strict, left, k, fill, zero_tolerance)
            if found > least:
                merit[count], heap[count] = found, k
                count += 1
        for at in range(count // 2 - 1, -1, -1):
            _sink(merit, heap, at, count)
        moved = False
        for _ in range(2 * places.size):
            if count == 0:
                break
            found, i = _best_move(first, items, has, strict, left, heap[0], fill, zero_tolerance)
            if found >= merit[0]:
                _give(items, has, heap[0], i, left)
                moved, found = True, 0.0
            if found > least:
                merit[0] = found  # the capacities have changed: the move waits until its merit is the best
            else:
                count -= 1
                merit[0], heap[0] = merit[count], heap[count]
            _sink(merit, heap, np.int64(0), count)
        if not moved:
            break


@kernel(inner=True)
def _sink(merit, heap, at, count):  # type: ignore[no-untyped-def]
    """Sink an entry of the heap until no entry below it has more merit."""
    while True:
        best = at
        for child in (2 * at + 1, 2 * at + 2):
            if child < count and (
                merit[child] > merit[best] or (merit[child] == merit[best] and heap[child] < heap[best])
            ):
                best = child
        if best == at:
            return
        merit[at], merit[best] = merit[best], merit[at]
        heap[at], heap[best] = heap[best], heap[at]
        at = best


@kernel(allocates=True, inner=True)
def _worst(loss, enough):  # type: ignore[no-untyped-def]
    """Return the few requests with the largest losses above `enough`, and overwrite these losses."""
    worst = np.empty(_ROOM_FOR, np.int64)
    for n in range(_ROOM_FOR):  # numba compiles a sort slowly
        most, largest = -1, enough
        for k in range(loss.size):
            if loss[k] > largest:
                most, largest = k, loss[k]
        if most < 0:
            return worst[:n]
        worst[n], loss[most] = most, -np.inf
    return worst


@kernel(allocates=True, inner=True)
def _make_room(first, items, has, left, upper, k, zero_tolerance):  # type: ignore[no-untyped-def]
    """Move request k to a column that does not fit while others make room, if the total gain is positive."""
    moved, before = np.empty(_EJECTIONS + 1, np.int64), np.empty(_EJECTIONS + 1, np.int64)
    now, tried = items.price[has[k]], -np.inf
    for _ in range(_TARGETS):
        target, low = np.int64(-1), now  # the next offer in increasing order of price
        for i in range(first[k], first[k + 1]):
            if tried < items.price[i] < low:
                target, low = np.int64(i), items.price[i]
        if target < 0:
            return
        tried, moved[0], before[0] = low, k, has[k]
        _give(items, has, k, target, left)
        gain, count = now - low, 1
        while count <= _EJECTIONS:
            row = _shortest(left, upper)
            if row < 0:
                break
            other, item, price = _cheapest_release(first, items, has, left, k, row, zero_tolerance)
            if other < 0 or price >= gain:
                break
            gain -= price
            moved[count], before[count] = other, has[other]
            count += 1
            _give(items, has, other, item, left)
        if _shortest(left, upper) < 0 and gain > 0.0:
            return
        for m in range(count - 1, -1, -1):
            _give(items, has, moved[m], before[m], left)


@kernel(inner=True)
def _shortest(left, upper):  # type: ignore[no-untyped-def]
    """Return the row that exceeds its bound by the largest share of the bound; -1 if no row exceeds it."""
    worst, most = -1, 0.0
    for row in range(upper.size):
        if left[2 * row] < 0.0 and -left[2 * row] > most * abs(upper[row]):
            worst, most = row, -left[2 * row] / abs(upper[row]) if upper[row] != 0.0 else np.inf
    return worst


@kernel(inner=True)
def _usage_of(entry_row, value, begin, end, row):  # type: ignore[no-untyped-def]
    for e in range(begin, end):
        if entry_row[e] == row:
            return value[e]
    return 0.0


@kernel(inner=True)
def _cheapest_release(first, items, has, left, keep, row, zero_tolerance):  # type: ignore[no-untyped-def]
    """Return (request, item, price) of the move that frees a row at the least price for each missing unit.

    The row itself may still exceed its bound; every other row must hold.
    """
    prices, begin, end, rows, value = items.price, items.begin, items.end, items.row, items.value
    request, item, paid, best = -1, -1, np.inf, np.inf
    missing = -left[2 * row]
    for k in range(has.size):
        own = has[k]
        used = _usage_of(rows, value, begin[own], end[own], row)
        if k == keep or used <= 0.0:
            continue
        returned, high, low = False, 0.0, 0.0
        for i in range(first[k], first[k + 1]):
            freed = used - _usage_of(rows, value, begin[i], end[i], row)
            if freed <= 0.0:
                continue
            price = max(prices[i] - prices[own], 0.0)
            rate = (price + 1e3 * zero_tolerance) / min(freed, missing)
            if rate >= best:
                continue
            if not returned:
                take(rows, value, begin[own], end[own], 1.0, left)
                returned, high, low = True, left[2 * row], left[2 * row + 1]
                left[2 * row] = np.inf
            if fits(rows, value, begin[i], end[i], left):
                request, item, paid, best = k, i, price, rate
        if returned:
            left[2 * row], left[2 * row + 1] = high, low
            take(rows, value, begin[own], end[own], -1.0, left)
    return request, item, paid
