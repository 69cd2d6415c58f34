"""Fitness of an allocation: speedups of the jobs, their weights, and the cost of restarts.

    SPEEDUP_j(A_j) = max_m GOODPUT_j(A_j, m) / max_m GOODPUT_j(a, m)                                  (15)

    FITNESS(A) = sum_j w_j SPEEDUP_j / sum_j w_j,     w_j = min(1, threshold / GPU-time_j)^decay  (14), (16)

where the allocation a is one GPU.  A constant penalty is subtracted from SPEEDUP_j for every job that
restarts.  This is :data:`WEIGHTED_MEAN`, as in the text of the paper (Pollux section 4.2).

The scheduler that the authors published uses the power mean

    FITNESS_p(A) = (mean_j SPEEDUP_j^p)^(1/p)

where the allocation a is the fair share of the GPUs, and multiplies the SPEEDUP of a job that restarts by

    max(age - restarts delay, 0) / (age + delay).

This is :data:`POWER_MEAN`.  The authors distribute its results, and Sia's thesis compares with it (section
3.4.3: p = -1). Unlike the weighted mean, the power mean is fair, and with it a job restarts less often the
more often it has already restarted.

Both fitnesses increase with a sum over the jobs of an increasing function of the speedup,
:meth:`Fitness.value`.  The genetic algorithm maximizes this sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from copter.arrays import Floats
from copter.problems.cluster.jobs import Job

_FLOOR = 1e-3
"""Constant added to speedups under a power mean, so that the value of a job without GPUs is finite."""


@dataclass(frozen=True)
class Fitness:
    """Fitness function of allocations.

    `power`: p of the power mean. `fair_share`: whether speedups are relative to the fair share of the GPUs
    instead of one GPU. `restart_penalty`: amount that is subtracted from the speedup of a job that restarts;
    None for the factor by age and restarts. `decay`: exponent by which weights fall with GPU-time, called
    lambda in the paper. `threshold`: GPU-seconds up to which the weight is 1.
    """

    power: float = -1.0
    fair_share: bool = True
    restart_penalty: float | None = None
    decay: float = 0.0
    threshold: float = 4 * 3600.0

    def weight(self, gpu_seconds: float) -> float:
        """Return the weight of a job by its GPU-time (16)."""
        return min(1.0, self.threshold / gpu_seconds) ** self.decay if gpu_seconds > 0 else 1.0

    def restarted(self, speedup: Floats, job: Job) -> Floats:
        """Return the speedup of a job that starts or restarts."""
        if math.isnan(job.started):
            return speedup  # a first start is not a restart
        if self.restart_penalty is not None:
            return speedup - self.restart_penalty
        delay = job.seen.restart_seconds
        return speedup * (max(job.age - job.restarts * delay, 0.0) / max(job.age + delay, 1e-9))

    def value(self, speedup: Floats) -> Floats:
        """Return the term of a job of weight 1 in the sum that is maximized."""
        if self.power == 1.0:
            return speedup
        above = np.maximum(speedup, 0.0) + _FLOOR
        return np.log(above) if self.power == 0.0 else math.copysign(1.0, self.power) * above**self.power

    def __call__(self, speedups: Sequence[float], weights: Sequence[float] | None = None) -> float:
        """Return the fitness of an allocation. `speedups`: speedup of each job, minus penalties."""
        shares = np.ones(len(speedups)) if weights is None else np.asarray(weights, np.float64)
        mean = float(shares @ self.value(np.asarray(speedups, np.float64)) / shares.sum())
        if self.power == 1.0:
            return mean
        if self.power == 0.0:
            return math.exp(mean) - _FLOOR
        return abs(mean) ** (1.0 / self.power) - _FLOOR


WEIGHTED_MEAN = Fitness(power=1.0, fair_share=False, restart_penalty=0.25, decay=0.5)
"""Fitness of the paper's text."""
POWER_MEAN = Fitness()
"""Fitness of the published scheduler."""
