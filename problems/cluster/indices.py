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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.fairness import Alone
from copter.problems.cluster.physics import job_profile
from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.results import JobRecord, RoundRecord, Segment
from copter.problems.cluster.scenario import Scenario
from copter.problems.cluster.workload import Kind


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
) -> Indices:
    """Queue length, cluster efficiency and blocking index over a simulation.

    Parameters
    ----------
    scenario : Scenario
    jobs : sequence of JobRecord
    rounds : sequence of RoundRecord
    segments : sequence of Segment

    Returns
    -------
    Indices
    """
    times = np.array([one.time for one in rounds])
    gpus = np.array([sum(one.there.values()) for one in rounds], np.float64)
    speedups = _Speedups(scenario, jobs)
    ratio = np.array([speedups.of(one) for one in segments])
    runs = np.array([one.begin + one.restart_seconds for one in segments])
    ends = np.array([one.end for one in segments])
    efficiency = _sums(times, runs, ends, ratio) / np.maximum(gpus, 1.0)
    index, begin, end, before, progress = _waits(jobs, segments)
    chosen = [jobs[k] for k in index.tolist()]
    left = Alone(scenario, chosen).remaining(progress)
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


class _Speedups:
    """Speed of segments over the speed on one GPU."""

    def __init__(self, scenario: Scenario, jobs: Sequence[JobRecord]) -> None:
        self._submissions = {one.name: one for one in scenario.jobs}
        self._kinds = {job.name: cast(Kind, job.kind) for job in jobs}
        self._scenario = scenario
        self._profiles: dict[tuple[str, Kind, int | None], Profile] = {}
        self._known: dict[tuple[Profile, Configuration, int], float] = {}

    def of(self, segment: Segment) -> float:
        one, kind = self._submissions[segment.job], self._kinds[segment.job]
        key = (one.application, kind, one.batch_size)
        if key not in self._profiles:
            self._profiles[key] = job_profile(one, self._scenario.profiles[one.application], kind)
        profile = self._profiles[key]
        level = int(np.searchsorted(profile.progress[:-1], segment.progress, side="right"))
        held = Configuration(segment.nodes, segment.gpus, segment.type)
        if (profile, held, level) not in self._known:
            self._known[profile, held, level] = self._ratio(profile, held, level)
        return self._known[profile, held, level]

    def _ratio(self, profile: Profile, held: Configuration, level: int) -> float:
        for gpus in range(1, held.gpus + 1):
            alone = float(profile.curve(self._scenario.cluster.packed(held.type, gpus))[level])
            if alone > 0:
                return gpus * float(profile.curve(held)[level]) / alone
        return 0.0


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
