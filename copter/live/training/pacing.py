"""Pacing of steps on slots that simulate GPUs.

By the measured model (:class:`copter.problems.cluster.profiles.throughput.ThroughputParameters`), a step
takes T = s T_grad + T_iter seconds on its GPUs.  Here it takes T divided by the speed of the pace.  The job's
first process waits until its accumulating passes and its steps have taken that long, and all others wait for
the sum of the gradients.  Other work (checkpoints, restarts, reports) takes its real time.

Waits end late because the system needs time to wake a process, and averaging itself takes time.  So a step is
timed from the scheduled end of the step before, and makes up for its delay, but by at most half a step.  No
step is shorter than half of the model's, and on average steps are never faster than the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from copter.live.training.plan import Pace
from copter.problems.cluster.profiles.throughput import ThroughputParameters

_MOST_CAUGHT_UP = 0.5
"""Largest share of a step by which it may be shorter than the model's."""


class Pacing:
    """Waits that make steps as long as measured ones; there are no waits if the pace is None."""

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
            raise ValueError(f"pace.parameters = {pace.parameters}: must be seven numbers")
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
        """Time the next step from its own beginning, after work other than a step."""
        self._due = None

    def _wait(self, until: float) -> None:
        if self._pace is not None and (left := until - self._clock()) > 0:
            self._sleep(left)
