"""TunedJobs: the GPU count and batch size that a knowing user would ask for (thesis 3.4.3, Pollux 5.2).

With T(n, M) the run time of a job on n GPUs at the fixed batch size M, and M(n) the batch size with the least
run time on n GPUs, a GPU count is valid if

    1/2 <= T(1, M(1)) / (n T(n, M(n))) <= 4/5,

that is if it has 50 to 80% of the ideal speedup: less wastes GPUs, more could be sped up further.  A job
takes one of its valid pairs (n, M(n)) at random.  Where it has none it takes the count whose share of the
ideal speedup is nearest to that range.  Candidates for n are the GPU counts of the cluster's configurations
on one type, so that every policy can place them, and for M the doublings of the initial batch size.  The unit
of a job that is too large for one GPU is the smallest count that runs it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.presets import GPU_MEMORY_GB
from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.workload import JobSubmission

RANGE = (0.5, 0.8)
"""Share of the ideal speedup of a valid configuration."""
MOST_GPUS = {True: 64, False: 16}
"""Largest GPU count on homogeneous clusters, and on others (thesis section 3.4.3)."""


class TunedJobs:
    """Tunes jobs for a cluster.

    Parameters
    ----------
    cluster : Cluster
    most_gpus : int, optional
        Largest GPU count; by default :data:`MOST_GPUS`.
    type : str, optional
        GPU type on which run times are compared; by default the one with the least memory, as the authors
        take the RTX 2080 Ti: what fits there fits everywhere.  If that does not run a job, the next.

    Raises
    ------
    ValueError
        The cluster has no such type.
    """

    def __init__(self, cluster: Cluster, most_gpus: int | None = None, type: str | None = None) -> None:
        if type is not None and type not in cluster.names:
            raise ValueError(f"unknown GPU type {type!r}; the cluster has {list(cluster.names)}")
        self.cluster, self.type = cluster, type
        self.most_gpus = MOST_GPUS[len(cluster.types) == 1] if most_gpus is None else most_gpus
        self._choices: dict[int, tuple[Profile, list[tuple[int, int | None]]]] = {}

    def choices(self, profile: Profile) -> list[tuple[int, int | None]]:
        """Valid pairs of GPU count and batch size; the nearest pair alone if none is.

        Parameters
        ----------
        profile : Profile

        Returns
        -------
        list of (int, int or None)
            Empty if no GPU of the cluster can run the job; no batch size for profiles that know none.
        """
        if id(profile) not in self._choices:
            self._choices[id(profile)] = (profile, self._search(profile))
        return self._choices[id(profile)][1]

    def tune(
        self, jobs: Sequence[JobSubmission], profiles: Mapping[str, Profile], rng: np.random.Generator
    ) -> list[JobSubmission]:
        """The same jobs with ``tuned_gpus`` and ``batch_size``; jobs that have a GPU count keep theirs.

        Parameters
        ----------
        jobs : sequence of JobSubmission
        profiles : mapping of str to Profile
            By application.
        rng : numpy.random.Generator

        Returns
        -------
        list of JobSubmission
        """
        tuned = []
        for job in jobs:
            choices = self.choices(profiles[job.application])
            pick = float(rng.random())
            if choices and job.gpus is None and job.tuned_gpus is None:
                gpus, batch = choices[int(pick * len(choices))]
                batch = batch if job.batch_size is None else job.batch_size
                job = replace(job, tuned_gpus=gpus, batch_size=batch)
            tuned.append(job)
        return tuned

    def _search(self, profile: Profile) -> list[tuple[int, int | None]]:
        found: dict[int, tuple[float, int | None]] = {}
        for type in [self.type] if self.type else self._by_memory():
            found = self._fastest(profile, type)
            if found:
                break
        if not found:
            return []
        unit = min(found)
        shares = {gpus: unit * found[unit][0] / (gpus * seconds) for gpus, (seconds, _) in found.items()}
        low, high = RANGE
        valid = [gpus for gpus, share in shares.items() if low <= share <= high]
        distance = {gpus: max(low - share, share - high) for gpus, share in shares.items()}
        return [(gpus, found[gpus][1]) for gpus in valid or sorted(shares, key=distance.__getitem__)[:1]]

    def _fastest(self, profile: Profile, type: str) -> dict[int, tuple[float, int | None]]:
        """Least run time in seconds by GPU count, and the batch size that has it."""
        entries = self.cluster.configurations
        counts = sorted({one.gpus for one in entries if one.type == type and one.gpus <= self.most_gpus})
        found: dict[int, tuple[float, int | None]] = {}
        for gpus in counts:
            for batch in _batch_sizes(profile):
                clock = profile.at_fixed_batch(batch).clock(self.cluster.packed(type, gpus))
                if clock[-1] < found.get(gpus, (math.inf, None))[0]:
                    found[gpus] = (float(clock[-1]), batch)
        return found

    def _by_memory(self) -> list[str]:
        return sorted(self.cluster.names, key=lambda name: GPU_MEMORY_GB.get(name, math.inf))


def _batch_sizes(profile: Profile) -> list[int | None]:
    """Doublings of the initial batch size up to the largest one, and that."""
    if profile.batch_range is None:
        return [None]
    size, largest = profile.batch_range
    sizes: list[int | None] = []
    while size < largest:
        sizes.append(size)
        size *= 2
    return [*sizes, largest]
