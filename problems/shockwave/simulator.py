"""Replay of a trace under a policy, round by round.

At the start of a round the jobs that arrived by then are in the queue and the policy names those that run.  A
job that did not run in the round before first spends ``restart_seconds`` on dispatch and on loading its
checkpoint.  It completes in the middle of a round; its GPUs are free from the next round on.

Overheads are those of the authors' simulator: 20 s for a job that did not run in the round before, none in
the very first round, and none in a job's last round if that ends 5 s or more before the round does.  Batch
sizes change where the trace says, in the middle of a round too; the authors' simulator waits for the
round's end.

Source: Shockwave, section 7 (rounds of two minutes), section 8.1 and the authors' public code.
"""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.problems.shockwave.interface import JobState, Policy, PolicyError, RoundState
from copter.problems.shockwave.metrics import JobResult, Metrics
from copter.problems.shockwave.traces import Job, check_names

ROUND_SECONDS = 120.0
RESTART_SECONDS = 20.0
FREE_ENDING_SECONDS = 5.0
"""A job that completes so long before its round ends pays for no restart."""
_DONE = 1e-6


@dataclass(frozen=True)
class RoundRecord:
    """What happened in a round.

    Attributes
    ----------
    index : int
    time : float
        Seconds at its start.
    jobs, running : tuple of str
        Names of all jobs, and of those that ran.
    gpus : int
        GPUs that were given.
    starts : int
        Jobs that ran and had not run in the round before.
    policy_seconds : float
        Time that the policy took.
    """

    index: int
    time: float
    jobs: tuple[str, ...]
    running: tuple[str, ...]
    gpus: int
    starts: int
    policy_seconds: float


@dataclass(frozen=True)
class ReplayResult:
    """Outcome of a replay.

    Attributes
    ----------
    policy : str
    gpus : int
    jobs : tuple of JobResult
        Of the jobs that were let in.
    rejected : tuple of str
        Jobs that need more GPUs than there are: they never enter the queue.
    rounds : tuple of RoundRecord
    metrics : Metrics
    """

    policy: str
    gpus: int
    jobs: tuple[JobResult, ...]
    rejected: tuple[str, ...]
    rounds: tuple[RoundRecord, ...]
    metrics: Metrics


class _Live:
    """A job while it is there."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.run_seconds = 0.0
        self.contention: list[float] = []
        self.last_round = -2
        self.restarts = 0

    def state(self, time: float, index: int) -> JobState:
        share = sum(self.contention) / len(self.contention) if self.contention else 1.0
        waited = max(time - self.job.arrival - self.run_seconds, 0.0)
        return JobState(self.job, self.run_seconds, waited, max(share, 1.0), self.last_round == index - 1)


def replay(
    jobs: Sequence[Job],
    gpus: int,
    policy: Policy,
    *,
    round_seconds: float = ROUND_SECONDS,
    restart_seconds: float = RESTART_SECONDS,
    max_rounds: int = 100_000,
) -> ReplayResult:
    """Run a trace to its end.

    Parameters
    ----------
    jobs : sequence of Job
    gpus : int
    policy : Policy
        A fresh one: it may keep state between rounds.
    round_seconds, restart_seconds : float
    max_rounds : int
        A policy that lets jobs starve is stopped here with an error.

    Returns
    -------
    ReplayResult

    Raises
    ------
    PolicyError
        The policy named a job that is not there or one twice, gave more GPUs than there are, or did not
        complete the jobs in ``max_rounds``.
    """
    if gpus < 1:
        raise ValueError(f"gpus = {gpus}: must be at least 1")
    if not restart_seconds >= 0 or not round_seconds > restart_seconds:
        raise ValueError(f"round_seconds = {round_seconds}: must be more than a restart, {restart_seconds}")
    check_names("jobs", jobs)
    ordered = sorted(jobs, key=lambda job: job.arrival)
    cluster = _Cluster([job for job in ordered if job.gpus <= gpus], gpus, round_seconds, restart_seconds)
    records: list[RoundRecord] = []
    while cluster.waiting or cluster.live:
        if len(records) >= max_rounds:
            left = f"{len(cluster.live)} jobs are not complete"
            raise PolicyError(f"{policy.name}: {left} after {max_rounds} rounds")
        records.append(cluster.play(policy, len(records)))
    order = {job.name: k for k, job in enumerate(ordered)}
    results = sorted(cluster.results, key=lambda result: order[result.name])
    first = min((result.arrival for result in results), default=0.0)
    rejected = tuple(job.name for job in ordered if job.gpus > gpus)
    metrics = Metrics.of(results, gpus, first)
    return ReplayResult(policy.name, gpus, tuple(results), rejected, tuple(records), metrics)


class _Cluster:
    """Jobs that wait for their arrival, jobs that are there, and what became of the others."""

    def __init__(self, jobs: list[Job], gpus: int, round_seconds: float, restart_seconds: float) -> None:
        self.waiting = jobs[::-1]
        self.live: dict[str, _Live] = {}
        self.results: list[JobResult] = []
        self._gpus, self._contention = gpus, len(jobs) / gpus
        self._round_seconds, self._restart_seconds = round_seconds, restart_seconds
        self._time = 0.0

    def play(self, policy: Policy, index: int) -> RoundRecord:
        """Play a round."""
        self._admit()
        live, time, length = self.live, self._time, self._round_seconds
        now = RoundState(
            index, time, length, self._gpus, tuple(entry.state(time, index) for entry in live.values())
        )
        begin = clock.perf_counter()
        running = tuple(policy.schedule(now))
        seconds = clock.perf_counter() - begin
        used = _check(policy, now, live, running)
        starts = sum(live[name].last_round != index - 1 for name in running)
        record = RoundRecord(index, time, tuple(live), running, used, starts, seconds)
        for name in running:
            end = _advance(live[name], index, time, length, self._restart_seconds)
            if end is not None:
                self.results.append(_result(live.pop(name), end, self._contention))
        self._time += length
        return record

    def _admit(self) -> None:
        """Let in the jobs that have arrived; hours without jobs are skipped."""
        if not self.live:
            self._time = max(self._time, self.waiting[-1].arrival)
        while self.waiting and self.waiting[-1].arrival <= self._time:
            job = self.waiting.pop()
            self.live[job.name] = _Live(job)
        for entry in self.live.values():
            entry.contention.append(len(self.live) / self._gpus)


def _check(policy: Policy, now: RoundState, live: dict[str, _Live], running: tuple[str, ...]) -> int:
    unknown = [name for name in running if name not in live]
    if unknown or len(set(running)) < len(running):
        what = f"no such job: {unknown[0]!r}" if unknown else "a job is named twice"
        raise PolicyError(f"{policy.name}, round {now.index}: {what}")
    used = sum(live[name].job.gpus for name in running)
    if used > now.gpus:
        raise PolicyError(f"{policy.name}, round {now.index}: {used} GPUs given of {now.gpus}")
    return used


def _advance(
    entry: _Live, index: int, time: float, round_seconds: float, restart_seconds: float
) -> float | None:
    """Run a job for a round; the time of its completion if it completes."""
    left = entry.job.seconds - entry.run_seconds
    restart = 0.0
    if entry.last_round != index - 1 and index > 0 and left > round_seconds - FREE_ENDING_SECONDS:
        restart = restart_seconds
    if entry.last_round != index - 1:
        entry.restarts += 1
    entry.last_round = index
    ran = min(left, round_seconds - restart)
    entry.run_seconds += ran
    return time + restart + ran if left - ran <= _DONE else None


def _result(entry: _Live, end: float, contention: float) -> JobResult:
    job = entry.job
    return JobResult(
        name=job.name,
        gpus=job.gpus,
        arrival=job.arrival,
        finished=end,
        exclusive_seconds=job.seconds,
        starts=entry.restarts,
        ftf=(end - job.arrival) / (job.seconds * max(1.0, contention)),
        ftf_live=(end - job.arrival)
        / (job.seconds * max(1.0, sum(entry.contention) / len(entry.contention))),
    )


def schedule_matrix(result: ReplayResult) -> tuple[list[str], NDArray[np.bool_]]:
    """Jobs in order of arrival, and which of them ran in which round: what a plot of the schedule needs.

    Parameters
    ----------
    result : ReplayResult

    Returns
    -------
    list of str, (jobs, rounds) bool array
    """
    names = [job.name for job in result.jobs]
    rows = {name: k for k, name in enumerate(names)}
    ran = np.zeros((len(names), len(result.rounds)), bool)
    for record in result.rounds:
        for name in record.running:
            ran[rows[name], record.index] = True
    return names, ran
