"""The duration of steps where a slot stands for a GPU.

A step of the measured model (:class:`copter.problems.cluster.profiles.throughput.ThroughputParameters`) takes
T = s T_grad + T_iter seconds on its GPUs, here so many times fewer as the pace says.  The job's first process
waits until its accumulating passes and its steps have taken that long, and all others wait for its sum of the
gradients.  What takes time beside the steps (checkpoints, restarts, reports) is as long as it really is.

Waits end late by what the system takes to wake a process, and averaging itself takes time.  So a step is
timed from when the one before should have ended, and catches up what that was late, but half a step at
most: no step is shorter than half of the model's, and many are never faster than the model on average.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from copter.live.training.plan import Pace
from copter.problems.cluster.profiles.throughput import ThroughputParameters

_MOST_CAUGHT_UP = 0.5
"""Share of a step by which the next one may be shorter."""


class Pacing:
    """Waits that make steps as long as measured ones; none without a pace."""

    def __init__(
        self,
        pace: Pace | None,
        nodes: int,
        gpus: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pace, self._nodes, self._gpus = pace, nodes, gpus
        self._clock, self._sleep = clock, sleep
        self._began = self._pass_seconds = self._seconds = 0.0
        self._due: float | None = None
        if pace is None:
            return
        if len(pace.parameters) != len(ThroughputParameters._fields):
            raise ValueError(f"pace.parameters = {pace.parameters}: there are seven")
        if not pace.speed > 0:
            raise ValueError(f"pace.speed = {pace.speed}: must be positive")
        ThroughputParameters(*pace.parameters).check()

    def begin(self, local_batch: int, accumulation: int) -> None:
        """Begin a step."""
        if self._pace is None:
            return
        model, speed = ThroughputParameters(*self._pace.parameters), self._pace.speed
        seconds = model.step_seconds(self._nodes, self._gpus, local_batch, accumulation)
        self._seconds = float(seconds) / speed
        self._pass_seconds = float(model.grad_seconds(local_batch)) / speed
        now = self._clock()
        earliest = now - _MOST_CAUGHT_UP * self._seconds
        self._began = now if self._due is None else max(self._due, earliest)
        self._due = self._began + self._seconds

    def end_pass(self, number: int) -> None:
        """Wait for the end of an accumulating pass; the first has the number 0."""
        self._wait(self._began + (number + 1) * self._pass_seconds)

    def end_step(self) -> None:
        """Wait for the end of the step."""
        self._wait(self._began + self._seconds)

    def restart(self) -> None:
        """Time the next step from its own beginning, after something else than a step."""
        self._due = None

    def _wait(self, until: float) -> None:
        if self._pace is not None and (left := until - self._clock()) > 0:
            self._sleep(left)
