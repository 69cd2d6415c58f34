"""Data of program (11): values of the next T rounds for every job (Shockwave, section 6.1, appendix G).

Let y_j be the rounds that job j runs in the window, g_j its GPUs, F_j its epochs so far, E_j its total epochs
and R_j its remaining run time.  There are N jobs and M GPUs, and a round takes D seconds:

    maximise  1/(N M) sum_j rho_j^k log UTIL_j(y_j)  -  lambda/Z_0 H(y)
    UTIL_j(y) = (F_j + epochs of y D seconds through the regimes in order) / E_j                          (7)
    H(y)      = max( sum_j g_j R_j(y_j) / M,  max_j R_j(y_j) ),   R_j(y) = max(R_j - y D, 0)             (10)
    sum over jobs that run in round t of g_j <= M  for every t;  a job runs at most once in a round;
    regimes in order; no GPU idle while a job fits.

The data use two facts:

- The objective does not depend on *which* rounds a job gets, and all rounds have the same capacity.  So the
  relaxation with a variable x_jt in [0, 1] for each job and round, and a row for each round, has the same
  optimum as the relaxation over y_j = sum_t x_jt in [0, T] with the single row sum_j g_j y_j <= M T:
  x_jt = y_j / T has the same objective as any x with these y.
- Progress through the regimes in order is piecewise linear in y, but not concave where a job becomes faster.
  The relaxation replaces the progress by its least concave majorant over the reachable rounds.  The linear
  pieces of the majorant are *segments*, each with a number of rounds and a progress per round.  The progress
  per round falls from segment to segment, so their order needs no constraint.  So the bound of the relaxation
  holds for every plan with the regimes in order.

In the paper, the first part of H sums the run times of jobs without their numbers of GPUs.  Here it includes
these numbers, because otherwise it is not a lower bound on the makespan; with one GPU per job both are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.shockwave.forecast import POWER, Forecast, budgets, forecast
from copter.problems.shockwave.interface import RoundState

ROUNDS = 20
"""T, the published number of rounds in a plan."""
LAMBDA = 10.0
"""lambda; in appendix G.2, values from 1e-1 to 1e1 give similar results.

The value 1e-3 of section 6.1 has no effect in (11) as printed, because Z_0 is the sum of all jobs' run times.
"""
_FLOOR = 1e-6
"""Constant in the utility, so that log is finite for a job without progress; as in the authors' code."""
_NO_SECONDS = 1e-9
"""Sum of the total seconds of all jobs below which it counts as 1."""


@dataclass(frozen=True)
class Window:
    """Data of a plan, with one entry for each job unless stated otherwise.

    `weights`: rho_j^k >= 0; jobs of weight 0 do not affect the welfare. `base`: utility without any round,
    F_j / E_j plus the floor; positive. `remaining`: R_j, seconds. `total_seconds`: P_j, seconds; their sum is
    Z_0. `segment_start`: index of each job's first segment. `segment_rounds`: rounds of each segment.
    `segment_gain`: gain in utility per round of each segment, which falls from segment to segment of a job.
    `regime_start`, `regime_rounds`, `regime_gain`: the same data of regimes, in the order in which a job has
    to run them.
    `rounds`, `capacity`: T and M. `round_seconds`: D. `lam`: lambda.
    """

    names: tuple[str, ...]
    gpus: Ints
    weights: Floats
    base: Floats
    remaining: Floats
    total_seconds: Floats
    segment_start: Ints
    segment_rounds: Floats
    segment_gain: Floats
    regime_start: Ints
    regime_rounds: Floats
    regime_gain: Floats
    rounds: int
    capacity: int
    round_seconds: float
    lam: float

    def __len__(self) -> int:
        return len(self.names)

    @property
    def scale(self) -> float:
        """Factor on the welfare, 1 / (N M)."""
        return 1.0 / (max(len(self), 1) * self.capacity)

    @property
    def makespan_weight(self) -> float:
        """Factor on H, lambda / Z_0."""
        total = float(self.total_seconds.sum())
        return self.lam / (total if total > _NO_SECONDS else 1.0)

    @property
    def most_rounds(self) -> Floats:
        """Real number of rounds that each job can use in the window: min(T, R_j / D)."""
        return np.add.reduceat(np.append(self.segment_rounds, 0.0), self.segment_start[:-1]) * (
            np.diff(self.segment_start) > 0
        )

    def utility(self, rounds: Floats) -> Floats:
        """Return the utility of each job after some rounds, with the regimes in order."""
        return self._progress(rounds, self.regime_start, self.regime_rounds, self.regime_gain)

    def relaxed_utility(self, rounds: Floats) -> Floats:
        """Return the least concave majorant of the utility, as in the relaxation."""
        return self._progress(rounds, self.segment_start, self.segment_rounds, self.segment_gain)

    def _progress(self, rounds: Floats, start: Ints, length: Floats, gain: Floats) -> Floats:
        owner = np.repeat(np.arange(len(self)), np.diff(start))
        before = np.cumsum(length) - length
        if len(length):
            before -= before[start[:-1].clip(max=len(length) - 1)][owner]
        inside = np.clip(rounds[owner] - before, 0.0, length)
        return self.base + np.bincount(owner, inside * gain, len(self))

    def welfare(self, utility: Floats) -> float:
        """Return the first part of the objective for positive utilities."""
        return self.scale * float(np.dot(self.weights, np.log(utility)))

    def makespan(self, rounds: Floats) -> float:
        """Return H, a lower bound on the seconds to complete all jobs after the window."""
        left = np.maximum(self.remaining - rounds * self.round_seconds, 0.0)
        if not left.size:
            return 0.0
        return max(float(np.dot(self.gpus, left)) / self.capacity, float(left.max()))

    def objective(self, rounds: Floats) -> float:
        """Return the objective of (11), maximised, with the regimes in order."""
        return self.welfare(self.utility(rounds)) - self.makespan_weight * self.makespan(rounds)

    def relaxed_objective(self, rounds: Floats) -> float:
        """Return the objective of the relaxation, never below :meth:`objective`."""
        return self.welfare(self.relaxed_utility(rounds)) - self.makespan_weight * self.makespan(rounds)

    def size(self, rounds: Floats) -> float:
        """Return the sum of magnitudes of the relaxed objective's terms, which may cancel."""
        logs = abs(np.log(self.relaxed_utility(rounds)))
        return self.scale * float(np.dot(self.weights, logs)) + self.makespan_weight * self.makespan(rounds)


def build_window(
    now: RoundState,
    *,
    rounds: int = ROUNDS,
    power: float = POWER,
    lam: float = LAMBDA,
    predictor: str = "restatement",
    ending: float = 0.0,
) -> Window:
    """Return the window of a round; a job that needs more GPUs than there are has no rounds in it.

    `rounds`: T. `power`: k, exponent of predicted finish time fairness in a job's weight. `lam`: lambda.
    `predictor`: one of :data:`copter.problems.shockwave.PREDICTORS`. `ending`: as in
    :func:`.forecast.budgets`; 0 for program (11) as printed.
    """
    seen = forecast(now.jobs, predictor)
    return window_of_forecast(now, seen, rounds=rounds, power=power, lam=lam, ending=ending)


def window_of_forecast(
    now: RoundState,
    seen: Forecast,
    *,
    rounds: int = ROUNDS,
    power: float = POWER,
    lam: float = LAMBDA,
    ending: float = 0.0,
) -> Window:
    """Return the window of a round from predictions for its jobs.

    `seen`: predictions for the jobs. `rounds`, `power`, `lam`, `ending`: as for :func:`build_window`.
    """
    return _window(
        [state.name for state in now.jobs],
        np.array([state.gpus for state in now.jobs], np.int64),
        budgets(seen, power, ending=ending, round_seconds=now.seconds),
        seen,
        rounds=rounds,
        capacity=now.gpus,
        round_seconds=now.seconds,
        lam=lam,
    )


def _window(
    names: Sequence[str],
    gpus: Ints,
    weights: Floats,
    seen: Forecast,
    *,
    rounds: int,
    capacity: int,
    round_seconds: float,
    lam: float,
) -> Window:
    if rounds < 1 or capacity < 1 or not round_seconds > 0:
        raise ValueError(
            f"rounds = {rounds}, capacity = {capacity}, round_seconds = {round_seconds}: must be positive"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()) or not 0 <= lam < math.inf:
        raise ValueError("weights, lam: must be finite and not negative")
    # Rounds of each regime that fit in the window, and progress per round of the regime.
    length = seen.left * seen.epoch_seconds / round_seconds
    usable = (rounds * (gpus <= capacity))[:, None]
    length = np.clip(usable - (np.cumsum(length, axis=1) - length), 0.0, length)
    keep = length > 0
    owner = np.nonzero(keep)[0]
    regime_rounds = length[keep]
    regime_gain = (round_seconds / (seen.epoch_seconds * seen.total_epochs[:, None]))[keep]
    envelope_owner, segment_rounds, segment_gain = _majorant(owner, regime_rounds, regime_gain)
    return Window(
        names=tuple(names),
        gpus=np.asarray(gpus, np.int64),
        weights=np.asarray(weights, float),
        base=seen.epochs / seen.total_epochs + _FLOOR,
        remaining=seen.remaining_seconds,
        total_seconds=seen.total_seconds,
        segment_start=_starts(envelope_owner, len(names)),
        segment_rounds=segment_rounds,
        segment_gain=segment_gain,
        regime_start=_starts(owner, len(names)),
        regime_rounds=regime_rounds,
        regime_gain=regime_gain,
        rounds=rounds,
        capacity=capacity,
        round_seconds=round_seconds,
        lam=lam,
    )


def _starts(owner: Ints, count: int) -> Ints:
    return np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=count)))).astype(np.int64)


def _majorant(owner: Ints, length: Floats, gain: Floats) -> tuple[Ints, Floats, Floats]:
    """Return least concave majorants: a piece that is steeper than the previous piece is merged with it.

    The order of merges does not matter.  So each pass merges, for every job, the first pair of such pieces.
    """
    while True:
        steeper = (owner[1:] == owner[:-1]) & (gain[1:] >= gain[:-1])
        first = np.flatnonzero(steeper)
        if not first.size:
            return owner, length, gain
        first = first[np.append(True, owner[first[1:]] != owner[first[:-1]])]
        second, whole = first + 1, length[first] + length[first + 1]
        length, gain = length.copy(), gain.copy()
        gain[first] = (length[first] * gain[first] + length[second] * gain[second]) / whole
        length[first] = whole
        owner, length, gain = np.delete(owner, second), np.delete(length, second), np.delete(gain, second)
