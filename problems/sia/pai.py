"""PAI: the workloads of the thesis' chapter 4 as a trace for any cluster of their GPU types."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.workload import Scenario, read_workload
from copter.problems.reading import find
from copter.problems.sia.files import profile_folder, read_profiles
from copter.problems.sia.generator import JOBS_PER_GPU_DAY, arrival_times, builtin_profiles, draw_jobs

FOLDER = "suhasjs_continuous-scheduling"
FAMILIES = {2_000: "2kjobs_24hrs_pai", 10_000: "10kjobs_24hrs_pai", 40_000: "40kjobs_24hrs_pai"}
"""Folders of the authors' workloads by jobs a day."""


def pai(
    cluster: Cluster, seed: int, data: Path | None, jobs: int | None = None, hours: float = 24.0
) -> Scenario:
    """A workload of the authors with as many jobs, or jobs like theirs.

    Parameters
    ----------
    cluster : Cluster
        Of the types of :data:`.presets.PAI_GPU_TYPES`.
    seed : int
        With files, the workload with the number 1 + seed, modulo how many there are.
    jobs : int, optional
        By default the authors' jobs a day and GPU.
    hours : float
        Length of the workload; jobs of the files that come later are left out.
    """
    count = round(JOBS_PER_GPU_DAY * cluster.gpus * hours / 24.0) if jobs is None else jobs
    nearest = min(FAMILIES, key=lambda size: abs(size - count * 24.0 / hours))
    folder, workloads = find(data, FOLDER), []
    if folder is not None:
        workloads = sorted((folder / "simulator/workloads" / FAMILIES[nearest]).glob("workload-*.csv"))
    if folder is None or not workloads:
        rng = np.random.default_rng(seed)
        return Scenario(cluster, draw_jobs(arrival_times(count, hours, rng), rng), builtin_profiles())
    profiles = read_profiles(profile_folder(folder))
    submitted = read_workload(workloads[seed % len(workloads)], profiles)
    return Scenario(cluster, [job for job in submitted if job.time < hours * 3600.0][:jobs], profiles)
