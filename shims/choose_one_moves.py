"""Steps 3 and 4 of :mod:`copter.shims.choose_one`: moves of requests to better columns, and room for them.

Everything that a request may have is one item among :class:`copter.shims.choose_one_columns.PricedColumns`:
what it got at first, its offers (the columns to which a move may gain), and, last of all, nothing.  A request
is known by its place among all that there are; ``has`` says which item each has.

A pass finds the merit of every request's best move, and then makes the best of them until none is left.  Each
takes something from the others, so merits go out of date; they seldom rise.  They stay in a heap: the one on
top is found again before its move is made, and sinks if it is less by now.  What rose is found by the next
pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from copter.compile.kernels import kernel
from copter.shims.choose_one_columns import fits, take
from copter.store.store import EXACTLY

_Array = Any

_PASSES = 3
_WORTH_MAKING_ROOM = 2e-5
_ROOM_FOR = 12
_EJECTIONS = 6
_TARGETS = 3
"""Columns that are tried for a request that others make room for."""
ZERO_TOLERANCE = 1e-12
"""Of what a typical request costs: gains below it are rounding errors."""


@kernel(allocates=True)
def improve(
    relation: _Array,
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
    """Let requests move while that lowers the cost.

    `requests`: slots of all requests, ascending. `first`, `items`: of :func:`offers`, read. `has`: item that
    each has; changed. `chosen`: becomes the column of each request, -1 for none. `left`: what is left of each
    row; changed. `marginal`: best price of each request. `size`: of the objective: gains far below it are
    rounding errors. Result: cost, as the sum of two doubles; requests that must have a column and have none.
    """
    n = requests.size
    zero_tolerance = ZERO_TOLERANCE * size / max(1, n)
    least, strict = marginal[requests], relation[requests] == EXACTLY
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
    """What requests may have: what they got, then what they may move to, and last of all nothing.

    They may move to candidates; those that got much less than their best may have any of their columns.

    `requests`: slots of all requests, ascending. `chosen`: column of each, -1 for none. `far`: whether any
    column counts. `slot`, `column`: candidates, ascending by slot. Result: those from ``first[k]`` to
    ``first[k + 1]`` are the k-th one's to move to; a column of -1 is none.
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
    """Give request k item i in place of what it has."""
    take(items.row, items.value, items.begin[has[k]], items.end[has[k]], 1.0, left)
    take(items.row, items.value, items.begin[i], items.end[i], -1.0, left)
    has[k] = i


@kernel(inner=True)
def _best_move(first, items, has, strict, left, k, fill, zero_tolerance):  # type: ignore[no-untyped-def]
    """(merit, item) of the best move of request k that fits once it gives back what it has.

    The merit is the gain at the prices, or, to ``fill`` what is left, the gain in plain cost for each unit of
    price that the move uses up: who uses it best comes first, not who uses most.
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
    """Moves of merit, best first; of equal ones the first request's."""
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
                merit[0] = found  # what is left has changed: it waits until its turn comes again
            else:
                count -= 1
                merit[0], heap[0] = merit[count], heap[count]
            _sink(merit, heap, np.int64(0), count)
        if not moved:
            break


@kernel(inner=True)
def _sink(merit, heap, at, count):  # type: ignore[no-untyped-def]
    """Let an entry of the heap sink until none below it has more merit."""
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
    """The few requests that lost most against their best price, and more than ``enough``."""
    lost = np.flatnonzero(loss > enough)
    return lost[np.argsort(-loss[lost], kind="mergesort")[:_ROOM_FOR]]


@kernel(allocates=True, inner=True)
def _make_room(first, items, has, left, upper, k, zero_tolerance):  # type: ignore[no-untyped-def]
    """Move request k to a column that does not fit while others make room, if all together gain."""
    moved, before = np.empty(_EJECTIONS + 1, np.int64), np.empty(_EJECTIONS + 1, np.int64)
    now, tried = items.price[has[k]], -np.inf
    for _ in range(_TARGETS):
        target, low = np.int64(-1), now  # the next offer in the order of prices
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
    """The row that is exceeded by the largest share of its bound; -1 if none is."""
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
    """(request, item, price) of the move that frees a row at the least price for what is missing.

    The row itself may stay short; every other must hold.
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
