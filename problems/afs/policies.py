"""Policies that share out GPUs at events: their frame, and AFS-L, AFS-P and AFS-S.

AFS-L knows how long jobs are, AFS-P and AFS-S do not.  All three share out GPUs at each arrival and
completion.  While there are no more jobs than GPUs every job has at least one, and :mod:`.allocation` says
who gets the others; AFS-L goes by the lengths of jobs, AFS-P breaks ties at random (by a rank drawn when a
job arrives, so that shares do not change for no reason), and AFS-S, which knows only with how many GPUs a job
is fastest, shares evenly up to there.  When there are more jobs than GPUs, AFS-L runs the shortest ones on
one GPU each; the others share processors: a job that was run for one unit of time (2 h) makes room for the
one that was run for the fewest units.

A job that needs more than one GPU counts as one here too: its first share is what it needs.

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
"""Unit of processor sharing (footnote 11)."""
_ROUNDING = 1e-9


_Gain: TypeAlias = Callable[[Ints, Floats, Floats], Floats]
"""What jobs gain, from their positions and their speeds before and after."""


class SharePolicy(ABC):
    """A policy that is asked at events and answers with a number of GPUs for every job.

    Shares become counts that nodes can hold by network packing (:func:`.allocation.regulate`).

    `seed`: seed of what the policy draws.
    """

    name: str
    kind: Kind = "strong-scaling"
    watch: tuple[str, ...] = ()
    """What of running jobs it goes by, see :class:`.roster.Roster`."""

    def __init__(self, *, seed: int = 0) -> None:
        self.round_seconds: float | None = None
        self.rng = np.random.default_rng(seed)
        self.roster = Roster(self.rng, self.watch)

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the share out the GPUs of each type, see :class:`~copter.problems.cluster.policy.Policy`."""
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
        """Return the GPUs of each job of a pool.

        `now`: to be asked again at a time; the pool says the rest. Result: counts that can be given out:
        units of the curves, or what the users asked for.
        """


def packed(pool: GpuPool, count: Ints) -> Ints:
    """Return the counts of a pool after network packing."""
    return regulate(pool.curves, count)


def raise_by_gain(pool: GpuPool, jobs: Ints, count: Ints, free: int, gain: _Gain) -> int:
    """Raise counts unit by unit, the largest gain for a GPU first, as long as there are GPUs.

    `jobs`: whose counts may grow. `count`: changed in place. `free`: GPUs to give out. Result: GPUs that
    nobody can use.
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
    return free


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
    """Algorithm 1 without lengths, and processor sharing of jobs that are too many."""

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
        if np.isfinite(next_end):  # else all GPUs in reach are held by jobs that must not be preempted
            now.wake(now.time + float(next_end))
        return count

    def uncrowded(self, pool: GpuPool) -> Ints:
        """Return the shares when every job can have some, shape (n,)."""
        return afs_shares(
            pool.curves, pool.rows["rank"], pool.gpus, key_is_work=False, ahead=pool.rows["reserved"]
        )


class AfsS(AfsP):
    """AFS-P with even shares: all that is known of a job is with how many GPUs it is fastest."""

    name = "afs-s"

    def uncrowded(self, pool: GpuPool) -> Ints:  # noqa: D102
        return even_shares(pool.curves.first, pool.curves.top, pool.order(), pool.gpus)
