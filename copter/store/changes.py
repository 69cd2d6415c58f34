"""Differences between two states of a program, for solvers and readers that keep a flat model of it.

A flat model has the columns of the requests and the rows of :func:`copter.store.compiled.compile_program`.
:class:`FlatModel` has the order of columns and rows in a model that began with the matrix of this function.
After edits of the program it returns the :class:`Changes` that the model needs. It finds the changes by the
store's revisions. The time depends on the number of requests and of changed columns, not on the number of all
columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.clock import check
from copter.store.compiled import append_sum_rows, refuse_terms
from copter.store.reading import effective_costs, sum_row_bounds, upper_bounds, usage_columns
from copter.store.store import slice_indices

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.store import ConstraintStore

_Places: TypeAlias = NDArray[np.int32]
_Numbers: TypeAlias = NDArray[np.float64]


class NewRows(NamedTuple):
    """Rows to append, with their entries in the columns that the model has at that step.

    `lower`, `upper` (r,): sides. `starts` (r,): first entry of each row in `columns` and `values`.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


class NewColumns(NamedTuple):
    """Columns to append, with lower bounds of 0, and their entries in all rows, the new ones included.

    `costs`, `upper` (n,). `starts` (n,): first entry of each column in `rows` and `values`.
    """

    costs: NDArray[np.float64]
    upper: NDArray[np.float64]
    starts: NDArray[np.int32]
    rows: NDArray[np.int32]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Changes:
    """Changes of a flat model from one state of the program to the next, to be applied in this order.

    Attributes
    ----------
    deleted_columns, deleted_rows : ndarray of int32
        Positions before any deletion, ascending.
    cost_columns : ndarray of int32
        Positions, after the deletions, of the columns whose costs are set to `costs`.
    bound_columns : ndarray of int32
        Positions of the columns whose upper bounds are set to `upper`; lower bounds stay 0.
    side_rows : ndarray of int32
        Positions of the rows whose sides are set to `row_lower` and `row_upper`.
    new_rows : NewRows
        Rows to append.
    new_columns : NewColumns
        Columns to append.
    """

    deleted_columns: NDArray[np.int32]
    deleted_rows: NDArray[np.int32]
    cost_columns: NDArray[np.int32]
    costs: NDArray[np.float64]
    bound_columns: NDArray[np.int32]
    upper: NDArray[np.float64]
    side_rows: NDArray[np.int32]
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    new_rows: NewRows
    new_columns: NewColumns

    @property
    def of_columns(self) -> bool:
        """True if costs changed, or columns came or left."""
        return bool(self.deleted_columns.size or self.cost_columns.size or self.new_columns.costs.size)

    @property
    def of_bounds(self) -> bool:
        """True if bounds of columns or sides of rows changed."""
        return bool(self.bound_columns.size or self.side_rows.size)


_NO_PLACES, _NO_NUMBERS = np.empty(0, np.int32), np.empty(0)
_NO_ROWS = NewRows(_NO_NUMBERS, _NO_NUMBERS, _NO_PLACES, _NO_PLACES, _NO_NUMBERS)
_NO_COLUMNS = NewColumns(_NO_NUMBERS, _NO_NUMBERS, _NO_PLACES, _NO_PLACES, _NO_NUMBERS)


class FlatModel:
    """Order of the columns and rows of a program in a flat model, and the changes since the last call.

    At first the order is that of :func:`copter.store.compiled.compile_program`.

    Attributes
    ----------
    slot, size : (k,) ndarray of int64
        Request slot of each block of columns, and its number of columns, in the order of the model.
    owner : (m,) ndarray of int64
        Owner of each row: the slot of a resource, or ``-1 - slot`` of the request of a sum row.
    """

    def __init__(self, program: ContinualProgram) -> None:
        refuse_terms(program, "FlatModel")
        self._program = program
        self.store: ConstraintStore = program.store
        store, table = self.store, self.store.requests
        self.slot = program.request_slots
        self._generation, self.size = table.generation[self.slot], table.n_columns[self.slot]
        self._bound = _common_bound(store, self.slot)
        rows, summed = program.resource_slots, self.slot[table.total[self.slot] < np.inf]
        self.owner = np.concatenate((rows, -1 - summed))
        self._row_generation = np.concatenate((store.rows.generation[rows], table.generation[summed]))
        self._seen = store.clock

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.size.sum())

    def upper(self) -> NDArray[np.float64]:
        """Return the upper bounds of the columns."""
        return upper_bounds(self.store, self.slot)

    def row_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper sides of the rows."""
        rows, of_resource = self.store.rows, self.owner >= 0
        lower, upper = np.empty(self.owner.size), np.empty(self.owner.size)
        resources = self.owner[of_resource]
        lower[of_resource], upper[of_resource] = rows.lower[resources], rows.upper[resources]
        lower[~of_resource], upper[~of_resource] = sum_row_bounds(self.store, -1 - self.owner[~of_resource])
        return lower, upper

    def changes(self) -> Changes:
        """Return the changes since the last call, or since the model began.

        Raises
        ------
        UnsupportedError
            If a request has a convex term.
        """
        refuse_terms(self._program, "FlatModel")
        deleted = self._delete()
        check()
        costs, bounds, (rows, lower, upper) = self._costs(), self._bounds(), self._sides()
        check()
        added = self._add()
        self._seen = self.store.clock
        return Changes(*deleted, *costs, *bounds, rows, lower, upper, *added)

    def _delete(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Drop requests that left or were replaced, and rows without an owner; return columns and rows."""
        store, table = self.store, self.store.requests
        gone = table.generation[self.slot] != self._generation
        columns = np.empty(0, np.int64)
        if gone.any():
            columns = slice_indices((np.cumsum(self.size) - self.size)[gone], self.size[gone])
            keep = ~gone
            self.slot, self._generation, self.size = self.slot[keep], self._generation[keep], self.size[keep]
            self._bound = self._bound[keep]
        of_resource = self.owner >= 0
        resource, request = np.where(of_resource, self.owner, 0), np.where(of_resource, 0, -1 - self.owner)
        stays = np.where(
            of_resource,
            store.rows.alive[resource] & (store.rows.generation[resource] == self._row_generation),
            (table.total[request] < np.inf) & (table.generation[request] == self._row_generation),
        )
        rows = np.flatnonzero(~stays)
        if rows.size:
            self.owner, self._row_generation = self.owner[stays], self._row_generation[stays]
        return columns.astype(np.int32), rows.astype(np.int32)

    def _costs(self) -> tuple[_Places, _Numbers]:
        """Return the columns with new costs, and the costs."""
        moved = self.store.requests.cost_stamp[self.slot] > self._seen
        if not moved.any():
            return _NO_PLACES, _NO_NUMBERS
        return self._columns_of(moved), effective_costs(self.store, self.slot[moved])

    def _bounds(self) -> tuple[_Places, _Numbers]:
        """Return the columns with new upper bounds, and the bounds."""
        bound = _common_bound(self.store, self.slot)
        stamp = self.store.requests.bound_stamp[self.slot]
        moved = (stamp > self._seen) & ~(bound == self._bound)
        self._bound = bound
        if not moved.any():
            return _NO_PLACES, _NO_NUMBERS
        return self._columns_of(moved), upper_bounds(self.store, self.slot[moved])

    def _columns_of(self, some: NDArray[np.bool_]) -> _Places:
        """Return the positions of the columns of some blocks."""
        start = np.cumsum(self.size) - self.size
        return slice_indices(start[some], self.size[some]).astype(np.int32)

    def _sides(self) -> tuple[_Places, _Numbers, _Numbers]:
        """Return the rows with new sides, and both sides."""
        store, of_resource = self.store, self.owner >= 0
        stamp = np.empty(self.owner.size, np.int64)
        stamp[of_resource] = store.rows.stamp[self.owner[of_resource]]
        stamp[~of_resource] = store.requests.bound_stamp[-1 - self.owner[~of_resource]]
        rows = np.flatnonzero(stamp > self._seen)
        lower, upper = self.row_bounds() if rows.size else (np.empty(0), np.empty(0))
        return rows.astype(np.int32), lower[rows], upper[rows]

    def _add(self) -> tuple[NewRows, NewColumns]:
        """Append new resources, sum rows and requests."""
        store, table = self.store, self.store.requests
        kept = np.zeros(store.rows.size, np.bool_)
        kept[self.owner[self.owner >= 0]] = True
        new_rows = np.flatnonzero(store.rows.alive[: store.rows.size] & ~kept)
        kept = np.zeros(table.size, np.bool_)
        kept[self.slot] = True
        live = store.live_requests()
        new = live[~kept[live]]
        summed = np.zeros(table.size, np.bool_)
        summed[-1 - self.owner[self.owner < 0]] = True
        # A request that got a total since the last call needs a new sum row with the entries of its columns.
        late = np.flatnonzero((table.total[self.slot] < np.inf) & ~summed[self.slot])
        requests = np.concatenate((self.slot[late], new[table.total[new] < np.inf]))
        if not (new_rows.size or requests.size or new.size):
            return _NO_ROWS, _NO_COLUMNS
        return self._add_rows(new_rows, requests, late), self._add_columns(new)

    def _add_rows(
        self, resources: NDArray[np.int64], requests: NDArray[np.int64], late: NDArray[np.int64]
    ) -> NewRows:
        """Append rows of resources and sum rows of requests; `late`: blocks that already have columns."""
        store = self.store
        sum_lower, sum_upper = sum_row_bounds(store, requests)
        lower = np.concatenate((store.rows.lower[resources], sum_lower))
        upper = np.concatenate((store.rows.upper[resources], sum_upper))
        lengths = np.zeros(lower.size, np.int64)
        lengths[resources.size : resources.size + late.size] = self.size[late]
        starts = (np.cumsum(lengths) - lengths).astype(np.int32)
        columns = slice_indices((np.cumsum(self.size) - self.size)[late], self.size[late]).astype(np.int32)
        self.owner = np.concatenate((self.owner, resources, -1 - requests))
        generations = store.rows.generation[resources], store.requests.generation[requests]
        self._row_generation = np.concatenate((self._row_generation, *generations))
        return NewRows(lower, upper, starts, columns, np.ones(columns.size))

    def _add_columns(self, new: NDArray[np.int64]) -> NewColumns:
        store, table = self.store, self.store.requests
        at = np.arange(self.owner.size)
        of_resource = self.owner >= 0
        position = np.full(store.rows.size, -1, np.int32)
        position[self.owner[of_resource]] = at[of_resource]
        sum_at = np.full(table.size, -1, np.int64)
        sum_at[-1 - self.owner[~of_resource]] = at[~of_resource]
        sizes = table.n_columns[new]
        columns = usage_columns(store, new, position)
        indptr, indices, data = append_sum_rows(columns, np.repeat(sum_at[new], sizes))
        costs, upper = effective_costs(store, new), upper_bounds(store, new)
        self.slot = np.concatenate((self.slot, new))
        self._generation = np.concatenate((self._generation, table.generation[new]))
        self.size = np.concatenate((self.size, sizes))
        self._bound = np.concatenate((self._bound, _common_bound(store, new)))
        return NewColumns(costs, upper, indptr[:-1], indices, data)


def _common_bound(store: ConstraintStore, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the upper bound that all columns of a request share; NaN (unequal to all) if they differ."""
    table = store.requests
    bound: NDArray[np.float64] = np.where(table.upper_start[slots] >= 0, np.nan, table.upper[slots])
    return bound
