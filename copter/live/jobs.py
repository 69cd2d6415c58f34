"""A job of a live cluster: the reports of its runs, and its profile for policies.

The profile has the throughput that is fitted to the reported step times
(:mod:`copter.problems.cluster.estimation.learned`), the measured gradient noise, and the duration of
restarts.  It has one level: when the noise changes, the profile is replaced.  A rigid job sends no reports;
it counts as equally fast on every type that it may use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from copter.live.backends.base import Run
from copter.live.events import Closed, Decided, Place
from copter.live.files import JobFile
from copter.live.tokens import ADMIN
from copter.live.training.plan import Batch, TrainingReport
from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.estimation.learned import NOMINAL, Learned
from copter.problems.cluster.jobs import Job, Timer, job_gpus, job_kind, job_profile
from copter.problems.cluster.policy import Placement
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.profiles.throughput import learning_rate_factor, noise_scale
from copter.problems.cluster.workload import Kind

Status: TypeAlias = Literal["queued", "starting", "running", "stopping", "completed", "failed", "cancelled"]

_CHANGE = 0.1
"""Relative change of gradient noise or of restart seconds at which a profile is replaced."""
_TRIED_BATCHES = 3
"""Number of local batch sizes to try on each type before the best one is used.

Three sizes separate the cost of a pass from the cost of each example."""
_MOST_FITTED = 256
"""Largest number of combinations of nodes, GPUs and local batch whose times are fitted on each type.

Any further combination replaces the combination whose first report is the oldest."""
_LARGEST_FACTOR = 32
"""Ratio of the largest batch to the initial one, if the user gives no limit."""


@dataclass
class ActiveRun:
    """A run that has been launched and has not ended.

    Attributes
    ----------
    devices : tuple of tuple of int
        Numbers of the run's GPUs on each node.
    launched, told : float
        Times in seconds; `told` is NaN until the run is sent the stop signal.
    running_seconds : float
        Reported time since the run's first step.
    heard : float
        Time of the run's last report, or of its launch.
    saved : float
        Progress of the job's last checkpoint at the launch of the run.
    batch : Batch or None
        The batch that the run was last ordered to use.
    waiting : bool
        True while the run is being started or, according to the backend, has not begun.
    counted, counted_at : float
        Reports that count against the limit of their rate, and the time of the last report.
    waited, stopped : float
        Last time at which the run waited for its nodes, and time at which the backend accepted the stop
        signal.
    killed : str
        Reason for killing the run; empty if it is not killed.
    run : Run or None
        The run for the backend.
    """

    number: int
    place: Place
    hosts: tuple[str, ...]
    devices: tuple[tuple[int, ...], ...]
    launched: float
    heard: float
    told: float = math.nan
    running_seconds: float = 0.0
    saved: float = 0.0
    batch: Batch | None = None
    waiting: bool = False
    counted: float = 0.0
    counted_at: float = -math.inf
    waited: float = -math.inf
    stopped: float = math.nan
    killed: str = ""
    run: Run | None = None

    @property
    def left(self) -> float:
        """Time at which the run was told to end; NaN if it was not."""
        return self.stopped if math.isnan(self.told) else self.told


class LiveJob(Job):
    """A job of a live cluster; `policy_kind` is the largest kind of adaptation that the policy makes.

    Attributes
    ----------
    owner : str
        Name of the token with which the job was submitted.
    index : int or None
        Number of the job in its array, from 0; None for a job without an array.
    waits_for : set of str
        Jobs that must complete before this one starts.
    eligible_since : float
        Time at which policies could begin to give GPUs to the job; NaN before that.
    run : ActiveRun or None
        The present run.  While the job is being resized, this is still the run on its former GPUs.
    runs : int
        Number of runs, including the present one.
    failures, losses : int
        Consecutive runs that failed, or were lost, without progress.
    retry_at : float
        Earliest time of the next launch.
    report : TrainingReport or None
        The last report.
    noise : float
        Gradient noise scale in examples; NaN before it is measured.
    closed : Closed or None
        The end of the job; None before.
    exit_code : int or None
        Exit code of the last run that has ended; None if it is unknown.
    failed_runs : int
        Number of runs that failed.
    ended_gpu_seconds : float
        GPUs of the runs that have ended times their seconds.
    taken_in : Decided or None
        The round that took away the job's last GPUs; None if it has GPUs, or lost them with a node.
    """

    def __init__(
        self,
        file: JobFile,
        name: str,
        timer: Timer,
        cluster: Cluster,
        policy_kind: Kind,
    ) -> None:
        submission = file.submission(name, timer.time)
        kind = job_kind(submission, policy_kind)
        self.file = file
        self._types = dict.fromkeys(cluster.names)  # types that leave the cluster later are kept
        prior = _prior(file, name, self.types)
        super().__init__(submission, job_profile(submission, prior, kind), kind, timer)
        self.owner = ADMIN.name
        self.index: int | None = None
        self._prior = prior
        self.waits_for = set[str]()
        self.eligible_since = math.nan
        self.learned: Learned | None = None
        if isinstance(self.profile, GoodputProfile):
            self.learned = Learned(self.profile, self.types)
        self.run: ActiveRun | None = None
        self.runs = self.failures = self.losses = 0
        self.retry_at = -math.inf
        self.report: TrainingReport | None = None
        self._restart_seconds = file.restart_seconds
        self.noise = math.nan
        self.closed: Closed | None = None
        self.exit_code: int | None = None
        self.failed_runs, self.ended_gpu_seconds = 0, 0.0
        self.taken_in: Decided | None = None
        self._stale: dict[str, None] = {}
        self._run_seconds = self._gpu_seconds = self._used_seconds = 0.0
        self._since = timer.time
        self._waits_since = math.nan

    # ---- state for policies ----------------------------------------------------------------------

    @property
    def progress(self) -> float:
        """Reported progress; for a rigid job, the time of its present run, kept below its work."""
        if self.report is not None:
            return min(self.report.progress, self.work)
        return 0.0 if self.file.elastic else min(self.present_seconds, math.nextafter(self.work, 0.0))

    @property
    def level(self) -> int:
        """Index of the only level."""
        return 0

    @property
    def run_seconds(self) -> float:
        """Running time in seconds, as reported; for a rigid job, the time since its launches."""
        if not self.file.elastic:
            return self.used_seconds
        return self._run_seconds + (0.0 if self.run is None else self.run.running_seconds)

    @property
    def present_seconds(self) -> float:
        """Time since the launch of the run; 0 without a run.  A restart loses the work of a rigid job."""
        return 0.0 if self.run is None else self._timer.time - self.run.launched

    @property
    def used_seconds(self) -> float:
        """Seconds of all runs from their launches until now, which the time limit bounds."""
        return self._used_seconds + self.present_seconds

    @property
    def gpu_seconds(self) -> float:
        """GPUs held times seconds, including restarts."""
        held = 0 if self.allocation is None else self.allocation.gpus
        return self._gpu_seconds + (self._timer.time - self._since) * held

    @property
    def since(self) -> float:
        """Time of the last change of its allocation."""
        return self._since

    @property
    def status(self) -> Status:
        """Status of the job."""
        if self.closed is not None:
            return self.closed.ending
        if self.run is None:
            return "queued" if self.allocation is None else "starting"
        if not math.isnan(self.run.told):
            return "stopping"
        heard = self.run.running_seconds > 0 or not (self.file.elastic or self.run.waiting)
        return "running" if heard else "starting"

    @property
    def least_gpus(self) -> int:
        """Least number of GPUs with which the job can run."""
        return self.gpus or self.submission.min_gpus or 1

    @property
    def types(self) -> list[str]:
        """Types on which a policy may run the job."""
        return [type for type in self._types if not self.file.types or type in self.file.types]

    @property
    def eligible(self) -> bool:
        """True if a policy may give GPUs to the job."""
        return not self.waits_for

    @property
    def saved_progress(self) -> float:
        """Progress at the last checkpoint."""
        return 0.0 if self.report is None else self.report.saved_progress

    @property
    def target(self) -> Place | None:
        """Place where the job should run; None if it should not run."""
        if self.allocation is None or self.place is None:
            return None
        return self.allocation.type, self.place

    def predicted_goodput(self) -> float:
        """Return the steps of the initial batch per second with the present allocation; 0 without one."""
        return 0.0 if self.allocation is None else self.speed(self.allocation)

    def copied(self, former: Self | None, timer: Timer) -> Self:
        """Return a copy of the job for a policy, with another timer; an earlier copy `former` is reused."""
        shown = copy(self) if former is None else former
        shown.__dict__.update(self.__dict__)
        shown._timer = timer
        return shown

    # ---- changes of the state --------------------------------------------------------------------

    def enter(self, contention: float, weight: float) -> None:
        """Set the sums of the timer at the submission of the job."""
        self._entered = contention, weight

    def give(self, place: Place | None, round: Decided | None = None) -> None:
        """Change the job's allocation; `round` is the decision if the policy changes it."""
        now = self._timer.time
        self._gpu_seconds, self._since = self.gpu_seconds, now
        self.taken_in = round if place is None else None
        if place is None:
            self.allocation = self.place = None
            self.restart_until = -math.inf
            return
        self.restarts += not math.isnan(self.started)
        self.started = now if math.isnan(self.started) else self.started
        self.allocation, self.place = Placement(*place).configuration, place[1]
        self.restart_until = now + self._restart_seconds

    def launch(
        self, number: int, place: Place, hosts: tuple[str, ...], devices: tuple[tuple[int, ...], ...]
    ) -> None:
        """Begin a run."""
        now = self._timer.time
        self.run = ActiveRun(number, place, hosts, devices, now, now, saved=self.saved_progress)
        self.runs = number
        if math.isnan(self._waits_since):
            self._waits_since = now

    def tell(self) -> None:
        """Record that the run was sent the stop signal."""
        assert self.run is not None
        self.run.told = self._waits_since = self._timer.time

    def end_run(self) -> None:
        """Record that the run has ended."""
        self._run_seconds, self._used_seconds = self.run_seconds, self.used_seconds
        self.run = None

    def hear(self, report: TrainingReport, *, learn: bool = True) -> None:
        """Record a report of the run; with `learn`, fit it at once, so that no round waits for the fit."""
        run = self.run
        assert run is not None
        now = self._timer.time
        if report.running_seconds > 0 and run.running_seconds == 0 and not math.isnan(self._waits_since):
            took = max(now - report.running_seconds - self._waits_since, 0.0)
            if self.runs == 1 or abs(took - self._restart_seconds) > _CHANGE * self._restart_seconds:
                self._restart_seconds = took
                self._stale |= {"": None}
            self._waits_since = math.nan
            self.restart_until = min(self.restart_until, now)
        run.heard, run.running_seconds, self.report = now, report.running_seconds, report
        if self.learned is None:
            return
        for times in report.times:
            held = Placement(*run.place).configuration
            if self.learned.report(held, times.local_batch, times.log_seconds, times.count):
                self._stale[held.type] = None
            reports = self.learned.reports[held.type]
            if len(reports.keys) > _MOST_FITTED:
                reports.forget(*next(iter(reports.keys)))
        if report.squared_norm is not None and report.variance is not None:
            self._hear_noise(report.squared_norm, report.variance)
        if learn:
            self.learn()

    def _hear_noise(self, squared_norm: float, variance: float) -> None:
        """Record a measurement of gradient noise, with a limit for gradients that vanish in the noise."""
        initial = self.file.batch_size or 1
        most = 1e6 * initial
        vanishes = squared_norm <= 0 or initial * variance >= most * squared_norm
        noise = most if vanishes else float(noise_scale(squared_norm, variance, initial))
        if math.isnan(self.noise) or abs(noise - self.noise) > _CHANGE * self.noise:
            self.noise = noise
            self._stale |= {"": None}

    def adapt(self, policy_kind: Kind, cluster: Cluster) -> None:
        """Prepare for a new policy: mark everything to be fitted when the policy is asked.

        `cluster`: the present cluster, whose types the job can use from now on.
        """
        if set(cluster.names) - self._types.keys():
            self._types |= dict.fromkeys(cluster.names)
            self._prior = _prior(self.file, self.name, self.types)
        self.kind = job_kind(self.submission, policy_kind)
        self.gpus = job_gpus(self.submission, self.kind)
        self.seen = self.profile = job_profile(self.submission, self._prior, self.kind)
        self._stale = {"": None}
        if self.learned is not None and isinstance(self.profile, GoodputProfile):
            self.learned.use(self.profile)
            self._stale |= {type: None for type, reports in self.learned.reports.items() if reports.total}

    def learn(self) -> bool:
        """Fit the reports that may change the profile; return whether there were any."""
        if not self._stale:
            return False
        stale, self._stale = self._stale, {}
        if self.learned is None:
            self.seen = self.profile = self.profile.with_restart_seconds(self._restart_seconds)
            return True
        self.learned.fit(type for type in stale if type)
        known = self.learned.profile().with_restart_seconds(self._restart_seconds)
        assert isinstance(known, GoodputProfile)
        if not math.isnan(self.noise):
            known = known.with_noise([self.noise])
        self.seen = self.profile = known
        return True

    def batch(self, place: Place) -> Batch | None:
        """Return the batch for training on some GPUs, or None for a job without batch sizes.

        Once enough sizes were tried on the type, the result is the best batch under the fitted profile.
        """
        profile, held = self.seen, Placement(*place).configuration
        if not isinstance(profile, GoodputProfile):
            return None
        if self.kind == "adaptive" and self.learned is not None and held.type in self.learned.reports:
            tried = {batch for _, _, batch in self.learned.reports[held.type].keys}
            if len(tried) < _TRIED_BATCHES:
                untried = self._untried(profile, held, tried)
                if untried is not None:
                    return untried
        if not profile.curve(held)[0] > 0:
            return None
        choice = profile.best_batch(held, 0)
        return Batch(choice.local_batch, choice.accumulation, choice.learning_rate_factor)

    def _untried(self, profile: GoodputProfile, held: Configuration, tried: Iterable[int]) -> Batch | None:
        """Return a local batch within the limits that has not been tried."""
        limits, gpus = profile.limits, held.gpus
        least = -(-limits.initial // gpus)
        most = min(profile.models[held.type].max_local_batch, limits.largest // gpus)
        if most <= least:
            return None
        for local in (least, round(math.sqrt(least * most)), most):
            if all(not 0.8 < local / other < 1.25 for other in tried):
                noise, rule = float(profile.noise[0]), profile.rule
                factor = learning_rate_factor(rule, noise, limits.initial, gpus * local)
                return Batch(local, 0, float(factor))
        return None


def _prior(file: JobFile, name: str, types: Iterable[str]) -> Profile:
    """Return the profile of a job before it has run, on the types that it may use."""
    if not file.elastic:
        counts = [file.gpus or 1]
        return CountProfile(name, file.restart_seconds, file.seconds, counts, {type: [1.0] for type in types})
    assert file.work is not None and file.batch_size is not None
    initial = file.batch_size
    largest = max(file.max_batch_size or _LARGEST_FACTOR * initial, initial)
    fits = file.max_local_batch
    most = {type: (fits.get(type) if isinstance(fits, dict) else fits) or largest for type in types}
    return GoodputProfile(
        name,
        file.restart_seconds,
        [file.work],
        [float(initial)],  # until the noise is measured: twice the batch makes 4/3 of the progress
        {type: TypeModel(NOMINAL, most[type]) for type in types},
        BatchLimits(initial, largest),
        rule=file.rule,
    )
