"""Workers: who has the parts of a store that is spread, and runs tasks on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from copter.store.edit import Edit
from copter.store.executor import Offloaded, Task
from copter.store.local import LocalStore


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

    def restore(self, stores: Sequence[LocalStore]) -> None:
        """Put stores, one a part, in place of those of the parts."""

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
