"""A round as policies of rigid jobs see it: GPUs and speeds by type, and jobs put where there is room.

A rigid job runs with all of its GPUs, of one type and on as few nodes as they fit into, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.policy import ClusterState, PolicyError, pinned
from copter.problems.cluster.simulation.jobs import JobState

ROUND_SECONDS = 360.0
"""Length of a round for policies of rigid jobs (thesis section 3.4, default parameters)."""


@dataclass(frozen=True, eq=False)
class RigidRound:
    """The jobs that can run on some type, n of them in order of arrival, and the T types.

    Attributes
    ----------
    time, seconds : float
        Start of the round, and its length.
    jobs : tuple of JobState
    gpus : (n,) int array
        GPUs of each job.
    speed : (n, T) array
        Progress a second on each type; 0 where it cannot run.
    """

    time: float
    seconds: float
    cluster: Cluster
    jobs: tuple[JobState, ...]
    gpus: NDArray[np.int64]
    speed: NDArray[np.float64]

    @property
    def names(self) -> list[str]:
        """Names of the jobs."""
        return [job.name for job in self.jobs]

    @cached_property
    def capacity(self) -> NDArray[np.int64]:
        """GPUs of each type, shape (T,)."""
        return np.array([type.gpus for type in self.cluster.types], np.int64)

    @cached_property
    def age(self) -> NDArray[np.float64]:
        """Seconds since the submission of each job, shape (n,)."""
        return np.array([self.time - job.submitted for job in self.jobs])

    @cached_property
    def left(self) -> NDArray[np.float64]:
        """Progress that each job has to make yet, shape (n,)."""
        return np.array([max(job.work - job.progress, 0.0) for job in self.jobs])

    @cached_property
    def mean_speed(self) -> NDArray[np.float64]:
        """Speed of each job over the types that can run it, by their GPUs, shape (n,)."""
        weights = np.where(self.speed > 0, self.capacity, 0).astype(np.float64)
        weights /= weights.sum(axis=1, keepdims=True)
        return (weights * self.speed).sum(axis=1)

    @cached_property
    def relative_speed(self) -> NDArray[np.float64]:
        """Speed as a share of that on the job's fastest type, shape (n, T)."""
        return self.speed / self.speed.max(axis=1, keepdims=True)

    @cached_property
    def seconds_left(self) -> NDArray[np.float64]:
        """Run time left at the speed of now on each type, shape (n, T); infinite where it cannot run."""
        out = np.full(self.speed.shape, np.inf)
        return np.divide(self.left[:, None], self.speed, out=out, where=self.speed > 0)

    @cached_property
    def mean_seconds_left(self) -> NDArray[np.float64]:
        """Run time left at the mean speed of now, shape (n,): what a policy blind to types goes by."""
        return self.left / self.mean_speed

    @cached_property
    def steps_per_second(self) -> NDArray[np.float64]:
        """Throughput in training steps on each type, shape (n, T)."""
        steps = np.array([job.seen.steps(min(job.level, job.seen.n_levels - 1)) for job in self.jobs])
        return steps[:, None] * self.speed

    def configuration(self, job: int, type: int) -> Configuration:
        """What a job gets on a type.

        Parameters
        ----------
        job, type : int
            Positions.
        """
        return self.cluster.packed(self.cluster.names[type], int(self.gpus[job]))

    def type_of(self, job: int) -> int | None:
        """Position of the type that a job holds now."""
        held = self.jobs[job].allocation
        return None if held is None else self.cluster.names.index(held.type)

    def preferences(self, job: int) -> list[int]:
        """Types that can run a job, the one on which it completes first first, restarts counted."""
        held, speed, left = self.type_of(job), self.speed[job].tolist(), float(self.left[job])
        restart = self.jobs[job].seen.restart_seconds
        seconds = {t: left / v + restart * (t != held) for t, v in enumerate(speed) if v > 0}
        return sorted(seconds, key=seconds.__getitem__)

    def pack(self, candidates: Iterable[tuple[int, Sequence[int]]]) -> dict[int, int]:
        """Take candidates in order as far as they fit; one that does not fit is passed over.

        Running jobs that must not be preempted come first, with the GPUs that they hold.

        Parameters
        ----------
        candidates : iterable of (job, types to try in order)
            Positions; a job that comes twice is placed once.

        Returns
        -------
        dict of job to type
        """
        there = self.cluster.capacity
        kept = pinned(self.jobs, there)
        free = [there[name] for name in self.cluster.names]
        placed = {
            job: self.cluster.names.index(kept[name].type)
            for job, name in enumerate(self.names)
            if name in kept
        }
        for job, types in candidates:
            if job in placed:
                continue
            need = int(self.gpus[job])
            chosen = next((t for t in types if free[t] >= need), None)
            if chosen is not None:
                free[chosen] -= need
                placed[job] = chosen
        return placed

    def allocation(self, placed: dict[int, int]) -> dict[str, Configuration]:
        """Configurations by name of the job, of what :meth:`pack` returned."""
        return {self.jobs[job].name: self.configuration(job, type) for job, type in placed.items()}


def look(now: ClusterState) -> RigidRound:
    """The round as a policy of rigid jobs sees it; jobs that no type can run now are left out.

    Raises
    ------
    PolicyError
        A job is not rigid.
    """
    cluster = now.cluster
    jobs: list[JobState] = []
    speed: list[list[float]] = []
    for job in now.jobs.values():
        count = job.gpus
        if count is None:
            raise PolicyError(f"job {job.name!r} is {job.kind}: the policy is for rigid jobs")
        row = [
            job.speed(cluster.packed(type.name, count)) if count <= type.gpus else 0.0
            for type in cluster.types
        ]
        if max(row) > 0:
            jobs.append(job)
            speed.append(row)
    return RigidRound(
        now.time,
        now.seconds,
        cluster,
        tuple(jobs),
        np.array([job.gpus for job in jobs], np.int64),
        np.array(speed, np.float64).reshape(len(jobs), len(cluster.types)),
    )
