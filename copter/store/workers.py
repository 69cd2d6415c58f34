"""Workers: who has the parts of a store that is spread, and runs tasks on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from copter.clock import check
from copter.store.edit import Edit
from copter.store.executor import Part, Task
from copter.store.offloaded import Offloaded, OnThreads
from copter.store.part_store import PartStore


class Workers(Protocol):
    """Who has the parts of a spread store.

    Attributes
    ----------
    parts : int
        How many there are.
    """

    parts: int

    def send(self, edits: list[Edit]) -> None:
        """Let the parts make edits, before whatever is asked of them next.

        Parameters
        ----------
        edits : list of Edit
            Not to be changed afterwards.
        """

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """``task(part, *common, *own[k])`` of every part k, in the order of the parts.

        Parameters
        ----------
        task : callable
            At the top of its module; it changes nothing.
        common : tuple
            For all parts.
        own : sequence of tuples, optional
            For each part its own.

        Returns
        -------
        list
            A result a part.
        """

    def one(self, number: int, task: Task, *arguments: Any) -> Any:
        """``task(part, *arguments)`` of one part.

        Parameters
        ----------
        task : callable
            At the top of its module; it changes nothing.
        """

    def offload(self, pieces: Sequence[Any]) -> Offloaded | None:
        """Give pieces of work to the workers, evenly; None if that is of no use."""

    def restore(self, stores: list[PartStore]) -> None:
        """Put stores in place of those of the parts.

        Parameters
        ----------
        stores : list of PartStore
            One a part.
        """

    def diagnostics(self) -> dict[str, float]:
        """What was out of the ordinary since it was asked the last time, by name.

        Returns
        -------
        dict of str to float
            Of actors: as ``slow_actor_3`` the most seconds that one kept the others waiting, and as
            ``revived_actor_3`` how often it was made again.
        """

    def close(self) -> None:
        """Forget the parts."""


class InProcess:
    """All parts in this process, one after the other."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.stores = [PartStore() for _ in range(parts)]

    def send(self, edits: list[Edit]) -> None:
        """See :class:`Workers`."""
        for edit in edits:
            for number, store in enumerate(self.stores):
                own = edit.of(number, number + 1)
                if own is not None:
                    store.apply(own)

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """See :class:`Workers`."""
        results = []
        for number in range(self.parts):
            check()
            mine = () if own is None else own[number]
            results.append(self.one(number, task, *common, *mine))
        return results

    def one(self, number: int, task: Task, *arguments: Any) -> Any:
        """See :class:`Workers`."""
        return task(Part(self.stores[number], number, self.parts), *arguments)

    def offload(self, pieces: Sequence[Any]) -> Offloaded:
        """See :class:`Workers`."""
        return OnThreads(pieces)

    def restore(self, stores: list[PartStore]) -> None:
        """See :class:`Workers`."""
        self.stores = stores

    def diagnostics(self) -> dict[str, float]:
        """See :class:`Workers`."""
        return {}

    def close(self) -> None:
        """See :class:`Workers`."""
        self.stores = []
