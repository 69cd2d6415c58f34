"""Workers: protocol of the processes that hold the parts of a distributed store and run tasks on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from copter.store.edit import Edit
from copter.store.executor import Task
from copter.store.local import LocalStore


class Workers(Protocol):
    """Processes that hold the `parts` parts of a distributed store."""

    parts: int

    def send(self, edits: list[Edit]) -> None:
        """Apply edits on the parts before their next task; the edits must not change afterwards."""

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """Return ``task(part, *common, *own[k])`` of every part k, in the order of the parts.

        The task is a module-level function and changes nothing.
        """

    def one(self, number: int, task: Task, *arguments: Any) -> Any:
        """Return ``task(part, *arguments)`` of one part; the task is as in :meth:`each`."""

    def restore(self, stores: Sequence[LocalStore]) -> None:
        """Replace the stores of the parts with `stores`, one for each part."""

    def diagnostics(self) -> dict[str, float]:
        """Return irregularities since the last call, by name.

        ``slow_actor_3`` is the largest time, in seconds, that other actors waited for actor 3.
        ``revived_actor_3`` is the number of times that actor 3 was started again.
        """

    def close(self) -> None:
        """Release the parts."""
