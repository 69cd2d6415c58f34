"""ConstraintStore: the program as lists of lists on growable slabs, edited in place.

A list is a slice of a flat pool: a start and a length.  Freed slices go to a free list of their exact
size; when more of a pool is free than is used, the live slices are moved together.  So adding, removing
or changing a request costs time in proportion to its own nonzeros (amortised), a resource change is O(1),
and kernels read the very arrays that the edits wrote: there is no compile step.

Three tables describe what is stored:

``requests``
    one block of columns each: where its costs lie, which usage it has, its sum row, its upper bounds,
    a scale on its costs.  A free slot has ``n_columns == 0``.
``usages``
    the coupling columns A_q in compressed form (pointers, rows, values).  Requests that share a column
    template point at the same usage, and so store nothing but their costs.
``rows``
    one resource each: ``lower <= sum_q A_q x_q <= upper``.

Effective cost of column j of request q: ``scale[q] * cost[start[q] + j]``.  An override of single columns
is folded into the pool (the pool then holds value / scale), the original is kept aside, so that moving all
costs of a request but a few takes O(few) time and kernels need not know.

Stamps, taken from one clock, tell a solver that keeps state what changed since it last looked.
This module checks nothing: :class:`copter.program.ContinualProgram` validates before it edits.

Source: list-of-lists store of COpter, thesis section 4.3.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_TOTAL, AT_MOST, EXACTLY = 0, 1, 2
"""Kinds of a request's own sum row: none, sum(x) <= total, sum(x) == total."""

_FIRST = 64
_COMPACT_FROM = 4096


def _grown(array: NDArray[Any], used: int, need: int) -> NDArray[Any]:
    """Copy of ``array`` with room for ``need`` entries; memory past ``used`` stays untouched."""
    bigger = np.empty(max(need, array.size + array.size // 2, _FIRST), array.dtype)
    bigger[:used] = array[:used]
    return bigger


class Pool:
    """Parallel flat arrays, handed out in slices of any length.

    Parameters
    ----------
    **dtypes
        Name and dtype of each parallel array; they become attributes.
    """

    def __init__(self, **dtypes: Any) -> None:
        self.names = tuple(dtypes)
        self.used = 0
        self.garbage = 0
        self._free: dict[int, list[int]] = {}
        for name, dtype in dtypes.items():
            setattr(self, name, np.empty(_FIRST, dtype))

    def __getattr__(self, name: str) -> Any:  # for type checkers: the arrays are set by name
        raise AttributeError(name)

    def allocate(self, length: int) -> int:
        """Start of a slice of ``length`` entries (contents arbitrary)."""
        if length == 0:
            return 0
        starts = self._free.get(length)
        if starts:
            self.garbage -= length
            return starts.pop()
        start = self.used
        need = start + length
        for name in self.names:
            array = getattr(self, name)
            if need > array.size:
                setattr(self, name, _grown(array, start, need))
        self.used = need
        return start

    def free(self, start: int, length: int) -> None:
        """Give a slice back."""
        if length:
            self._free.setdefault(length, []).append(start)
            self.garbage += length

    @property
    def wasteful(self) -> bool:
        """More of the pool is free than is used."""
        return self.garbage > _COMPACT_FROM and 2 * self.garbage > self.used

    def compact(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move the given live slices together; returns their new starts."""
        order = np.argsort(starts, kind="stable")
        moved = np.zeros_like(starts)
        room = int(lengths.sum()) + _FIRST
        fresh = {name: np.empty(room, getattr(self, name).dtype) for name in self.names}
        at = 0
        for k in order.tolist():
            start, length = int(starts[k]), int(lengths[k])
            for name in self.names:
                fresh[name][at : at + length] = getattr(self, name)[start : start + length]
            moved[k] = at
            at += length
        for name in self.names:
            setattr(self, name, fresh[name])
        self.used, self.garbage, self._free = at, 0, {}
        return moved


class Table:
    """Slots with named scalar fields, one growable array a field; freed slots are used again.

    Parameters
    ----------
    **fields
        ``name=(dtype, value in a free slot)``; the arrays become attributes (longer than ``size``).
    """

    def __init__(self, **fields: tuple[Any, Any]) -> None:
        self._fields = fields
        self.size = 0
        self._free: list[int] = []
        for name, (dtype, blank) in fields.items():
            setattr(self, name, np.full(_FIRST, blank, dtype))

    def __getattr__(self, name: str) -> Any:  # for type checkers: the arrays are set by name
        raise AttributeError(name)

    def allocate(self, count: int) -> NDArray[np.int64]:
        """``count`` blank slots, free ones first."""
        reuse = min(count, len(self._free))
        slots = np.empty(count, np.int64)
        if reuse:
            slots[:reuse] = self._free[-reuse:]
            del self._free[-reuse:]
        fresh = count - reuse
        if fresh:
            need = self.size + fresh
            for name, (_, blank) in self._fields.items():
                array = getattr(self, name)
                if need > array.size:
                    array = _grown(array, self.size, need)
                    array[self.size :] = blank
                    setattr(self, name, array)
            slots[reuse:] = np.arange(self.size, need)
            self.size = need
        return slots

    def free(self, slots: list[int]) -> None:
        """Blank slots and keep them for later use."""
        for name, (_, blank) in self._fields.items():
            getattr(self, name)[slots] = blank
        self._free += slots


def spread(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Flat indices of the slices ``[start, start + length)``, one after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - ends + lengths, lengths)


class ConstraintStore:
    """Rows, usages and requests on slabs; see the module's head for the layout."""

    def __init__(self) -> None:
        self.clock = 0
        self.n_variables = 0
        self.costs = Pool(cost=np.float64)
        self.uppers = Pool(upper=np.float64)
        self.pointers = Pool(pointer=np.int32)
        self.entries = Pool(row=np.int32, value=np.float64)
        self.overrides = Pool(column=np.int32, original=np.float64, value=np.float64)
        self.rows = Table(
            lower=(np.float64, -np.inf),
            upper=(np.float64, np.inf),
            alive=(np.bool_, False),
            birth=(np.int64, -1),
            stamp=(np.int64, -1),
        )
        self.usages = Table(
            pointer_start=(np.int64, 0),
            entry_start=(np.int64, 0),
            n_columns=(np.int64, 0),
            nnz=(np.int64, 0),
            references=(np.int64, 0),
            shared=(np.bool_, False),
        )
        self.requests = Table(
            cost_start=(np.int64, 0),
            n_columns=(np.int64, 0),
            usage=(np.int64, -1),
            scale=(np.float64, 1.0),
            upper=(np.float64, np.inf),
            upper_start=(np.int64, -1),
            total=(np.float64, np.inf),
            relation=(np.int8, NO_TOTAL),
            integral=(np.bool_, False),
            override_start=(np.int64, 0),
            override_length=(np.int64, 0),
            birth=(np.int64, -1),
            cost_stamp=(np.int64, -1),
            bound_stamp=(np.int64, -1),
        )
        self._dropped_rows: list[int] = []

    def tick(self) -> int:
        """Next stamp of the clock."""
        self.clock += 1
        return self.clock

    # ---- rows ----------------------------------------------------------------------------------

    def add_row(self, lower: float, upper: float) -> int:
        """A new resource row; returns its slot."""
        slot = int(self.rows.allocate(1)[0])
        self.clock += 1
        self.rows.alive[slot] = True
        self.rows.birth[slot] = self.rows.stamp[slot] = self.clock
        self.rows.lower[slot], self.rows.upper[slot] = lower, upper
        return slot

    def set_row(self, slot: int, lower: float, upper: float) -> None:
        """New bounds for a row."""
        self.clock += 1
        self.rows.stamp[slot] = self.clock
        self.rows.lower[slot], self.rows.upper[slot] = lower, upper

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
        usages, entries = self.usages, self.entries
        for slot in np.flatnonzero(usages.n_columns[: usages.size]).tolist():
            start, nnz, n = int(usages.entry_start[slot]), int(usages.nnz[slot]), int(usages.n_columns[slot])
            keep = self.rows.alive[entries.row[start : start + nnz]]
            kept = int(keep.sum())
            if kept == nnz:
                continue
            at = int(usages.pointer_start[slot])
            pointer = self.pointers.pointer[at : at + n + 1]
            pointer[:] = np.concatenate(([0], np.cumsum(keep)))[pointer]
            for name in entries.names:
                array = getattr(entries, name)
                array[start : start + kept] = array[start : start + nnz][keep]
            entries.free(start + kept, nnz - kept)
            usages.nnz[slot] = kept
        self.rows.free(self._dropped_rows)
        self._dropped_rows = []

    # ---- usages --------------------------------------------------------------------------------

    def add_usages(
        self,
        sizes: NDArray[np.int64],
        pointer: NDArray[np.int64],
        row: NDArray[np.int64],
        value: NDArray[np.float64],
        *,
        shared: bool = False,
    ) -> NDArray[np.int64]:
        """Store the columns of one usage or of many, given as one compressed-column matrix.

        Parameters
        ----------
        sizes : (k,) columns of each usage
        pointer : (sum(sizes) + 1,) starts of the columns in ``row`` and ``value``
        shared : whether requests may point at it (a template)

        Returns
        -------
        (k,) slots
        """
        slots = self.usages.allocate(sizes.size)
        first = np.concatenate(([0], np.cumsum(sizes)))
        nnz = pointer[first[1:]] - pointer[first[:-1]]
        if sizes.size == 1:
            pointer_start = np.array([self.pointers.allocate(int(sizes[0]) + 1)])
            entry_start = np.array([self.entries.allocate(int(nnz[0]))])
        else:
            lengths = sizes + 1
            pointer_start = self.pointers.allocate(int(lengths.sum())) + np.cumsum(lengths) - lengths
            entry_start = self.entries.allocate(int(nnz.sum())) + np.cumsum(nnz) - nnz
        at = int(pointer_start[0])
        self.pointers.pointer[at : at + int(first[-1]) + sizes.size] = (
            pointer[spread(first[:-1], sizes + 1)] - np.repeat(pointer[first[:-1]], sizes + 1)
            if sizes.size > 1
            else pointer
        )
        at = int(entry_start[0])
        self.entries.row[at : at + row.size] = row
        self.entries.value[at : at + row.size] = value
        table = self.usages
        table.pointer_start[slots], table.entry_start[slots] = pointer_start, entry_start
        table.n_columns[slots], table.nnz[slots] = sizes, nnz
        table.references[slots], table.shared[slots] = 0, shared
        return slots

    def free_usages(self, slots: list[int]) -> None:
        """Forget usages that nothing points at."""
        table = self.usages
        for slot in slots:
            self.pointers.free(int(table.pointer_start[slot]), int(table.n_columns[slot]) + 1)
            self.entries.free(int(table.entry_start[slot]), int(table.nnz[slot]))
        table.free(slots)
        if not (self.entries.wasteful or self.pointers.wasteful):
            return
        live = np.flatnonzero(table.n_columns[: table.size])
        if self.entries.wasteful:
            table.entry_start[live] = self.entries.compact(table.entry_start[live], table.nnz[live])
        if self.pointers.wasteful:
            lengths = table.n_columns[live] + 1
            table.pointer_start[live] = self.pointers.compact(table.pointer_start[live], lengths)

    # ---- requests ------------------------------------------------------------------------------

    def add_requests(
        self, sizes: NDArray[np.int64], usages: NDArray[np.int64], costs: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """New requests with ``sizes`` columns each and their costs, flat; other fields are blank."""
        slots = self.requests.allocate(sizes.size)
        table = self.requests
        self.clock += 1
        start = self.costs.allocate(costs.size)
        self.costs.cost[start : start + costs.size] = costs
        table.cost_start[slots] = start + np.cumsum(sizes) - sizes
        table.n_columns[slots], table.usage[slots] = sizes, usages
        for stamp in (table.birth, table.cost_stamp, table.bound_stamp):
            stamp[slots] = self.clock
        np.add.at(self.usages.references, usages, 1)
        self.n_variables += costs.size
        return slots

    def remove_requests(self, slots: list[int]) -> None:
        """Forget requests, and the usages that nothing else points at."""
        if not slots:
            return
        self.clock += 1
        self._release_columns(np.array(slots, np.int64))
        self.requests.free(slots)
        self._compact_columns()

    def replace_columns(self, slot: int, usage: int, costs: NDArray[np.float64]) -> None:
        """Give a request other columns; its scale, sum row and scalar bound stay."""
        self._release_columns(np.array([slot]))
        table = self.requests
        self.clock += 1
        start = self.costs.allocate(costs.size)
        self.costs.cost[start : start + costs.size] = costs
        table.cost_start[slot], table.n_columns[slot], table.usage[slot] = start, costs.size, usage
        table.birth[slot] = table.cost_stamp[slot] = table.bound_stamp[slot] = self.clock
        self.usages.references[usage] += 1
        self.n_variables += costs.size
        self._compact_columns()

    def set_costs(self, slots: list[int], costs: list[NDArray[np.float64]]) -> None:
        """New costs for all columns of some requests; their overrides keep their values."""
        self.clock += 1
        table, kept = self.requests, self.overrides
        for slot, fresh in zip(slots, costs, strict=True):
            start = int(table.cost_start[slot])
            pool = self.costs.cost[start : start + fresh.size]
            pool[:] = fresh
            length = int(table.override_length[slot])
            if length:
                part = slice(int(table.override_start[slot]), int(table.override_start[slot]) + length)
                columns = kept.column[part]
                kept.original[part] = fresh[columns]
                pool[columns] = kept.value[part] / table.scale[slot]
            table.cost_stamp[slot] = self.clock

    def get_override(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Columns and costs of a request's override."""
        start, length = int(self.requests.override_start[slot]), int(self.requests.override_length[slot])
        part = slice(start, start + length)
        return self.overrides.column[part].astype(np.int64), self.overrides.value[part].copy()

    def set_scales(self, slots: NDArray[np.int64], scales: NDArray[np.float64]) -> None:
        """New scale for many requests; their overrides keep their values."""
        self.clock += 1
        table = self.requests
        table.scale[slots] = scales
        table.cost_stamp[slots] = self.clock
        lengths = table.override_length[slots]
        flat = spread(table.override_start[slots], lengths)
        if flat.size:
            where = np.repeat(table.cost_start[slots], lengths) + self.overrides.column[flat]
            self.costs.cost[where] = self.overrides.value[flat] / np.repeat(scales, lengths)

    def set_overrides(
        self,
        slots: NDArray[np.int64],
        lengths: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None:
        """Replace the overrides of many requests: ``lengths`` columns each, flat."""
        self.clock += 1
        table, kept = self.requests, self.overrides
        old_lengths = table.override_length[slots]
        flat = spread(table.override_start[slots], old_lengths)
        if flat.size:
            where = np.repeat(table.cost_start[slots], old_lengths) + kept.column[flat]
            self.costs.cost[where] = kept.original[flat]
        for k in np.flatnonzero(old_lengths != lengths).tolist():
            slot = int(slots[k])
            kept.free(int(table.override_start[slot]), int(old_lengths[k]))
            table.override_start[slot] = kept.allocate(int(lengths[k]))
            table.override_length[slot] = lengths[k]
        table.cost_stamp[slots] = self.clock
        flat = spread(table.override_start[slots], lengths)
        if flat.size:
            where = np.repeat(table.cost_start[slots], lengths) + columns
            kept.column[flat], kept.value[flat] = columns, values
            kept.original[flat] = self.costs.cost[where]
            self.costs.cost[where] = values / np.repeat(table.scale[slots], lengths)

    def set_bounds(self, slot: int, relation: int, total: float, upper: float | NDArray[np.float64]) -> None:
        """New sum row and upper bounds (one for all columns, or one each) for a request."""
        table = self.requests
        self.clock += 1
        table.bound_stamp[slot] = self.clock
        table.relation[slot], table.total[slot] = relation, total
        self._free_uppers(slot)
        if isinstance(upper, np.ndarray):
            start = self.uppers.allocate(upper.size)
            self.uppers.upper[start : start + upper.size] = upper
            table.upper_start[slot], table.upper[slot] = start, np.inf
        else:
            table.upper[slot] = upper

    def effective_costs(self, slot: int) -> NDArray[np.float64]:
        """Copy of a request's costs, scale and overrides applied."""
        start, n = int(self.requests.cost_start[slot]), int(self.requests.n_columns[slot])
        costs: NDArray[np.float64] = self.requests.scale[slot] * self.costs.cost[start : start + n]
        columns, values = self.get_override(slot)
        costs[columns] = values
        return costs

    def priced_columns(
        self, slot: int, y: NDArray[np.float64], cost_factor: float = 1.0
    ) -> NDArray[np.float64]:
        """cost_factor c + A'y of a request's columns."""
        usage, n = int(self.requests.usage[slot]), int(self.requests.n_columns[slot])
        at, start, nnz = (
            int(getattr(self.usages, name)[usage]) for name in ("pointer_start", "entry_start", "nnz")
        )
        priced = y[self.entries.row[start : start + nnz]] * self.entries.value[start : start + nnz]
        running = np.concatenate(([0.0], np.cumsum(priced)))
        pointer = self.pointers.pointer[at : at + n + 1]
        return cost_factor * self.effective_costs(slot) + running[pointer[1:]] - running[pointer[:-1]]

    def upper_bounds(self, slot: int) -> NDArray[np.float64]:
        """Copy of the upper bounds of a request's columns."""
        n, start = int(self.requests.n_columns[slot]), int(self.requests.upper_start[slot])
        if start < 0:
            return np.full(n, self.requests.upper[slot])
        copy: NDArray[np.float64] = self.uppers.upper[start : start + n].copy()
        return copy

    def live_requests(self) -> NDArray[np.int64]:
        """Slots in use, ascending."""
        return np.flatnonzero(self.requests.n_columns[: self.requests.size])

    def live_rows(self) -> NDArray[np.int64]:
        """Row slots in use, ascending."""
        return np.flatnonzero(self.rows.alive[: self.rows.size])

    @property
    def nnz(self) -> int:
        """Nonzeros in the resource rows, every request counted, dropped rows not."""
        usages = self.usages
        nnz = usages.nnz[: usages.size].copy()
        if self._dropped_rows:
            for slot in np.flatnonzero(nnz).tolist():
                start = int(usages.entry_start[slot])
                nnz[slot] = self.rows.alive[self.entries.row[start : start + int(nnz[slot])]].sum()
        return int(nnz @ usages.references[: usages.size])

    def _release_columns(self, slots: NDArray[np.int64]) -> None:
        table, usages = self.requests, self.usages
        sizes = table.n_columns[slots].tolist()
        for start, size in zip(table.cost_start[slots].tolist(), sizes, strict=True):
            self.costs.free(start, size)
        self.n_variables -= sum(sizes)
        for slot in slots[table.override_length[slots] > 0].tolist():
            self.overrides.free(int(table.override_start[slot]), int(table.override_length[slot]))
        table.override_start[slots] = table.override_length[slots] = 0
        for slot in slots[table.upper_start[slots] >= 0].tolist():
            self._free_uppers(slot)
        gone = table.usage[slots]
        np.subtract.at(usages.references, gone, 1)
        gone = gone[(usages.references[gone] == 0) & ~usages.shared[gone]]
        if gone.size:
            self.free_usages(np.unique(gone).tolist())

    def _free_uppers(self, slot: int) -> None:
        table = self.requests
        if table.upper_start[slot] >= 0:
            self.uppers.free(int(table.upper_start[slot]), int(table.n_columns[slot]))
            table.upper_start[slot] = -1

    def _compact_columns(self) -> None:
        table = self.requests
        if self.costs.wasteful:
            live = self.live_requests()
            table.cost_start[live] = self.costs.compact(table.cost_start[live], table.n_columns[live])
        if self.uppers.wasteful:
            live = np.flatnonzero(table.upper_start[: table.size] >= 0)
            table.upper_start[live] = self.uppers.compact(table.upper_start[live], table.n_columns[live])
        if self.overrides.wasteful:
            live = np.flatnonzero(table.override_length[: table.size])
            lengths = table.override_length[live]
            table.override_start[live] = self.overrides.compact(table.override_start[live], lengths)
