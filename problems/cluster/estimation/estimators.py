"""What a scheduler knows of how fast jobs run: from the truth to nothing but what it has seen itself.

A job's profile is a throughput model for each GPU type (:mod:`copter.problems.cluster.profiles.throughput`)
and one efficiency for all.  The efficiency of the level in which the job is counts as known: executors report
the gradient noise every 30 seconds.  Throughput is learned.  While a job runs it reports the time of its step
every 30 seconds, and so do profiling runs, each with noise:

    reported = true exp(e),   e ~ N(0, sigma^2)

What follows from the reports is in :mod:`.learned`.

Source: Sia, thesis sections 3.3.1, 3.3.2 and 3.5.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.estimation.learned import Learned, StepReports
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState, Estimator
from copter.problems.cluster.profiles.base import Profile, Row
from copter.problems.cluster.profiles.goodput import GoodputProfile
from copter.problems.cluster.profiles.throughput import ThroughputParameters
from copter.problems.cluster.workload import JobSubmission

_REPORT_SECONDS = 30.0
"""Between two reports of an executor (thesis section 3.3.1)."""
_NOISE = 0.05
"""Standard deviation of the logarithm of a reported step time."""
_PROFILED_BATCHES = 10
"""Local batch sizes that are profiled on one GPU of each type (thesis section 3.3.2)."""
_PROFILING_GPU_HOURS = 0.1
"""GPU-hours of profiling one job, over all types (thesis section 3.5.8)."""


class Oracle(Estimator):
    """Knows all profiles: the ideal.  The 1 to 10 GPU-hours a job that this would take are not charged."""

    def observe(self, now: ClusterState) -> None:
        """Nothing to learn."""


class _Heard(Learned):
    """What was heard from one job.

    `memories`: where it is remembered. `since`, `heard_until`, `run_seconds`: when the job got what it holds;
    how much of its running was reported; how long it ran when it was listened to last.
    """

    def __init__(self, job: GoodputProfile, types: Iterable[str]) -> None:
        super().__init__(job, types)
        self.memories: tuple[_Memory, ...] = ()
        self.since = math.nan
        self.heard_until = self.run_seconds = 0.0


class _Memory:
    """Models of jobs of one kind at one pace: of each type one of several GPUs, with the most reports."""

    def __init__(self) -> None:
        self.models: dict[str, ThroughputParameters] = {}
        self._reports: dict[str, tuple[bool, int]] = {}

    def take(self, known: Learned, types: Iterable[str]) -> None:
        """Keep the models of types that were fitted anew, if they rest on no fewer reports."""
        news = set(types)
        others = {type: model for type, model in self.models.items() if type not in news}
        models, slower = known.parameters(), known.slower(others or self.models)
        for type in types:
            reports = known.reports[type].scaled_out > 0, known.reports[type].total
            if reports >= self._reports.get(type, (False, 0)):
                self.models[type], self._reports[type] = models[type].scaled(1.0 / slower), reports


class NoProf:
    """Profiles nothing; learns by running.

    Jobs with another profile than :class:`copter.problems.cluster.profiles.goodput.GoodputProfile`, such as
    batch inference, are known from the start: their throughput follows from that of one replica.

    `noise`: sigma, of one report. `report_seconds`: of running, between two reports.
    """

    def __init__(
        self, *, noise: float = _NOISE, seed: int = 0, report_seconds: float = _REPORT_SECONDS
    ) -> None:
        for name, value in (("noise", noise), ("report_seconds", report_seconds)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} = {value}: must be finite and not negative")
        self.noise, self._rng, self._every = noise, np.random.default_rng(seed), max(report_seconds, 1e-3)
        self._known: dict[str, _Heard] = {}
        self._steps: dict[tuple[GoodputProfile, Configuration, int], tuple[int, float]] = {}

    def observe(self, now: ClusterState) -> None:
        """Take in reports of the jobs that ran, and profile those that arrived."""
        for job in now.left:
            self._known.pop(job.name, None)
        for job in now.arrived:
            if isinstance(job.profile, GoodputProfile):
                known = self._known[job.name] = self._note(job, job.profile, now.cluster.names)
                self._fit(known, self._profile(known))
                job.seen = known.profile()
        for name, known in self._known.items():
            job = now.jobs[name]
            if self._listen(job, known):
                job.seen = known.profile()

    def profiling_seconds(self, job: Job) -> float:
        """Seconds by which profiling delays a job's first start."""
        return 0.0

    def _note(self, job: Job, profile: GoodputProfile, types: Iterable[str]) -> _Heard:
        """Begin to learn of a job."""
        return _Heard(profile, types)

    def _profile(self, known: _Heard) -> Iterable[str]:
        """Profile a job that arrived; returns the types of which more is known."""
        return ()

    def _listen(self, job: Job, known: _Heard) -> bool:
        """Reports of a job since the last time; returns whether a model changed."""
        if known.since != job.since:  # since the last time, after it was listened to: executors begin anew
            known.since, known.heard_until = job.since, known.run_seconds
        known.run_seconds = job.run_seconds
        held, reports = job.allocation, int((job.run_seconds - known.heard_until) // self._every)
        if held is None or not reports:  # lost to a failure, or hardly ran
            return False
        known.heard_until += reports * self._every
        local_batch, seconds = self._step(known.job, held, min(job.level, known.job.n_levels - 1))
        return self._fit(known, self._report(known, held, local_batch, seconds, reports))

    def _step(self, truth: GoodputProfile, held: Configuration, level: int) -> tuple[int, float]:
        """Local batch of a job as it really runs, and seconds of its step."""
        key = (truth, held, level)
        if key not in self._steps:
            local = truth.best_batch(held, level).local_batch
            model = truth.models[held.type].parameters
            self._steps[key] = local, float(model.step_seconds(held.nodes, held.gpus, local))
        return self._steps[key]

    def _report(
        self, known: _Heard, held: Configuration, local_batch: int, seconds: float, reports: int
    ) -> tuple[str, ...]:
        """Write reports down; returns the type if it is worth fitting again."""
        error = self._rng.normal(0.0, self.noise / math.sqrt(reports))
        news = known.report(held, local_batch, math.log(seconds) + error, reports)
        return (held.type,) if news else ()

    def _fit(self, known: _Heard, types: Iterable[str]) -> bool:
        types = tuple(types)
        known.fit(types)
        return bool(types)


class Bootstrap(NoProf):
    """Profiles one GPU of each type when a job arrives, all types at the same time, and learns by running.

    The GPU time of profiling is spread over the types, and the job's first start is late by its share.

    `gpu_hours`: that profiling of a job takes. `noise`: sigma, of one report.
    """

    def __init__(
        self, *, gpu_hours: float = _PROFILING_GPU_HOURS, noise: float = _NOISE, seed: int = 0
    ) -> None:
        super().__init__(noise=noise, seed=seed)
        if not 0 <= gpu_hours < math.inf:
            raise ValueError(f"gpu_hours = {gpu_hours}: must be finite and not negative")
        self.gpu_hours = gpu_hours

    def profiling_seconds(self, job: Job) -> float:
        """Seconds by which profiling delays a job's first start."""
        known = self._known.get(job.name)
        return 0.0 if known is None else self.gpu_hours * 3600.0 / max(len(known.reports), 1)

    def _profile(self, known: _Heard) -> Iterable[str]:
        truth = known.job
        for type in known.reports:
            model = truth.models[type]
            for local in _profiled_batches(truth.limits.initial, model.max_local_batch).tolist():
                seconds = float(model.parameters.step_seconds(1, 1, local))
                self._report(known, Configuration(1, 1, type), local, seconds, 1)
        return tuple(known.reports)


def _kinds_of(job: JobSubmission) -> Sequence[Hashable]:
    return (job.tenant, job.application), job.application


class Remember(NoProf):
    """Profiles nothing: begins with the models of earlier jobs of a kind.

    Source: thesis section 6.2.

    `kinds_of`: kinds of a job, the nearest first; by default those of its user and application, and of its
    application. It begins with the models of the first one of which there are some.
    """

    def __init__(
        self,
        *,
        noise: float = _NOISE,
        seed: int = 0,
        report_seconds: float = _REPORT_SECONDS,
        kinds_of: Callable[[JobSubmission], Sequence[Hashable]] = _kinds_of,
    ) -> None:
        super().__init__(noise=noise, seed=seed, report_seconds=report_seconds)
        self._kinds_of, self._memories = kinds_of, dict[Hashable, _Memory]()

    def _note(self, job: Job, profile: GoodputProfile, types: Iterable[str]) -> _Heard:
        kinds = self._kinds_of(job.submission)
        known = super()._note(job, profile, types)
        known.memories = tuple(self._memories.setdefault(kind, _Memory()) for kind in kinds)
        known.before = dict(next((memory.models for memory in known.memories if memory.models), {}))
        return known

    def _fit(self, known: _Heard, types: Iterable[str]) -> bool:
        types = tuple(types)
        changed = super()._fit(known, types)
        for memory in known.memories if changed else ():
            memory.take(known, types)
        return changed


class TypeBlind(NoProf):
    """Profiles nothing; learns one model for all GPU types, by running on any of them.

    That is what Pollux sees of a cluster with several types, which it takes for one (thesis section 3.4.3).
    """

    def _note(self, job: Job, profile: GoodputProfile, types: Iterable[str]) -> _Heard:
        known = super()._note(job, profile, types)
        known.reports = dict.fromkeys(known.reports, StepReports())
        return known

    def _fit(self, known: _Heard, types: Iterable[str]) -> bool:
        first = next(iter(types), None)
        if first is None:
            return False
        super()._fit(known, (first,))
        known.fitted = dict.fromkeys(known.reports, known.fitted[first])
        return True


def _profiled_batches(initial: int, largest: int) -> Ints:
    """Local batch sizes to profile: growing ones, from the smallest to what the memory holds.

    `initial`, `largest`: the job's initial batch size, and the most examples that fit on the GPU. Result:
    ascending, at most `_PROFILED_BATCHES`.
    """
    first = max(1, min(initial, largest) // 4)
    return np.unique(np.geomspace(first, largest, _PROFILED_BATCHES).round().astype(np.int64))


def make_estimator(name: str, seed: int = 0) -> Estimator:
    """Make a fresh estimator. `seed`: seed of the noise of reports."""
    makers: dict[str, Callable[[], Estimator]] = {
        "oracle": Oracle,
        "bootstrap": lambda: Bootstrap(seed=seed),
        "no-profile": lambda: NoProf(seed=seed),
        "remember": lambda: Remember(seed=seed),
        "type-blind": lambda: TypeBlind(seed=seed),
        "overestimate": _Overestimate,
    }
    if name not in makers:
        raise ValueError(f"unknown estimator {name!r}; there are: {', '.join(makers)}")
    return makers[name]()


class _LinearBeyond(Profile):
    """A profile as it seems where it was measured up to some GPUs of each type.

    `measured`: largest GPU count on which the job ran, by type. `first`: more GPUs than that seem to be of no
    use to a job that never ran.
    """

    def __init__(self, truth: Profile, measured: dict[str, int], first: int) -> None:
        super().__init__(truth.name, truth.restart_seconds, truth.progress, truth.calibration)
        self.truth, self.measured = truth, dict(measured)
        self._first = math.inf if measured else first

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        return np.stack([self._linear(shape)[levels] for shape in shapes])

    def _linear(self, shape: Configuration) -> Floats:
        nodes, gpus, type = shape
        truth, known = self.truth.curve(shape), self.measured.get(type, 0)
        if gpus <= known or not truth.any():
            return truth
        per_node = -(-gpus // nodes)
        for fewest in (known,) if known else range(1, gpus):
            rates = self.truth.curve(Configuration(-(-fewest // per_node), fewest, type))
            if rates.any():
                return rates * (max(min(gpus, self._first), fewest) / fewest)
        return truth

    def row(self, configurations: Configurations, level: int) -> Row:
        """Linear from the largest known configuration of the cluster, or the smallest that runs the job."""
        columns, values = self.truth.row(configurations, level)
        types, gpus = configurations.type_index[columns], configurations.gpus[columns]
        values = np.array(values, np.float64)
        for position, type in enumerate(configurations.types):
            here = np.flatnonzero(types == position)
            if not here.size:
                continue
            here = here[np.argsort(gpus[here], kind="stable")]
            known = int(np.searchsorted(gpus[here], self.measured.get(type, 0), side="right"))
            last = here[max(known - 1, 0)]
            beyond = here[max(known, 1) :]
            useful = np.maximum(np.minimum(gpus[beyond], self._first), gpus[last])
            values[beyond] = values[last] * useful / gpus[last]
        return columns, values


class _Overestimate(Estimator):
    """Overestimates, then measures: throughput is linear in the GPUs until a job has run on them.

    With the largest count k of GPUs of a type on which a job ran, at speed v(k), and g the count in question,

        est(g) = v(g)            if it ran on g GPUs, or on more: shrinking to measure costs milliseconds
                 v(k) g / k      otherwise

    A job that never ran on a type is known by the speed of one GPU, or of the fewest that it runs on: the
    first iterations give it before the share is settled.  One that never ran at all seems to have no use for
    more GPUs than its fair share, those of the cluster over the jobs that are there when it comes.

    Source: AFS, section 4.5 ("overestimate first and re-adjust later").
    """

    def __init__(self) -> None:
        self._measured: dict[str, dict[str, int]] = {}
        self._first: dict[str, int] = {}

    def observe(self, now: ClusterState) -> None:
        """Learn from the GPUs that jobs ran on."""
        for job in now.left:
            self._measured.pop(job.name, None)
            self._first.pop(job.name, None)
        fair = max(now.cluster.gpus // max(len(now.jobs), 1), 1)
        for name, job in now.jobs.items():
            new = name not in self._measured
            known = self._measured.setdefault(name, {})
            held = job.allocation
            more = held is not None and job.run_seconds > 0 and held.gpus > known.get(held.type, 0)
            if held is not None and more:
                known[held.type] = held.gpus
            if new or more:
                first = self._first.setdefault(name, fair)
                job.seen = _LinearBeyond(job.profile, known, first)
