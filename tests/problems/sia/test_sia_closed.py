"""Rounds that are not recorded: every solver plays its own, from the same jobs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from copter.bench.settings import SolverSettings
from copter.problems.sia.course import ClosedSia, Size, record_sia
from support.commands import invoke

SMALL = Size(128, 12, 2)
SIZE = Size(128, 20, 3)


@pytest.fixture(autouse=True)
def small_warm_up(monkeypatch):
    monkeypatch.setattr("copter.problems.sia.course._WARM_UP", SMALL)


@pytest.fixture(scope="module")
def own():
    return list(ClosedSia(SIZE, 0).play(SolverSettings("copter", tolerance=1e-6)).records)


def test_rounds_are_those_that_would_be_recorded(own, tmp_path):
    recorded = record_sia(tmp_path, gpus=SIZE.gpus, jobs=SIZE.jobs, rounds=SIZE.rounds, seed=0, warm_up=SMALL)
    replayed = list(recorded.play(SolverSettings("copter", tolerance=1e-6)).records)
    assert len(own) == len(replayed) == SIZE.rounds
    for one, two in zip(own, replayed, strict=True):
        assert set(one) == set(two)
        for name in ("solver", "round", "n_variables", "n_rows", "nnz", "status"):
            assert one[name] == two[name]
        assert one["objective"] == pytest.approx(two["objective"], rel=1e-5)
        assert one["bound"] <= one["answer_objective"] * (1 + 1e-9)
        assert one["integral_churn"] == pytest.approx(two["integral_churn"], nan_ok=True)
        assert one["seconds"] == pytest.approx(
            one["edit_seconds"] + one["solve_seconds"] + one["rounding_seconds"]
        )


def test_the_command_plays_without_a_recording(tmp_path):
    path = tmp_path / "out.json"
    words = "bench sia --gpus 128 --jobs 20 --rounds 3 --solvers copter --no-isolate --no-record"
    result = invoke(*words.split(), "--json", str(path))
    assert "not recorded" in result.output
    records = json.loads(path.read_text())["records"]
    assert [record["round"] for record in records] == [0, 1, 2]
    assert np.isfinite([record["gap"] for record in records]).all()
