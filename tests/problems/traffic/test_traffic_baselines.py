"""Baselines of traffic engineering: figures by hand, bounds, published totals where the data is."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.traffic import edge_disjoint_paths, gravity, load_topology
from copter.problems.traffic.baselines import _split_clients, lp_top, pop, shortest_path
from copter.problems.traffic.state import TrafficState
from copter.problems.traffic.topology import Topology
from support import real_data
from support.amounts import examples
from support.networks import all_simple_paths, best_flow, least_mlu, line, networks, volumes_for

DATA = real_data.DATA / "wan"
KDL = DATA / "stanford-futuredata_POP" / "Kdl.graphml"
needs_data = pytest.mark.skipif(
    not KDL.is_file(), reason=f"the topologies are not in {DATA}; set COPTER_DATA to the folder of the data"
)
METHODS = {
    "shortest": shortest_path,
    "lp-top": lambda traffic: lp_top(traffic, solver="highs-simplex", tolerance=1e-9),
    "pop-1": lambda traffic: pop(traffic, 1, solver="highs-simplex", tolerance=1e-9),
    "pop-3": lambda traffic: pop(traffic, 3, solver="highs-simplex", tolerance=1e-9, split=0.5),
}


@st.composite
def states(draw):
    topology, paths = draw(networks())
    return topology, paths, draw(volumes_for(paths))


@pytest.mark.parametrize("objective", ["max-flow", "min-mlu"])
@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=examples(25), deadline=None)
@given(states())
def test_flows_are_feasible_and_no_better_than_the_optimum(objective, name, state):
    topology, paths, volume = state
    if objective == "min-mlu":
        topology = topology.with_capacity(np.maximum(topology.capacity, 0.5))
    traffic = TrafficState(topology, paths, objective)
    traffic.set_volumes(volume)
    done = METHODS[name](traffic)
    check = traffic.check(done.path_flows)
    assert (done.path_flows >= 0).all() and check.excess <= 1e-9
    assert 0 <= done.estimated_seconds <= done.seconds
    if objective == "max-flow":
        found, best = check.total_flow, best_flow(topology, paths, volume, topology.capacity)
        assert check.overload <= 1e-9 and found <= best + 1e-6
    else:
        found, best = check.mlu, least_mlu(topology, paths, volume, topology.capacity)
        assert check.lack <= 1e-9 and found >= best - 1e-6
    if name == "pop-1":
        assert found == pytest.approx(best, abs=1e-6)


def test_shortest_path_places_demands_whole_short_paths_first():
    topology, paths = line(10.0)
    traffic = TrafficState(topology, paths)
    ab, bc, ac = traffic.pairs([0, 1, 0], [1, 2, 2]).tolist()
    traffic.set_volumes([6.0, 4.0, 5.0], [ab, bc, ac])
    flows = shortest_path(traffic).path_flows  # a -> c takes two links: it comes last and does not fit whole
    assert flows[paths.first[[ab, bc, ac]]].tolist() == [6.0, 4.0, 0.0]
    traffic.set_volumes(4.0, [ac])
    assert shortest_path(traffic).path_flows[paths.first[ac]] == 4.0


def test_lp_top_solves_the_large_and_pins_the_small_to_what_is_left():
    """Two routes from a to b; nine small demands over the first link come after the large one."""
    graph = nx.Graph([("a", "b"), ("b", "c"), ("a", "c")])
    topology = Topology.from_networkx(graph, name="triangle", capacity=10.0)
    paths = all_simple_paths(topology, [(0, 1), (0, 2)], 2)
    traffic = TrafficState(topology, paths)
    traffic.set_volumes([14.0, 8.0])
    flows = METHODS["lp-top"](traffic).path_flows
    assert flows[: paths.first[1]].sum() == pytest.approx(14.0)
    direct = paths.first[1]
    assert flows[direct] == pytest.approx(10.0 - flows[1])  # what the large one leaves on a -> c
    assert flows[direct + 1 :].sum() == 0.0  # small demands have one path


def test_pop_gives_each_part_its_share_of_each_link():
    topology, paths = line(9.0)
    traffic = TrafficState(topology, paths)
    ab = traffic.pairs(0, 1)
    traffic.set_volumes(100.0, ab)
    done = pop(traffic, 3, solver="highs-simplex", tolerance=1e-9)
    assert done.path_flows.sum() == pytest.approx(3.0)  # one demand, in one part
    split = pop(traffic, 3, split=40.0, solver="highs-simplex", tolerance=1e-9)
    assert split.path_flows.sum() == pytest.approx(9.0)  # pieces of it in all parts


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=12), st.floats(0.0, 3.0))
def test_client_splitting_keeps_volumes_and_halves_the_largest(volume, split):
    volume = np.array(volume)
    pair, pieces = _split_clients(volume, split)
    demands = np.count_nonzero(volume)
    assert pair.size == int((1.0 + split) * demands)
    assert np.bincount(pair, pieces, volume.size) == pytest.approx(volume)
    counts = Counter(pair.tolist())
    if pair.size > demands:  # whatever was halved was as large as anything that is left
        parents = [2 * piece for owner, piece in zip(pair, pieces, strict=True) if counts[owner] > 1]
        assert min(parents) >= pieces.max() - 1e-12


@needs_data
@pytest.mark.long
def test_the_published_flow_of_shortest_paths_on_kdl():
    topology = load_topology(KDL)
    paths = edge_disjoint_paths(topology)
    traffic = TrafficState(topology, paths)
    matrix = gravity(topology, 1710674203)
    traffic.set_volumes(matrix[paths.source, paths.target])
    assert traffic.check(shortest_path(traffic).path_flows).total_flow == pytest.approx(20306, abs=1.0)
