"""Reads of many requests of a store as flat arrays: costs, bounds, entries and overrides.

The functions work for columns in this process and on workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.store.allocation import SparseX
from copter.store.edit import Runs
from copter.store.executor import Part, cut
from copter.store.slabs import slice_indices
from copter.store.store import ConstraintStore


@dataclass(frozen=True)
class ColumnBlock:
    """Columns of some requests in compressed form, without their sum rows.

    `counts` (n,) has the number of entries of each column. `row` (nnz,) has the positions of the rows, and
    `value` (nnz,) the coefficients.
    """

    counts: NDArray[np.int64]
    row: NDArray[np.int32]
    value: NDArray[np.float64]


def unchanged(store: ConstraintStore, x: SparseX, clock: int) -> SparseX:
    """Return the part of an allocation, made at revision `clock`, of requests with unchanged columns."""
    table = store.requests
    slot = np.minimum(x.slot, max(table.size - 1, 0))
    same = (table.generation[slot] <= clock) & (table.n_columns[slot] > 0) & (x.slot < table.size)
    return x.where(same)


def effective_costs(store: ConstraintStore, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the costs of all columns of many requests, flat, with scale and overrides applied."""
    costs: NDArray[np.float64] = _runs_of(store, slots, _costs_of)[0].values
    return costs


def _costs_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    store, table = part.store, part.store.requests
    sizes = table.n_columns[slots]
    costs: NDArray[np.float64] = np.repeat(table.scale[slots], sizes)
    costs *= store.costs.cost[slice_indices(table.cost_start[slots], sizes)]
    return [Runs(sizes, costs)]


def upper_bounds(store: ConstraintStore, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the upper bounds of all columns of many requests, flat."""
    upper: NDArray[np.float64] = _runs_of(store, slots, _uppers_of)[0].values
    return upper


def _uppers_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    store, table = part.store, part.store.requests
    sizes = table.n_columns[slots]
    upper: NDArray[np.float64] = np.repeat(table.upper[slots], sizes)
    own = table.upper_start[slots] >= 0
    if own.any():
        flat = slice_indices(table.upper_start[slots[own]], sizes[own])
        upper[np.repeat(own, sizes)] = store.uppers.upper[flat]
    return [Runs(sizes, upper)]


def row_uppers(store: ConstraintStore) -> NDArray[np.float64]:
    """Return the upper bounds of rows by slot, shape (row slots,); infinite for a free slot."""
    rows = store.rows
    return np.where(rows.alive[: rows.size], rows.upper[: rows.size], np.inf)


def sum_row_bounds(
    store: ConstraintStore, slots: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds of the sum rows of many requests; (-inf, inf) without a total."""
    table = store.requests
    total = table.total[slots]
    return np.where(table.exact[slots], total, -np.inf), total


def usage_columns(
    store: ConstraintStore, slots: NDArray[np.int64], position: NDArray[np.int32] | None = None
) -> ColumnBlock:
    """Return the entries of many requests in the resource rows.

    `position` (row slots,) has the row number of each row slot, negative for dropped rows. If it is None,
    rows are row slots.
    """
    counted, rows, values = _runs_of(store, slots, _entries_of)
    counts, row, value = counted.values, rows.values, values.values
    if position is not None:
        row = position[row]
        gone = row < 0
    else:
        gone = ~store.rows.alive[row]
    if gone.any():
        column = np.repeat(np.arange(counts.size), counts)
        counts = np.bincount(column[~gone], minlength=counts.size)
        row, value = row[~gone], value[~gone]
    return ColumnBlock(counts, row, value)


def _entries_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    """Return the numbers of entries of the columns of some requests, their rows and their coefficients."""
    store, usages = part.store, part.store.usages
    which = store.requests.usage[slots]
    sizes, nnz = usages.n_columns[which], usages.nnz[which]
    at = slice_indices(usages.pointer_start[which], sizes)
    pointer = store.pointers.pointer
    counts = (pointer[at + 1] - pointer[at]).astype(np.int64)
    row = store.entries.row[slice_indices(usages.entry_start[which], nnz)]
    value = store.coefficients_of(which, np.zeros_like(nnz), nnz)
    return [Runs(sizes, counts), Runs(nnz, row), Runs(nnz, value)]


def overrides_of(store: ConstraintStore, slots: NDArray[np.int64]) -> tuple[Runs, Runs]:
    """Return the columns and costs of the overrides of many requests."""
    columns, values = _runs_of(store, slots, _overrides_of)
    return columns, values


def _overrides_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    store, counts = part.store, part.store.requests.override_length[slots]
    own = slice_indices(store.requests.override_start[slots], counts)
    return [
        Runs(counts, store.overrides.column[own].astype(np.int64)),
        Runs(counts, store.overrides.value[own]),
    ]


def given_costs(store: ConstraintStore, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the costs of many requests as given, without scale and overrides, flat."""
    costs: NDArray[np.float64] = _runs_of(store, slots, _given_costs_of)[0].values
    return costs


def _given_costs_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    store, table = part.store, part.store.requests
    sizes, counts = table.n_columns[slots], table.override_length[slots]
    costs = store.costs.cost[slice_indices(table.cost_start[slots], sizes)].astype(np.float64)
    own = slice_indices(table.override_start[slots], counts)
    at = np.repeat(np.cumsum(sizes) - sizes, counts) + store.overrides.column[own]
    costs[at] = store.overrides.original[own]
    return [Runs(sizes, costs)]


def row_positions(store: ConstraintStore, row_slots: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the position in ``row_slots`` of each row slot, -1 for other slots."""
    position = np.full(store.rows.size, -1, np.int32)
    position[row_slots] = np.arange(row_slots.size, dtype=np.int32)
    return position


def _runs_of(
    store: ConstraintStore,
    slots: NDArray[np.int64],
    task: Callable[[Part, NDArray[np.int64]], Sequence[Runs]],
) -> Sequence[Runs]:
    """Return the runs that a task returns for distinct requests, in the order of `slots`.

    The task, a module-level function, gets a part and the slots of some of the requests in the part.
    """
    answers = store.executor.map(task, slots=slots)
    if len(answers) == 1:
        return answers[0]
    order = np.empty(slots.size, np.int64)
    order[np.concatenate(cut(slots, len(answers)))] = np.arange(slots.size)
    return [
        Runs(*(np.concatenate(each) for each in zip(*runs, strict=True))).sorted(order)
        for runs in zip(*answers, strict=True)
    ]
