"""Gandiva-Fair: lottery tickets by GPUs; every job the share min(1, M / n) of time, whatever its GPUs.

Jobs go to the type with room on which they complete first; users do not trade types with each other here.

Source: Shockwave, section 8.2; Chaudhary et al., "Balancing efficiency and fairness in heterogeneous GPU
clusters for deep learning" (EuroSys 2020).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.rivals.rigid import RigidRound


class GandivaFair:
    """Equal shares."""

    name = "gandiva-fair"

    def shares(self, now: RigidRound) -> NDArray[np.float64]:
        """Shares of time, see :class:`~copter.problems.rivals.mechanism.Shares`."""
        count = len(now.jobs)
        return np.full((count, 1), min(1.0, now.cluster.gpus / count))
