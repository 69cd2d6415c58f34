"""SRTF and SRTF-E: shortest remaining time first, for rigid jobs, and with what is left over shared out.

Jobs get the GPUs that their users asked for or none, the one with the least time left first; one that does
not fit is passed over.  SRTF-E is altruistic: GPUs that nobody asked for then go, one by one, to the
running job whose throughput relative to one GPU grows most.

Source: AFS, sections 2.2 and 5.5; SRTF is Schrage and Miller's rule (Operations Research 14(4), 1966).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.afs.allocation import first_shares
from copter.problems.afs.elastic import SharePolicy, raise_by_gain
from copter.problems.afs.roster import Pool
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind


class Srtf(SharePolicy):
    """Shortest remaining time first, preemptive.

    Parameters
    ----------
    seed : int
        Nothing is drawn.
    """

    name = "srtf"
    watch = ("done",)
    kind: Kind = "rigid"

    def shares(self, pool: Pool, now: ClusterState) -> NDArray[np.int64]:  # noqa: D102
        count, left = first_shares(pool.rows["request"], pool.order(self.key(pool)), pool.gpus)
        if self.kind != "rigid":
            base = pool.speed(pool.curves.first)
            running = np.flatnonzero((count > 0) & (pool.curves.first < pool.curves.top))
            raise_by_gain(pool, running, count, left, lambda jobs, speed, more: (more - speed) / base[jobs])
        return count

    def key(self, pool: Pool) -> NDArray[np.float64]:
        """What jobs are ordered by, ascending: seconds to completion with the GPUs asked for.

        Returns
        -------
        (n,) array
        """
        return pool.rows["work"] / pool.rows["request_speed"]


class SrtfElastic(Srtf):
    """SRTF, and what is left over to running jobs.

    Parameters
    ----------
    seed : int
        Nothing is drawn.
    """

    name = "srtf-e"
    kind: Kind = "strong-scaling"
