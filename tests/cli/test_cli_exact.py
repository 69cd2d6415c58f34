"""--exact: the commands that prove allocations and plans, and what their records say of it."""

import csv
import json

import pytest

from copter.bench.recording import ProvenRounds
from copter.bench.result_files import SolverResult
from support.commands import invoke, words


def test_every_round_of_a_run_is_proven(tmp_path):
    size = "--gpus 64 --jobs-per-day 240 --hours 0.5 --max-hours 0.6".split()
    result = invoke("run", "sia", *size, "--exact", "--out", tmp_path / "run")
    assert "fcfs" in words(result)
    summary = json.loads((tmp_path / "run/summary.json").read_text())["policies"]["sia"]
    assert summary["proven_mean"] == 1.0 and summary["answer_gap_max"] <= 1e-9
    with (tmp_path / "run/rounds.csv").open() as file:
        rounds = [row for row in csv.DictReader(file) if row["policy"] == "sia"]
    assert rounds and all(float(row["proven"]) == 1.0 for row in rounds)


def test_a_solver_that_proves_nothing_is_an_error():
    result = invoke("run", "sia", "--exact", "--solver", "highs-hot", code=2)
    assert "highs-hot proves nothing" in words(result)


def test_rounds_without_an_allocation_are_not_compared():
    def one(number, objective):
        return {"round": number, "answer_objective": objective}

    nan = float("nan")
    first = SolverResult("a", records=[one(0, 10.0), one(1, nan), one(2, -5.0)])
    second = SolverResult("b", records=[one(0, 11.0), one(1, nan), one(2, -5.0)])
    ProvenRounds("rounds", "warm-up", "shim").compare([first, second])
    assert [record["above_best"] for record in first.records] == [0.0, pytest.approx(nan, nan_ok=True), 0.0]
    assert second.records[0]["above_best"] == pytest.approx(0.1)
