"""Consistency checks of a program that was read from a file, so that kernels never access invalid memory.

Checksums find damage after writing; these checks find data that were inconsistent when they were written.
They check references between arrays. They do not check single numbers, because edits were validated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.store.edit import Moved
from copter.store.slabs import GrowableArrays, SlotTable, slice_indices

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.local import LocalStore

_Whole = NDArray[np.int64]


class Unsound(ValueError):
    """The data of a file are inconsistent; the reader raises a FileError with the file."""


def _insist(holds: Any, what: str) -> None:
    if not holds:
        raise Unsound(what)


def check_store(store: LocalStore) -> None:
    """Raise :class:`Unsound` unless all references in a store are valid."""
    requests, rows = store.requests, store.rows
    for table, name in ((store.usages, "usages"), (requests, "requests"), (rows, "rows")):
        _check_free(table, name)
    _check_usages(store)
    _check_requests(store)
    dropped = np.array(store._dropped_rows, np.int64)
    _insist(_within(dropped, 0, rows.size - 1) and not rows.alive[dropped].any(), "dropped rows")
    _insist(np.unique(dropped).size == dropped.size, "dropped rows")
    _insist(not np.isin(dropped, rows._free).any(), "dropped rows")
    _check_terms(store)
    edits = store.edits.arrays()
    _insist(0 <= edits["after"][0] <= store.clock, "the log of edits")
    _insist(_within(edits["revision"], 0, store.clock), "the log of edits")
    _insist(_within(edits["slot"], 0, requests.size - 1), "the log of edits")


def check_program(program: ContinualProgram) -> None:
    """Raise :class:`Unsound` unless a program's ids, handles and starts match its store."""
    store = program.store
    usages, requests, rows = store.usages, store.requests, store.rows
    for slots, live, name in (
        (program.request_slots, requests.n_columns[: requests.size] > 0, "requests"),
        (program.resource_slots, rows.alive[: rows.size], "resources"),
    ):
        _insist(_within(slots, 0, live.size - 1), f"slots of {name}")
        _insist(np.array_equal(np.sort(slots), np.flatnonzero(live)), f"ids of {name}")
    for slot, handle in program._templates.items():
        name = "handles of shared columns"
        there = slot == handle.slot and 0 <= slot < usages.size and usages.shared[slot]
        _insist(there and usages.n_columns[slot] == handle.n_columns, name)
        named = handle.names is None or len(set(handle.names)) == len(handle.names) == handle.n_columns
        _insist(named, name)
    for slot, start in program._starts.items():
        _insist(0 <= slot < requests.size, "starts")
        if isinstance(start, Moved):
            old = start.old[start.old >= 0]
            _insist(start.old.size == requests.n_columns[slot], "starts")
            _insist(np.unique(old).size == old.size, "starts")
        else:
            columns, values = start
            _insist(columns.size == values.size, "starts")
            _insist(_within(columns, 0, int(requests.n_columns[slot]) - 1), "starts")


def _within(values: NDArray[Any], low: int, high: int) -> bool:
    return not values.size or bool(values.min() >= low and values.max() <= high)


def _check_free(table: SlotTable, name: str) -> None:
    free = np.array(table._free, np.int64)
    _insist(_within(free, 0, table.size - 1), f"free slots of {name}")
    _insist(np.unique(free).size == free.size, f"free slots of {name}")
    used = table.alive if name == "rows" else table.n_columns
    _insist(not used[free].any(), f"free slots of {name}")


def _check_slices(pool: GrowableArrays, starts: _Whole, lengths: _Whole, what: str) -> None:
    """Check that used and free slices of an array cover it, each entry once.

    Raise Unsound, with `what` as the message, if slices overlap, leave a gap, or are out of range.
    """
    length, start = pool.freed().T
    _insist(_within(length, 1, pool.used) and _within(lengths, 0, pool.used), what)
    _insist(pool.garbage == int(length.sum()), what)
    starts, lengths = np.concatenate((starts, start)), np.concatenate((lengths, length))
    starts, lengths = starts[lengths > 0], lengths[lengths > 0]
    order = np.argsort(starts, kind="stable")
    ends = np.cumsum(lengths[order])
    _insist(np.array_equal(starts[order], ends - lengths[order]), what)
    _insist((int(ends[-1]) if ends.size else 0) == pool.used, what)


def _check_usages(store: LocalStore) -> None:
    usages, entries = store.usages, store.entries
    live = np.flatnonzero(usages.n_columns[: usages.size])
    widths, nnz = usages.n_columns[live], usages.nnz[live]
    _insist(_within(widths, 1, store.pointers.used) and _within(nnz, 0, entries.used), "sizes of usages")
    _check_slices(store.pointers, usages.pointer_start[live], widths + 1, "pointers of usages")
    _check_slices(entries, usages.entry_start[live], nnz, "entries of usages")
    start = usages.value_start[live]
    starts, lengths = np.append(start[start >= 0], 0), np.append(nnz[start >= 0], 1)
    _check_slices(store.coefficients, starts, lengths, "coefficients of usages")
    _insist(store.coefficients.value[0] == 1.0, "the common coefficient 1")
    pools = store.pointers.pointer, entries.row[: entries.used]
    fits = _columns_fit(
        *pools, usages.pointer_start[live], usages.entry_start[live], widths, nnz, store.rows.size
    )
    _insist(fits, "columns of usages")


def _check_requests(store: LocalStore) -> None:
    usages, requests = store.usages, store.requests
    live = np.flatnonzero(requests.n_columns[: requests.size])
    widths, usage = requests.n_columns[live], requests.usage[live]
    _insist(_within(widths, 1, store.costs.used), "sizes of requests")
    _insist(store.n_variables == int(widths.sum()), "number of columns")
    _check_slices(store.costs, requests.cost_start[live], widths, "costs")
    own = requests.upper_start[live] >= 0
    _check_slices(store.uppers, requests.upper_start[live[own]], widths[own], "upper bounds")
    _insist(_within(usage, 0, usages.size - 1), "usages of requests")
    _insist(np.array_equal(usages.n_columns[usage], widths), "usages of requests")
    counts = np.bincount(usage, minlength=usages.size)
    _insist(np.array_equal(counts, usages.references[: usages.size]), "references to usages")
    starts, lengths = requests.override_start[live], requests.override_length[live]
    _check_slices(store.overrides, starts, lengths, "overrides")
    column = store.overrides.column[slice_indices(starts, lengths)]
    _insist(((column >= 0) & (column < np.repeat(widths, lengths))).all(), "columns of overrides")
    same = np.repeat(live, lengths)
    _insist(((np.diff(column) > 0) | (np.diff(same) != 0)).all(), "order of overrides")
    free = np.isinf(requests.total[live])
    _insist((~free | ~requests.exact[live]).all(), "sum rows of requests")
    each = slice_indices(requests.upper_start[live[own]], widths[own])
    one = np.isfinite(requests.upper[live])
    bounded = np.isfinite(store.uppers.upper[each]) | np.repeat(~free[own], widths[own])
    _insist((one | own | ~free).all() and bounded.all(), "a column has neither an upper bound nor a total")


def _check_terms(store: LocalStore) -> None:
    terms, requests = store.terms, store.requests
    slots = terms.slots()
    _insist(_within(slots, 0, requests.size - 1), "terms")
    kind = terms.kind_of(slots)
    _insist(_within(kind, 0, len(terms.kinds) - 1), "classes of terms")
    lengths = terms._length[slots]
    _check_slices(terms._data, terms._start[slots], lengths, "parameters of terms")
    counts = np.array([len(kind.names) for kind in terms.kinds], np.int64)
    _insist(np.array_equal(lengths, requests.n_columns[slots] + (counts[kind] if slots.size else 0)), "terms")


@kernel
def _columns_fit(  # type: ignore[no-untyped-def]
    pointers, rows, pointer_starts, entry_starts, widths, nnz, n_rows
):
    """Return whether columns have ascending pointers from 0 to their number of entries, and rows in range."""
    wrong = 0
    for k in range(widths.size):
        begin, last = pointer_starts[k], 0
        wrong += pointers[begin] != 0
        for j in range(begin, begin + widths[k] + 1):
            wrong += pointers[j] < last
            last = pointers[j]
        wrong += last != nnz[k]
        for i in range(entry_starts[k], entry_starts[k] + nnz[k]):
            wrong += (rows[i] < 0) | (rows[i] >= n_rows)
    return wrong == 0
