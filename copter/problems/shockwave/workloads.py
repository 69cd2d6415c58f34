"""Jobs of Shockwave's traces for the simulator: rigid jobs whose speed changes with their regimes.

A job makes one unit of progress per epoch.  Level k of its profile is its k-th regime.  Its rate is 1 /
(seconds per epoch) on the job's own number of GPUs, for any types and nodes.  The rate is 0 on any other
number of GPUs, for which traces have no data.

Source: Shockwave, sections 5 and 8.1.

:func:`shockwave` returns the workloads as a trace for any cluster: the authors' workloads if the files exist,
else generated workloads.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from pathlib import Path

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Cluster, Configurations, GpuType
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Scenario
from copter.problems.reading import find
from copter.problems.shockwave.generator import ARRIVAL_SECONDS, SIZE_MIX, generate
from copter.problems.shockwave.traces import RegimeJob, read_jobs

RESTART_SECONDS = 20.0
"""Seconds of dispatch and loading of a checkpoint in the authors' simulator."""
_GPU, _GPUS_PER_NODE = "rtx5000", 4
"""GPU type and GPUs per node of the authors' cluster (section 8.1)."""


_FOLDER = "uw-mad-dash_shockwave/derived_job_epochs"
_JOBS = {32: 120, 64: 220, 128: 460, 256: 900}
"""Numbers of jobs in the authors' workloads, by GPUs of the cluster (section 8.1)."""


class RegimeProfile(Profile):
    """Profile of a job with regimes on its own number of GPUs."""

    def __init__(self, job: RegimeJob, restart_seconds: float = RESTART_SECONDS) -> None:
        super().__init__(job.name, restart_seconds, job.epochs_by_regime[1:])
        self.job = job
        self._rates = np.array([1.0 / regime.epoch_seconds for regime in job.regimes])

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        return np.outer(shapes.gpus == self.job.gpus, self._rates[levels])

    def steps(self, level: int) -> float:
        """Return the training steps per epoch: samples divided by the batch size."""
        return self.job.samples / self.job.regimes[level].batch_size


def _cluster_of(gpus: int) -> Cluster:
    """Return a cluster with a number of GPUs of one type, four per node if this divides the number."""
    if gpus < 1:
        raise ValueError(f"gpus = {gpus}: must be at least 1")
    size = gcd(gpus, _GPUS_PER_NODE)
    return Cluster([GpuType(_GPU, size, gpus // size)])


def scenario_of(jobs: Iterable[RegimeJob], gpus: int) -> Scenario:
    """Return the scenario in which the simulator replays a trace."""
    listed = list(jobs)
    profiles: dict[str, Profile] = {job.name: RegimeProfile(job) for job in listed}
    return Scenario(_cluster_of(gpus), [job.submission for job in listed], profiles)


def shockwave(
    cluster: Cluster,
    seed: int,
    data: Path | None,
    jobs: int | None = None,
    arrival_seconds: float | None = None,
    sizes: bool = False,
) -> Scenario:
    """Return the jobs of the authors' workload for a cluster of this size, or generated jobs.

    `seed`: seed of generated jobs; the authors published one workload for each size of the cluster. `data`:
    folder of the authors' files.  A file is used if it has this number of jobs, and if `arrival_seconds` and
    `sizes` are the defaults. `jobs`: number of jobs; default: the authors' number for the nearest size of
    cluster. `arrival_seconds`: mean seconds between two arrivals; default: the authors' for the nearest size.
    `sizes`: whether sizes by GPU-hours are as in the text of the paper (:data:`.generator.SIZE_MIX`).
    """
    nearest = min(_JOBS, key=lambda gpus: abs(gpus - cluster.gpus))
    count = _JOBS[nearest] if jobs is None else jobs
    folder = find(data, _FOLDER)
    files = [] if folder is None else sorted(folder.glob(f"{count}_*.json"))
    if files and arrival_seconds is None and not sizes:
        drawn = read_jobs(files[0])
    else:
        seconds = ARRIVAL_SECONDS[nearest] if arrival_seconds is None else arrival_seconds
        mix = SIZE_MIX if sizes else None
        drawn = generate(count, seed=seed, arrival_seconds=seconds, size_mix=mix)
    profiles: dict[str, Profile] = {job.name: RegimeProfile(job) for job in drawn}
    return Scenario(cluster, [job.submission for job in drawn], profiles)
