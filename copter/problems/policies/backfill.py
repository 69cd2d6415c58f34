"""First come, first served with backfilling, for rigid jobs, as in common batch systems.

No job is stopped.  The policy is the baseline with which :mod:`.queue` is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState, PolicyError, kept
from copter.problems.cluster.workload import Kind


class Backfill:
    """First come, first served, with EASY backfilling.

    The first job that does not fit gets a reservation: the type and the earliest time at which enough running
    jobs will have ended.  A later job starts now if it fits, and if it also ends before that time or leaves
    enough GPUs for the reservation.  Ends are computed from the jobs' known profiles, so they are exact in
    the simulator if the profiles are exact.

    Source: Lifka, The ANL/IBM SP scheduling system (1995); Slurm's ``sched/backfill`` with one reservation.
    """

    name = "backfill"
    kind: Kind = "rigid"

    def __init__(self, *, round_seconds: float = 60.0) -> None:
        self.round_seconds: float | None = float(round_seconds)

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the configurations of running jobs, and of waiting jobs that may start."""
        free = now.cluster.capacity
        given = kept(now.jobs.values(), free)
        reserved = Reservation()
        for name, job in now.jobs.items():
            if name in given:
                continue
            options = fastest(job, now.cluster)
            for one in options:
                if one.gpus <= free[one.type] and reserved.admits(job, one, now.time):
                    given[name] = one
                    free[one.type] -= one.gpus
                    break
            else:
                if options and reserved.type is None:
                    reserved = reservation(now, given, free, options)
        return given


def fastest(job: Job, cluster: Cluster) -> list[Configuration]:
    """Return the configuration of a rigid job on each type that can run it, the fastest first."""
    if job.gpus is None:
        raise PolicyError(f"job {job.name!r}: kind = {job.kind}: must be rigid for this policy")
    there = [cluster.packed(type.name, job.gpus) for type in cluster.types if job.gpus <= type.gpus]
    speeds = {one: speed for one in there if (speed := job.speed(one)) > 0}
    return sorted(speeds, key=speeds.__getitem__, reverse=True)


def take_first(options: Iterable[Configuration], free: dict[str, int]) -> Configuration | None:
    """Return the first configuration whose GPUs are free, and take these GPUs; None if there is none."""
    for one in options:
        if one.gpus <= free.get(one.type, 0):
            free[one.type] -= one.gpus
            return one
    return None


def seconds_left(job: Job, one: Configuration) -> float:
    """Return the expected seconds that a job still needs with a configuration."""
    return max(job.work - job.progress, 0.0) / job.speed(one)


@dataclass
class Reservation:
    """GPUs of a `type` that a job will take at a `time`; `spare` more GPUs are free at that time."""

    type: str | None = None
    time: float = math.inf
    spare: int = 0

    def admits(self, job: Job, one: Configuration, now: float) -> bool:
        """Return whether a job may start now; if it ends after `time`, it takes from the spare GPUs."""
        if one.type != self.type or now + seconds_left(job, one) <= self.time:
            return True
        if one.gpus > self.spare:
            return False
        self.spare -= one.gpus
        return True


def reservation(
    now: ClusterState,
    given: Mapping[str, Configuration],
    free: Mapping[str, int],
    options: Sequence[Configuration],
) -> Reservation:
    """Return the earliest reservation for any of the `options`, if the jobs in `given` run to their ends."""
    best = Reservation()
    for one in options:
        ends = []
        for name, held in given.items():
            if held.type == one.type:
                job = now.jobs[name]
                ends.append((max(job.restart_until, now.time) + seconds_left(job, held), held.gpus))
        there = free[one.type]
        for time, gpus in [(now.time, 0), *sorted(ends)]:
            there += gpus
            if there >= one.gpus:
                if time < best.time:
                    best = Reservation(one.type, time, there - one.gpus)
                break
    return best
