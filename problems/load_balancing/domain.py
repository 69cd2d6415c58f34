"""Shards on servers as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from copter.problems.load_balancing.balancer import LoadBalancer
from copter.problems.load_balancing.outcome import BalancingRound, LoadBalancingError
from copter.program.program import ContinualProgram
from copter.solution import Solution
from copter.solvers.base import Solver

EVENTS = (
    "add_server",
    "remove_server",
    "set_memory",
    "add_shard",
    "add_shards",
    "remove_shard",
    "set_load",
    "set_loads",
    "set_size",
)
"""Methods of :class:`LoadBalancer` that are events: an event is a tuple of the name and its arguments."""
_EVENT_SHARDS, _EVENT_SERVERS = 24, 5
"""Of :func:`example`."""


class ShardDomain:
    """The rounds of a balancer.

    `balancer`: as it is; its own methods remain events, too.
    """

    def __init__(self, balancer: LoadBalancer) -> None:
        self.balancer = balancer
        self._proven: BalancingRound | None = None

    @property
    def program(self) -> ContinualProgram:
        """The balancer's program."""
        return self.balancer.program

    def apply(self, event: tuple[Any, ...]) -> None:
        """Make an event: a name of :data:`EVENTS`, and the arguments of that method."""
        name, *arguments = event
        if name not in EVENTS:
            raise LoadBalancingError(f"event {name!r}: there are {', '.join(EVENTS)}")
        getattr(self.balancer, name)(*arguments)

    def prepare(self) -> None:
        """Bring the program up to date, unless an answer is proven to be the best without it."""
        self._proven = self.balancer.proven()
        if self._proven is None:
            self.balancer.prepare()

    def start(self) -> Any:
        """Return what last round's replicas can do."""
        return None if self._proven is not None else self.balancer.start()

    def solve(self, solver: Solver, deadline: float | None) -> Solution | BalancingRound:
        """Solve the program, unless the answer is known."""
        return self._proven or solver.solve(self.program, deadline=deadline)

    def round(self, solution: Solution | BalancingRound, deadline: float | None) -> BalancingRound:
        """Return the placement of a solution."""
        return solution if isinstance(solution, BalancingRound) else self.balancer.place(solution, deadline)

    def fallback(self, deadline: float | None) -> BalancingRound:
        """Return the last placement, as far as the memory allows it."""
        return self.balancer.keep(deadline)

    def accept(self, answer: BalancingRound) -> None:
        """Make a placement the last one."""
        self.balancer.accept(answer)
        self._proven = None

    def figures(self, answer: BalancingRound) -> dict[str, float]:
        """Return what a report shows."""
        return {
            "movements": answer.movements,
            "imbalance": answer.imbalance,
            "balanced": answer.balanced,
            "memory": answer.memory,
            "replicas": answer.replicas,
            "proven": answer.proven,
        }

    # ---- for `copter check` ----------------------------------------------------------------------

    def violations(self, answer: BalancingRound) -> Iterator[str]:
        """Yield servers whose memory is exceeded, and shards that are not served, counted one by one."""
        fleet, placement = self.balancer.fleet(), answer.placement
        used, served = (
            dict.fromkeys(range(fleet.memory.size), 0.0),
            dict.fromkeys(range(fleet.loads.size), 0.0),
        )
        for shard, server, share in zip(placement.shard, placement.server, placement.share, strict=True):
            used[int(server)] += float(fleet.sizes[shard])
            served[int(shard)] += float(share)
        for server, memory in enumerate(fleet.memory.tolist()):
            if used[server] > memory * (1 + 1e-9):
                yield f"server {self.balancer.servers[server]!r} uses {used[server]:g} of {memory:g}"
        for shard, share in served.items():
            if abs(share - 1.0) > 1e-9:
                yield f"shard {self.balancer.shards[shard]!r} is served to {share:.3%}"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Draw loads that change, and now and then a shard or a server that comes or goes."""
        balancer = self.balancer
        shards, servers = balancer.shards, balancer.servers
        if rng.random() < 0.2:
            yield "set_loads", rng.zipf(1.5, len(shards)).clip(0, 1000).astype(float)
        else:
            for k in rng.choice(len(shards), 3, replace=False).tolist():
                yield "set_load", shards[k], float(rng.uniform(0, 20))
        name = f"{balancer.number}-{int(rng.integers(1 << 30))}"
        match int(rng.integers(8)):
            case 0 if len(shards) < 2 * _EVENT_SHARDS:
                yield "add_shard", name, float(rng.uniform(0, 20)), float(rng.integers(1, 4))
            case 1 if len(shards) > _EVENT_SHARDS // 2:
                yield "remove_shard", shards[int(rng.integers(len(shards)))]
            case 2 if len(servers) < 2 * _EVENT_SERVERS:
                yield "add_server", name, 40.0
            case 3 if len(servers) > _EVENT_SERVERS:
                yield "remove_server", servers[int(rng.integers(len(servers)))]
            case 4:
                yield "set_memory", servers[int(rng.integers(len(servers)))], float(rng.integers(35, 60))
            case 5:
                yield "set_size", shards[int(rng.integers(len(shards)))], float(rng.integers(1, 4))


def example() -> ShardDomain:
    """Return a small fleet: `copter check copter.problems.load_balancing.domain:example`."""
    balancer = LoadBalancer()
    for server in range(_EVENT_SERVERS):
        balancer.add_server(f"server {server}", 40.0)
    balancer.add_shards([f"shard {k}" for k in range(_EVENT_SHARDS)], np.arange(_EVENT_SHARDS) + 1.0)
    return ShardDomain(balancer)
