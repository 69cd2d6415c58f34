"""Traffic matrices: the published instances, draws one by one, files and their errors; drift and failures."""

from itertools import islice

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.traffic import (
    DRIFTS,
    MODELS,
    POISSON_FLAT,
    MatrixError,
    Topology,
    bimodal,
    check_matrix,
    drift,
    failures,
    gravity,
    load_topology,
    make_matrix,
    poisson,
    read_matrices,
)
from support import real_data

DATA = real_data.DATA / "wan"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"no real topologies in {DATA}; set COPTER_DATA to the folder of the data"
)
SEEDS = st.integers(0, 2**31 - 1)


@pytest.fixture
def ring():
    """Five nodes in a ring, both ways, capacities 1 to 10."""
    return Topology.from_networkx(nx.cycle_graph(5), name="ring").with_capacity(np.arange(1.0, 11.0))


@needs_data
@pytest.mark.data
@pytest.mark.parametrize(
    ("model", "seed", "total", "nonzero"),
    [
        ("gravity", 1710674203, 24000.064, 567_745),
        ("bimodal", 1047347487, 24969.015565721344, 754 * 753),
        ("poisson", 1021533148, 707872.1, 285_904),
    ],
)
def test_published_instances(model, seed, total, nonzero):
    """Totals as published: those of single precision to its rounding, the other one to the last digits."""
    topology = load_topology(DATA / "stanford-futuredata_POP" / "Kdl.graphml")
    matrix = make_matrix(model, topology, seed=seed)
    rounding = 1e-14 if model == "bimodal" else 2 * float(np.finfo(np.float32).eps)
    assert matrix.sum() == pytest.approx(total, rel=rounding)
    assert np.count_nonzero(matrix) == nonzero


def test_models_drawn_one_by_one(ring):
    """Plain loops that draw every demand by itself, in the published order."""
    graph, n = ring.to_networkx(), 5
    leaving, entering = (
        [sum(data["capacity"] for *_, data in edges([u], data=True)) for u in graph]
        for edges in (graph.out_edges, graph.in_edges)
    )
    random = np.random.RandomState(7)
    expected = np.zeros((n, n))
    for u in range(n):
        for v in range(n):
            if u != v:
                share = leaving[u] / sum(leaving) * entering[v] / (sum(entering) - entering[u])
                expected[u, v] = 1500 * 2 * max(random.normal(share, share / 4), 0.0)
    np.testing.assert_allclose(gravity(ring, 7, 2.0), expected, rtol=1e-6)

    for parameters in ({"rate": 8e9, "decay": 0.35, "factor": 4.3e-9}, POISSON_FLAT):
        random = np.random.RandomState(7)
        for u in range(n):
            for v in range(n):
                hops = nx.shortest_path_length(graph, u, v)
                drawn = random.poisson(parameters["rate"] * parameters["decay"] ** hops)
                expected[u, v] = drawn * parameters["factor"] * 2 if u != v else 0.0
        np.testing.assert_allclose(poisson(ring, 7, 2.0, **parameters), expected, rtol=1e-6)


def test_bimodal_has_two_ranges():
    line = Topology.from_networkx(nx.path_graph(60))
    values = bimodal(line, 3, 1.0)[~np.eye(60, dtype=bool)]
    high = values > 0.004
    assert values[high].min() >= 0.0055 and values.max() <= 0.011 and values[~high].max() <= 0.00275
    assert high.mean() == pytest.approx(0.2, abs=0.04)


@pytest.mark.parametrize("model", MODELS)
def test_models_follow_their_seed_and_scale(ring, model):
    one = make_matrix(model, ring, seed=1, scale=4.0)
    np.testing.assert_array_equal(one, make_matrix(model, ring, seed=1, scale=4.0))
    np.testing.assert_allclose(2 * one, make_matrix(model, ring, seed=1, scale=8.0), rtol=1e-6)
    assert not np.array_equal(one, make_matrix(model, ring, seed=2, scale=4.0))
    assert not one.diagonal().any()
    check_matrix(one, ring)


@pytest.mark.parametrize("ending", ["npy", "npz", "csv"])
def test_files_are_read_back(ring, tmp_path, ending):
    matrix = np.random.default_rng(0).random((5, 5))
    path = tmp_path / f"matrix.{ending}"
    {"npy": np.save, "npz": np.savez, "csv": lambda file, array: np.savetxt(file, array, "%.18g", ",")}[
        ending
    ](path, matrix)
    np.testing.assert_array_equal(read_matrices(path, ring), matrix[None])
    np.testing.assert_array_equal(make_matrix(path, ring, seed=3, scale=9.0), matrix)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_a_file_of_several_matrices_and_a_wrong_demand(ring, tmp_path, value):
    matrices = np.random.default_rng(0).integers(0, 9, (3, 5, 5)).astype(float)
    np.save(tmp_path / "m.npy", matrices)
    np.testing.assert_array_equal(read_matrices(tmp_path / "m.npy", ring), matrices)
    np.testing.assert_array_equal(make_matrix(tmp_path / "m.npy", ring), matrices[0])
    matrices[2, 3, 1] = value
    np.save(tmp_path / "m.npy", matrices)
    with pytest.raises(MatrixError, match=f"matrix 2: demand from '3' to '1' = {value}: must be finite"):
        read_matrices(tmp_path / "m.npy", ring)


def test_files_that_are_no_matrix(ring, tmp_path):
    def error(name, write):
        write(tmp_path / name)
        with pytest.raises(MatrixError) as raised:
            read_matrices(tmp_path / name, ring)
        assert name in str(raised.value)
        return str(raised.value)

    eye = np.eye(5)
    assert "shape = 4 x 5: must be 5 x 5, the nodes of 'ring'" in error(
        "a.npy", lambda path: np.save(path, eye[1:])
    )
    assert "pickle" in error("c.npy", lambda path: np.save(path, eye.astype(object), allow_pickle=True))
    assert "must be one array" in error("e.npz", lambda path: np.savez(path, a=eye, b=eye))
    assert "must be readable" in error("g.csv", lambda path: path.write_text("1,2\n3,x\n"))
    assert ".npy, .npz, .csv" in error("i.pkl", lambda path: path.write_bytes(b""))
    with pytest.raises(MatrixError, match="must be an existing file"):
        read_matrices(tmp_path / "j.npy", ring)
    with pytest.raises(MatrixError, match="'chaos': must be a model"):
        make_matrix("chaos", ring)
    with pytest.raises(MatrixError, match="'ring'"):
        gravity(ring.with_capacity(0.0), 1)


@given(st.sampled_from(DRIFTS), SEEDS, st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_drift_from_round_to_round(kind, seed, source):
    source = np.array(source)
    volume = np.arange(1.0, source.size + 1)
    before = volume
    for now in islice(drift(kind, source, volume, seed=seed), 3):
        ratio = now / before
        if kind == "permute":
            assert sorted(now) == sorted(before)
        else:
            assert (np.abs(ratio - 1) <= 0.1 + 1e-12).all()
        groups = {"source": source, "global": np.zeros_like(source)}.get(kind, np.arange(source.size))
        if kind != "permute":
            for group in np.unique(groups):
                assert np.ptp(ratio[groups == group]) < 1e-12
            assert np.unique(ratio.round(12)).size == np.unique(groups).size
        before = now
    assert volume.tolist() == list(range(1, source.size + 1)), "the caller's array stays as it was"
    again = islice(drift(kind, source, volume, seed=seed), 3)
    assert before.tolist() == list(again)[-1].tolist()


@given(SEEDS, st.integers(0, 5))
def test_links_fail_and_come_back(seed, count):
    ring = Topology.from_networkx(nx.cycle_graph(6)).with_capacity([0.0, 0.0, *[1.0] * 10])
    down = set()
    for events in islice(failures(ring, count, seed=seed), 6):
        failed, restored = set(events.failed.tolist()), set(events.restored.tolist())
        assert not failed & down and restored <= down
        down = (down - restored) | failed
        lines = {frozenset((int(ring.tail[link]), int(ring.head[link]))) for link in down}
        assert len(lines) == count
        for line in lines:
            for ends in (tuple(line), tuple(line)[::-1]):
                assert ring.capacity[ring.links[ends]] == 0 or ring.links[ends] in down
        assert not any(ring.capacity[link] == 0 for link in down)


def test_wrong_changes_are_named(ring):
    with pytest.raises(ValueError, match="kind = 'chaos'"):
        drift("chaos", [0], [1.0], seed=0)
    with pytest.raises(ValueError, match=r"amplitude = 1\.5"):
        drift("global", [0], [1.0], seed=0, amplitude=1.5)
    with pytest.raises(ValueError, match="count = 6: must be from 0 to 5, the lines of 'ring'"):
        failures(ring, 6, seed=0)


def test_a_matrix_has_rows_of_nodes_that_the_topology_left_out(tmp_path):
    graph = nx.Graph()
    graph.add_nodes_from("EABFCD")
    graph.add_edges_from(["AB", "BC", "CD", "DA"])
    topology = Topology.from_networkx(graph, name="net")
    assert topology.left_out == ((0, "E"), (3, "F"))
    assert topology.with_capacity(2.0).left_out == topology.left_out
    demands, kept = np.arange(36.0).reshape(6, 6), [1, 2, 4, 5]
    demands[[0, 3]] = demands[:, [0, 3]] = 0.0
    np.save(tmp_path / "net.npy", demands)
    found = read_matrices(tmp_path / "net.npy", topology)
    np.testing.assert_array_equal(found, demands[np.ix_(kept, kept)][None])
    demands[1, 3] = 1.0
    np.save(tmp_path / "net.npy", demands)
    with pytest.raises(MatrixError, match="demands of node 'F'"):
        read_matrices(tmp_path / "net.npy", topology)
