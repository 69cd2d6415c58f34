"""Some columns of a store on workers, in the form that kernels read.

A view has the columns that were requested since the last edit, ascending for each request, with the data that
their parts store: costs without scale, upper bounds of their own, and entries. So kernels that read columns
in this order do the same arithmetic as on the whole store. ``n_columns`` counts the fetched columns.

In the view, every request with fetched columns has a usage of its own. The pointers of all usages are one
array: the entries of column k of the view begin at ``pointer[k]``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.ray.workers import Workers
from copter.store.executor import Columns, Part, cut
from copter.store.slabs import contiguous, slice_indices
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, coefficients_of, entries_of, view_of


class _Fetched(NamedTuple):
    """k columns with the numbers of their part.

    `cost` has the stored costs. `upper` has upper bounds of single columns, NaN if the request has one bound
    for all columns, and is empty if all would be NaN. `counts` has the number of entries of each column.
    `row` and `value` have the entries; `value` is empty if all are 1.
    """

    cost: NDArray[np.float64]
    upper: NDArray[np.float64]
    counts: NDArray[np.int32]
    row: NDArray[np.int32]
    value: NDArray[np.float64]


class FetchedColumns:
    """Columns of a store, which are fetched from workers; valid until the next edit.

    `store` has the tables, without columns.
    """

    def __init__(self, store: ConstraintStore, workers: Workers) -> None:
        self.store, self.workers = store, workers
        size = store.requests.size
        self._width = 1 + int(store.requests.n_columns[:size].max(initial=0))
        self._start = np.zeros(size + 1, np.int64)
        self._key = self._column = np.empty(0, np.int64)
        none, short = np.empty(0), np.empty(0, np.int32)
        self._held = _Fetched(none, none, short, short, none)
        self._view = _view(store, self._start, self._held)

    def with_all(
        self, slot: NDArray[np.int64], column: NDArray[np.int64], *more: Columns
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """Return a view, and the positions of columns; see :meth:`copter.store.executor.Executor.columns`."""
        lists = []
        for owner, some in ((slot, column), *more):
            absent = (self._places(owner, some) < 0) & (some >= 0)
            if absent.any():
                lists.append(owner[absent] * self._width + some[absent])
        if lists:
            self._add(np.unique(np.concatenate(lists)))
        return self._view, self._places(slot, column)

    def _places(self, slot: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of columns in their requests in the view; negative if they are not in it."""
        found: NDArray[np.int64] = _find(self._start, self._column, slot, column)
        return found

    def _add(self, key: NDArray[np.int64]) -> None:
        """Add columns that are not in the view yet."""
        slot, column = np.divmod(key, self._width)
        own = cut(slot, self.workers.parts)
        given = self.workers.each(_columns_of, (), [(slot[k], column[k]) for k in own])
        every = np.concatenate([self._key, *(key[k] for k in own)])
        order = np.argsort(every, kind="stable")
        self._key, self._held = every[order], _joined([self._held, *given], order)
        slot, self._column = np.divmod(self._key, self._width)
        np.cumsum(np.bincount(slot, minlength=self._start.size - 1), out=self._start[1:])
        self._view = _view(self.store, self._start, self._held)


def _view(store: ConstraintStore, start: NDArray[np.int64], held: _Fetched) -> StoreView:
    """Return a view of the fetched columns; those of request q begin at ``start[q]``."""
    counts, table = np.diff(start), store.requests
    usage = np.where(counts > 0, np.cumsum(counts > 0) - 1, -1)
    of_usage = start[:-1][counts > 0]
    pointer = np.zeros(held.counts.size + 1, np.int32)
    np.cumsum(held.counts, out=pointer[1:])
    nothing = np.zeros(of_usage.size, np.int64)
    own = table.upper_start[: table.size] >= 0
    return StoreView(
        cost=held.cost,
        cost_start=start[:-1],
        n_columns=counts,
        scale=table.scale[: table.size],
        exact=table.exact[: table.size],
        total=table.total[: table.size],
        upper=table.upper[: table.size],
        upper_start=np.where(own, start[:-1], -1),
        uppers=held.upper,
        usage=usage,
        pointer_start=of_usage,
        entry_start=nothing,
        value_start=nothing if held.value.size else nothing - 1,
        pointer=pointer,
        row=held.row,
        coefficient=held.value if held.value.size else np.ones(1),
    )


@kernel(allocates=True)
def _find(start, held, slot, column):  # type: ignore[no-untyped-def]
    """Return the positions of columns in their requests in the view; negative if they are not in it.

    The position after the previous one is tried first, then bisection.
    """
    found, low = np.empty(slot.size, np.int64), -1
    for k in range(slot.size):
        first, last = start[slot[k]], start[slot[k] + 1]
        low = max(low + 1, first)
        if not (low < last and held[low] == column[k]):
            low = first
        high = last
        while low < high and held[low] != column[k]:
            middle = (low + high) // 2
            if held[middle] < column[k]:
                low = middle + 1
            else:
                high = middle
        found[k] = -1
        if low < last and held[low] == column[k]:
            found[k] = low - first
    return found


def _joined(pieces: list[_Fetched], order: NDArray[np.int64]) -> _Fetched:
    """Concatenate pieces of columns and return the columns in an order."""
    cost = np.concatenate([piece.cost for piece in pieces])[order]
    upper = _filled([(piece.cost.size, piece.upper) for piece in pieces], np.nan, order)
    counts, row = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("counts", "row"))
    starts = np.cumsum(counts, dtype=np.int64) - counts
    entries = slice_indices(starts[order], counts[order].astype(np.int64))
    value = _filled([(piece.row.size, piece.value) for piece in pieces], 1.0, entries)
    return _Fetched(cost, upper, counts[order], row[entries], value)


def _filled(
    pieces: list[tuple[int, NDArray[np.float64]]], blank: float, order: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the numbers of pieces in an order, `blank` where a piece has none; empty if no piece has any."""
    if not any(values.size for _, values in pieces):
        return np.empty(0)
    return np.concatenate([values if values.size else np.full(size, blank) for size, values in pieces])[order]


def _columns_of(part: Part, slot: NDArray[np.int64], column: NDArray[np.int64]) -> _Fetched:
    """Return columns of a part, by slot of the program."""
    store, slot = part.store, part.local(slot)
    view, table = view_of(store), store.requests
    cost = store.costs.cost[table.cost_start[slot] + column]
    upper, own = np.empty(0), table.upper_start[slot] >= 0
    if own.any():
        upper = np.full(slot.size, np.nan)
        upper[own] = store.uppers.upper[table.upper_start[slot[own]] + column[own]]
    counts = np.empty(slot.size, np.int32)
    nnz, other = _count_entries(view, slot, column, counts)
    row, value = np.empty(nnz, np.int32), np.empty(nnz if other else 0)
    _fetch_entries(view, slot, column, row, value)
    return _Fetched(contiguous(cost), upper, counts, row, value)


@kernel
def _count_entries(view, slot, column, counts):  # type: ignore[no-untyped-def]
    """Write the entry counts of columns; return their sum, and whether a usage has stored coefficients."""
    nnz, other = 0, False
    for k in range(slot.size):
        usage = view.usage[slot[k]]
        first, last = entries_of(view, usage, column[k], column[k] + 1)
        counts[k] = last - first
        nnz += counts[k]
        other |= view.value_start[usage] >= 0
    return nnz, other


@kernel
def _fetch_entries(view, slot, column, row, value):  # type: ignore[no-untyped-def]
    at = 0
    for k in range(slot.size):
        usage = view.usage[slot[k]]
        first, last = entries_of(view, usage, column[k], column[k] + 1)
        shift, stride = coefficients_of(view, usage)
        for e in range(first, last):
            row[at] = view.row[e]
            if value.size:
                value[at] = view.coefficient[shift + stride * e]
            at += 1
