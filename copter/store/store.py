"""ConstraintStore: the program as lists of lists on growable slabs, edited in place.

Adding, removing or changing a request costs time in proportion to its own nonzeros (amortised, see
:mod:`copter.store.slabs`), a resource change is O(1), and kernels read the very arrays that the edits wrote:
there is no compile step.

Its layout is described in :mod:`copter.store.layout`.  This module checks nothing:
:class:`copter.program.program.ContinualProgram` validates before it edits.

Source: list-of-lists store of COpter, thesis section 4.3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.store.costs import CostEdits, CostsOfVectors
from copter.store.edits import (
    AT_MOST,
    EXACTLY,
    NO_TOTAL,
    all_ones,
    fill_requests,
    fill_usages,
    release_requests,
)
from copter.store.executor import Executor, LocalExecutor
from copter.store.slabs import contiguous, places, slice_indices

if TYPE_CHECKING:
    from copter.terms.convex import ConvexTerm

__all__ = ["AT_MOST", "EXACTLY", "LACKING", "NO_TOTAL", "ConstraintStore", "CostsOfVectors", "slice_indices"]

LACKING = 1e-9
"""Upper bounds that fall short of a total by at most this share of it meet it: input is rounded, too."""

_AS_NAMED = np.empty(0, np.int64)
_AS_NAMED.setflags(write=False)  # as the slots of all resources are: a kernel compiles for one of the two
"""Stands for the slots of rows that are named by their slots."""
_NONE_GIVEN = np.empty(0)
"""Stands for numbers that are not given."""


class ConstraintStore(CostEdits):
    """Rows, usages and requests on slabs, and their edits; :mod:`copter.store.layout` describes them."""

    @property
    def executor(self) -> Executor:
        """What runs tasks on its columns, wherever these are."""
        return LocalExecutor(self)

    # ---- rows ----------------------------------------------------------------------------------

    def add_row(self, lower: float, upper: float) -> int:
        """A new resource row; returns its slot."""
        return int(self.add_rows(1, lower, upper)[0])

    def add_rows(
        self, count: int, lower: NDArray[np.float64] | float, upper: NDArray[np.float64] | float
    ) -> NDArray[np.int64]:
        """New resource rows; returns their slots.

        Parameters
        ----------
        lower, upper : (count,) ndarray or float
        """
        slots = self.rows.allocate(count)
        self.clock += 1
        self.rows.alive[slots] = True
        self.rows.birth[slots] = self.rows.stamp[slots] = self.clock
        self.rows.lower[slots], self.rows.upper[slots] = lower, upper
        return slots

    def set_row(self, slot: int, lower: float, upper: float) -> None:
        """New bounds for a row."""
        self.clock += 1
        self.rows.stamp[slot] = self.clock
        self.rows.lower[slot], self.rows.upper[slot] = lower, upper

    def set_rows(
        self, slots: NDArray[np.int64], lower: NDArray[np.float64], upper: NDArray[np.float64]
    ) -> None:
        """New bounds for many rows.

        Parameters
        ----------
        slots, lower, upper : (k,) arrays
        """
        self.clock += 1
        where = places(slots)
        self.rows.stamp[where] = self.clock
        self.rows.lower[where], self.rows.upper[where] = lower, upper

    def drop_row(self, slot: int) -> None:
        """Forget a row: O(1), its entries go when enough rows have been dropped."""
        self.clock += 1
        self.rows.alive[slot] = False
        self.rows.lower[slot], self.rows.upper[slot] = -np.inf, np.inf
        self._dropped_rows.append(slot)
        if len(self._dropped_rows) > 64 and 2 * len(self._dropped_rows) > self.rows.size:
            self._purge_rows()

    def _purge_rows(self) -> None:
        """Take the entries of dropped rows out of every usage and make the row slots usable again."""
        usages, entries, own = self.usages, self.entries, self.coefficients
        for slot in np.flatnonzero(usages.n_columns[: usages.size]).tolist():
            start, nnz, n = int(usages.entry_start[slot]), int(usages.nnz[slot]), int(usages.n_columns[slot])
            keep = self.rows.alive[entries.row[start : start + nnz]]
            kept = int(keep.sum())
            if kept == nnz:
                continue
            at = int(usages.pointer_start[slot])
            pointer = self.pointers.pointer[at : at + n + 1]
            pointer[:] = np.concatenate(([0], np.cumsum(keep)))[pointer]
            value = int(usages.value_start[slot])
            for pool, array, begin in ((entries, entries.row, start), (own, own.value, value)):
                if begin >= 0:
                    array[begin : begin + kept] = array[begin : begin + nnz][keep]
                    pool.free(begin + kept, nnz - kept)
            usages.nnz[slot] = kept
        self.rows.free(np.array(self._dropped_rows, np.int64))
        self._dropped_rows = []

    # ---- usages --------------------------------------------------------------------------------

    def add_usages(
        self,
        sizes: NDArray[np.int64],
        pointer: NDArray[Any],
        row: NDArray[Any],
        value: NDArray[Any],
        *,
        row_slots: NDArray[np.int64] | None = None,
        shared: bool = False,
    ) -> NDArray[np.int64]:
        """Store the columns of one usage or of many, given as one compressed-column matrix.

        Parameters
        ----------
        sizes : (k,) columns of each usage
        pointer : (sum(sizes) + 1,) starts of the columns in ``row`` and ``value``
        row, value : (nonzeros,) rows and coefficients
        row_slots : slots of the rows that ``row`` names; by default it names slots
        shared : whether requests may point at it (a template)

        Returns
        -------
        (k,) slots
        """
        table, pointer = self.usages, contiguous(pointer)
        slots = table.allocate(sizes.size)
        begin = self.pointers.allocate_all(sizes + 1)
        ends = sizes.cumsum()
        nnz = (pointer[ends] - pointer[ends - sizes]).astype(np.int64)
        row, value, ones = contiguous(row), contiguous(value), np.empty(sizes.size, np.bool_)
        all_ones(sizes, pointer, value, ones)
        starts = begin, self.entries.allocate_all(nnz), np.full(sizes.size, -1)
        starts[2][~ones] = self.coefficients.allocate_all(nnz[~ones])
        pools = self.pointers.pointer, self.entries.row, self.coefficients.value
        named = _AS_NAMED if row_slots is None else row_slots
        fill_usages(table.whole, *pools, slots, *starts, sizes, pointer, row, value, named)
        if shared:
            table.shared[slots] = True
        return slots

    def drop_usage(self, slot: int) -> None:
        """Forget the handle of a shared usage; requests that use it keep it."""
        self.usages.shared[slot] = False
        if not self.usages.references[slot]:
            self.free_usages([slot])

    def free_usages(self, slots: list[int]) -> None:
        """Forget usages that nothing points at."""
        table = self.usages
        gone = np.array(slots, np.int64)
        self.pointers.free_all(table.pointer_start[gone].tolist(), (table.n_columns[gone] + 1).tolist())
        self.entries.free_all(table.entry_start[gone].tolist(), table.nnz[gone].tolist())
        spelt = gone[table.value_start[gone] >= 0]
        self.coefficients.free_all(table.value_start[spelt].tolist(), table.nnz[spelt].tolist())
        table.free(gone)
        if not (self.entries.wasteful or self.pointers.wasteful or self.coefficients.wasteful):
            return
        live = np.flatnonzero(table.n_columns[: table.size])
        if self.coefficients.wasteful:
            spelt = live[table.value_start[live] >= 0]
            first = np.zeros(1, np.int64), np.ones(1, np.int64)  # the 1 of all who store none stays the first
            kept = zip(first, (table.value_start[spelt], table.nnz[spelt]), strict=True)
            starts, lengths = (np.concatenate(pair) for pair in kept)
            table.value_start[spelt] = self.coefficients.compact(starts, lengths)[1:]
        if self.entries.wasteful:
            table.entry_start[live] = self.entries.compact(table.entry_start[live], table.nnz[live])
        if self.pointers.wasteful:
            lengths = table.n_columns[live] + 1
            table.pointer_start[live] = self.pointers.compact(table.pointer_start[live], lengths)

    # ---- requests ------------------------------------------------------------------------------

    def add_requests(
        self,
        sizes: NDArray[np.int64],
        usages: NDArray[np.int64] | int,
        costs: NDArray[np.float64] | CostsOfVectors,
        *,
        relation: NDArray[np.int8] | int = NO_TOTAL,
        totals: NDArray[np.float64] | None = None,
        scales: NDArray[np.float64] | float = 1.0,
        upper: NDArray[np.float64] | float = np.inf,
        integral: NDArray[np.bool_] | bool = False,
    ) -> NDArray[np.int64]:
        """New requests and their columns.

        Parameters
        ----------
        sizes : (k,) columns of each
        usages : (k,) slots, or one for all
        costs : (sum(sizes),) flat, or vectors
        relation : (k,) kinds of sum rows, or one for all
        totals : (k,) of the sum rows; None if nobody has one
        scales, integral : (k,), or one for all
        upper : (sum(sizes),) flat, or one for all

        Returns
        -------
        (k,) slots
        """
        table = self.requests
        one_kind, mixed = (NO_TOTAL, relation) if isinstance(relation, np.ndarray) else (relation, None)
        one, each = (-1, usages) if isinstance(usages, np.ndarray) else (usages, sizes)
        slots = table.allocate(sizes.size)
        if isinstance(costs, CostsOfVectors):
            vectors, flat, starts = costs.slots, _NONE_GIVEN, self.vectors.cost_start[costs.slots]
        else:
            vectors, flat, starts = None, contiguous(costs), self.costs.allocate_all(sizes)
        self.clock += 1
        fill_requests(
            table.whole,
            table.real,
            table.small,
            self.usages.references,
            self.costs.cost,
            slots,
            starts,
            sizes,
            flat,
            one,
            each,
            one_kind,
            _NONE_GIVEN if totals is None else contiguous(totals),
            self.clock,
        )
        # What is left out here is what a blank slot says.
        if vectors is not None:
            table.vector[slots] = vectors
            np.add.at(self.vectors.references, vectors, 1)
        if mixed is not None:
            table.relation[slots], table.total[slots] = mixed, totals
        if isinstance(integral, np.ndarray) or integral:
            table.integral[slots] = integral
        if isinstance(scales, np.ndarray) or scales != 1.0:
            table.scale[places(slots)] = scales
        if isinstance(upper, np.ndarray):
            table.upper_start[slots] = self.uppers.put(sizes, upper=upper)
        elif upper != np.inf:
            table.upper[slots] = upper
        self.n_variables += costs.size
        return slots

    def remove_requests(self, slots: NDArray[np.int64]) -> None:
        """Forget requests, and the usages that nothing else points at."""
        if not slots.size:
            return
        self.clock += 1
        if self.terms:
            self.terms.drop(slots.tolist())
        self._release_columns(slots, blank=True)
        self.requests.reuse(slots.tolist())
        self._compact_columns()

    def replace_columns(
        self,
        slots: NDArray[np.int64],
        usages: NDArray[np.int64],
        costs: list[NDArray[np.float64]] | CostsOfVectors,
    ) -> None:
        """Give requests other columns; their scales, sum rows and scalar bounds stay.

        Parameters
        ----------
        slots, usages : (k,) arrays
        costs : list of k (n_q,) arrays, or vectors
        """
        self._release_columns(slots, blank=False)
        table = self.requests
        self.clock += 1
        if isinstance(costs, CostsOfVectors):
            sizes, starts = costs.sizes, self.vectors.cost_start[costs.slots]
            table.vector[slots] = costs.slots
            np.add.at(self.vectors.references, costs.slots, 1)
        else:
            sizes = np.array([own.size for own in costs], np.int64)
            starts = self.costs.allocate_all(sizes)
            for start, own in zip(starts.tolist(), costs, strict=True):
                self.costs.cost[start : start + own.size] = own
        table.cost_start[slots], table.n_columns[slots], table.usage[slots] = starts, sizes, usages
        table.birth[slots] = table.cost_stamp[slots] = table.bound_stamp[slots] = self.clock
        np.add.at(self.usages.references, usages, 1)
        self.n_variables += int(sizes.sum())
        self._compact_columns()

    def set_term(self, slot: int, term: tuple[ConvexTerm, NDArray[np.float64]] | None) -> None:
        """Give a request a convex term with its image, or take it away."""
        self.clock += 1
        self.requests.cost_stamp[slot] = self.clock
        if term is None:
            self.terms.drop([slot])
        else:
            self.terms.put(slot, *term)

    def restate_terms(
        self, slots: NDArray[np.int64], kind: int, parameters: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """New parameters for terms of one kind; their images stay.

        Parameters
        ----------
        slots : (k,) array
        kind : int
            Place in the term table's ``kinds``.
        parameters : mapping of str to (k,) array
        """
        self.clock += 1
        self.requests.cost_stamp[slots] = self.clock
        self.terms.restate(slots, kind, parameters)

    def set_totals(self, slots: NDArray[np.int64], totals: NDArray[np.float64]) -> None:
        """New totals for many requests that have a sum row."""
        self.clock += 1
        at = places(slots)
        self.requests.total[at], self.requests.bound_stamp[at] = totals, self.clock

    def set_sum_rows(
        self, slots: NDArray[np.int64], relations: NDArray[np.int8] | int, totals: NDArray[np.float64] | float
    ) -> None:
        """New sum rows, or none (``NO_TOTAL`` and an infinite total), for many requests.

        Parameters
        ----------
        slots : (k,) array
        relations, totals : (k,) array, or one for all
        """
        self.clock += 1
        table = self.requests
        table.relation[slots], table.total[slots], table.bound_stamp[slots] = relations, totals, self.clock

    def set_integral(self, slots: NDArray[np.int64], integral: NDArray[np.bool_] | bool) -> None:
        """Whether an integral allocation is wanted, for many requests."""
        self.clock += 1
        self.requests.integral[slots] = integral

    def set_uppers(self, slots: NDArray[np.int64], upper: float | NDArray[np.float64]) -> None:
        """New upper bounds of all columns of many requests, one each or one for all."""
        self.clock += 1
        table, own = self.requests, isinstance(upper, np.ndarray)
        for slot in slots[(table.upper_start[slots] < 0) == own].tolist():
            if own:
                table.upper_start[slot] = self.uppers.allocate(int(table.n_columns[slot]))
            else:
                self._free_uppers(slot)
        if own:
            self.uppers.upper[slice_indices(table.upper_start[slots], table.n_columns[slots])] = upper
        table.upper[slots], table.bound_stamp[slots] = np.inf if own else upper, self.clock

    def _release_columns(self, slots: NDArray[np.int64], *, blank: bool) -> None:
        table, usages = self.requests, self.usages
        left = np.empty((7, slots.size), np.int64)
        blocks = table.whole, table.real, table.small
        release_requests(*blocks, usages.references, usages.shared, slots, left, blank)
        starts, sizes, uppers, override_starts, override_lengths, unused, vectors = left.tolist()
        self.n_variables -= sum(sizes)
        if max(vectors) < 0:
            self.costs.free_all(starts, sizes)
        else:
            own = left[6] < 0
            self.costs.free_all(left[0, own].tolist(), left[1, own].tolist())
            self._release_vectors(left[6, ~own])
        if any(override_lengths):
            self.overrides.free_all(override_starts, override_lengths)
        if max(uppers) >= 0:
            own = [k for k, start in enumerate(uppers) if start >= 0]
            self.uppers.free_all([uppers[k] for k in own], [sizes[k] for k in own])
        if max(unused) >= 0:
            self.free_usages([usage for usage in unused if usage >= 0])

    def _free_uppers(self, slot: int) -> None:
        table = self.requests
        if table.upper_start[slot] >= 0:
            self.uppers.free(int(table.upper_start[slot]), int(table.n_columns[slot]))
            table.upper_start[slot] = -1

    def _compact_columns(self) -> None:
        table = self.requests
        self._compact_costs()
        if self.uppers.wasteful:
            live = np.flatnonzero(table.upper_start[: table.size] >= 0)
            table.upper_start[live] = self.uppers.compact(table.upper_start[live], table.n_columns[live])
        if self.overrides.wasteful:
            live = np.flatnonzero(table.override_length[: table.size])
            starts, lengths = table.override_start[live], table.override_length[live]
            table.override_start[live] = self.overrides.compact(starts, lengths)
