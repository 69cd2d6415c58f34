"""Placement of tasks that wait as a domain of :class:`copter.Rounds`, by column generation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from copter.clock import Clock, current, running
from copter.problems.placement.place import PlacementError
from copter.problems.placement.rounds.rounds import Round
from copter.problems.placement.rounds.rounds import Rounds as PlacementRounds
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import Kind
from copter.rounds.rounds import Rounds
from copter.solvers.base import Solver

EVENTS = ("submit", "adopt", "finish", "fail", "drain", "restore")
"""Methods of the placement's rounds that are events: an event is a tuple of the name and its arguments."""
_TASKS = 30
"""Of :func:`example`, about."""


class PlacementDomain:
    """The rounds of a placement.

    `placement`: as it is; its own methods remain events, too. `moves`, `price`: of its rounds.
    """

    program = None

    def __init__(self, placement: PlacementRounds, moves: int = 0, price: float = 0.0) -> None:
        if moves < 0 or not price >= 0.0:
            what = f"moves = {moves}" if moves < 0 else f"price = {price}"
            raise PlacementError(f"{what}: must not be negative")
        self.placement, self.moves, self.price = placement, moves, price

    def apply(self, event: tuple[Any, ...]) -> None:
        """Make an event: a name of :data:`EVENTS`, and the arguments of that method."""
        name, *arguments = event
        if name not in EVENTS:
            raise PlacementError(f"event {name!r}: there are {', '.join(EVENTS)}")
        owner = self.placement if hasattr(self.placement, name) else self.placement.running
        getattr(owner, name)(*arguments)

    def solve(self, solver: Solver, deadline: float | None) -> Round:  # noqa: ARG002 - it keeps one
        """Return what is found by the deadline."""
        with running(Clock(deadline, parent=current())):
            return self.placement.find(self.moves, self.price)

    def round(self, solution: Round, deadline: float | None) -> Round:  # noqa: ARG002 - nothing to do
        """Return what was found: it is of whole tasks."""
        return solution

    def fallback(self, deadline: float | None) -> Round:  # noqa: ARG002 - nothing to do
        """Return the round that places nobody."""
        return self.placement.keep()

    def accept(self, answer: Round) -> None:
        """Start and move tasks."""
        self.placement.accept(answer)

    def figures(self, answer: Round) -> dict[str, float]:
        """Return what a report shows."""
        return {"placed": len(answer.placed), "moved": len(answer.moved), "waiting": answer.waiting}

    # ---- for `copter check` ----------------------------------------------------------------------

    def violations(self, answer: Round) -> Iterator[str]:
        """Yield servers and GPUs that have more tasks than they can, counted one by one."""
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
                yield f"task {id!r} has {len(used)} GPUs and wants {kind.gpus}"
            for gpu in used:
                gpus[place.server, gpu] = gpus.get((place.server, gpu), 0) + kind.milli
        for server, name in enumerate(servers.names):
            if cpu[server] > servers.cpu[server] or memory[server] > servers.memory[server]:
                yield f"server {name!r} is overdrawn"
        for (server, gpu), milli in gpus.items():
            if milli > MILLI or gpu >= servers.gpus[server]:
                yield f"GPU {gpu} of server {servers.names[server]!r} is overdrawn"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Draw tasks that come and end, and servers that fail, are drained and come back."""
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


def play(placement: PlacementRounds, moves: int, price: float, deadline: float | None) -> Round:
    """Play a round of a placement."""
    domain = PlacementDomain(placement, moves, price)
    done: Round = Rounds(domain, placement.solver, deadline=deadline).play().answer
    return done


def example() -> PlacementDomain:
    """Return a few servers: `copter check copter.problems.placement.rounds.domain:example`."""
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
        Kind(4_000, 8_000, 0, 0, ()),
        Kind(2_000, 4_000, 1, 500, ()),
        Kind(8_000, 16_000, 1, MILLI, ("V100",)),
        Kind(8_000, 32_000, 2, MILLI, ()),
    ]
    return PlacementDomain(PlacementRounds(servers, kinds), moves=4)
