"""Small examples of copter's domains, for `copter check NAME`, tests and measurements.

Each function returns a new domain of :class:`copter.Rounds`. Their names are entry points of the group
``copter.domains``.
"""

from __future__ import annotations

import networkx as nx
import numpy as np

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.load_balancing.balancer import LoadBalancer
from copter.problems.load_balancing.groups import GroupBalancer
from copter.problems.placement.rounds.rounds import PlacementRounds
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import TaskKind
from copter.problems.shockwave.scheduler import Planner, Settings, make_relaxation
from copter.problems.sia.policy import SiaPolicy
from copter.problems.traffic import Objective
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.search import k_shortest_paths
from copter.problems.traffic.topology import Topology


def sia() -> SiaPolicy:
    """Return Sia on six nodes."""
    return SiaPolicy(Cluster([GpuType("T4", 4, 4), GpuType("A100", 8, 2)]))


def load_balancing() -> LoadBalancer:
    """Return 24 shards on five servers."""
    balancer = LoadBalancer()
    for server in range(5):
        balancer.add_server(f"server {server}", 40.0)
    balancer.add_shards([f"shard {k}" for k in range(24)], np.arange(24) + 1.0)
    return balancer


def load_balancing_groups() -> GroupBalancer:
    """Return 24 groups of 1 to 24 equal shards on five servers."""
    balancer = GroupBalancer()
    for server in range(5):
        balancer.add_server(f"server {server}", 400.0)
    balancer.add_groups([f"group {k}" for k in range(24)], np.arange(24) + 1, np.arange(24) + 1.0)
    return balancer


def traffic(objective: Objective = "max-flow") -> TrafficEngineering:
    """Return traffic engineering on a network of 10 nodes; by default, it maximises the flow."""
    graph = nx.random_regular_graph(3, 10, seed=1)
    topology = Topology.from_networkx(graph, name="example", capacity=3.0)
    return TrafficEngineering(topology, k_shortest_paths(topology, None, 3, cache=False), objective)


def traffic_utilisation() -> TrafficEngineering:
    """Return traffic engineering on this network that minimises the maximum utilisation of a link."""
    return traffic("min-mlu")


def shockwave() -> Planner:
    """Return Shockwave's market with plans of 12 rounds."""
    return Planner(Settings(rounds=12, shim_seconds=0.2), make_relaxation("copter"))


def placement() -> PlacementRounds:
    """Return tasks on six servers, of which four have GPUs."""
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
    return PlacementRounds(servers, kinds, moves=4)
