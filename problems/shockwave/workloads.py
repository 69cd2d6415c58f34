"""Shockwave's workloads as a trace for any cluster: the authors' own where the files are, or generated."""

from __future__ import annotations

from pathlib import Path

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Scenario
from copter.problems.reading import find
from copter.problems.shockwave.generator import ARRIVAL_SECONDS, SIZE_MIX, generate
from copter.problems.shockwave.profiles import RegimeProfile, submission_of
from copter.problems.shockwave.traces import read_jobs

FOLDER = "uw-mad-dash_shockwave/derived_job_epochs"
JOBS = {32: 120, 64: 220, 128: 460, 256: 900}
"""Jobs of the authors' workloads by GPUs of the cluster (section 8.1)."""


def shockwave(
    cluster: Cluster,
    seed: int,
    data: Path | None,
    jobs: int | None = None,
    arrival_seconds: float | None = None,
    sizes: bool = False,
) -> Scenario:
    """Jobs of the authors' workload for a cluster of this size, or generated ones.

    Parameters
    ----------
    seed : int
        Of generated jobs; the authors publish one workload for each size of the cluster.
    data : Path or None
        Its files are taken for the number of jobs, the rate and the sizes that the authors have.
    jobs : int, optional
        By default the authors' number for the nearest size of cluster.
    arrival_seconds : float, optional
        Mean seconds between two arrivals; by default the authors' for the nearest size.
    sizes : bool
        Sizes by GPU-hours as the text of the paper has them, :data:`.generator.SIZE_MIX`.
    """
    nearest = min(JOBS, key=lambda gpus: abs(gpus - cluster.gpus))
    count = JOBS[nearest] if jobs is None else jobs
    folder = find(data, FOLDER)
    files = [] if folder is None else sorted(folder.glob(f"{count}_*.json"))
    if files and arrival_seconds is None and not sizes:
        drawn = read_jobs(files[0])
    else:
        seconds = ARRIVAL_SECONDS[nearest] if arrival_seconds is None else arrival_seconds
        mix = SIZE_MIX if sizes else None
        drawn = generate(count, seed=seed, arrival_seconds=seconds, size_mix=mix)
    profiles: dict[str, Profile] = {job.name: RegimeProfile(job) for job in drawn}
    return Scenario(cluster, [submission_of(job) for job in drawn], profiles)
