"""A round as policies of rigid jobs see it: GPUs and speeds by type, and jobs put where there is room.

A rigid job runs with all of its GPUs, of one type, or not at all.  Where a submission names no count it has the
one that it was tuned for, or else the smallest with which it can run.  GPUs of a job fill nodes: a job of more
than a node has as few nodes as they fit into.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import JobState
from copter.problems.cluster.policy import ClusterState

ROUND_SECONDS = 360.0
"""Length of a round for policies of rigid jobs (thesis section 3.4, default parameters)."""


@dataclass(frozen=True, eq=False)
class RigidRound:
    """The jobs that can run on some type, n of them in order of arrival, and the T types.

    Attributes
    ----------
    time, seconds : float
        Start of the round, and its length.
    types : tuple of str
    capacity : (T,) int array
        GPUs of each type.
    jobs : tuple of JobState
    gpus : (n,) int array
        GPUs of each job.
    speed : (n, T) array
        Progress a second on each type; 0 where it cannot run.
    """

    time: float
    seconds: float
    types: tuple[GpuType, ...]
    capacity: NDArray[np.int64]
    jobs: tuple[JobState, ...]
    gpus: NDArray[np.int64]
    speed: NDArray[np.float64]

    @property
    def names(self) -> list[str]:
        """Names of the jobs."""
        return [job.name for job in self.jobs]

    @property
    def total(self) -> int:
        """GPUs of all types."""
        return int(self.capacity.sum())

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

        Returns
        -------
        Configuration
        """
        return _configuration(int(self.gpus[job]), self.types[type])

    def type_of(self, job: int) -> int | None:
        """Position of the type that a job holds now, if it holds the configuration that it would get there."""
        held = self.jobs[job].allocation
        for position, type in enumerate(self.types):
            if held is not None and type.name == held.type:
                return position if held == self.configuration(job, position) else None
        return None

    def preferences(self, job: int) -> list[int]:
        """Types that can run a job: the one that it holds, then the fastest first."""
        order = np.argsort(-self.speed[job], kind="stable").tolist()
        held = self.type_of(job)
        return sorted((t for t in order if self.speed[job, t] > 0), key=lambda t: t != held)

    def pack(self, candidates: Iterable[tuple[int, Sequence[int]]]) -> dict[int, int]:
        """Take candidates in order as far as they fit; one that does not fit is passed over.

        Parameters
        ----------
        candidates : iterable of (job, types to try in order)
            Positions; a job that comes twice is placed once.

        Returns
        -------
        dict of job to type
        """
        free = self.capacity.tolist()
        placed: dict[int, int] = {}
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

    Parameters
    ----------
    now : ClusterState

    Returns
    -------
    RigidRound
    """
    types = now.cluster.types
    jobs: list[JobState] = []
    gpus: list[int] = []
    speed: list[list[float]] = []
    for job in now.jobs.values():
        count = rigid_gpus(job, now.cluster)
        row = [job.speed(_configuration(count, type)) if 0 < count <= type.gpus else 0.0 for type in types]
        if max(row) > 0:
            jobs.append(job)
            gpus.append(count)
            speed.append(row)
    capacity = np.array([type.gpus for type in types], np.int64)
    shape = (len(jobs), len(types))
    return RigidRound(
        now.time,
        now.seconds,
        types,
        capacity,
        tuple(jobs),
        np.array(gpus, np.int64),
        np.array(speed, np.float64).reshape(shape),
    )


def rigid_gpus(job: JobState, cluster: Cluster) -> int:
    """GPUs with which a job runs under a policy that does not adapt it; 0 if nothing can run it.

    Parameters
    ----------
    job : JobState
    cluster : Cluster

    Returns
    -------
    int
    """
    count = job.gpus or job.submission.tuned_gpus
    if count is None:
        columns, _ = job.row(cluster.configurations)
        count = int(cluster.configurations.gpus[columns].min()) if columns.size else 0
    return count


def _configuration(gpus: int, type: GpuType) -> Configuration:
    return Configuration(-(-gpus // type.gpus_per_node), gpus, type.name)
