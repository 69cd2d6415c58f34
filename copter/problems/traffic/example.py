"""Traffic engineering as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np

from copter.problems.traffic import Objective
from copter.problems.traffic.model import TrafficDomain, TrafficEngineering, TrafficRound
from copter.problems.traffic.search import k_shortest_paths
from copter.problems.traffic.topology import Topology

_OVER = 1e-9
"""Largest relative excess of a link or a demand."""


class ExampleTraffic(TrafficDomain):
    """Traffic engineering with random events, and a check that recounts each answer one by one."""

    def violations(self, answer: TrafficRound) -> Iterator[str]:
        """Yield the violations of flows, computed from the paths only."""
        traffic = self.traffic
        found = traffic.check(traffic.path_flows(answer.flows))
        if found.excess > _OVER * max(1.0, float(traffic.volume.max(initial=0.0))):
            yield f"a demand is exceeded by {found.excess:g}"
        if traffic.objective == "max-flow" and found.overload > _OVER:
            yield f"a link carries {found.overload:g} too much"
        lack = found.lack - float(traffic.volume[traffic.cut].sum())
        if traffic.objective == "min-mlu" and lack > _OVER * max(1.0, float(traffic.volume.sum())):
            yield f"demands with a path lack {lack:g}"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random changes of volumes and capacities, and links that fail and return."""
        traffic = self.traffic
        pairs = rng.choice(traffic.paths.n_pairs, 6, replace=False)
        yield "set_volumes", rng.uniform(0, 3, 6) * (rng.random(6) < 0.8), pairs
        down = np.flatnonzero(~traffic.up)
        if down.size:
            yield "restore_links", down[: int(rng.integers(1, 1 + down.size))]
        if rng.random() < 0.4:
            yield "fail_links", rng.choice(traffic.topology.n_links, 2, replace=False)
        if rng.random() < 0.2:
            links = rng.choice(traffic.topology.n_links, 3, replace=False)
            yield "set_capacities", rng.uniform(0, 4, 3), links


def example(objective: Objective = "max-flow") -> ExampleTraffic:
    """Return an example with a small network: `copter check copter.problems.traffic.example:example`."""
    graph = nx.random_regular_graph(3, 10, seed=1)
    topology = Topology.from_networkx(graph, name="example", capacity=3.0)
    paths = k_shortest_paths(topology, None, 3, cache=False)
    return ExampleTraffic(TrafficEngineering(topology, paths, objective))


def example_utilisation() -> ExampleTraffic:
    """Return the example with the objective of least maximum utilisation."""
    return example("min-mlu")
