"""Tasks that must not be close: of a group, no more than so many run on a server, or in a zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Apart:
    """What tasks that are submitted together keep to.

    Attributes
    ----------
    group : hashable
        Tasks of all submissions that name it count.
    most : int
        Tasks of the group that run on a server, or in a zone, at most; at least 1.
    zones : sequence of n hashables, optional
        Zone of each server, for a limit by zone; without it the limit is by server.
    """

    group: Hashable
    most: int = 1
    zones: Sequence[Hashable] | None = None

    def at(self, server: int) -> Hashable:
        """What counts as close to a server."""
        return (self.group, server) if self.zones is None else (self.group, "zone", self.zones[server])


class Closeness:
    """How many tasks of each group run where."""

    def __init__(self) -> None:
        self._on: Counter[Hashable] = Counter()

    def allows(self, apart: Apart, server: int) -> bool:
        """Whether one more task may run on a server."""
        return self._on[apart.at(server)] < apart.most

    def servers(self, apart: Apart, usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Those of some servers on which one more task may run.

        Parameters
        ----------
        usable : (n,) bool ndarray
        """
        allowed = usable.copy()
        for server in np.flatnonzero(usable):
            allowed[server] = self.allows(apart, int(server))
        return allowed

    def count(self, apart: Apart, server: int, change: int) -> None:
        """Note that a task has come to a server, or with -1 that it has left."""
        at = apart.at(server)
        self._on[at] += change
        if not self._on[at]:
            del self._on[at]
