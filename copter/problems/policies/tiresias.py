"""Tiresias: least attained service first, in a few queues, for rigid jobs.

A job starts in the first queue, and moves to the next one when its GPUs times the seconds that it held them
reach the queue's limit.  Earlier queues come first, and within a queue the job that entered first; a job that
does not fit is skipped.  Later jobs are preempted.

Source: Gu et al., Tiresias (NSDI '19), discretised two-dimensional LAS without promotion; two queues with a
limit of 16 GPU-hours as in the simulations that the authors of Pollux distribute (section 5.2, TunedJobs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from copter.arrays import Ints
from copter.problems.afs.allocation import first_shares
from copter.problems.afs.policies import SharePolicy
from copter.problems.afs.roster import GpuPool
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind
from copter.problems.policies.mechanism import look

_LIMITS = (16 * 3600.0,)
"""GPU-seconds at which a job leaves each queue except the last."""


_ROUNDING = 1e-6


class Tiresias:
    """Tiresias with rounds."""

    name = "tiresias"
    kind: Kind = "rigid"

    def __init__(self, *, limits: Sequence[float] = _LIMITS, round_seconds: float = 60.0) -> None:
        if list(limits) != sorted(set(limits)):
            raise ValueError(f"limits = {limits}: must be ascending")
        self.round_seconds: float | None = round_seconds
        self._limits = tuple(limits)
        self._entered: dict[str, tuple[int, int]] = {}
        self._count = 0

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the configurations of the jobs that fit, by queue."""
        here = look(now)
        for name, service in zip(here.names, (job.gpu_seconds for job in here.jobs), strict=True):
            queue = sum(service >= limit for limit in self._limits)
            if self._entered.get(name, (-1, 0))[0] != queue:
                self._count += 1
                self._entered[name] = queue, self._count
        for job in now.left:
            self._entered.pop(job.name, None)
        order = sorted(range(len(here.jobs)), key=lambda job: self._entered[here.jobs[job].name])
        return here.allocation(here.pack((job, here.preferences(job)) for job in order))


class TiresiasL(SharePolicy):
    """Tiresias at events, without rounds, for traces of months; moves to a later queue are events.

    Source: AFS compares with it (section 5.1) but gives no limits; those of :class:`Tiresias` are used.

    `limits`: GPU-seconds at which a job leaves each queue except the last, ascending.
    """

    name = "tiresias-l"
    watch = ("ran",)
    kind: Kind = "rigid"

    def __init__(self, *, limits: Sequence[float] = _LIMITS, seed: int = 0) -> None:
        super().__init__(seed=seed)
        if not limits or list(limits) != sorted(set(limits)):
            raise ValueError(f"limits = {limits}: must be ascending")
        self._limits = np.array([*limits, np.inf])

    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:  # noqa: D102
        rows = pool.rows
        service = rows["ran"] * rows["request"] + _ROUNDING
        queue = np.searchsorted(self._limits, service, side="right")
        fell = queue > rows["units"]
        entered = np.where(fell, now.time, rows["since"])
        self.roster.rows["units"][pool.slots] = queue
        self.roster.rows["since"][pool.slots] = entered
        count, _ = first_shares(rows["request"], pool.order(queue, entered), pool.gpus)
        falls = (self._limits[queue] - service) / rows["request"]
        next_fall = falls[count > 0].min(initial=np.inf)
        if np.isfinite(next_fall):
            now.wake(now.time + float(next_fall) + _ROUNDING)
        return count
