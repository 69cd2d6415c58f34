"""Exchangeable parts of the simulator: who places jobs on nodes, what a change costs, who slows whom down."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.jobs import JobState
from copter.problems.cluster.policy import Allocation, ClusterState, Placement


@dataclass(frozen=True)
class NodeChange:
    """From ``time`` (seconds) on, a GPU type has ``nodes`` nodes; the last ones come and go."""

    time: float
    type: str
    nodes: int


@dataclass(frozen=True)
class NodeFailure:
    """At ``time`` (seconds) a node of a type fails; it is back ``repair_seconds`` later.

    Jobs on it lose their GPUs and go back to their last checkpoint (:meth:`.profiles.Profile.checkpoint`).
    """

    time: float
    type: str
    node: int
    repair_seconds: float


@dataclass(frozen=True)
class Placed:
    """What a placer found.

    Attributes
    ----------
    places : mapping of str to Placement
        Of every job that was placed; configurations where GPUs are only counted.
    evicted : tuple of str
        Jobs that were to have GPUs and found no nodes: they have none until the policy is asked again.
    moved : tuple of str
        Jobs that kept their configuration and changed nodes.
    """

    places: Mapping[str, Allocation]
    evicted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


class Placer(Protocol):
    """Finds nodes for configurations."""

    def place(
        self,
        cluster: Cluster,
        down: Mapping[str, frozenset[int]],
        held: Mapping[str, Placement],
        wanted: Mapping[str, Allocation],
        fixed: Collection[str] = (),
    ) -> Placed:
        """Find nodes for every job that is to have GPUs.

        Parameters
        ----------
        cluster : Cluster
            Its nodes are those that work: of a type with n of them they are the first n numbers that are not
            in `down`.
        down : mapping of str to frozenset of int
            Nodes of each type that failed.
        held : mapping of str to Placement
            Where jobs are now; nodes that are gone included.
        wanted : mapping of str to Configuration or Placement
            A Placement is the policy's own choice of nodes.
        fixed : collection of str
            Jobs that are not moved while their configuration stays.
        """


class Resize(Protocol):
    """What it costs a job to start, to change its GPUs, to move."""

    def seconds(self, job: JobState, new: Allocation, now: ClusterState) -> float:
        """Seconds without progress.

        Parameters
        ----------
        job : JobState
            Before the change.
        """

    def overlap(self, job: JobState, new: Allocation, now: ClusterState) -> float:
        """Seconds in which it goes on with what it had, while new GPUs get ready; none by default.

        Parameters
        ----------
        job : JobState
            Before the change.
        """
        return 0.0


class Estimator(Protocol):
    """What a policy knows of the jobs' profiles: sets :attr:`.jobs.JobState.seen`."""

    def observe(self, now: ClusterState) -> None:
        """Take in who arrived, and what ran since the last time, before the policy is asked."""

    def profiling_seconds(self, job: JobState) -> float:
        """Seconds by which profiling delays a job's first start, on its GPUs; 0 by default."""
        return 0.0


class Interference(Protocol):
    """How jobs that share nodes slow each other down."""

    def factors(self, jobs: Mapping[str, JobState]) -> Mapping[str, float]:
        """Factor on the speed of each running job that is not 1.

        Parameters
        ----------
        jobs : mapping of str to JobState
        """


class CheckpointRestart(Resize):
    """Every start, change and move costs the restart seconds of the job's profile (thesis section 3.3.4)."""

    def seconds(self, job: JobState, new: Allocation, now: ClusterState) -> float:
        """Restart seconds of the profile."""
        return job.profile.restart_seconds
