"""The program as one scipy matrix, built from scratch: what a solver without an edit interface needs.

Solvers that cannot take edits (and the tests, as an independent witness of the store) get the whole program
in flat arrays, columns request after request, rows first the resources and then one sum row for each request
that has a total.  This build is the edit time of every "rebuild" baseline, so it is a fair competitor: all of
it runs in numpy on the store's slabs, nothing loops over requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import check
from copter.errors import UnsupportedError
from copter.store.runs import Runs, runs_of
from copter.store.store import EXACTLY, NO_TOTAL, ConstraintStore, slice_indices
from copter.store.where import Part

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

    from copter.program.program import ContinualProgram


@dataclass(frozen=True)
class CompiledProgram:
    """Minimise ``c'x`` subject to ``row_lower <= A x <= row_upper``, ``lower <= x <= upper``.

    Attributes
    ----------
    c : (n,) effective costs
    lower, upper : (n,) bounds of the columns
    A : (m + g, n) CSC matrix with 32-bit indices: m resources, then g sum rows
    row_lower, row_upper : (m + g,)
    integrality : (n,) bool, whether the request of a column wants an integral allocation
    request_ids : k ids; request ``q`` owns the columns ``column_start[q]:column_start[q + 1]``
    column_start : (k + 1,)
    resource_ids : m ids, the first m rows
    sum_row : (k,) row of each request's total, -1 if it has none
    """

    c: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    A: csc_matrix
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    integrality: NDArray[np.bool_]
    request_ids: list[Hashable]
    column_start: NDArray[np.int64]
    resource_ids: list[Hashable]
    sum_row: NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """Columns of some requests in compressed form, without their sum rows.

    Attributes
    ----------
    counts : (n,) entries in each column
    row : (nnz,) positions of the rows, by the map that was given
    value : (nnz,)
    """

    counts: NDArray[np.int64]
    row: NDArray[np.int32]
    value: NDArray[np.float64]


def effective_costs(store: ConstraintStore, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Costs of the columns of many requests, flat, scale and overrides applied.

    Parameters
    ----------
    store : ConstraintStore
    slots : (k,) ndarray

    Returns
    -------
    (sum of their columns,) ndarray
    """
    costs: NDArray[np.float64] = runs_of(store, slots, _costs_of)[0].values
    return costs


def _costs_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    store, table = part.store, part.store.requests
    sizes = table.n_columns[slots]
    costs: NDArray[np.float64] = np.repeat(table.scale[slots], sizes)
    costs *= store.costs.cost[slice_indices(table.cost_start[slots], sizes)]
    if store.vectors.size:
        place, column, value = store.aside(slots)
        costs[(np.cumsum(sizes) - sizes)[place] + column] = value
    return [Runs(sizes, costs)]


def upper_bounds(store: ConstraintStore, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Upper bounds of the columns of many requests, flat.

    Parameters
    ----------
    store : ConstraintStore
    slots : (k,) ndarray

    Returns
    -------
    (sum of their columns,) ndarray
    """
    upper: NDArray[np.float64] = runs_of(store, slots, _uppers_of)[0].values
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


def sum_row_bounds(
    store: ConstraintStore, slots: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds of the sum rows of many requests; (-inf, inf) for one that has no total.

    Parameters
    ----------
    store : ConstraintStore
    slots : (k,) ndarray

    Returns
    -------
    (k,) ndarray, (k,) ndarray
    """
    table = store.requests
    total = table.total[slots]
    lower = np.where(table.relation[slots] == EXACTLY, total, -np.inf)
    return lower, np.where(table.relation[slots] == NO_TOTAL, np.inf, total)


def usage_columns(store: ConstraintStore, slots: NDArray[np.int64], position: NDArray[np.int32]) -> Columns:
    """Entries of many requests in the resource rows.

    Parameters
    ----------
    store : ConstraintStore
    slots : (k,) request slots
    position : (row slots,) where each row slot goes, negative for rows that no longer exist

    Returns
    -------
    Columns
    """
    counted, rows, values = runs_of(store, slots, _entries_of)
    counts, row, value = counted.values, position[rows.values], values.values
    gone = row < 0
    if gone.any():
        column = np.repeat(np.arange(counts.size), counts)
        counts = np.bincount(column[~gone], minlength=counts.size)
        row, value = row[~gone], value[~gone]
    return Columns(counts, row, value)


def _entries_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    """Of some requests: entries in each column, their rows, their coefficients."""
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
    """Overrides of many requests.

    Parameters
    ----------
    store : ConstraintStore
    slots : (k,) ndarray

    Returns
    -------
    Runs, Runs
        Their columns and costs.
    """
    columns, values = runs_of(store, slots, _overrides_of)
    return columns, values


def _overrides_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    store, counts = part.store, part.store.requests.override_length[slots]
    own = slice_indices(store.requests.override_start[slots], counts)
    return [
        Runs(counts, store.overrides.column[own].astype(np.int64)),
        Runs(counts, store.overrides.value[own]),
    ]


def given_costs(store: ConstraintStore, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Costs of many requests as they were given, without scale and overrides, flat.

    Parameters
    ----------
    store : ConstraintStore
    slots : (k,) ndarray

    Returns
    -------
    (sum of their columns,) ndarray
    """
    costs: NDArray[np.float64] = runs_of(store, slots, _given_costs_of)[0].values
    return costs


def _given_costs_of(part: Part, slots: NDArray[np.int64]) -> list[Runs]:
    store, table = part.store, part.store.requests
    sizes, counts = table.n_columns[slots], table.override_length[slots]
    costs = store.costs.cost[slice_indices(table.cost_start[slots], sizes)].astype(np.float64)
    own = slice_indices(table.override_start[slots], counts)
    columns = store.overrides.column[own]
    folded = np.repeat(table.vector[slots] < 0, counts)  # the others lie aside
    at = np.repeat(np.cumsum(sizes) - sizes, counts) + columns
    costs[at[folded]] = store.overrides.original[own[folded]]
    return [Runs(sizes, costs)]


def row_positions(store: ConstraintStore, row_slots: NDArray[np.int64]) -> NDArray[np.int32]:
    """Map from row slot to its place in ``row_slots``, -1 for other slots.

    Parameters
    ----------
    store : ConstraintStore
    row_slots : (k,) ndarray

    Returns
    -------
    (row slots,) int32 ndarray
    """
    position = np.full(store.rows.size, -1, np.int32)
    position[row_slots] = np.arange(row_slots.size, dtype=np.int32)
    return position


def refuse_terms(program: ContinualProgram, what: str) -> None:
    """Raise an UnsupportedError that names a request with a convex term, if there is one.

    Parameters
    ----------
    program : ContinualProgram
    what : str
        Who takes linear programs only, for the error.

    Raises
    ------
    UnsupportedError
        There is one.
    """
    for slot in program.store.terms:
        id = next(id for id, own in program.slot_of.items() if own == slot)
        raise UnsupportedError(
            f"{what} takes linear programs only, and request {id!r} has a convex term: use a solver with "
            "the feature CONVEX_TERMS, such as 'copter'"
        )


def pieces(sizes: NDArray[np.int64], most: int = 100_000) -> Iterator[slice]:
    """Slices of requests with about ``most`` columns each, of which ``sizes`` are the numbers.

    Parameters
    ----------
    sizes : (k,) ndarray
    most : int

    Returns
    -------
    iterator of slice
    """
    ends = np.cumsum(sizes)
    count = 1 + int(ends[-1]) // most if ends.size else 0
    cuts = np.searchsorted(ends, np.arange(1, count) * most).tolist()
    for begin, end in itertools.pairwise([0, *cuts, ends.size]):
        if begin < end:
            yield slice(begin, end)


def compile_program(program: ContinualProgram) -> CompiledProgram:
    """Build the whole program from the store, as if nothing had been kept from the last round.

    It goes piece by piece, and looks at the clock of the solve that it is a part of in between.

    Parameters
    ----------
    program : ContinualProgram

    Returns
    -------
    CompiledProgram

    Raises
    ------
    UnsupportedError
        A request has a convex term.
    """
    refuse_terms(program, "compile_program")
    from scipy.sparse import csc_matrix

    store = program.store
    slots, row_slots = program.request_slots, program.resource_slots
    sizes = store.requests.n_columns[slots]
    with_total = store.requests.relation[slots] != NO_TOTAL
    sum_row = np.where(with_total, row_slots.size - 1 + np.cumsum(with_total), -1)
    shape = (row_slots.size + int(with_total.sum()), int(sizes.sum()))
    sum_lower, sum_upper = sum_row_bounds(store, slots[with_total])
    position = row_positions(store, row_slots)
    most = sum(store.each(_stored_entries)) + int(sizes[with_total].sum())
    costs, upper = np.empty(shape[1]), np.empty(shape[1])
    indptr, indices, data = np.zeros(shape[1] + 1, np.int32), np.empty(most, np.int32), np.empty(most)
    done = nnz = 0
    for part in pieces(sizes):
        check()
        own = slots[part]
        columns = usage_columns(store, own, position)
        pointer, rows, values = append_sum_rows(columns, np.repeat(sum_row[part], sizes[part]))
        at, entries = slice(done, done + columns.counts.size), slice(nnz, nnz + rows.size)
        costs[at], upper[at] = effective_costs(store, own), upper_bounds(store, own)
        indptr[at.start + 1 : at.stop + 1], indices[entries], data[entries] = pointer[1:] + nnz, rows, values
        done, nnz = at.stop, entries.stop
    return CompiledProgram(
        c=costs,
        lower=np.zeros(shape[1]),
        upper=upper,
        A=csc_matrix((data[:nnz], indices[:nnz], indptr), shape=shape),
        row_lower=np.concatenate((store.rows.lower[row_slots], sum_lower)),
        row_upper=np.concatenate((store.rows.upper[row_slots], sum_upper)),
        integrality=np.repeat(store.requests.integral[slots], sizes),
        request_ids=program.request_ids,
        column_start=np.concatenate(([0], np.cumsum(sizes))),
        resource_ids=program.resource_ids,
        sum_row=sum_row,
    )


def _stored_entries(part: Part) -> int:
    """Entries of all requests, those in dropped rows too."""
    usages = part.store.usages
    return int(usages.nnz[: usages.size] @ usages.references[: usages.size])


def append_sum_rows(
    columns: Columns, sum_row: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """CSC arrays of ``columns`` with a last entry 1 in row ``sum_row`` (none where it is negative).

    Parameters
    ----------
    columns : Columns
    sum_row : (n,) ndarray

    Returns
    -------
    indptr, indices, data : arrays
    """
    has = sum_row >= 0
    before: NDArray[np.int64] = np.cumsum(has) - has
    indptr = np.zeros(has.size + 1, np.int32)
    np.cumsum(columns.counts + has, out=indptr[1:])
    indices, data = np.empty(int(indptr[-1]), np.int32), np.empty(int(indptr[-1]))
    at = np.arange(columns.row.size) + np.repeat(before, columns.counts)
    indices[at], data[at] = columns.row, columns.value
    last = indptr[1:][has] - 1
    indices[last], data[last] = sum_row[has], 1.0
    return indptr, indices, data
