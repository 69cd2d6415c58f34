"""Excerpt: some columns of a store that is spread, brought to the driver, as kernels read them.

A request has in it the columns that were asked for since the last edit, in ascending order, with the very
numbers of its part: raw costs and the scale on them, own upper bounds, entries, overrides that lie aside.
Kernels that walk columns in that order so do the same arithmetic as on the whole store.  What is there stays
for the next who asks; only what is missing is fetched.

Every request has a usage of its own in the view.  Their pointers are one array: entries of column k of the
excerpt begin at ``pointer[k]``, wherever the request's columns begin among the excerpt's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.store.slabs import contiguous, slice_indices
from copter.store.view import StoreView, coefficients_of, entries_of, view_of
from copter.store.where import Columns, Part, cut

if TYPE_CHECKING:
    from copter.store.store import ConstraintStore


class _Fetched(NamedTuple):
    """Columns as their part has them.

    Attributes
    ----------
    cost : (k,) ndarray
        As the pool has them.
    upper : (k,) or (0,) ndarray
        Own upper bounds, nan where the request has one for all; empty if nobody has any.
    override : (k,) or (0,) ndarray
        Overrides of shared vectors, nan where there is none; empty if there are none at all.
    counts : (k,) int32 ndarray
        Entries of each.
    row, value : (sum(counts),) ndarrays
        Entries; values empty if all are 1.
    """

    cost: NDArray[np.floating]
    upper: NDArray[np.float64]
    override: NDArray[np.float64]
    counts: NDArray[np.int32]
    row: NDArray[np.int32]
    value: NDArray[np.float64]


class Excerpt:
    """Columns of a spread store that the driver has; good until the next edit.

    Parameters
    ----------
    store : ConstraintStore
        The driver's, with the requests' table.
    """

    def __init__(self, store: ConstraintStore) -> None:
        self._width = 1 + int(store.requests.n_columns[: store.requests.size].max(initial=0))
        self._key = np.empty(0, np.int64)
        none = np.empty(0)
        counts, row = np.empty(0, np.int32), np.empty(0, np.int32)
        self._held = _Fetched(np.empty(0, store.cost_dtype), none, none, counts, row, none)
        self._view: StoreView | None = None
        self._start = np.zeros(store.requests.size, np.int64)

    def ask(self, store: ConstraintStore, *wanted: Columns) -> StoreView:
        """A view that has some columns, at least; those that are missing are fetched.

        Parameters
        ----------
        store : ConstraintStore
        *wanted : Columns

        Returns
        -------
        StoreView
        """
        keys = [slot * self._width + column for slot, column in wanted if slot.size]
        key = keys[0] if len(keys) == 1 else np.concatenate([np.empty(0, np.int64), *keys])
        missing = key[self._found(key) < 0] if self._key.size else key
        if missing.size:
            self._add(store, missing if _ascending(missing) else np.unique(missing))
        if self._view is None or missing.size:
            self._view = self._build(store)
        return self._view

    def places(self, slot: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where columns that are there are in their requests.

        Parameters
        ----------
        slot, column : (k,) ndarrays

        Returns
        -------
        (k,) ndarray
        """
        return self._found(slot * self._width + column) - self._start[slot]

    def _found(self, key: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of keys among those that are there; -1 for others."""
        at = np.searchsorted(self._key, key)
        at[at == self._key.size] = 0
        at[self._key[at] != key] = -1
        return at

    def _add(self, store: ConstraintStore, key: NDArray[np.int64]) -> None:
        """Fetch columns, given by their keys, ascending."""
        slot, column = np.divmod(key, self._width)
        places = cut(slot, store.parts)
        answers = store.each(_fetch, own=[(slot[own], column[own]) for own in places])
        order = np.argsort(np.concatenate([self._key, *(key[own] for own in places)]), kind="stable")
        self._held = _joined([self._held, *answers], order)
        self._key = np.sort(np.concatenate((self._key, key)), kind="stable")

    def _build(self, store: ConstraintStore) -> StoreView:
        held, table = self._held, store.requests
        slot = self._key // self._width
        counts = np.bincount(slot, minlength=table.size)
        self._start = counts.cumsum() - counts
        usage = np.where(counts > 0, np.cumsum(counts > 0) - 1, -1)
        of_usage = self._start[counts > 0]
        pointer = np.zeros(held.counts.size + 1, np.int32)
        np.cumsum(held.counts, out=pointer[1:])
        nothing = np.zeros(of_usage.size, np.int64)
        own = table.upper_start[: table.size] >= 0
        place = np.flatnonzero(~np.isnan(held.override))
        lengths = np.bincount(slot[place], minlength=table.size)
        return StoreView(
            cost=held.cost,
            cost_start=self._start,
            n_columns=counts,
            scale=table.scale[: table.size],
            relation=table.relation[: table.size],
            total=table.total[: table.size],
            upper=table.upper[: table.size],
            upper_start=np.where(own, self._start, -1),
            uppers=held.upper,
            usage=usage,
            pointer_start=of_usage,
            entry_start=nothing,
            value_start=nothing if held.value.size else nothing - 1,
            pointer=pointer,
            row=held.row,
            coefficient=held.value if held.value.size else np.ones(1),
            vector=table.vector[: table.size],
            override_start=lengths.cumsum() - lengths,
            override_length=lengths,
            override_column=(place - self._start[slot[place]]).astype(np.int32),
            override_value=held.override[place],
        )


def _ascending(key: NDArray[np.int64]) -> bool:
    return bool((key[1:] > key[:-1]).all())


def _joined(pieces: list[_Fetched], order: NDArray[np.int64]) -> _Fetched:
    """Columns of several places in an order."""
    cost = np.concatenate([piece.cost for piece in pieces])[order]
    upper, override = (
        _filled([(piece.cost.size, getattr(piece, name)) for piece in pieces], np.nan, order)
        for name in ("upper", "override")
    )
    counts, row = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("counts", "row"))
    starts = np.cumsum(counts, dtype=np.int64) - counts
    entries = slice_indices(starts[order], counts[order].astype(np.int64))
    value = _filled([(piece.row.size, piece.value) for piece in pieces], 1.0, entries)
    return _Fetched(cost, upper, override, counts[order], row[entries], value)


def _filled(
    pieces: list[tuple[int, NDArray[np.float64]]], blank: float, order: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Numbers of pieces of so many in an order, a blank where a piece has none; empty if no piece has any."""
    if not any(values.size for _, values in pieces):
        return np.empty(0)
    return np.concatenate([values if values.size else np.full(size, blank) for size, values in pieces])[order]


def _fetch(part: Part, slot: NDArray[np.int64], column: NDArray[np.int64]) -> _Fetched:
    """Columns of a part, by slot of the program."""
    store, slot = part.store, part.local(slot)
    view, table = view_of(store), store.requests
    cost = store.costs.cost[table.cost_start[slot] + column]
    upper, own = np.empty(0), table.upper_start[slot] >= 0
    if own.any():
        upper = np.full(slot.size, np.nan)
        upper[own] = store.uppers.upper[table.upper_start[slot[own]] + column[own]]
    override = np.empty(0)
    if ((table.vector[slot] >= 0) & (table.override_length[slot] > 0)).any():
        override = np.full(slot.size, np.nan)
        _fetch_overrides(view, slot, column, override)
    counts = np.empty(slot.size, np.int32)
    nnz, other = _count_entries(view, slot, column, counts)
    row, value = np.empty(nnz, np.int32), np.empty(nnz if other else 0)
    _fetch_entries(view, slot, column, row, value)
    return _Fetched(contiguous(cost), upper, override, counts, row, value)


@kernel
def _fetch_overrides(view, slot, column, override):  # type: ignore[no-untyped-def]
    for k in range(slot.size):
        q = slot[k]
        if view.vector[q] >= 0:
            for i in range(view.override_start[q], view.override_start[q] + view.override_length[q]):
                if view.override_column[i] == column[k]:
                    override[k] = view.override_value[i]


@kernel
def _count_entries(view, slot, column, counts):  # type: ignore[no-untyped-def]
    """(entries of columns, whether any of their usages stores coefficients)."""
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
