"""A cost of leaving jobs without GPUs that lets every new job run for a while: the time-share penalty.

With s_i the seconds that job i has run so far, and tau the window,

    lambda_n(i)  =  lambda + BONUS    while s_i < tau
                    lambda            from then on

so that in a burst new jobs are served at once, for tau seconds without a break, at the expense of old ones.

What is printed is lambda_n = (tau - s) / tau with s the service in the last tau seconds, and 0 for tau
seconds after s = tau; a symbol delta is explained and not used.  Taken literally no penalty is above 1, the
cost of the worst configuration: a job that was served is thrown out whether somebody waits or not, GPUs idle,
and jobs restart all the time.  Read as lambda + (tau - s) / tau it shares GPUs for ever, which costs more in
restarts than it saves in waiting.  Both were measured: see ``docs/sia.md``.

Source: Sia, thesis section 3.5.6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.policy import ClusterState

BONUS = 2.0
"""More than any other job gains by GPUs: configurations of a job cost between 0 and 1 at p < 0."""


class TimeShare:
    """Penalties of a cluster's jobs.

    Parameters
    ----------
    window_seconds : float
        tau.
    lam : float
        lambda.
    """

    def __init__(self, window_seconds: float, lam: float) -> None:
        if not 0 < window_seconds < math.inf:
            raise ValueError(f"timeshare_seconds = {window_seconds}: must be positive and finite")
        self.window_seconds, self.lam = window_seconds, lam

    def penalties(self, now: ClusterState) -> NDArray[np.float64]:
        """Costs of leaving jobs without GPUs.

        Returns
        -------
        (n,) array
            In the order of `now.jobs`.
        """
        ran = np.array([job.run_seconds for job in now.jobs.values()])
        return np.where(ran < self.window_seconds, self.lam + BONUS, self.lam)
