"""Ejection chains: a request that fits nowhere ejects others, which are then placed elsewhere.

If rows are nearly full, the remaining capacity is fragmented, and a large request fits only after several
others have moved. An unplaced request takes the column for which the requests that it ejects have the
smallest sum of penalties. Each ejected request waits for its turn. The penalty of a request is 1 plus the
number of times that it could not be placed. So requests that are hard to place stay placed, and the search
does not cycle. Order and pseudo-random numbers are fixed: equal programs give equal results.

Source: guided ejection search, Nagata and Braysy (2009), "A powerful route minimization heuristic for the
vehicle routing problem with time windows"; the rows of the program correspond to the routes in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from copter.compile.kernels import kernel
from copter.shims.choose_one_columns import fits, take

_Array = Any

_MOST_OUT = 4
"""Largest number of requests that one request ejects."""
_USERS = 24
"""Largest number of requests considered for ejection for one column: those with the smallest penalties."""
_STIRRED = 12
"""Number of random requests that try to move to another column after each ejection."""


@kernel(allocates=True)
def place_all(
    first: _Array, items: Any, has: _Array, strict: _Array, left: _Array, turns: int, found: _Array
) -> int:
    """Search for an allocation in which every request that must have a column has one.

    `first`, `items`: items of each request, as in :func:`copter.shims.choose_one_moves.improve`. `has`: item
    of each request; changed to the best allocation found. `strict`: True if the request must have a column.
    `left`: remaining capacity of each row; changed. `turns`: largest number of unplaced requests to process.
    `found`: number of times that each request could not be placed; changed, so that a next call continues the
    search. Return the number of unplaced requests that must have a column.
    """
    n, nothing = has.size, items.column.size - 1
    waiting = np.empty(n, np.int64)
    count = 0
    for k in range(n):
        if strict[k] and items.column[has[k]] < 0:
            has[k] = nothing
            waiting[count] = k
            count += 1
    best, fewest = has.copy(), count
    out = np.empty(_MOST_OUT, np.int64)
    state = np.uint64(88172645463325252)
    users = _users(items, has, left.size // 2)
    for _ in range(turns):
        if count == 0:
            break
        state, draw = _drawn(state, count)
        k = waiting[draw]
        waiting[draw] = waiting[count - 1]
        count -= 1
        item = _cheapest_that_fits(first, items, left, k)
        if item >= 0:
            _give(items, has, users, left, k, item)
        else:
            found[k] += 1
            item, thrown = _least_thrown(first, items, has, users, found, left, k, out)
            if item < 0:  # the requests that block it cannot be ejected
                waiting[count] = k
                count += 1
                continue
            for j in range(thrown):
                _give(items, has, users, left, out[j], nothing)
                if strict[out[j]]:
                    waiting[count] = out[j]
                    count += 1
            _give(items, has, users, left, k, item)
            for _ in range(_STIRRED):
                state, other = _drawn(state, n)
                state = _stir(first, items, has, users, left, other, nothing, state)
        if count < fewest:
            best[:], fewest = has, count
    for k in range(n):
        if has[k] != best[k]:
            take(items.row, items.value, items.begin[has[k]], items.end[has[k]], 1.0, left)
    for k in range(n):
        if has[k] != best[k]:
            take(items.row, items.value, items.begin[best[k]], items.end[best[k]], -1.0, left)
            has[k] = best[k]
    return fewest


@kernel(inner=True)
def _drawn(state, count):  # type: ignore[no-untyped-def]
    """Return (next state, number below `count`), by xorshift."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state, np.int64(state % np.uint64(count))


@kernel(allocates=True, inner=True)
def _users(items, has, rows):  # type: ignore[no-untyped-def]
    """Return the users of each row as doubly linked lists: (head, next, previous, width).

    Entry e of request k's item is node ``k * width + e``.
    """
    width = 1
    for i in range(items.column.size):
        width = max(width, items.end[i] - items.begin[i])
    head = np.full(rows, -1)
    after, before = np.full(has.size * width, -1), np.full(has.size * width, -1)
    users = head, after, before, width
    for k in range(has.size):
        _link(items, users, k, has[k])
    return users


@kernel(inner=True)
def _link(items, users, k, item):  # type: ignore[no-untyped-def]
    head, after, before, width = users
    for e in range(items.end[item] - items.begin[item]):
        row, node = items.row[items.begin[item] + e], k * width + e
        after[node], before[node] = head[row], -1
        if head[row] >= 0:
            before[head[row]] = node
        head[row] = node


@kernel(inner=True)
def _unlink(items, users, k, item):  # type: ignore[no-untyped-def]
    head, after, before, width = users
    for e in range(items.end[item] - items.begin[item]):
        row, node = items.row[items.begin[item] + e], k * width + e
        if before[node] >= 0:
            after[before[node]] = after[node]
        else:
            head[row] = after[node]
        if after[node] >= 0:
            before[after[node]] = before[node]


@kernel(inner=True)
def _give(items, has, users, left, k, item):  # type: ignore[no-untyped-def]
    """Replace the item of request k by another."""
    _unlink(items, users, k, has[k])
    take(items.row, items.value, items.begin[has[k]], items.end[has[k]], 1.0, left)
    take(items.row, items.value, items.begin[item], items.end[item], -1.0, left)
    _link(items, users, k, item)
    has[k] = item


@kernel(inner=True)
def _cheapest_that_fits(first, items, left, k):  # type: ignore[no-untyped-def]
    best, price = -1, np.inf
    for i in range(first[k], first[k + 1]):
        if items.price[i] < price and fits(items.row, items.value, items.begin[i], items.end[i], left):
            best, price = i, items.price[i]
    return best


@kernel(inner=True)
def _stir(first, items, has, users, left, k, nothing, state):  # type: ignore[no-untyped-def]
    """Move request k to a random column of its own, if it fits; return the next random state."""
    if has[k] == nothing or first[k + 1] == first[k]:
        return state
    state, at = _drawn(state, first[k + 1] - first[k])
    i = first[k] + at
    own = has[k]
    if items.cost[i] < np.inf and items.column[i] != items.column[own]:
        take(items.row, items.value, items.begin[own], items.end[own], 1.0, left)
        free = fits(items.row, items.value, items.begin[i], items.end[i], left)
        take(items.row, items.value, items.begin[own], items.end[own], -1.0, left)
        if free:
            _give(items, has, users, left, k, i)
    return state


@kernel(allocates=True, inner=True)
def _least_thrown(first, items, has, users, found, left, k, out):  # type: ignore[no-untyped-def]
    """Return (item, number of ejections) for the column of request k with the least sum of penalties.

    The ejected requests are written to `out`. Ties are resolved by price. The item is -1 if no column can be
    made to fit.
    """
    best, count, least, price = -1, 0, np.inf, np.inf
    some, chosen = np.empty(_USERS, np.int64), np.empty(_MOST_OUT, np.int64)
    for i in range(first[k], first[k + 1]):
        if items.cost[i] == np.inf:
            continue
        n = _in_the_way(items, users, found, left, k, i, some)
        if n == 0:
            continue
        take(items.row, items.value, items.begin[i], items.end[i], -1.0, left)
        depth, paid = _cheapest_set(items, has, found, left, i, some[:n], least, chosen)
        take(items.row, items.value, items.begin[i], items.end[i], 1.0, left)
        if depth and (paid < least or (paid == least and items.price[i] < price)):
            best, count, least, price = i, depth, paid, items.price[i]
            out[:depth] = chosen[:depth]
    return best, count


@kernel(inner=True)
def _in_the_way(items, users, found, left, k, i, some):  # type: ignore[no-untyped-def]
    """Write to `some`, by increasing penalty, the users of the rows that block item i; return how many."""
    head, after, _, width = users
    n = 0
    for e in range(items.begin[i], items.end[i]):
        row = items.row[e]
        if not items.value[e] > left[2 * row]:
            continue
        node = head[row]
        while node >= 0:
            other = node // width
            node = after[node]
            known = other == k
            for j in range(n):
                known = known or some[j] == other
            if known:
                continue
            at = n
            if n == some.size:
                if found[some[n - 1]] <= found[other]:
                    continue
                at = n - 1
            while at > 0 and found[some[at - 1]] > found[other]:
                if at < some.size:
                    some[at] = some[at - 1]
                at -= 1
            some[at] = other
            n = min(n + 1, some.size)
    return n


@kernel(inner=True)
def _short(items, left, i):  # type: ignore[no-untyped-def]
    """Return whether item i is on a row whose capacity is exceeded."""
    for e in range(items.begin[i], items.end[i]):
        if left[2 * items.row[e]] < 0.0:
            return True
    return False


@kernel(allocates=True, inner=True)
def _cheapest_set(items, has, found, left, i, some, least, chosen):  # type: ignore[no-untyped-def]
    """Return (size, penalty) of the cheapest set whose ejection makes room for item i.

    The entries of item i are already subtracted from `left`. All sets of up to ``_MOST_OUT`` requests are
    enumerated, except those that cost at least as much as the best set so far. The size is 0 if no set costs
    less than `least`.
    """
    stack, depth = np.empty(_MOST_OUT, np.int64), 0
    size, paid, at = 0, 0.0, 0
    best = least
    while True:
        if at < some.size and depth < _MOST_OUT:
            # candidates are sorted, so the next one costs at least as much
            cost = 1.0 + found[some[at]]
            if paid + cost < best or (paid + cost == best and size == 0):
                own = has[some[at]]
                take(items.row, items.value, items.begin[own], items.end[own], 1.0, left)
                if not _short(items, left, i):
                    take(items.row, items.value, items.begin[own], items.end[own], -1.0, left)
                    best, size = paid + cost, depth + 1
                    for j in range(depth):
                        chosen[j] = some[stack[j]]
                    chosen[depth] = some[at]
                    at += 1
                else:
                    stack[depth] = at
                    depth += 1
                    paid += cost
                    at += 1
                continue
            at = some.size
            continue
        if depth == 0:
            break
        depth -= 1
        own = has[some[stack[depth]]]
        take(items.row, items.value, items.begin[own], items.end[own], -1.0, left)
        paid -= 1.0 + found[some[stack[depth]]]
        at = stack[depth] + 1
    return size, best
