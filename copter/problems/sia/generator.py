"""Seeded generator of clusters, profiles and jobs with the distribution of the authors' PAI workloads.

The parameters are in generator.toml, from these sources; no file of the authors is needed:

- :data:`copter.problems.cluster.presets.PAI_GPU_TYPES`: the authors' cluster of 256 GPUs and 7 types, times a
  scale.  The authors replay 2,000 jobs per day on 512 GPUs, 10,000 on 2,560 and 40,000 on 10,240.
- `job_mix`: share of each application in the authors' three families of workloads (2k, 10k, 40k jobs),
  each family with equal weight; the workloads are sampled from Alibaba's PAI trace over 24 hours.
- `hourly`: arrivals by hour of the day relative to their mean, averaged over the families in the same way.
  `burstiness`: squared coefficient of variation of the arrival rate from minute to minute.  Within an hour,
  the ratio of variance to mean of the counts by minute is 1.9, 11 and 38 at 2k, 10k and 40k jobs per day,
  that is 1 plus 0.65, 1.5 and 1.3 times the mean.
- `training`: hours on one GPU of each type are those of the authors' measured profiles with their
  calibration; training jobs have no profile on two of the types.  Scaling and gradient noise are chosen so
  that the speedup at the start and at the end of training is close to that of the profiles.  Curves are
  analytic (:mod:`copter.problems.cluster.profiles.analytic`), over all configurations.
- `inference`, `single_phase`: throughput, work and scaling of the authors' batch inference and
  synthetic jobs, without their limits on the GPU count.

:func:`pai` is the trace of the authors' workloads for any cluster of their GPU types.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import PowerLawProfile, ReplicaProfile
from copter.problems.cluster.workload import JobSubmission, Kind, Scenario, read_workload
from copter.problems.reading import find
from copter.problems.sia.files import (
    SINGLE_PHASE_RESTART_SECONDS,
    profile_folder,
    read_cluster,
    read_profiles,
)

JOBS_PER_GPU_DAY = 2000 / 512
"""Jobs per day and GPU in the authors' workloads."""

_FIGURES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_JOB_MIX, _TRAINING, _INFERENCE = (_FIGURES[name] for name in ("job_mix", "training", "inference"))
_FOLDER = "suhasjs_continuous-scheduling"
_FAMILIES = {2_000: "2kjobs_24hrs_pai", 10_000: "10kjobs_24hrs_pai", 40_000: "40kjobs_24hrs_pai"}
"""Names of the folders of the authors' workloads, by jobs per day."""


def builtin_cluster(gpus: int) -> Cluster:
    """Return the authors' seven GPU types, scaled to about `gpus` GPUs."""
    if gpus < 1:
        raise ValueError(f"gpus = {gpus}: must be at least 1")
    return cluster_by_name(f"pai-{gpus}")


def builtin_profiles(work_scale: float = 1.0) -> dict[str, Profile]:
    """Return analytic profiles of the applications in `_JOB_MIX`, with `work_scale` times their work."""
    profiles: dict[str, Profile] = {}
    for name, (restart, hours, (most, ratios, share, exponents)) in _TRAINING["jobs"].items():
        speed = {type: 1.0 / time for type, time in zip(_TRAINING["types"], hours, strict=True)}
        scaling = Scaling(most, tuple(ratios), share, tuple(exponents))
        profiles[name] = TrainingProfile(name, restart, work_scale * 3600.0, speed, scaling)
    restart = SINGLE_PHASE_RESTART_SECONDS
    for name, (work, kind) in _INFERENCE.items():
        profiles[name] = ReplicaProfile(name, restart, work_scale * work, _FIGURES["replicas"][kind])
    single = _FIGURES["single_phase"]
    for name, (work, kind, exponent, saturation) in single["jobs"].items():
        speed = dict(zip(single["types"], single[kind], strict=True))
        profiles[name] = PowerLawProfile(name, restart, work_scale * work, speed, exponent, saturation)
    return profiles


def _arrival_times(count: int, hours: float, rng: np.random.Generator) -> Floats:
    """Return ascending arrival times, at a daily rate multiplied by random bursts of a minute each.

    `hours`: length of the interval, which begins at 0. The times are in seconds.
    """
    minutes = max(1, round(hours * 60))
    pattern = np.array(_FIGURES["hourly"])[np.arange(minutes) // 60 % 24]
    burstiness = _FIGURES["burstiness"]
    rate = pattern * rng.gamma(1.0 / burstiness, burstiness, minutes)
    counts = rng.multinomial(count, rate / rate.sum())
    start = np.repeat(np.arange(minutes), counts) * 60.0
    return np.sort(start + rng.uniform(0.0, 60.0, count))


def generate(
    gpus: int,
    jobs_per_day: float,
    *,
    hours: float = 24.0,
    seed: int = 0,
    strong_scaling: float = 0.0,
    rigid: float = 0.0,
    non_preemptible: float = 0.0,
) -> Scenario:
    """Return a cluster and a workload.

    `gpus`: approximate number of GPUs, because each type has whole nodes. `hours`: length of the workload.
    `strong_scaling`, `rigid`, `non_preemptible`: shares of the training jobs with these properties. Rigid
    jobs request 1, 2, 4 or 8 GPUs, with probabilities 0.5, 0.25, 0.15, 0.1.
    """
    if jobs_per_day < 0 or hours <= 0:
        raise ValueError(f"jobs_per_day = {jobs_per_day}, hours = {hours}: must be positive")
    if min(strong_scaling, rigid, non_preemptible) < 0 or strong_scaling + rigid > 1 or non_preemptible > 1:
        raise ValueError("shares of jobs must be in [0, 1], strong_scaling + rigid too")
    rng = np.random.default_rng(seed)
    times = _arrival_times(round(jobs_per_day * hours / 24.0), hours, rng)
    jobs = draw_jobs(times, rng, strong_scaling=strong_scaling, rigid=rigid, non_preemptible=non_preemptible)
    return Scenario(builtin_cluster(gpus), jobs, builtin_profiles())


def draw_jobs(
    times: Floats,
    rng: np.random.Generator,
    *,
    strong_scaling: float = 0.0,
    rigid: float = 0.0,
    non_preemptible: float = 0.0,
) -> list[JobSubmission]:
    """Return the jobs submitted at the given times, with the shares of `_JOB_MIX`.

    `times`: seconds. `strong_scaling`, `rigid`, `non_preemptible`: shares of the training jobs with these
    properties, see :func:`generate`.
    """
    shares = np.array(list(_JOB_MIX.values()))
    names: Sequence[str] = list(_JOB_MIX)
    picked = [names[k] for k in rng.choice(len(names), times.size, p=shares / shares.sum()).tolist()]
    uniform = rng.uniform(size=times.size)
    pinned = rng.uniform(size=times.size) < non_preemptible
    counts = rng.choice([1, 2, 4, 8], times.size, p=[0.5, 0.25, 0.15, 0.1])
    jobs = []
    for k, (time, application) in enumerate(zip(times.tolist(), picked, strict=True)):
        kind: Kind = "adaptive"
        gpus = None
        trains = application in _TRAINING["jobs"]
        if trains and uniform[k] < rigid:
            kind, gpus = "rigid", int(counts[k])
        elif trains and uniform[k] < rigid + strong_scaling:
            kind = "strong-scaling"
        stays = bool(trains and pinned[k])
        name = f"{application}-{k}"
        jobs.append(JobSubmission(name, time, _category(application), application, kind, gpus, not stays))
    return jobs


def _category(application: str) -> str:
    if application in _TRAINING["jobs"]:
        return "SiaJob"
    return "BatchInferenceJob" if application in _INFERENCE else "SyntheticSinglePhaseJob"


def read_scenario(workload: str | Path, profiles: str | Path, gpus: int | None = None) -> Scenario:
    """Return a workload file with the profiles of a folder, on the authors' cluster.

    `profiles`: folder for :mod:`copter.problems.sia.files`. `gpus`: approximate number of GPUs; default: the
    multiple of the authors' 256 GPUs that is nearest to their ratio of jobs to GPUs.
    """
    known = read_profiles(profiles)
    jobs = read_workload(workload, known)
    base = read_cluster(profiles)
    if gpus is None:
        gpus = base.gpus * max(1, round(len(jobs) / (JOBS_PER_GPU_DAY * base.gpus)))
    return Scenario(base.scaled(gpus / base.gpus), jobs, known)


def pai(
    cluster: Cluster, seed: int, data: Path | None, jobs: int | None = None, hours: float = 24.0
) -> Scenario:
    """Return a workload of the authors with about the given number of jobs, or generated jobs.

    `cluster`: cluster of the types of :data:`copter.problems.cluster.presets.PAI_GPU_TYPES`. `seed`: selects
    a file by its remainder modulo the number of files, or is the generator's seed. `jobs`: default: the
    authors' jobs per day and GPU. `hours`: length of the workload; later jobs of the files are left out.
    """
    count = round(JOBS_PER_GPU_DAY * cluster.gpus * hours / 24.0) if jobs is None else jobs
    nearest = min(_FAMILIES, key=lambda size: abs(size - count * 24.0 / hours))
    folder, workloads = find(data, _FOLDER), []
    if folder is not None:
        workloads = sorted((folder / "simulator/workloads" / _FAMILIES[nearest]).glob("workload-*.csv"))
    if folder is None or not workloads:
        rng = np.random.default_rng(seed)
        return Scenario(cluster, draw_jobs(_arrival_times(count, hours, rng), rng), builtin_profiles())
    profiles = read_profiles(profile_folder(folder))
    submitted = read_workload(workloads[seed % len(workloads)], profiles)
    return Scenario(cluster, [job for job in submitted if job.time < hours * 3600.0][:jobs], profiles)
