"""Waiting for the machine to be at its full speed before a round is timed.

The two processors of a virtual machine are often two threads of one core: while anything works on the other
one, in this machine or in a neighbour's, a fixed piece of work takes up to 1.7 times its seconds, for as long
as seconds at a time.  A solver's rounds on a line take one or two seconds in all, so that whole solvers were
measured in a slow moment and others in a fast one (docs/how-to/suite.md has the figures).  So a fixed piece
of work, the calibration_loop, is timed before each round, on no clock of the solver's; while it takes longer
than it does at best, the round waits, up to a limit.  The reading is kept with the round as
``calibration_seconds``.

Python's garbage collector runs between rounds and never in one: a full collection of what numba has loaded
takes 70 ms and would hit any solver at random.
"""

from __future__ import annotations

import gc
import math
from time import perf_counter, sleep
from typing import Self

FIELD = "calibration_seconds"
SLOWER = 1.15
"""A reading above this many times the best one is of a machine that is not at its full speed."""
PATIENCE = 5.0
"""Seconds that the rounds of one solver wait in all, at most."""
_ONE_ROUND = 1.0
"""Seconds that one round waits at most."""
_NAP = 0.005
_READINGS = 50
_STEPS = 10_000


def calibration_loop() -> float:
    """Return the seconds that a fixed piece of work takes now."""
    begin, total = perf_counter(), 0
    for k in range(_STEPS):
        total += k * k
    return perf_counter() - begin


class Calm:
    """Times the calibration loop before rounds and keeps the garbage collector out of them.

    `best`: seconds of the loop at full speed, as far as known. `patience`: seconds to wait in all; 0 if times
    do not matter. `waited`: seconds used for this so far.
    """

    def __init__(self, best: float = math.inf, patience: float | None = None) -> None:
        self.best = min(best, *(calibration_loop() for _ in range(_READINGS)))
        self.waited = 0.0
        self._patience = PATIENCE if patience is None else patience
        self._collects, self._thaw = gc.isenabled(), not gc.get_freeze_count()

    def wait(self) -> float:
        """Wait until the machine is at its full speed, or patience is over; return the last reading."""
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
        if self._thaw:  # what somebody else froze stays frozen
            gc.unfreeze()
        if self._collects:
            gc.enable()
