"""Workers: who has the parts of a store that is spread, and runs tasks on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from copter.store.edit import Edit
from copter.store.executor import Offloaded, Task
from copter.store.local import LocalStore


class Workers(Protocol):
    """Holders of the parts of a distributed store, `parts` of them."""

    parts: int

    def send(self, edits: list[Edit]) -> None:
        """Make edits on the parts before what is asked of them next; they must not change afterwards."""

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """Return ``task(part, *common, *own[k])`` of every part k, in the order of the parts.

        The task is at the top of its module, and changes nothing.
        """

    def one(self, number: int, task: Task, *arguments: Any) -> Any:
        """Return ``task(part, *arguments)`` of one part; the task is as in :meth:`each`."""

    def offload(self, pieces: Sequence[Any]) -> Offloaded | None:
        """Give pieces of work to the workers, evenly; None if that is of no use."""

    def restore(self, stores: Sequence[LocalStore]) -> None:
        """Put stores, one a part, in place of those of the parts."""

    def diagnostics(self) -> dict[str, float]:
        """Return irregularities since the last call, by name.

        ``slow_actor_3``: the most seconds that an actor kept the others waiting. ``revived_actor_3``: how
        often it was made again.
        """

    def close(self) -> None:
        """Forget the parts."""
