"""Snapshots of a busy cluster, to make one plan of: any number of jobs, GPUs and rounds, from a seed.

Jobs are those of the generator; each is somewhere in its life, and has waited up to a few times its run
time so far, so that finish time fairness is spread around 1 as it is in the middle of a replay.
"""

from __future__ import annotations

import numpy as np

from copter.problems.shockwave.generator import generate
from copter.problems.shockwave.interface import JobState, Round
from copter.problems.shockwave.replay import ROUND_SECONDS

_NEW_SHARE = 0.2


def snapshot(jobs: int, gpus: int, *, seed: int = 0, round_seconds: float = ROUND_SECONDS) -> Round:
    """Round with so many active jobs on so many GPUs; one in five has not run yet."""
    rng = np.random.default_rng(seed)
    contention = max(jobs / gpus, 1.0)
    states = []
    for job in generate(jobs, seed=seed, arrival_seconds=0.0):
        share = 0.0 if rng.random() < _NEW_SHARE else float(rng.random()) * 0.99
        run = share * job.seconds
        waited = float(rng.random()) * (contention - 1.0) * (run + round_seconds)
        states.append(JobState(job, run, waited, contention, bool(run > 0 and rng.random() < 0.5)))
    return Round(0, 0.0, round_seconds, gpus, tuple(states))
