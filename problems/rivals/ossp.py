"""Open shop scheduling: every job the least share of time with which all complete by the smallest makespan.

With R_j the run time left, blind to types and to what is to come, of jobs with g_j GPUs, on M GPUs:

    H = max(sum_j g_j R_j / M, max_j R_j),      x_j = R_j / H.

R_j is that at the mean speed of now over the types.  On one type this is Gavel's makespan policy.

Source: Shockwave, section 8.2, and the authors' public code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.rivals.rigid import RigidRound


class OpenShop:
    """Shares of the smallest makespan."""

    name = "ossp"

    def shares(self, now: RigidRound) -> NDArray[np.float64]:
        """Shares of time, see :class:`~copter.problems.rivals.mechanism.Shares`."""
        seconds = now.mean_seconds_left
        makespan = max(float(now.gpus @ seconds) / now.cluster.gpus, float(seconds.max()))
        shares = seconds / makespan if makespan > 0 else np.ones(seconds.size)
        return shares[:, None]
