"""Limits that a user sets on a job's GPUs (thesis section 3.3.1), for profiles of any kind."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configurations
from copter.problems.cluster.profiles import Profile, Row


class LimitedProfile(Profile):
    """Another profile, on some numbers of GPUs alone: on others the job cannot run."""

    def __init__(self, profile: Profile, min_gpus: int | None, max_gpus: int | None) -> None:
        super().__init__(profile.name, profile.restart_seconds, profile.progress, profile.calibration)
        self.profile = profile
        self.min_gpus, self.max_gpus = min_gpus, max_gpus
        self._least, self._most = min_gpus or 1, math.inf if max_gpus is None else max_gpus

    def row(self, configurations: Configurations, level: int) -> Row:  # noqa: D102 - see Profile
        columns, values = self.profile.row(configurations, level)
        gpus = configurations.gpus[columns]
        inside = (gpus >= self._least) & (gpus <= self._most)
        return columns[inside], values[inside]

    def rates(self, configurations: Configurations, column: int) -> NDArray[np.float64]:  # noqa: D102
        if not self._least <= configurations.gpus[column] <= self._most:
            return np.zeros(self.n_levels)
        return self.profile.rates(configurations, column)

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """The other profile at a fixed batch size, within the same limits."""
        return LimitedProfile(self.profile.at_fixed_batch(batch_size), self.min_gpus, self.max_gpus)
