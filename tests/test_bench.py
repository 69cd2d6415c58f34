"""Benchmarks on tiny sizes: the documents have the fields they promise, and the figures belong together."""

import json

import pytest
from typer.testing import CliRunner

from copter.bench.rounds import Measured, Recorded, SolverSettings, replay, replay_isolated
from copter.bench.sia import record_sia
from copter.bench.summary import KEEPS, spread, summarise
from copter.bench.updates import measure_updates
from copter.cli.main import app
from copter.solvers.base import SOLVERS, make_solver

RECORD = {
    "solver",
    "round",
    "n_variables",
    "n_rows",
    "nnz",
    "t_edit",
    "t_solve",
    "t_shim",
    "t_total",
    "status",
}
RECORD |= {
    "primal_residual",
    "gap",
    "objective",
    "bound",
    "integral_objective",
    "integral_gap",
    "churn",
    "iterations",
}
ROUNDS = 3


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Recorded:
    return record_sia(tmp_path_factory.mktemp("sia"), gpus=128, jobs=20, rounds=ROUNDS, seed=0)


@pytest.fixture(scope="module")
def measured(recorded) -> list[Measured]:
    return [replay(recorded, SolverSettings(name, tolerance=1e-6)) for name in ("copter", "highs-simplex")]


def test_a_record_per_round_has_every_field(measured):
    for one in measured:
        assert [record["round"] for record in one.records] == list(range(ROUNDS))
        for record in one.records:
            assert set(record) >= RECORD
            assert record["status"] == "optimal"
            assert record["t_total"] == pytest.approx(record["t_edit"] + record["t_solve"] + record["t_shim"])


def test_solvers_see_the_same_rounds_and_agree(measured):
    for first, second in zip(measured[0].records, measured[1].records, strict=True):
        assert first["n_variables"] == second["n_variables"] and first["nnz"] == second["nnz"]
        assert first["objective"] == pytest.approx(second["objective"], rel=1e-5)
        for record in (first, second):
            assert record["bound"] <= record["integral_objective"] * (1 + 1e-9)


def test_copter_starts_warm_after_the_first_round(measured):
    assert [record["warm_started"] for record in measured[0].records] == [False, True, True]


def test_an_isolated_replay_also_knows_its_peak_memory(recorded):
    one = replay_isolated(recorded, SolverSettings("copter", tolerance=1e-6))
    assert len(one.records) == ROUNDS
    assert 50 < one.peak_memory_mb < 2000


def test_summary_has_medians_and_tails_of_the_rounds_after_the_first():
    def record(number, seconds):
        times = {"t_edit": 0.0, "t_solve": seconds, "t_shim": 0.0, "t_total": seconds}
        return (
            times
            | dict.fromkeys(("gap", "primal_residual", "integral_gap", "churn", "iterations"), 0.0)
            | {
                "round": number,
                "status": "optimal",
            }
        )

    fast = Measured("copter", [record(0, 9.0), record(1, 1.0), record(2, 3.0)])
    slow = Measured("highs-hot", [record(0, 9.0), record(1, 20.0), record(2, 40.0)], peak_memory_mb=7.0)
    summary = summarise([fast, slow])
    assert summary["copter"]["t_total"] == {"median": 2.0, "p99": pytest.approx(2.98), "min": 1.0, "max": 3.0}
    assert summary["copter"]["first_round"]["t_total"] == 9.0
    assert summary["highs-hot"]["over_copter"] == 15.0
    assert summary["highs-hot"]["peak_memory_mb"] == 7.0
    assert summarise([slow])["highs-hot"]["over_copter"] is None


def test_spread_ignores_nan_and_survives_nothing():
    assert spread([1.0, float("nan"), 3.0])["median"] == 2.0
    assert spread([])["median"] != spread([])["median"]


def test_the_ablation_knows_every_solver():
    assert set(KEEPS) == set(SOLVERS)


def test_updates_have_a_record_per_size():
    records = measure_updates([4000, 20_000], seed=0)
    assert [record["n_variables"] for record in records] == [4000, 20_000]
    for record in records:
        assert set(record) >= {"n_variables", "nnz", "churn", "t_edit", "t_csr_rebuild"}
        assert record["nnz"] == 2 * record["n_variables"]


def test_the_commands_write_their_documents(tmp_path):
    runner = CliRunner()
    sia, updates = tmp_path / "new" / "sia.json", tmp_path / "updates.json"
    size = ["--gpus", "64", "--jobs", "10", "--rounds", "2", "--no-isolate"]
    result = runner.invoke(
        app, ["bench", "sia", *size, "--solvers", "copter,highs-simplex", "--json", str(sia)]
    )
    assert result.exit_code == 0, result.output
    document = json.loads(sia.read_text())
    assert set(document) >= {"machine", "records", "summary"}
    assert set(document["summary"]) == {"copter", "highs-simplex"}
    assert len(document["records"]) == 4
    assert "differential edits" in result.stdout

    result = runner.invoke(app, ["bench", "updates", "--sizes", "4000", "--json", str(updates)])
    assert result.exit_code == 0, result.output
    assert len(json.loads(updates.read_text())["records"]) == 1


def test_a_solver_that_fails_does_not_take_the_others_with_it(tmp_path, monkeypatch):
    def make(name, **settings):
        if name == "glop":
            raise RuntimeError("no such library")
        return make_solver(name, **settings)

    monkeypatch.setattr("copter.bench.rounds.make_solver", make)
    path = tmp_path / "sia.json"
    size = ["--gpus", "64", "--jobs", "10", "--rounds", "2", "--no-isolate"]
    result = CliRunner().invoke(app, ["bench", "sia", *size, "--solvers", "glop,copter", "--json", str(path)])
    assert result.exit_code == 1
    document = json.loads(path.read_text())
    assert document["failures"] == {"glop": "RuntimeError: no such library"}
    assert len(document["records"]) == 2
