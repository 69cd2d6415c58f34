"""Examples of traffic engineering as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

import networkx as nx

from copter.problems.traffic import Objective
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.search import k_shortest_paths
from copter.problems.traffic.topology import Topology


def example(objective: Objective = "max-flow") -> TrafficEngineering:
    """Return an example with a small network: `copter check copter.problems.traffic.example:example`."""
    graph = nx.random_regular_graph(3, 10, seed=1)
    topology = Topology.from_networkx(graph, name="example", capacity=3.0)
    paths = k_shortest_paths(topology, None, 3, cache=False)
    return TrafficEngineering(topology, paths, objective)


def example_utilisation() -> TrafficEngineering:
    """Return the example with the objective of least maximum utilisation."""
    return example("min-mlu")
