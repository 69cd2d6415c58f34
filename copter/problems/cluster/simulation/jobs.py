"""A job in the simulator: its state for policies, and its progress between two events.

While a job holds one configuration, its progress is a piecewise linear function of time, which its profile
defines (:meth:`copter.problems.cluster.profiles.base.Profile.clock`).  So the state of a job is updated only
when its allocation changes.  The job stores the time and progress at which it began to run; progress, level
and completion at any later time are computed from these two.  The results are exact, and do not depend on how
often they are read.
"""

from __future__ import annotations

import math

import numpy as np

from copter.arrays import Floats
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.jobs import Job, Nodes, Timer
from copter.problems.cluster.policy import Placement, counts_of
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.simulation.present import PresentJob
from copter.problems.cluster.workload import JobSubmission, Kind


class SimulatedJob(Job):
    """A job of a simulation.

    `profile`: true profile, within the adaptivity of the job's kind. `finish_at`: time in seconds at which
    the job completes if its allocation does not change.
    """

    def __init__(self, submission: JobSubmission, profile: Profile, kind: Kind, timer: Timer) -> None:
        super().__init__(submission, profile, kind, timer)
        self.finish_at = math.nan
        self._progress = self._run_seconds = self._gpu_seconds = 0.0
        self._since = self._held_since = timer.time
        self._ends: Floats = np.concatenate(([0.0], profile.progress))
        self._table: Floats | None = None
        self._clock = 0.0
        self._level, self._level_until = 0, -math.inf

    # ---- state for policies ----------------------------------------------------------------------

    @property
    def progress(self) -> float:
        """Progress so far."""
        return self.progress_at(self._timer.time)

    @property
    def level(self) -> int:
        """Index of the present level of its profile."""
        if not self._timer.time < self._level_until:
            self._level = int(self.profile.level(np.array([self.progress]))[0])
            self._level_until = self._reaches(self._level + 1)
        return self._level

    @property
    def run_seconds(self) -> float:
        """Seconds in which it ran, without restarts."""
        return self._run_seconds + self._ran(self._timer.time)

    @property
    def gpu_seconds(self) -> float:
        """GPUs held times seconds, including restarts: attained service."""
        gpus = 0 if self.allocation is None else self.allocation.gpus
        return self._gpu_seconds + (self._timer.time - self._since) * gpus

    # ---- state for the simulator -----------------------------------------------------------------

    def _ran(self, time: float) -> float:
        """Return the seconds of running since the last change."""
        if self.allocation is None:
            return 0.0
        return max(time - self._begins, 0.0)

    def progress_at(self, time: float) -> float:
        """Return the progress at a time from the last change on."""
        if self._table is None:
            return self._progress
        ran = self._ran(time)
        if not ran > 0:
            return self._progress
        if self._table.size == 2:  # a single speed, as in most calls: faster than np.interp
            (begin, end), (low, high) = self._table.tolist(), self._ends.tolist()
            return min(low + (high - low) * ((self._clock + ran - begin) / (end - begin)), high)
        return float(np.interp(self._clock + ran, self._table, self._ends))

    def _reaches(self, level: int) -> float:
        """Return the time at which a level begins, or the last level ends, if the allocation stays."""
        if self._table is None:
            return math.inf
        end = np.interp(self._ends[min(level, self._ends.size - 1)], self._ends, self._table)
        return self._begins + (float(end) - self._clock)

    @property
    def _begins(self) -> float:
        """Time from which the job makes progress."""
        return max(self._since, self.restart_until)

    @property
    def since(self) -> float:
        """Time in seconds of the last change of its allocation."""
        return self._held_since

    def enter(self) -> None:
        """Record the time of arrival."""
        self._since = self._held_since = self._timer.time
        self._entered = (self._timer.contention, self._timer.weight)

    def begin_at(self, progress: float) -> None:
        """Set the initial progress of a job, for a simulation that does not begin at its arrival."""
        if not 0 <= progress < self.work:
            raise ValueError(f"job {self.name!r}: progress = {progress}: must be in [0, {self.work})")
        self._progress = progress

    def resume(self, state: PresentJob) -> None:
        """Set the state of the job in a simulation that begins at the present time."""
        self.begin_at(state.progress)
        self.enter()
        self._held_since = state.since
        self._run_seconds, self._gpu_seconds = state.run_seconds, state.gpu_seconds
        self.started, self.restarts, self.restart_until = state.started, state.restarts, state.restart_until
        if state.held is not None:
            self.allocation = counts_of(state.held)
            self.place = state.held.nodes if isinstance(state.held, Placement) else None
        self._anchor()

    def present(self) -> PresentJob:
        """Return the state at the present time, from which :meth:`resume` continues."""
        held = self.allocation
        return PresentJob(
            self.progress,
            held if held is None or self.place is None else Placement(held.type, self.place),
            self._held_since,
            self.restart_until,
            self.started,
            self.restarts,
            self.run_seconds,
            self.gpu_seconds,
        )

    def settle(self, time: float) -> None:
        """Add the time since the last change to progress, run seconds and GPU seconds."""
        self._progress = self.progress_at(time)
        self._run_seconds += self._ran(time)
        self._gpu_seconds += (time - self._since) * (0 if self.allocation is None else self.allocation.gpus)
        self._since = time

    def give(
        self,
        time: float,
        allocation: Configuration | None,
        place: Nodes | None = None,
        restart_seconds: float = 0.0,
    ) -> None:
        """Set the allocation from a time on.

        `restart_seconds`: seconds before the job makes progress; they replace what is left of an earlier
        restart.
        """
        self.settle(time)
        self._held_since = time
        self.allocation, self.place = allocation, place
        self.restart_until = -math.inf
        if allocation is not None:
            self.restarts += not math.isnan(self.started)
            self.started = time if math.isnan(self.started) else self.started
            self.restart_until = time + restart_seconds
        self._anchor()

    def roll_back(self, progress: float) -> None:
        """Set the progress back; the job must have no GPUs."""
        if self.allocation is not None or not 0 <= progress <= self._progress:
            raise ValueError(
                f"job {self.name!r}: progress = {progress}: must be at most {self._progress}, without GPUs"
            )
        self._progress = progress
        self._anchor()

    def _anchor(self) -> None:
        """Compute the future progress if the allocation does not change."""
        self._table, self.finish_at, self._level_until = None, math.inf, -math.inf
        if self.allocation is None:
            return
        clock = self.profile.clock(self.allocation)
        if not math.isfinite(clock[-1]):
            return
        self._table = clock
        self._clock = float(np.interp(self._progress, self._ends, clock))
        self.finish_at = self._reaches(self._ends.size - 1)
