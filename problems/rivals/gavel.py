"""Gavel's max-min fairness (least attained service): the largest share of the cluster for the poorest job.

    maximise  min_j  g_j sum_t (v_jt / v_j) x_jt

with v_jt the speed of job j on type t and v_j = sum_t (M_t / M) v_jt its speed on an equal share of all
types.  A job on one GPU gets g times the time of a job on g.

Source: Gavel (Narayanan et al., OSDI 2020), section 4.1 with the scale factors of section 4.4 and equal
weights; on one type it is the "Gavel" of Shockwave's section 8.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.rivals.linear import GreatestLeast
from copter.problems.rivals.rigid import RigidRound
from copter.solvers.base import Solver


class MaxMinFairness:
    """Shares of max-min fairness."""

    name = "gavel"

    def __init__(self, solver: Solver | str = "copter") -> None:
        self.program = GreatestLeast(solver)

    def shares(self, now: RigidRound) -> NDArray[np.float64]:
        """Shares of time, see :class:`~copter.problems.rivals.mechanism.Shares`."""
        return self.program.solve(now, now.gpus[:, None] * now.speed / now.mean_speed[:, None])
