"""ConstraintStore: the program as lists of lists on growable slabs, edited in place.

Adding, removing or changing a request costs time in proportion to its own nonzeros (amortised, see
:mod:`copter.store.slabs`), a resource change is O(1), and kernels read the very arrays that the edits wrote:
there is no compile step.

A request's costs lie in the pool, at a place of its own or at that of costs that many share.  An override is
written over costs of its own, and kept aside where they are shared.  Shared costs go when no request points
at them and their handle was dropped.

Its layout is described in :mod:`copter.store.layout`.  This module checks nothing:
:class:`copter.program.program.ContinualProgram` validates before it edits.

Source: list-of-lists store of COpter, thesis section 4.3.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.store.edit import Columns, Edit, Entries, Runs
from copter.store.executor import Executor, LocalExecutor
from copter.store.kernels import (
    AT_MOST,
    EXACTLY,
    NO_TOTAL,
    all_ones,
    fill_requests,
    fill_usages,
    release_requests,
    write_overrides,
    write_scales,
)
from copter.store.layout import Layout
from copter.store.slabs import contiguous, places, slice_indices

__all__ = ["AT_MOST", "EXACTLY", "LACKING", "NO_TOTAL", "ConstraintStore", "slice_indices"]

LACKING = 1e-9
"""Upper bounds that fall short of a total by at most this share of it meet it: input is rounded, too."""

_OF_REQUESTS = ("add_requests", "update_requests", "remove_requests")
_NONE_GIVEN = np.empty(0)
"""Stands for numbers that are not given."""


class ConstraintStore(Layout):
    """Rows, usages and requests on slabs, and their edits; :mod:`copter.store.layout` describes them."""

    @property
    def executor(self) -> Executor:
        """What runs tasks on its columns, wherever these are."""
        return LocalExecutor(self)

    def apply(self, edit: Edit) -> NDArray[np.int64]:
        """Make a validated edit; return the slots of what is new, else those of the edit."""
        slots = self._make(edit)
        if edit.verb in _OF_REQUESTS:
            self.edits.note(self.clock, slots, self.requests.size)
        return slots

    def edited_since(self, revision: int) -> NDArray[np.int64] | None:
        """Return the slots of the requests that were added, updated or removed after a revision.

        Parameters
        ----------
        revision : int
            An earlier value of ``clock``.

        Returns
        -------
        (k,) ndarray or None
            Ascending; None if the store's log of edits does not reach back that far
            (:class:`copter.store.edit_log.EditLog`).
        """
        return self.edits.since(revision)

    def _make(self, edit: Edit) -> NDArray[np.int64]:
        match edit.verb:
            case "add_requests":
                slots = self._add_requests(edit)
                if edit.overrides is not None:
                    self._set_overrides(slots, edit.overrides, None)
                if edit.terms is not None:
                    self._set_terms(slots, edit.terms)
                return slots
            case "update_requests":
                self._update_requests(edit)
            case "remove_requests":
                self._remove_requests(edit.slots)
            case "add_resources":
                return self._add_rows(edit)
            case "update_resources":
                self._set_rows(edit)
            case "remove_resources":
                for slot in edit.slots.tolist():
                    self._drop_row(slot)
            case "share_columns":
                return self._share_columns(edit)
            case "share_costs":
                return self._share_costs(edit)
            case "forget_columns":
                self._forget_columns(int(edit.slots[0]))
            case "forget_costs":
                self._forget_costs(int(edit.slots[0]))
            case _:
                raise ValueError(f"a store has no edit {edit.verb!r}")
        return edit.slots

    # ---- rows ----------------------------------------------------------------------------------

    def _add_rows(self, edit: Edit) -> NDArray[np.int64]:
        assert edit.lower is not None
        slots = self.rows.allocate(edit.lower.size)
        self.clock += 1
        self.rows.alive[slots] = True
        self.rows.birth[slots] = self.rows.stamp[slots] = self.clock
        self.rows.lower[slots], self.rows.upper[slots] = edit.lower, edit.upper
        return slots

    def _set_rows(self, edit: Edit) -> None:
        self.clock += 1
        where = places(edit.slots)
        self.rows.stamp[where] = self.clock
        self.rows.lower[where], self.rows.upper[where] = edit.lower, edit.upper

    def _drop_row(self, slot: int) -> None:
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

    def _add_usages(self, columns: Columns) -> NDArray[np.int64]:
        """Store the columns of one usage or of many; returns their slots."""
        table, pointer, sizes = self.usages, contiguous(columns.pointer), columns.widths
        slots = table.allocate(sizes.size)
        begin = self.pointers.allocate_all(sizes + 1)
        ends = sizes.cumsum()
        nnz = (pointer[ends] - pointer[ends - sizes]).astype(np.int64)
        row, value = contiguous(columns.row), contiguous(columns.value)
        ones = np.empty(sizes.size, np.bool_)
        all_ones(sizes, pointer, value, ones)
        starts = begin, self.entries.allocate_all(nnz), np.full(sizes.size, -1)
        starts[2][~ones] = self.coefficients.allocate_all(nnz[~ones])
        pools = self.pointers.pointer, self.entries.row, self.coefficients.value
        fill_usages(table.whole, *pools, slots, *starts, sizes, pointer, row, value)
        return slots

    def _share_columns(self, edit: Edit) -> NDArray[np.int64]:
        assert edit.columns is not None
        slots = self._add_usages(edit.columns)
        self.usages.shared[slots] = True
        return slots

    def _usages_of(self, edit: Edit) -> NDArray[np.int64] | int:
        """Slots of the usages of new columns, for all or one each; those of a request's own are stored."""
        assert edit.usage is not None
        if edit.columns is None:
            return edit.usage
        own = edit.columns.widths > 0
        if own.all():
            return self._add_usages(edit.columns)
        slots = np.array(np.broadcast_to(edit.usage, own.shape))
        slots[own] = self._add_usages(edit.columns._replace(widths=edit.columns.widths[own]))
        return slots

    def _forget_columns(self, slot: int) -> None:
        """Forget the handle of a shared usage; requests that use it keep it."""
        self.usages.shared[slot] = False
        if not self.usages.references[slot]:
            self._free_usages([slot])

    def _free_usages(self, slots: list[int]) -> None:
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

    def _add_requests(self, edit: Edit) -> NDArray[np.int64]:
        usages, sizes, table = self._usages_of(edit), edit.sizes, self.requests
        relation, totals = edit.relation, edit.totals
        assert sizes is not None and relation is not None
        one_kind, mixed = (NO_TOTAL, relation) if isinstance(relation, np.ndarray) else (relation, None)
        one, each = (-1, usages) if isinstance(usages, np.ndarray) else (usages, sizes)
        slots = table.allocate(sizes.size)
        if edit.costs is None:
            vectors, flat, starts = edit.vectors, _NONE_GIVEN, self.vectors.cost_start[edit.vectors]
        else:
            vectors, flat, starts = None, contiguous(edit.costs.values), self.costs.allocate_all(sizes)
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
            contiguous(totals) if isinstance(totals, np.ndarray) else _NONE_GIVEN,
            self.clock,
        )
        # What is left out here is what a blank slot says.
        if vectors is not None:
            table.vector[slots] = vectors
            np.add.at(self.vectors.references, vectors, 1)
        if mixed is not None:
            table.relation[slots], table.total[slots] = mixed, totals
        if isinstance(edit.integral, np.ndarray) or edit.integral:
            table.integral[slots] = edit.integral
        if isinstance(edit.scales, np.ndarray) or edit.scales != 1.0:
            table.scale[places(slots)] = edit.scales
        if isinstance(edit.upper, Runs):
            table.upper_start[slots] = self.uppers.put(sizes, upper=edit.upper.values)
        elif edit.upper != np.inf:
            table.upper[slots] = edit.upper
        self.n_variables += int(sizes.sum())
        return slots

    def _remove_requests(self, slots: NDArray[np.int64]) -> None:
        """Forget requests, and the usages that nothing else points at."""
        if not slots.size:
            return
        self.clock += 1
        if self.terms:
            self.terms.drop(slots.tolist())
        self._release_columns(slots, blank=True)
        self.requests.reuse(slots.tolist())
        self._compact_columns()

    def _update_requests(self, edit: Edit) -> None:
        slots = edit.slots
        if edit.usage is not None:
            self._replace_columns(edit)
        elif edit.vectors is not None:
            self._set_vectors(slots, edit.vectors)
        elif edit.costs is not None:
            self._set_costs(slots, edit.costs)
        if edit.totals is not None:  # a relation comes with them
            self._set_sum_rows(slots, edit.relation, edit.totals)
        if edit.upper is not None:
            assert not isinstance(edit.upper, np.ndarray)  # those of resources are
            self._set_uppers(slots, edit.upper)
        if edit.integral is not None:
            self.clock += 1
            self.requests.integral[slots] = edit.integral
        if edit.overrides is not None:
            self._set_overrides(slots, edit.overrides, edit.scales)
        elif edit.scales is not None:
            self._set_scales(slots, edit.scales)
        if edit.terms is not None:
            self._set_terms(slots, edit.terms)
        if edit.parameters is not None:
            self.clock += 1
            self.requests.cost_stamp[slots] = self.clock
            columns = {name: edit.parameters[:, k] for k, name in enumerate(edit.names)}
            self.terms.restate(slots, int(self.terms.kind_of(slots[:1])[0]), columns)

    def _replace_columns(self, edit: Edit) -> None:
        """Give requests other columns; their scales, sum rows and scalar bounds stay."""
        slots, sizes, table = edit.slots, edit.sizes, self.requests
        assert sizes is not None
        usages = np.broadcast_to(self._usages_of(edit), slots.shape)
        self._release_columns(slots, blank=False)
        self.clock += 1
        if edit.costs is None:
            assert edit.vectors is not None
            starts = self.vectors.cost_start[edit.vectors]
            table.vector[slots] = edit.vectors
            np.add.at(self.vectors.references, edit.vectors, 1)
        else:
            starts = self.costs.allocate_all(sizes)
            self.costs.cost[slice_indices(starts, sizes)] = edit.costs.values
        table.cost_start[slots], table.n_columns[slots], table.usage[slots] = starts, sizes, usages
        table.birth[slots] = table.cost_stamp[slots] = table.bound_stamp[slots] = self.clock
        np.add.at(self.usages.references, usages, 1)
        self.n_variables += int(sizes.sum())
        self._compact_columns()

    def _set_terms(self, slots: NDArray[np.int64], terms: NDArray[Any]) -> None:
        """Give requests convex terms with their images, or take them away."""
        for slot, term in zip(slots.tolist(), terms, strict=True):
            self.clock += 1
            self.requests.cost_stamp[slot] = self.clock
            if term is None:
                self.terms.drop([slot])
            else:
                self.terms.put(slot, *term)

    def _set_sum_rows(
        self,
        slots: NDArray[np.int64],
        relation: NDArray[np.int8] | int | None,
        totals: NDArray[np.float64] | float,
    ) -> None:
        """New sum rows, or none (``NO_TOTAL`` and an infinite total); without a relation, new totals."""
        self.clock += 1
        table, at = self.requests, places(slots)
        table.total[at], table.bound_stamp[at] = totals, self.clock
        if relation is not None:
            table.relation[at] = relation

    def _set_uppers(self, slots: NDArray[np.int64], upper: float | Runs) -> None:
        """New upper bounds of all columns of many requests, one each or one for all."""
        self.clock += 1
        table, own = self.requests, isinstance(upper, Runs)
        for slot in slots[(table.upper_start[slots] < 0) == own].tolist():
            if own:
                table.upper_start[slot] = self.uppers.allocate(int(table.n_columns[slot]))
            else:
                self._free_uppers(slot)
        if isinstance(upper, Runs):
            flat = slice_indices(table.upper_start[slots], table.n_columns[slots])
            self.uppers.upper[flat] = upper.values
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
            self._free_usages([usage for usage in unused if usage >= 0])

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

    # ---- costs: of their own or shared, scales on them, overrides of single columns ------------

    def reserve(self, columns: int) -> None:
        """Make room for the costs of so many columns more."""
        self.costs.reserve(columns)

    def _share_costs(self, edit: Edit) -> NDArray[np.int64]:
        """Store costs that requests can point at; returns their slot."""
        assert edit.costs is not None
        table, costs = self.vectors, edit.costs.values
        slot, start = table.allocate(1), self.costs.allocate(costs.size)
        self.costs.cost[start : start + costs.size] = costs
        table.cost_start[slot], table.n_columns[slot], table.shared[slot] = start, costs.size, True
        return slot

    def _forget_costs(self, slot: int) -> None:
        """Forget the handle of a vector; requests that use it keep it."""
        self.vectors.shared[slot] = False
        self._free_vectors([slot])
        self._compact_costs()

    def _release_vectors(self, slots: NDArray[np.int64]) -> None:
        """Count a request less for each of some slots; what nothing points at goes."""
        np.subtract.at(self.vectors.references, slots, 1)
        self._free_vectors(np.unique(slots).tolist())

    def _free_vectors(self, slots: list[int]) -> None:
        table = self.vectors
        for slot in slots:
            if not table.references[slot] and not table.shared[slot]:
                self.costs.free(int(table.cost_start[slot]), int(table.n_columns[slot]))
                table.free(np.array([slot]))

    def _set_vectors(self, slots: NDArray[np.int64], vectors: NDArray[np.int64]) -> None:
        """Let requests point at vectors of as many columns; their overrides keep their values."""
        self.clock += 1
        table = self.requests
        np.add.at(self.vectors.references, vectors, 1)
        old = table.vector[slots]
        own = slots[old < 0]
        self.costs.free_all(table.cost_start[own].tolist(), table.n_columns[own].tolist())
        table.vector[slots], table.cost_start[slots] = vectors, self.vectors.cost_start[vectors]
        table.cost_stamp[slots] = self.clock
        self._release_vectors(old[old >= 0])
        self._compact_costs()

    def _leave_vector(self, slot: int) -> None:
        """Give a request that points at a vector room for costs of its own, to be filled."""
        table = self.requests
        vector = int(table.vector[slot])
        table.cost_start[slot], table.vector[slot] = self.costs.allocate(int(table.n_columns[slot])), -1
        self._release_vectors(np.array([vector]))

    def _compact_costs(self) -> None:
        """Move costs together where more of the pool is free than is used."""
        if not self.costs.wasteful:
            return
        table, vectors = self.requests, self.vectors
        live = self.live_requests()
        own, named = live[table.vector[live] < 0], np.flatnonzero(vectors.n_columns[: vectors.size])
        starts = np.concatenate((table.cost_start[own], vectors.cost_start[named]))
        moved = self.costs.compact(starts, np.concatenate((table.n_columns[own], vectors.n_columns[named])))
        table.cost_start[own], vectors.cost_start[named] = moved[: own.size], moved[own.size :]
        sharing = live[table.vector[live] >= 0]
        table.cost_start[sharing] = vectors.cost_start[table.vector[sharing]]

    def _set_costs(self, slots: NDArray[np.int64], costs: Runs) -> None:
        """New costs for all columns of some requests; their overrides keep their values."""
        self.clock += 1
        table, kept = self.requests, self.overrides
        if self.vectors.size:
            for slot in slots[table.vector[slots] >= 0].tolist():
                self._leave_vector(slot)
        if slots.size == 1:
            start = int(table.cost_start[slots[0]])
            self.costs.cost[start : start + costs.values.size] = costs.values
        else:
            self.costs.cost[slice_indices(table.cost_start[slots], costs.lengths)] = costs.values
        overridden = slots[table.override_length[slots] > 0].tolist() if kept.used else ()
        for slot in overridden:
            start, length = int(table.cost_start[slot]), int(table.override_length[slot])
            pool = self.costs.cost[start : start + int(table.n_columns[slot])]
            part = slice(int(table.override_start[slot]), int(table.override_start[slot]) + length)
            columns = kept.column[part]
            kept.original[part] = pool[columns]
            pool[columns] = kept.value[part] / table.scale[slot]
        table.cost_stamp[slots] = self.clock
        self._compact_costs()

    def _set_scales(self, slots: NDArray[np.int64], scales: NDArray[np.float64] | float) -> None:
        """New scale for many requests; their overrides keep their values."""
        self.clock += 1
        table, kept = self.requests, self.overrides
        pools = self.costs.cost, kept.column, kept.value
        write_scales(table.whole, table.scale, *pools, slots, _one_each(scales, slots.size), self.clock)

    def _set_overrides(
        self, slots: NDArray[np.int64], given: Entries, scales: NDArray[np.float64] | float | None
    ) -> None:
        """Replace the overrides of requests for which some are given and, if given, all their scales."""
        if given.given is not None:
            if scales is not None:
                self._set_scales(slots, scales)
            slots, scales = slots[given.given], None
        lengths = given.counts if given.given is None else given.counts[given.given]
        self.clock += 1
        factors = _NONE_GIVEN if scales is None else _one_each(scales, slots.size)
        new = contiguous(given.columns), contiguous(given.values), factors
        if not self._write_overrides(slots, lengths, new, restore=True):
            self._resize_overrides(slots, lengths)
            self._write_overrides(slots, lengths, new, restore=False)

    def sort_overrides(self) -> None:
        """Bring overrides into the order of their columns, in which those of old files need not be."""
        table, kept = self.requests, self.overrides
        some = np.flatnonzero(table.override_length[: table.size] > 1)
        lengths = table.override_length[some]
        flat = slice_indices(table.override_start[some], lengths)
        order = np.lexsort((kept.column[flat], np.repeat(some, lengths)))
        for name in kept.names:
            array = getattr(kept, name)
            array[flat] = array[flat[order]]

    def _write_overrides(
        self,
        slots: NDArray[np.int64],
        lengths: NDArray[np.int64],
        new: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]],
        *,
        restore: bool,
    ) -> bool:
        table, kept, cost = self.requests, self.overrides, self.costs.cost
        pools = cost, kept.column, kept.original, kept.value
        return write_overrides(table.whole, table.scale, *pools, slots, lengths, *new, self.clock, restore)

    def _resize_overrides(self, slots: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Take the overrides off, and give those that get another length room for it."""
        table, kept = self.requests, self.overrides
        old = table.override_length[slots]
        own = np.where(table.vector[slots] < 0, old, 0)
        if np.count_nonzero(own):
            flat = slice_indices(table.override_start[slots], own)
            self.costs.cost[table.cost_start[slots].repeat(own) + kept.column[flat]] = kept.original[flat]
        other = np.flatnonzero(old != lengths)
        resized = slots[other]
        kept.free_all(table.override_start[resized].tolist(), old[other].tolist())
        table.override_start[resized] = kept.allocate_all(lengths[other])
        table.override_length[resized] = lengths[other]


def _one_each(value: NDArray[np.float64] | float, count: int) -> NDArray[np.float64]:
    return contiguous(value) if isinstance(value, np.ndarray) else np.full(count, value)
