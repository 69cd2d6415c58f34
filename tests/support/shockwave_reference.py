"""Rules and forecasts of Shockwave for one job at a time, and windows from arrays: references for both."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.problems.shockwave import ORACLE, PREDICTORS, pattern_of
from copter.problems.shockwave.forecast import Forecast
from copter.problems.shockwave.window import LAMBDA, ROUNDS, _window


def within(pattern, seen):
    """Return the epochs seen in each regime of the pattern; later regimes count as the last one."""
    counts = np.zeros(len(pattern))
    given = np.asarray(seen, float)
    known = min(given.size, len(pattern))
    counts[:known] = given[:known]
    counts[-1] += given[known:].sum()
    return counts


def restatement(pattern, seen):
    """Return the expected epochs of the K regimes by restatement; the last entry of `seen` is ongoing."""
    counts = within(pattern, seen)
    over = min(max(len(seen) - 1, 0), len(pattern) - 1)
    expected = counts.copy()
    rest = max(pattern.epochs - counts[:over].sum(), 0.0)
    expected[over:] = rest / (len(pattern) - over)
    return _at_least_seen(pattern, expected, counts, over)


def bayesian(pattern, seen):
    """Return the expected epochs of the K regimes by the standard update of the Dirichlet prior."""
    counts = within(pattern, seen)
    over = min(max(len(seen) - 1, 0), len(pattern) - 1)
    posterior = pattern.epochs / len(pattern) + counts
    return _at_least_seen(pattern, pattern.epochs * posterior / posterior.sum(), counts, over)


def _greedy(pattern, seen):
    """Return the expected epochs of the K regimes if the ongoing one never ends."""
    expected = within(pattern, seen)
    now = min(max(len(seen) - 1, 0), len(pattern) - 1)
    expected[now] += max(pattern.epochs - expected.sum(), 0.0)
    return expected


def _at_least_seen(pattern, expected, counts, over):
    """Return epochs that include those seen: past regimes have exactly these, the others share the rest."""
    result = counts.copy()
    rest = max(pattern.epochs - counts.sum(), 0.0)
    more = np.maximum(expected[over:] - counts[over:], 0.0)
    if more.sum() <= 0.0:
        more = np.ones(len(pattern) - over)
    result[over:] += rest * more / more.sum()
    return result


RULES = {"restatement": restatement, "bayesian": bayesian, "greedy": _greedy}


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


def outlook(state, predictor="restatement", pattern=None):
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


def remaining_epochs(pattern, expected, seen):
    """Expected epochs that are left of each regime.

    `expected`: epochs of each regime in all, as a rule expects them. `seen`: epochs seen of each regime that
    has begun, as of :func:`observe`.
    """
    return np.maximum(expected - within(pattern, seen), 0.0)


def finish_time_fairness(state, seen):
    """Equation (9); 1 for a job that takes no time.

    `seen`: what is predicted of it.
    """
    shared = seen.total_seconds * state.contention
    if shared <= 0:
        return 1.0
    age = state.run_seconds + state.waited_seconds
    return (age + seen.remaining_seconds * state.contention) / shared


def window_of(
    names,
    gpus,
    weights,
    epochs,
    total_epochs,
    outlooks,
    *,
    rounds=ROUNDS,
    capacity,
    round_seconds,
    lam=LAMBDA,
):
    """Window from arrays.

    `weights`: rho_j^k, finite and not negative. `epochs`, `total_epochs`: F_j so far, and E_j in all.
    `outlooks`: what is left, one for each job. `rounds`, `capacity`: T and M. `round_seconds`: D. `lam`:
    lambda.
    """
    columns = max((len(o.epochs) for o in outlooks), default=0)
    left, seconds = np.zeros((len(outlooks), columns)), np.ones((len(outlooks), columns))
    for j, o in enumerate(outlooks):
        left[j, : len(o.epochs)], seconds[j, : len(o.epochs)] = o.epochs, o.epoch_seconds
    seen = Forecast(
        np.asarray(epochs, float),
        np.asarray(total_epochs, float),
        left,
        seconds,
        np.array([o.remaining_seconds for o in outlooks], float),
        np.array([o.total_seconds for o in outlooks], float),
        np.ones(len(outlooks)),
    )
    return _window(
        names, gpus, weights, seen, rounds=rounds, capacity=capacity, round_seconds=round_seconds, lam=lam
    )
