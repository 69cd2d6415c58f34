"""Benchmarks on tiny sizes: the documents have the fields they promise, and the figures belong together."""

import json
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from copter.bench.recording import Recorded
from copter.bench.result_files import SolverResult
from copter.bench.rounds import warm_up as warm_up_solver
from copter.bench.settings import SolverSettings
from copter.bench.statistics import keeps_edits, summarise
from copter.parallel import available_threads
from copter.problems.sia.course import _WARM_UP, Size, record_sia
from copter.solvers.registry import SOLVERS, make_solver
from support.commands import invoke
from support.measuring import measure

RECORD = set(
    "solver round n_variables n_rows nnz edit_seconds solve_seconds rounding_seconds seconds status "
    "primal_residual gap objective bound answer_objective answer_gap churn iterations "
    "store_seconds certify_seconds integral_churn".split()
)
ROUNDS = 3
SMALL = Size(128, 12, 2)


@pytest.fixture(autouse=True)
def small_warm_up(monkeypatch):
    """Commands under test warm up on a few jobs only."""
    monkeypatch.setattr("copter.problems.sia.course._WARM_UP", SMALL)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Recorded:
    folder = tmp_path_factory.mktemp("sia")
    return record_sia(folder, gpus=128, jobs=20, rounds=ROUNDS, seed=0, warm_up=SMALL)


@pytest.fixture(scope="module")
def measured(recorded) -> list[SolverResult]:
    return [measure(recorded, SolverSettings(name, tolerance=1e-6)) for name in ("copter", "highs-simplex")]


def test_records_of_the_same_rounds_have_every_field_and_agree(measured):
    for one in measured:
        assert [record["round"] for record in one.records] == list(range(ROUNDS))
        for record in one.records:
            assert set(record) >= RECORD and record["status"] == "optimal"
            parts = record["edit_seconds"] + record["solve_seconds"] + record["rounding_seconds"]
            assert record["seconds"] == pytest.approx(parts)
            assert record["bound"] <= record["answer_objective"] * (1 + 1e-9)
    copter, highs = measured
    for first, second in zip(copter.records, highs.records, strict=True):
        assert first["n_variables"] == second["n_variables"] and first["nnz"] == second["nnz"]
        assert first["objective"] == pytest.approx(second["objective"], rel=1e-5)
        assert first["edit_seconds"] >= first["store_seconds"] > 0 and second["certify_seconds"] > 0
        assert first["certify_seconds"] == pytest.approx(0.0, abs=1e-9)
    assert [record["warm_started"] for record in copter.records] == [False, True, True]


@pytest.mark.long
def test_nothing_is_compiled_or_loaded_after_the_warm_up(tmp_path):
    """In a process of its own: no kernel gets a signature that it did not have before the timed rounds."""
    recorded = record_sia(tmp_path, gpus=2048, jobs=200, rounds=2, seed=1, warm_up=_WARM_UP)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        late, threads = pool.submit(_late_kernels, recorded).result()
    assert late == []
    assert threads or available_threads() == 1


def _late_kernels(recorded):
    settings = SolverSettings("copter", tolerance=1e-4)
    warm_up_solver(recorded, settings)
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("copter")]
    before = _signatures()
    measure(Recorded(recorded.rounds, recorded.rounds, recorded.shim), settings)
    return sorted(name for name, count in _signatures().items() if count != before.get(name)), threads


def _signatures():
    """Number of loaded signatures of every kernel of the package."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("copter.")]
    return {
        f"{module.__name__}.{name}": len(value.signatures)
        for module in modules
        for name, value in vars(module).items()
        if hasattr(value, "signatures") and hasattr(value, "py_func")
    }


def record(number, seconds, status="optimal", gap=0.0):
    times = {"edit_seconds": 0.0, "solve_seconds": seconds, "rounding_seconds": 0.0, "seconds": seconds}
    times |= {"store_seconds": 0.0, "certify_seconds": 0.0}
    rest = dict.fromkeys(("primal_residual", "answer_gap", "churn", "iterations"), 0.0)
    return times | rest | {"round": number, "status": status, "gap": gap, "warm_started": number > 0}


def test_summary_has_medians_and_tails_of_the_rounds_after_the_first():
    fast = SolverResult("copter", records=[record(0, 9.0), record(1, 1.0), record(2, 3.0)])
    slow = SolverResult(
        "highs-hot", records=[record(0, 9.0), record(1, 20.0), record(2, 40.0)], peak_memory_mb=7.0
    )
    summary = summarise([fast, slow])
    times = {"median": 2.0, "mean": 2.0, "p99": pytest.approx(2.98), "min": 1.0, "max": 3.0}
    assert summary["copter"]["seconds"] == times | {"not_finite": 0, "at_least": []}
    assert summary["copter"]["first_round"]["seconds"] == 9.0
    assert summary["highs-hot"]["over_copter"] == 15.0
    assert summary["highs-hot"]["peak_memory_mb"] == 7.0
    assert summarise([slow])["highs-hot"]["over_copter"] is None


def test_rounds_that_were_cut_off_are_counted_and_their_times_are_lower_bounds():
    inf = float("inf")
    seconds, cut = [5.0, 1.0, 3.0, 10.0, 10.0], [False, False, False, True, True]
    late = [record(0, 9.0)] + [
        record(k, s, "deadline" if c else "optimal", inf if c else 1e-5)
        for k, (s, c) in enumerate(zip(seconds, cut, strict=True), 1)
    ]
    copter = SolverResult("copter", records=[record(0, 1.0), record(1, 1.0)])
    one = summarise([copter, SolverResult("highs-milp", records=late)])["highs-milp"]
    assert (one["not_optimal"], one["rounds_measured"]) == (2, 5)
    assert one["gap"]["max"] == 1e-5 and one["gap"]["not_finite"] == 2
    assert one["seconds"]["median"] == 5.0 and one["seconds"]["at_least"] == ["mean", "p99", "max"]
    assert one["over_copter"] == 5.0 and not one["over_copter_at_least"]
    late[1] = record(1, 2.0, "deadline")  # below the median, but it would have gone on
    both = summarise([copter, SolverResult("highs-milp", records=late)])
    assert "median" in both["highs-milp"]["solve_seconds"]["at_least"]
    assert both["highs-milp"]["over_copter_at_least"]
    late = both["highs-milp"]
    assert "median" in late["seconds"]["at_least"] and not late["edit_seconds"]["at_least"]
    assert late["not_optimal"] == 3 and late["gap"]["not_finite"] == 2
    slow = SolverResult("copter", records=[record(0, 1.0), record(1, 1.0, "iteration_limit")])
    assert summarise([slow])["copter"]["over_copter"] is None


def test_the_summary_knows_every_solver_and_takes_any():
    keeping = {name for name in SOLVERS if keeps_edits(name)}
    assert keeping == {"highs-hot", *(f"copter{kind}" for kind in ("", "-cd", "-newton", "-cold", "-exact"))}
    mine = summarise([SolverResult("mine", records=[record(0, 1.0), record(1, 1.0)])])["mine"]
    assert (mine["differential_edits"], mine["warm_started"]) == (None, 1)


def test_the_command_writes_its_document(tmp_path):
    sia = tmp_path / "new" / "sia.json"
    size = ["--gpus", "64", "--jobs", "10", "--rounds", "2", "--no-isolate"]
    result = invoke("bench", "sia", *size, "--solvers", "copter,highs-simplex", "--json", sia)
    document = json.loads(sia.read_text())
    assert set(document) >= {"machine", "records", "summary"}
    assert set(document["summary"]) == {"copter", "highs-simplex"}
    assert len(document["records"]) == 4
    assert "integrality loss" in result.stdout
    assert document["settings"]["stopping"]["copter"] == {"tolerance": 1e-4}
    assert document["settings"]["mip_gap"] == 1e-3


def test_a_solver_that_fails_does_not_take_the_others_with_it(tmp_path, monkeypatch):
    def make(name, **settings):
        if name == "glop":
            raise RuntimeError("no such library")
        return make_solver(name, **settings)

    monkeypatch.setattr("copter.bench.settings.make_solver", make)
    path = tmp_path / "sia.json"
    size = ["--gpus", "64", "--jobs", "10", "--rounds", "2", "--no-isolate"]
    invoke("bench", "sia", *size, "--solvers", "glop,copter", "--json", path, code=1)
    document = json.loads(path.read_text())
    assert document["failures"] == {"glop": "RuntimeError: no such library"}
    assert len(document["records"]) == 2
