"""Topologies: what becomes of a graph, the readers of files, what errors name, and the real files."""

import json
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.extras import MissingExtraError
from copter.problems.traffic import Topology, TopologyError, load_topology

pytestmark = pytest.mark.filterwarnings("ignore:topology")


@st.composite
def graphs(draw, kinds=(nx.Graph, nx.MultiGraph, nx.DiGraph, nx.MultiDiGraph)):
    """A graph of any kind with some links from a node to itself and, if its kind has them, parallel links."""
    graph = draw(st.sampled_from(kinds))()
    n = draw(st.integers(1, 7))
    graph.add_nodes_from(range(n))
    node = st.integers(0, n - 1)
    graph.add_edges_from(draw(st.lists(st.tuples(node, node), max_size=20)))
    return graph


def named_links(topology):
    return {(topology.nodes[u], topology.nodes[v]) for u, v in topology.links}


def expected(graph):
    """Nodes and links as the authors of POP make them from a graph."""
    simple = nx.DiGraph(graph.to_directed())
    simple.remove_edges_from(nx.selfloop_edges(simple))
    sizes = [len(part) for part in nx.strongly_connected_components(simple)]
    return simple, max(sizes)


@given(graphs())
def test_the_largest_component_in_both_directions(graph):
    topology = Topology.from_networkx(graph)
    simple, size = expected(graph)
    assert topology.n_nodes == size
    kept = [int(name) for name in topology.nodes]
    assert kept == [node for node in graph if node in kept]
    assert nx.is_strongly_connected(simple.subgraph(kept))
    assert named_links(topology) == {(str(u), str(v)) for u, v in simple.subgraph(kept).edges}
    assert (topology.capacity == 1000.0).all()


def test_capacities_as_given_added_up_or_replaced():
    graph = nx.MultiGraph()
    graph.add_edge("a", "b", capacity=3)
    graph.add_edge("b", "a", capacity=4.5)
    graph.add_edge("b", "c")
    graph.add_edge("b", "c")
    topology = Topology.from_networkx(graph)
    by_name = {topology.link_name(link): topology.capacity[link] for link in range(topology.n_links)}
    assert by_name == {"a -> b": 7.5, "b -> a": 7.5, "b -> c": 1000.0, "c -> b": 1000.0}
    assert (Topology.from_networkx(graph, capacity=20).capacity == 20).all()
    assert (load_topology(graph).capacity == topology.capacity).all()


def test_what_a_network_leaves_out_is_named():
    graph = nx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "a"), ("b", "one-way")])
    with pytest.warns(UserWarning) as told:
        Topology.from_networkx(graph)
    assert [str(one.message) for one in told] == [
        "topology 'network': a -> b: parallel links without capacities became one with 1000",
        "topology 'network': one-way: left out, because no links lead there and back",
    ]


@pytest.mark.parametrize("capacity", [-1, float("nan"), float("inf"), "wide"])
def test_a_wrong_capacity_names_the_link(capacity):
    graph = nx.DiGraph([("a", "b"), ("b", "a")])
    graph["b"]["a"]["capacity"] = capacity
    with pytest.raises(TopologyError, match="link b -> a: capacity"):
        Topology.from_networkx(graph)
    if capacity != "wide":
        good = Topology.from_networkx(graph, capacity=1.0)
        with pytest.raises(TopologyError, match="link b -> a: capacity"):
            good.with_capacity([1.0, capacity])


@pytest.mark.parametrize(
    ("nodes", "tail", "head", "words"),
    [
        (["a", "a"], [0, 1], [1, 0], "node name 'a': must be unique"),
        (["a", "b"], [0, 1], [1], "lengths must be equal"),
        (["a", "b"], [0, 1], [1, 2], r"node 2: must be in \[0, 2\)"),
        (["a", "b"], [0, 1], [1, 1], "b -> b: ends must differ"),
        (["a", "b"], [0, 0], [1, 1], "must not have the same two ends"),
    ],
)
def test_what_is_no_network_is_named(nodes, tail, head, words):
    with pytest.raises(TopologyError, match=words):
        Topology("net", nodes, np.array(tail), np.array(head), np.ones(len(tail)))
    with pytest.raises(TopologyError, match="must have at least one node"):
        Topology.from_networkx(nx.Graph())


@given(graphs())
def test_graphml_is_read_back(tmp_path_factory, graph):
    path = tmp_path_factory.mktemp("topology") / "net.graphml"
    nx.write_graphml(graph, path)
    read = load_topology(path)
    assert read.name == "net"
    assert read.nodes == Topology.from_networkx(graph).nodes
    assert named_links(read) == named_links(Topology.from_networkx(graph))


@given(graphs(), st.randoms(use_true_random=False))
def test_node_link_json_is_read_back_by_node_number(tmp_path_factory, graph, random):
    """Teal's files list nodes in any order; rows of matrices are by number."""
    data = {
        "directed": graph.is_directed(),
        "multigraph": graph.is_multigraph(),
        "graph": {},
        "nodes": [{"id": node} for node in random.sample(list(graph), len(graph))],
        "links": [{"source": u, "target": v, "capacity": 2.0 + u} for u, v in graph.edges()],
    }
    path = tmp_path_factory.mktemp("topology") / "net.json"
    path.write_text(json.dumps(data))
    nx.set_edge_attributes(graph, {edge: 2.0 + edge[0] for edge in graph.edges}, "capacity")
    read, direct = load_topology(path), Topology.from_networkx(graph)
    assert sorted(map(int, read.nodes)) == list(map(int, read.nodes))
    assert read.n_nodes == direct.n_nodes
    if read.nodes == direct.nodes:  # of components of one size either may stay
        assert dict(zip(read.links, read.capacity, strict=True)) == dict(
            zip(direct.links, direct.capacity, strict=True)
        )


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("a.graphml", "<graphml", "must be GraphML"),
        ("a.json", "{", "must be a graph in node-link format"),
        ("a.json", '{"nodes": [{"id": 0}], "links": [{"source": 0, "target": 7}]}', "7: must be a node"),
        ("a.txt", "", "must end in .graphml or .json"),
        ("a.graphml", None, "does not exist"),
    ],
)
def test_a_file_that_is_no_topology_is_named(tmp_path, file, text, words):
    path = tmp_path / file
    if text is not None:
        path.write_text(text)
    with pytest.raises(TopologyError, match=words) as raised:
        load_topology(path)
    assert str(path) in str(raised.value)


def test_topohub_by_name():
    topology = load_topology("topozoo/Abilene", capacity=10)
    assert (topology.name, topology.n_nodes, topology.n_links) == ("topozoo/Abilene", 11, 28)
    assert (topology.capacity == 10).all()
    with pytest.raises(TopologyError, match="'topozoo/Nowhere': must be a file or a topology"):
        load_topology("topozoo/Nowhere")


def test_without_topohub_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "topohub", None)
    with pytest.raises(MissingExtraError, match=r"topohub is .*: python -m pip install '.\[traffic\]'"):
        load_topology("topozoo/Abilene")
