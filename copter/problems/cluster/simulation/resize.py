"""Costs of starts and of changes of a job's GPUs.

:class:`CheckpointRestart`, the default, is Sia's model.  :class:`DispatchRestart` is the model of Shockwave's
simulator.
"""

from __future__ import annotations

import math
from typing import Protocol

from copter.problems.cluster.policy import Allocation, ClusterState, counts_of
from copter.problems.cluster.simulation.jobs import SimulatedJob

_DISPATCH_SECONDS = 20.0
"""Seconds of a dispatch in the simulator of Shockwave's authors."""
_FREE_ENDING_SECONDS = 5.0
"""A job that completes at least this many seconds before its round ends pays for no dispatch."""


class Resize(Protocol):
    """Cost of a job's starts, changes of GPUs and moves."""

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Return the seconds without progress; `job` has its state before the change."""


class CheckpointRestart(Resize):
    """Every start, change and move costs the restart seconds of the job's profile (thesis section 3.3.4)."""

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Return the restart seconds of the profile."""
        return job.profile.restart_seconds


class DispatchRestart(Resize):
    """Cost of a dispatch for a job that did not run in the previous round (Shockwave's authors' simulator).

    A dispatch is free in the first round, and in a job's last round if the job completes at least 5 s before
    the round ends.  A job that ran in the previous round pays nothing, even if it moves.
    """

    def __init__(self, seconds: float = _DISPATCH_SECONDS) -> None:
        if not 0 <= seconds < math.inf:
            raise ValueError(f"seconds = {seconds}: must be finite and not negative")
        self._seconds = float(seconds)

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        """Return the seconds of the dispatch; 0 if there is no dispatch."""
        if job.allocation is not None or now.index == 0:
            return 0.0
        counts = counts_of(new)
        ends_early = job.true_seconds(counts) <= now.seconds - _FREE_ENDING_SECONDS
        return 0.0 if ends_early else self._seconds
