"""An example of waiting tasks as a domain of :class:`copter.Rounds`, by column generation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from copter.problems.placement.rounds.rounds import PlacementDomain, PlacementRounds, Round
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import TaskKind

_TASKS = 30
"""Approximate number of tasks of :func:`example`."""


class ExamplePlacement(PlacementDomain):
    """Placement with random events, and a check that recounts each answer task by task."""

    def violations(self, answer: Round) -> Iterator[str]:
        """Yield servers and GPUs whose tasks exceed their capacity, counted task by task."""
        tasks, servers = self.placement.running, self.placement.running.servers
        cpu, memory = [0] * len(servers), [0] * len(servers)
        gpus: dict[tuple[int, int], int] = {}
        for id in tasks.all_ids():
            place = answer.placed.get(id) or answer.moved.get(id) or tasks.place_of(id)
            if place is None:
                continue
            kind = tasks.kinds[tasks.kind_of(id)]
            cpu[place.server] += kind.cpu
            memory[place.server] += kind.memory
            used = [gpu for gpu in range(64) if place.gpus >> gpu & 1]
            if len(used) != kind.gpus:
                yield f"task {id!r}: {len(used)} GPUs: must be {kind.gpus}"
            for gpu in used:
                gpus[place.server, gpu] = gpus.get((place.server, gpu), 0) + kind.milli
        for server, name in enumerate(servers.names):
            if cpu[server] > servers.cpu[server] or memory[server] > servers.memory[server]:
                yield f"server {name!r}: tasks exceed its CPU or memory"
        for (server, gpu), milli in gpus.items():
            if milli > MILLI or gpu >= servers.gpus[server]:
                yield f"GPU {gpu} of server {servers.names[server]!r}: tasks exceed its capacity"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random arrivals and ends of tasks, and failures, drains and restores of servers."""
        tasks = self.placement.running
        ids, names = tasks.all_ids(), list(tasks.servers.names)
        new = [f"task {int(rng.integers(1 << 40))}" for _ in range(int(rng.integers(0, 6)))]
        if new and len(ids) < 2 * _TASKS:
            yield "submit", new, rng.integers(0, len(tasks.kinds), len(new))
        if ids and rng.random() < 0.6:
            yield "finish", [ids[k] for k in rng.choice(len(ids), min(3, len(ids)), replace=False).tolist()]
        if rng.random() < 0.3:
            yield (
                str(rng.choice(["fail", "drain", "restore", "restore"])),
                [names[int(rng.integers(len(names)))]],
            )


def example() -> ExamplePlacement:
    """Return an example with six servers: `copter check copter.problems.placement.rounds.example:example`."""
    count = 6
    servers = Servers(
        tuple(f"server {k}" for k in range(count)),
        np.full(count, 16_000),
        np.full(count, 64_000),
        np.array([0, 0, 2, 2, 4, 4]),
        np.array([0, 0, 1, 1, 2, 2]),
        ("", "T4", "V100"),
    )
    kinds = [
        TaskKind(4_000, 8_000, 0, 0, ()),
        TaskKind(2_000, 4_000, 1, 500, ()),
        TaskKind(8_000, 16_000, 1, MILLI, ("V100",)),
        TaskKind(8_000, 32_000, 2, MILLI, ()),
    ]
    return ExamplePlacement(PlacementRounds(servers, kinds), moves=4)
