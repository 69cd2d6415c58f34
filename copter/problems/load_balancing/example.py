"""Example of shards on servers as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

import numpy as np

from copter.problems.load_balancing.balancer import LoadBalancer


def example() -> LoadBalancer:
    """Return an example with a small fleet: `copter check copter.problems.load_balancing.example:example`."""
    balancer = LoadBalancer()
    for server in range(5):
        balancer.add_server(f"server {server}", 40.0)
    balancer.add_shards([f"shard {k}" for k in range(24)], np.arange(24) + 1.0)
    return balancer
