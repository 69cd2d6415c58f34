"""Schedulers that Shockwave is compared with, over the same replay.

All but SRPT give shares of time that Gavel's mechanism turns into rounds, as in the authors' code; GPUs
that are left over go to whoever fits.  R_j is the run time left at the speed of now, because none of them
predicts.

- **OSSP** (open shop scheduling): the smallest makespan H with x_j >= R_j / H for every job, H = max(sum_j
  g_j R_j / M, max_j R_j); every job gets the least share that meets it.
- **Themis**: the smallest worst finish time fairness rho with x_j >= R_j / (rho E_j - t_j), where t_j is the
  age of the job and E_j its finish time on 1/N of the cluster, over the ``filter`` share of the jobs that are
  furthest behind now; found by bisection.
- **AlloX**: minimal average completion time by bipartite matching of jobs with places in the queues of GPUs,
  R_j times the place counted from the end, of the ``filter`` share of the waiting jobs that arrived first (no
  fewer than there are queues); a job that leads a queue keeps its GPU until it completes.
- **Gandiva-Fair**: lottery tickets by GPUs: every job the share min(1, M / N).
- **SRPT**: shortest remaining run time first, as much as fits, anew each round.

Source: Shockwave, section 8.2, and the authors' public code for all but SRPT; the filter of Themis is that of
section 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment

from copter.problems.shockwave.gavel import MaxMinFairness, MaxSumThroughput
from copter.problems.shockwave.interface import JobState, Policy, RoundState, pack
from copter.problems.shockwave.mechanism import Mechanism
from copter.problems.shockwave.names import BASELINES
from copter.solvers.base import Solver

ALLOX_FILTER, THEMIS_FILTER = 0.2, 1.0
"""Filters of the authors' runs."""
_BISECTIONS = 60


def _checked_filter(filter: float) -> float:
    if not 0 < filter <= 1:
        raise ValueError(f"filter = {filter}: must be in (0, 1]")
    return filter


class OpenShop:
    """OSSP: smallest makespan."""

    name = "ossp"

    def shares(self, now: RoundState) -> dict[str, float]:
        """Least share that meets the smallest makespan of the jobs that are there."""
        seconds = {state.name: state.reactive_seconds for state in now.jobs}
        work = sum(state.gpus * seconds[state.name] for state in now.jobs) / now.gpus
        makespan = max(work, max(seconds.values()))
        return {name: left / makespan if makespan > 0 else 1.0 for name, left in seconds.items()}


class Themis:
    """Themis: smallest worst finish time fairness among the jobs furthest behind.

    Parameters
    ----------
    filter : float
        Share of the jobs that get any time, in (0, 1].
    """

    name = "themis"

    def __init__(self, filter: float = THEMIS_FILTER) -> None:
        self.filter = _checked_filter(filter)
        self._isolated: dict[str, float] = {}
        self._last: dict[str, tuple[float, float]] = {}

    def shares(self, now: RoundState) -> dict[str, float]:
        """Shares with the smallest worst ratio."""
        count = len(now.jobs)
        alone = {state.name: min(1.0, now.gpus / count / state.gpus) for state in now.jobs}
        finish = {state.name: self._alone_so_far(state, alone) for state in now.jobs}
        age = {state.name: now.time - state.job.arrival for state in now.jobs}
        left = {state.name: state.reactive_seconds for state in now.jobs}
        for state in now.jobs:
            finish[state.name] += left[state.name] / alone[state.name]

        def behind(state: JobState) -> float:
            return (age[state.name] + left[state.name]) / max(finish[state.name], 1e-9)

        chosen = sorted(now.jobs, key=behind, reverse=True)[: math.ceil(self.filter * count)]

        def needed(rho: float) -> dict[str, float] | None:
            result = {}
            for state in chosen:
                slack = rho * finish[state.name] - age[state.name]
                if slack < left[state.name]:
                    return None
                result[state.name] = left[state.name] / slack if slack > 0 else 1.0
            return result if sum(result[s.name] * s.gpus for s in chosen) <= now.gpus else None

        low, high = 0.0, max(behind(state) for state in chosen) + 1.0
        while needed(high) is None:
            low, high = high, 2.0 * high
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if needed(middle) is not None else (middle, high)
        return needed(high) or {}

    def _alone_so_far(self, state: JobState, alone: dict[str, float]) -> float:
        """Time that the progress so far would have taken on 1/N of the cluster."""
        before, share = self._last.get(state.name, (0.0, 1.0))
        total = self._isolated.get(state.name, 0.0) + (state.run_seconds - before) / share
        self._isolated[state.name] = total
        self._last[state.name] = (state.run_seconds, alone[state.name])
        return total


class AlloX:
    """AlloX: smallest average completion time, by matching.

    Parameters
    ----------
    filter : float
        Share of the waiting jobs, the oldest, that are matched, in (0, 1].
    """

    name = "allox"

    def __init__(self, filter: float = ALLOX_FILTER) -> None:
        self.filter = _checked_filter(filter)
        self._leads: set[str] = set()

    def shares(self, now: RoundState) -> dict[str, float]:
        """Jobs at the head of a GPU's queue have that GPU."""
        keeps = {state.name for state in now.jobs if state.name in self._leads and state.gpus == 1}
        waiting = [state for state in now.jobs if state.name not in keeps]
        queues = now.gpus - len(keeps)
        waiting = waiting[: max(int(self.filter * len(waiting)), queues)]
        heads = _queue_heads(waiting, queues, now.time)
        self._leads = keeps | heads | {s.name for s in now.jobs if s.name in self._leads}
        return {state.name: 1.0 / state.gpus for state in now.jobs if state.name in self._leads}


def _queue_heads(waiting: list[JobState], queues: int, time: float) -> set[str]:
    """Jobs that begin the queues of the matching with the smallest sum of completion times."""
    if not waiting or queues < 1:
        return set()
    # On equal GPUs no queue is longer than needed: places past these cannot be in the best matching.
    places = math.ceil(len(waiting) / queues)
    seconds = np.array([state.reactive_seconds for state in waiting])
    age = np.array([time - state.job.arrival for state in waiting])
    factor = np.repeat(np.arange(1, places + 1), queues)
    jobs, slots = linear_sum_assignment(seconds[:, None] * factor + age[:, None])
    head: dict[int, tuple[int, str]] = {}
    for job, slot in zip(jobs.tolist(), slots.tolist(), strict=True):
        queue, from_end = slot % queues, slot // queues
        if queue not in head or from_end > head[queue][0]:
            head[queue] = (from_end, waiting[job].name)
    return {name for _, name in head.values()}


class GandivaFair:
    """Gandiva-Fair: equal tickets, whatever a job's GPUs."""

    name = "gandiva-fair"

    def shares(self, now: RoundState) -> dict[str, float]:
        """Equal shares."""
        return {state.name: min(1.0, now.gpus / len(now.jobs)) for state in now.jobs}


class ShortestFirst:
    """SRPT: shortest remaining run time first."""

    name = "srpt"

    def schedule(self, now: RoundState) -> list[str]:
        """The shortest jobs that fit."""
        return pack(sorted(now.jobs, key=lambda state: state.reactive_seconds), now.gpus)


def make_baseline(name: str, *, solver: Solver | None = None, filter: float | None = None) -> Policy:
    """A fresh baseline by name, see :data:`BASELINES`.

    Parameters
    ----------
    name : str
    solver : Solver, optional
        Of the two LP policies; copter by default.
    filter : float, optional
        Of Themis or AlloX; that of the authors' runs by default.

    Returns
    -------
    Policy

    Raises
    ------
    ValueError
        Another name.
    """
    filters = {} if filter is None else {"filter": filter}
    makers: dict[str, Callable[[], Policy]] = {
        "max-min-fairness": lambda: Mechanism(MaxMinFairness(solver)),
        "max-sum-throughput": lambda: Mechanism(MaxSumThroughput(solver)),
        "ossp": lambda: Mechanism(OpenShop()),
        "themis": lambda: Mechanism(Themis(**filters)),
        "allox": lambda: Mechanism(AlloX(**filters)),
        "gandiva-fair": lambda: Mechanism(GandivaFair()),
        "srpt": ShortestFirst,
    }
    if name not in makers:
        raise ValueError(f"policy {name!r}: must be one of {', '.join(BASELINES)}")
    return makers[name]()
