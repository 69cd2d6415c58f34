"""Elastic max-min: the same number of GPUs for every job, up to the one with which it is fastest.

Shares are whole GPUs; jobs that came first get those that cannot be divided evenly, and if there are more
jobs than GPUs they are the ones that run.

Source: AFS, section 2.2 (max-min fairness over GPUs, re-adjusted at each arrival and completion).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.afs.allocation import even_shares
from copter.problems.afs.elastic import SharePolicy, packed
from copter.problems.afs.roster import Pool
from copter.problems.cluster.policy import ClusterState


class MaxMin(SharePolicy):
    """Max-min fair shares of GPUs.

    Parameters
    ----------
    seed : int
        Nothing is drawn.
    """

    name = "max-min"

    def shares(self, pool: Pool, now: ClusterState) -> NDArray[np.int64]:  # noqa: D102
        return packed(pool, even_shares(pool.curves.first, pool.curves.top, pool.order(), pool.gpus))
