"""Edits as bytes: a program that writes down each edit it is given, and their application to another.

A delta is a verb and its arguments (:mod:`copter.durable.codec`), the handle that the verb made among
them.  It is made before the verb runs, so that what cannot be written changes nothing, and handed
over after it, so that a rejected edit leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from copter.durable.codec import CodecError, encode, id_value
from copter.errors import EditError
from copter.program.guard import EditLog
from copter.program.handles import Handles
from copter.program.program import KEEP, VERBS, ContinualProgram

Delta = tuple[str, dict[str, Any]]

TAKEN = "take_starts"
"""No edit, but it changes what the next solve begins from."""
RETURNED = "returned"
"""Argument that stands for the handle that a verb returned."""
_PLAIN = frozenset((str, int, bool, bytes, type(None)))


class WrittenProgram(ContinualProgram):
    """A program that hands every edit, as bytes, to :meth:`_write`.

    A copy of it is a plain :class:`ContinualProgram`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._replays = False

    @property
    def log(self) -> EditLog | None:
        """Who writes down the next edit; edits that are made again are written already."""
        return None if self._replays else _Delta(self)

    def _content(self) -> tuple[type[ContinualProgram], dict[str, Any]]:
        return ContinualProgram, {name: vars(self)[name] for name in vars(ContinualProgram())}

    def _write(self, delta: bytes) -> None:
        """Take up an edit that was made."""
        raise NotImplementedError

    def _check_writable(self) -> None:
        """Raise a CopterError if edits cannot be written (any more)."""


class _Delta:
    """Makes bytes of an edit.

    It lives as long as the edit: a program that held it would not end, and give up its files, when dropped.
    """

    def __init__(self, program: WrittenProgram) -> None:
        self.program = program

    def before(self, verb: str, arguments: dict[str, Any]) -> None:
        """Take note of what is to be written; an EditError if it cannot be."""
        self.program._check_writable()
        self.verb, self.arguments, self.packed = verb, arguments, pack_delta(verb, arguments)

    def after(self, result: Any) -> None:
        """Hand it over, with the handle that the verb made."""
        made = result is not None
        packed = pack_delta(self.verb, self.arguments | {RETURNED: result}) if made else self.packed
        self.program._write(packed)


def pack_delta(verb: str, arguments: Mapping[str, Any]) -> bytes:
    """Bytes of a verb and its arguments.

    Raises
    ------
    EditError
        An argument cannot be written: names the request, the argument and the value.
    """
    given = {name: value for name, value in arguments.items() if value is not KEEP}
    try:
        for name in ("id", "ids"):
            ids = [given[name]] if name == "id" and name in given else given.get(name, ())
            if not set(map(type, ids)) <= _PLAIN:
                for value in ids:
                    id_value(value)
        return encode((verb, given))
    except CodecError as wrong:
        raise _unwritable(verb, given, wrong) from None


def _unwritable(verb: str, arguments: Mapping[str, Any], wrong: CodecError) -> EditError:
    subject = arguments.get("id", verb)
    for name, value in arguments.items():
        ids = {"id": [value], "ids": value}.get(name, ())
        for part in ids:
            try:
                id_value(part)
            except CodecError as why:
                return EditError(part, "id", part, str(why))
        try:
            encode(value)
        except CodecError as why:
            return EditError(subject, name, value, str(why))
    return EditError(subject, verb, arguments, str(wrong))


def apply_delta(program: ContinualProgram, delta: Delta) -> None:
    """Make an edit again in a program whose templates have the handles that are in the delta.

    Raises
    ------
    CodecError
        There is no such verb.
    """
    verb, arguments = delta
    if verb not in VERBS and verb != TAKEN:
        raise CodecError(f"there is no verb {verb!r}")
    handle = arguments.pop(RETURNED, None)
    getattr(ContinualProgram, verb)(program, **arguments)
    known: tuple[Handles[Any], ...] = (program._templates, program._vectors)
    for handles in known:
        if isinstance(handle, handles.kind):
            if handle.slot not in handles:
                raise CodecError("a template or a cost vector lies elsewhere")
            handles[handle.slot] = handle


def known_delta(value: Any) -> Delta:
    """A decoded value that is a delta; a CodecError if it is none."""
    match value:
        case (str() as verb, dict() as arguments) if all(isinstance(name, str) for name in arguments):
            return verb, arguments
    raise CodecError("an edit is none")
