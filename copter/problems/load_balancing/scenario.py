"""A whole experiment: shards, servers, and the loads of each round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from copter.arrays import Floats
from copter.problems.load_balancing import Loads, Mode
from copter.problems.load_balancing.balancer import TOLERANCE, LoadBalancer
from copter.problems.load_balancing.groups import GroupBalancer
from copter.problems.load_balancing.workload import (
    LoadTable,
    few_changed,
    lognormal_loads,
    lognormal_sizes,
    zipf_loads,
)

_MEMORY = 2.0
"""Memory of a server over the size of its share of the shards, as in the authors' experiment."""


@dataclass(frozen=True)
class ShardScenario:
    """Scenario in which shard j starts on server j modulo their number.

    `memory`: memory of each server, in the unit of the sizes; default: twice its share of the sizes. `table`:
    given loads, with their shards and rounds. `changed`: number of shards that take their new loads in a
    round; default: all. `distribution`: of the loads without a table; with lognormal loads the sizes are
    lognormal too, otherwise each size is 1. `copies`: with more than 1, each shard is a group of as
    many equal shards, which start on random servers.
    """

    shards: int
    servers: int
    rounds: int
    mode: Mode = "stateless"
    seed: int = 0
    memory: float | None = None
    tolerance: float = TOLERANCE
    table: LoadTable | None = None
    changed: int | None = None
    distribution: Loads = "zipf"
    copies: int = 1

    @classmethod
    def of_table(
        cls,
        table: LoadTable,
        servers: int,
        rounds: int | None = None,
        memory: float | None = None,
        tolerance: float = TOLERANCE,
    ) -> ShardScenario:
        """Return the scenario of a table of loads.

        `rounds`: number of first rounds; default: all. `memory`: memory of each server, in shards; default:
        twice the shards per server.
        """
        there = table.loads.shape[0]
        most = there if rounds is None else min(rounds, there)
        return cls(len(table.shards), servers, most, memory=memory, tolerance=tolerance, table=table)

    def loads(self) -> Iterator[Floats]:
        """Iterate over the loads of each round."""
        if self.table is not None:
            rounds = iter(self.table.loads[: self.rounds])
        elif self.distribution == "lognormal":
            rounds = lognormal_loads(self.shards, self.servers, self.rounds, self.seed)
        else:
            rounds = zipf_loads(self.shards, self.rounds, self.mode, self.seed)
        return rounds if self.changed is None else few_changed(rounds, self.changed, self.seed)

    def balancer(self) -> LoadBalancer:
        """Return a balancer with all servers and shards, without load."""
        balancer = LoadBalancer(self.tolerance)
        sizes = self._sizes()
        for server in range(self.servers):
            balancer.add_server(server, self._room(sizes))
        ids = range(self.shards) if self.table is None else self.table.shards
        balancer.add_shards(ids, 0.0, sizes, (j % self.servers for j in range(self.shards)))
        return balancer

    def groups(self) -> GroupBalancer:
        """Return a balancer with all servers and groups, without load."""
        balancer, sizes = GroupBalancer(self.tolerance), self._sizes()
        for server in range(self.servers):
            balancer.add_server(server, self._room(sizes))
        places = np.random.default_rng(self.seed).permutation(self.shards * self.copies) % self.servers
        on = (Counter(own.tolist()) for own in places.reshape(self.shards, self.copies))
        balancer.add_groups(range(self.shards), self.copies, 0.0, sizes, on)
        return balancer

    def _room(self, sizes: Floats) -> float:
        """Return the memory of each server."""
        total = self.copies * float(sizes.sum())
        return _MEMORY * total / self.servers if self.memory is None else self.memory

    def _sizes(self) -> Floats:
        if self.table is None and self.distribution == "lognormal":
            return lognormal_sizes(self.shards, self.seed)
        return np.ones(self.shards)

    def check(self) -> None:
        """Raise LoadBalancingError if the servers cannot hold the shards."""
        self.balancer().check()
