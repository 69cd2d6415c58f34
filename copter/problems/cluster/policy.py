"""The protocol of a policy: its input, the state of the cluster, and its decision.

A policy is one object for one simulation.  It is asked at the start of every round of ``round_seconds``.  If
``round_seconds`` is None, it is asked at every event: an arrival, a completion, a change of nodes, or a time
that it requested with :meth:`ClusterState.wake`.  It returns the configuration of every job that gets GPUs;
other jobs have none until it is asked again.  The simulator's placer chooses nodes, unless the policy returns
a :class:`Placement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from copter.errors import CopterError
from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.workload import Kind


class PolicyError(CopterError, ValueError):
    """A policy's decision has jobs or GPUs that do not exist."""


class Placement(NamedTuple):
    """GPUs of one type on given nodes.

    Attributes
    ----------
    type : str
        GPU type.
    nodes : tuple of (int, int)
        Pairs of a node of that type, counted from 0, and the GPUs on it; ascending by node.
    """

    type: str
    nodes: tuple[tuple[int, int], ...]

    @property
    def configuration(self) -> Configuration:
        """Number of nodes and GPUs, with the type."""
        return Configuration(len(self.nodes), sum(gpus for _, gpus in self.nodes), self.type)


Allocation: TypeAlias = Configuration | Placement


def counts_of(allocation: Allocation) -> Configuration:
    """Return the configuration of an allocation with or without nodes."""
    return allocation.configuration if isinstance(allocation, Placement) else allocation


@dataclass
class ClusterState:
    """The cluster when a policy is asked.

    Attributes
    ----------
    time : float
        Seconds since the start.
    index : int
        Number of earlier calls of the policy.
    seconds : float
        Length of the round that begins; infinite for a policy that is asked at events.
    cluster : Cluster
        The present cluster; the policy must not change it.
    jobs : dict of str to Job
        All present jobs, in order of arrival.
    arrived, left : tuple of Job
        Jobs that arrived, and jobs that completed, since the last call of the policy.
    down : mapping of str to frozenset of int
        Failed nodes of each type.  If a type has n nodes, the working ones are the first n numbers that are
        not in this set.
    wakes : list of float
        Requests of the policy by :meth:`wake`.
    """

    time: float
    index: int
    seconds: float
    cluster: Cluster
    jobs: Mapping[str, Job]
    arrived: tuple[Job, ...] = ()
    left: tuple[Job, ...] = ()
    down: Mapping[str, frozenset[int]] = field(default_factory=dict)
    wakes: list[float] = field(default_factory=list)

    def wake(self, time: float) -> None:
        """Request a call of the policy at a time, if there is no event before.

        Parameters
        ----------
        time : float
            Seconds since the start; must be later than now.  Policies with rounds are asked each round
            anyway.
        """
        if not time > self.time:
            raise PolicyError(f"wake({time:g}) at {self.time:g} s: must be in the future")
        self.wakes.append(time)


def pinned(jobs: Iterable[Job], free: dict[str, int]) -> dict[str, Configuration]:
    """Return the configurations of running jobs that must not be preempted, by name of the job.

    `free`: number of free GPUs of each type, from which the function subtracts the GPUs of the returned jobs.
    A job whose GPUs do not exist any more is left out.
    """
    return kept((job for job in jobs if not job.submission.preemptible), free)


def kept(jobs: Iterable[Job], free: dict[str, int]) -> dict[str, Configuration]:
    """Return the configurations of running jobs whose GPUs still exist; `free` is as in :func:`pinned`."""
    there: dict[str, Configuration] = {}
    for job in jobs:
        held = job.allocation
        if held is not None and held.gpus <= free.get(held.type, 0):
            there[job.name] = held
            free[held.type] -= held.gpus
    return there


class Policy(Protocol):
    """A scheduler.

    Attributes
    ----------
    kind : {"adaptive", "strong-scaling", "rigid"}
        What the policy adapts at most: batch size and GPU count, the count only, or neither.  The simulator
        presents a more flexible job as a job of this kind.  The policy must not adapt a less flexible job
        beyond the job's own kind.
    round_seconds : float or None
        Default length of the policy's rounds; None if the policy is asked at events.
    """

    name: str
    kind: Kind
    round_seconds: float | None

    def schedule(self, now: ClusterState) -> Mapping[str, Allocation]:
        """Return the configuration or placement of every job that gets GPUs, by name."""


@runtime_checkable
class Explains(Protocol):
    """A policy that can explain the allocation of a job."""

    def why(self, job: str) -> Sequence[str]:
        """Return sentences about a job in the last round; empty if the policy knows nothing about it."""


@runtime_checkable
class WarmsUp(Protocol):
    """A policy that can do work before its first round, such as to import modules."""

    def warm_up(self) -> None:
        """Do work that would make the first round slow; called before that round, at least once."""


class Estimator(Protocol):
    """Knowledge of the jobs' profiles; an estimator sets :attr:`.jobs.Job.seen`."""

    def observe(self, now: ClusterState) -> None:
        """Update the known profiles before the policy is asked, from arrivals and from jobs that ran."""

    def profiling_seconds(self, job: Job) -> float:
        """Return the seconds of profiling in a job's first start, while it holds its GPUs; 0 by default."""
        return 0.0
