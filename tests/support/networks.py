"""Small networks for tests of traffic engineering, and their linear programs built without copter."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, hstack, vstack

from copter.problems.traffic.paths import PathSet
from copter.problems.traffic.topology import Topology


def line(capacity: float = 10.0) -> tuple[Topology, PathSet]:
    """a - b - c, both directions; every pair has one path."""
    graph = nx.path_graph(["a", "b", "c"])
    topology = Topology.from_networkx(graph, name="line", capacity=capacity)
    pairs = itertools.permutations(range(3), 2)
    return topology, all_simple_paths(topology, pairs, 4)


def all_simple_paths(topology: Topology, pairs, k: int) -> PathSet:
    """Up to k shortest simple paths of each pair, by networkx."""
    graph = topology.to_networkx()
    found = {}
    for source, target in pairs:
        every = nx.shortest_simple_paths(graph, source, target)
        found[source, target] = [list(map(int, path)) for path in itertools.islice(every, k)]
    return PathSet.from_lists(topology, found)


@st.composite
def networks(draw, *, nodes: int = 6):
    """(topology, paths): a ring with chords, capacities from 0 to 9, some pairs, up to three paths each."""
    n = draw(st.integers(3, nodes))
    graph = nx.cycle_graph(n)
    for _ in range(draw(st.integers(0, n))):
        u, v = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
        if u != v:
            graph.add_edge(u, v)
    topology = Topology.from_networkx(graph, name="ring")
    amounts = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.7, 9.0])
    size = topology.n_links
    topology = topology.with_capacity(draw(st.lists(amounts, min_size=size, max_size=size)))
    pairs = list(itertools.permutations(range(n), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=8, unique=True))
    return topology, all_simple_paths(topology, chosen, draw(st.integers(1, 3)))


def volumes_for(paths: PathSet):
    """Strategy of one volume a pair."""
    amounts = st.one_of(st.just(0.0), st.floats(0.01, 8.0))
    return st.lists(amounts, min_size=paths.n_pairs, max_size=paths.n_pairs).map(np.array)


def incidence(topology: Topology, paths: PathSet) -> csr_array:
    """Links by paths, entry by entry from the paths' own lists."""
    rows, columns = [], []
    for path in range(paths.n_paths):
        for k in range(paths.pointer[path], paths.pointer[path + 1]):
            rows.append(int(paths.link[k]))
            columns.append(path)
    shape = (topology.n_links, paths.n_paths)
    return csr_array(coo_array((np.ones(len(rows)), (rows, columns)), shape=shape))


def membership(paths: PathSet) -> csr_array:
    """Pairs by paths."""
    owner = [pair for pair in range(paths.n_pairs) for _ in range(paths.first[pair], paths.first[pair + 1])]
    shape = (paths.n_pairs, paths.n_paths)
    return csr_array(coo_array((np.ones(len(owner)), (owner, range(len(owner)))), shape=shape))


def best_flow(topology: Topology, paths: PathSet, volume, capacity) -> float:
    """Maximum total flow, by scipy."""
    matrix = vstack((incidence(topology, paths), membership(paths)))
    found = linprog(-np.ones(paths.n_paths), matrix, np.concatenate((capacity, volume)))
    return -found.fun


def least_mlu(topology: Topology, paths: PathSet, volume, capacity) -> float:
    """Least maximum utilisation that serves all demands, by scipy; links without capacity carry nothing."""
    theta = csr_array(np.append(-np.asarray(capacity, float), np.zeros(0)).reshape(-1, 1))
    links = hstack((incidence(topology, paths), theta))
    demands = hstack((membership(paths), csr_array((paths.n_pairs, 1))))
    cost = np.append(np.zeros(paths.n_paths), 1.0)
    found = linprog(cost, links, np.zeros(topology.n_links), demands, volume)
    assert found.status == 0, found.message
    return found.fun
