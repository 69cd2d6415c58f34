"""TunedJobs: the GPU count and batch size that a knowing user would ask for (thesis 3.4.3, Pollux 5.2).

With T(n, M) the run time of a job on n GPUs at the fixed batch size M, a pair (n, M) is valid if

    1/2 <= T(1, best M) / (n T(n, M)) <= 4/5,

that is if it has 50 to 80% of the ideal speedup: less wastes GPUs, more could be sped up further.  A job
takes one of its valid pairs at random.  Where a job has none it takes the pair whose share of the ideal
speedup is nearest to that range.  Candidates for n are the GPU counts of the cluster's configurations on one
type, so that every policy can place them, and for M the doublings of the initial batch size.  The unit of a
job that is too large for one GPU is the smallest count that runs it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.workload import JobSubmission

RANGE = (0.5, 0.8)
"""Share of the ideal speedup of a valid configuration."""
MOST_GPUS = {True: 64, False: 16}
"""Largest GPU count on homogeneous clusters, and on others (thesis section 3.4.3)."""


@runtime_checkable
class _Batched(Protocol):
    """A profile whose batch size can be fixed."""

    initial_batch: int
    max_batch: int


class TunedJobs:
    """Tunes jobs for a cluster.

    Parameters
    ----------
    cluster : Cluster
    most_gpus : int, optional
        Largest GPU count; by default :data:`MOST_GPUS`.
    type : str, optional
        GPU type on which run times are compared; by default, for each profile, the one on which the fewest
        batch sizes fit and, among those, a single GPU is slowest, so that a tuned job runs on all types that
        can run it.

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
        """Valid pairs of GPU count and batch size; the nearest one alone if none is.

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
        type = self.type or self._tightest(profile)
        if type is None:
            return []
        seconds = {
            (gpus, batch): self._seconds(profile, type, gpus, batch)
            for gpus in self._counts(type)
            for batch in _batch_sizes(profile)
        }
        seconds = {pair: value for pair, value in seconds.items() if value < math.inf}
        unit = min((gpus for gpus, _ in seconds), default=0)
        alone = min((unit * value for (gpus, _), value in seconds.items() if gpus == unit), default=math.nan)
        shares = {pair: alone / (pair[0] * value) for pair, value in seconds.items()}
        low, high = RANGE
        valid = [pair for pair, share in shares.items() if low <= share <= high]
        distance = {pair: max(low - share, share - high) for pair, share in shares.items()}
        return valid or sorted(distance, key=distance.__getitem__)[:1]

    def _counts(self, type: str) -> list[int]:
        entries = self.cluster.configurations
        return sorted({one.gpus for one in entries if one.type == type and one.gpus <= self.most_gpus})

    def _tightest(self, profile: Profile) -> str | None:
        """GPU type on which the fewest batch sizes fit its smallest unit, the slower one of equals."""
        found = []
        for name in self.cluster.names:
            for gpus in self._counts(name):
                times = [self._seconds(profile, name, gpus, batch) for batch in _batch_sizes(profile)]
                fit = [gpus * value for value in times if value < math.inf]
                if fit:
                    found.append((len(fit), -min(fit), name))
                    break
        return min(found)[2] if found else None

    def _seconds(self, profile: Profile, type: str, gpus: int, batch: int | None) -> float:
        fixed = profile.at_fixed_batch(batch)
        return float(fixed.clock(self.cluster.packed(type, gpus))[-1])


def _batch_sizes(profile: Profile) -> list[int | None]:
    """Doublings of the initial batch size up to the largest one, and that."""
    if not isinstance(profile, _Batched):
        return [None]
    sizes, size = [], int(profile.initial_batch)
    while size < profile.max_batch:
        sizes.append(size)
        size *= 2
    return [*sizes, int(profile.max_batch)]
