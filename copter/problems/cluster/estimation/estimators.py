"""Estimators of the jobs' speed, from complete knowledge to the scheduler's own measurements only.

A job's profile is a throughput model for each GPU type (:mod:`copter.problems.cluster.profiles.throughput`)
and one efficiency for all types.  The efficiency at the present level of the job counts as known, because
executors report the gradient noise every 30 seconds.  Throughput is learned.  A running job reports the time
of its step every 30 seconds, and a profiling run once for each batch size.  Each report has noise:

    reported = true exp(e),   e ~ N(0, sigma^2)

The module :mod:`.learned` derives models from the reports.

Source: Sia, thesis sections 3.3.1, 3.3.2 and 3.5.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

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
"""Seconds between two reports of an executor (thesis section 3.3.1)."""
_NOISE = 0.05
"""Standard deviation of the logarithm of a reported step time."""
_PROFILED_BATCHES = 10
"""Number of local batch sizes that are profiled on one GPU of each type (thesis section 3.3.2)."""
_PROFILING_GPU_HOURS = 0.1
"""GPU-hours of profiling one job, over all types (thesis section 3.5.8)."""


class Oracle(Estimator):
    """Complete knowledge of all profiles, without the cost of 1 to 10 GPU-hours of profiling for each job."""

    def observe(self, now: ClusterState) -> None:
        """Do nothing."""


class _Heard(Learned):
    """State of the reports of one job.

    `memories`: models of earlier jobs, which the job's reports update. `since`: time of the last change of
    the job's allocation. `heard_until`: running time that reports cover. `run_seconds`: running time of the
    job at the last observation.
    """

    def __init__(self, job: GoodputProfile, types: Iterable[str]) -> None:
        super().__init__(job, types)
        self.memories: tuple[_Memory, ...] = ()
        self.since = math.nan
        self.heard_until = self.run_seconds = 0.0


class _Memory:
    """Models of jobs of one kind, scaled to one speed; for each type the model with the best reports."""

    def __init__(self) -> None:
        self.models: dict[str, ThroughputParameters] = {}
        self._reports: dict[str, tuple[bool, int]] = {}

    def take(self, known: Learned, types: Iterable[str]) -> None:
        """Keep a newly fitted model of a type if its reports are at least as good as those of the kept one.

        Reports on several GPUs are better than reports on single GPUs only; then more reports are better.
        """
        news = set(types)
        others = {type: model for type, model in self.models.items() if type not in news}
        models, slower = known.parameters(), known.slower(others or self.models)
        for type in types:
            reports = known.reports[type].scaled_out > 0, known.reports[type].total
            if reports >= self._reports.get(type, (False, 0)):
                self.models[type], self._reports[type] = models[type].scaled(1.0 / slower), reports


class NoProf:
    """An estimator that does not profile jobs, but learns from their reports.

    Jobs with another profile than :class:`copter.problems.cluster.profiles.goodput.GoodputProfile`, such as
    batch inference, are known from the start, because their throughput follows from that of one replica.

    `noise`: sigma of a report. `report_seconds`: running time between two reports.
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
        """Add the reports of jobs that ran, and profile jobs that arrived."""
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
        """Return the seconds by which profiling delays a job's first start."""
        return 0.0

    def _note(self, job: Job, profile: GoodputProfile, types: Iterable[str]) -> _Heard:
        """Return the state of the reports of a new job."""
        return _Heard(profile, types)

    def _profile(self, known: _Heard) -> Iterable[str]:
        """Profile a job that arrived; return the types with new reports."""
        return ()

    def _listen(self, job: Job, known: _Heard) -> bool:
        """Add a job's reports since the last call; return whether a model changed."""
        if known.since != job.since:  # the allocation changed since the last call: executors start again
            known.since, known.heard_until = job.since, known.run_seconds
        known.run_seconds = job.run_seconds
        held, reports = job.allocation, int((job.run_seconds - known.heard_until) // self._every)
        if held is None or not reports:  # it lost its GPUs to a failure, or has no new report
            return False
        known.heard_until += reports * self._every
        local_batch, seconds = self._step(known.job, held, min(job.level, known.job.n_levels - 1))
        return self._fit(known, self._report(known, held, local_batch, seconds, reports))

    def _step(self, truth: GoodputProfile, held: Configuration, level: int) -> tuple[int, float]:
        """Return the true local batch of a job and the seconds of its step."""
        key = (truth, held, level)
        if key not in self._steps:
            local = truth.best_batch(held, level).local_batch
            model = truth.models[held.type].parameters
            self._steps[key] = local, float(model.step_seconds(held.nodes, held.gpus, local))
        return self._steps[key]

    def _report(
        self, known: _Heard, held: Configuration, local_batch: int, seconds: float, reports: int
    ) -> tuple[str, ...]:
        """Record reports; return the type if its model should be fitted again."""
        error = self._rng.normal(0.0, self.noise / math.sqrt(reports))
        news = known.report(held, local_batch, math.log(seconds) + error, reports)
        return (held.type,) if news else ()

    def _fit(self, known: _Heard, types: Iterable[str]) -> bool:
        types = tuple(types)
        known.fit(types)
        return bool(types)


class Bootstrap(NoProf):
    """An estimator that profiles a new job on one GPU of each type in parallel, then learns from reports.

    The GPU time of profiling is divided among the types; it delays the job's first start.

    `gpu_hours`: GPU-hours of profiling of a job. `noise`: sigma of a report.
    """

    def __init__(
        self, *, gpu_hours: float = _PROFILING_GPU_HOURS, noise: float = _NOISE, seed: int = 0
    ) -> None:
        super().__init__(noise=noise, seed=seed)
        if not 0 <= gpu_hours < math.inf:
            raise ValueError(f"gpu_hours = {gpu_hours}: must be finite and not negative")
        self.gpu_hours = gpu_hours

    def profiling_seconds(self, job: Job) -> float:
        """Return the seconds by which profiling delays a job's first start."""
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
    """An estimator that begins with the models of earlier jobs of the same kind.

    Source: thesis section 6.2.

    The first kind of a job is its user and application, and the second kind is its application alone. A job
    begins with the models of the first kind that has models.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._memories = dict[Hashable, _Memory]()

    def _note(self, job: Job, profile: GoodputProfile, types: Iterable[str]) -> _Heard:
        kinds = _kinds_of(job.submission)
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
    """An estimator that learns one model for all GPU types, from reports on any of them.

    Pollux models a cluster in this way, because it does not distinguish GPU types (thesis section 3.4.3).
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
    """Return ascending local batch sizes to profile, from a quarter of the initial one to the largest.

    `initial`, `largest`: the job's initial batch size, and the most examples that fit on the GPU. If fewer
    than `initial` examples fit, the first size is a quarter of `largest`. The result has at most
    `_PROFILED_BATCHES` sizes.
    """
    first = max(1, min(initial, largest) // 4)
    return np.unique(np.geomspace(first, largest, _PROFILED_BATCHES).round().astype(np.int64))


def make_estimator(name: str, seed: int = 0) -> Estimator:
    """Return a new estimator by its name; `seed` is the random seed of the noise of its reports."""
    makers: dict[str, Callable[[], Estimator]] = {
        "oracle": Oracle,
        "bootstrap": lambda: Bootstrap(seed=seed),
        "no-profile": lambda: NoProf(seed=seed),
        "remember": lambda: Remember(seed=seed),
        "type-blind": lambda: TypeBlind(seed=seed),
        "overestimate": _Overestimate,
    }
    if name not in makers:
        raise ValueError(f"name = {name!r}: must be one of {', '.join(makers)}")
    return makers[name]()


class _LinearBeyond(Profile):
    """A profile that is measured up to some number of GPUs of each type, and linear beyond it.

    `measured`: largest GPU count on which the job ran, by type. `first`: GPU count beyond which the speed of
    a job that never ran is constant.
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
        """Return a row that is linear beyond its largest measured, or else its smallest feasible, count."""
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
    """An estimator that overestimates first: speed is linear in the GPUs until a job has run on them.

    Let v(g) be the true speed of a job on g GPUs of a type, and k the largest count on which the job ran:

        est(g) = v(g)            if g <= k: the job shrinks for a measurement within milliseconds
                 v(k) g / k      otherwise

    For a type on which the job never ran, the speed of one GPU (or of the fewest that the job can use) is
    known, because the job's first iterations measure it before its share is fixed.  For a job that never ran
    at all, the speed is constant beyond its fair share: the GPUs of the cluster divided by the number of jobs
    at its arrival.

    Source: AFS, section 4.5 ("overestimate first and re-adjust later").
    """

    def __init__(self) -> None:
        self._measured: dict[str, dict[str, int]] = {}
        self._first: dict[str, int] = {}

    def observe(self, now: ClusterState) -> None:
        """Update the estimates with the GPUs on which jobs ran."""
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
