"""Forecasts of many jobs, with their finish time fairness and weights (Shockwave, section 6.2, G.2).

Equation (9): rho = (L + W + R N) / (P N), with

- L the run time so far and W the waiting time so far, so that L + W is the job's age;
- P the predicted total run time and R = P - L the remaining run time, both alone on the job's GPUs;
- N the job's contention: the number of jobs divided by that of GPUs, averaged over its stay, at least 1.

The weight of a job in the plan is rho^k, its budget in the volatile Fisher market. Arrays have a row for each
job and a column for each regime, padded to the longest job. Constant data of a job is cached; everything else
takes a few array operations, whatever the number of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.shockwave import ORACLE, PREDICTORS
from copter.problems.shockwave.interface import MarketJob
from copter.problems.shockwave.predictor import pattern_of
from copter.problems.shockwave.traces import RegimeJob

POWER = 5.0
"""Default of k, as in the paper.

The authors' own runs use 12 (32 GPUs), 5 (64, 256) and 15 (128).  In replays of the authors' traces, 12 is
worse than 5 in makespan, average completion time and fairness.
"""
_LARGEST = 1e3
"""Largest weight of an ending job relative to other jobs, so that it runs first without dominating them."""


@dataclass(frozen=True)
class Forecast:
    """Predictions for each of N jobs, with at most K regimes.

    `epochs`, `total_epochs`: epochs so far, and in total. `left`, `epoch_seconds`: remaining epochs of each
    regime, in order, and seconds of one of its epochs; `left` is 0 for regimes that are over or do not exist.
    `remaining_seconds`, `total_seconds`: R and P = L + R. `fairness`: equation (9).
    """

    epochs: Floats
    total_epochs: Floats
    left: Floats
    epoch_seconds: Floats
    remaining_seconds: Floats
    total_seconds: Floats
    fairness: Floats


@lru_cache(maxsize=1 << 16)
def _known(job: RegimeJob) -> tuple[tuple[float, ...], ...]:
    """Return epochs and seconds at each regime's end, and seconds per epoch in regimes and in the pattern."""
    return (
        tuple(job.epochs_by_regime[1:].tolist()),
        tuple(job.seconds_by_regime[1:].tolist()),
        tuple(regime.epoch_seconds for regime in job.regimes),
        tuple(float(seconds) for seconds in pattern_of(job).epoch_seconds),
    )


def _table(rows: Sequence[tuple[float, ...]]) -> tuple[Floats, Ints]:
    """Return rows of different lengths as an array, padded with their last entries, and the lengths."""
    lengths = np.array([len(row) for row in rows], np.int64)
    flat = np.array([value for row in rows for value in row])
    columns = np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)
    return flat[(np.cumsum(lengths) - lengths)[:, None] + columns], lengths


def forecast(states: Sequence[MarketJob], predictor: str = "restatement") -> Forecast:
    """Predict the remaining work of jobs.

    `predictor`: one of :data:`copter.problems.shockwave.PREDICTORS`.
    """
    if predictor not in PREDICTORS:
        raise ValueError(f"predictor = {predictor!r}: must be one of {', '.join(PREDICTORS)}")
    if not states:
        none, empty = np.zeros(0), np.zeros((0, 1))
        return Forecast(none, none, empty, empty, none, none, none)
    known = [_known(state.job) for state in states]
    ends, regimes = _table([row[0] for row in known])
    run = np.array([state.run_seconds for state in states])
    epochs = _epochs(run, ends, _table([row[1] for row in known])[0], regimes)
    begins = np.hstack([np.zeros((len(states), 1)), ends[:, :-1]])
    column = np.arange(ends.shape[1])
    begun = 1 + ((ends <= epochs[:, None]) & (column < regimes[:, None] - 1)).sum(axis=1)
    there = column < regimes[:, None]
    if predictor == ORACLE:
        seconds, _ = _table([row[2] for row in known])
        left = np.where(there, np.maximum(ends - np.maximum(begins, epochs[:, None]), 0.0), 0.0)
    else:
        seconds, count = _table([row[3] for row in known])
        passed = np.where(column < begun[:, None], np.minimum(epochs[:, None], ends) - begins, 0.0)
        seen = _within(passed, seconds.shape[1], count)
        left = _left(predictor, ends[:, -1], seen, np.minimum(begun, count) - 1, count)
    remaining = (left * seconds).sum(axis=1)
    total = run + remaining
    age = run + np.array([state.waited_seconds for state in states])
    contention = np.array([state.contention for state in states])
    shared = total * contention
    some = shared > 0
    fairness = np.where(some, (age + remaining * contention) / np.where(some, shared, 1.0), 1.0)
    return Forecast(epochs, ends[:, -1], left, seconds, remaining, total, fairness)


def budgets(seen: Forecast, power: float, *, ending: float = 0.0, round_seconds: float = 0.0) -> Floats:
    """Return the weights rho^k of jobs in the plan, their budgets in the market.

    The logarithm of a job's progress is flattest at its end.  So program (11) as printed gives the last round
    of a job to other jobs, until the job's age has raised its rho^k above all others.  Jobs with less than a
    minute left then wait for long, and are late.  In the authors' code, a job that would be late and has less
    than a round left has the power 100 instead of k; `ending` has the same effect.

    `power`: k. `ending`: power of jobs that are predicted to be late (rho > 1) and have less run time left
    than a round, if this power is larger than k. `round_seconds`: length of a round. The weights of ending
    jobs are at most `_LARGEST` times the largest rho^k.
    """
    weights = seen.fairness**power
    last = (seen.fairness > 1.0) & (seen.remaining_seconds < round_seconds) & (ending > power)
    if not last.any():
        return weights
    most = _LARGEST * float(weights.max())
    weights[last] = np.exp(np.minimum(ending * np.log(seen.fairness[last]), np.log(most)))
    return weights


def _epochs(run: Floats, ends: Floats, seconds: Floats, regimes: Ints) -> Floats:
    """Return the number of completed epochs after a run time."""
    rows = np.arange(len(run))
    at = np.minimum((seconds <= run[:, None]).sum(axis=1), regimes - 1)
    before = np.where(at > 0, seconds[rows, at - 1], 0.0)
    done = np.where(at > 0, ends[rows, at - 1], 0.0)
    length = seconds[rows, at] - before
    share = np.clip((run - before) / np.where(length > 0, length, 1.0), 0.0, 1.0)
    return done + share * (ends[rows, at] - done)


def _within(passed: Floats, columns: int, count: Ints) -> Floats:
    """Return the epochs seen in each regime of the pattern; regimes after the last count as the last."""
    beyond = np.arange(passed.shape[1]) >= count[:, None]
    seen = np.zeros((len(passed), columns))
    width = min(columns, passed.shape[1])
    seen[:, :width] = np.where(beyond, 0.0, passed)[:, :width]
    seen[np.arange(len(passed)), count - 1] += np.where(beyond, passed, 0.0).sum(axis=1)
    return seen


def _left(rule: str, total: Floats, seen: Floats, now: Ints, count: Ints) -> Floats:
    """Return the remaining epochs in each regime of the pattern, by a rule of :mod:`.predictor`."""
    column = np.arange(seen.shape[1])
    there = column < count[:, None]
    rest = np.maximum(total - seen.sum(axis=1), 0.0)
    if rule == "greedy":
        return np.where(column == now[:, None], rest[:, None], 0.0)
    future = there & (column >= now[:, None])
    if rule == "restatement":
        over = np.where(column < now[:, None], seen, 0.0).sum(axis=1)
        expected = np.broadcast_to((np.maximum(total - over, 0.0) / (count - now))[:, None], seen.shape)
    else:
        posterior = np.where(there, (total / count)[:, None] + seen, 0.0)
        expected = posterior * (total / posterior.sum(axis=1))[:, None]
    more = np.where(future, np.maximum(expected - seen, 0.0), 0.0)
    more = np.where(more.sum(axis=1, keepdims=True) > 0, more, future)
    return more * (rest / more.sum(axis=1))[:, None]
