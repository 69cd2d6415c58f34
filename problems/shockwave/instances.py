"""Snapshots of a busy cluster, to make plans of: any number of jobs, GPUs and rounds, from a seed.

Jobs are those of the generator; each is somewhere in its life, and has waited up to a few times its run
time so far, so that finish time fairness is spread around 1 as it is in the middle of a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from copter.problems.shockwave.generator import generate
from copter.problems.shockwave.interface import JobState, RoundState, pack
from copter.problems.shockwave.policy import ROUND_SECONDS

_NEW_SHARE = 0.2


def snapshot(jobs: int, gpus: int, *, seed: int = 0, round_seconds: float = ROUND_SECONDS) -> RoundState:
    """State with so many active jobs on so many GPUs; one in five has not run yet."""
    rng = np.random.default_rng(seed)
    contention = max(jobs / gpus, 1.0)
    states = []
    for job in generate(jobs, seed=seed, arrival_seconds=0.0):
        share = 0.0 if rng.random() < _NEW_SHARE else float(rng.random()) * 0.99
        run = share * job.seconds
        waited = float(rng.random()) * (contention - 1.0) * (run + round_seconds)
        states.append(JobState(job, run, waited, contention, bool(run > 0 and rng.random() < 0.5)))
    return RoundState(0, 0.0, round_seconds, gpus, tuple(states))


def busy_rounds(
    jobs: int, gpus: int, *, seed: int = 0, round_seconds: float = ROUND_SECONDS
) -> Iterator[RoundState]:
    """Rounds of a cluster that stays as busy, without end, the first one a :func:`snapshot`.

    What runs does not depend on any plan, so that all solvers see the same rounds: whoever has waited
    longest, as much as fits.  A job that completes makes room for a new one.  Restarts cost no time here.
    """
    now = snapshot(jobs, gpus, seed=seed, round_seconds=round_seconds)
    index, fresh = 0, jobs
    while True:
        yield now
        index += 1
        time = index * round_seconds
        runs = set(pack(sorted(now.jobs, key=lambda state: -state.waited_seconds), gpus))
        states = [_after(state, state.name in runs, round_seconds) for state in now.jobs]
        stay = [state for state in states if state.run_seconds < state.job.seconds]
        gone = len(states) - len(stay)
        # One more seed for each round: jobs of a seed are always the same.
        for job in generate(gone, seed=seed + 7919 * index, arrival_seconds=0.0):
            named = replace(job, name=f"job-{fresh}", arrival=time)
            stay.append(JobState(named, 0.0, 0.0, max(jobs / gpus, 1.0), False))
            fresh += 1
        now = RoundState(index, time, round_seconds, gpus, tuple(stay))


def _after(state: JobState, runs: bool, seconds: float) -> JobState:
    ran = min(seconds, state.job.seconds - state.run_seconds) if runs else 0.0
    return JobState(
        state.job, state.run_seconds + ran, state.waited_seconds + seconds - ran, state.contention, runs
    )
