"""Nodes that come, go, fail and are repaired over a simulation.

If a type has n working nodes, they have the first n numbers that are not down (:func:`working_nodes`).  When
n falls, the nodes with the last numbers leave; when a node fails, all other nodes keep their numbers.

Failures are drawn before a simulation (:func:`draw_failures`).  A node fails after an exponential time with a
given mean and is repaired after a random time, independently of other nodes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count, islice

import numpy as np

from copter.problems.cluster.cluster import Cluster, GpuType


@dataclass(frozen=True)
class NodeChange:
    """From `time` (seconds) on, a GPU type has `nodes` nodes; nodes with the last numbers come or go."""

    time: float
    type: str
    nodes: int


@dataclass(frozen=True)
class NodeFailure:
    """At `time` (seconds) a node of a type fails; it is back `repair_seconds` later.

    Jobs on it lose their GPUs and restart from their last checkpoint
    (:meth:`copter.problems.cluster.profiles.base.Profile.checkpoint`).
    """

    time: float
    type: str
    node: int
    repair_seconds: float


@dataclass(frozen=True)
class _Repair:
    """The repair of a node of a type is complete."""

    type: str
    node: int


def working_nodes(type: GpuType, down: Collection[int]) -> list[int]:
    """Return the numbers of the working nodes: the first numbers that are not down."""
    if not down:
        return list(range(type.nodes))
    return list(islice((node for node in count() if node not in down), type.nodes))


class NodeEvents:
    """Events of the nodes of a cluster, in order of time.

    `cluster`: cluster whose nodes change when events are played. `down`: nodes of each type that do not work.
    Nodes that are down at the beginning are never repaired.
    """

    def __init__(
        self,
        cluster: Cluster,
        events: Iterable[NodeChange | NodeFailure],
        down: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        self.down: dict[str, frozenset[int]] = dict(down or {})
        self._cluster = cluster
        self._heap: list[tuple[float, int, NodeChange | NodeFailure | _Repair]] = []
        for event in events:
            if event.type not in cluster.names:
                raise ValueError(f"{event}: type must be one of {list(cluster.names)}")
            if isinstance(event, NodeFailure) and not event.repair_seconds > 0:
                raise ValueError(f"{event}: repair_seconds must be positive")
            self._heap.append((event.time, len(self._heap), event))
        self._pushed = len(self._heap)
        heapify(self._heap)

    @property
    def next_time(self) -> float:
        """Time of the next event in seconds; infinite if there is no further event."""
        return self._heap[0][0] if self._heap else math.inf

    def play(self, until: float) -> list[tuple[str, int]]:
        """Play the events until a time in seconds; return type and number of each node that failed."""
        failed: list[tuple[str, int]] = []
        while self.next_time <= until:
            time, _, event = heappop(self._heap)
            nodes = self._nodes(event.type)
            if isinstance(event, NodeChange):
                self._cluster.set_nodes(event.type, event.nodes)
            elif isinstance(event, _Repair):
                self.down[event.type] -= {event.node}
                self._cluster.set_nodes(event.type, nodes + 1)
            elif event.node in self.working(event.type):
                self.down[event.type] = self.down.get(event.type, frozenset()) | {event.node}
                self._cluster.set_nodes(event.type, nodes - 1)
                back = _Repair(event.type, event.node)
                heappush(self._heap, (time + event.repair_seconds, self._pushed, back))
                self._pushed += 1
                failed.append((event.type, event.node))
        return failed

    def working(self, type: str) -> frozenset[int]:
        """Return the numbers of the working nodes of a type."""
        of = next(one for one in self._cluster.types if one.name == type)
        return frozenset(working_nodes(of, self.down.get(type, frozenset())))

    def _nodes(self, type: str) -> int:
        return next(one.nodes for one in self._cluster.types if one.name == type)


def draw_failures(
    types: Iterable[GpuType],
    hours: float,
    rng: np.random.Generator,
    *,
    mean_hours: float,
    repair_hours: float = 1.0,
) -> list[NodeFailure]:
    """Return the failures of all nodes in a time interval, in order of time.

    `hours`: length of the interval. `mean_hours`: mean time from the repair of a node to its next failure.
    `repair_hours`: mean of the exponential repair time. A node that is being repaired does not fail.
    """
    for name, value in (("hours", hours), ("mean_hours", mean_hours), ("repair_hours", repair_hours)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} = {value}: must be positive and finite")
    failures: list[NodeFailure] = []
    for type in types:
        for node in range(type.nodes):
            time = float(rng.exponential(mean_hours))
            while time < hours:
                away = float(rng.exponential(repair_hours))
                failures.append(NodeFailure(3600.0 * time, type.name, node, 3600.0 * away))
                time += away + float(rng.exponential(mean_hours))
    return sorted(failures, key=lambda one: one.time)
