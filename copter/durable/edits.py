"""Edits as bytes: a program that records its edits, and checks of edits that were read.

An edit is encoded by the names of its fields (:mod:`copter.durable.values`). It is encoded before it is
applied, so that an edit that cannot be encoded changes nothing, and recorded after it is applied.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.durable.values import ValueFormatError, decode, encode, plain_ids
from copter.errors import EditError
from copter.program.handles import Handles
from copter.program.index import Index
from copter.program.names import sound_labels
from copter.program.program import ContinualProgram
from copter.program.validation import MOST_COLUMNS
from copter.store.edit import OWN, TAKE_STARTS, ColumnNames, Edit, EditedColumns, Entries, Runs
from copter.terms.convex import ConvexTerm

_PLAIN = frozenset((str, int, bool, bytes, type(None)))
_BLANK = Edit("")
_NAMES = Edit._fields[1:]
_RUNS: dict[str, type[Runs | EditedColumns | Entries | ColumnNames]] = {
    "costs": Runs,
    "upper": Runs,
    "columns": EditedColumns,
    "overrides": Entries,
    "starts": Entries,
    "labels": ColumnNames,
    "kept": Runs,
}
"""Class of each field that is stored as a tuple."""
_EACH: dict[str, tuple[Any, type]] = {
    "totals": (np.float64, float),
    "exact": (np.bool_, bool),
    "scales": (np.float64, float),
    "integral": (np.bool_, bool),
    "usage": (np.int64, int),
}
"""Fields with one number for each request (dtype), or one number of this type for all requests."""
_OF_REQUESTS = {"sizes", "columns", "costs", "upper", "overrides", "starts", "terms", "labels", *_EACH}
_FIELDS = {
    TAKE_STARTS: set(),
    "add_resources": {"ids", "lower", "upper"},
    "update_resources": {"slots", "lower", "upper"},
    "remove_resources": {"slots", "ids"},
    "share_columns": {"key", "sizes", "columns", "labels"},
    "forget_columns": {"slots"},
    "add_requests": {"ids"} | _OF_REQUESTS,
    "update_requests": {"slots", "names", "parameters", "kept"} | _OF_REQUESTS,
    "remove_requests": {"slots", "ids"},
}
"""Fields that an edit can have, by edit method."""


class WrittenProgram(ContinualProgram):
    """Program that passes every edit, as bytes, to :meth:`_write`; its copy is a plain program."""

    def apply(self, edit: Edit) -> Any:
        """Apply an edit and record it; return the result of :meth:`copter.ContinualProgram.apply`."""
        self._check_writable()
        content = pack_edit(edit)
        result = super().apply(edit)
        self._write(content)
        return result

    def _content(self) -> tuple[type[ContinualProgram], dict[str, Any]]:
        return ContinualProgram, {name: vars(self)[name] for name in vars(ContinualProgram())}

    def _write(self, edit: bytes) -> None:
        """Record an edit that was applied."""
        raise NotImplementedError

    def _check_writable(self) -> None:
        """Raise a CopterError if edits cannot be recorded."""


def pack_edit(edit: Edit) -> bytes:
    """Return the bytes of an edit; raise EditError with an id that cannot be written."""
    if not set(map(type, edit.ids)) <= _PLAIN:
        plain_ids(edit.ids)
    if edit.labels is not None:
        plain_ids(chain(*edit.labels.distinct), "columns")
    fields = {
        name: value
        for name, value, blank in zip(edit._fields, edit, _BLANK, strict=True)
        if value is not blank
    }
    return encode(fields)


def read_edit(content: bytes, terms: Mapping[str, type[ConvexTerm]] | None = None) -> Edit:
    """Return the edit of some bytes, for :func:`make_edit`; raise ValueFormatError if they are not an edit.

    `terms` has the classes of terms by name; the default is copter's classes.
    """
    fields = decode(content, terms)
    if not isinstance(fields, dict) or not isinstance(fields.get("verb"), str):
        raise ValueFormatError("damaged edit: must be a dictionary with a text field 'verb'")
    for name, kind in _RUNS.items():
        if isinstance(fields.get(name), tuple):
            if len(fields[name]) != len(kind._fields):
                raise ValueFormatError(f"damaged edit: {name} must have {len(kind._fields)} parts")
            fields[name] = kind(*fields[name])
    if isinstance(fields.get("terms"), list):
        given = fields["terms"]
        fields["terms"] = np.empty(len(given), object)
        for k, term in enumerate(given):
            fields["terms"][k] = term
    try:
        return Edit(**fields)
    except TypeError:
        raise ValueFormatError("damaged edit: a field is unknown or missing") from None


def make_edit(program: ContinualProgram, edit: Edit) -> None:
    """Apply an edit that was read to a program.

    Raise ValueFormatError, and change nothing, if the edit does not fit the program: an id is unknown, arrays
    have wrong sizes, or a number is invalid.
    """
    if edit.verb not in _FIELDS:
        raise ValueFormatError(f"there is no edit method {edit.verb!r}")
    fields = _FIELDS[edit.verb]
    for name, value, blank in zip(_NAMES, edit[1:], _BLANK[1:], strict=True):
        _insist(value is blank or name in fields, name)
    if edit.verb in _CHECKS:
        _CHECKS[edit.verb](program, edit)
    try:
        ContinualProgram.apply(program, edit)
    except EditError as error:  # a column without a bound
        raise ValueFormatError(str(error)) from None


# ---- checks of an edit ----------------------------------------------------------------------------------


def _insist(holds: Any, what: str) -> None:
    if not holds:
        raise ValueFormatError(f"an edit does not fit the program: {what}")


def _is(value: Any, dtype: Any, size: int) -> bool:
    """Return whether a value is an array of `size` entries of a dtype."""
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == (size,)


def _new(index: Index, ids: Any) -> int:
    """Return the number of ids; raise ValueFormatError unless all are new."""
    _insist(isinstance(ids, (list, tuple, range)), "ids")
    try:
        index.check_new(ids, "edit")
    except EditError as wrong:
        raise ValueFormatError(str(wrong)) from None
    return len(ids)


def _known(index: Index, ids: Any, slots: Any) -> None:
    _insist(isinstance(ids, (list, tuple, range)) and _is(slots, np.int64, len(ids)), "ids")
    try:
        there = index.slots(ids, "edit")
    except EditError as wrong:
        raise ValueFormatError(str(wrong)) from None
    _insist(np.array_equal(there, slots), "slots of ids")


def _live(alive: NDArray[np.bool_], slots: Any) -> int:
    """Return the number of slots; raise ValueFormatError unless all are in use and distinct."""
    _insist(isinstance(slots, np.ndarray) and slots.dtype == np.int64 and slots.ndim == 1, "slots")
    if slots.size:
        _insist(slots.min() >= 0 and slots.max() < alive.size and alive[slots].all(), "slots")
        _insist(slots.size == 1 or np.bincount(slots).max() == 1, "slots")
    return int(slots.size)


def _check_rows(lower: Any, upper: Any, count: int) -> None:
    _insist(_is(lower, np.float64, count) and _is(upper, np.float64, count), "bounds of resources")
    _insist(((lower <= upper) & (lower < np.inf) & (upper > -np.inf)).all(), "bounds of resources")


def _new_resources(program: ContinualProgram, edit: Edit) -> None:
    _check_rows(edit.lower, edit.upper, _new(program._resources, edit.ids))


def _changed_resources(program: ContinualProgram, edit: Edit) -> None:
    _check_rows(edit.lower, edit.upper, _live(program.store.rows.alive, edit.slots))


def _removed_resources(program: ContinualProgram, edit: Edit) -> None:
    _known(program._resources, edit.ids, edit.slots)


def _removed_requests(program: ContinualProgram, edit: Edit) -> None:
    _known(program._requests, edit.ids, edit.slots)


def _check_sizes(sizes: Any, count: int) -> None:
    right = _is(sizes, np.int64, count) and ((sizes >= 1) & (sizes <= MOST_COLUMNS)).all()
    _insist(right, "numbers of columns")


def _new_columns(program: ContinualProgram, edit: Edit) -> None:
    _check_sizes(edit.sizes, 1)
    _insist(type(edit.key) is int, "the key of a handle")
    _check_columns(program, edit.columns, edit.sizes)
    _insist(sound_labels(edit.labels, edit.sizes), "names of columns")


def _forgotten(program: ContinualProgram, edit: Edit) -> None:
    _insist(_is(edit.slots, np.int64, 1) and int(edit.slots[0]) in program._templates, "a handle")


def _check_columns(program: ContinualProgram, columns: Any, widths: Any) -> None:
    _insist(isinstance(columns, EditedColumns) and _is(columns.widths, np.int64, widths.size), "columns")
    _insist(np.array_equal(columns.widths, widths), "columns")
    pointer, row, value = columns[1:]
    _insist(isinstance(pointer, np.ndarray) and pointer.dtype.kind == "i", "pointers of columns")
    _insist(
        pointer.shape == (int(widths.sum()) + 1,) and (np.diff(pointer) >= 0).all(), "pointers of columns"
    )
    begin, end = int(pointer[0]), int(pointer[-1])
    _insist(isinstance(row, np.ndarray) and row.dtype.kind == "i" and row.ndim == 1, "rows of columns")
    _insist(begin >= 0 and _is(value, np.float64, row.size) and end <= row.size, "entries of columns")
    named, alive = row[begin:end], program.store.rows.alive
    if named.size:
        _insist(named.min() >= 0 and named.max() < alive.size and alive[named].all(), "rows of columns")
    _insist(np.isfinite(value[begin:end]).all(), "coefficients")


def _check_runs(runs: Any, widths: NDArray[np.int64], what: str) -> None:
    _insist(isinstance(runs, Runs) and _is(runs.lengths, np.int64, widths.size), what)
    _insist(np.array_equal(runs.lengths, widths) and _is(runs.values, np.float64, int(widths.sum())), what)


def _check_costs(costs: Any, widths: NDArray[np.int64]) -> None:
    _check_runs(costs, widths, "costs")
    _insist(np.isfinite(costs.values).all(), "costs")


def _check_entries(entries: Any, widths: NDArray[np.int64], what: str) -> None:
    _insist(isinstance(entries, Entries), what)
    given, counts, columns, values = entries
    _insist(_is(counts, np.int64, widths.size) and ((counts >= 0) & (counts <= widths)).all(), what)
    _insist(_is(columns, np.int64, int(counts.sum())) and _is(values, np.float64, columns.size), what)
    if given is not None:
        _insist(_is(given, np.bool_, widths.size) and not counts[~given].any(), what)
    owner = np.repeat(np.arange(widths.size), counts)
    within = (columns >= 0).all() and (columns < widths[owner]).all() and np.isfinite(values).all()
    _insist(within and ((np.diff(owner) > 0) | (np.diff(columns) > 0)).all(), what)


def _new_requests(program: ContinualProgram, edit: Edit) -> None:
    count = _new(program._requests, edit.ids)
    _check_sizes(edit.sizes, count)
    assert edit.sizes is not None
    whole = (edit.usage, edit.upper, edit.scales, edit.exact, edit.integral)
    _insist(count and all(each is not None for each in whole), "a field that new requests must have")
    _check_requests(program, edit, edit.sizes)
    _insist(edit.totals is None or isinstance(edit.totals, np.ndarray), "totals")


def _changed_requests(program: ContinualProgram, edit: Edit) -> None:
    count = _live(program.store.requests.n_columns > 0, edit.slots)
    if edit.usage is not None:
        _check_sizes(edit.sizes, count)
    widths = program.store.requests.n_columns[edit.slots] if edit.usage is None else edit.sizes
    assert widths is not None
    _check_requests(program, edit, widths)
    if edit.usage is not None and edit.terms is None:
        _insist((program.store.terms.kind_of(edit.slots) < 0).all(), "terms for new columns")
    plain = edit.sizes is None and edit.columns is None and edit.labels is None and edit.kept is None
    _insist(edit.usage is not None or plain, "columns")
    if edit.kept is not None:
        _check_kept(program.store.requests.n_columns[edit.slots], edit.kept, widths)
    if edit.parameters is not None:
        given: Any = edit.parameters
        fits = isinstance(given, np.ndarray) and given.dtype == np.float64 and np.isfinite(given).all()
        names = isinstance(edit.names, tuple) and all(type(name) is str for name in edit.names)
        _insist(fits and names and given.shape == (count, len(edit.names)), "terms")
        kind = program.store.terms.kind_of(edit.slots)
        _insist(count and kind[0] >= 0 and (kind == kind[0]).all(), "terms")
        _insist(set(edit.names) <= set(program.store.terms.kinds[kind[0]].names), "terms")


def _check_requests(program: ContinualProgram, edit: Edit, widths: NDArray[np.int64]) -> None:
    count = widths.size
    for name, (dtype, one) in _EACH.items():
        value = getattr(edit, name)
        _insist(value is None or type(value) is one or _is(value, dtype, count), name)
    if edit.exact is not None or edit.totals is not None:
        totals = np.asarray(np.inf if edit.totals is None else edit.totals)
        must = np.asarray(True if edit.exact is None else edit.exact)  # those that must have a total
        _insist(((totals >= 0.0) & ((totals < np.inf) | ~must)).all(), "sum rows")
    if edit.scales is not None:
        scales = np.asarray(edit.scales)
        _insist(((scales > 0.0) & (scales < np.inf)).all(), "scales")
    if edit.usage is not None:
        _insist(edit.costs is not None, "costs of new columns")
        usage = edit.usage if isinstance(edit.usage, np.ndarray) else np.full(count, edit.usage)
        own = usage == OWN
        if own.any():
            _check_columns(program, edit.columns, np.where(own, widths, 0))
        else:
            _insist(edit.columns is None, "columns")
        _check_shared(program._templates, usage[~own], widths[~own])
        _insist(sound_labels(edit.labels, widths), "names of columns")
    if edit.costs is not None:
        _check_costs(edit.costs, widths)
    if isinstance(edit.upper, Runs):
        _check_runs(edit.upper, widths, "upper bounds")
        _insist((edit.upper.values >= 0.0).all(), "upper bounds")
    else:
        _insist(edit.upper is None or type(edit.upper) is float and edit.upper >= 0.0, "upper bounds")
    for entries in (edit.overrides, edit.starts):
        if entries is not None:
            _check_entries(entries, widths, "overrides or starts")
    if edit.terms is not None:
        _insist(isinstance(edit.terms, np.ndarray) and edit.terms.shape == (count,), "terms")
        for term, n in zip(edit.terms, widths.tolist(), strict=True):
            _insist(term is None or isinstance(term, tuple) and len(term) == 2, "terms")
            fits = term is None or isinstance(term[0], ConvexTerm) and _is(term[1], np.float64, n)
            _insist(fits, "terms")


def _check_kept(old: NDArray[np.int64], kept: Any, widths: NDArray[np.int64]) -> None:
    _insist(isinstance(kept, Runs) and _is(kept.lengths, np.int64, widths.size), "columns that are kept")
    _insist(np.array_equal(kept.lengths, widths), "columns that are kept")
    _insist(_is(kept.values, np.int64, int(widths.sum())), "columns that are kept")
    owner = np.repeat(np.arange(widths.size), widths)
    _insist(((kept.values >= -1) & (kept.values < old[owner])).all(), "columns that are kept")
    key = (owner * (1 + old.max(initial=0)) + kept.values)[kept.values >= 0]
    _insist(np.unique(key).size == key.size, "columns that are kept")


def _check_shared(handles: Handles, slots: NDArray[np.int64], widths: NDArray[np.int64]) -> None:
    known: dict[Hashable, int] = {slot: handle.n_columns for slot, handle in handles.items()}
    pairs = set(zip(slots.tolist(), widths.tolist(), strict=True))
    _insist(all(known.get(slot) == n for slot, n in pairs), "shared columns")


_CHECKS = {
    "add_resources": _new_resources,
    "update_resources": _changed_resources,
    "remove_resources": _removed_resources,
    "share_columns": _new_columns,
    "forget_columns": _forgotten,
    "add_requests": _new_requests,
    "update_requests": _changed_requests,
    "remove_requests": _removed_requests,
}
