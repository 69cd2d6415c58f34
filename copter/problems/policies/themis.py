"""Themis: first the jobs that are furthest behind by finish-time fairness.

Source: Themis (Mahajan et al., NSDI 2020).
"""

from __future__ import annotations

import math

import numpy as np

from copter.arrays import Floats
from copter.problems.policies.mechanism import RESET_SECONDS, ROUND_SECONDS, Mechanism, RigidRound

_FILTER = 1.0
"""Filter in the runs of Shockwave's authors."""
_BISECTIONS = 60
_LEAST_SECONDS = 1e-9


class Themis(Mechanism):
    """Shares with the least worst finish-time fairness among the jobs that are furthest behind.

        minimise  rho    s.t.    x_j >= R_j / (rho E_j - t_j),    sum_j g_j x_j <= M

    with g_j the GPUs of job j, t_j its age, R_j its remaining run time at the mean of the present speeds over
    the types, E_j its finish time on 1/n of the cluster, and M the GPUs.  Only the jobs that are furthest
    behind are included: a share ``filter`` of all jobs. The solution is found by bisection.

    Source: Themis (Mahajan et al., NSDI 2020) as in Shockwave, section 8.2 and the authors' public code; the
    filter is that of Shockwave's section 2.1.

    `filter`: share of the jobs that get any time, in (0, 1].
    """

    name = "themis"

    def __init__(
        self,
        filter: float = _FILTER,
        *,
        round_seconds: float = ROUND_SECONDS,
        reset_seconds: float = RESET_SECONDS,
    ) -> None:
        super().__init__(round_seconds=round_seconds, reset_seconds=reset_seconds)
        self.filter = checked_filter(filter)
        self._isolated: dict[str, float] = {}
        self._ran: dict[str, tuple[float, float]] = {}

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102 - see Mechanism
        count, gpus = len(now.jobs), now.cluster.gpus
        alone = np.minimum(1.0, gpus / count / now.gpus)
        left, age = now.mean_seconds_left, now.age
        finish = self._alone_so_far(now, alone) + left / alone
        behind = (age + left) / np.maximum(finish, _LEAST_SECONDS)
        chosen = np.argsort(-behind, kind="stable")[: math.ceil(self.filter * count)]

        def needed(rho: float) -> Floats | None:
            slack = rho * finish[chosen] - age[chosen]
            if (slack < left[chosen]).any():
                return None
            result = np.divide(left[chosen], slack, out=np.ones(chosen.size), where=slack > 0)
            return result if float(result @ now.gpus[chosen]) <= gpus else None

        low, high = 0.0, float(behind[chosen].max()) + 1.0
        while needed(high) is None:
            low, high = high, 2.0 * high
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if needed(middle) is not None else (middle, high)
        shares = np.zeros((count, 1))
        shares[chosen, 0] = needed(high)
        return shares

    def _alone_so_far(self, now: RigidRound, alone: Floats) -> Floats:
        """Return the time that each job's run so far would have taken on 1/n of the cluster, shape (n,)."""
        isolated: dict[str, float] = {}
        for job in now.jobs:
            before, share = self._ran.get(job.name, (0.0, 1.0))
            isolated[job.name] = self._isolated.get(job.name, 0.0) + (job.run_seconds - before) / share
        self._isolated = isolated
        ran = (job.run_seconds for job in now.jobs)
        self._ran = dict(zip(now.names, zip(ran, alone.tolist(), strict=True), strict=True))
        return np.array(list(isolated.values()))


def checked_filter(filter: float) -> float:
    """Return a share of the jobs in (0, 1]; raise an error for another value."""
    if not 0 < filter <= 1:
        raise ValueError(f"filter = {filter}: must be in (0, 1]")
    return filter
