"""The protocol of a policy: what it sees of the cluster, and what it answers.

A policy is one object for one simulation.  It is asked at the start of every round of ``round_seconds``, or,
where that is None, at every event: an arrival, a completion, a change of nodes, a time that it asked for with
:meth:`ClusterState.wake`.  It answers with the configuration of every job that is to have GPUs; jobs left out
have none until it is asked again.  Nodes are chosen by the simulator's placer, unless the policy answers with
a :class:`Placement` itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from copter.errors import CopterError
from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.workload import Kind


class PolicyError(CopterError, ValueError):
    """A policy answered with jobs that are not there, or with GPUs that are not there."""


class Placement(NamedTuple):
    """GPUs of one type on given nodes.

    Attributes
    ----------
    nodes : tuple of (int, int)
        Node of that type, counted from 0, and GPUs on it; ascending by node.
    """

    type: str
    nodes: tuple[tuple[int, int], ...]

    @property
    def configuration(self) -> Configuration:
        """Its counts."""
        return Configuration(len(self.nodes), sum(gpus for _, gpus in self.nodes), self.type)


Allocation: TypeAlias = Configuration | Placement


def counts_of(allocation: Allocation) -> Configuration:
    """Configuration of an allocation, with or without places."""
    return allocation.configuration if isinstance(allocation, Placement) else allocation


@dataclass
class ClusterState:
    """The cluster when a policy is asked.

    Attributes
    ----------
    time : float
        Seconds since the start.
    index : int
        Times that the policy was asked before.
    seconds : float
        Length of the round that begins; infinite for a policy that is asked at events.
    cluster : Cluster
        As it is now; not the policy's to change.
    jobs : dict of str to Job
        All jobs that are there, in order of arrival.
    arrived, left : tuple of Job
        Jobs that came, and that completed, since the policy was asked last.
    down : mapping of str to frozenset of int
        Nodes of each type that failed.  Of a type with n nodes those that work are the first n numbers that
        are not among them.
    wakes, sizes : list of float, dict of str to int
        What the policy asked for with :meth:`wake` and :meth:`set_nodes`.
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
    sizes: dict[str, int] = field(default_factory=dict)

    def set_nodes(self, type: str, nodes: int) -> None:
        """Ask for another number of nodes of a type, there when the policy is asked the next time."""
        if type not in self.cluster.names or nodes < 0:
            raise PolicyError(f"set_nodes({type!r}, {nodes}): the cluster has {list(self.cluster.names)}")
        self.sizes[type] = nodes

    def wake(self, time: float) -> None:
        """Ask to be asked again at a time, if nothing else happens before.

        Parameters
        ----------
        time : float
            Seconds since the start; must lie ahead.  Policies with rounds are asked each round anyway.
        """
        if not time > self.time:
            raise PolicyError(f"wake({time:g}) at {self.time:g} s: must lie ahead")
        self.wakes.append(time)


def pinned(jobs: Iterable[Job], free: dict[str, int]) -> dict[str, Configuration]:
    """What running jobs that must not be preempted hold: theirs until they complete.

    `free`: GPUs of each type; less by these jobs' afterwards. Result: by name of the job; one whose GPUs are
    not there any more is left out.
    """
    kept: dict[str, Configuration] = {}
    for job in jobs:
        held = job.allocation
        if held is not None and not job.submission.preemptible and held.gpus <= free.get(held.type, 0):
            kept[job.name] = held
            free[held.type] -= held.gpus
    return kept


class Policy(Protocol):
    """A scheduler.

    Attributes
    ----------
    kind : {"adaptive", "strong-scaling", "rigid"}
        What it adapts at most of a job: batch size and GPU count, the count, or none.  The simulator hands
        it jobs that are more flexible as jobs of this kind; it must respect jobs that are less.
    round_seconds : float or None
        Length of its rounds by default; None if it is asked at events.
    """

    name: str
    kind: Kind
    round_seconds: float | None

    def schedule(self, now: ClusterState) -> Mapping[str, Allocation]:
        """What every job that is to have GPUs gets, by name."""


class Estimator(Protocol):
    """What a policy knows of the jobs' profiles: sets :attr:`.jobs.Job.seen`."""

    def observe(self, now: ClusterState) -> None:
        """Take in who arrived, and what ran since the last time, before the policy is asked."""

    def profiling_seconds(self, job: Job) -> float:
        """Seconds by which profiling delays a job's first start, on its GPUs; 0 by default."""
        return 0.0
