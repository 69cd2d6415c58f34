"""Where the columns are: a store in parts, and how a pass asks them for what it needs.

Whoever looks at *all* columns of a program says what one part has to do, a function at the top of a module
that takes a :class:`Part`, and puts the answers of the parts together: :meth:`Here.each`.  Whoever looks at
*some* columns asks for a view in which kernels find just these: :meth:`Here.excerpt`.  So the same code runs
where the store is in this process, then it is one part, itself, and nothing is copied, and where its requests
are spread over many places.

A part is a store of its own, with all rows, all shared usages and vectors, and some of the requests, with
their terms: those whose slot in the program, divided by the number of parts, leaves the number of the part.
What a part says of a request or of a column is the same for any number of parts; sums over requests are, too,
for they are carried with their rounding errors (:mod:`copter.sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.store.layout import Layout
from copter.store.view import StoreView, view_of

if TYPE_CHECKING:
    from copter.store.lent import Lent
    from copter.store.store import ConstraintStore

Task: TypeAlias = Callable[..., Any]
Columns: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Slots and columns, ascending by slot and column."""
Result = TypeVar("Result")


class Part(NamedTuple):
    """A part of a store, as a task sees it.

    Attributes
    ----------
    store : ConstraintStore
        Its requests have slots of their own there.
    number, of : int
        Which part it is, and how many there are.
    """

    store: ConstraintStore
    number: int
    of: int

    def slots(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots in the program of requests of this part.

        Parameters
        ----------
        local : (k,) ndarray
            Their slots in the part's store.

        Returns
        -------
        (k,) ndarray
        """
        return local if self.of == 1 else local * self.of + self.number

    def local(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots in the part's store of requests of this part.

        Parameters
        ----------
        slots : (k,) ndarray
            Their slots in the program.

        Returns
        -------
        (k,) ndarray
        """
        return slots if self.of == 1 else slots // self.of


class Here(Layout):
    """A store in this process: one part, itself.  A store that is elsewhere has the same methods."""

    @property
    def parts(self) -> int:
        """Into how many parts its requests are cut."""
        return 1

    def each(
        self, task: Callable[..., Result], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Result]:
        """``task(part, *common, *own[k])`` of every part k, in the order of the parts.

        Parameters
        ----------
        task : callable
            At the top of its module; it changes nothing.
        *common
            For all parts.
        own : sequence of tuples, optional
            For each part its own.

        Returns
        -------
        list
            A result a part.
        """
        (mine,) = own or ((),)
        return [task(Part(self, 0, 1), *common, *mine)]  # type: ignore[arg-type]

    def bring(self, task: Callable[..., Result], *common: Any) -> list[Result]:
        """As :meth:`each`; the columns that the results name come along where they are elsewhere.

        So the next who looks at them finds them here.  With the same round trip come the columns of
        :meth:`expect`, and the answers of :meth:`ahead` with the columns that these name.

        Parameters
        ----------
        task : callable
            Its result names columns if it has an attribute ``columns``: :data:`Columns` of the program.
        *common
            For all parts.

        Returns
        -------
        list
            A result a part.
        """
        return self.each(task, *common)

    def expect(self, slot: NDArray[np.int64], column: NDArray[np.int64]) -> None:
        """Say that some columns will be looked at before the next edit.

        Parameters
        ----------
        slot, column : (k,) ndarrays
        """

    def once(
        self, task: Callable[..., Result], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Result]:
        """As :meth:`each`; the answers are remembered until the next edit.

        Parameters
        ----------
        task, own
            As there.
        *common
            By them and the task answers are known: values that can be a key.

        Returns
        -------
        list
            A result a part; not to be changed.
        """
        answers, key = self.answers(), (task, *common)
        if key not in answers:
            answers[key] = self.each(task, *common, own=own)
        found: list[Result] = answers[key]
        return found

    def ahead(
        self, task: Callable[..., Any], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> None:
        """Say that :meth:`once` will ask this before the next edit.

        Parameters
        ----------
        task, own
            As there.
        """

    def answers(self) -> dict[Any, Any]:
        """What was asked once since the last edit, to be added to."""
        clock, answers = self.known
        if clock != self.clock:
            answers = {}
            self.known = self.clock, answers
        return answers

    def whole(self) -> StoreView:
        """A view of all columns; where the store is elsewhere, all of them are fetched.

        Returns
        -------
        StoreView
            By request slot of the program; valid until the next edit.
        """
        return view_of(self)

    def excerpt(
        self, slot: NDArray[np.int64], column: NDArray[np.int64], *more: Columns
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """A view in which kernels find some columns, at least, and where in their requests they are there.

        Where the store is elsewhere, a request has no other columns in the view than those asked for, now or
        since the last edit, in ascending order.

        Parameters
        ----------
        slot, column : (k,) ndarrays
            In any order; a negative column is none.
        *more : Columns
            Others that must be in the view.

        Returns
        -------
        StoreView
            By request slot of the program; valid until the next edit, as the places are, or until columns are
            asked for that were not since the last edit.
        (k,) ndarray
            Places of the columns in it; negative for none.
        """
        return view_of(self), column

    def lend(self, pieces: Sequence[Any]) -> Lent | None:
        """Lend pieces of work to where the columns are; None if that is here, where threads do it.

        Parameters
        ----------
        pieces : sequence
            Picklable objects; kept there until nobody refers to what is returned.
        """
        return None

    def told(self) -> dict[str, float]:
        """What was out of the ordinary where the columns are, since it was asked the last time.

        Returns
        -------
        dict of str to float
            See :class:`copter.store.places.Places`; it becomes part of an answer's details.
        """
        return {}


def cut(slots: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
    """Places, among the given slots, of those of each part.

    Parameters
    ----------
    slots : (k,) ndarray

    Returns
    -------
    list of ndarrays
        Ascending, one a part.
    """
    if parts == 1:
        return [np.arange(slots.size)]
    number = slots % parts
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number, minlength=parts))[:-1])


def together(pieces: Sequence[NDArray[Any]], size: int, blank: Any = 0) -> NDArray[Any]:
    """An array by request slot of the program from those of its parts.

    Parameters
    ----------
    pieces : sequence of (request slots of a part,) ndarrays
    size : int
        Request slots of the program.
    blank : scalar
        For slots that a part does not have yet.

    Returns
    -------
    (size,) ndarray
    """
    if len(pieces) == 1 and pieces[0].size == size:
        return pieces[0]
    whole = np.full(size, blank, pieces[0].dtype)
    for number, piece in enumerate(pieces):
        whole[number :: len(pieces)][: piece.size] = piece
    return whole


def joined(lists: Sequence[Columns], size: int) -> Columns:
    """Columns of the program from those of its parts, by slot of the program.

    Parameters
    ----------
    lists : sequence of (slot, column)
        Each with ascending slots; no slot is in two of them.
    size : int
        Request slots of the program.

    Returns
    -------
    slot, column : ndarrays
        Ascending by slot; within a slot as they came.
    """
    if len(lists) == 1:
        return lists[0]
    slot, column = (np.concatenate([each[k] for each in lists]) for k in (0, 1))
    return by_slot(slot, column, size)


def by_slot(slot: NDArray[np.int64], column: NDArray[np.int64], size: int) -> Columns:
    """Columns in ascending order of their slots, of which there are so many, and as they come within each.

    Parameters
    ----------
    slot, column : (k,) arrays

    Returns
    -------
    slot, column : (k,) ndarrays
    """
    count = np.bincount(slot, minlength=size)
    placed = np.empty_like(column)
    _place(slot, column, np.cumsum(count) - count, placed)
    return np.repeat(np.arange(size), count), placed


@kernel
def _place(slot, column, next_place, placed):  # type: ignore[no-untyped-def]
    for k in range(slot.size):
        placed[next_place[slot[k]]] = column[k]
        next_place[slot[k]] += 1
