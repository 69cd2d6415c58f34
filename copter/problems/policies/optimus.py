"""Optimus: GPUs are given one by one where they reduce the remaining time most; batch sizes are fixed.

First, every job gets the fewest GPUs on which it can run, as long as GPUs are free: jobs that need fewer GPUs
come first, and of jobs that need equally many, earlier jobs. The remaining GPUs are given one at a time to
the job j with the largest

    seconds left with n_j GPUs - seconds left with n_j + 1 GPUs,

until no job gains.  The remaining steps of each job are known (Optimus+Oracle: the paper's Optimus
extrapolates the loss, which fails with learning-rate schedules).  The time of a step follows from the known
profile.

In a cluster of several types, a job is put on the type with most free GPUs, and grows there.  Running jobs
that must not be preempted keep their GPUs, and all other jobs share the remaining GPUs.

Source: Peng et al., Optimus (EuroSys '18), as run by Pollux' authors (Pollux section 5.2, Optimus+Oracle).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState, pinned
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind

_KEPT = 4096
"""Largest number of cached speed curves."""


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
        """Return the configurations that marginal gains determine."""
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
        """Return the remaining seconds by GPUs, for each type that can run a job."""
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
        """Return the GPU counts that can run a job, and its speeds; jobs of one application share these."""
        key = (id(job.seen), min(job.level, job.seen.n_levels - 1), type.name, job.gpus)
        if key not in self._known:
            wanted = range(1, min(type.gpus, self._max_gpus) + 1) if job.gpus is None else [job.gpus]
            options = [cluster.packed(type.name, gpus) for gpus in wanted if gpus <= type.gpus]
            speeds = {one.gpus: speed for one in options if (speed := job.speed(one)) > 0}
            if len(self._known) >= _KEPT:
                self._known.clear()
            # Keep the profile too, so that its id is not used again.
            self._known[key] = job.seen, list(speeds), list(speeds.values())
        return self._known[key][1:]


def _work_left(job: Job, configuration: Configuration) -> float:
    """Return the remaining progress at the present efficiency: true remaining seconds times present speed."""
    now = job.profile.curve(configuration)[min(job.level, job.profile.n_levels - 1)] / job.profile.calibration
    return job.true_seconds(configuration) * float(now)


@dataclass
class _Curve:
    """Possible GPU counts of a job on a type, remaining seconds with them, and its present count."""

    job: str
    type: str
    counts: list[int]
    seconds: list[float]
    at: int = 0

    @property
    def more(self) -> int:
        """Number of GPUs up to the next count."""
        return self.counts[self.at + 1] - self.counts[self.at]

    @property
    def gain(self) -> float:
        """Seconds that the next count saves per GPU; 0 after the last count."""
        if self.at + 1 == len(self.counts):
            return 0.0
        return (self.seconds[self.at] - self.seconds[self.at + 1]) / self.more
