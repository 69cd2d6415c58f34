"""A job as policies see it, simulated or live.

What a job holds and what is known of its speed are plain attributes; how far it has come is asked for, since
the simulator works it out (:class:`.simulation.jobs.SimulatedJob`) and the jobs of a live cluster report it.
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
"""Node and GPUs on it; ascending by node."""

_FLEXIBILITY: dict[Kind, int] = {"rigid": 0, "strong-scaling": 1, "adaptive": 2}


@dataclass
class Timer:
    """What all jobs of a cluster share.

    `time`: seconds since the start. `present`: jobs over GPUs now. `contention`, `weight`: sum of jobs over
    GPUs so far, and of what they are weighted by: rounds, the present one too, or seconds where the policy is
    asked at events.
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


class Job(ABC):
    """A job that is there.  Policies read it; only its cluster writes.

    `profile`: how it runs, within the adaptivity of its kind. `submission`, `profile`, `kind`: as given; in a
    simulation the profile is the truth, a policy that is not an oracle goes by `seen`. `seen`: what is known
    of the profile: an estimator sets another one when it learns more. `gpus`: GPU count of a rigid job.
    Others may name a count that they were tuned for in their submission. `allocation`: what it holds.
    `place`: on which nodes, if a placer finds them: node and GPUs. `restart_until`: seconds until which it
    restarts; not after now if it does not. `started`: seconds at which it first got GPUs; NaN before.
    `restarts`: changes of allocation after the first start.
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
        """Seconds of its submission."""
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
        """Level of its profile in which it is."""

    @property
    def age(self) -> float:
        """Seconds since its submission."""
        return self._timer.time - self.submitted

    @property
    @abstractmethod
    def run_seconds(self) -> float:
        """Seconds in which it ran, restarts not counted."""

    @property
    @abstractmethod
    def gpu_seconds(self) -> float:
        """GPUs held times seconds, restarts included: attained service."""

    @property
    @abstractmethod
    def since(self) -> float:
        """Seconds of the last change of what it holds."""

    @property
    def contention(self) -> float:
        """Mean of jobs over GPUs in the cluster since its arrival.

        Over the rounds, the present one too, or over time where the policy is asked at events.
        """
        total, weight = self._timer.contention - self._entered[0], self._timer.weight - self._entered[1]
        return total / weight if weight > 0 else self._timer.present

    def row(self, configurations: Configurations) -> Row:
        """Configurations that can run it now, ascending, and its goodput under each, as far as is known."""
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
        """Seconds to completion under a configuration through all levels to come: for oracles and metrics.

        By the job's `profile`; live that is what is known, too.
        """
        clock = self.profile.clock(configuration)
        if not math.isfinite(clock[-1]):
            return math.inf
        ends = np.concatenate(([0.0], self.profile.progress))
        return float(clock[-1] - np.interp(self.progress, ends, clock))


def job_kind(submission: JobSubmission, policy: Kind) -> Kind:
    """What is adapted of a job under a policy: the lesser of what either allows."""
    return min(submission.kind, policy, key=_FLEXIBILITY.__getitem__)


def job_gpus(submission: JobSubmission, kind: Kind) -> int | None:
    """GPU count of a job that is rigid under a policy, None for others."""
    return (submission.gpus or submission.tuned_gpus or 1) if kind == "rigid" else None


def job_profile(submission: JobSubmission, application: Profile, kind: Kind) -> Profile:
    """Profile by which a job runs: its application's, within the user's limits and what is adapted of it.

    `kind`: as :func:`job_kind` returns it. Where the batch size is not adapted it is the submission's, and
    the user's limit on what may be adapted does not matter; nor does it for profiles that know of no batch
    sizes. Result: the same object for equal arguments.
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
