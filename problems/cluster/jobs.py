"""A job in the simulator: what a policy sees of it, and how it progresses between two events.

While a job holds one configuration its progress is a piecewise linear function of time that its profile knows
(:meth:`.profiles.Profile.seconds`).  So a job is touched only when its allocation changes: it keeps when and
where it began to run, and progress, level and completion at any later time are looked up.  That is exact,
and the same however often anybody looks.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.profiles import Profile, Row
from copter.problems.cluster.workload import JobSubmission, Kind


class JobState:
    """A job that is there.  Policies read it; only the simulator writes.

    Parameters
    ----------
    submission : JobSubmission
    profile : Profile
        How it really runs, within the adaptivity of its kind.
    kind : {"adaptive", "strong-scaling", "rigid"}

    Attributes
    ----------
    submission, profile, kind
        As given; the profile is the truth, a policy that is not an oracle goes by `seen`.
    seen : Profile
        What is known of the profile: the simulator's estimator sets another one when it learns more.
    gpus : int or None
        GPU count of a rigid job.  Others may name a count that they were tuned for in their submission.
    allocation : Configuration or None
        What it holds.
    place : tuple of (int, int) or None
        On which nodes, if the simulator places: node and GPUs.
    restart_until : float
        Seconds until which it restarts; not after now if it does not.
    started : float
        Seconds at which it first got GPUs; NaN before.
    restarts : int
        Changes of allocation after the first start.
    """

    def __init__(self, submission: JobSubmission, profile: Profile, kind: Kind) -> None:
        self.submission, self.profile, self.kind = submission, profile, kind
        self.seen = profile
        self.gpus = submission.gpus if kind == "rigid" else None
        self.allocation: Configuration | None = None
        self.place: tuple[tuple[int, int], ...] | None = None
        self.restart_until = -math.inf
        self.started = self.finished = math.nan
        self.restarts = 0
        self.slowdown = 1.0
        self.finish_at = math.inf
        self._now = submission.time
        self._progress = 0.0
        self._run_seconds = self._gpu_seconds = 0.0
        self._since = submission.time
        self._clock = 0.0
        self._table: NDArray[np.float64] | None = None
        self._ends: NDArray[np.float64] = np.concatenate(([0.0], profile.progress))
        self._contention = (0.0, 0)
        self._contention_now = (0.0, 0)

    def __repr__(self) -> str:
        return f"JobState({self.name!r}, {self.progress / self.work:.0%}, {self.allocation})"

    # ---- what a policy sees ----------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.submission.name

    @property
    def submitted(self) -> float:
        """Seconds of its submission."""
        return self.submission.time

    @property
    def work(self) -> float:
        """Progress at which it is complete."""
        return self.profile.work

    @property
    def progress(self) -> float:
        """Progress so far."""
        return self._at(self._now)

    @property
    def level(self) -> int:
        """Level of its profile in which it is."""
        return int(self.profile.level(np.array([self.progress]))[0])

    @property
    def age(self) -> float:
        """Seconds since its submission."""
        return self._now - self.submitted

    @property
    def run_seconds(self) -> float:
        """Seconds in which it ran, restarts not counted."""
        return self._run_seconds + max(self._now - max(self._since, self.restart_until), 0.0) * self._holds

    @property
    def gpu_seconds(self) -> float:
        """GPUs held times seconds, restarts included: attained service."""
        gpus = 0 if self.allocation is None else self.allocation.gpus
        return self._gpu_seconds + (self._now - self._since) * gpus

    @property
    def contention(self) -> float:
        """Mean of jobs over GPUs in the cluster, over the rounds since its arrival."""
        (total, count), (before, skipped) = self._contention_now, self._contention
        return (total - before) / (count - skipped) if count > skipped else 0.0

    def row(self, configurations: Configurations) -> Row:
        """Configurations that can run it now, ascending, and its goodput under each, as far as is known.

        Parameters
        ----------
        configurations : Configurations

        Returns
        -------
        (m,) int array, (m,) array
        """
        return self.seen.row(configurations, min(self.level, self.seen.n_levels - 1))

    def speed(self, configuration: Configuration) -> float:
        """Progress a second under a configuration now, as far as is known; 0 if it cannot run.

        Parameters
        ----------
        configuration : Configuration

        Returns
        -------
        float
        """
        rates = self.seen.curve(configuration)
        return float(rates[min(self.level, rates.size - 1)]) / self.seen.calibration

    def remaining_seconds(self, configuration: Configuration) -> float:
        """Seconds to completion at the speed of now, as far as is known; infinite if it cannot run.

        Parameters
        ----------
        configuration : Configuration

        Returns
        -------
        float
        """
        speed = self.speed(configuration)
        return (self.work - self.progress) / speed if speed > 0 else math.inf

    def true_seconds(self, configuration: Configuration) -> float:
        """Seconds to completion under a configuration through all levels to come: for oracles and metrics.

        Parameters
        ----------
        configuration : Configuration

        Returns
        -------
        float
        """
        clock = self.profile.clock(configuration)
        if not math.isfinite(clock[-1]):
            return math.inf
        return float(clock[-1] - np.interp(self.progress, self._ends, clock))

    # ---- the simulator's -------------------------------------------------------------------------

    @property
    def _holds(self) -> bool:
        return self.allocation is not None

    def _at(self, time: float) -> float:
        """Progress at a time from the last change on."""
        if self._table is None or time <= self.restart_until:
            return self._progress
        ran = (time - max(self._since, self.restart_until)) * self.slowdown
        return float(np.interp(self._clock + ran, self._table, self._ends))

    def advance(self, time: float) -> None:
        """Let time pass."""
        self._now = time

    def settle(self) -> None:
        """Take the time since the last change into the accounts."""
        self._progress = self._at(self._now)
        self._run_seconds, self._gpu_seconds = self.run_seconds, self.gpu_seconds
        self._since = self._now

    def give(
        self,
        allocation: Configuration | None,
        place: tuple[tuple[int, int], ...] | None = None,
        *,
        restart_seconds: float = 0.0,
        slowdown: float = 1.0,
    ) -> None:
        """Set what it holds from now on.

        Parameters
        ----------
        allocation : Configuration, optional
        place : tuple of (int, int), optional
        restart_seconds : float
            Seconds before it makes progress, in place of what was left of a restart.
        slowdown : float
            Factor on its speed, for interference.
        """
        self.settle()
        self.allocation, self.place, self.slowdown = allocation, place, slowdown
        self._table, self.finish_at, self.restart_until = None, math.inf, -math.inf
        if allocation is None:
            return
        if math.isnan(self.started):
            self.started = self._now
        self.restart_until = self._now + restart_seconds
        clock = self.profile.clock(allocation)
        if math.isfinite(clock[-1]):
            self._table = clock
            self._clock = float(np.interp(self._progress, self._ends, clock))
            self.finish_at = self.restart_until + (float(clock[-1]) - self._clock) / slowdown

    def roll_back(self, progress: float) -> None:
        """Lose progress; the job must hold nothing."""
        if self.allocation is not None or not 0 <= progress <= self._progress:
            raise ValueError(f"job {self.name!r}: cannot go back from {self._progress} to {progress}")
        self._progress = progress

    def see_contention(self, total: float, count: int, *, entering: bool = False) -> None:
        """Take over the sum of jobs over GPUs over so many rounds."""
        self._contention_now = (total, count)
        if entering:
            self._contention = (total, count)
