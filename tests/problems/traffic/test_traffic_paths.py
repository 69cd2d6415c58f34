"""Path sets against networkx, for any number of threads; path sets of one's own; the cache and its damage."""

from itertools import islice

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from copter.problems.traffic import (
    PathError,
    PathSet,
    Topology,
    edge_disjoint_paths,
    k_shortest_paths,
    search,
)
from copter.problems.traffic.search import _cache_folder

ARRAYS = ("source", "target", "first", "pointer", "link")


@st.composite
def topologies(draw):
    """A strongly connected network of two to nine nodes, links of several capacities."""
    n = draw(st.integers(2, 9))
    node = st.integers(0, n - 1)
    links = draw(st.lists(st.tuples(node, node), min_size=2, max_size=40))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    for tail, head in links:
        graph.add_edge(tail, head, capacity=draw(st.sampled_from([1.0, 3.0, 10.0])))
    topology = Topology.from_networkx(graph)
    assume(topology.n_nodes >= 2)
    return topology


@pytest.fixture(scope="module", autouse=True)
def compiled():
    line = Topology.from_networkx(nx.path_graph(2))
    edge_disjoint_paths(line, cache=False)


@pytest.fixture
def ring():
    return Topology.from_networkx(nx.cycle_graph(5), name="ring")


def lists(paths, topology):
    """Nodes of every path, by pair."""
    return [
        [paths.nodes(topology, path) for path in range(paths.first[pair], paths.first[pair + 1])]
        for pair in range(paths.n_pairs)
    ]


def assert_valid(paths, topology):
    for pair, own in enumerate(lists(paths, topology)):
        assert own
        for path, nodes in zip(range(paths.first[pair], paths.first[pair + 1]), own, strict=True):
            links = paths.link[paths.pointer[path] : paths.pointer[path + 1]]
            assert topology.tail[links[1:]].tolist() == topology.head[links[:-1]].tolist()
            assert (nodes[0], nodes[-1]) == (paths.source[pair], paths.target[pair])
            assert len(set(nodes)) == len(nodes)


def assert_same(one, other):
    for name in ARRAYS:
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@given(topologies(), st.integers(1, 5))
def test_disjoint_paths_are_as_many_as_a_maximum_flow(topology, k):
    paths = edge_disjoint_paths(topology, k=k, cache=False)
    assert_valid(paths, topology)
    graph = topology.to_networkx()
    for pair in range(paths.n_pairs):
        ends = int(paths.source[pair]), int(paths.target[pair])
        assert paths.counts[pair] == min(k, nx.edge_connectivity(graph, *ends))
        own = slice(paths.first[pair], paths.first[pair + 1])
        links = paths.link[paths.pointer[own.start] : paths.pointer[own.stop]]
        assert np.unique(links).size == links.size
        assert (np.diff(paths.hops[own]) >= 0).all()
        assert paths.hops[own.start] >= nx.shortest_path_length(graph, *ends)
        if paths.counts[pair] == 1 == nx.edge_connectivity(graph, *ends):
            assert paths.hops[own.start] == nx.shortest_path_length(graph, *ends)


@given(topologies(), st.integers(1, 12), st.sampled_from(["hops", "inverse-capacity"]))
def test_shortest_paths_are_as_long_as_those_of_networkx(topology, k, weight):
    paths = k_shortest_paths(topology, k=k, weight=weight, cache=False)
    assert_valid(paths, topology)
    graph = topology.to_networkx()
    for *_, data in graph.edges(data=True):
        data["length"] = 1.0 if weight == "hops" else 1 / data["capacity"]
    for pair, own in enumerate(lists(paths, topology)):
        assert len({tuple(nodes) for nodes in own}) == len(own)
        ends = int(paths.source[pair]), int(paths.target[pair])
        reference = list(islice(nx.shortest_simple_paths(graph, *ends, weight="length"), k))
        expected = [nx.path_weight(graph, nodes, "length") for nodes in reference]
        found = [nx.path_weight(graph, nodes, "length") for nodes in own]
        assert found == pytest.approx(expected)


@given(topologies(), st.data())
def test_the_same_for_any_threads_and_any_choice_of_pairs(topology, data):
    n = topology.n_nodes
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    chosen = np.array(data.draw(st.lists(pairs, max_size=12)), int).reshape(-1, 2)
    for find in (edge_disjoint_paths, k_shortest_paths):
        everything = find(topology, k=3, threads=1, cache=False)
        assert_same(everything, find(topology, k=3, threads=3, cache=False))
        at = {pair: k for k, pair in enumerate(zip(everything.source, everything.target, strict=True))}
        expected = everything.take(np.array([at[tuple(pair)] for pair in chosen], int))
        assert_same(expected, find(topology, (chosen[:, 0], chosen[:, 1]), 3, threads=2, cache=False))


def test_an_unreachable_pair_is_named():
    """A topology made by hand can be one that a reader would have cut down."""
    one_way = Topology("one way", ["a", "b"], np.array([0]), np.array([1]), np.ones(1))
    for find in (edge_disjoint_paths, k_shortest_paths):
        assert find(one_way, ([0], [1]), cache=False).n_paths == 1
        with pytest.raises(PathError, match="must have a path from 'b' to 'a'"):
            find(one_way, cache=False)
    closed = Topology("closed", ["a", "b"], np.array([0, 1]), np.array([1, 0]), np.array([1.0, 0.0]))
    assert k_shortest_paths(closed, cache=False).n_paths == 2
    with pytest.raises(PathError, match="must have a path from 'b' to 'a'"):
        k_shortest_paths(closed, weight="inverse-capacity", cache=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pairs": ([0, 1], [1])}, "must be lists of equal length"),
        ({"pairs": ([0, 5], [1, 1])}, "pair 1: node 5: must be in"),
        ({"pairs": ([0, 2], [1, 2])}, "pair 1: source and target must differ, not both be '2'"),
        ({"k": 0}, "k = 0"),
        ({"weight": "miles"}, "weight = 'miles'"),
    ],
)
def test_wrong_arguments_are_named(ring, arguments, words):
    with pytest.raises(ValueError, match=words):
        k_shortest_paths(ring, cache=False, **arguments)


def test_own_paths_by_name_or_number(ring):
    paths = PathSet.from_lists(ring, {("0", "2"): [["0", "1", "2"], [0, 4, 3, 2]], (3, 4): [["3", 4]]})
    assert lists(paths, ring) == [[[0, 1, 2], [0, 4, 3, 2]], [[3, 4]]]
    assert_valid(paths, ring)


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ({("0", "2"): [["0", "2"]]}, r"path \['0', '2'\]: the topology has no link 0 -> 2"),
        ({("0", "2"): [["0", "1"]]}, r"path \['0', '1'\]: must lead from the source to the target"),
        ({("0", "1"): [["0", "4", "0", "1"]]}, "must not visit '0' twice"),
        ({(0, 7): [[0, 7]]}, r"pair \(0, 7\): 7: must be a node of 'ring'"),
        ({("0", "1"): []}, r"pair \('0', '1'\): must have at least one path"),
        ({("0", "0"): [["0"]]}, r"pair \('0', '0'\): source and target must differ"),
    ],
)
def test_an_own_path_that_is_none_is_named(ring, paths, words):
    with pytest.raises(PathError, match=words):
        PathSet.from_lists(ring, paths)


@pytest.fixture
def searches(monkeypatch):
    """How often paths were really searched for."""
    made = []
    real = search._search
    monkeypatch.setattr(search, "_search", lambda *args: made.append(1) or real(*args))
    return made


def test_the_cache_is_by_content(ring, tmp_path, searches):
    first = edge_disjoint_paths(ring, folder=tmp_path)
    assert_same(first, edge_disjoint_paths(ring.with_capacity(5.0), folder=tmp_path))
    assert len(searches) == 1, "capacities do not matter for disjoint paths"
    k_shortest_paths(ring, folder=tmp_path)
    k_shortest_paths(ring, k=3, folder=tmp_path)
    k_shortest_paths(ring, ([0], [2]), folder=tmp_path)
    k_shortest_paths(ring, weight="inverse-capacity", folder=tmp_path)
    k_shortest_paths(ring.with_capacity(np.arange(1, 11)), weight="inverse-capacity", folder=tmp_path)
    assert len(searches) == 6 == len(list(tmp_path.iterdir()))


@pytest.mark.parametrize("damage", ["cut", "flipped", "text", "other pairs"])
def test_a_damaged_file_is_made_again(ring, tmp_path, searches, caplog, damage):
    found = edge_disjoint_paths(ring, folder=tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    arrays = {name: getattr(found, name) for name in ARRAYS}
    if damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "flipped":
        at = whole.index(found.link.tobytes())
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    elif damage == "text":
        file.write_text("paths")
    else:
        np.savez(file, **arrays | {"source": arrays["target"]})
    assert_same(found, edge_disjoint_paths(ring, folder=tmp_path))
    assert len(searches) == 2 and "is replaced" in caplog.text
    assert_same(found, edge_disjoint_paths(ring, folder=tmp_path))
    assert len(searches) == 2


def test_the_folder_of_the_cache(ring, tmp_path, monkeypatch):
    monkeypatch.setenv("COPTER_CACHE", str(tmp_path / "named"))
    edge_disjoint_paths(ring)
    assert len(list((tmp_path / "named").iterdir())) == 1
    monkeypatch.delenv("COPTER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("sys.platform", "linux")
    assert _cache_folder() == tmp_path / "xdg" / "copter"
