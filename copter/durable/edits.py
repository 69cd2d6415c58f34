"""Edits as bytes, and a program that records its edits.

An edit is encoded by the names of its fields (:mod:`copter.durable.values`). It is encoded before it is
applied, so that an edit that cannot be encoded changes nothing, and recorded after it is applied. Its numbers
were checked when it was made, and the file has a checksum of its bytes. So an edit that was read is applied
without further checks to a program that has the state before it (:meth:`copter.ContinualProgram.apply`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from copter.durable.values import ValueFormatError, decode, encode, plain_ids
from copter.program.program import ContinualProgram
from copter.store.edit import ColumnNames, Edit, EditedColumns, Entries, Runs
from copter.terms.convex import ConvexTerm

_PLAIN = frozenset((str, int, bool, bytes, type(None)))
_BLANK = Edit("")
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
    """Return the edit of some bytes; raise ValueFormatError if they are not an edit.

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
