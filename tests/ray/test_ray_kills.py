"""Actors and drivers are killed at random moments: answers are those of a program left undisturbed."""

from __future__ import annotations

import os
import signal
import threading

import pytest

pytest.importorskip("ray")

import ray_kills
from ray_kills import Truth, kill_actors, kill_drivers, make_round, new_solver, of_content

import copter.ray.actors

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(ray_kills, "JOBS", 40)
    monkeypatch.setenv("RAY_KILLS_JOBS", "40")  # for drivers


@pytest.mark.long
@pytest.mark.parametrize("snapshots", [True, False])
def test_killed_actors_change_no_answer_and_lose_no_edit(local_ray, snapshots):
    score = kill_actors(3, seed=4, snapshots=snapshots)
    assert score.kills == 3 and score.rounds > 0
    assert score.clean, str(score)


@pytest.mark.long
def test_a_killed_driver_loses_no_completed_round(local_ray, tmp_path):
    address = local_ray.get_runtime_context().gcs_address
    score = kill_drivers(tmp_path, 2, 1, address, True)
    assert score.kills == 2
    assert score.clean, str(score)


@pytest.mark.long
def test_the_deadline_holds_and_the_slow_one_is_named_while_an_actor_hangs(local_ray, caplog, monkeypatch):
    """The actor goes on only when the solve has returned (or, should it not, after minutes)."""
    from copter.ray import RayProgram

    monkeypatch.setattr(copter.ray.actors, "_SLOW_FROM", 0.0)
    monkeypatch.setattr(copter.ray.actors, "_SLOW_TIMES", 1.0)
    with RayProgram(2, parts=4, num_cpus=0) as program:
        solver, truth = new_solver(), Truth()
        for number in range(2):
            make_round(program, number)
            solver.solve(program)
        make_round(program, 2)
        stopped = program.memory()[1]["pid"]
        goes_on = threading.Timer(200.0, os.kill, (stopped, signal.SIGCONT))
        goes_on.start()
        os.kill(stopped, signal.SIGSTOP)
        try:
            late = solver.solve(program, time_limit=5.0)
            assert goes_on.is_alive()
        finally:
            goes_on.cancel()
            os.kill(stopped, signal.SIGCONT)
        assert late.status == "deadline"
        assert "actor 1 is slow" in caplog.text and late.details["slow_actor_1"] > 0
        truth.upto(2)
        make_round(truth.program, 2)
        assert of_content(program) == of_content(truth.program)
        found, wanted = solver.solve(program), truth.solver.solve(truth.program)
        assert found.status == wanted.status == "optimal"
        assert found.objective == pytest.approx(wanted.objective, rel=1e-5)
