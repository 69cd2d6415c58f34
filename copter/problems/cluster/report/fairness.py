"""Finish time fairness: a job's completion time relative to its time alone on its share of the cluster.

Let T_s be the completion time of a job, N the GPUs of the cluster, and N_avg the mean number of jobs during
the job's stay.  Then rho = T_s / T_f, where T_f is the job's time on N / N_avg GPUs of its own (Themis;
thesis section 3.5.5).  A job with rho above 1 was treated unfairly.

With several GPU types there are two definitions.  The thesis prints

    rho = sum_g (N_g / N) rho_g      (3.6),   rho_g = T_s / T_g

with T_g the time on N_g / N_avg GPUs of type g.  The script with which the authors compute their figures
gives a job N / N_avg GPUs of each type in turn (at most all GPUs of the type), instead of N_g / N_avg, and
computes

    rho = T_s / sum_g (N_g / N) T_g.

The printed definition is the default, because it reproduces more of the figures in the thesis
(docs/how-to/cluster.md).  On one type, both reduce to the first definition.

Times on a share follow the authors' script.  The time on a share between two whole numbers of GPUs is
interpolated. Let m be the fewest GPUs that the job can run on.  If the share is smaller than m, the time is
the time on m GPUs multiplied by m / share.  A job uses only as many GPUs of its share as reduce its time, and
a rigid job at most the GPUs that it requests. The time includes one start and, as in the shared cluster, the
wait until the scheduler is asked. A type that cannot run the job does not count.

Shockwave counts contention in jobs over GPUs, and its jobs are rigid: rho = T_s / (T_e max(1, C)).  Here T_e
is the run time alone on the GPUs that a job requests.  C is the number of jobs of the whole trace over all
GPUs, or its mean during the job's stay (sections 2.1 and 8.1; copter.problems.shockwave.metrics has both).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, cast, get_args

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import GpuType
from copter.problems.cluster.jobs import job_profile
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.results import ClusterRecord, JobRecord
from copter.problems.cluster.workload import Kind, Scenario

_Rule: TypeAlias = Literal["authors", "printed"]


class Alone:
    """Run times of jobs alone on GPUs of one type."""

    def __init__(self, scenario: Scenario, jobs: Sequence[JobRecord]) -> None:
        self._cluster, self._n = scenario.cluster, len(jobs)
        submissions = {one.name: one for one in scenario.jobs}
        gpus = self._cluster.gpus
        members: dict[tuple[str, str, tuple[int | None, ...], int], list[int]] = {}
        for k, job in enumerate(jobs):
            one = submissions[job.name]
            most = min(one.max_gpus or gpus, job.gpus if job.kind == "rigid" else gpus)
            limits = (one.batch_size, one.max_batch_size, one.min_gpus, one.max_gpus)  # as in job_profile
            members.setdefault((job.application, job.kind, limits, most), []).append(k)
        self._limits = [most for *_, most in members]
        self.groups: list[tuple[Profile, Ints]] = []
        for (application, kind, *_), group in members.items():
            first = submissions[jobs[group[0]].name]
            profile = job_profile(first, scenario.profiles[application], cast(Kind, kind))
            self.groups.append((profile, np.array(group)))

    def seconds(self, type: GpuType, shares: Floats, *, start: bool = True) -> Floats:
        """Return the run time of each job alone on a share of a type.

        `shares`: number of GPUs, which may be fractional. `start`: include the restart seconds of one start.
        The result is infinite where the type cannot run the job.
        """
        out = np.full(self._n, math.inf)
        for (profile, at), most in zip(self.groups, self._limits, strict=True):
            share = np.minimum(shares[at], type.gpus)
            limit = min(most, type.gpus, max(math.ceil(share.max()), type.gpus_per_node))
            if limit:
                out[at] = _shared(*self._whole(profile, type, limit), share)
                out[at] += profile.restart_seconds if start else 0.0
        return out

    def _whole(self, profile: Profile, type: GpuType, most: int) -> tuple[Ints, Floats]:
        """Return GPU counts that can run a job, and for each its least run time on at most as many GPUs."""
        size = type.gpus_per_node
        within = [1 << k for k in range(size.bit_length())]
        counts = sorted({*within, *range(size, most + 1, size), most})
        steps = np.diff(profile.progress, prepend=0.0)
        best = np.zeros(profile.n_levels)
        known: list[tuple[int, float]] = []
        for count in counts:
            if count > most:
                break
            best = np.maximum(best, profile.curve(self._cluster.packed(type.name, count)))
            if (best > 0).all():
                known.append((count, float(np.sum(steps / best)) * profile.calibration))
        return np.array([count for count, _ in known], np.int64), np.array([time for _, time in known])


def _shared(counts: Ints, times: Floats, shares: Floats) -> Floats:
    """Return the times on shares, interpolated between whole numbers of GPUs."""
    if not counts.size:
        return np.full(shares.size, math.inf)
    low, high = (np.maximum(edge(shares), counts[0]) for edge in (np.floor, np.ceil))
    before, after = (times[np.searchsorted(counts, edge, side="right") - 1] for edge in (low, high))
    between = before + (after - before) * np.clip(shares - low, 0.0, 1.0)
    return np.where(shares < counts[0], times[0] * counts[0] / shares, between)


def first_waits(jobs: Sequence[JobRecord], rounds: Sequence[ClusterRecord]) -> Floats:
    """Return the seconds from each submission to the next call of the policy, shape (n,)."""
    times = np.array([one.time for one in rounds] + [math.inf])
    submitted = np.array([job.submitted for job in jobs])
    return times[np.searchsorted(times, submitted)] - submitted


def finish_time_fairness(
    scenario: Scenario,
    jobs: Sequence[JobRecord],
    rule: _Rule = "printed",
    *,
    waits: Floats | None = None,
    alone: Alone | None = None,
) -> Floats:
    """Return the finish time fairness rho of each job on one or several GPU types.

    `scenario`: shares are of its cluster, with the initial nodes. `rule`: definition of rho, see the module.
    `waits`: seconds that each job would also wait if it were alone (:func:`first_waits`); default: 0.
    `alone`: times of these jobs alone, if known. The result is NaN for a job that did not complete.
    """
    if rule not in get_args(_Rule):
        raise ValueError(f"rule = {rule!r}: must be one of {get_args(_Rule)}")
    cluster, alone = scenario.cluster, Alone(scenario, jobs) if alone is None else alone
    there = np.maximum(np.array([job.contention for job in jobs]) * cluster.gpus, 1.0)
    jct = np.array([job.jct for job in jobs])
    weight, total = np.zeros(len(jobs)), np.zeros(len(jobs))
    for type in cluster.types:
        own = type.gpus if rule == "printed" else cluster.gpus
        seconds = alone.seconds(type, own / there) + (0.0 if waits is None else waits)
        runs = np.isfinite(seconds)
        weight += type.gpus * runs
        term = jct / np.where(runs, seconds, 1.0) if rule == "printed" else seconds
        total += np.where(runs, type.gpus * term, 0.0)
    if rule == "printed":
        return np.divide(total, weight, out=np.full(len(jobs), math.nan), where=weight > 0)
    return np.divide(jct * weight, total, out=np.full(len(jobs), math.nan), where=total > 0)


def fairness_figures(rho: Floats) -> dict[str, float]:
    """Return the worst fairness and the share of unfairly treated jobs.

    `rho`: NaN is left out. The names are worst_ftf and unfair_fraction; both are NaN if no rho is left.
    """
    known = rho[~np.isnan(rho)]
    if not known.size:
        return {"worst_ftf": math.nan, "unfair_fraction": math.nan}
    return {"worst_ftf": float(known.max()), "unfair_fraction": float(np.mean(known > 1.0))}
