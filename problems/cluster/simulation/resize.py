"""What holds jobs up: starts, changes of their GPUs and moves, and jobs that share their nodes.

Changes cost what the papers say: :class:`CheckpointRestart`, the default, is Sia's model; the others
are the constant delay of Pollux' simulator, the dispatch of Shockwave's, and the resizes of CoDDL, in which a
job runs on while new GPUs get ready.

Jobs of more than one node synchronise over the network; two of them on a node compete for its card
(:class:`SharedNodes`).  Pollux (section 5.3.2) injects slowdowns of 0 to 50% for each distributed job that
shares a node with another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from copter.problems.cluster.policy import Allocation, ClusterState, Placement, counts_of
from copter.problems.cluster.simulation.jobs import SimulatedJob

_CODDL_SECONDS = 0.004
"""Pause of a job in which GPUs join or leave it (AFS section 4.3)."""
_DISPATCH_SECONDS = 20.0
"""Of Shockwave's authors."""
_FREE_ENDING_SECONDS = 5.0
"""A job that completes so long before its round ends pays for no dispatch."""


class Resize(Protocol):
    """What it costs a job to start, to change its GPUs, to move."""

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Seconds without progress. `job`: before the change."""

    def overlap(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Seconds in which it goes on with what it had, while new GPUs get ready; none by default."""
        return 0.0


class Interference(Protocol):
    """How jobs that share nodes slow each other down."""

    def factors(self, jobs: Mapping[str, SimulatedJob]) -> Mapping[str, float]:
        """Factor on the speed of each running job that is not 1."""


class CheckpointRestart(Resize):
    """Every start, change and move costs the restart seconds of the job's profile (thesis section 3.3.4)."""

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Restart seconds of the profile."""
        return job.profile.restart_seconds


def _checked(seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"seconds = {seconds}: must not be negative")
    return float(seconds)


class FixedDelay(Resize):
    """Every start, change and move costs the same (Pollux section 5.3: 30 s)."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = _checked(seconds)

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """The same for all. `job`: before the change."""
        return self._seconds


class DispatchRestart(Resize):
    """A job that did not run in the round before is dispatched (Shockwave's authors' simulator).

    There is no cost in the very first round, and none in a job's last round if it would end 5 s or more
    before the round does.  A job that ran in the round before goes on for free, wherever it runs now.
    """

    def __init__(self, seconds: float = _DISPATCH_SECONDS) -> None:
        self._seconds = _checked(seconds)

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Seconds of the dispatch, if there is one. `job`: before the change."""
        if job.allocation is not None or now.index == 0:
            return 0.0
        counts = counts_of(new)
        ends_early = job.true_seconds(counts) <= now.seconds - _FREE_ENDING_SECONDS
        return 0.0 if ends_early else self._seconds


class Coddl(Resize):
    """Resizes of CoDDL (AFS section 4.3).

    A job that gets more GPUs runs on with those that it has while the new ones load the model, and pauses
    4 ms when they join; one that loses GPUs pauses 4 ms.  A start, and a move to nodes none of which it used,
    costs a full restart.  An order that comes while GPUs get ready cancels the one before: the job
    goes on with the GPUs that it makes progress with, and only the newest order is prepared.

    `pause`: seconds of a resize. `prepare_seconds`: seconds until new GPUs are ready; a job's restart seconds
    by default. `cancellation`: without it an order is prepared only after the one before.
    """

    def __init__(
        self,
        pause: float = _CODDL_SECONDS,
        prepare_seconds: float | None = None,
        *,
        cancellation: bool = True,
    ) -> None:
        self._pause, self._cancellation = _checked(pause), cancellation
        self._prepare = None if prepare_seconds is None else _checked(prepare_seconds)

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """A pause where it keeps GPUs, a full restart where not. `job`: before the change."""
        return self._pause if _keeps_some(job, new, now.time) else job.profile.restart_seconds

    def overlap(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Seconds until the new GPUs are ready, for a job that grows."""
        running, _ = job.runs_on(now.time)
        counts = counts_of(new)
        if running is None or counts.gpus <= running.gpus or not _keeps_some(job, new, now.time):
            return 0.0
        wait = 0.0 if self._cancellation else max(job.joins_at - now.time, 0.0)
        return wait + (job.profile.restart_seconds if self._prepare is None else self._prepare)


def _keeps_some(job: SimulatedJob, new: Allocation, time: float) -> bool:
    """Whether a job keeps GPUs that it makes progress with: some on a node, where nodes are known."""
    running, place = job.runs_on(time)
    if running is None or running.type != new.type:
        return False
    if place is None or not isinstance(new, Placement):
        return True
    return not {node for node, _ in place}.isdisjoint(node for node, _ in new.nodes)


class SharedNodes:
    """Every distributed job that shares a node with another one runs slower by the same share.

    `slowdown`: 0.5 halves the speed.
    """

    def __init__(self, slowdown: float) -> None:
        if not 0 <= slowdown < 1:
            raise ValueError(f"slowdown = {slowdown}: must be at least 0 and below 1")
        self._factor = 1.0 - slowdown

    def factors(self, jobs: Mapping[str, SimulatedJob]) -> dict[str, float]:
        """Factor on the speed of each running job that is not 1."""
        if self._factor == 1.0:
            return {}
        on: dict[tuple[str, int], list[str]] = {}
        for name, job in jobs.items():
            if job.allocation is not None and job.place is not None and len(job.place) > 1:
                for node, _ in job.place:
                    on.setdefault((job.allocation.type, node), []).append(name)
        return {name: self._factor for names in on.values() if len(names) > 1 for name in names}
