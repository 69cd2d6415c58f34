"""Sizes of a trace's jobs: their models, and the GPUs and batch sizes that their users request.

TunedJobs have the GPU count and batch size that an expert user would request (thesis 3.4.3, Pollux 5.2).
Let T(n, M) be the run time of a job on n GPUs at the fixed batch size M, and M(n) the batch size with the
least run time on n GPUs.  A GPU count is valid if

    1/2 <= T(1, M(1)) / (n T(n, M(n))) <= 4/5,

that is, if its speedup is 50 to 80% of the ideal speedup.  With a smaller share the job wastes GPUs, and with
a larger share it could use more GPUs well.  A job takes one of its valid pairs (n, M(n)) at random.

Details that the papers do not specify follow their published script and workloads.  n is even, M is a
doubling of the initial batch size, and the job completes within 12 hours.  Run times are those on the first
GPU type of the cluster that has a valid pair.  On the 64 GPUs of three types, this is T4, except for
imagenet, which takes more than 12 hours on 16 T4.  If there is no valid pair, the nearest pair on the first
type that can run the job is used.  If a job does not fit on one GPU, its speedup is relative to the smallest
count that can run it.

A trace of a production cluster has GPUs and run times, but not models.  The papers sort its jobs by total GPU
time, and assign a model of similar size:

==== ============= ================================== =============================
size GPU-hours     thesis, Table 3.2                  Pollux, Table 1
==== ============= ================================== =============================
S    0 to 1        ResNet-18 (cifar10)                ResNet-18, NeuMF (ncf)
M    1 to 10       BERT (bert), DeepSpeech2           DeepSpeech2, BERT in its artifact
L    10 to 100     YOLOv3 (yolov3)                    YOLOv3
XL   100 to 1000   ResNet-50 (imagenet)               ResNet-50
==== ============= ================================== =============================

Models of one size are equally likely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import JobSubmission

_RANGE = (0.5, 0.8)
"""Smallest and largest share of the ideal speedup of a valid GPU count."""
_MOST_GPUS = {True: 64, False: 16}
"""Largest GPU count, by whether the cluster is homogeneous (thesis section 3.4.3)."""
_MOST_HOURS = 12.0
"""Longest run time with a valid GPU count, in hours."""


SIA_MODELS: Mapping[str, tuple[str, ...]] = {
    "S": ("cifar10",),
    "M": ("bert", "deepspeech2"),
    "L": ("yolov3",),
    "XL": ("imagenet",),
}
POLLUX_MODELS: Mapping[str, tuple[str, ...]] = {**SIA_MODELS, "S": ("cifar10", "ncf")}
_REQUESTED: Mapping[str, Mapping[int, float]] = {
    "S": {1: 0.986, 2: 0.003, 4: 0.008, 8: 0.004},
    "M": {1: 0.955, 2: 0.002, 4: 0.020, 8: 0.020, 16: 0.002},
    "L": {1: 0.539, 2: 0.046, 4: 0.235, 8: 0.161, 16: 0.019},
    "XL": {8: 0.610, 16: 0.390},
}
"""Distribution of the GPUs that users of Microsoft's trace requested, by size; more than 16 count as 16.

Sizes L and XL count only jobs that ran for at most a day, as in the authors' script.  Otherwise an imagenet
job could get a single GPU, like a traced job that ran for months, and would train for weeks.
"""
_BOUNDS = {"S": 1.0, "M": 10.0, "L": 100.0, "XL": float("inf")}


class TunedJobs:
    """Assignment of tuned GPU counts and batch sizes to jobs, for a cluster.

    `most_gpus`: largest GPU count; default: `_MOST_GPUS`. `whole`: use only GPU counts of the cluster's
    configurations, which Sia can give to a rigid job; default: all even counts.
    """

    def __init__(self, cluster: Cluster, most_gpus: int | None = None, *, whole: bool = False) -> None:
        self.cluster, self.whole = cluster, whole
        self.most_gpus = _MOST_GPUS[len(cluster.types) == 1] if most_gpus is None else most_gpus
        self._choices: dict[int, tuple[Profile, list[tuple[int, int | None]]]] = {}

    def choices(self, profile: Profile) -> list[tuple[int, int | None]]:
        """Return the valid pairs of GPU count and batch size; only the nearest pair if none is valid.

        The result is empty if no GPU of the cluster can run the job. The batch size is None for profiles
        without batch sizes.
        """
        if id(profile) not in self._choices:
            self._choices[id(profile)] = (profile, self._search(profile))
        return self._choices[id(profile)][1]

    def tune(
        self, jobs: Sequence[JobSubmission], profiles: Mapping[str, Profile], rng: np.random.Generator
    ) -> list[JobSubmission]:
        """Return the jobs with ``tuned_gpus`` and ``batch_size``; jobs with a GPU count are unchanged."""
        tuned = []
        for job in jobs:
            choices = self.choices(profiles[job.application])
            pick = float(rng.random())
            if choices and job.gpus is None and job.tuned_gpus is None:
                gpus, batch = choices[int(pick * len(choices))]
                batch = batch if job.batch_size is None else job.batch_size
                job = replace(job, tuned_gpus=gpus, batch_size=batch)
            tuned.append(job)
        return tuned

    def _search(self, profile: Profile) -> list[tuple[int, int | None]]:
        nearest: list[tuple[int, int | None]] = []
        for type in self.cluster.types:
            found = self._fastest(profile, type)
            if not found:
                continue
            unit = min(found)
            shares = {n: unit * found[unit][0] / (n * seconds) for n, (seconds, _) in found.items()}
            low, high = _RANGE
            valid = [
                (gpus, found[gpus][1])
                for gpus, share in shares.items()
                if low <= share <= high and found[gpus][0] <= _MOST_HOURS * 3600.0
            ]
            if valid:
                return valid
            distance = {gpus: max(low - share, share - high) for gpus, share in shares.items()}
            best = min(shares, key=distance.__getitem__)
            nearest = nearest or [(best, found[best][1])]
        return nearest

    def _fastest(self, profile: Profile, type: GpuType) -> dict[int, tuple[float, int | None]]:
        """Return the least run time in seconds, and the batch size that attains it, by GPU count."""
        most = min(self.most_gpus, type.gpus)
        if self.whole:
            entries = self.cluster.configurations
            counts = sorted({one.gpus for one in entries if one.type == type.name and one.gpus <= most})
        else:
            counts = [1, *range(2, most + 1, 2)]
        found: dict[int, tuple[float, int | None]] = {}
        for gpus in counts:
            for batch in _batch_sizes(profile):
                clock = profile.at_fixed_batch(batch).clock(self.cluster.packed(type.name, gpus))
                if clock[-1] < found.get(gpus, (math.inf, None))[0]:
                    found[gpus] = (float(clock[-1]), batch)
        return found


def _batch_sizes(profile: Profile) -> list[int | None]:
    """Return the initial batch size and its doublings below the largest one, and the largest one."""
    if profile.batch_range is None:
        return [None]
    size, largest = profile.batch_range
    sizes: list[int | None] = []
    while size < largest:
        sizes.append(size)
        size *= 2
    return [*sizes, largest]


def requested(
    jobs: Sequence[JobSubmission], profiles: Mapping[str, Profile], rng: np.random.Generator
) -> list[JobSubmission]:
    """Return the jobs with GPUs distributed as in Microsoft's trace, and the initial batch size on each GPU.

    `jobs`: jobs whose models are in :data:`SIA_MODELS` or :data:`POLLUX_MODELS`. `profiles`: profile by
    application.
    """
    asked = []
    for job in jobs:
        shares = _REQUESTED[_size_of_model(job.application)]
        weights = np.array(list(shares.values()))
        gpus = list(shares)[int(rng.choice(weights.size, p=weights / weights.sum()))]
        span = profiles[job.application].batch_range
        batch = None if span is None else min(span[0] * gpus, span[1])
        asked.append(replace(job, tuned_gpus=gpus, batch_size=batch))
    return asked


def constrained(
    jobs: Sequence[JobSubmission], rng: np.random.Generator, strong_scaling: float = 0.0, rigid: float = 0.0
) -> list[JobSubmission]:
    """Return the jobs, some of them restricted in what policies may adapt (thesis section 3.5.8).

    `jobs`: tuned jobs. A strong-scaling job keeps its batch size; a rigid job also keeps its GPU count.
    `strong_scaling`, `rigid`: shares of the jobs.
    """
    if min(strong_scaling, rigid) < 0 or strong_scaling + rigid > 1:
        shares = f"strong_scaling = {strong_scaling}, rigid = {rigid}"
        raise ValueError(f"{shares}: each must be at least 0, and their sum at most 1")
    changed = []
    for job, pick in zip(jobs, rng.random(len(jobs)).tolist(), strict=True):
        if pick < rigid:
            job = replace(job, kind="rigid", gpus=job.tuned_gpus or 1)
        elif pick < rigid + strong_scaling:
            job = replace(job, kind="strong-scaling")
        changed.append(job)
    return changed


def size_of(gpu_hours: float) -> str:
    """Return the size class of a job by its total GPU time."""
    return next(size for size, bound in _BOUNDS.items() if gpu_hours < bound)


def _size_of_model(model: str) -> str:
    """Return the size class to which a model is assigned."""
    return next(size for size, models in POLLUX_MODELS.items() if model in models)


def draw_model(size: str, models: Mapping[str, tuple[str, ...]], rng: np.random.Generator) -> str:
    """Return a random model of a size class."""
    return models[size][int(rng.integers(len(models[size])))]
