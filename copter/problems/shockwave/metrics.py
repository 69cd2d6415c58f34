"""Metrics of a schedule, as the authors compute them.

Finish time fairness of a job is the time from its arrival to its completion, divided by the product of its
run time alone and the contention (section 2.1: t_schedule / (t_exclusive N), with N jobs sharing the
cluster).  Two definitions of contention are in use, both at least 1:

- number of jobs of the whole trace / number of GPUs: the figures of the paper and
  ``finish_time_fairness_list`` of the authors' results; the default in this module;
- number of jobs present / number of GPUs, a mean over the rounds of the job's stay:
  ``finish_time_fairness_themis_list``.

A job is unfairly scheduled if its finish time fairness is above 1 (section 8.2).  The authors' script that
aggregates results uses the limit 1.05, "due to the noisy nature of throughputs".  Utilisation is the GPU time
of running jobs, without restarts, divided by all GPU time from the first arrival to the last completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from copter.problems.reading import JsonObject, read_json
from copter.problems.shockwave.traces import RegimeJob

_TOLERANT_FTF = 1.05
"""Limit above which the authors' script counts a job as unfairly scheduled."""


@dataclass(frozen=True)
class JobResult:
    """Outcome of a job, replayed or published; times in seconds.

    The outcome of a replayed job is computed from a :class:`~copter.problems.cluster.results.JobRecord`; the
    authors publish less than such a record.

    `exclusive_seconds`: run time alone on its GPUs. `starts`: number of starts and restarts. `ftf`: finish
    time fairness with the contention of the whole trace. `ftf_live`: finish time fairness with the mean
    contention during the job's stay.
    """

    name: str
    gpus: int
    arrival: float
    finished: float
    exclusive_seconds: float
    starts: int
    ftf: float
    ftf_live: float

    @property
    def jct(self) -> float:
        """Seconds from arrival to completion."""
        return self.finished - self.arrival


@dataclass(frozen=True)
class MarketMetrics:
    """Metrics of a schedule; all zero without jobs.

    Attributes
    ----------
    makespan : float
        Seconds from the first arrival to the last completion.
    average_jct : float
        Mean seconds from arrival to completion.
    worst_ftf : float
        Largest finish time fairness of a job.
    unfair_fraction : float
        Share of the jobs with finish time fairness above 1.
    unfair_fraction_tolerant : float
        Share of the jobs with finish time fairness above 1.05.
    utilisation : float
        GPU time of running jobs divided by all GPU time.
    """

    makespan: float
    average_jct: float
    worst_ftf: float
    unfair_fraction: float
    unfair_fraction_tolerant: float
    utilisation: float

    @classmethod
    def of(cls, jobs: Sequence[JobResult], gpus: int, start: float = 0.0) -> MarketMetrics:
        """Return the metrics of jobs on a cluster.

        Parameters
        ----------
        jobs : sequence of JobResult
            Outcomes of the jobs.
        gpus : int
            Number of GPUs of the cluster.
        start : float
            Time of the first arrival in seconds.
        """
        if not jobs:
            return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        ftf = np.array([job.ftf for job in jobs])
        makespan = max(job.finished for job in jobs) - start
        used = sum(job.gpus * job.exclusive_seconds for job in jobs)
        return cls(
            makespan=makespan,
            average_jct=float(np.mean([job.jct for job in jobs])),
            worst_ftf=float(ftf.max()),
            unfair_fraction=float(np.mean(ftf > 1.0)),
            unfair_fraction_tolerant=float(np.mean(ftf > _TOLERANT_FTF)),
            utilisation=used / (gpus * makespan),
        )


@dataclass(frozen=True)
class PublishedResult:
    """A published result of the authors.

    `jobs`: completion times and fairness as published; ``starts`` is 0, because it is unknown. `metrics`:
    makespan, average JCT and utilisation as published, fairness from the published list of jobs.
    """

    policy: str
    jobs: tuple[JobResult, ...]
    metrics: MarketMetrics


def read_published(path: str | Path, trace: Sequence[RegimeJob]) -> PublishedResult:
    """Read a file of the authors' ``results_json`` for a trace, whose jobs are in order of arrival."""
    content = JsonObject(path, read_json(path))
    jct, ftf, live = (
        content.numbers(name, len(trace))
        for name in ("jct_list", "finish_time_fairness_list", "finish_time_fairness_themis_list")
    )
    jobs = tuple(
        JobResult(job.name, job.gpus, job.arrival, job.arrival + jct[k], job.seconds, 0, ftf[k], live[k])
        for k, job in enumerate(trace)
    )
    unfair = np.array(ftf)
    single = {name: content.get(name, float) for name in ("makespan", "avg_jct", "cluster_util")}
    metrics = MarketMetrics(
        single["makespan"],
        single["avg_jct"],
        float(unfair.max(initial=0.0)),
        float(np.mean(unfair > 1.0)),
        float(np.mean(unfair > _TOLERANT_FTF)),
        single["cluster_util"],
    )
    return PublishedResult(str(content.fields.get("policy", Path(path).stem)), jobs, metrics)
