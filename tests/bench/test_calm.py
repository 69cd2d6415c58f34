"""Rounds wait for the machine to be at its full speed, and no garbage is collected in one."""

import gc

import pytest

from copter.bench import calm
from copter.bench.course import Course, Play, method_round
from copter.bench.rounds import BenchJob, play
from copter.bench.settings import SolverSettings


@pytest.fixture
def readings(monkeypatch):
    """A machine whose calibration_loop takes what the list says, then 1; naps cost nothing."""
    listed, naps = [], []
    monkeypatch.setattr(calm, "calibration_loop", lambda: listed.pop(0) if listed else 1.0)
    monkeypatch.setattr(calm, "sleep", naps.append)
    monkeypatch.setattr(calm, "PATIENCE", 60.0)
    return listed, naps


def test_a_round_waits_while_the_machine_is_slow(readings):
    listed, naps = readings
    for quiet, slow, waited, count in (
        (calm.Calm(), [1.7, 1.7, 1.1], 1.1, 2),
        (calm.Calm(best=0.6), [1.0, 0.65], 0.65, 1),  # the full speed that others saw
        (calm.Calm(patience=0.0), [5.0], 5.0, 0),
    ):
        listed[:] = slow
        naps.clear()
        assert quiet.wait() == waited and len(naps) == count


class Looking(Course):
    """Rounds that look at the garbage collector."""

    def small(self):
        return self

    def play(self, settings):
        return Play(self.rounds(settings.name))

    def rounds(self, name):
        for number in range(3):
            yield method_round(
                name, number, solve_seconds=1.0, collects=gc.isenabled() or not gc.get_freeze_count()
            )


def test_rounds_are_timed_in_calm_and_keep_the_reading(readings):
    listed, _ = readings
    gc.unfreeze()
    found = play(BenchJob(Looking(), SolverSettings("mine")))
    assert gc.isenabled() and not gc.get_freeze_count()
    assert [(one["collects"], one["calibration_seconds"]) for one in found.records] == [(False, 1.0)] * 3
    assert not listed
