"""Equal shares: of GPUs for elastic jobs (max-min), of time for rigid ones (Gandiva-Fair)."""

from __future__ import annotations

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.afs.allocation import even_shares
from copter.problems.afs.policies import SharePolicy, packed
from copter.problems.afs.roster import GpuPool
from copter.problems.cluster.policy import ClusterState
from copter.problems.policies.mechanism import Mechanism, RigidRound


class MaxMin(SharePolicy):
    """Elastic max-min: the same number of GPUs for every job, up to the one with which it is fastest.

    Shares are whole GPUs; jobs that came first get those that cannot be divided evenly, and if there are more
    jobs than GPUs they are the ones that run.

    Source: AFS, section 2.2 (max-min fairness over GPUs, re-adjusted at each arrival and completion).
    """

    name = "max-min"

    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:  # noqa: D102
        return packed(pool, even_shares(pool.curves.first, pool.curves.top, pool.order(), pool.gpus))


class GandivaFair(Mechanism):
    """Lottery tickets by GPUs: every job has the share min(1, M / n) of time, whatever its GPUs.

    Jobs go to the type with room on which they complete first; users do not trade types with each other here.

    Source: Shockwave, section 8.2; Chaudhary et al., "Balancing efficiency and fairness in heterogeneous GPU
    clusters for deep learning" (EuroSys 2020).
    """

    name = "gandiva-fair"

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102 - see Mechanism
        count = len(now.jobs)
        return np.full((count, 1), min(1.0, now.cluster.gpus / count))
