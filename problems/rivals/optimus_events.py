"""Optimus asked at events: :mod:`.optimus` without rounds, for traces of months.

Every job gets the fewest GPUs that it can run on, in order of arrival; the others go one unit at a time to
the job whose time left falls most for a GPU.

Source: Peng et al., Optimus (EuroSys 2018); AFS runs it with known lengths too (section 5.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.afs.allocation import first_shares
from copter.problems.afs.elastic import SharePolicy, raise_by_gain
from copter.problems.afs.roster import Pool
from copter.problems.cluster.policy import ClusterState


class OptimusEvents(SharePolicy):
    """The policy.

    Parameters
    ----------
    seed : int
        Nothing is drawn.
    """

    name = "optimus-events"
    watch = ("done",)

    def shares(self, pool: Pool, now: ClusterState) -> NDArray[np.int64]:  # noqa: D102
        count, left = first_shares(pool.curves.first, pool.order(pool.curves.first), pool.gpus)
        work = pool.rows["work"]
        raise_by_gain(
            pool,
            np.flatnonzero(count),
            count,
            left,
            lambda jobs, speed, more: work[jobs] / speed - work[jobs] / more,
        )
        return count
