"""The whole program as one scipy matrix, built from the store.

Solvers without an edit interface, and the tests, get the program as flat arrays. Columns are in the order of
the requests. Rows are the resources, followed by one sum row for each request with a total.

The time to build this matrix is the edit time of every "rebuild" baseline. To be fair to these baselines, the
build works on the store's arrays with numpy and has no loop over requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import check
from copter.errors import UnsupportedError
from copter.store.executor import Part
from copter.store.reading import (
    ColumnBlock,
    effective_costs,
    row_positions,
    sum_row_bounds,
    upper_bounds,
    usage_columns,
)

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

    from copter.program.program import ContinualProgram


@dataclass(frozen=True)
class CompiledProgram:
    """Linear program: minimise ``c'x`` subject to ``row_lower <= A x <= row_upper``, ``lower <= x <= upper``.

    Attributes
    ----------
    c : (n,) ndarray
        Effective costs.
    A : csc_matrix, shape (m + g, n)
        Rows of the m resources (`resource_ids`), followed by g sum rows; with 32-bit indices.
    integrality : (n,) ndarray of bool
        True if the request of a column asks for an integral allocation.
    column_start : (k + 1,) ndarray
        The request q of `request_ids` has the columns ``column_start[q]`` to ``column_start[q + 1] - 1``.
    sum_row : (k,) ndarray
        Sum row of each request, -1 without a total.

    A program that is made from other data may have no requests: `request_ids`, `resource_ids` and `sum_row`
    are empty then.
    """

    c: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    A: csc_matrix
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    integrality: NDArray[np.bool_]
    request_ids: Sequence[Hashable] = ()
    column_start: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    resource_ids: Sequence[Hashable] = ()
    sum_row: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def refuse_terms(program: ContinualProgram, what: str) -> None:
    """Raise UnsupportedError if a request has a convex term; the message names the request and `what`."""
    for slot in program.store.terms:
        id = next(id for id, own in program.slot_of.items() if own == slot)
        raise UnsupportedError(
            f"{what} takes linear programs only, and request {id!r} has a convex term; use a solver with "
            "the feature CONVEX_TERMS, for example 'copter'"
        )


def pieces(sizes: NDArray[np.int64], most: int = 100_000) -> Iterator[slice]:
    """Yield slices of requests with about ``most`` columns each; `sizes` are their numbers of columns."""
    ends = np.cumsum(sizes)
    count = 1 + int(ends[-1]) // most if ends.size else 0
    cuts = np.searchsorted(ends, np.arange(1, count) * most).tolist()
    for begin, end in itertools.pairwise([0, *cuts, ends.size]):
        if begin < end:
            yield slice(begin, end)


def compile_program(program: ContinualProgram, what: str = "compile_program") -> CompiledProgram:
    """Build the whole program from the store, without any data of the last round.

    The build works in pieces and checks the clock of the present solve between them. Raise UnsupportedError
    if a request has a convex term.
    """
    from scipy.sparse import csc_matrix

    refuse_terms(program, what)
    store, slots, row_slots = program.store, program.request_slots, program.resource_slots
    sizes = store.requests.n_columns[slots]
    with_total = store.requests.total[slots] < np.inf
    sum_row = np.where(with_total, row_slots.size - 1 + np.cumsum(with_total), -1)
    shape = (row_slots.size + int(with_total.sum()), int(sizes.sum()))
    sum_lower, sum_upper = sum_row_bounds(store, slots[with_total])
    position = row_positions(store, row_slots)
    most = sum(store.executor.map(_stored_entries)) + int(sizes[with_total].sum())
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
    """Return the number of entries of all requests, including entries in dropped rows."""
    usages = part.store.usages
    return int(usages.nnz[: usages.size] @ usages.references[: usages.size])


def append_sum_rows(
    columns: ColumnBlock, sum_row: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return CSC arrays of ``columns`` with a last entry of 1 in row ``sum_row`` unless it is negative."""
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
