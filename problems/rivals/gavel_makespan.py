"""Gavel's makespan policy: the jobs that are there complete as early as they can, together.

    minimise  max_j  R_j / sum_t v_jt x_jt      =      maximise  min_j  sum_t (v_jt / R_j) x_jt

with R_j the progress that job j has to make yet and v_jt its speed on type t.

Source: Gavel (Narayanan et al., OSDI 2020), section 4.2 ("minimize makespan"; the authors' code calls it
min total duration and bisects, where here it is one linear program).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.rivals.linear import GreatestLeast
from copter.problems.rivals.rigid import RigidRound
from copter.solvers.base import Solver

_LEAST_SECONDS = 1e-6


class Makespan:
    """Shares with the smallest makespan."""

    name = "gavel-makespan"

    def __init__(self, solver: Solver | str = "copter") -> None:
        self.program = GreatestLeast(solver)

    def shares(self, now: RigidRound) -> NDArray[np.float64]:
        """Shares of time, see :class:`~copter.problems.rivals.mechanism.Shares`."""
        seconds = now.seconds_left.clip(min=_LEAST_SECONDS)
        # No makespan is shorter than these two; in their unit the program's optimum is near 1.
        quickest = seconds.min(axis=1)
        bound = max(float(quickest.max()), float(quickest @ now.gpus) / now.cluster.gpus)
        return self.program.solve(now, bound / seconds)
