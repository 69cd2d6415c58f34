"""Delays and slowdowns of jobs: starts, changes of their GPUs, moves, and shared nodes.

The costs of changes follow the papers.  :class:`CheckpointRestart`, the default, is Sia's model.  The others
are the dispatch of Shockwave's simulator, and the resizes of CoDDL, where a job runs while new GPUs prepare.

Jobs on more than one node synchronise over the network; two of them on the same node compete for its network
card (:class:`SharedNodes`).  Pollux (section 5.3.2) injects slowdowns of 0 to 50% for each distributed job
that shares a node with another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from copter.problems.cluster.policy import Allocation, ClusterState, Placement, counts_of
from copter.problems.cluster.simulation.jobs import SimulatedJob

_CODDL_SECONDS = 0.004
"""Pause of a job in seconds when GPUs join or leave it (AFS section 4.3)."""
_DISPATCH_SECONDS = 20.0
"""Seconds of a dispatch in the simulator of Shockwave's authors."""
_FREE_ENDING_SECONDS = 5.0
"""A job that completes at least this many seconds before its round ends pays for no dispatch."""


class Resize(Protocol):
    """Cost of a job's starts, changes of GPUs and moves."""

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Return the seconds without progress; `job` has its state before the change."""

    def overlap(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Return the seconds for which the job keeps its former GPUs while new ones prepare; default: 0."""
        return 0.0


class Interference(Protocol):
    """Slowdown of jobs that share nodes."""

    def factors(self, jobs: Mapping[str, SimulatedJob]) -> Mapping[str, float]:
        """Return the factor on the speed of each running job whose factor is not 1."""


class CheckpointRestart(Resize):
    """Every start, change and move costs the restart seconds of the job's profile (thesis section 3.3.4)."""

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Return the restart seconds of the profile."""
        return job.profile.restart_seconds


def _checked(seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"seconds = {seconds}: must be finite and not negative")
    return float(seconds)


class DispatchRestart(Resize):
    """A job that did not run in the round before must be dispatched (Shockwave's authors' simulator).

    A dispatch is free in the first round, and in a job's last round if the job completes at least 5 s before
    the round ends.  A job that ran in the round before pays nothing, even if it moves.
    """

    def __init__(self, seconds: float = _DISPATCH_SECONDS) -> None:
        self._seconds = _checked(seconds)

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Return the seconds of the dispatch; 0 if there is no dispatch."""
        if job.allocation is not None or now.index == 0:
            return 0.0
        counts = counts_of(new)
        ends_early = job.true_seconds(counts) <= now.seconds - _FREE_ENDING_SECONDS
        return 0.0 if ends_early else self._seconds


class Coddl(Resize):
    """Resizes of CoDDL (AFS section 4.3).

    A job that gets more GPUs runs on its former ones while the new ones load the model, and pauses 4 ms when
    they join.  A job that loses GPUs pauses 4 ms.  A start, or a move to nodes of which it used none, costs a
    full restart.  A new order cancels an order whose GPUs are still preparing: the job continues on the GPUs
    with which it makes progress, and only the newest order is prepared.

    `pause`: seconds of a resize. `prepare_seconds`: seconds until new GPUs are ready; default: the job's
    restart seconds. `cancellation`: if False, an order is prepared only after the one before.
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
        """Return the pause if the job keeps some GPUs, otherwise the restart seconds."""
        return self._pause if _keeps_some(job, new, now.time) else job.profile.restart_seconds

    def overlap(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Return the seconds until the new GPUs are ready, for a job that grows."""
        running, _ = job.runs_on(now.time)
        counts = counts_of(new)
        if running is None or counts.gpus <= running.gpus or not _keeps_some(job, new, now.time):
            return 0.0
        wait = 0.0 if self._cancellation else max(job.joins_at - now.time, 0.0)
        return wait + (job.profile.restart_seconds if self._prepare is None else self._prepare)


def _keeps_some(job: SimulatedJob, new: Allocation, time: float) -> bool:
    """Return whether a job keeps some of the GPUs (or nodes, if known) with which it makes progress."""
    running, place = job.runs_on(time)
    if running is None or running.type != new.type:
        return False
    if place is None or not isinstance(new, Placement):
        return True
    return not {node for node, _ in place}.isdisjoint(node for node, _ in new.nodes)


class SharedNodes:
    """Constant slowdown of every distributed job that shares a node with another distributed job.

    `slowdown`: share of the speed that is lost, in [0, 1).
    """

    def __init__(self, slowdown: float) -> None:
        if not 0 <= slowdown < 1:
            raise ValueError(f"slowdown = {slowdown}: must be at least 0 and below 1")
        self._factor = 1.0 - slowdown

    def factors(self, jobs: Mapping[str, SimulatedJob]) -> dict[str, float]:
        """Return the factor on the speed of each running job whose factor is not 1."""
        if self._factor == 1.0:
            return {}
        on: dict[tuple[str, int], list[str]] = {}
        for name, job in jobs.items():
            if job.allocation is not None and job.place is not None and len(job.place) > 1:
                for node, _ in job.place:
                    on.setdefault((job.allocation.type, node), []).append(name)
        return {name: self._factor for names in on.values() if len(names) > 1 for name in names}
