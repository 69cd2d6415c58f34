"""--exact: the commands that prove allocations and plans, and what their records say of it."""

import csv
import json

import pytest

from copter.bench.recording import ProvenRounds
from copter.bench.result_files import SolverResult
from copter.bench.rounds import measure
from copter.bench.statistics import document
from copter.cli.solvers import Names
from copter.problems.sia.cli import SiaBenchOptions
from copter.problems.sia.course import Size, record_sia
from support.commands import invoke, words


def test_every_round_of_a_run_is_proven(tmp_path):
    size = "--gpus 64 --jobs-per-day 240 --hours 0.5 --max-hours 0.6".split()
    result = invoke("run", "sia", *size, "--exact", "--out", tmp_path / "run")
    assert "rounds proven optimal" in words(result)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["rounds_proven"] == 1.0 and summary["max_integral_gap"] <= 1e-9
    with (tmp_path / "run/rounds.csv").open() as file:
        rounds = list(csv.DictReader(file))
    assert rounds and all(float(row["proven"]) == 1.0 for row in rounds)
    assert all(0 <= float(row["columns_left"]) <= float(row["n_variables"]) for row in rounds)
    assert all(float(row["answer_objective"]) >= float(row["bound"]) - 1e-9 for row in rounds)


def test_proofs_and_branch_and_bound_on_everything_agree(tmp_path):
    recorded = record_sia(tmp_path, gpus=128, jobs=24, rounds=4, seed=3, warm_up=Size(64, 6, 1))
    course = ProvenRounds(recorded.rounds, recorded.warm_up, recorded.shim)
    options = SiaBenchOptions(exact=True, solvers=Names(("copter", "highs-milp")))
    measured = [measure(course, options.solver_settings(name)) for name in options.solvers]
    assert [one.solver for one in measured] == ["copter-exact", "highs-milp"]
    summary = document({}, options.settings(), measured, course)["summary"]
    for ours, theirs in zip(*(one.records for one in measured), strict=True):
        assert ours["proven"] == theirs["proven"] == 1.0
        assert ours["answer_objective"] == pytest.approx(theirs["answer_objective"], rel=1e-8)
        assert max(ours["above_best"], theirs["above_best"]) <= 1e-8
        assert ours["columns_left"] < theirs["columns_left"] == theirs["n_variables"]
    assert summary["copter-exact"]["proven"]["mean"] == 1.0
    assert summary["highs-milp"]["over_copter"] is not None


def test_a_solver_that_proves_nothing_is_an_error():
    result = invoke("run", "sia", "--exact", "--solver", "highs-hot", code=2)
    assert "highs-hot proves nothing" in words(result)


def test_plans_are_proven(tmp_path):
    path = tmp_path / "plans.json"
    size = "--jobs 40 --gpus 8 --rounds 2 --plan-rounds 10".split()
    invoke("bench", "shockwave", *size, "--exact", "--solvers", "copter", "--no-isolate", "--json", path)
    records = json.loads(path.read_text())["records"]
    assert [record["proven"] for record in records] == [1.0, 1.0]
    assert all(record["answer_gap"] <= 1e-9 for record in records)


def test_rounds_without_an_allocation_are_not_compared():
    def one(number, objective):
        return {"round": number, "answer_objective": objective}

    nan = float("nan")
    first = SolverResult("a", records=[one(0, 10.0), one(1, nan), one(2, -5.0)])
    second = SolverResult("b", records=[one(0, 11.0), one(1, nan), one(2, -5.0)])
    ProvenRounds("rounds", "warm-up", "shim").compare([first, second])
    assert [record["above_best"] for record in first.records] == [0.0, pytest.approx(nan, nan_ok=True), 0.0]
    assert second.records[0]["above_best"] == pytest.approx(0.1)
