"""The frame of a policy that shares out GPUs of one kind at every event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.problems.afs.allocation import regulate
from copter.problems.afs.roster import Pool, Roster
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind


class SharePolicy(ABC):
    """A policy that is asked at events and answers with a number of GPUs for every job.

    Shares become counts that nodes can hold by network packing (:func:`.allocation.regulate`).

    Parameters
    ----------
    seed : int
        Of what the policy draws.
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
        """Share out the GPUs of each type, see :class:`~copter.problems.cluster.policy.Policy`."""
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
    def shares(self, pool: Pool, now: ClusterState) -> NDArray[np.int64]:
        """GPUs of each job of a pool.

        Parameters
        ----------
        now : ClusterState
            To be asked again at a time; the pool says the rest.

        Returns
        -------
        (n,) int array
            Counts that can be given out: units of the curves, or what the users asked for.
        """


def packed(pool: Pool, count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts of a pool after network packing.

    Parameters
    ----------
    count : (n,) int array

    Returns
    -------
    (n,) int array
    """
    return regulate(pool.curves, count)


Gain: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""What jobs gain, from their positions and their speeds before and after."""


def raise_by_gain(
    pool: Pool, jobs: NDArray[np.int64], count: NDArray[np.int64], free: int, gain: Gain
) -> int:
    """Raise counts unit by unit, the largest gain for a GPU first, as long as there are GPUs.

    Parameters
    ----------
    jobs : (k,) int array
        Whose counts may grow.
    count : (n,) int array
        Changed in place.
    free : int
        GPUs to give out.

    Returns
    -------
    int
        GPUs that nobody can use.
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
