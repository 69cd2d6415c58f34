"""ColumnCache: some columns of a store on workers, in the form that kernels read.

The cache has the columns of a request that were requested, in ascending order, with the numbers of its part:
costs without scale, upper bounds of its own, and entries. So kernels that read
columns in this order do the same arithmetic as on the whole store. Columns stay in the cache until an edit
changes them, and only missing columns are fetched.

In the view, every request has a usage of its own. The pointers of all usages are one array: the entries of
column k of the cache begin at ``pointer[k]``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.store.executor import Columns, Part
from copter.store.slabs import contiguous, slice_indices
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, coefficients_of, entries_of, view_of

_FEW = 10_000
"""Number of columns that are kept even if they are not used."""


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


class ColumnCache:
    """Cache of columns of a store whose parts are in other processes.

    `width` is a number above all column numbers of a request.
    """

    def __init__(self, store: ConstraintStore) -> None:
        size = store.requests.size
        self.width = 1 + int(store.requests.n_columns[:size].max(initial=0))
        self._edits: list[NDArray[np.int64]] = []
        self._edited = False
        self._key, self._start = np.empty(0, np.int64), np.zeros(size + 1, np.int64)
        self._column, self._used = self._key, np.empty(0, np.bool_)
        none = np.empty(0)
        counts, row = np.empty(0, np.int32), np.empty(0, np.int32)
        self._held = _Fetched(np.empty(0), none, counts, row, none)
        self._view: StoreView | None = None

    def edited(self, slots: NDArray[np.int64]) -> None:
        """Record an edit, which changed the columns of the requests in ``slots``."""
        self._edited = True
        if slots.size:
            self._edits.append(slots)

    def fits(self, store: ConstraintStore) -> bool:
        """Drop changed columns; return False if a new cache is better.

        A new cache is better if a request has more columns than any request had, or if most columns were not
        used for a round.
        """
        if not self._edited:
            return True
        table, held = store.requests, self._key.size
        widest = int(table.n_columns[: table.size].max(initial=0))
        if widest >= self.width or 2 * np.count_nonzero(self._used) < held - _FEW:
            return False
        self._edited, self._view = False, None
        if self._start.size <= table.size:
            more = np.full(table.size + 1 - self._start.size, held)
            self._start = np.concatenate((self._start, more))
        if self._edits:
            gone = np.zeros(table.size, np.bool_)
            gone[np.concatenate(self._edits)] = True
            away = gone[self._key // self.width]
            self._keep(np.flatnonzero(~away))
            self._edits = []
        self._used[:] = False
        return True

    def _keep(self, which: NDArray[np.int64]) -> None:
        """Drop all columns except some."""
        if which.size < self._key.size:
            self._arrange(self._key[which], _joined([self._held], which), self._used[which])

    def _arrange(self, key: NDArray[np.int64], held: _Fetched, used: NDArray[np.bool_]) -> None:
        self._key, self._held, self._used, self._view = key, held, used, None
        slot, self._column = np.divmod(key, self.width)
        np.cumsum(np.bincount(slot, minlength=self._start.size - 1), out=self._start[1:])

    def view(self, store: ConstraintStore) -> StoreView:
        """Return a view of the columns in the cache."""
        if self._view is None:
            self._view = self._build(store)
        return self._view

    def missing(self, *wanted: Columns) -> Columns:
        """Return the columns that are not in the cache."""
        lists = []
        for slot, column in wanted:
            absent = (self.places(slot, column) < 0) & (column >= 0)
            if absent.any():
                lists.append(slot[absent] * self.width + column[absent])
        key = np.unique(np.concatenate([self._key[:0], *lists]))
        slot, column = np.divmod(key, self.width)
        return slot, column

    def places(self, slot: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions (k,) of columns in their requests in the view; negative if not cached."""
        found: NDArray[np.int64] = _places(self._start, self._column, self._used, slot, column)
        return found

    def take(self, given: list[_Given]) -> None:
        """Add columns sent by parts."""
        keys = [each.slot * self.width + each.column for each in given]
        key = np.concatenate([self._key, *keys])
        if key.size == self._key.size:
            return
        order = np.argsort(key, kind="stable")
        ascending = key[order]
        fresh = np.diff(ascending, prepend=-1) > 0  # a restarted part may send columns twice
        order = order[fresh]
        used = np.concatenate((self._used, np.ones(key.size - self._used.size, np.bool_)))[order]
        self._arrange(ascending[fresh], _joined([self._held, *(each.columns for each in given)], order), used)

    def _build(self, store: ConstraintStore) -> StoreView:
        held, table = self._held, store.requests
        counts, start = np.diff(self._start), self._start[:-1].copy()
        usage = np.where(counts > 0, np.cumsum(counts > 0) - 1, -1)
        of_usage = start[counts > 0]
        pointer = np.zeros(held.counts.size + 1, np.int32)
        np.cumsum(held.counts, out=pointer[1:])
        nothing = np.zeros(of_usage.size, np.int64)
        own = table.upper_start[: table.size] >= 0
        return StoreView(
            cost=held.cost,
            cost_start=start,
            n_columns=counts,
            scale=table.scale[: table.size],
            relation=table.relation[: table.size],
            total=table.total[: table.size],
            upper=table.upper[: table.size],
            upper_start=np.where(own, start, -1),
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
def _places(start, held, used, slot, column):  # type: ignore[no-untyped-def]
    """Return the positions of columns, for :meth:`ColumnCache.places`, and mark the columns as used.

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
            used[low] = True
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
    """Return the numbers of pieces in an order, `blank` for pieces without numbers; empty if all are."""
    if not any(values.size for _, values in pieces):
        return np.empty(0)
    return np.concatenate([values if values.size else np.full(size, blank) for size, values in pieces])[order]


class _Given(NamedTuple):
    """Columns of the program, by slot and column, with the numbers of their part."""

    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    columns: _Fetched


def fetch(part: Part, slot: NDArray[np.int64], column: NDArray[np.int64]) -> _Given:
    """Return columns of a part, by slot of the program."""
    return _Given(slot, column, _columns_of(part, slot, column))


def _columns_of(part: Part, slot: NDArray[np.int64], column: NDArray[np.int64]) -> _Fetched:
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
