"""Philly's virtual clusters as in AFS: every job trains one of nine models, on a cluster of 64 GPUs.

A trace has the time of submission, run time in seconds and number of GPUs of each job.  As in the paper, each
job trains a random model among those that scale to the requested GPUs.  Its work is chosen so that it runs
for its traced time on these GPUs.  The jobs of all virtual clusters run on the paper's 16 nodes of 4 GPUs
(section 5.1).  On Philly's own clusters, whose sizes are in Table 3, there would be no queues.

The public file, which the authors of Pollux distribute, has fewer jobs than the paper's Table 3: 41,226 of
51,288 of virtual cluster 6214e9, and 82,229 of 109,861 in total.  If a job requests more GPUs than any model
can use, its request becomes the largest number that a model can use.

Source: AFS, section 5.1 and appendix F; Philly (Jeon et al., ATC 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from copter.arrays import Floats
from copter.errors import InputError
from copter.problems.afs.models import ModelCurve, stand_ins
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.presets import VIRTUAL_CLUSTERS
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.traces.families import in_scripts
from copter.problems.cluster.traces.philly import FILE, TracedJob, philly_jobs
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.reading import find

_RESIZE_SECONDS = 0.004
"""Seconds without progress at a change of GPUs (section 4.3)."""


def testbed() -> Cluster:
    """Return the cluster of the paper: 16 nodes of 4 GPUs."""
    return Cluster([GpuType("gtx1080", 4, 16)])


def read_virtual_cluster(data: str | Path, name: str) -> list[TracedJob]:
    """Return the jobs of one of Philly's virtual clusters, by time of submission, which begins at 0.

    Jobs with run time 0 are omitted.

    `data`: folder of real traces. `name`: such as "6214e9", or the cluster's number in Table 3, such as "5".
    """
    path = find(Path(data), FILE, "philly.csv")
    if path is None:
        raise InputError(Path(data) / FILE, "file", "does not exist")
    if name.isdecimal() and 1 <= int(name) <= len(VIRTUAL_CLUSTERS):
        name = list(VIRTUAL_CLUSTERS)[int(name) - 1]
    jobs = [job for job in philly_jobs(path) if job.tenant == name and job.seconds > 0]
    if not jobs:
        raise InputError(path, "cluster", f"{name!r}: must be one of {', '.join(VIRTUAL_CLUSTERS)}")
    return [replace(job, time=job.time - jobs[0].time) for job in jobs]


def _generate_virtual_cluster(
    rng: np.random.Generator, *, jobs: int = 400, gpu_load: float = 0.6, mean_burst: float = 4.0
) -> list[TracedJob]:
    """Return jobs like those of a virtual cluster: heavy-tailed times, few GPUs, arrivals in bursts.

    `gpu_load`: requested GPU-seconds, divided by the GPU-seconds of the testbed until the last arrival.
    `mean_burst`: mean number of jobs that one script submits, a minute apart (sweeps of parameters). Jobs are
    in order of submission.
    """
    if jobs < 1 or not gpu_load > 0 or not mean_burst >= 1:
        wrong = f"jobs = {jobs}, gpu_load = {gpu_load}, mean_burst = {mean_burst}"
        raise ValueError(f"{wrong}: jobs and mean_burst must be at least 1, gpu_load positive")
    # As in the public file: median 0.6 h, mean 3.3 h, at most 30 days; GPUs of traces 1 and 7.
    seconds = np.minimum(rng.lognormal(math.log(2000.0), 1.9, jobs), 30 * 86400.0)
    gpus = rng.choice([1, 2, 4, 8, 16], jobs, p=[0.78, 0.06, 0.1, 0.05, 0.01])
    span = float((seconds * gpus).sum()) / (testbed().gpus * gpu_load)
    times, _ = in_scripts(jobs, (1.0,), rng, mean_burst, span / 3600.0)
    return [
        TracedJob(time, length, count, "generated")
        for time, length, count in zip(
            (times - times[0]).tolist(), seconds.tolist(), gpus.tolist(), strict=True
        )
    ]


def make_scenario(
    trace: Sequence[TracedJob],
    cluster: Cluster,
    curves: Sequence[ModelCurve],
    rng: np.random.Generator,
    *,
    restart_seconds: float = _RESIZE_SECONDS,
) -> Scenario:
    """Return jobs that train random models, with the work of a trace.

    Each job has a profile with its own work; its category is the model.

    `cluster`: the curves apply to each of its types. `restart_seconds`: time of each change of GPUs.
    """
    configurations = cluster.configurations
    pieces = [curve.on(configurations.gpus) for curve in curves]
    largest = max(curve.best for curve in pieces)
    requests = np.unique(np.concatenate([curve.counts for curve in pieces]))
    jobs: list[JobSubmission] = []
    profiles: dict[str, Profile] = {}
    for index, job in enumerate(trace):
        asked = int(requests[np.searchsorted(requests, min(job.gpus, largest))])
        able = [curve for curve in pieces if curve.best >= asked]
        curve = able[int(rng.integers(len(able)))]
        name = f"{curve.name} {index}"
        work = job.seconds * float(np.interp(asked, curve.counts, curve.speedup))
        speeds: dict[str, Floats] = {type: curve.speedup for type in cluster.names}
        profiles[name] = CountProfile(name, restart_seconds, work, curve.counts, speeds)
        asked = int(curve.counts[np.searchsorted(curve.counts, asked)])
        jobs.append(
            JobSubmission(f"job-{index}", job.time, curve.name, name, kind="strong-scaling", tuned_gpus=asked)
        )
    return Scenario(cluster, jobs, profiles)


def virtual_cluster(
    cluster: Cluster,
    seed: int = 0,
    data: Path | None = None,
    *,
    vc: str = "7",
    jobs: int | None = None,
    gpu_load: float = 0.9,
) -> Scenario:
    """Return the jobs of one of Philly's virtual clusters; without `data`, of a generated trace.

    `seed`: seed of the random models, and of a generated trace. `data`: folder of real traces. `vc`: virtual
    cluster, by name or number. `jobs`: number of jobs to use from the first one on, or to generate.
    `gpu_load`: load of a generated trace, as in `_generate_virtual_cluster`.
    """
    rng = np.random.default_rng(seed)
    if data is None:
        trace = _generate_virtual_cluster(rng, jobs=400 if jobs is None else jobs, gpu_load=gpu_load)
    else:
        trace = read_virtual_cluster(data, vc)[:jobs]
    return make_scenario(trace, cluster, stand_ins(), rng)
