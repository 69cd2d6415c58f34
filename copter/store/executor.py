"""Where work on the columns runs: an executor that maps tasks over the parts of a store, and fetches columns.

Whoever looks at *all* columns of a program says what one part has to do, a function at the top of a module
that takes a :class:`Part`, and puts the answers of the parts together: :meth:`Executor.map`.  Whoever looks
at *some* columns asks for a view in which kernels find just these: :meth:`Executor.columns`.  So the same
code runs where the store is in this process (:class:`LocalExecutor`: it is one part, itself, and nothing is
copied) and where its requests are spread over workers (:class:`copter.ray.executor.DistributedExecutor`).

A part is a store of its own, with all rows, all shared usages and vectors, and some of the requests, with
their terms: those whose slot in the program, divided by the number of parts, leaves the number of the part.
What a part says of a request or of a column is the same for any number of parts; sums over requests are, too,
for they are carried with their rounding errors (:mod:`copter.sums.compensated`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.store.view import StoreView, view_of

if TYPE_CHECKING:
    from copter.store.local import LocalStore
    from copter.store.store import ConstraintStore

Task: TypeAlias = Callable[..., Any]
Columns: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Slots and columns, ascending by slot and column."""
Result = TypeVar("Result")


class Part(NamedTuple):
    """A part of a store, as a task sees it: a store with its own slots, and which part of how many it is."""

    store: LocalStore
    number: int
    of: int

    def slots(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots in the program of requests that have the slots ``local`` in the part's store."""
        return local if self.of == 1 else local * self.of + self.number

    def local(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots in the part's store of requests that have the ``slots`` in the program."""
        return slots if self.of == 1 else slots // self.of


class Key(NamedTuple):
    """Identifies a task that is asked once."""

    task: Task
    common: tuple[Any, ...]
    slots: bytes | None


class Offloaded(Protocol):
    """Pieces of work kept by other processes, and released with this object.

    Tasks get writable arrays, because kernels are compiled for these. If the process with a piece is lost,
    another one gets the piece as it was given; what tasks kept in it is gone, and they must report that.
    """

    def each(
        self, task: Callable[..., Result], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Result]:
        """Return ``task(piece, *common, *own[k])`` of every piece k, in the order of the pieces.

        The task is at the top of its module, and may keep in its piece what later tasks need.
        """


class Executor(ABC):
    """Runs tasks on all parts of a store, and fetches columns.

    `local`: whether tasks run in this process on the store itself, and no other process can fail.
    """

    local: ClassVar[bool]

    def __init__(self, store: ConstraintStore) -> None:
        self.store = store

    @abstractmethod
    def map(
        self,
        task: Callable[..., Result],
        *common: Any,
        slots: NDArray[np.int64] | None = None,
        fetch: bool = False,
    ) -> list[Result]:
        """Return ``task(part, *common)`` of every part, in the order of the parts.

        The task is at the top of its module, and changes nothing. `slots` (k,): requests of the program; each
        part gets its own, by their slots there, as a last argument. `fetch`: whether the columns that the
        results name in their attribute ``columns`` (:data:`Columns` of the program) will be read, and must
        come with them.
        """

    @abstractmethod
    def columns(
        self, slot: NDArray[np.int64], column: NDArray[np.int64], *more: Columns
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """Return a view that has at least some columns (slot and column, in any order), and their places in
        it.

        Unless requests are in this process, a request has in the view only columns asked for, now or since
        the last edit, in ascending order. A negative column means none and has a negative place. `more`:
        other columns that must be in the view. View and places are valid until the next edit, or until
        columns are asked for that were not since the last edit.
        """

    @abstractmethod
    def all_columns(self) -> StoreView:
        """A view of all columns, by request slot of the program; valid until the next edit."""

    def once(
        self, task: Callable[..., Result], *common: Any, slots: NDArray[np.int64] | None = None
    ) -> list[Result]:
        """Return what :meth:`map` does, and remember it until the next edit; it must not be changed.

        The values of `common` must be hashable.
        """
        answers, key = self._answers(), self._key(task, common, slots)
        if key not in answers:
            answers[key] = self.map(task, *common, slots=slots)
        found: list[Result] = answers[key]
        return found

    @staticmethod
    def _key(task: Task, common: tuple[Any, ...], slots: NDArray[np.int64] | None) -> Key:
        return Key(task, common, None if slots is None else slots.tobytes())

    def _answers(self) -> dict[Key, list[Any]]:
        """Answers of tasks asked once since the last edit, to be added to."""
        clock, answers = self.store.known
        if clock != self.store.clock:
            answers = {}
            self.store.known = self.store.clock, answers
        return answers

    def offload(self, pieces: Sequence[Any]) -> Offloaded | None:  # noqa: ARG002 - threads do it here
        """Give picklable pieces of work to the workers until the result is released; None if it is no use."""
        return None

    def blank_parts(self) -> list[LocalStore]:
        """Stores to be filled for :meth:`restore_parts`; none where the store is its own part."""
        return []

    def restore_parts(self, stores: Sequence[LocalStore]) -> None:  # noqa: B027 - nothing to put anywhere
        """Put stores in place of those of the parts, which have no columns yet."""

    def diagnostics(self) -> dict[str, float]:
        """Return irregularities since the last call, for an answer's details."""
        return {}


class LocalExecutor(Executor):
    """Runs tasks on the store itself: it is one part."""

    local = True
    store: LocalStore

    def map(
        self,
        task: Callable[..., Result],
        *common: Any,
        slots: NDArray[np.int64] | None = None,
        fetch: bool = False,  # noqa: ARG002 - all columns are here
    ) -> list[Result]:
        """See :meth:`Executor.map`."""
        own = () if slots is None else (slots,)
        return [task(Part(self.store, 0, 1), *common, *own)]

    def columns(
        self,
        slot: NDArray[np.int64],  # noqa: ARG002
        column: NDArray[np.int64],
        *more: Columns,  # noqa: ARG002
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """See :meth:`Executor.columns`."""
        return view_of(self.store), column

    def all_columns(self) -> StoreView:
        """See :meth:`Executor.all_columns`."""
        return view_of(self.store)


def cut(slots: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
    """Places, among the given slots, of those of each part; ascending."""
    if parts == 1:
        return [np.arange(slots.size)]
    number = slots % parts
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number, minlength=parts))[:-1])


def together(pieces: Sequence[NDArray[Any]], size: int, blank: Any = 0) -> NDArray[Any]:
    """Return an array by request slot of the program (size,) from those of its parts.

    `blank`: value of slots that a part does not have yet.
    """
    if len(pieces) == 1 and pieces[0].size == size:
        return pieces[0]
    whole = np.full(size, blank, pieces[0].dtype)
    for number, piece in enumerate(pieces):
        whole[number :: len(pieces)][: piece.size] = piece
    return whole


def joined(lists: Sequence[Columns], size: int) -> Columns:
    """Return slot and column by slot of the program from those of its parts, which have disjoint ascending
    slots.

    Within a slot the columns keep their order. `size`: request slots of the program.
    """
    if len(lists) == 1:
        return lists[0]
    slot, column = (np.concatenate([each[k] for each in lists]) for k in (0, 1))
    return by_slot(slot, column, size)


def by_slot(slot: NDArray[np.int64], column: NDArray[np.int64], size: int) -> Columns:
    """Return columns ascending by slot (below ``size``), in their given order within each."""
    count = np.bincount(slot, minlength=size)
    placed = np.empty_like(column)
    _place(slot, column, np.cumsum(count) - count, placed)
    return np.repeat(np.arange(size), count), placed


@kernel
def _place(slot, column, next_place, placed):  # type: ignore[no-untyped-def]
    for k in range(slot.size):
        placed[next_place[slot[k]]] = column[k]
        next_place[slot[k]] += 1
