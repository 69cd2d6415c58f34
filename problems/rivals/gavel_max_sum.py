"""Gavel's max-sum throughput: the most training steps a second in all.

    maximise  sum_jt v_jt x_jt

with v_jt in training steps a second, batches as they are, so that models with quick steps go first.  It is
what Sia's authors run as Gavel (thesis section 3.4) and the "MST" of Shockwave's section 8.2.

Source: Gavel (Narayanan et al., OSDI 2020), section 4.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.rivals.linear import GreatestSum
from copter.problems.rivals.rigid import RigidRound
from copter.solvers.base import Solver

STARVED = 1e-6
"""Share of the fastest job if the LP gives it none; the authors' interior point leaves such small shares."""


class MaxSumThroughput:
    """Shares of max-sum throughput; who needs many GPUs for a step may starve."""

    name = "gavel-max-sum"

    def __init__(self, solver: Solver | str = "copter") -> None:
        self.program = GreatestSum(solver)

    def shares(self, now: RigidRound) -> NDArray[np.float64]:
        """Shares of time; jobs without one come by throughput a GPU where GPUs are left."""
        steps = now.steps_per_second
        shares = self.program.solve(now, steps)
        return np.maximum(shares, STARVED * steps / (now.gpus[:, None] * steps.max()))
