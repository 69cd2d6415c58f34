"""Families of LPs of wide-area traffic, largest flow and least utilisation, for `copter bench export`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from copter.bench.sequences.family import Family, SequenceRounds, played, rounds_of_programs
from copter.extras import extra
from copter.problems.traffic import Objective


def families() -> list[Family]:
    """Return the families."""
    return [
        Family(
            "flow-volumes-small",
            "Largest flow, 20 nodes, 150 demands: the volumes of a tenth of the demands change.",
            ("sides",),
            partial(_rounds, "max-flow", 20, 150, "volumes"),
        ),
        Family(
            "flow-failures-large",
            "Largest flow, 40 nodes, 800 demands: links fail and return.",
            ("sides",),
            partial(_rounds, "max-flow", 40, 800, "failures"),
        ),
        Family(
            "flow-demands-large",
            "Largest flow, 30 nodes, 400 demands: 5% of the demands leave and as many arrive.",
            ("columns", "rows"),
            partial(_rounds, "max-flow", 30, 400, "demands"),
        ),
        Family(
            "mlu-failures-small",
            "Least utilisation, 20 nodes, 150 demands: links fail and return.",
            ("columns", "sides"),
            partial(_rounds, "min-mlu", 20, 150, "failures"),
        ),
        Family(
            "mlu-volumes-large",
            "Least utilisation, 50 nodes, 1,000 demands: the volumes of a tenth of the demands change.",
            ("sides",),
            partial(_rounds, "min-mlu", 50, 1_000, "volumes"),
        ),
    ]


def _rounds(objective: Objective, nodes: int, demands: int, change: str, seed: int) -> SequenceRounds:
    """Yield the rounds of a random network in which every node has three lines."""
    with extra("traffic"):
        import networkx as nx

    from copter.problems.traffic.model import TrafficDomain, TrafficEngineering
    from copter.problems.traffic.search import k_shortest_paths
    from copter.problems.traffic.topology import Topology

    rng = np.random.default_rng(seed)
    graph = nx.random_regular_graph(3, nodes, seed=seed)
    topology = Topology.from_networkx(graph, name="random", capacity=1.0)
    pairs = np.array([(a, b) for a in range(nodes) for b in range(nodes) if a != b])
    taken = pairs[np.sort(rng.choice(len(pairs), min(len(pairs), 2 * demands), replace=False))]
    paths = k_shortest_paths(topology, (taken[:, 0], taken[:, 1]), 4, cache=False)
    traffic = TrafficEngineering(topology, paths, objective)
    events = _events(traffic, demands, change, rng)
    return rounds_of_programs(played(TrafficDomain(traffic), events))


def _events(
    traffic: Any, demands: int, change: str, rng: np.random.Generator
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the events of each round: at first the volumes of random demands, with which links are busy."""
    topology, there = traffic.topology, traffic.paths.n_pairs
    present = np.sort(rng.choice(there, demands, replace=False))
    mean = 0.5 * float(topology.capacity.sum()) / (3.0 * demands)
    yield [("set_volumes", mean * rng.lognormal(0.0, 0.7, demands), present)]
    while True:
        if change == "failures":
            events: list[tuple[Any, ...]] = []
            down = np.flatnonzero(~traffic.up)
            if down.size > 4:
                events.append(("restore_links", down[: int(rng.integers(1, 4))]))
            up = np.flatnonzero(traffic.up)
            events.append(("fail_links", rng.choice(up, int(rng.integers(1, 3)), replace=False)))
            yield events
        elif change == "demands":
            count = demands // 20
            gone = rng.choice(present, count, replace=False)
            absent = np.setdiff1d(np.arange(there), present)
            new = np.sort(rng.choice(absent, count, replace=False))
            present = np.union1d(np.setdiff1d(present, gone), new)
            yield [
                ("remove_demands", np.sort(gone)),
                ("set_volumes", mean * rng.lognormal(0.0, 0.7, count), new),
            ]
        else:
            some = np.sort(rng.choice(present, max(1, demands // 10), replace=False))
            yield [("set_volumes", traffic.volume[some] * rng.uniform(0.8, 1.25, some.size), some)]
