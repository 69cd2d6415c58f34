"""Shards on servers as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from copter.problems.load_balancing.balancer import LoadBalancer, ShardDomain
from copter.problems.load_balancing.outcome import BalancingRound

_EVENT_SHARDS, _EVENT_SERVERS = 24, 5
"""Numbers of shards and servers of :func:`example`."""


class ExampleShards(ShardDomain):
    """Shards on servers with random events, and a check that recounts each answer one by one."""

    def violations(self, answer: BalancingRound) -> Iterator[str]:
        """Yield servers whose memory is exceeded, and shards that are not fully served."""
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
                yield (f"server {self.balancer.servers[server]!r} uses {used[server]:g}: at most {memory:g}")
        for shard, share in served.items():
            if abs(share - 1.0) > 1e-9:
                yield f"shard {self.balancer.shards[shard]!r} is served to {share:.3%}: must be 100%"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random changes of loads, and occasionally a shard or server that is added or removed."""
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


def example() -> ExampleShards:
    """Return an example with a small fleet: `copter check copter.problems.load_balancing.example:example`."""
    balancer = LoadBalancer()
    for server in range(_EVENT_SERVERS):
        balancer.add_server(f"server {server}", 40.0)
    balancer.add_shards([f"shard {k}" for k in range(_EVENT_SHARDS)], np.arange(_EVENT_SHARDS) + 1.0)
    return ExampleShards(balancer)
