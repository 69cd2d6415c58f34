"""Holder: consecutive parts of a program in the process of a Ray actor.

The module does not import Ray, because an actor is a plain object whose methods are called remotely. Arrays
from Ray's object store are read-only. They are copied, because kernels are compiled for writable arrays.
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
    """A holder was called although its parts do not have all edits; the caller raises an UnusableError."""


class Holder:
    """Parts ``first`` to ``last - 1`` of the ``of`` parts of a program.

    The holder counts the edits that it applied, and callers pass the number of edits that were sent. Parts
    that missed an edit, or that failed in the middle of an edit, reject all calls.
    """

    def __init__(self, first: int, last: int, of: int, threads: int) -> None:
        limit_threads(threads)
        self._parts = [Part(PartStore(), number, of) for number in range(first, last)]
        self._made, self._failed = 0, ""

    def here(self) -> None:
        """Return None, which shows that the process runs."""

    def send(self, edits: list[Edit], before: int) -> None:
        """Apply edits, each cut to these parts; do nothing unless all `before` earlier edits were applied."""
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
            raise MissedEditsError(self._failed or f"{made - self._made} edits did not arrive")
        return getattr(self, method)(*arguments)

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """Return ``task(part, *common, *own[k])`` of every part of this holder."""
        given = writable(common)
        mine = [()] * len(self._parts) if own is None else writable(own)
        return [task(part, *given, *each) for part, each in zip(self._parts, mine, strict=True)]

    def one(self, place: int, task: Task, arguments: tuple[Any, ...]) -> Any:
        """Return ``task(part, *arguments)`` of the part at a position among the parts of this holder."""
        return task(self._parts[place], *writable(arguments))

    # ---- the process ---------------------------------------------------------------------------

    def snapshot(self) -> list[LocalStore]:
        """Return the stores of the parts; Ray copies them."""
        return [part.store for part in self._parts]

    def restore(self, stores: list[LocalStore], made: int) -> None:
        """Load the stores of a :meth:`snapshot` that includes `made` edits."""
        self._made, self._failed = made, ""
        self._parts = [part._replace(store=store) for part, store in zip(self._parts, stores, strict=True)]

    def memory(self) -> dict[str, int]:
        """Return the ``bytes`` of the parts' columns, reserved memory included, and the ``pid``."""
        return {"bytes": sum(_bytes_of(part.store) for part in self._parts), "pid": os.getpid()}


def writable(value: Any) -> Any:
    """Return a value in which read-only arrays are copied, so that kernels take them.

    Arrays in tuples, lists, dictionaries and attributes of dataclasses are converted, too.
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
    """Return the bytes of a store's arrays and tables, including reserved memory."""
    held = 0
    for each in vars(store).values():
        if isinstance(each, GrowableArrays):
            held += sum(getattr(each, name).nbytes for name in each.names)
        elif isinstance(each, SlotTable):
            held += each.whole.nbytes + each.real.nbytes + each.small.nbytes
    return held
