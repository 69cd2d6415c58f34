"""A job in the simulator: what a policy sees of it, and how it progresses between two events.

While a job holds one configuration its progress is a piecewise linear function of time that its profile knows
(:meth:`copter.problems.cluster.profiles.base.Profile.clock`).  So a job is touched only when its allocation
changes: it keeps when and where it began to run, and progress, level and completion at any later time are
looked up.  That is exact, and the same however often anybody looks.
"""

from __future__ import annotations

import math

import numpy as np

from copter.arrays import Floats
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.jobs import Job, Nodes, Timer
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import JobSubmission, Kind


class SimulatedJob(Job):
    """A job of a simulation.

    `profile`: how it really runs, within the adaptivity of its kind. `slowdown`: factor on its speed by
    interference. `finish_at`: seconds at which it completes if nothing changes.
    """

    def __init__(self, submission: JobSubmission, profile: Profile, kind: Kind, timer: Timer) -> None:
        super().__init__(submission, profile, kind, timer)
        self.finish_at = math.nan
        self.slowdown = 1.0
        self._progress = self._run_seconds = self._gpu_seconds = 0.0
        self._since = self._held_since = timer.time
        self._former: tuple[Configuration, Nodes | None] | None = None
        self._joins = -math.inf
        self._ends: Floats = np.concatenate(([0.0], profile.progress))
        self._table: Floats | None = None
        self._points = self._ends
        self._clock = 0.0
        self._level, self._level_until = 0, -math.inf

    # ---- what a policy sees ----------------------------------------------------------------------

    @property
    def progress(self) -> float:
        """Progress so far."""
        return self.progress_at(self._timer.time)

    @property
    def level(self) -> int:
        """Level of its profile in which it is."""
        if not self._timer.time < self._level_until:
            self._level = int(self.profile.level(np.array([self.progress]))[0])
            self._level_until = self._reaches(self._level + 1)
        return self._level

    @property
    def run_seconds(self) -> float:
        """Seconds in which it ran, restarts not counted."""
        return self._run_seconds + self._ran(self._timer.time)

    @property
    def gpu_seconds(self) -> float:
        """GPUs held times seconds, restarts included: attained service."""
        gpus = 0 if self.allocation is None else self.allocation.gpus
        return self._gpu_seconds + (self._timer.time - self._since) * gpus

    def runs_on(self, time: float) -> tuple[Configuration | None, Nodes | None]:
        """Configuration and nodes with which it makes progress: while new GPUs prepare, those of before.

        `time`: seconds, not before the last change.
        """
        if self._former is not None and time < self._joins:
            return self._former
        return self.allocation, self.place

    @property
    def joins_at(self) -> float:
        """Seconds at which GPUs that prepare while it runs join it; not after now if there are none."""
        return self._joins

    # ---- the simulator's -------------------------------------------------------------------------

    def _ran(self, time: float) -> float:
        """Seconds of running since the last change."""
        if self.allocation is None:
            return 0.0
        return max(time - self._begins, 0.0)

    def progress_at(self, time: float) -> float:
        """Progress at a time from the last change on."""
        if self._table is None:
            return self._progress
        ran = self._ran(time) * self.slowdown
        if not ran > 0:
            return self._progress
        if self._table.size == 2:  # a single speed: most of the calls, and an interpolation costs far more
            (begin, end), (low, high) = self._table.tolist(), self._points.tolist()
            return min(low + (high - low) * ((self._clock + ran - begin) / (end - begin)), high)
        return float(np.interp(self._clock + ran, self._table, self._points))

    def _reaches(self, level: int) -> float:
        """Time at which a level begins if nothing changes, the last one's end for the one after it."""
        if self._table is None:
            return math.inf
        end = np.interp(self._ends[min(level, self._ends.size - 1)], self._points, self._table)
        return self._begins + (float(end) - self._clock) / self.slowdown

    @property
    def _begins(self) -> float:
        """Time from which on it makes progress."""
        return max(self._since, self.restart_until)

    @property
    def since(self) -> float:
        """Seconds of the last change of what it holds."""
        return self._held_since

    def enter(self) -> None:
        """Arrive."""
        self._since = self._held_since = self._timer.time
        self._entered = (self._timer.contention, self._timer.weight)

    def begin_at(self, progress: float) -> None:
        """Have made progress before it is first looked at, in a simulation that begins in the middle."""
        if not 0 <= progress < self.work:
            raise ValueError(f"job {self.name!r}: progress = {progress}: must be in [0, {self.work})")
        self._progress = progress

    def settle(self, time: float) -> None:
        """Take the time since the last change into the accounts."""
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
        overlap: float = 0.0,
    ) -> None:
        """Set what it holds from a time on.

        `restart_seconds`: seconds before it makes progress, in place of what was left of a restart.
        `overlap`: seconds in which it goes on with the GPUs that it makes progress with, or waits for what is
        left of its restart, before it uses the new ones.
        """
        self.settle(time)
        self._held_since = time
        former, place_before = self.runs_on(time)
        restarting = self.restart_until if overlap else -math.inf
        self.allocation, self.place = allocation, place
        self._former, self._joins, self.restart_until = None, -math.inf, -math.inf
        if allocation is not None:
            self.restarts += not math.isnan(self.started)
            self.started = time if math.isnan(self.started) else self.started
            self.restart_until = max(time + restart_seconds, restarting)
            if overlap and former is not None:
                self._former, self._joins = (former, place_before), time + overlap
        self._anchor()

    def slow_down(self, time: float, slowdown: float) -> None:
        """Set the factor on its speed from a time on, for interference. `slowdown`: 1 for none."""
        self.settle(time)
        self.slowdown = slowdown
        self._anchor()

    def roll_back(self, progress: float) -> None:
        """Lose progress; the job must hold nothing. `progress`: what is left of it."""
        if self.allocation is not None or not 0 <= progress <= self._progress:
            raise ValueError(f"job {self.name!r}: cannot go back from {self._progress} to {progress}")
        self._progress = progress
        self._anchor()

    def _anchor(self) -> None:
        """Work out how it goes on from here if nothing changes."""
        self._table, self.finish_at, self._level_until = None, math.inf, -math.inf
        if self.allocation is None:
            return
        clock, self._points = self.profile.clock(self.allocation), self._ends
        if not math.isfinite(clock[-1]):
            return
        if self._former is not None and self._joins > self._begins:
            clock = self._joined(self.profile.clock(self._former[0]), clock)
        self._table = clock
        self._clock = float(np.interp(self._progress, self._points, clock))
        self.finish_at = self._reaches(self._ends.size - 1)

    def _joined(self, before: Floats, after: Floats) -> Floats:
        """Clock of a job that changes over from one clock to another; sets the points where it bends."""
        at = np.interp(self._progress, self._ends, before) + (self._joins - self._begins) * self.slowdown
        joint = np.interp(at, before, self._ends)
        if joint >= self.work:
            return before
        self._points = np.union1d(self._ends, joint)
        early = np.interp(self._points, self._ends, before)
        late = at + np.interp(self._points, self._ends, after) - np.interp(joint, self._ends, after)
        return np.where(self._points <= joint, early, late)
