"""Figures of a simulation, and of several with different seeds.

Times are measured from submissions: the completion time of a job (JCT) ends with its completion, the makespan
lasts from the first submission to the last completion, queueing is the time without GPUs.  Restarts do not
count first starts.  Utilisation is GPU time held over GPU time there, hours without jobs included; the busy
one leaves restarts out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from copter.problems.cluster.fairness import Alone, fairness_figures, finish_time_fairness, first_waits
from copter.problems.cluster.indices import indices, statistical_efficiency
from copter.problems.cluster.results import JobRecord, RoundRecord, Segment
from copter.problems.cluster.scenario import Scenario

Interval: TypeAlias = Literal["t", "bootstrap"]
HOUR = 3600.0


def summarise(
    scenario: Scenario,
    jobs: Sequence[JobRecord],
    rounds: Sequence[RoundRecord],
    segments: Sequence[Segment],
) -> dict[str, float]:
    """Figures of a simulation; NaN for what it does not have.

    Parameters
    ----------
    jobs : sequence of JobRecord
        All that entered, complete or not; averages are over those that are complete.
    rounds : sequence of RoundRecord
    segments : sequence of Segment

    Returns
    -------
    dict of str to float
        average_jct_hours, p50_jct_hours, p95_jct_hours, p99_jct_hours, makespan_hours; average_queue_hours;
        gpu_hours_per_job, restarts_per_job; utilisation, busy_utilisation; average_contention and
        max_contention, jobs in the cluster; worst_ftf and unfair_fraction by the printed reading of
        (3.6), worst_ftf_authors and unfair_fraction_authors by the authors' own (see :mod:`.fairness`);
        queue_length, cluster_efficiency and blocking_index over time, and statistical_efficiency of GPUs that
        train (see :mod:`.indices`); evictions_per_round, of jobs
        moved or left without a place; policy_p50_s, policy_p95_s, policy_p99_s, policy_max_s, seconds;
        rounds, jobs_completed, jobs_submitted.
    """
    done = [job for job in jobs if not math.isnan(job.finished)]
    jct = np.array([job.jct for job in done]) / HOUR
    held = np.array([one.end - one.begin for one in segments])
    gpus = np.array([one.gpus for one in segments], np.float64)
    idle = np.array([one.restart_seconds for one in segments])
    names = {job.name for job in done}
    ran = float(sum(one.end - one.begin for one in segments if one.job in names)) / HOUR
    there = _gpu_seconds(jobs, rounds)
    policy = np.array([one.policy_seconds for one in rounds])
    length = np.array([one.seconds for one in rounds])
    present = np.array([one.jobs for one in rounds], np.float64)
    figures = {
        "average_jct_hours": _mean(jct),
        "p50_jct_hours": _quantile(jct, 0.5),
        "p95_jct_hours": _quantile(jct, 0.95),
        "p99_jct_hours": _quantile(jct, 0.99),
        "makespan_hours": _span(jobs, done) / HOUR,
        "average_queue_hours": (float(jct.sum()) - ran) / jct.size if jct.size else math.nan,
        "gpu_hours_per_job": _mean(np.array([job.gpu_seconds for job in done])) / HOUR,
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
    over_time = indices(scenario, jobs, rounds, segments, alone)
    for name in ("queue_length", "cluster_efficiency", "blocking_index"):
        figures[name] = _weighted(getattr(over_time, name), length)
    figures["statistical_efficiency"] = statistical_efficiency(scenario, jobs, segments, alone)
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


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def _quantile(values: NDArray[np.float64], share: float) -> float:
    return float(np.quantile(values, share)) if values.size else math.nan


def _weighted(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    total = float(weights.sum())
    return float(values @ weights) / total if total > 0 else math.nan


def _span(jobs: Sequence[JobRecord], done: Sequence[JobRecord]) -> float:
    """Seconds from the first submission to the last completion."""
    if not done:
        return math.nan
    return max(job.finished for job in done) - min(job.submitted for job in jobs)


def _gpu_seconds(jobs: Sequence[JobRecord], rounds: Sequence[RoundRecord]) -> float:
    """GPU time of the cluster from the first submission to the end of its last job, or of the last round."""
    if not jobs or not rounds:
        return 0.0
    end = max((job.finished for job in jobs if not math.isnan(job.finished)), default=0.0)
    if any(math.isnan(job.finished) for job in jobs):
        end = rounds[-1].time + rounds[-1].seconds
    times = np.array([min(job.submitted for job in jobs), *(one.time for one in rounds[1:]), end])
    there = np.array([sum(one.there.values()) for one in rounds], np.float64)
    return float(there @ np.maximum(np.diff(times), 0.0))


def gpu_hours(jobs: Sequence[JobRecord], segments: Sequence[Segment]) -> dict[tuple[str, str], float]:
    """GPU hours a job, restarts included, by application and GPU type (thesis Figure 3.5).

    Parameters
    ----------
    jobs : sequence of JobRecord
    segments : sequence of Segment

    Returns
    -------
    dict of (str, str) to float
        Mean over all jobs of the application, by application and type, ascending.
    """
    application = {job.name: job.application for job in jobs}
    count: dict[str, int] = {}
    for job in jobs:
        count[job.application] = count.get(job.application, 0) + 1
    total: dict[tuple[str, str], float] = {}
    for one in segments:
        key = (application[one.job], one.type)
        total[key] = total.get(key, 0.0) + one.gpus * (one.end - one.begin) / HOUR
    return {key: total[key] / count[key[0]] for key in sorted(total)}


def over_seeds(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over simulations with different seeds, and standard deviations beside them.

    Parameters
    ----------
    samples : sequence of mapping of str to float
        Figures by name, the same names in each.

    Returns
    -------
    dict of str to float
        ``name`` and ``name_std`` for each; the latter is NaN for one sample.
    """
    out: dict[str, float] = {}
    for name in samples[0]:
        values = np.array([one[name] for one in samples], np.float64)
        out[name] = float(values.mean())
        out[f"{name}_std"] = float(values.std(ddof=1)) if values.size > 1 else math.nan
    return out


def interval(
    values: Sequence[float],
    level: float = 0.95,
    method: Interval = "t",
    rng: np.random.Generator | None = None,
) -> tuple[float, float]:
    """Confidence interval of a mean.

    Parameters
    ----------
    values : sequence of float
        One of each seed.
    level : float
        Between 0 and 1.
    method : {"t", "bootstrap"}
        Student's, or quantiles of the means of 10,000 samples drawn with replacement.
    rng : numpy.random.Generator, optional
        For the bootstrap.

    Returns
    -------
    low, high : float
        NaN for fewer than two values.

    Raises
    ------
    ValueError
        An unknown method, a level out of range, a bootstrap without generator.
    """
    if method not in get_args(Interval):
        raise ValueError(f"method = {method!r}: must be one of {get_args(Interval)}")
    if not 0 < level < 1:
        raise ValueError(f"level = {level}: must lie between 0 and 1")
    sample = np.array(values, np.float64)
    if sample.size < 2:
        return math.nan, math.nan
    if method == "t":
        half = student.ppf((1 + level) / 2, sample.size - 1) * sample.std(ddof=1) / math.sqrt(sample.size)
        return float(sample.mean() - half), float(sample.mean() + half)
    if rng is None:
        raise ValueError("a bootstrap needs rng, a generator of random numbers")
    means = rng.choice(sample, (10_000, sample.size)).mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
