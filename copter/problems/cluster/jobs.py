"""A job for policies, simulated or live.

The allocation of a job and its known profile are attributes.  Its progress is an abstract property: a
simulation computes it (:class:`.simulation.jobs.SimulatedJob`), and the jobs of a live cluster report it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.profiles.base import Profile, Row
from copter.problems.cluster.profiles.throughput import BatchChoice
from copter.problems.cluster.workload import JobSubmission, Kind

Nodes: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of a node and the number of GPUs on it, ascending by node."""

_FLEXIBILITY: dict[Kind, int] = {"rigid": 0, "strong-scaling": 1, "adaptive": 2}


@dataclass
class Timer:
    """Time and contention of a cluster, shared by all its jobs.

    `time`: seconds since the start. `present`: present number of jobs divided by the number of GPUs.
    `weight`: number of rounds so far, including the present one, or seconds for policies that are asked at
    events. `contention`: sum of `present` over these rounds, or its integral over these seconds.
    """

    time: float = 0.0
    present: float = 0.0
    contention: float = 0.0
    weight: float = 0.0

    def crowd(self, present: float, weight: float) -> None:
        """Record the number of jobs divided by the number of GPUs, for `weight` more rounds or seconds."""
        self.present = present
        self.contention += weight * present
        self.weight += weight


class Job(ABC):
    """A job in a cluster; policies read it, and only its cluster changes it.

    Attributes
    ----------
    submission : JobSubmission
        The job as its user submitted it.
    profile : Profile
        True profile of the job, within the adaptivity of its kind; in a live cluster, the known profile.
    seen : Profile
        Known profile, on which policies base their decisions; estimators replace it.
    kind : {"rigid", "strong-scaling", "adaptive"}
        What the policy may adapt.
    gpus : int or None
        GPU count of a rigid job; None for other jobs, even if their submissions have a GPU count for which
        the jobs were tuned.
    allocation : Configuration or None
        Present configuration.
    place : tuple of (int, int) or None
        Nodes of the allocation with the GPUs on each, if a placer finds them.
    restart_until : float
        Time in seconds until which the job restarts; in the past if it is not restarting.
    started : float
        Time in seconds at which the job first got GPUs; NaN before.
    restarts : int
        Number of changes of the job's allocation after the first start.
    """

    def __init__(self, submission: JobSubmission, profile: Profile, kind: Kind, timer: Timer) -> None:
        self.submission, self.profile, self.kind = submission, profile, kind
        self.seen = profile
        self.gpus = job_gpus(submission, kind)
        self.allocation: Configuration | None = None
        self.place: Nodes | None = None
        self.restart_until = -math.inf
        self.started = math.nan
        self.restarts = 0
        self._timer, self._entered = timer, (timer.contention, timer.weight)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.progress / self.work:.0%}, {self.allocation})"

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.submission.name

    @property
    def submitted(self) -> float:
        """Time of its submission in seconds."""
        return self.submission.time

    @property
    def work(self) -> float:
        """Progress at which it is complete."""
        return self.profile.work

    @property
    @abstractmethod
    def progress(self) -> float:
        """Progress so far."""

    @property
    @abstractmethod
    def level(self) -> int:
        """Index of the present level of its profile."""

    @property
    def age(self) -> float:
        """Seconds since its submission."""
        return self._timer.time - self.submitted

    @property
    @abstractmethod
    def run_seconds(self) -> float:
        """Seconds in which it ran, without restarts."""

    @property
    @abstractmethod
    def gpu_seconds(self) -> float:
        """GPUs held times seconds, including restarts: attained service."""

    @property
    @abstractmethod
    def since(self) -> float:
        """Time in seconds of the last change of its allocation."""

    @property
    def contention(self) -> float:
        """Mean of the number of jobs over the number of GPUs since its arrival.

        The mean is over rounds, including the present one, or over time for policies that are asked at
        events.
        """
        total, weight = self._timer.contention - self._entered[0], self._timer.weight - self._entered[1]
        return total / weight if weight > 0 else self._timer.present

    def row(self, configurations: Configurations) -> Row:
        """Return the configurations that can run the job now, ascending, and its known goodput under each."""
        return self.seen.row(configurations, min(self.level, self.seen.n_levels - 1))

    def speed(self, configuration: Configuration) -> float:
        """Return the known progress per second under a configuration now; 0 if it cannot run."""
        rates = self.seen.curve(configuration)
        return float(rates[min(self.level, rates.size - 1)]) / self.seen.calibration

    def remaining_seconds(self, configuration: Configuration) -> float:
        """Return the seconds to completion at the present known speed; infinite if it cannot run."""
        speed = self.speed(configuration)
        return (self.work - self.progress) / speed if speed > 0 else math.inf

    def true_seconds(self, configuration: Configuration) -> float:
        """Return the seconds to completion under a configuration, through all remaining levels.

        The result uses `profile`, the true profile in a simulation, so it is meant for oracles and metrics.
        """
        clock = self.profile.clock(configuration)
        if not math.isfinite(clock[-1]):
            return math.inf
        ends = np.concatenate(([0.0], self.profile.progress))
        return float(clock[-1] - np.interp(self.progress, ends, clock))


def job_kind(submission: JobSubmission, policy: Kind) -> Kind:
    """Return the kind of a job under a policy: the less flexible of the user's and the policy's kinds."""
    return min(submission.kind, policy, key=_FLEXIBILITY.__getitem__)


def job_gpus(submission: JobSubmission, kind: Kind) -> int | None:
    """Return the GPU count of a job that is rigid under a policy, None for others."""
    return (submission.gpus or submission.tuned_gpus or 1) if kind == "rigid" else None


def job_profile(submission: JobSubmission, application: Profile, kind: Kind) -> Profile:
    """Return the profile by which a job runs: its application's, within the limits of its user and kind.

    `kind`: result of :func:`job_kind`. If the batch size is not adapted, it is the submission's, and the
    user's limit on the batch size has no effect. The limit has no effect either if the profile has no batch
    sizes. The result is the same object for equal arguments.
    """
    if kind != "adaptive":
        profile = application.at_fixed_batch(submission.batch_size)
    elif submission.max_batch_size is not None:
        profile = application.with_max_batch(submission.max_batch_size)
    else:
        profile = application
    return profile.with_gpus(submission.min_gpus, submission.max_gpus)


def batch_choice(profile: Profile, configuration: Configuration, progress: float) -> BatchChoice | None:
    """Return the batch size, passes and learning rate factor of a job under a configuration.

    The result is None if the profile has no batch sizes, or the job does not run under the configuration.
    """
    level = int(profile.level(np.array([progress]))[0])
    return profile.best_batch(configuration, level) if profile.curve(configuration)[level] > 0 else None
