"""Policies that share GPUs at events: their base class, and AFS-L, AFS-P and AFS-S.

AFS-L knows the lengths of jobs; AFS-P and AFS-S do not.  All three share GPUs at each arrival and completion.
If there are at most as many jobs as GPUs, every job has at least one GPU, and :mod:`.allocation` assigns the
other GPUs.  AFS-L compares the lengths of jobs.  AFS-P compares random ranks instead, which are drawn at a
job's arrival, so that shares do not change without a reason.  AFS-S, which knows only the best GPU count of a
job, gives equal shares up to this count.  If there are more jobs than GPUs, AFS-L runs the shortest jobs on
one GPU each.  AFS-P and AFS-S use processor sharing: a job that ran for one unit of time (2 h) is replaced by
the job that ran for the fewest units.

If a job needs more than one GPU, its first share is the number of GPUs that it needs.

Source: AFS, section 3.3 and appendix D.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.afs.allocation import afs_shares, even_shares, first_shares, regulate
from copter.problems.afs.roster import GpuPool, Roster
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind

_UNIT_SECONDS = 7200.0
"""Unit of processor sharing in seconds (footnote 11)."""
_ROUNDING = 1e-9


_Gain: TypeAlias = Callable[[Ints, Floats, Floats], Floats]
"""Function that returns the gains of jobs from their positions and their speeds before and after."""


class SharePolicy(ABC):
    """A policy that is asked at events, and returns a number of GPUs for every job.

    Network packing (:func:`.allocation.regulate`) rounds shares to counts that nodes can hold.

    `seed`: seed of the policy's random numbers.
    """

    name: str
    kind: Kind = "strong-scaling"
    watch: tuple[str, ...] = ()
    """Quantities of running jobs that the policy uses; see :class:`.roster.Roster`."""

    def __init__(self, *, seed: int = 0) -> None:
        self.round_seconds: float | None = None
        self.rng = np.random.default_rng(seed)
        self.roster = Roster(self.rng, self.watch)

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Share the GPUs of each type; see :class:`~copter.problems.cluster.policy.Policy`."""
        roster = self.roster
        roster.update(now)
        pools, given = roster.pools(now)
        for type, pool in pools:
            if pool.size and pool.gpus:
                count = self.shares(pool, now)
                given |= roster.give(now.cluster, type, pool, count)
        roster.remember(given)
        return given

    @abstractmethod
    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:
        """Return the GPUs of each job of a pool: permitted counts of the curves, or the users' requests.

        `now`: state through which the policy can request to be asked at a given time; all other data is in
        the pool.
        """


def packed(pool: GpuPool, count: Ints) -> Ints:
    """Return the counts of a pool after network packing."""
    return regulate(pool.curves, count)


def raise_by_gain(pool: GpuPool, jobs: Ints, count: Ints, free: int, gain: _Gain) -> None:
    """Raise counts step by step to the next permitted count, the largest gain per GPU first.

    `jobs`: jobs whose counts may grow. `count`: changed in place. `free`: GPUs to assign.
    """
    curves = pool.curves
    while free > 0:
        step = pool.step(jobs, count[jobs])
        fits = (step > 0) & (step <= free)
        jobs, step = jobs[fits], step[fits]
        if not jobs.size:
            break
        at = curves.begin[jobs] + count[jobs]
        best = int((gain(jobs, curves.speed[at], curves.speed[at + step]) / step).argmax())
        count[jobs[best]] += step[best]
        free -= int(step[best])


class AfsL(SharePolicy):
    """Algorithm 1 with known lengths."""

    name = "afs-l"
    watch = ("done",)

    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:  # noqa: D102
        count = afs_shares(
            pool.curves, pool.rows["work"], pool.gpus, key_is_work=True, ahead=pool.rows["reserved"]
        )
        return packed(pool, count)


class AfsP(SharePolicy):
    """Algorithm 1 without lengths, with processor sharing if there are too many jobs."""

    name = "afs-p"
    watch = ("ran",)

    def __init__(self, *, unit_seconds: float = _UNIT_SECONDS, seed: int = 0) -> None:
        super().__init__(seed=seed)
        if not unit_seconds > 0:
            raise ValueError(f"unit_seconds = {unit_seconds}: must be positive")
        self.unit_seconds = float(unit_seconds)

    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:  # noqa: D102
        units = np.floor(pool.rows["ran"] / self.unit_seconds + _ROUNDING).astype(np.int64)
        stays = pool.rows["runs"] & (units == pool.rows["units"])
        self.roster.rows["units"][pool.slots] = units
        if not pool.crowded:
            return packed(pool, self.uncrowded(pool))
        count, _ = first_shares(pool.curves.first, pool.order(~stays, units), pool.gpus)
        ends = (units + 1) * self.unit_seconds - pool.rows["ran"]
        next_end = ends[count > 0].min(initial=np.inf)
        if np.isfinite(next_end):  # if not, jobs that must not be preempted hold all usable GPUs
            now.wake(now.time + float(next_end))
        return count

    def uncrowded(self, pool: GpuPool) -> Ints:
        """Return the shares, shape (n,), if every job can have some GPUs."""
        return afs_shares(
            pool.curves, pool.rows["rank"], pool.gpus, key_is_work=False, ahead=pool.rows["reserved"]
        )


class AfsS(AfsP):
    """AFS-P with equal shares, because only the best GPU count of a job is known."""

    name = "afs-s"

    def uncrowded(self, pool: GpuPool) -> Ints:  # noqa: D102
        return even_shares(pool.curves.first, pool.curves.top, pool.order(), pool.gpus)
