"""Tiresias: least attained service first, in a few queues, for rigid jobs.

A job starts in the first queue, and moves to the next queue when its GPUs times the seconds that it held them
reach the queue's limit.  Jobs of earlier queues come first, and within a queue the job that entered first; a
job that does not fit is skipped.  Running jobs for which no GPUs are left are preempted.

Source: Gu et al., Tiresias (NSDI '19), discretised two-dimensional LAS without promotion; two queues with a
limit of 16 GPU-hours as in the simulations that the authors of Pollux distribute (section 5.2, TunedJobs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind
from copter.problems.policies.mechanism import look

_LIMITS = (16 * 3600.0,)
"""GPU-seconds at which a job leaves each queue except the last."""


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
