"""Rounds that are not recorded: every solver plays its own, from the same jobs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.problems.sia.course import _MOST_RECORDED, ClosedSia, Size, record_sia, worth_recording
from copter.problems.sia.generator import builtin_cluster
from support.commands import invoke

SMALL = Size(128, 12, 2)
SIZE = Size(128, 20, 3)


@pytest.fixture(autouse=True)
def small_warm_up(monkeypatch):
    monkeypatch.setattr("copter.problems.sia.course._WARM_UP", SMALL)


def played(name="copter", size=SIZE, **settings):
    return measure(ClosedSia(size, 0, **settings), SolverSettings(name, tolerance=1e-6)).records


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


def test_the_first_round_of_another_solver_is_the_same_program(own):
    first = played("highs-hot")[0]
    assert first["n_variables"] == own[0]["n_variables"]
    assert first["objective"] == pytest.approx(own[0]["objective"], rel=1e-5)


@pytest.mark.parametrize(
    ("gpus", "jobs"), [(1024, 200), (25_600, 3_100), (102_400, 12_500), (200_000, 37_000)]
)
def test_large_rounds_are_not_recorded(gpus, jobs):
    columns = jobs * len(builtin_cluster(gpus).configurations)
    assert worth_recording(gpus, jobs) == (columns <= _MOST_RECORDED) == (gpus <= 25_600)


def test_the_command_plays_without_a_recording(tmp_path):
    path = tmp_path / "out.json"
    words = "bench sia --gpus 128 --jobs 20 --rounds 3 --solvers copter --no-isolate --no-record"
    result = invoke(*words.split(), "--json", str(path))
    assert "not recorded" in result.output
    records = json.loads(path.read_text())["records"]
    assert [record["round"] for record in records] == [0, 1, 2]
    assert np.isfinite([record["gap"] for record in records]).all()
