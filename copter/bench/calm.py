"""Waiting until the machine runs at full speed, before a round is timed.

Two processors of a virtual machine are often two threads of one core. While another process uses the second
thread, in the same virtual machine or in another one, a fixed piece of work takes up to 1.7 times as long,
for up to several seconds. All rounds of a solver on a line take one or two seconds together, so one solver
could be measured at low speed and another at full speed (docs/how-to/suite.md has the figures). Therefore a
fixed piece of work, the calibration loop, is timed before each round, outside the solver's time. While it
takes clearly longer than its best time, the round waits, up to a limit. The time of the loop is stored with
the round as ``calibration_seconds``.

Python's garbage collector runs between rounds and never during one: a full collection of numba's objects
takes 70 ms and would slow down rounds at random.
"""

from __future__ import annotations

import gc
import math
from time import perf_counter, sleep
from typing import Self

FIELD = "calibration_seconds"
SLOWER = 1.15
"""Ratio of a calibration time to the best, above which the machine does not count as at full speed."""
PATIENCE = 2.0
"""Largest total number of seconds for which the rounds of one solver wait."""
_ONE_ROUND = 1.0
"""Largest number of seconds for which one round waits."""
_NAP = 0.005
_READINGS = 50
_STEPS = 10_000


def calibration_loop() -> float:
    """Run a fixed piece of work and return its seconds."""
    begin, total = perf_counter(), 0
    for k in range(_STEPS):
        total += k * k
    return perf_counter() - begin


class Calm:
    """Calibration before rounds, with the garbage collector disabled during rounds.

    `best`: least known seconds of the calibration loop. `patience`: largest total number of seconds to wait;
    0 if times do not matter. `waited`: seconds spent on waiting so far.
    """

    def __init__(self, best: float = math.inf, patience: float | None = None) -> None:
        self.best = min(best, *(calibration_loop() for _ in range(_READINGS)))
        self.waited = 0.0
        self._patience = PATIENCE if patience is None else patience
        self._collects, self._thaw = gc.isenabled(), not gc.get_freeze_count()

    def wait(self) -> float:
        """Wait until full speed or the limit is reached; return the last calibration time."""
        begin = perf_counter()
        gc.collect()
        until = perf_counter() + min(_ONE_ROUND, self._patience - self.waited)
        while (reading := calibration_loop()) > SLOWER * self.best and perf_counter() < until:
            sleep(_NAP)
        self.best = min(self.best, reading)
        self.waited += perf_counter() - begin
        return reading

    def __enter__(self) -> Self:
        gc.collect()
        gc.freeze()
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thaw:  # objects that were frozen earlier remain frozen
            gc.unfreeze()
        if self._collects:
            gc.enable()
