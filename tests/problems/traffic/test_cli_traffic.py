"""`copter run traffic` and `copter bench traffic` on a small network: documents, folders, errors."""

import json
import math

import networkx as nx
import numpy as np
import pytest

from copter.bench.settings import SolverSettings
from copter.problems.traffic import course as bench
from copter.problems.traffic import load_topology, make_matrix
from copter.problems.traffic.course import _events_of, course_of, make_instance
from support.amounts import longer
from support.commands import invoke, words
from support.measuring import measure

NODES = 7


@pytest.fixture(scope="module")
def topology_file(tmp_path_factory):
    """A ring with two chords, with places for its nodes."""
    graph = nx.cycle_graph(NODES)
    graph.add_edges_from([(0, 3), (2, 5)])
    for node in graph:
        graph.nodes[node].update(Longitude=float(np.cos(node)), Latitude=float(np.sin(node)))
    path = tmp_path_factory.mktemp("network") / "ring.graphml"
    nx.write_graphml(graph, path)
    return path


@pytest.fixture(scope="module")
def matrices_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("demands") / "three.npy"
    np.save(path, np.random.default_rng(1).uniform(0.0, 300.0, (3, NODES, NODES)))
    return path


@pytest.fixture
def instance(topology_file):
    topology = load_topology(topology_file)
    return make_instance(topology, make_matrix("gravity", topology, seed=2))


def played(instance, objective, names, **options):
    chosen = {"rounds": 3, "changes": ["source"], "seed": 4, "split": 0.5} | options
    course = course_of(instance, objective, **chosen)
    measured = [measure(course, SolverSettings(name, tolerance=1e-6)) for name in names]
    course.compare(measured)
    return {one.solver: one.records for one in measured}


NAMES = ("copter", "highs-hot", "highs-simplex", "lp-top", "pop-2", "shortest")


@pytest.mark.parametrize(
    ("objective", "measure_name"), [("max-flow", "total_flow"), longer("min-mlu", "mlu")]
)
def test_all_solvers_see_the_same_rounds(instance, objective, measure_name):
    records = played(instance, objective, NAMES)
    for rounds in zip(*records.values(), strict=True):
        exact = [
            record[measure_name] for record in rounds if record["solver"] in ("highs-hot", "highs-simplex")
        ]
        assert exact[0] == pytest.approx(exact[1], rel=1e-6)
        for record in rounds:
            assert record["optimality"] <= 1.0 + 1e-9
            assert record["overload"] <= 1e-9
            assert record["parallel_seconds_estimated"] <= record["seconds"] + 1e-12
        ours = next(record for record in rounds if record["solver"] == "copter")
        assert ours["optimality"] >= 1 - 1e-5 and ours["status"] == "optimal"
        assert ours[measure_name] == pytest.approx(exact[0], rel=1e-4)


def test_optimality_is_against_the_best_bound_and_without_one_the_best_flow():
    course = bench.TrafficCourse(None, None)

    class Stand:
        def __init__(self, solver, *records):
            self.records = [
                dict(zip(("round", "bound", "answer_objective"), r, strict=True)) for r in records
            ]

    one = Stand("a", (0, -10.0, -8.0), (1, math.nan, -3.0), (2, math.nan, math.nan))
    two = Stand("b", (0, -9.0, -9.0), (1, math.nan, -4.0), (2, math.nan, math.nan))
    course.compare([one, two])
    assert [record["optimality"] for record in one.records[:2]] == pytest.approx([8 / 9, 0.75])
    assert [record["optimality"] for record in two.records[:2]] == pytest.approx([1.0, 1.0])
    assert math.isnan(one.records[2]["optimality"])
    course = bench.UtilisationCourse(None, None)
    one, two = Stand("a", (0, 0.4, 0.5)), Stand("b", (0, 0.3, 0.8))
    course.compare([one, two])
    assert [record["optimality"] for record in one.records + two.records] == pytest.approx([0.8, 0.5])


@pytest.mark.parametrize("kind", ["edge-disjoint", "shortest"])
def test_drawn_demands_share_the_volume_of_all(topology_file, kind):
    topology = load_topology(topology_file)
    matrix = make_matrix("gravity", topology, seed=2)
    few = make_instance(topology, matrix, demands=5, seed=1, kind=kind, k=2)
    every = make_instance(topology, matrix, kind=kind, k=2)
    assert few.paths.n_pairs == 5 and every.paths.n_pairs == NODES * (NODES - 1)
    assert few.volumes.sum() == pytest.approx(every.volumes.sum()) == pytest.approx(matrix.sum())
    assert every.volumes[0] == pytest.approx(matrix[every.paths.source, every.paths.target])
    assert few.paths.counts.max() <= 2
    assert every.sample(3, 0).volumes.sum() == pytest.approx(matrix.sum())


def test_a_sequence_takes_the_matrices_of_a_file_in_turn(topology_file, matrices_file):
    topology = load_topology(topology_file)
    stack = np.load(matrices_file)
    instance = make_instance(topology, stack)
    for number, event in zip(range(5), _events_of(instance, "sequence", 0), strict=False):
        wanted = stack[(number + 1) % 3][instance.paths.source, instance.paths.target]
        assert event.volumes == pytest.approx(wanted)
    with pytest.raises(ValueError, match="independent, source, global"):
        next(_events_of(instance, "sideways", 0))


def test_bench_plays_each_kind_of_change(topology_file, tmp_path):
    path = tmp_path / "bench.json"
    options = "--change global,failures --rounds 4 --path-kind shortest --paths 2 --no-isolate".split()
    options += ["--solvers", "copter,shortest", "--json"]
    result = invoke("bench", "traffic", "--topology", topology_file, *options, path)
    found = json.loads(path.read_text())
    changes = [record["change"] for record in found["records"][:7]]
    assert changes == ["first"] + 3 * ["global"] + 3 * ["failures"]
    assert all(0 < record["optimality"] <= 1 + 1e-9 for record in found["records"])
    assert found["summary"]["copter"]["optimality"]["min"] >= 0.999
    assert found["settings"]["change"] == "global,failures" and found["settings"]["paths"] == 2
    assert "max-flow: ring, 42 demands" in words(result)
