"""Workers on the actors of a Ray cluster.

Every actor holds consecutive parts, and gets one call for all of them. Large arguments for all actors are put
into the object store once. Arrays from the object store are copied only to make them writable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from copter.errors import UnsupportedError
from copter.extras import extra
from copter.ray.actors import Actor, answers
from copter.store.edit import Edit, size_of
from copter.store.executor import Task
from copter.store.local import LocalStore

with extra("ray"):
    import ray

_PUT_FROM = 1 << 16
"""Bytes from which on arguments for all actors are put into the object store."""


class OnActors:
    """Workers on actors, an implementation of :class:`copter.ray.workers.Workers`.

    `actors` is at most the number of parts. `options` are options of Ray actors. `threads` is the number of
    threads of each actor.
    """

    def __init__(self, actors: int, parts: int, options: Mapping[str, Any], threads: int) -> None:
        self.parts = parts
        ends = np.linspace(0, parts, actors + 1).astype(np.int64).tolist()
        self.actors = [
            Actor(number, (first, last, parts), options, threads)
            for number, (first, last) in enumerate(zip(ends[:-1], ends[1:], strict=True))
        ]

    def send(self, edits: list[Edit]) -> None:
        """Apply edits on the parts before their next task."""
        for actor in self.actors:
            actor.send(edits)

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """Return ``task(part, *common, *own[k])`` of every part k, in the order of the parts."""
        shared = ray.put(common) if size_of(common) > _PUT_FROM else common
        each = [
            (task, shared, None if own is None else list(own[actor.first : actor.last]))
            for actor in self.actors
        ]
        return [result for mine in answers(self.actors, "each", each) for result in mine]

    def one(self, number: int, task: Task, *arguments: Any) -> Any:
        """Return ``task(part, *arguments)`` of one part."""
        (actor,) = [actor for actor in self.actors if actor.first <= number < actor.last]
        return answers([actor], "one", [(number - actor.first, task, arguments)])[0]

    def restore(self, stores: Sequence[LocalStore]) -> None:
        """Replace the stores of the parts."""
        for actor in self.actors:
            actor.restore(stores[actor.first : actor.last])

    def diagnostics(self) -> dict[str, float]:
        """Return slow and restarted actors since the last call, by name."""
        found: dict[str, float] = {}
        for actor in self.actors:
            if actor.waited:
                found[f"slow_actor_{actor.number}"] = actor.waited
            if actor.revived:
                found[f"revived_actor_{actor.number}"] = float(actor.revived)
            actor.waited, actor.revived = 0.0, 0
        return found

    def memory(self) -> list[dict[str, int]]:
        """Return for each actor the ``bytes`` of its columns, and the ``pid`` of its process."""
        return answers(self.actors, "memory", [()] * len(self.actors))

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors:
            actor.kill()
        self.actors = []

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            "a RayProgram cannot be copied or pickled; read it with program.requests[:] and "
            "program.resources[:], or keep it in a Journal"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__reduce__()
