"""LocalStore: store with all columns in growable arrays of this process, edited in place.

Adding, removing or changing a request takes time proportional to its own nonzeros (amortised, see
:mod:`copter.store.slabs`). Changing a resource takes O(1) time. Kernels read the arrays that edits write, so
there is no build step.

The costs of a request are a slice of the array of costs. An override replaces a cost in the array.

:mod:`copter.store.store` describes the layout. This module does not validate edits, because
:class:`copter.program.program.ContinualProgram` does.

Source: list-of-lists store of COpter, thesis section 4.3.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.store.edit import Edit, EditedColumns, Runs
from copter.store.executor import Executor, LocalExecutor
from copter.store.kernels import (
    all_ones,
    fill_requests,
    fill_usages,
    release_requests,
    write_overrides,
    write_scales,
)
from copter.store.slabs import GrowableArrays, contiguous, one_each, places, slice_indices
from copter.store.store import NONE_GIVEN, ConstraintStore, NewOverrides

_POOLS = ("costs", "uppers", "pointers", "entries", "coefficients", "overrides")


class LocalStore(ConstraintStore):
    """Store with rows, usages and requests in growable arrays; :mod:`copter.store.store` describes it."""

    with_arrays = (*_POOLS, *ConstraintStore.with_arrays)

    def __init__(self) -> None:
        super().__init__()
        self.costs = GrowableArrays(cost=np.float64)
        self.uppers = GrowableArrays(upper=np.float64)
        self.pointers = GrowableArrays(pointer=np.int32)
        self.entries = GrowableArrays(row=np.int32)
        self.coefficients = GrowableArrays(value=np.float64)
        self.coefficients.value[self.coefficients.allocate(1)] = 1.0  # for usages without coefficients
        self.overrides = GrowableArrays(column=np.int32, original=np.float64, value=np.float64)

    @property
    def executor(self) -> Executor:
        """Executor of tasks on the columns, in this process."""
        return LocalExecutor(self)

    # ---- rows ----------------------------------------------------------------------------------

    def _purge_rows(self) -> None:
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

    def _add_usages(self, columns: EditedColumns) -> NDArray[np.int64]:
        """Store the columns of one or many usages; return their slots."""
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
        """Return the slots of the usages of new columns, one for all or one each, and store new usages."""
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
        self.usages.shared[slot] = False
        if not self.usages.references[slot]:
            self._free_usages([slot])

    def _free_usages(self, slots: list[int]) -> None:
        """Remove usages without references."""
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
            first = np.zeros(1, np.int64), np.ones(1, np.int64)  # the common 1 stays at position 0
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
        assert sizes is not None and edit.exact is not None
        mixed = isinstance(edit.exact, np.ndarray)
        totals = edit.totals if isinstance(edit.totals, np.ndarray) else NONE_GIVEN
        one, each = (-1, usages) if isinstance(usages, np.ndarray) else (usages, sizes)
        slots = table.allocate(sizes.size)
        assert edit.costs is not None
        starts = self.costs.allocate_all(sizes)
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
            contiguous(edit.costs.values),
            one,
            each,
            not mixed and bool(edit.exact),
            contiguous(totals),
            self.clock,
        )
        # The remaining fields have the values of a blank slot.
        if mixed:
            table.exact[slots] = edit.exact
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

    def _free_requests(self, slots: NDArray[np.int64]) -> None:
        self._release_columns(slots, blank=True)
        self.requests.reuse(slots.tolist())
        self._compact_columns()

    def _replace_columns(self, edit: Edit) -> None:
        slots, sizes, table = edit.slots, edit.sizes, self.requests
        assert sizes is not None and edit.costs is not None
        usages = np.broadcast_to(self._usages_of(edit), slots.shape)
        self._release_columns(slots, blank=False)
        self.clock += 1
        starts = self.costs.allocate_all(sizes)
        self.costs.cost[slice_indices(starts, sizes)] = edit.costs.values
        table.cost_start[slots], table.n_columns[slots], table.usage[slots] = starts, sizes, usages
        table.generation[slots] = table.cost_stamp[slots] = table.bound_stamp[slots] = self.clock
        np.add.at(self.usages.references, usages, 1)
        self.n_variables += int(sizes.sum())
        self._compact_columns()

    def _set_uppers(self, slots: NDArray[np.int64], upper: float | Runs) -> None:
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
        left = np.empty((6, slots.size), np.int64)
        blocks = table.whole, table.real, table.small
        release_requests(*blocks, usages.references, usages.shared, slots, left, blank)
        starts, sizes, uppers, override_starts, override_lengths, unused = left.tolist()
        self.n_variables -= sum(sizes)
        self.costs.free_all(starts, sizes)
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

    # ---- costs, scales and overrides -----------------------------------------------------------

    def reserve(self, columns: int) -> None:
        """Reserve memory for the costs of `columns` more columns."""
        self.costs.reserve(columns)

    def _compact_costs(self) -> None:
        """Compact the array of costs if more of it is free than used."""
        if not self.costs.wasteful:
            return
        live = self.live_requests()
        starts, sizes = self.requests.cost_start[live], self.requests.n_columns[live]
        self.requests.cost_start[live] = self.costs.compact(starts, sizes)

    def _set_costs(self, slots: NDArray[np.int64], costs: Runs) -> None:
        self.clock += 1
        table, kept = self.requests, self.overrides
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
        self.clock += 1
        table, kept = self.requests, self.overrides
        pools = self.costs.cost, kept.column, kept.value
        write_scales(table.whole, table.scale, *pools, slots, one_each(scales, slots.size), self.clock)

    def _write_overrides(
        self, slots: NDArray[np.int64], lengths: NDArray[np.int64], new: NewOverrides
    ) -> None:
        if not self._write(slots, lengths, new, restore=True):
            self._resize_overrides(slots, lengths)
            self._write(slots, lengths, new, restore=False)

    def _write(
        self, slots: NDArray[np.int64], lengths: NDArray[np.int64], new: NewOverrides, *, restore: bool
    ) -> bool:
        table, kept, cost = self.requests, self.overrides, self.costs.cost
        pools = cost, kept.column, kept.original, kept.value
        return write_overrides(table.whole, table.scale, *pools, slots, lengths, *new, self.clock, restore)

    def _resize_overrides(self, slots: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Restore the costs under old overrides, and allocate slices for overrides with another length."""
        table, kept = self.requests, self.overrides
        old = table.override_length[slots]
        if np.count_nonzero(old):
            flat = slice_indices(table.override_start[slots], old)
            self.costs.cost[table.cost_start[slots].repeat(old) + kept.column[flat]] = kept.original[flat]
        other = np.flatnonzero(old != lengths)
        resized = slots[other]
        kept.free_all(table.override_start[resized].tolist(), old[other].tolist())
        table.override_start[resized] = kept.allocate_all(lengths[other])
        table.override_length[resized] = lengths[other]

    # ---- one request ---------------------------------------------------------------------------

    def get_override(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return columns (k,) and costs (k,) of a request's override."""
        start, length = int(self.requests.override_start[slot]), int(self.requests.override_length[slot])
        part = slice(start, start + length)
        return self.overrides.column[part].astype(np.int64), self.overrides.value[part].copy()

    def base_costs(self, slot: int) -> NDArray[np.float64]:
        """Return a copy of a request's given costs (n,), without scale and overrides."""
        start, n = int(self.requests.cost_start[slot]), int(self.requests.n_columns[slot])
        costs: NDArray[np.float64] = self.costs.cost[start : start + n].copy()
        at, length = int(self.requests.override_start[slot]), int(self.requests.override_length[slot])
        costs[self.overrides.column[at : at + length]] = self.overrides.original[at : at + length]
        return costs

    def effective_costs(self, slot: int) -> NDArray[np.float64]:
        """Return a copy of a request's effective costs (n,), with scale and overrides applied."""
        start, n = int(self.requests.cost_start[slot]), int(self.requests.n_columns[slot])
        costs: NDArray[np.float64] = self.requests.scale[slot] * self.costs.cost[start : start + n]
        columns, values = self.get_override(slot)
        costs[columns] = values
        return costs

    def priced_columns(
        self, slot: int, y: NDArray[np.float64], cost_factor: float = 1.0
    ) -> NDArray[np.float64]:
        """Return cost_factor c + A'y (n,) of a request's columns at dual prices y (row slots,)."""
        usage, n = int(self.requests.usage[slot]), int(self.requests.n_columns[slot])
        row, value = self.entries_of(usage)
        at, priced = int(self.usages.pointer_start[usage]), y[row] * value
        running = np.concatenate(([0.0], np.cumsum(priced)))
        pointer = self.pointers.pointer[at : at + n + 1]
        return cost_factor * self.effective_costs(slot) + running[pointer[1:]] - running[pointer[:-1]]

    def entries_of(self, usage: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return rows and coefficients of a usage's entries, column after column."""
        fields = ("entry_start", "nnz", "value_start")
        start, nnz, value = (int(getattr(self.usages, name)[usage]) for name in fields)
        row: NDArray[np.int32] = self.entries.row[start : start + nnz]
        return row, np.ones(nnz) if value < 0 else self.coefficients.value[value : value + nnz]

    def request_entries(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return columns, rows and coefficients (nnz,) of a request's entries, column after column."""
        usage, n = int(self.requests.usage[slot]), int(self.requests.n_columns[slot])
        at = int(self.usages.pointer_start[usage])
        column = np.repeat(np.arange(n), np.diff(self.pointers.pointer[at : at + n + 1]))
        return column, *self.entries_of(usage)

    def coefficients_of(
        self, usage: NDArray[np.int64], begin: NDArray[np.integer], counts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the coefficients of k runs of entries, flat.

        `usage` (k,) has the usage of each run, `begin` (k,) its first entry in the usage, and `counts` (k,)
        its number of entries.
        """
        start = self.usages.value_start[usage]
        place = slice_indices(np.where(start >= 0, start + begin, 0), counts)
        place[np.repeat(start < 0, counts)] = 0  # position of the common coefficient 1
        coefficients: NDArray[np.float64] = self.coefficients.value[place]
        return coefficients

    def upper_bounds(self, slot: int) -> NDArray[np.float64]:
        """Return a copy of the upper bounds (n,) of a request's columns."""
        n, start = int(self.requests.n_columns[slot]), int(self.requests.upper_start[slot])
        if start < 0:
            return np.full(n, self.requests.upper[slot])
        copy: NDArray[np.float64] = self.uppers.upper[start : start + n].copy()
        return copy

    @property
    def nnz(self) -> int:
        """Number of nonzeros in the resource rows, counted for every request, without dropped rows."""
        usages = self.usages
        nnz = usages.nnz[: usages.size].copy()
        if self._dropped_rows:
            for slot in np.flatnonzero(nnz).tolist():
                start = int(usages.entry_start[slot])
                nnz[slot] = self.rows.alive[self.entries.row[start : start + int(nnz[slot])]].sum()
        return int(nnz @ usages.references[: usages.size])


def in_this_process(store: ConstraintStore) -> LocalStore:
    """Return the store itself, for code that needs its columns in this process."""
    assert isinstance(store, LocalStore)
    return store
