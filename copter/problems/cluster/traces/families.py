"""Generators of the workloads of the thesis and of Pollux, from published figures only.

The parameters are from these sources; no file of the authors is needed:

- philly: 160 jobs in 8 hours (thesis 3.4.1, Pollux 5.2).  Rates by hour and shares of the sizes are those of
  the jobs of Microsoft's trace from which Pollux' authors sample.  These jobs were submitted from 2 to 10
  o'clock (UTC) of any day, and ran for at least a minute and less than 1000 GPU-hours.  Jobs of size M are
  bert or deepspeech2 with equal probability, as in the authors' workloads.
- helios: 160 jobs in 8 hours.  The thesis' authors published 10 samples of Helios' Saturn cluster: the shares
  of the models are those in all 10, and the rates by hour are those of the first.
- new-trace: 960 jobs in 48 hours; rates by hour and shares are those of the first of the authors' public
  workloads, folded to one day.  Scripts submit several jobs of one model; an hour has from 5 to about 100
  jobs, as in the thesis.
- spike: 240 jobs in 6 hours with the shares of new-trace, and a burst in the half hour from 2.5 h on (thesis
  3.5.6; Figure 3.9 itself is not readable).  The rate of the burst is twice new-trace's highest rate of 100
  jobs per hour, because the mean rate of spike is twice new-trace's.  With this rate, job number 180, which
  waits through hours 3 to 4.25 according to the thesis, arrives by 3 h.
- pollux: like philly, but a job of size S is cifar10 or ncf.

Jobs of the thesis run at the speed of the thesis' testbed, and jobs of Pollux at the speed that Pollux
measured.

With a folder of real traces, philly, helios and pollux are sampled from Microsoft's trace, SenseTime's trace
and the artifact's workloads: :mod:`.philly`, :mod:`.helios`, :mod:`.pollux`.  philly, helios and new-trace
may also be the workloads that the thesis' authors published (:func:`published`).

The rate of arrivals depends on the hour (`_by_hour`), and in new-trace and spike, scripts submit several jobs
in succession (:func:`in_scripts`).  The papers give the number of jobs, the hours, and the shape of the
rate.  The number of jobs is met exactly, and times within an hour are uniform.  A script submits a run of
jobs of one application, `_SCRIPT_SECONDS` apart on average (hyper-parameter searches: thesis section 3.4.1);
the lengths of runs have a geometric distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from copter.arrays import Floats, Ints
from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.traces.tuned import TunedJobs, constrained, requested
from copter.problems.cluster.workload import JobSubmission, Scenario, read_workload
from copter.problems.reading import find

_PHILLY_RATE = (0.1134, 0.1076, 0.0716, 0.1191, 0.1652, 0.2104, 0.1118, 0.1008)
_PHILLY_SIZES = {"S": 0.7829, "M": 0.1525, "L": 0.0460, "XL": 0.0187}
_HELIOS_RATE = (21, 15, 31, 40, 21, 16, 9, 7)
_NEW_TRACE_RATE = (
    (28.5, 17, 12.5, 9, 12.5, 33, 32, 32.5, 27.5, 25.5, 23, 30.5)
    + (16.5, 21, 15.5, 22.5, 22.5, 6.5, 24.5, 10, 15.5, 15.5, 13, 13.5)
)  # fmt: skip
_SPIKE_RATE = (12, 14, 16, 18, 20, 100, 20, 12, 10, 8, 6, 4)
_PUBLISHED_FOLDER = "siasosp23_artifacts"
_PUBLISHED = {"philly": "philly", "helios": "saturn", "new-trace": "newtrace"}
"""Names of the folders of the thesis authors' workloads."""
_SCRIPT_JOBS = 3.0
"""Mean number of jobs that a script of new-trace submits."""

_NEW_TRACE_MIX = {
    "cifar10": 0.505,
    "bert": 0.217,
    "deepspeech2": 0.234,
    "yolov3": 0.0375,
    "imagenet": 0.0065,
}


_SCRIPT_SECONDS = 60.0
"""Mean seconds between two jobs of a script."""


def _philly_mix(*small: str) -> dict[str, float]:
    shares = _PHILLY_SIZES
    mix = {name: shares["S"] / len(small) for name in small}
    return mix | {
        "bert": shares["M"] / 2,
        "deepspeech2": shares["M"] / 2,
        "yolov3": shares["L"],
        "imagenet": shares["XL"],
    }


@dataclass(frozen=True)
class _Family:
    """Distribution of a family of workloads.

    `rate`: rates of submissions in equal parts of `hours`. `mix`: share of each model. `script_jobs`: mean
    number of jobs of one model that a script submits.
    """

    jobs: int
    hours: float
    rate: tuple[float, ...]
    mix: Mapping[str, float]
    script_jobs: float = 1.0


FAMILIES = {
    "philly": _Family(160, 8.0, _PHILLY_RATE, _philly_mix("cifar10")),
    "pollux": _Family(160, 8.0, _PHILLY_RATE, _philly_mix("cifar10", "ncf")),
    "helios": _Family(
        160,
        8.0,
        _HELIOS_RATE,
        {"cifar10": 0.8213, "bert": 0.0437, "deepspeech2": 0.0625, "yolov3": 0.0437, "imagenet": 0.0288},
    ),
    "new-trace": _Family(960, 48.0, _NEW_TRACE_RATE * 2, _NEW_TRACE_MIX, _SCRIPT_JOBS),
    "spike": _Family(240, 6.0, _SPIKE_RATE, _NEW_TRACE_MIX, _SCRIPT_JOBS),
}


def _draw(
    family: _Family, rng: np.random.Generator, jobs: int | None = None, hours: float | None = None
) -> list[JobSubmission]:
    """Return the jobs of a family, by time.

    `jobs`: number of jobs; default: the family's. `hours`: length of the workload, to which the shape of the
    rate is stretched without changing the number of jobs.
    """
    count = family.jobs if jobs is None else jobs
    window = family.hours if hours is None else hours
    times, runs = in_scripts(count, family.rate, rng, family.script_jobs, window)
    names, shares = list(family.mix), np.array(list(family.mix.values()))
    drawn = rng.choice(len(names), count, p=shares / shares.sum())[runs]  # one model for each run
    return [submission(names[pick], k, times[k]) for k, pick in enumerate(drawn.tolist())]


def submission(application: str, number: int, time: float, tenant: str = "") -> JobSubmission:
    """Return an adaptive training job named after its model and number; `time` is in seconds."""
    return JobSubmission(f"{application}-{number}", float(time), "training", application, tenant=tenant)


@dataclass(frozen=True)
class Shape:
    """Settings of the traces of a family.

    `jobs`: number of jobs; default: the family's. `hours`: length of the workload, to which the shape of the
    rate is stretched without changing the number of jobs. `strong_scaling`, `rigid`: shares of jobs that
    policies may adapt only in part or not at all, see :func:`.tuned.constrained`. With rigid jobs, all jobs
    are tuned to GPU counts of configurations. `requested`: use the users' GPUs and batch sizes
    (:func:`.tuned.requested`) instead of TunedJobs.
    """

    jobs: int | None = None
    hours: float | None = None
    strong_scaling: float = 0.0
    rigid: float = 0.0
    requested: bool = False

    def __post_init__(self) -> None:
        if (self.jobs is not None and self.jobs < 0) or (self.hours is not None and not self.hours > 0):
            what = f"jobs = {self.jobs}, hours = {self.hours}"
            raise ValueError(f"{what}: jobs must not be negative, hours positive")


def make_scenario(
    cluster: Cluster,
    jobs: list[JobSubmission],
    rng: np.random.Generator,
    shape: Shape,
    *,
    calibrated: bool = True,
) -> Scenario:
    """Return a scenario with jobs on a cluster; the jobs get sizes for policies that cannot adapt them.

    `calibrated`: jobs run at the speed of the thesis' testbed; otherwise at the measured speed.
    """
    known = builtin_goodput_profiles(calibrated=calibrated)
    profiles: dict[str, Profile] = {name: known[name] for name in sorted({job.application for job in jobs})}
    if shape.requested:
        sized = requested(jobs, profiles, rng)
    else:
        sized = TunedJobs(cluster, whole=shape.rigid > 0).tune(jobs, profiles, rng)
    return Scenario(cluster, constrained(sized, rng, shape.strong_scaling, shape.rigid), profiles)


def from_file(path: str | Path, cluster: Cluster, seed: int) -> Scenario:
    """Return a scenario with the jobs of a workload file, whose applications must have built-in profiles.

    `path`: file for :func:`copter.problems.cluster.workload.read_workload`. `seed`: seed of the sizes of jobs
    without a size, see :mod:`.tuned`.
    """
    jobs = read_workload(path, builtin_goodput_profiles())
    if not jobs:
        raise InputError(path, "file", "must have at least one job")
    return make_scenario(cluster, jobs, np.random.default_rng(seed), Shape())


def published(
    name: str, cluster: Cluster, seed: int, data: Path | None, settings: Mapping[str, Any]
) -> Scenario:
    """Return a workload of the thesis' authors; its number is `seed` modulo the number of files.

    The GPU counts and batch sizes of the files are tuned for the cluster of three GPU types.  On a cluster of
    one type, jobs are tuned again, for up to 64 GPUs (thesis 3.4.3).

    `name`: a key of `_PUBLISHED`. `data`: folder of real traces. `settings`: other settings of the trace,
    which must be empty.
    """
    if settings:
        raise ValueError(f"authors = True: must be without settings: {', '.join(sorted(settings))}")
    if name not in _PUBLISHED:
        raise ValueError(f"authors = True: there are no published {name} workloads")
    files = published_files(name, data)
    if not files:
        where = f"{_PUBLISHED_FOLDER}/{_PUBLISHED[name]}/workload-*.csv"
        raise InputError(data or Path("data"), where, "does not exist: give the folder with --data")
    found = from_file(files[seed % len(files)], cluster, seed)
    if len(cluster.types) > 1:
        return found
    jobs = [replace(job, tuned_gpus=None, batch_size=None) for job in found.jobs]
    return make_scenario(cluster, jobs, np.random.default_rng(seed), Shape())


def published_files(name: str, data: Path | None) -> list[Path]:
    """Return the files of the thesis authors' workloads in a folder of real traces, by number."""
    folder = find(data, f"{_PUBLISHED_FOLDER}/{_PUBLISHED[name]}", _PUBLISHED[name])
    return [] if folder is None else sorted(folder.glob("workload-*.csv"), key=_number)


def _number(path: Path) -> int:
    text = path.stem.rpartition("-")[2]
    return int(text) if text.isdecimal() else 0


def generate(name: str, cluster: Cluster, seed: int, shape: Shape) -> Scenario:
    """Return a generated workload of a family in :data:`FAMILIES`."""
    rng = np.random.default_rng(seed)
    drawn = _draw(FAMILIES[name], rng, shape.jobs, shape.hours)
    return make_scenario(cluster, drawn, rng, shape, calibrated=name != "pollux")


def _maker(name: str) -> Callable[..., Scenario]:
    def make(
        cluster: Cluster, seed: int, data: Path | None, authors: bool = False, **settings: Any
    ) -> Scenario:
        if authors:
            return published(name, cluster, seed, data, settings)
        return generate(name, cluster, seed, Shape(**settings))

    return make


new_trace, spike = _maker("new-trace"), _maker("spike")


def _by_hour(
    count: int, rate: Sequence[float], rng: np.random.Generator, hours: float | None = None
) -> Floats:
    """Return ascending arrival times with a rate that is constant in each of several equal parts of the time.

    `rate`: the rate of each part, in any unit. `hours`: length of all parts together; default: an hour for
    each part. The times are in seconds.
    """
    weights = np.asarray(rate, float)
    part = (weights.size if hours is None else hours) * 3600.0 / weights.size
    counts = rng.multinomial(count, weights / weights.sum())
    start = np.repeat(np.arange(weights.size), counts) * part
    return np.sort(start + rng.uniform(0.0, part, count))


def in_scripts(
    count: int, rate: Sequence[float], rng: np.random.Generator, mean_run: float, hours: float | None = None
) -> tuple[Floats, Ints]:
    """Return ascending times of arrivals in runs, and the index of each job's run.

    `rate`: rate of runs, as in `_by_hour`. `mean_run`: mean number of jobs in a run, at least 1.
    `hours`: as in `_by_hour`. The times are in seconds; the last jobs of a run may arrive after the last
    hour.
    """
    runs = np.repeat(np.arange(count), rng.geometric(1.0 / mean_run, count))[:count]
    starts = _by_hour(int(runs[-1]) + 1 if count else 0, rate, rng, hours)
    rng.shuffle(starts)  # the last run is cut short, and should not always have the latest start
    steps = rng.exponential(_SCRIPT_SECONDS, count)
    first = np.diff(runs, prepend=-1) > 0
    since = np.cumsum(np.where(first, 0.0, steps))
    times = starts[runs] + since - since[first][runs]
    order = np.argsort(times, kind="stable")
    return times[order], runs[order]
