"""Policies that run short jobs first: SRTF, SRSF and SRPT, and open shop scheduling.

SRTF and SRSF are asked at events.  Jobs get the GPUs that their users requested, or none.  The job with the
least remaining time (SRTF) or service (SRSF: time times requested GPUs) comes first; a job that does not fit
is skipped.  Service is work divided by the throughput per GPU, so SRSF favours jobs that use their GPUs well.
SRTF-E and SRSF-E are altruistic: GPUs that are left are then given one by one to the running job whose
throughput, relative to its throughput on its fewest GPUs, grows most.

SRPT and open shop scheduling have rounds, and rigid jobs.

Sources: AFS, sections 2.2 and 5.5; SRTF is Schrage and Miller's rule (Operations Research 14(4), 1966), SRSF
that of Tiresias (Gu et al., NSDI 2019); open shop: Shockwave, section 8.2, and the authors' public code.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.afs.allocation import first_shares
from copter.problems.afs.policies import SharePolicy, raise_by_gain
from copter.problems.afs.roster import GpuPool
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind
from copter.problems.policies.mechanism import ROUND_SECONDS, Mechanism, RigidRound, look


class Srtf(SharePolicy):
    """Shortest remaining time first, preemptive."""

    name = "srtf"
    watch = ("done",)
    kind: Kind = "rigid"
    by_service = False

    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:  # noqa: D102
        request = pool.rows["request"]
        left = pool.rows["work"] / pool.rows["request_speed"]
        order = pool.order(left * request if self.by_service else left)
        count, free = first_shares(request, order, pool.gpus)
        if self.kind != "rigid":
            base = pool.speed(pool.curves.first)
            running = np.flatnonzero((count > 0) & (pool.curves.first < pool.curves.top))
            raise_by_gain(pool, running, count, free, lambda jobs, speed, more: (more - speed) / base[jobs])
        return count


class SrtfElastic(Srtf):
    """SRTF that gives idle GPUs to running jobs."""

    name = "srtf-e"
    kind: Kind = "strong-scaling"


class Srsf(Srtf):
    """Shortest remaining service first, preemptive."""

    name = "srsf"
    by_service = True


class SrsfElastic(Srtf):
    """SRSF that gives idle GPUs to running jobs."""

    name = "srsf-e"
    kind: Kind = "strong-scaling"
    by_service = True


class ShortestFirst:
    """SRPT: in each round, jobs run in order of their remaining run times, as far as they fit.

    The remaining run time is computed with the present speed on the job's fastest type.  Jobs go to the type
    with free GPUs on which they complete first, including restarts.
    """

    name = "srpt"
    kind: Kind = "rigid"

    def __init__(self, *, round_seconds: float = ROUND_SECONDS) -> None:
        self.round_seconds: float | None = round_seconds

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the configurations of the shortest jobs that fit."""
        here = look(now)
        order = np.argsort(here.seconds_left.min(axis=1, initial=np.inf), kind="stable").tolist()
        return here.allocation(here.pack((job, here.preferences(job)) for job in order))


class OpenShop(Mechanism):
    """Open shop scheduling: least shares of time with which the jobs reach the least makespan.

    For jobs with g_j GPUs and remaining run times R_j on M GPUs, without regard to types and later jobs:

        H = max(sum_j g_j R_j / M, max_j R_j),      x_j = R_j / H.

    R_j is computed with the mean of the present speeds over the types.  On one type, this is Gavel's makespan
    policy.
    """

    name = "ossp"

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102 - see Mechanism
        seconds = now.mean_seconds_left
        makespan = max(float(now.gpus @ seconds) / now.cluster.gpus, float(seconds.max()))
        shares = seconds / makespan if makespan > 0 else np.ones(seconds.size)
        return shares[:, None]
