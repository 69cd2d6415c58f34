"""Executor: interface that runs tasks on all parts of a store, and fetches single columns.

Code that reads *all* columns of a program calls :meth:`Executor.map` with a task, a module-level function
that takes a :class:`Part`, and combines the results of the parts. Code that reads *some* columns calls
:meth:`Executor.columns`, which returns a view with these columns. The same code then works wherever the
columns are:

- The store is in this process (:class:`LocalExecutor`). It is the only part, and nothing is copied.
- The requests are distributed over workers (:class:`copter.ray.executor.DistributedExecutor`).

A part is a store with all rows, all shared usages, and some of the requests with their terms. Part k of n has
the requests whose slot in the program is k modulo n. Results for a request or column do not depend on the
number of parts. Sums over requests do not depend on the number of parts either, because they are computed
with their rounding errors (:mod:`copter.sums.compensated`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

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
    """Part of a store that a task gets: a store with slots of its own, part `number` of `of` parts."""

    store: LocalStore
    number: int
    of: int

    def slots(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slots in the program of requests with the slots ``local`` in the part."""
        return local if self.of == 1 else local * self.of + self.number

    def local(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slots in the part of requests with the slots ``slots`` in the program."""
        return slots if self.of == 1 else slots // self.of


class Key(NamedTuple):
    """Key of a task whose results are remembered until the next edit."""

    task: Task
    common: tuple[Any, ...]
    slots: bytes | None


class Executor(ABC):
    """Interface that runs tasks on all parts of a store, and fetches columns.

    `local` is True if tasks run in this process on the store itself.
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
    ) -> list[Result]:
        """Return ``task(part, *common)`` of every part, in the order of the parts.

        The task is a module-level function and changes nothing. If `slots` (k,), slots of the program, is
        given, each part gets the slots of its requests as the last argument, converted to slots of the part.
        """

    @abstractmethod
    def columns(
        self, slot: NDArray[np.int64], column: NDArray[np.int64], *more: Columns
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """Return a view that has given columns, and the positions of these columns in the view.

        `slot` and `column` (k,) are in any order. A negative column means no column and gets a negative
        position. `more` are other columns that must be in the view. If requests are on workers, the view has
        only columns that were requested since the last edit, ascending for each request. View and positions
        are valid until the next edit or the next request of other columns.
        """

    @abstractmethod
    def all_columns(self) -> StoreView:
        """Return a view of all columns, by request slot of the program; it is valid until the next edit."""

    def once(
        self, task: Callable[..., Result], *common: Any, slots: NDArray[np.int64] | None = None
    ) -> list[Result]:
        """Return the result of :meth:`map`, and remember it until the next edit.

        The result must not be changed. The values of `common` must be hashable.
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
        """Return the dictionary of the results since the last edit, to which callers add theirs."""
        clock, answers = self.store.known
        if clock != self.store.clock:
            answers = {}
            self.store.known = self.store.clock, answers
        return answers

    def blank_parts(self) -> list[LocalStore]:
        """Return stores to be filled for :meth:`restore_parts`; empty if the store is its own part."""
        return []

    def restore_parts(self, stores: Sequence[LocalStore]) -> None:  # noqa: B027 - the store is its own part
        """Replace the stores of the parts, which have no columns yet."""

    def diagnostics(self) -> dict[str, float]:
        """Return irregularities since the last call, for ``Solution.details``."""
        return {}


class LocalExecutor(Executor):
    """Executor that runs tasks on the store itself, which is the only part."""

    local = True
    store: LocalStore

    def map(
        self,
        task: Callable[..., Result],
        *common: Any,
        slots: NDArray[np.int64] | None = None,
    ) -> list[Result]:
        """Return a list with the result of the task on the store."""
        own = () if slots is None else (slots,)
        return [task(Part(self.store, 0, 1), *common, *own)]

    def columns(
        self,
        slot: NDArray[np.int64],  # noqa: ARG002
        column: NDArray[np.int64],
        *more: Columns,  # noqa: ARG002
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """Return a view of the store, and the given columns, which are their own positions."""
        return view_of(self.store), column

    def all_columns(self) -> StoreView:
        """Return a view of the store."""
        return view_of(self.store)


def cut(slots: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
    """Return, for each part, the ascending positions of its requests in the given slots."""
    if parts == 1:
        return [np.arange(slots.size)]
    number = slots % parts
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number, minlength=parts))[:-1])


def together(pieces: Sequence[NDArray[Any]], size: int, blank: Any = 0) -> NDArray[Any]:
    """Return an array by request slot of the program (size,) from the arrays of its parts.

    `blank` is the value of slots that a part does not have yet.
    """
    if len(pieces) == 1 and pieces[0].size == size:
        return pieces[0]
    whole = np.full(size, blank, pieces[0].dtype)
    for number, piece in enumerate(pieces):
        whole[number :: len(pieces)][: piece.size] = piece
    return whole


def joined(lists: Sequence[Columns], size: int) -> Columns:
    """Return columns in the order of the program's slots from the columns of its parts.

    The parts have disjoint ascending slots of the program. Within a slot the columns keep their order. `size`
    is the number of request slots of the program.
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
