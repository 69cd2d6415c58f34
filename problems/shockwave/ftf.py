"""Finish time fairness of a job now, and its weight in the plan (Shockwave, section 6.2, appendix G.2).

Equation (9): rho = (L + W + R N) / (P N), with

- L the run time so far and W the time spent waiting, so that L + W is the job's age;
- P the predicted run time in all and R = P - L what is left of it, both alone on the job's GPUs;
- N the job's contention: jobs over GPUs, averaged over the time that it has been there, at least 1.

The plan weighs a job by rho^k, its budget in the volatile Fisher market.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.problems.shockwave import ORACLE, PREDICTORS
from copter.problems.shockwave.interface import MarketJob
from copter.problems.shockwave.predictor import RULES, Pattern, pattern_of, remaining_epochs

POWER = 5.0
"""k: the paper's default.  The authors' own runs use 12 (32 GPUs), 5 (64, 256) and 15 (128).

In replays of the authors' traces 12 is worse than 5 in makespan, average completion time and fairness.
"""


@dataclass(frozen=True)
class Outlook:
    """What is predicted of a job.

    `epochs`: epochs that are left of each regime, in order, the ongoing one first. `epoch_seconds`: seconds
    of an epoch in each. `remaining_seconds`: R. `total_seconds`: p = L + R.
    """

    epochs: NDArray[np.float64]
    epoch_seconds: NDArray[np.float64]
    remaining_seconds: float
    total_seconds: float


def outlook(state: MarketJob, predictor: str = "restatement", pattern: Pattern | None = None) -> Outlook:
    """Predict what is left of a job.

    `predictor`: one of :data:`PREDICTORS`; the oracle knows the regimes to come. `pattern`: regimes that its
    user specifies; those of :func:`.predictor.pattern_of` by default.
    """
    if predictor not in PREDICTORS:
        raise ValueError(f"predictor {predictor!r}: must be one of {', '.join(PREDICTORS)}")
    if predictor == ORACLE:
        begun = len(state.seen)
        epochs = np.diff(state.job.epochs_by_regime)[begun - 1 :]
        epochs[0] -= state.seen[-1]
        seconds = np.array([regime.epoch_seconds for regime in state.job.regimes[begun - 1 :]])
    else:
        known = pattern_of(state.job) if pattern is None else pattern
        epochs = remaining_epochs(known, RULES[predictor](known, state.seen), state.seen)
        seconds = np.array(known.epoch_seconds)
        now = min(len(state.seen), len(known)) - 1
        epochs, seconds = epochs[now:], seconds[now:]
    left = float(np.dot(epochs, seconds))
    return Outlook(epochs, seconds, left, state.run_seconds + left)


def finish_time_fairness(state: MarketJob, seen: Outlook) -> float:
    """Equation (9); 1 for a job that takes no time.

    `seen`: what is predicted of it.
    """
    shared = seen.total_seconds * state.contention
    if shared <= 0:
        return 1.0
    age = state.run_seconds + state.waited_seconds
    return (age + seen.remaining_seconds * state.contention) / shared
