"""Passes over the columns of a flow program: load of the rows, columns to cut, columns to fill.

These are kernels of :mod:`copter.shims.flow`.  A flow is an array parallel to the store's array of costs: one
entry for each column, in the order of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.parallel import chunk_bounds, run_chunks
from copter.store.allocation import SparseX
from copter.store.store import ConstraintStore
from copter.store.view import cap_of, coefficients_of, entries_of, paid_for

_ZERO_TOLERANCE = 1e-12
_STEPS = 4096
_NO_ROWS = np.empty(0)
_RELATIVE_FLOOR, _SLIGHT = 1e-5, 1e-7
"""The first determines a small addition to the price of each row (:func:`worth_of`). The second is the share
of a demand's mean flow below which room is not filled. If rows exceed their bounds by less than the second
share of all flow, columns are cut in the order in which they are stored, because sorting them takes longer.
"""


class ColumnFlows:
    """Flow of each column, parallel to the store's array of costs at that time.

    `values` (columns,). `requests`, `starts`, `sizes` (k,): slots of the requests, the starts of their
    columns, and their numbers of columns.
    """

    def __init__(self, values: Floats, requests: Ints, starts: Ints, sizes: Ints) -> None:
        self.values, self.of = values, (requests, starts, sizes)

    def others(self, values: Floats) -> ColumnFlows:
        """Return other flows of the same columns."""
        return ColumnFlows(values, *self.of)

    @cached_property
    def nonzeros(self) -> SparseX:
        """Columns with flow."""
        return SparseX(*_nonzeros(*self.of, self.values))


class Passes:
    """Passes over the columns of some requests, in chunks that run in threads.

    Arguments: `flow`, one entry a column; `room`, one a request slot, the unserved part of its total; `load`,
    `upper`, `worth` (prices) and `dead` (bool), one a row slot. The methods take, cut, fill and serve change
    `flow`, `room` and `load`.

    `requests` (k,): slots of these requests.
    """

    def __init__(self, store: ConstraintStore, requests: Ints) -> None:
        self.view = view = store.executor.all_columns()
        self.requests, self.rows, self._live = requests, store.rows.size, store.live_requests()
        bounds = chunk_bounds(view.n_columns[requests])
        self._chunks = [requests[a:b] for a, b in pairwise(bounds.tolist())]

    def _run(self, task: Callable[[Ints], Any]) -> list[Any]:
        return run_chunks(lambda k: task(self._chunks[k]), len(self._chunks), None)

    def take(self, x: SparseX, flow: Floats, room: Floats) -> float:
        """Write an allocation to `flow` and subtract it from `room`; return its cost."""
        return _take(self.view, x.slot, x.column, x.value, flow, room)

    def load(self, flow: Floats) -> Floats:
        """Return the load of each row slot; the order of summation does not depend on the threads."""
        return self.load_and_prices(flow, _NO_ROWS)[0]

    def load_and_prices(self, flow: Floats, worth: Floats) -> tuple[Floats, Floats]:
        """Return the load, and the price of each column with flow."""
        price = np.empty(flow.size if worth.size else 0)
        parts = self._run(lambda some: _load(self.view, some, flow, self.rows, worth, price))
        load: Floats = np.sum(parts, axis=0)
        return load, price

    def cut(self, flow: Floats, room: Floats, price: Floats, load: Floats, upper: Floats) -> None:
        """Reduce flows until no row exceeds its bound, in decreasing order of the columns' prices.

        `price` (columns,): prices of the columns with flow.
        """
        over = load > upper
        if (load - upper)[over].sum() <= _SLIGHT * flow.sum():
            _cut_as_met(self.view, self.requests, flow, room, load, upper)
            return
        found = self._run(lambda some: _through(self.view, some, flow, over))
        slot, column = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = _order(-price[self.view.cost_start[slot] + column])
        _cut_in_order(self.view, slot[order], column[order], flow, room, load, upper)

    def fill(self, flow: Floats, room: Floats, worth: Floats, load: Floats, upper: Floats) -> None:
        """Give requests their unserved flow where rows permit, in increasing order of the columns' prices."""
        blocked = load >= upper - _ZERO_TOLERANCE * np.where(np.isfinite(upper), upper, 0.0)
        slight = _SLIGHT * float(flow.sum()) / max(1, self._live.size)
        found = self._run(lambda some: _open(self.view, some, room, slight, worth, blocked))
        slot, column, price = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = _order(price)
        _fill_in_order(self.view, slot[order], column[order], flow, room, load, upper)

    def serve(self, flow: Floats, dead: Flags, worth: Floats) -> bool:
        """Scale flows to their requests' totals, without columns over dead rows; return whether possible."""
        return bool(_serve(self.view, self.requests, flow, dead, worth))

    def served(self, flow: Floats) -> Floats:
        """Return the flow of each request, by slot."""
        return _served(self.view, self.requests, flow)

    def cost(self, flow: Floats) -> float:
        """Return the cost of the requests' columns."""
        return _cost(self.view, self.requests, flow)

    def cost_of_all(self, flow: Floats) -> float:
        """Return the cost of the columns of all requests in the store."""
        return _cost(self.view, self._live, flow)

    def empty(self, flow: Floats, room: Floats) -> None:
        """Set the requests' flows to 0, and their room to their totals."""
        for q in self.requests.tolist():
            begin = int(self.view.cost_start[q])
            flow[begin : begin + int(self.view.n_columns[q])] = 0.0
        room[self.requests] = self.view.total[self.requests]

    def places(self, flow: ColumnFlows) -> bool:
        """Return whether flows belong to the present columns, in the same places."""
        live = self._live
        here = live, self.view.cost_start[live], self.view.n_columns[live]
        return all(np.array_equal(a, b) for a, b in zip(flow.of, here, strict=True))

    def columns(self, flow: Floats) -> ColumnFlows:
        """Return the flow with the data to find its requests after the store has changed."""
        some = self.requests
        return ColumnFlows(flow, some, self.view.cost_start[some], self.view.n_columns[some])


def worth_of(y: Floats, size: Floats, cost: float) -> Floats:
    """Return the prices of the rows, each with a small addition.

    Because of the addition, if two columns have equal prices, the one with less usage is cheaper.

    `y` (row slots,). `size` (row slots,): bound or capacity of each row; where it is 0 or infinite nothing is
    added. `cost`: basis of the addition if no row has a price.
    """
    worth = np.maximum(y, 0.0)
    known = np.isfinite(size) & (size > 0)
    dearest = float((worth[known] * size[known]).max(initial=0.0))
    return worth + np.divide(_RELATIVE_FLOOR * (dearest or cost), size, out=np.zeros(size.size), where=known)


def _order(keys: Floats) -> Ints:
    """Return an approximately ascending order; similar keys stay in the order of memory, which is faster."""
    if not keys.size:
        return np.empty(0, np.int64)
    low, high = float(keys.min()), float(keys.max())
    steps = (keys - low) * (_STEPS / (high - low) if high > low else 0.0)
    return np.argsort(steps.astype(np.int16), kind="stable")


@kernel
def _take(view, slot, column, value, flow, room):  # type: ignore[no-untyped-def]
    """Bring columns into their boxes and requests below their totals; return the cost."""
    first, cost = 0, 0.0
    while first < slot.size:
        q, last, total = slot[first], first, 0.0
        at = view.cost_start[q]
        while last < slot.size and slot[last] == q:
            j = column[last]
            cap = cap_of(view, q, j)
            x = min(max(value[last], 0.0), cap)
            flow[at + j] = x
            total += x
            last += 1
        factor = room[q] / total if total > room[q] and not view.exact[q] else 1.0
        for k in range(first, last):
            flow[at + column[k]] *= factor
            cost += view.scale[q] * view.cost[at + column[k]] * flow[at + column[k]]
        room[q] -= factor * total
        first = last
    return cost


@kernel(inner=True)
def _add_column(view, q, j, amount, load):  # type: ignore[no-untyped-def]
    """Add the usage of an amount of column j of request q to `load`."""
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        load[np.uint32(view.row[k])] += amount * view.coefficient[shift + stride * k]


@kernel(allocates=True)
def _load(view, requests, flow, size, worth, price):  # type: ignore[no-untyped-def]
    """Return the load of each row; write the prices of columns with flow, unless `worth` is empty."""
    load = np.zeros(size)
    for q in requests:
        at, usage = view.cost_start[q], view.usage[q]
        shift, stride = coefficients_of(view, usage)
        for j in range(view.n_columns[q]):
            amount = flow[at + j]
            if amount > 0.0:
                if worth.size:
                    first, last = entries_of(view, usage, j, j + 1)
                    paid = 0.0
                    for k in range(first, last):
                        row, used = np.uint32(view.row[k]), view.coefficient[shift + stride * k]
                        load[row] += amount * used
                        paid += worth[row] * used
                    price[at + j] = view.scale[q] * view.cost[at + j] + paid
                else:
                    _add_column(view, q, j, amount, load)
    return load


@kernel(inner=True)
def _price_of(view, q, j, worth):  # type: ignore[no-untyped-def]
    """Return the price of a column: its cost plus the cost of its usage."""
    return view.scale[q] * view.cost[view.cost_start[q] + j] + paid_for(view, view.usage[q], j, worth)


@kernel(inner=True)
def _meets(view, q, j, marked):  # type: ignore[no-untyped-def]
    first, last = entries_of(view, view.usage[q], j, j + 1)
    for k in range(first, last):
        if marked[np.uint32(view.row[k])]:
            return True
    return False


@kernel(allocates=True)
def _through(view, requests, flow, marked):  # type: ignore[no-untyped-def]
    """Return the columns with flow through marked rows."""
    count, size = 0, 1024
    slot, column = np.empty(size, np.int64), np.empty(size, np.int64)
    for q in requests:
        at = view.cost_start[q]
        for j in range(view.n_columns[q]):
            if flow[at + j] > 0.0 and _meets(view, q, j, marked):
                if count == size:
                    size *= 2
                    slot, column = _longer(slot, size), _longer(column, size)
                slot[count], column[count] = q, j
                count += 1
    return slot[:count], column[:count]


@kernel(inner=True)
def _cut_column(view, q, j, flow, room, load, upper):  # type: ignore[no-untyped-def]
    """Cut a column by its rows' excess; return the number of rows that no longer exceed their bounds."""
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    cut, done = 0.0, 0
    for e in range(first, last):
        row, used = np.uint32(view.row[e]), view.coefficient[shift + stride * e]
        if load[row] > upper[row] and used > 0.0:
            cut = max(cut, (load[row] - upper[row]) / used)
    where = view.cost_start[q] + j
    cut = min(cut, flow[where])
    if cut <= 0.0:
        return done
    flow[where] = max(flow[where] - cut, 0.0)
    room[q] += cut
    for e in range(first, last):
        row = np.uint32(view.row[e])
        was = load[row] > upper[row]
        load[row] -= cut * view.coefficient[shift + stride * e]
        if was and load[row] <= upper[row] + 1e-15 * abs(upper[row]):
            load[row] = min(load[row], upper[row])
            done += 1
    return done


@kernel(inner=True)
def _rows_over(load, upper):  # type: ignore[no-untyped-def]
    over = 0
    for row in range(load.size):
        over += load[row] > upper[row]
    return over


@kernel
def _cut_in_order(view, slot, column, flow, room, load, upper):  # type: ignore[no-untyped-def]
    """Cut columns in the given order until no row exceeds its bound, or until the end."""
    over = _rows_over(load, upper)
    for k in range(slot.size):
        if over == 0:
            break
        over -= _cut_column(view, slot[k], column[k], flow, room, load, upper)


@kernel
def _cut_as_met(view, requests, flow, room, load, upper):  # type: ignore[no-untyped-def]
    """Cut columns, in the order in which they are stored, until no row exceeds its bound or none is left."""
    over = _rows_over(load, upper)
    for q in requests:
        if over == 0:
            break
        for j in range(view.n_columns[q]):
            if flow[view.cost_start[q] + j] > 0.0:
                over -= _cut_column(view, q, j, flow, room, load, upper)


@kernel(allocates=True)
def _open(view, requests, room, slight, worth, blocked):  # type: ignore[no-untyped-def]
    """Return columns of requests with room that reduce the cost and use no blocked row, and their prices."""
    count, size = 0, 1024
    slot, column, price = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
    for q in requests:
        if room[q] <= slight:
            continue
        for j in range(view.n_columns[q]):
            paid = view.scale[q] * view.cost[view.cost_start[q] + j]
            is_open = paid < 0.0
            if is_open:
                first, last = entries_of(view, view.usage[q], j, j + 1)
                shift, stride = coefficients_of(view, view.usage[q])
                for k in range(first, last):
                    row = np.uint32(view.row[k])
                    if blocked[row]:
                        is_open = False
                        break
                    paid += worth[row] * view.coefficient[shift + stride * k]
            if is_open:
                if count == size:
                    size *= 2
                    slot, column, price = _longer(slot, size), _longer(column, size), _longer(price, size)
                slot[count], column[count], price[count] = q, j, paid
                count += 1
    return slot[:count], column[:count], price[:count]


@kernel(allocates=True, inner=True)
def _longer(array, size):  # type: ignore[no-untyped-def]
    longer = np.empty(size, array.dtype)
    longer[: array.size] = array
    return longer


@kernel
def _fill_in_order(view, slot, column, flow, room, load, upper):  # type: ignore[no-untyped-def]
    for k in range(slot.size):
        q, j = slot[k], column[k]
        where = view.cost_start[q] + j
        cap = cap_of(view, q, j)
        step = min(room[q], cap - flow[where])
        first, last = entries_of(view, view.usage[q], j, j + 1)
        shift, stride = coefficients_of(view, view.usage[q])
        for e in range(first, last):
            if step <= 0.0:
                break
            row, used = np.uint32(view.row[e]), view.coefficient[shift + stride * e]
            if used > 0.0:
                step = min(step, (upper[row] - load[row]) / used)
        if step > 0.0:
            flow[where] += step
            room[q] -= step
            _add_column(view, q, j, step, load)


@kernel(allocates=True)
def _served(view, requests, flow):  # type: ignore[no-untyped-def]
    """Return the flow of each request, by slot."""
    served = np.zeros(view.n_columns.size)
    for q in requests:
        for j in range(view.n_columns[q]):
            served[q] += flow[view.cost_start[q] + j]
    return served


@kernel
def _cost(view, requests, flow):  # type: ignore[no-untyped-def]
    total = 0.0
    for q in requests:
        at = view.cost_start[q]
        for j in range(view.n_columns[q]):
            if flow[at + j] > 0.0:
                total += view.scale[q] * view.cost[at + j] * flow[at + j]
    return total


@kernel(allocates=True)
def _nonzeros(requests, starts, sizes, flow):  # type: ignore[no-untyped-def]
    count = 0
    for x in flow:
        count += x > 0.0
    slot, column, value = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    count = 0
    for k in range(requests.size):
        for j in range(sizes[k]):
            if flow[starts[k] + j] > 0.0:
                slot[count], column[count], value[count] = requests[k], j, flow[starts[k] + j]
                count += 1
    return slot[:count], column[:count], value[:count]


@kernel
def _serve(view, requests, flow, dead, worth):  # type: ignore[no-untyped-def]
    """Scale each request's flow to its total, without dead rows; False if a request has only dead columns.

    A request without any flow takes its cheapest column.
    """
    every = True
    for q in requests:
        at, n, sent = view.cost_start[q], view.n_columns[q], 0.0
        for j in range(n):
            if flow[at + j] > 0.0 and _meets(view, q, j, dead):
                flow[at + j] = 0.0
            sent += flow[at + j]
        if view.total[q] <= 0.0 or sent <= 0.0:
            flow[at : at + n] = 0.0
        if view.total[q] <= 0.0:
            continue
        if sent > 0.0:
            for j in range(n):
                flow[at + j] = view.total[q] * (flow[at + j] / sent)
            continue
        cheapest, low = -1, np.inf
        for j in range(n):
            if not _meets(view, q, j, dead):
                price = _price_of(view, q, j, worth)
                if price < low:
                    cheapest, low = j, price
        if cheapest < 0:
            every = False
        else:
            flow[at + cheapest] = view.total[q]
    return every
