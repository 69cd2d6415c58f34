"""Rounds wait for the machine to be at its full speed, and no garbage is collected in one."""

import pytest

from copter.bench import calm


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
