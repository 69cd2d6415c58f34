"""Optimus: GPUs go, one after the other, where they cut the time left the most; batch sizes are fixed.

Every job gets the fewest GPUs that it can run on, as far as they reach, in order of that number and then of
arrival.  The others are given one at a time to the job j with the largest

    seconds left with n_j GPUs - seconds left with n_j + 1 GPUs,

until none gains.  How many steps each job has left is known (Optimus+Oracle: the paper's Optimus extrapolates
the loss, which learning-rate schedules defeat); the time of a step is as far as is known.

In a cluster of several types a job is put on the type where most GPUs are free, and grows there.  Running
jobs that must not be preempted keep what they hold, and the others get what that leaves.

Source: Peng et al., Optimus (EuroSys '18), as Pollux' authors run it (Pollux section 5.2, Optimus+Oracle).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from copter.arrays import Ints
from copter.problems.afs.allocation import first_shares
from copter.problems.afs.policies import SharePolicy, raise_by_gain
from copter.problems.afs.roster import GpuPool
from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState, pinned
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind

_KEPT = 4096
"""Curves of speed that are remembered."""


class Optimus:
    """Optimus with rounds. `max_gpus`: largest number of GPUs of a job."""

    name = "optimus"
    kind: Kind = "strong-scaling"

    def __init__(self, *, max_gpus: int = 64, round_seconds: float = 60.0) -> None:
        if max_gpus < 1:
            raise ValueError(f"max_gpus = {max_gpus}: must be at least 1")
        self.round_seconds: float | None = round_seconds
        self._max_gpus = max_gpus
        self._types: tuple[GpuType, ...] = ()
        self._known: dict[tuple[int, int, str, int | None], tuple[Profile, list[int], list[float]]] = {}

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the GPUs by marginal gain, see :class:`~copter.problems.cluster.policy.Policy`."""
        free = now.cluster.capacity
        kept = pinned(now.jobs.values(), free)
        curves = [self._curves(job, now.cluster) for name, job in now.jobs.items() if name not in kept]
        fewest = [min((curve.counts[0] for curve in by_type.values()), default=0) for by_type in curves]
        chosen: list[_Curve] = []
        for at in sorted(range(len(curves)), key=fewest.__getitem__):
            fits = [type for type, curve in curves[at].items() if curve.counts[0] <= free[type]]
            if fits:
                type = max(fits, key=free.__getitem__)
                chosen.append(curves[at][type])
                free[type] -= chosen[-1].counts[0]
        heap = [(-curve.gain, order, curve) for order, curve in enumerate(chosen)]
        heapify(heap)
        while heap and heap[0][0] < 0:
            _, order, curve = heap[0]
            if curve.more > free[curve.type]:
                heappop(heap)
                continue
            free[curve.type] -= curve.more
            curve.at += 1
            heapreplace(heap, (-curve.gain, order, curve))
        given = {curve.job: now.cluster.packed(curve.type, curve.counts[curve.at]) for curve in chosen}
        return kept | given

    def _curves(self, job: Job, cluster: Cluster) -> dict[str, _Curve]:
        """Return the seconds left by GPUs, for each type that can run a job."""
        if cluster.types != self._types:
            self._types, self._known = cluster.types, {}
        found = {}
        for type in cluster.types:
            counts, speeds = self._speeds(job, type, cluster)
            if counts:
                left = _work_left(job, cluster.packed(type.name, counts[0]))
                found[type.name] = _Curve(job.name, type.name, counts, [left / speed for speed in speeds])
        return found

    def _speeds(self, job: Job, type: GpuType, cluster: Cluster) -> tuple[list[int], list[float]]:
        """Numbers of GPUs that can run a job, and its speeds; the same for jobs of one application."""
        key = (id(job.seen), min(job.level, job.seen.n_levels - 1), type.name, job.gpus)
        if key not in self._known:
            wanted = range(1, min(type.gpus, self._max_gpus) + 1) if job.gpus is None else [job.gpus]
            options = [cluster.packed(type.name, gpus) for gpus in wanted if gpus <= type.gpus]
            speeds = {one.gpus: speed for one in options if (speed := job.speed(one)) > 0}
            if len(self._known) >= _KEPT:
                self._known.clear()
            # The profile too: its id is not used again while it lives.
            self._known[key] = job.seen, list(speeds), list(speeds.values())
        return self._known[key][1:]


def _work_left(job: Job, configuration: Configuration) -> float:
    """Progress left if the efficiency of now held to the end: true seconds left times the speed of now."""
    now = job.profile.curve(configuration)[min(job.level, job.profile.n_levels - 1)] / job.profile.calibration
    return job.true_seconds(configuration) * float(now)


@dataclass
class _Curve:
    """What a job may get of a type: numbers of GPUs, seconds left with them, and which one it gets so far."""

    job: str
    type: str
    counts: list[int]
    seconds: list[float]
    at: int = 0

    @property
    def more(self) -> int:
        """GPUs up to the next number."""
        return self.counts[self.at + 1] - self.counts[self.at]

    @property
    def gain(self) -> float:
        """Seconds that the next number saves, for each GPU; none after the last."""
        if self.at + 1 == len(self.counts):
            return 0.0
        return (self.seconds[self.at] - self.seconds[self.at + 1]) / self.more


class OptimusEvents(SharePolicy):
    """Optimus asked at events, without rounds, for traces of months.

    Every job gets the fewest GPUs that it can run on, in order of arrival; the others go one unit at a time
    to the job whose time left falls most for a GPU.

    Source: AFS runs Optimus with known lengths too (section 5.1).
    """

    name = "optimus-events"
    watch = ("done",)

    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:  # noqa: D102
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
