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
    quiet = calm.Calm()
    listed += [1.7, 1.7, 1.1]
    assert quiet.wait() == 1.1 and len(naps) == 2
    assert quiet.wait() == 1.0 and len(naps) == 2


def test_what_others_saw_counts_as_full_speed(readings):
    listed, naps = readings
    quiet = calm.Calm(best=0.6)
    listed += [0.6]
    assert quiet.wait() == 0.6
    listed += [1.0, 0.65]
    assert quiet.wait() == 0.65 and len(naps) == 1


def test_patience_ends(readings):
    listed, naps = readings
    quiet = calm.Calm(patience=0.0)
    listed += [5.0]
    assert quiet.wait() == 5.0 and not naps


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
