"""Steps 3 and 4 of :mod:`copter.shims.choose_one`: moves of requests to better columns, and room for them.

Prices and costs do not change while a program is rounded.  So the columns to which a move may gain, the
offers, are read once: their price, their cost, and where their entries are.  After that, a pass looks at
neither the store's costs nor its pointers.

A pass finds the merit of every request's best move, and then makes the best of them until none is left.  Each
takes something from the others, so merits go out of date; they seldom rise.  They stay in a heap: the one on
top is found again before its move is made, and sinks if it is less by now.  What rose is found by the next
pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import inlined_kernel, kernel
from copter.shims.choose_one_placing import SLACK
from copter.store.store import EXACTLY
from copter.store.view import cap_of, coefficients_of, cost_of, entries_of, paid_for

Array = Any

_PASSES = 3
_WORTH_MAKING_ROOM = 2e-5
_ROOM_FOR = 12
_EJECTIONS = 6
_TARGETS = 3
"""Columns that are tried for a request that others make room for."""
DUST = 1e-12
"""Of what a typical request costs: gains below it are rounding errors."""


class Offers(NamedTuple):
    """Columns to which requests may move, request after request.

    Attributes
    ----------
    first : (n + 1,) array
        Those of the k-th request are ``first[k]`` to ``first[k + 1]``.
    column, price, cost : (offers,) arrays
        Place in the request; cost with its usage paid, and without.
    begin, end : (offers,) arrays
        Where its entries are.
    shift, stride : (offers,) arrays
        Where their coefficients are (:func:`copter.store.view.coefficients_of`).
    """

    first: NDArray[np.int64]
    column: NDArray[np.int64]
    price: NDArray[np.float64]
    cost: NDArray[np.float64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    shift: NDArray[np.uint64]
    stride: NDArray[np.uint64]


class Held(NamedTuple):
    """The column that each request has; -1, without price, cost and entries, for none.

    Attributes
    ----------
    column, price, cost, begin, end, shift, stride : (n,) arrays
        As those of :class:`Offers`.
    strict : (n,) array
        Whether a request must have one.
    """

    column: NDArray[np.int64]
    price: NDArray[np.float64]
    cost: NDArray[np.float64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    shift: NDArray[np.uint64]
    stride: NDArray[np.uint64]
    strict: NDArray[np.bool_]


class Rows(NamedTuple):
    """The entries of all columns, and what is left of each row.

    Attributes
    ----------
    row, coefficient : arrays
        The store's.
    left, slack : (row slots,) arrays
        The latter is what rounding errors may take of it.
    """

    row: NDArray[np.int32]
    coefficient: NDArray[np.float64]
    left: NDArray[np.float64]
    slack: NDArray[np.float64]


@kernel
def improve(
    view: Any,
    y: Array,
    requests: Array,
    chosen: Array,
    left: Array,
    slack: Array,
    candidates: Any,
    marginal: Array,
    reach: float,
    size: float,
) -> Any:
    """Let requests move while that lowers the cost.

    Parameters
    ----------
    view : StoreView
    y : (row slots,) array
        Prices.
    requests, chosen : (n,) and (request slots,) arrays
        Of :func:`copter.shims.choose_one_placing.place_fractions`; ``chosen`` is changed.
    left, slack : (row slots,) arrays
        Of :class:`Rows`; ``left`` is changed.
    candidates : (slot, column)
        Columns near the best prices, ascending by slot.
    marginal : (request slots,) array
        Best price of each request.
    reach : float
        By so much a candidate is above it at most; of requests that are farther from it all columns count.
    size : float
        Of the objective: gains far below it are rounding errors.

    Returns
    -------
    objective, paid : float
        Cost, and the sum of absolute costs of the requests that have a choice.
    served : bool
        Whether all that must have a column have one.
    """
    n = requests.size
    dust = DUST * size / max(1, n)
    held = _held(view, y, requests, chosen)
    offers = _offers(view, y, requests, candidates, held, marginal, reach)
    rows = Rows(view.row, view.coefficient, left, slack)
    below, everyone = np.empty(n, np.int64), np.arange(n)
    count = 0
    for k in range(n):
        if held.price[k] > marginal[requests[k]] + dust:
            below[count] = k
            count += 1
    _move(offers, held, rows, below[:count], False, dust)
    _move(offers, held, rows, everyone, True, dust)
    worst = _worst(held, requests, marginal, _WORTH_MAKING_ROOM * size)
    if worst.size:
        for k in worst:
            _make_room(offers, held, rows, k, dust)
        _move(offers, held, rows, everyone, True, dust)
    objective, paid, served = 0.0, 0.0, True
    for k in range(n):
        chosen[requests[k]] = held.column[k]
        objective += held.cost[k]
        if view.n_columns[requests[k]] > 1:
            paid += abs(held.cost[k])
        served = served and (held.column[k] >= 0 or not held.strict[k])
    return objective, paid, served


@kernel
def _nothing_held(n):  # type: ignore[no-untyped-def]
    whole, places, strict = np.zeros((2, n), np.int64), np.zeros((2, n), np.uint64), np.zeros(n, np.bool_)
    return Held(np.full(n, -1), np.zeros(n), np.zeros(n), whole[0], whole[1], places[0], places[1], strict)


@kernel
def _held(view, y, requests, chosen):  # type: ignore[no-untyped-def]
    held = _nothing_held(requests.size)
    for k in range(requests.size):
        q = requests[k]
        j = chosen[q]
        held.strict[k] = view.relation[q] == EXACTLY
        if j >= 0:
            first, last = entries_of(view, view.usage[q], j, j + 1)
            held.column[k], held.begin[k], held.end[k] = j, first, last
            held.shift[k], held.stride[k] = coefficients_of(view, view.usage[q])
            held.cost[k] = cost_of(view, q, j)
            held.price[k] = held.cost[k] + paid_for(view, view.usage[q], j, y)
    return held


@kernel
def _offers(view, y, requests, candidates, held, marginal, reach):  # type: ignore[no-untyped-def]
    """What each request may move to; all its columns if it got much less than its best."""
    slot, column = candidates
    room, at = 0, 0
    far = np.empty(requests.size, np.bool_)
    for k in range(requests.size):
        q = requests[k]
        far[k] = held.price[k] > marginal[q] + reach
        room += view.n_columns[q] if far[k] else 0
    room += slot.size
    offers = Offers(
        np.empty(requests.size + 1, np.int64),
        np.empty(room, np.int64),
        np.empty(room),
        np.empty(room),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
    )
    count = 0
    for k in range(requests.size):
        q = requests[k]
        offers.first[k] = count
        while at < slot.size and slot[at] < q:
            at += 1
        begin = at
        while at < slot.size and slot[at] == q:
            at += 1
        for i in range(view.n_columns[q] if far[k] else at - begin):
            j = i if far[k] else column[begin + i]
            if cap_of(view, q, j) < 1.0:
                continue
            first, last = entries_of(view, view.usage[q], j, j + 1)
            offers.column[count], offers.begin[count], offers.end[count] = j, first, last
            offers.shift[count], offers.stride[count] = coefficients_of(view, view.usage[q])
            offers.cost[count] = cost_of(view, q, j)
            offers.price[count] = offers.cost[count] + paid_for(view, view.usage[q], j, y)
            count += 1
    offers.first[requests.size] = count
    return offers


@inlined_kernel
def _use(rows, table, k, sign):  # type: ignore[no-untyped-def]
    """Take the entries of a column off what is left (sign -1), or give them back (+1)."""
    shift, stride = table.shift[k], table.stride[k]
    for e in range(table.begin[k], table.end[k]):
        rows.left[rows.row[e]] += sign * rows.coefficient[shift + stride * np.uint64(e)]


@inlined_kernel
def _fits(rows, table, k):  # type: ignore[no-untyped-def]
    fits = True
    shift, stride = table.shift[k], table.stride[k]
    for e in range(table.begin[k], table.end[k]):
        used = rows.coefficient[shift + stride * np.uint64(e)]
        if used > rows.left[rows.row[e]] + SLACK * abs(used):
            fits = False
    return fits


@kernel
def _put(offers, held, rows, k, i):  # type: ignore[no-untyped-def]
    """Give request k what its i-th offer is, or nothing (-1), in place of what it has."""
    _use(rows, held, k, 1.0)
    if i < 0:
        held.column[k], held.price[k], held.cost[k] = -1, 0.0, 0.0
        held.begin[k] = held.end[k] = 0
        return
    held.column[k], held.price[k], held.cost[k] = offers.column[i], offers.price[i], offers.cost[i]
    held.begin[k], held.end[k] = offers.begin[i], offers.end[i]
    held.shift[k], held.stride[k] = offers.shift[i], offers.stride[i]
    _use(rows, held, k, -1.0)


@kernel
def _best_move(offers, held, rows, k, fill, dust):  # type: ignore[no-untyped-def]
    """(merit, offer) of the best move of request k that fits once it gives back what it has.

    The merit is the gain at the prices, or, to ``fill`` what is left, the gain in plain cost for each unit of
    price that the move uses up: who uses it best comes first, not who uses most.
    """
    now, cost = held.price[k], held.cost[k]
    _use(rows, held, k, 1.0)
    best, merit = -1, 0.0
    if not held.strict[k] and held.column[k] >= 0 and not fill:
        merit = max(now, 0.0)
    for i in range(offers.first[k], offers.first[k + 1]):
        gain = now - offers.price[i]
        if fill:
            saved = cost - offers.cost[i]
            if saved <= dust:
                continue
            gain = saved / max(saved - gain, 1e3 * dust, 1e-9 * saved)
        if gain > merit and _fits(rows, offers, i):
            best, merit = i, gain
    _use(rows, held, k, -1.0)
    return merit, best


@kernel
def _move(offers, held, rows, places, fill, dust):  # type: ignore[no-untyped-def]
    """Moves of merit, best first; of equal ones the first request's."""
    least = DUST if fill else dust
    merit, heap = np.empty(places.size), np.empty(places.size, np.int64)
    for _ in range(_PASSES):
        count = 0
        for k in places:
            found = _best_move(offers, held, rows, k, fill, dust)[0]
            if found > least:
                merit[count], heap[count] = found, k
                count += 1
        for at in range(count // 2 - 1, -1, -1):
            _sink(merit, heap, at, count)
        moved = False
        for _ in range(2 * places.size):
            if count == 0:
                break
            found, i = _best_move(offers, held, rows, heap[0], fill, dust)
            if found >= merit[0]:
                _put(offers, held, rows, heap[0], i)
                moved, found = True, 0.0
            if found > least:
                merit[0] = found  # what is left has changed: it waits until its turn comes again
            else:
                count -= 1
                merit[0], heap[0] = merit[count], heap[count]
            _sink(merit, heap, 0, count)
        if not moved:
            break


@kernel
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


@kernel
def _worst(held, requests, marginal, enough):  # type: ignore[no-untyped-def]
    """The few requests that lost most against their best price, and more than ``enough``."""
    loss, worst = np.empty(_ROOM_FOR), np.empty(_ROOM_FOR, np.int64)
    count = 0
    for k in range(requests.size):
        lost = held.price[k] - marginal[requests[k]]
        if lost <= enough or (count == _ROOM_FOR and lost <= loss[count - 1]):
            continue
        count = min(count + 1, _ROOM_FOR)
        at = count - 1
        while at > 0 and loss[at - 1] < lost:
            loss[at], worst[at] = loss[at - 1], worst[at - 1]
            at -= 1
        loss[at], worst[at] = lost, k
    return worst[:count]


@kernel
def _make_room(offers, held, rows, k, dust):  # type: ignore[no-untyped-def]
    """Move request k to a column that does not fit while others make room, if all together gain."""
    moved, before = np.empty(_EJECTIONS + 1, np.int64), _nothing_held(_EJECTIONS + 1)
    now, tried = held.price[k], -np.inf
    for _ in range(_TARGETS):
        target, low = -1, now  # the next offer in the order of prices
        for i in range(offers.first[k], offers.first[k + 1]):
            if tried < offers.price[i] < low:
                target, low = i, offers.price[i]
        if target < 0:
            return
        tried, moved[0] = low, k
        _keep(held, k, before, 0)
        _put(offers, held, rows, k, target)
        gain, count = now - low, 1
        while count <= _EJECTIONS:
            row = _shortest(rows)
            if row < 0:
                break
            other, offer, price = _cheapest_release(offers, held, rows, k, row, dust)
            if other < 0 or price >= gain:
                break
            gain -= price
            moved[count] = other
            _keep(held, other, before, count)
            count += 1
            _put(offers, held, rows, other, offer)
        if _shortest(rows) < 0 and gain > 0.0:
            return
        for m in range(count - 1, -1, -1):
            other = moved[m]
            _use(rows, held, other, 1.0)
            _keep(before, m, held, other)
            _use(rows, held, other, -1.0)


@kernel
def _keep(source, k, target, m):  # type: ignore[no-untyped-def]
    """Copy what the k-th holds to the m-th of another."""
    target.column[m], target.price[m], target.cost[m] = source.column[k], source.price[k], source.cost[k]
    target.begin[m], target.end[m] = source.begin[k], source.end[k]
    target.shift[m], target.stride[m] = source.shift[k], source.stride[k]


@kernel
def _shortest(rows):  # type: ignore[no-untyped-def]
    """The row that is exceeded most, in units of its slack; -1 if none is."""
    worst, most = -1, 1.0
    for row in range(rows.left.size):
        missing, slack = -rows.left[row], rows.slack[row]
        if missing > slack and missing > most * slack:
            worst, most = row, missing / slack if slack > 0.0 else np.inf
    return worst


@inlined_kernel
def _usage_of(rows, table, k, row):  # type: ignore[no-untyped-def]
    usage = 0.0
    for e in range(table.begin[k], table.end[k]):
        if rows.row[e] == row:
            usage = rows.coefficient[table.shift[k] + table.stride[k] * np.uint64(e)]
    return usage


@kernel
def _cheapest_release(offers, held, rows, keep, row, dust):  # type: ignore[no-untyped-def]
    """(request, offer, price) of the move that frees a row at the least price for what is missing.

    The row itself may stay short; every other must hold.
    """
    request, offer, paid, best = -1, -1, np.inf, np.inf
    missing = -rows.left[row]
    for k in range(held.column.size):
        has = _usage_of(rows, held, k, row)
        if k == keep or has <= 0.0:
            continue
        _use(rows, held, k, 1.0)
        for i in range(offers.first[k], offers.first[k + 1]):
            freed = has - _usage_of(rows, offers, i, row)
            if freed <= 0.0:
                continue
            price = max(offers.price[i] - held.price[k], 0.0)
            rate = (price + 1e3 * dust) / min(freed, missing)
            if rate < best:
                returned, rows.left[row] = rows.left[row], np.inf
                if _fits(rows, offers, i):
                    request, offer, paid, best = k, i, price, rate
                rows.left[row] = returned
        _use(rows, held, k, -1.0)
    return request, offer, paid
