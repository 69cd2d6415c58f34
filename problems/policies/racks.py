"""GPUs of racks, for policies that decide about jobs that must be in one rack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from copter.problems.cluster.cluster import Configuration, GpuType
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.nodes import working_nodes
from copter.problems.cluster.policy import ClusterState

Rack: TypeAlias = tuple[str, int]
"""GPU type, and number of the rack among those of the type."""


class Racks:
    """The racks of a cluster in one round, if a job must be in one rack; otherwise there are none.

    `room`: GPUs of each rack, which the policy reduces by those that it gives away.
    """

    def __init__(self, now: ClusterState) -> None:
        self.room: dict[Rack, int] = {}
        self._types: dict[str, GpuType] = {}
        self._rack: dict[tuple[str, int], Rack] = {}
        if not any(job.submission.one_rack for job in now.jobs.values()):
            return
        self._types = {type.name: type for type in now.cluster.types if type.racks}
        for name, type in self._types.items():
            down = now.down.get(name, frozenset())
            for number, nodes in enumerate(type.racks_of(type.nodes + len(down))):
                self.room[name, number] = 0
                self._rack |= {(name, node): (name, number) for node in nodes}
            for node in working_nodes(type, down):
                self.room[self._rack[name, node]] += type.gpus_per_node

    def of(self, job: Job, one: Configuration) -> list[Rack]:
        """Return the racks of which a job must get one for a configuration; empty if it needs none."""
        if not job.submission.one_rack or one.nodes == 1:
            return []
        return [rack for rack in self.room if rack[0] == one.type]

    def held(self, job: Job) -> dict[Rack, int]:
        """Return the GPUs of each rack that a running job occupies while it keeps its configuration.

        A preemptible job on a part of a node occupies none, because the placer can move the job.
        """
        type = self._types.get(job.allocation.type) if job.allocation is not None else None
        if type is None or job.place is None:
            return {}
        if job.submission.preemptible and len(job.place) == 1 and job.place[0][1] < type.gpus_per_node:
            return {}
        held: dict[Rack, int] = {}
        for node, gpus in job.place:
            rack = self._rack.get((type.name, node))
            if rack is not None:
                held[rack] = held.get(rack, 0) + gpus
        return held

    def use(self, job: Job, one: Configuration, wish: Rack | None = None) -> dict[Rack, int] | None:
        """Return what a job needs of racks for a configuration, `wish` first; None if there is no room.

        A rack with little room comes before one with more.
        """
        if one == job.allocation:
            need = self.held(job)
            return need if all(self.room[rack] >= gpus for rack, gpus in need.items()) else None
        racks = self.of(job, one)
        if not racks:
            return {}
        enough = [rack for rack in racks if self.room[rack] >= one.gpus]
        if wish is not None and wish in enough:
            return {wish: one.gpus}
        return {min(enough, key=lambda rack: self.room[rack]): one.gpus} if enough else None

    def take(self, need: Mapping[Rack, int]) -> None:
        """Reduce the room of racks."""
        for rack, gpus in need.items():
            self.room[rack] -= gpus
