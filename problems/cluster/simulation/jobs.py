"""A job in the simulator: what a policy sees of it, and how it progresses between two events.

While a job holds one configuration its progress is a piecewise linear function of time that its profile knows
(:meth:`.profiles.Profile.clock`).  So a job is touched only when its allocation changes: it keeps when and
where it began to run, and progress, level and completion at any later time are looked up.  That is exact,
and the same however often anybody looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.profiles.base import Profile, Row
from copter.problems.cluster.profiles.throughput import BatchChoice
from copter.problems.cluster.workload import JobSubmission, Kind

_FLEXIBILITY: dict[Kind, int] = {"rigid": 0, "strong-scaling": 1, "adaptive": 2}


@dataclass
class Timer:
    """What all jobs of a simulation share.

    Attributes
    ----------
    time : float
        Seconds since the start.
    present : float
        Jobs over GPUs now.
    contention, weight : float
        Sum of jobs over GPUs so far, and of what they are weighted by: rounds, the present one too, or
        seconds where the policy is asked at events.
    """

    time: float = 0.0
    present: float = 0.0
    contention: float = 0.0
    weight: float = 0.0

    def crowd(self, present: float, weight: float) -> None:
        """Count so many jobs over GPUs for another round, or for so many seconds."""
        self.present = present
        self.contention += weight * present
        self.weight += weight


class JobState:
    """A job that is there.  Policies read it; only the simulator writes.

    Parameters
    ----------
    profile : Profile
        How it really runs, within the adaptivity of its kind.

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
    slowdown : float
        Factor on its speed by interference.
    finish_at : float
        Seconds at which it completes if nothing changes.  The simulator's: not for policies.
    restart_until : float
        Seconds until which it restarts; not after now if it does not.
    started : float
        Seconds at which it first got GPUs; NaN before.
    restarts : int
        Changes of allocation after the first start.
    """

    def __init__(self, submission: JobSubmission, profile: Profile, kind: Kind, timer: Timer) -> None:
        self.submission, self.profile, self.kind = submission, profile, kind
        self.seen = profile
        self.gpus = (submission.gpus or submission.tuned_gpus or 1) if kind == "rigid" else None
        self.allocation: Configuration | None = None
        self.place: tuple[tuple[int, int], ...] | None = None
        self.restart_until = -math.inf
        self.started = self.finish_at = math.nan
        self.restarts = 0
        self.slowdown = 1.0
        self._timer, self._entered = timer, (timer.contention, timer.weight)
        self._progress = self._run_seconds = self._gpu_seconds = 0.0
        self._since = self._held_since = timer.time
        self._former: tuple[Configuration, tuple[tuple[int, int], ...] | None] | None = None
        self._joins = -math.inf
        self._ends: NDArray[np.float64] = np.concatenate(([0.0], profile.progress))
        self._table: NDArray[np.float64] | None = None
        self._points = self._ends
        self._clock = 0.0
        self._level, self._level_until = 0, -math.inf

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
        return self.progress_at(self._timer.time)

    @property
    def level(self) -> int:
        """Level of its profile in which it is."""
        if not self._timer.time < self._level_until:
            self._level = int(self.profile.level(np.array([self.progress]))[0])
            self._level_until = self._reaches(self._level + 1)
        return self._level

    @property
    def age(self) -> float:
        """Seconds since its submission."""
        return self._timer.time - self.submitted

    @property
    def run_seconds(self) -> float:
        """Seconds in which it ran, restarts not counted."""
        return self._run_seconds + self._ran(self._timer.time)

    @property
    def gpu_seconds(self) -> float:
        """GPUs held times seconds, restarts included: attained service."""
        gpus = 0 if self.allocation is None else self.allocation.gpus
        return self._gpu_seconds + (self._timer.time - self._since) * gpus

    def runs_on(self, time: float) -> tuple[Configuration | None, tuple[tuple[int, int], ...] | None]:
        """Configuration and nodes with which it makes progress: while new GPUs prepare, those of before.

        Parameters
        ----------
        time : float
            Seconds, not before the last change.

        Returns
        -------
        Configuration or None, tuple of (int, int) or None
        """
        if self._former is not None and time < self._joins:
            return self._former
        return self.allocation, self.place

    @property
    def joins_at(self) -> float:
        """Seconds at which GPUs that prepare while it runs join it; not after now if there are none."""
        return self._joins

    @property
    def contention(self) -> float:
        """Mean of jobs over GPUs in the cluster since its arrival.

        Over the rounds, the present one too, or over time where the policy is asked at events.
        """
        total, weight = self._timer.contention - self._entered[0], self._timer.weight - self._entered[1]
        return total / weight if weight > 0 else self._timer.present

    def row(self, configurations: Configurations) -> Row:
        """Configurations that can run it now, ascending, and its goodput under each, as far as is known.

        Returns
        -------
        (m,) int array, (m,) array
        """
        return self.seen.row(configurations, min(self.level, self.seen.n_levels - 1))

    def speed(self, configuration: Configuration) -> float:
        """Progress a second under a configuration now, as far as is known; 0 if it cannot run."""
        rates = self.seen.curve(configuration)
        return float(rates[min(self.level, rates.size - 1)]) / self.seen.calibration

    def remaining_seconds(self, configuration: Configuration) -> float:
        """Seconds to completion at the speed of now, as far as is known; infinite if it cannot run."""
        speed = self.speed(configuration)
        return (self.work - self.progress) / speed if speed > 0 else math.inf

    def true_seconds(self, configuration: Configuration) -> float:
        """Seconds to completion under a configuration through all levels to come: for oracles and metrics."""
        clock = self.profile.clock(configuration)
        if not math.isfinite(clock[-1]):
            return math.inf
        return float(clock[-1] - np.interp(self.progress, self._ends, clock))

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
        """Have made progress before it is first looked at, in a simulation that begins in the middle.

        Parameters
        ----------
        progress : float
            Below its work.
        """
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
        place: tuple[tuple[int, int], ...] | None = None,
        restart_seconds: float = 0.0,
        overlap: float = 0.0,
    ) -> None:
        """Set what it holds from a time on.

        Parameters
        ----------
        place : tuple of (int, int), optional
        restart_seconds : float
            Seconds before it makes progress, in place of what was left of a restart.
        overlap : float
            Seconds in which it goes on with the GPUs that it makes progress with, or waits for what is left
            of its restart, before it uses the new ones.
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
        """Set the factor on its speed from a time on, for interference.

        Parameters
        ----------
        slowdown : float
            1 for none.
        """
        self.settle(time)
        self.slowdown = slowdown
        self._anchor()

    def roll_back(self, progress: float) -> None:
        """Lose progress; the job must hold nothing.

        Parameters
        ----------
        progress : float
            What is left of it.
        """
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

    def _joined(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clock of a job that changes over from one clock to another; sets the points where it bends."""
        at = np.interp(self._progress, self._ends, before) + (self._joins - self._begins) * self.slowdown
        joint = np.interp(at, before, self._ends)
        if joint >= self.work:
            return before
        self._points = np.union1d(self._ends, joint)
        early = np.interp(self._points, self._ends, before)
        late = at + np.interp(self._points, self._ends, after) - np.interp(joint, self._ends, after)
        return np.where(self._points <= joint, early, late)


def job_kind(submission: JobSubmission, policy: Kind) -> Kind:
    """What is adapted of a job under a policy: the lesser of what either allows."""
    return min(submission.kind, policy, key=_FLEXIBILITY.__getitem__)


def job_profile(submission: JobSubmission, application: Profile, kind: Kind) -> Profile:
    """Profile by which a job runs: its application's, within the user's limits and what is adapted of it.

    Parameters
    ----------
    kind : {"adaptive", "strong-scaling", "rigid"}
        As :func:`job_kind` returns it.  Where the batch size is not adapted it is the submission's, and the
        user's limit on what may be adapted does not matter; nor does it for profiles that know of no batch
        sizes.

    Returns
    -------
    Profile
        The same object for equal arguments.
    """
    if kind != "adaptive":
        profile = application.at_fixed_batch(submission.batch_size)
    elif submission.max_batch_size is not None:
        profile = application.with_max_batch(submission.max_batch_size)
    else:
        profile = application
    return profile.with_gpus(submission.min_gpus, submission.max_gpus)


def batch_choice(profile: Profile, configuration: Configuration, progress: float) -> BatchChoice | None:
    """Batch size, passes and learning rate with which a job trains under a configuration.

    None where the profile does not know batch sizes, or the job does not run under the configuration.
    """
    level = int(profile.level(np.array([progress]))[0])
    return profile.best_batch(configuration, level) if profile.curve(configuration)[level] > 0 else None
