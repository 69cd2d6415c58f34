"""Groups of tasks with affinity (on the same server or zone) or anti-affinity (apart)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from copter.arrays import Flags
from copter.problems.placement.place import PlacementError


class TaskGroup(ABC):
    """A constraint for tasks that are submitted together and for all other tasks with the same group name.

    Constraints by server and by zone are independent.  Each task keeps the limit with which it was submitted.

    `zones`: zone of each server, for a constraint by zone; None for a constraint by server.
    """

    group: Hashable
    zones: Sequence[Hashable] | None

    def at(self, server: int) -> Hashable:
        """Return the key under which tasks on a server are counted: the group with the server or its zone."""
        place = (server,) if self.zones is None else ("zone", self.zones[server])
        return (type(self), self.group, *place)

    def check(self, servers: int) -> None:
        """Raise PlacementError if the constraint is invalid."""
        try:
            hash(self.group)
        except TypeError:
            raise PlacementError(f"submit: group = {self.group!r}: must be hashable") from None
        if self.zones is not None and len(self.zones) != servers:
            raise PlacementError(f"submit: {len(self.zones)} zones: must be {servers}, one a server")

    @abstractmethod
    def allows(self, on: Counter[Hashable], server: int) -> bool:
        """Return whether one more task may run on a server, given the running tasks of the group.

        `on`: number of running tasks by key of :meth:`at`, and of each group by type and name.
        """


@dataclass(frozen=True, eq=False)
class Apart(TaskGroup):
    """Anti-affinity: at most `most` tasks of the group run on a server, or in a zone.

    Attributes
    ----------
    group : hashable
        Name of the group.
    most : int
        Largest number of tasks of the group on a server or in a zone, at least 1.
    zones : sequence, optional
        Zone of each server; without zones the limit is for servers.
    """

    group: Hashable
    most: int = 1
    zones: Sequence[Hashable] | None = None

    def check(self, servers: int) -> None:
        """Raise PlacementError if the constraint is invalid.

        Raises
        ------
        PlacementError
            If `most` is below 1, or there is not one zone for each server.
        """
        if self.most < 1:
            raise PlacementError(f"submit: apart.most = {self.most}: must be at least 1")
        super().check(servers)

    def allows(self, on: Counter[Hashable], server: int) -> bool:
        """Return whether fewer than `most` tasks run on the server or in its zone."""
        return on[self.at(server)] < self.most


@dataclass(frozen=True, eq=False)
class Together(TaskGroup):
    """Affinity: all running tasks of the group are on one server, or in one zone."""

    group: Hashable
    zones: Sequence[Hashable] | None = None

    def allows(self, on: Counter[Hashable], server: int) -> bool:
        """Return whether tasks of the group run on the server or in its zone, or none runs at all."""
        return on[type(self), self.group] == 0 or on[self.at(server)] > 0


class Closeness:
    """Number of running tasks of each group, by server and zone."""

    def __init__(self) -> None:
        self._on: Counter[Hashable] = Counter()

    def allows(self, group: TaskGroup, server: int) -> bool:
        """Return whether one more task may run on a server."""
        return group.allows(self._on, server)

    def servers(self, group: TaskGroup, usable: Flags) -> Flags:
        """Return the usable servers on which one more task of a group may run; `usable` (n,)."""
        allowed = usable.copy()
        for server in np.flatnonzero(usable):
            allowed[server] = self.allows(group, int(server))
        return allowed

    def count(self, group: TaskGroup, server: int, change: int) -> None:
        """Record that a task started on a server (change 1), or left it (change -1)."""
        for at in (group.at(server), (type(group), group.group)):
            self._on[at] += change
            if not self._on[at]:
                del self._on[at]
