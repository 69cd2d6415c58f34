"""Groups of tasks: those that must not be close to each other, and those that must be together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from copter.arrays import Flags
from copter.problems.placement.place import PlacementError


class TaskGroup(ABC):
    """What tasks that are submitted together keep to; those of all submissions with the same name count.

    By server and by zone they count by themselves, and each task keeps to the limit that it came with.

    `zones`: zone of each server, if it is zones that count; else servers do.
    """

    group: Hashable
    zones: Sequence[Hashable] | None

    def at(self, server: int) -> Hashable:
        """What counts as close to a server."""
        place = (server,) if self.zones is None else ("zone", self.zones[server])
        return (type(self), self.group, *place)

    def check(self, servers: int) -> None:
        """Look whether it can be kept to."""
        try:
            hash(self.group)
        except TypeError:
            raise PlacementError(f"submit: group = {self.group!r}: cannot be hashed") from None
        if self.zones is not None and len(self.zones) != servers:
            raise PlacementError(f"submit: {len(self.zones)} zones for {servers} servers")

    @abstractmethod
    def allows(self, on: Counter[Hashable], server: int) -> bool:
        """Whether one more task may run on a server beside those of the group that run.

        `on`: tasks by what :meth:`at` gives, and of all groups, by type and name.
        """


@dataclass(frozen=True, eq=False)
class Apart(TaskGroup):
    """No more than so many tasks of the group run on a server, or in a zone.

    Attributes
    ----------
    most : int
        At least 1.
    """

    group: Hashable
    most: int = 1
    zones: Sequence[Hashable] | None = None

    def check(self, servers: int) -> None:
        """Look whether it can be kept to.

        Raises
        ------
        PlacementError
            No task is allowed, or there is not one zone for each server.
        """
        if self.most < 1:
            raise PlacementError(f"submit: apart.most = {self.most}: must be at least 1")
        super().check(servers)

    def allows(self, on: Counter[Hashable], server: int) -> bool:
        """Whether there are fewer than `most` on the server or in its zone."""
        return on[self.at(server)] < self.most


@dataclass(frozen=True, eq=False)
class Together(TaskGroup):
    """All tasks of the group that run do so on one server, or in one zone: where the first one is placed."""

    group: Hashable
    zones: Sequence[Hashable] | None = None

    def allows(self, on: Counter[Hashable], server: int) -> bool:
        """Whether the others run there, or none runs."""
        return on[type(self), self.group] == 0 or on[self.at(server)] > 0


class Closeness:
    """How many tasks of each group run where."""

    def __init__(self) -> None:
        self._on: Counter[Hashable] = Counter()

    def allows(self, group: TaskGroup, server: int) -> bool:
        """Whether one more task may run on a server."""
        return group.allows(self._on, server)

    def servers(self, group: TaskGroup, usable: Flags) -> Flags:
        """Those of some servers on which one more task may run. `usable` (n,)."""
        allowed = usable.copy()
        for server in np.flatnonzero(usable):
            allowed[server] = self.allows(group, int(server))
        return allowed

    def count(self, group: TaskGroup, server: int, change: int) -> None:
        """Note that a task has come to a server, or with -1 that it has left."""
        for at in (group.at(server), (type(group), group.group)):
            self._on[at] += change
            if not self._on[at]:
                del self._on[at]
