"""A clock for tests that moves when it is looked at, so that no deadline depends on the machine."""

from __future__ import annotations

import pytest


class Ticking:
    """Stands in for ``perf_counter``: every look takes ``step`` seconds."""

    def __init__(self, step: float = 1e-3) -> None:
        self.now, self.step = 100.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def tick(monkeypatch: pytest.MonkeyPatch, step: float = 1e-3) -> Ticking:
    """All clocks of solves, from now on."""
    clock = Ticking(step)
    monkeypatch.setattr("copter.clock.perf_counter", clock)
    return clock
