"""Holder: some parts of a program in a process of their own, an actor on Ray.

It imports nothing of Ray: an actor is a plain object whose methods are called from elsewhere.  Arrays that
come out of Ray's object store cannot be written to; they are copied, as kernels are compiled for arrays that
can.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from copter.errors import CopterError
from copter.parallel import limit_threads
from copter.ray.part_store import PartStore
from copter.store.edit import Edit
from copter.store.executor import Part, Task
from copter.store.local import LocalStore
from copter.store.slabs import GrowableArrays, SlotTable, contiguous


class MissedEditsError(CopterError, RuntimeError):
    """A holder was asked for something though its parts do not have all edits."""


class Holder:
    """Neighbouring parts, from ``first`` to ``last - 1`` of ``of``, and pieces of work that were offloaded.

    It counts the edits that it made, and a caller says how many there are. Parts that missed an edit, or have
    half of one that failed, never answer.
    """

    def __init__(self, first: int, last: int, of: int, threads: int) -> None:
        limit_threads(threads)
        self._parts = [Part(PartStore(), number, of) for number in range(first, last)]
        self._offloaded: dict[int, list[Any]] = {}
        self._made, self._failed = 0, ""

    def here(self) -> None:
        """Answer, which says that the process runs."""

    def send(self, edits: list[Edit], before: int) -> None:
        """Make edits, each cut to these parts; none is made if not all `before` earlier edits were."""
        if before != self._made:
            return
        try:
            for edit in edits:
                self._make(edit)
                self._made += 1
        except Exception as error:
            self._failed = f"{type(error).__name__}: {error}"
            raise

    def _make(self, edit: Edit) -> None:
        fresh = writable(edit)
        for k, part in enumerate(self._parts):
            own = fresh.of(k, k + 1)
            if own is not None:
                part.store.apply(own)

    def ask(self, made: int, method: str, *arguments: Any) -> Any:
        """Call a method that reads the parts; raise MissedEditsError if they do not have all `made` edits."""
        if made != self._made:
            raise MissedEditsError(self._failed or f"{made - self._made} edits did not come")
        return getattr(self, method)(*arguments)

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """``task(part, *common, *own[k])`` of every part that is here."""
        return _each(self._parts, task, common, own)

    def one(self, place: int, task: Task, arguments: tuple[Any, ...]) -> Any:
        """Return ``task(part, *arguments)`` of the part at some place among these."""
        return task(self._parts[place], *writable(arguments))

    # ---- pieces of work ------------------------------------------------------------------------

    def offload(self, key: int, pieces: list[Any]) -> None:
        """Keep pieces of work under a key."""
        self._offloaded[key] = writable(pieces)

    def each_offloaded(
        self, key: int, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None
    ) -> list[Any]:
        """``task(piece, *common, *own[k])`` of every piece that came with a key."""
        return _each(self._offloaded[key], task, common, own)

    def forget(self, key: int) -> None:
        """Forget pieces of work."""
        self._offloaded.pop(key, None)

    # ---- the process ---------------------------------------------------------------------------

    def snapshot(self) -> list[LocalStore]:
        """The parts' stores, as they are; Ray copies them."""
        return [part.store for part in self._parts]

    def restore(self, stores: list[LocalStore], made: int) -> None:
        """Take the stores of another process's :meth:`snapshot`, with `made` edits in them."""
        self._made, self._failed = made, ""
        self._parts = [part._replace(store=store) for part, store in zip(self._parts, stores, strict=True)]

    def memory(self) -> dict[str, int]:
        """Return ``bytes`` of the parts' columns, with their reserves, and the ``pid`` of the process."""
        return {"bytes": sum(_bytes_of(part.store) for part in self._parts), "pid": os.getpid()}


def _each(
    things: Sequence[Any], task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None
) -> list[Any]:
    given = writable(common)
    mine = [()] * len(things) if own is None else writable(own)
    return [task(thing, *given, *each) for thing, each in zip(things, mine, strict=True)]


def writable(value: Any) -> Any:
    """Return a value with arrays that kernels take: those that cannot be written to are copied.

    It looks into tuples, lists, dicts and attributes.
    """
    if isinstance(value, np.ndarray):
        return contiguous(value)
    if isinstance(value, tuple):
        parts = map(writable, value)
        return type(value)._make(parts) if hasattr(value, "_make") else tuple(parts)
    if isinstance(value, list):
        return [writable(each) for each in value]
    if isinstance(value, dict):
        return {key: writable(each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
        for name, each in vars(value).items():
            object.__setattr__(value, name, writable(each))
    return value


def _bytes_of(store: Any) -> int:
    """Bytes of a store's pools and tables, room for more included."""
    held = 0
    for each in vars(store).values():
        if isinstance(each, GrowableArrays):
            held += sum(getattr(each, name).nbytes for name in each.names)
        elif isinstance(each, SlotTable):
            held += each.whole.nbytes + each.real.nbytes + each.small.nbytes
    return held
