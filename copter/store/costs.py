"""Costs of requests: their own or vectors that many share, scales on them, overrides of single columns.

A request's costs lie in the pool, at a place of its own or at that of a vector.  An override is written over
costs of its own, and kept aside where they are shared (:mod:`copter.store.layout`).  A vector goes when no
request points at it and its handle was dropped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.store.edit import Edit, Entries, Runs
from copter.store.edits import write_overrides, write_scales
from copter.store.layout import Layout
from copter.store.slabs import contiguous, slice_indices

_NONE_GIVEN = np.empty(0)
"""Stands for numbers that are not given."""


class CostEdits(Layout):
    """The half of the store's edits that is about costs."""

    def reserve(self, columns: int) -> None:
        """Make room for the costs of so many columns more."""
        self.costs.reserve(columns)

    # ---- vectors -------------------------------------------------------------------------------

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

    # ---- costs of requests ---------------------------------------------------------------------

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
