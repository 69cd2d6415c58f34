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
    """Elastic max-min: the same number of GPUs for every job, up to its best count.

    Shares are whole GPUs.  Jobs that arrived first get the GPUs that cannot be divided equally. If not all
    jobs fit, those that arrived first run.

    Source: AFS, section 2.2 (max-min fairness over GPUs, re-adjusted at each arrival and completion).
    """

    name = "max-min"

    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:  # noqa: D102
        return packed(pool, even_shares(pool.curves.first, pool.curves.top, pool.order(), pool.gpus))


class GandivaFair(Mechanism):
    """Equal time: each of n jobs on M GPUs has the share min(1, M / n) of time, whatever its number of GPUs.

    Jobs go to the type with free GPUs on which they complete first.  Unlike in the paper of Gandiva-Fair,
    users do not trade types with each other.

    Source: Shockwave, section 8.2; Chaudhary et al., "Balancing efficiency and fairness in heterogeneous GPU
    clusters for deep learning" (EuroSys 2020).
    """

    name = "gandiva-fair"

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102 - see Mechanism
        count = len(now.jobs)
        return np.full((count, 1), min(1.0, now.cluster.gpus / count))
