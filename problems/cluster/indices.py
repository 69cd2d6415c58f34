"""Queue, efficiency and blocking of a cluster over time (AFS section 2.2).

At a time with running jobs J_R and pending jobs J_P on M GPUs,

    QL = |J_P|
    CE = (1 / M) sum over J_R of  speed now / speed on 1 GPU
    BI = (1 / |J_P|) sum over J_P of  time pending so far / time left on 1 GPU

A job that restarts runs at speed 0.  Time pending is all time without GPUs since the submission.  Where there
are several GPU types, the speed on 1 GPU is that of the same type in CE and of the fastest in BI; a job that
needs m GPUs counts m times its speed on m as that on 1 GPU would be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.fairness import Alone
from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.results import JobRecord, RoundRecord, Segment
from copter.problems.cluster.scenario import Scenario


@dataclass(frozen=True)
class Indices:
    """Figures of a cluster at the times at which its policy was asked, its answer in force.

    Attributes
    ----------
    times : (k,) array
        Seconds.
    queue_length, cluster_efficiency, blocking_index : (k,) array
        QL, CE, and BI, 0 where nothing is pending.
    """

    times: NDArray[np.float64]
    queue_length: NDArray[np.float64]
    cluster_efficiency: NDArray[np.float64]
    blocking_index: NDArray[np.float64]


def indices(
    scenario: Scenario,
    jobs: Sequence[JobRecord],
    rounds: Sequence[RoundRecord],
    segments: Sequence[Segment],
    alone: Alone | None = None,
) -> Indices:
    """Queue length, cluster efficiency and blocking index over a simulation.

    Parameters
    ----------
    jobs : sequence of JobRecord
    rounds : sequence of RoundRecord
    segments : sequence of Segment
    alone : Alone, optional
        Of these jobs, if it is there already.
    """
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
    return Indices(times, queue, efficiency, np.where(queue > 0.5, blocked / np.maximum(queue, 1.0), 0.0))


def _sums(
    times: NDArray[np.float64],
    begin: NDArray[np.float64],
    end: NDArray[np.float64],
    values: NDArray[np.float64],
) -> NDArray[np.float64]:
    """At each time the sum of the values whose interval, closed on the left, it is in."""
    change = np.zeros(times.size + 1)
    np.add.at(change, np.searchsorted(times, begin), values)
    np.add.at(change, np.searchsorted(times, end), -values)
    return np.cumsum(change)[:-1]


def statistical_efficiency(
    scenario: Scenario, jobs: Sequence[JobRecord], segments: Sequence[Segment], alone: Alone | None = None
) -> float:
    """Mean statistical efficiency of GPUs while they train: what their examples are worth to training.

    Parameters
    ----------
    jobs : sequence of JobRecord
    segments : sequence of Segment
    alone : Alone, optional
        Of these jobs, if it is there already.

    Returns
    -------
    float
        Over the segments whose profile knows it, at the level of their end; NaN if none does.
    """
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
) -> NDArray[np.float64]:
    """A value of each segment's profile, configuration and level at its end, worked out once for equals."""
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
    """Times in which jobs were pending: job, begin, end, seconds pending before, progress; no empty ones."""
    number = {job.name: k for k, job in enumerate(jobs)}
    of = np.array([number[one.job] for one in segments], np.int64)
    begin = np.array([one.begin for one in segments])
    order = np.lexsort((begin, of))
    of, begin = of[order], begin[order]
    end = np.array([one.end for one in segments])[order]
    progress = np.array([one.progress for one in segments])[order]
    submitted = np.array([job.submitted for job in jobs])
    finished = np.array([job.finished for job in jobs])
    # A job's waits are: submission to first segment, between segments, last segment to completion.
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
