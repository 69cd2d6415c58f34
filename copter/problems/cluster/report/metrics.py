"""Metrics of a simulation, and their means over seeds.

Times begin at submissions.  The completion time of a job (JCT) ends with its completion.  The makespan is
from the first submission to the last completion.  Queueing is the time without GPUs.  Restarts do not include
first starts. Utilisation is GPU time held divided by GPU time available, including hours without jobs. Busy
utilisation does not count the GPU time of restarts as held.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import t as student

from copter.arrays import Floats
from copter.problems.cluster.report.fairness import Alone, fairness_figures, finish_time_fairness, first_waits
from copter.problems.cluster.results import ClusterRecord, JobRecord, Segment
from copter.problems.cluster.workload import Scenario

_HOUR = 3600.0


def summarise(
    scenario: Scenario,
    jobs: Sequence[JobRecord],
    rounds: Sequence[ClusterRecord],
    segments: Sequence[Segment],
) -> dict[str, float]:
    """Return the metrics of a simulation, by name; an undefined metric is NaN.

    `jobs`: all jobs that entered; averages are over completed jobs. The names are
    average_jct_hours, p50_jct_hours, p95_jct_hours, p99_jct_hours, makespan_hours; average_queue_hours;
    gpu_hours_per_job, restarts_per_job; utilisation, busy_utilisation; average_contention and max_contention,
    the number of jobs in the cluster; worst_ftf and unfair_fraction by the printed definition (3.6),
    worst_ftf_authors and unfair_fraction_authors by the authors' script (see :mod:`.fairness`);
    evictions_per_round, jobs moved or left without a place; policy_p50_s, policy_p95_s, policy_p99_s,
    policy_max_s; rounds, jobs_completed, jobs_submitted.
    """
    done = [job for job in jobs if not math.isnan(job.finished)]
    jct = np.array([job.jct for job in done]) / _HOUR
    held = np.array([one.end - one.begin for one in segments])
    gpus = np.array([one.gpus for one in segments], np.float64)
    idle = np.array([one.restart_seconds for one in segments])
    names = {job.name for job in done}
    ran = float(sum(one.end - one.begin for one in segments if one.job in names)) / _HOUR
    there = _gpu_seconds(jobs, rounds)
    policy = np.array([one.policy_seconds for one in rounds])
    length = np.array([one.seconds for one in rounds])
    present = np.array([one.jobs for one in rounds], np.float64)
    figures = {
        "average_jct_hours": _mean(jct),
        "p50_jct_hours": _quantile(jct, 0.5),
        "p95_jct_hours": _quantile(jct, 0.95),
        "p99_jct_hours": _quantile(jct, 0.99),
        "makespan_hours": _span(jobs, done) / _HOUR,
        "average_queue_hours": (float(jct.sum()) - ran) / jct.size if jct.size else math.nan,
        "gpu_hours_per_job": _mean(np.array([job.gpu_seconds for job in done])) / _HOUR,
        "restarts_per_job": _mean(np.array([job.restarts for job in done], np.float64)),
        "utilisation": float(gpus @ held) / there if there else math.nan,
        "busy_utilisation": float(gpus @ (held - idle)) / there if there else math.nan,
        "average_contention": _weighted(present, length),
        "max_contention": float(present.max()) if present.size else math.nan,
    }
    alone = Alone(scenario, jobs)
    waits = first_waits(jobs, rounds)
    figures |= fairness_figures(finish_time_fairness(scenario, jobs, waits=waits, alone=alone))
    other = finish_time_fairness(scenario, jobs, "authors", waits=waits, alone=alone)
    figures |= {f"{name}_authors": value for name, value in fairness_figures(other).items()}
    lost = np.array([one.evicted + one.moved for one in rounds], np.float64)
    return figures | {
        "evictions_per_round": _mean(lost),
        "policy_p50_s": _quantile(policy, 0.5),
        "policy_p95_s": _quantile(policy, 0.95),
        "policy_p99_s": _quantile(policy, 0.99),
        "policy_max_s": float(policy.max()) if policy.size else math.nan,
        "rounds": len(rounds),
        "jobs_completed": len(done),
        "jobs_submitted": len(jobs),
    }


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else math.nan


def _quantile(values: Floats, share: float) -> float:
    return float(np.quantile(values, share)) if values.size else math.nan


def _weighted(values: Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float(values @ weights) / total if total > 0 else math.nan


def _span(jobs: Sequence[JobRecord], done: Sequence[JobRecord]) -> float:
    """Return the seconds from the first submission to the last completion."""
    if not done:
        return math.nan
    return max(job.finished for job in done) - min(job.submitted for job in jobs)


def _gpu_seconds(jobs: Sequence[JobRecord], rounds: Sequence[ClusterRecord]) -> float:
    """Return the GPU time available from the first submission to the last completion or end of a round."""
    if not jobs or not rounds:
        return 0.0
    end = max((job.finished for job in jobs if not math.isnan(job.finished)), default=0.0)
    if any(math.isnan(job.finished) for job in jobs):
        end = rounds[-1].time + rounds[-1].seconds
    times = np.array([min(job.submitted for job in jobs), *(one.time for one in rounds[1:]), end])
    there = np.array([sum(one.there.values()) for one in rounds], np.float64)
    return float(there @ np.maximum(np.diff(times), 0.0))


def gpu_hours(jobs: Sequence[JobRecord], segments: Sequence[Segment]) -> dict[tuple[str, str], float]:
    """Return the GPU hours per job, with restarts, by application and GPU type (thesis Figure 3.5)."""
    application = {job.name: job.application for job in jobs}
    count: dict[str, int] = {}
    for job in jobs:
        count[job.application] = count.get(job.application, 0) + 1
    total: dict[tuple[str, str], float] = {}
    for one in segments:
        key = (application[one.job], one.type)
        total[key] = total.get(key, 0.0) + one.gpus * (one.end - one.begin) / _HOUR
    return {key: total[key] / count[key[0]] for key in sorted(total)}


def over_seeds(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the means and standard deviations over simulations with different seeds.

    `samples`: metrics by name, for each seed; the names are those of the first sample. The result has
    ``name`` and ``name_std`` for each metric; the latter is NaN for one sample.
    """
    out: dict[str, float] = {}
    for name in samples[0]:
        values = np.array([one.get(name, math.nan) for one in samples], np.float64)
        out[name] = float(values.mean())
        out[f"{name}_std"] = float(values.std(ddof=1)) if values.size > 1 else math.nan
    return out


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% confidence interval of a mean over seeds (Student's t); NaN for a single value."""
    sample = np.array(values, np.float64)
    if sample.size < 2:
        return math.nan, math.nan
    half = student.ppf(0.975, sample.size - 1) * sample.std(ddof=1) / math.sqrt(sample.size)
    return float(sample.mean() - half), float(sample.mean() + half)
