"""Metrics of a simulation, and their means over seeds.

Times begin at submissions.  The completion time of a job (JCT) ends with its completion.  The makespan is
from the first submission to the last completion.  Queueing is the time without GPUs.  Restarts do not include
first starts. Utilisation is GPU time held over GPU time available, including hours without jobs; busy
utilisation excludes restarts.

:func:`indices` returns queue length, cluster efficiency and blocking index over time (AFS section 2.2).  At a
time with
running jobs J_R and pending jobs J_P on M GPUs,

    QL = |J_P|
    CE = (1 / M) sum over J_R of  speed now / speed on 1 GPU
    BI = (1 / |J_P|) sum over J_P of  time pending so far / time left on 1 GPU

A job that restarts has speed 0.  The time pending is all time without GPUs since the submission.  With
several GPU types, the speed on 1 GPU is that of the same type in CE, and of the fastest type in BI.  If a job
needs m GPUs, its speed on 1 GPU is its speed on m GPUs over m.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from copter.arrays import Floats
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.profiles.base import Profile
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
    """Return the metrics of a simulation; NaN for undefined ones.

    `jobs`: all jobs that entered; averages are over completed jobs. The names are
    average_jct_hours, p50_jct_hours, p95_jct_hours, p99_jct_hours, makespan_hours; average_queue_hours;
    gpu_hours_per_job, restarts_per_job; utilisation, busy_utilisation; average_contention and max_contention,
    the number of jobs in the cluster; worst_ftf and unfair_fraction by the printed definition (3.6),
    worst_ftf_authors and unfair_fraction_authors by the authors' script (see :mod:`.fairness`); queue_length,
    cluster_efficiency and blocking_index over time, and statistical_efficiency of GPUs that train (see
    :func:`indices`); evictions_per_round, jobs moved or left without a place; policy_p50_s, policy_p95_s,
    policy_p99_s,
    policy_max_s, seconds; rounds, jobs_completed, jobs_submitted.
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

    `samples`: metrics by name; the names are those of the first one. The result has ``name`` and
    ``name_std`` for each; the latter is NaN for one sample.
    """
    out: dict[str, float] = {}
    for name in samples[0]:
        values = np.array([one.get(name, math.nan) for one in samples], np.float64)
        out[name] = float(values.mean())
        out[f"{name}_std"] = float(values.std(ddof=1)) if values.size > 1 else math.nan
    return out


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% confidence interval of a mean over seeds (Student's t); NaN for under two values."""
    sample = np.array(values, np.float64)
    if sample.size < 2:
        return math.nan, math.nan
    half = student.ppf(0.975, sample.size - 1) * sample.std(ddof=1) / math.sqrt(sample.size)
    return float(sample.mean() - half), float(sample.mean() + half)


@dataclass(frozen=True)
class _Indices:
    """Metrics of a cluster at the times of the policy's calls, under its new decision.

    `times`: seconds. `queue_length`, `cluster_efficiency`, `blocking_index`: QL, CE, and BI, which is 0 if no
    job is pending.
    """

    times: Floats
    queue_length: Floats
    cluster_efficiency: Floats
    blocking_index: Floats


def indices(
    scenario: Scenario,
    jobs: Sequence[JobRecord],
    rounds: Sequence[ClusterRecord],
    segments: Sequence[Segment],
    alone: Alone | None = None,
) -> _Indices:
    """Return the queue length, cluster efficiency and blocking index over a simulation."""
    alone = Alone(scenario, jobs) if alone is None else alone
    times = np.array([one.time for one in rounds])
    gpus = np.array([sum(one.there.values()) for one in rounds], np.float64)

    def speedup(profile: Profile, held: Configuration, level: int) -> float:
        for gpus in range(1, held.gpus + 1):
            one = float(profile.curve(scenario.cluster.packed(held.type, gpus))[level])
            if one > 0:
                return gpus * float(profile.curve(held)[level]) / one
        return 0.0

    ratio = _each(alone, scenario, jobs, segments, speedup)
    runs = np.array([one.begin + one.restart_seconds for one in segments])
    ends = np.array([one.end for one in segments])
    efficiency = _sums(times, runs, ends, ratio) / np.maximum(gpus, 1.0)
    index, begin, end, before, progress = _waits(jobs, segments)
    left = alone.remaining(index, progress)
    queue = _sums(times, begin, end, np.ones(begin.size))
    blocked = _sums(times, begin, end, (before - begin) / left)
    blocked += times * _sums(times, begin, end, 1.0 / left)
    return _Indices(times, queue, efficiency, np.where(queue > 0.5, blocked / np.maximum(queue, 1.0), 0.0))


def _sums(times: Floats, begin: Floats, end: Floats, values: Floats) -> Floats:
    """Return for each time the sum of the values whose interval (closed on the left) contains it."""
    change = np.zeros(times.size + 1)
    np.add.at(change, np.searchsorted(times, begin), values)
    np.add.at(change, np.searchsorted(times, end), -values)
    return np.cumsum(change)[:-1]


def statistical_efficiency(
    scenario: Scenario, jobs: Sequence[JobRecord], segments: Sequence[Segment], alone: Alone | None = None
) -> float:
    """Return the mean statistical efficiency of GPUs while they train; NaN if no profile defines it."""
    alone = Alone(scenario, jobs) if alone is None else alone
    value = _each(
        alone, scenario, jobs, segments, lambda profile, held, level: profile.efficiency(held, level)
    )
    weight = np.array([one.gpus * (one.end - one.begin - one.restart_seconds) for one in segments])
    known = ~np.isnan(value) & (weight > 0)
    return float(np.average(value[known], weights=weight[known])) if known.any() else math.nan


def _each(
    alone: Alone,
    scenario: Scenario,
    jobs: Sequence[JobRecord],
    segments: Sequence[Segment],
    value: Callable[[Profile, Configuration, int], float],
) -> Floats:
    """Return a function of each segment's profile, configuration and final level, computed once if equal."""
    if not segments:
        return np.empty(0)
    group = np.empty(len(jobs), np.int64)
    for k, (_, members) in enumerate(alone.groups):
        group[members] = k
    number = {job.name: k for k, job in enumerate(jobs)}
    types = {name: k for k, name in enumerate(scenario.cluster.names)}
    of = group[np.array([number[one.job] for one in segments], np.int64)]
    progress = np.array([one.progress for one in segments])
    level = np.empty(of.size, np.int64)
    for k, (profile, _) in enumerate(alone.groups):
        level[of == k] = profile.level(progress[of == k])
    held = np.array([(types[one.type], one.nodes, one.gpus) for one in segments], np.int64)
    columns = np.vstack((of, level, held.T))
    shape = tuple((columns.max(axis=1) + 1).tolist())
    codes, which = np.unique(np.ravel_multi_index(tuple(columns), shape), return_inverse=True)
    values = [
        value(alone.groups[k][0], Configuration(nodes, gpus, scenario.cluster.names[type]), at)
        for k, at, type, nodes, gpus in np.column_stack(np.unravel_index(codes, shape)).tolist()
    ]
    return np.array(values)[which]


def _waits(jobs: Sequence[JobRecord], segments: Sequence[Segment]) -> tuple[NDArray, ...]:
    """Return nonempty pending intervals: job, begin, end, seconds pending before, progress."""
    number = {job.name: k for k, job in enumerate(jobs)}
    of = np.array([number[one.job] for one in segments], np.int64)
    begin = np.array([one.begin for one in segments])
    order = np.lexsort((begin, of))
    of, begin = of[order], begin[order]
    end = np.array([one.end for one in segments])[order]
    progress = np.array([one.progress for one in segments])[order]
    submitted = np.array([job.submitted for job in jobs])
    finished = np.array([job.finished for job in jobs])
    # A job waits from submission to its first segment, between segments, and from the last one to completion.
    index = np.concatenate((of, np.arange(len(jobs))))
    until = np.concatenate((begin, np.where(np.isnan(finished), np.inf, finished)))
    order = np.lexsort((until, index))
    index, until = index[order], until[order]
    first = np.concatenate(([True], index[1:] != index[:-1]))[: index.size]
    since, reached = np.empty(index.size), np.zeros(index.size)
    since[first] = submitted[index[first]]
    since[~first], reached[~first] = end, progress
    waited = np.maximum(until - since, 0.0)
    total = np.concatenate(([0.0], np.cumsum(np.where(np.isfinite(waited), waited, 0.0))))[:-1]
    before = total - np.maximum.accumulate(np.where(first, total, 0.0)) if index.size else total
    some = until > since
    return index[some], since[some], until[some], before[some], reached[some]
