"""Edits as bytes: a program that writes down each edit it makes, and whether one that was read can be made.

An edit is written by the names of its fields (:mod:`copter.durable.codec`): as bytes before it is made, so
that what cannot be written changes nothing, and handed over after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.durable.codec import CodecError, decode, encode, id_value
from copter.errors import EditError
from copter.program.handles import Handles
from copter.program.index import Index
from copter.program.program import ContinualProgram
from copter.store.edit import OWN, TAKE_STARTS, Columns, Edit, Entries, Runs
from copter.terms.convex import ConvexTerm

_PLAIN = frozenset((str, int, bool, bytes, type(None)))
_BLANK = Edit("")
_RUNS: dict[str, type[Runs | Columns | Entries]] = {
    "costs": Runs,
    "upper": Runs,
    "columns": Columns,
    "overrides": Entries,
    "starts": Entries,
}
"""What a tuple is, by field."""
_EACH = {
    "relation": np.int8,
    "totals": np.float64,
    "scales": np.float64,
    "integral": np.bool_,
    "usage": np.int64,
    "vectors": np.int64,
}
"""Fields with one number a request, or one for all."""


class WrittenProgram(ContinualProgram):
    """A program that hands every edit, as bytes, to :meth:`_write`.

    A copy of it is a plain :class:`ContinualProgram`.
    """

    def apply(self, edit: Edit) -> Any:
        """Make an edit, and write it; see :meth:`copter.ContinualProgram.apply`."""
        self._check_writable()
        content = pack_edit(edit)
        result = super().apply(edit)
        self._write(content)
        return result

    def _content(self) -> tuple[type[ContinualProgram], dict[str, Any]]:
        return ContinualProgram, {name: vars(self)[name] for name in vars(ContinualProgram())}

    def _write(self, edit: bytes) -> None:
        """Take up an edit that was made."""
        raise NotImplementedError

    def _check_writable(self) -> None:
        """Raise a CopterError if edits cannot be written (any more)."""


def pack_edit(edit: Edit) -> bytes:
    """Bytes of an edit.

    Raises
    ------
    EditError
        An id cannot be written: names it.
    """
    if not set(map(type, edit.ids)) <= _PLAIN:
        for id in edit.ids:
            try:
                id_value(id)
            except CodecError as why:
                raise EditError(id, "id", id, str(why)) from None
    fields = {
        name: value
        for name, value, blank in zip(edit._fields, edit, _BLANK, strict=True)
        if value is not blank
    }
    return encode(fields)


def read_edit(content: bytes | memoryview, terms: Mapping[str, type[ConvexTerm]] | None = None) -> Edit:
    """The edit that bytes stand for; :func:`make_edit` makes it if it can be made.

    Parameters
    ----------
    terms : mapping, optional
        Classes of terms by name; by default copter's own.

    Raises
    ------
    CodecError
        They stand for none.
    """
    fields = decode(content, terms)
    if not isinstance(fields, dict) or not isinstance(fields.get("verb"), str):
        raise CodecError("an edit is none")
    for name, kind in _RUNS.items():
        if isinstance(fields.get(name), tuple):
            if len(fields[name]) != len(kind._fields):
                raise CodecError(f"an edit's {name} are none")
            fields[name] = kind(*fields[name])
    if isinstance(fields.get("terms"), list):
        given = fields["terms"]
        fields["terms"] = np.empty(len(given), object)
        for k, term in enumerate(given):
            fields["terms"][k] = term
    try:
        return Edit(**fields)
    except TypeError:
        raise CodecError("an edit has a field that none has") from None


def make_edit(program: ContinualProgram, edit: Edit) -> None:
    """Make an edit that was read, as it was made in the program that wrote it.

    Raises
    ------
    CodecError
        It is none of this program: something it names is not there, or arrays do not fit.  Then nothing
        was changed.
    """
    if edit.verb != TAKE_STARTS:
        _CHECKS.get(edit.verb, _unknown)(program, edit)
    ContinualProgram.apply(program, edit)


# ---- whether an edit fits -------------------------------------------------------------------------------


def _insist(holds: Any, what: str) -> None:
    if not holds:
        raise CodecError(f"an edit does not fit: {what}")


def _is(value: Any, dtype: Any, size: int) -> bool:
    """Whether this is an array of so many entries."""
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == (size,)


def _unknown(program: ContinualProgram, edit: Edit) -> None:  # noqa: ARG001 - as the others
    raise CodecError(f"there is no verb {edit.verb!r}")


def _new(index: Index, ids: Any) -> int:
    """How many ids there are, all new."""
    _insist(isinstance(ids, (list, tuple, range)), "ids")
    try:
        index.check_new(ids, "edit")
    except EditError as wrong:
        raise CodecError(str(wrong)) from None
    return len(ids)


def _known(index: Index, ids: Any, slots: Any) -> None:
    _insist(isinstance(ids, (list, tuple, range)) and _is(slots, np.int64, len(ids)), "ids")
    try:
        there = index.slots(ids, "edit")
    except EditError as wrong:
        raise CodecError(str(wrong)) from None
    _insist(np.array_equal(there, slots), "slots of ids")


def _live(all_slots: NDArray[np.int64], slots: Any) -> int:
    """How many slots there are, all in use and each once."""
    _insist(isinstance(slots, np.ndarray) and slots.dtype == np.int64 and slots.ndim == 1, "slots")
    _insist(np.unique(slots).size == slots.size and np.isin(slots, all_slots).all(), "slots")
    return int(slots.size)


def _check_rows(lower: Any, upper: Any, count: int) -> None:
    _insist(_is(lower, np.float64, count) and _is(upper, np.float64, count), "bounds of resources")
    _insist((lower <= upper).all(), "bounds of resources")


def _new_resources(program: ContinualProgram, edit: Edit) -> None:
    _check_rows(edit.lower, edit.upper, _new(program._resources, edit.ids))


def _changed_resources(program: ContinualProgram, edit: Edit) -> None:
    _check_rows(edit.lower, edit.upper, _live(program.resource_slots, edit.slots))


def _removed_resources(program: ContinualProgram, edit: Edit) -> None:
    _known(program._resources, edit.ids, edit.slots)


def _removed_requests(program: ContinualProgram, edit: Edit) -> None:
    _known(program._requests, edit.ids, edit.slots)


def _check_sizes(sizes: Any, count: int) -> None:
    _insist(_is(sizes, np.int64, count) and (sizes >= 1).all(), "numbers of columns")


def _new_columns(program: ContinualProgram, edit: Edit) -> None:
    _check_sizes(edit.sizes, 1)
    _check_columns(program, edit.columns, edit.sizes)


def _new_costs(program: ContinualProgram, edit: Edit) -> None:  # noqa: ARG001 - as the others
    _check_sizes(edit.sizes, 1)
    assert edit.sizes is not None
    _check_runs(edit.costs, edit.sizes, "costs")


def _forgotten(handles: Handles[Any], edit: Edit) -> None:
    _insist(_is(edit.slots, np.int64, 1) and int(edit.slots[0]) in handles, "a handle")


def _check_columns(program: ContinualProgram, columns: Any, widths: Any) -> None:
    _insist(isinstance(columns, Columns) and np.array_equal(columns.widths, widths), "columns")
    pointer, row, value = columns[1:]
    _insist(isinstance(pointer, np.ndarray) and pointer.dtype.kind == "i", "pointers of columns")
    _insist(
        pointer.shape == (int(widths.sum()) + 1,) and (np.diff(pointer) >= 0).all(), "pointers of columns"
    )
    begin, end = int(pointer[0]), int(pointer[-1])
    _insist(isinstance(row, np.ndarray) and row.dtype.kind == "i", "rows of columns")
    _insist(begin >= 0 and _is(value, np.float64, row.size) and end <= row.size, "entries of columns")
    _insist(np.isin(row[begin:end], program.resource_slots).all(), "rows of columns")
    _insist(np.isfinite(value[begin:end]).all(), "coefficients")


def _check_runs(runs: Any, widths: NDArray[np.int64], what: str) -> None:
    _insist(isinstance(runs, Runs) and np.array_equal(runs.lengths, widths), what)
    _insist(_is(runs.values, np.float64, int(widths.sum())) and not np.isnan(runs.values).any(), what)


def _check_entries(entries: Any, widths: NDArray[np.int64], what: str) -> None:
    _insist(isinstance(entries, Entries), what)
    given, counts, columns, values = entries
    _insist(_is(counts, np.int64, widths.size) and (counts >= 0).all(), what)
    _insist(_is(columns, np.int64, int(counts.sum())) and _is(values, np.float64, columns.size), what)
    if given is not None:
        _insist(_is(given, np.bool_, widths.size) and not counts[~given].any(), what)
    owner = np.repeat(np.arange(widths.size), counts)
    within = (columns >= 0).all() and (columns < widths[owner]).all() and np.isfinite(values).all()
    _insist(within and ((np.diff(owner) > 0) | (np.diff(columns) > 0)).all(), what)


def _new_requests(program: ContinualProgram, edit: Edit) -> None:
    count = _new(program._requests, edit.ids)
    _insist(not np.size(edit.slots), "slots")
    _check_sizes(edit.sizes, count)
    assert edit.sizes is not None
    whole = (edit.usage, edit.upper, edit.scales, edit.relation, edit.integral)
    _insist(count and all(each is not None for each in whole), "a field that new requests need")
    _check_requests(program, edit, edit.sizes)


def _changed_requests(program: ContinualProgram, edit: Edit) -> None:
    count = _live(program.request_slots, edit.slots)
    if edit.usage is not None:
        _check_sizes(edit.sizes, count)
    widths = program.store.requests.n_columns[edit.slots] if edit.usage is None else edit.sizes
    assert widths is not None
    _check_requests(program, edit, widths)
    if edit.parameters is not None:
        _insist(
            isinstance(edit.names, tuple) and np.shape(edit.parameters) == (count, len(edit.names)), "terms"
        )
        kind = program.store.terms.kind_of(edit.slots)
        _insist(count and kind[0] >= 0 and (kind == kind[0]).all(), "terms")
        _insist(set(edit.names) <= set(program.store.terms.kinds[kind[0]].names), "terms")


def _check_requests(program: ContinualProgram, edit: Edit, widths: NDArray[np.int64]) -> None:
    count = widths.size
    for name, dtype in _EACH.items():
        value = getattr(edit, name)
        one = isinstance(value, (bool, int, float)) and name != "vectors"
        _insist(value is None or one or _is(value, dtype, count), name)
    _insist(np.isin(0 if edit.relation is None else edit.relation, (0, 1, 2)).all(), "relations")
    if edit.usage is not None:
        _insist((edit.costs is None) != (edit.vectors is None), "costs of new columns")
        own = np.broadcast_to(np.asarray(edit.usage) == OWN, widths.shape)
        if own.any():
            _check_columns(program, edit.columns, np.where(own, widths, 0))
        _insist(own.any() or edit.columns is None, "columns")
        _check_shared(program._templates, np.broadcast_to(edit.usage, widths.shape)[~own], widths[~own])
    if edit.vectors is not None:
        _check_shared(program._vectors, edit.vectors, widths)
    if edit.costs is not None:
        _check_runs(edit.costs, widths, "costs")
    if isinstance(edit.upper, Runs):
        _check_runs(edit.upper, widths, "upper bounds")
    _insist(edit.upper is None or isinstance(edit.upper, (int, float, Runs)), "upper bounds")
    for entries in (edit.overrides, edit.starts):
        if entries is not None:
            _check_entries(entries, widths, "overrides or starts")
    if edit.terms is not None:
        _insist(isinstance(edit.terms, np.ndarray) and edit.terms.shape == (count,), "terms")
        for term, n in zip(edit.terms, widths.tolist(), strict=True):
            _insist(term is None or isinstance(term, tuple) and len(term) == 2, "terms")
            fits = term is None or isinstance(term[0], ConvexTerm) and _is(term[1], np.float64, n)
            _insist(fits, "terms")


def _check_shared(handles: Handles[Any], slots: NDArray[np.int64], widths: NDArray[np.int64]) -> None:
    known: dict[Hashable, int] = {slot: handle.n_columns for slot, handle in handles.items()}
    pairs = zip(slots.tolist(), widths.tolist(), strict=True)
    _insist(all(known.get(slot) == n for slot, n in pairs), "what is shared")


_CHECKS = {
    "add_resources": _new_resources,
    "update_resources": _changed_resources,
    "remove_resources": _removed_resources,
    "share_columns": _new_columns,
    "share_costs": _new_costs,
    "forget_columns": lambda program, edit: _forgotten(program._templates, edit),
    "forget_costs": lambda program, edit: _forgotten(program._vectors, edit),
    "add_requests": _new_requests,
    "update_requests": _changed_requests,
    "remove_requests": _removed_requests,
}
