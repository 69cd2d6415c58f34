"""Estimating gradient noise while a job trains.

With gradients g_1 .. g_R of R replicas or accumulated passes, each over b examples, and their mean g,

    sigma_b^2 = 1 / (R - 1) sum_k |g_k - g|^2         variance of a gradient over b examples
    mu^2 = |g|^2 - sigma_b^2 / R                      squared norm of the true gradient
    sigma^2 = sigma_b^2 b / m0                        variance at the initial batch size m0

so that the mean of the squared norms, q = 1/R sum_k |g_k|^2, and |g|^2 say as much as the gradients do:
sigma_b^2 = R / (R - 1) (q - |g|^2).

A single gradient a step has no sample variance.  Then two steps that follow each other make one estimate, as
if they were two replicas (differenced estimator): the true gradient hardly changes from step to step, so

    sigma_b^2 = |g(t) - g(t-1)|^2 / 2,   mu^2 = |(g(t) + g(t-1)) / 2|^2 - sigma_b^2 / 2.

Both mu^2 and sigma^2 are smoothed exponentially over examples, not steps: an estimate over R b of them keeps
the share theta^(R b / m0) of what was known before; and both are divided by the weight seen so far, so that
the first estimate counts in full.  The noise scale is phi = m0 sigma^2 / mu^2.

Sources: Pollux section 3.1 (estimating sigma and mu), equation 7; McCandlish et al. 2018 and
Johnson et al. 2020 (AdaScale), whom it cites, for the unbiased forms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats

_SMOOTHING = 0.999
"""theta, by default: an estimate is forgotten over about a thousand initial batches."""


def _replica_statistics(gradients: ArrayLike) -> tuple[float, float]:
    """Squared norm of the true gradient and variance of one of several gradients over different examples.

    `gradients`: the gradients of R >= 2 replicas or passes, each over as many examples. Result: mu^2,
    unbiased; may be negative by chance; sigma_b^2, trace of the covariance.
    """
    gradients = np.asarray(gradients, np.float64)
    if gradients.ndim != 2 or len(gradients) < 2:
        raise ValueError(f"gradients have the shape {gradients.shape}: two rows or more are needed")
    mean = gradients.mean(axis=0)
    variance = float(((gradients - mean) ** 2).sum() / (len(gradients) - 1))
    return float(mean @ mean) - variance / len(gradients), variance


def _norm_statistics(mean_square: float, square_of_mean: float, count: int) -> tuple[float, float]:
    """The statistics of `_replica_statistics`, by what replicas can sum without showing each other all.

    `mean_square`: q, mean of the gradients' squared norms. `square_of_mean`: |g|^2, squared norm of the mean
    gradient. `count`: R >= 2. Result: mu^2 and sigma_b^2. The variance is the difference of two norms: it is
    0 where it is smaller than their rounding errors.
    """
    if count < 2:
        raise ValueError(f"count = {count}: the statistics of two gradients or more are needed")
    variance = max(mean_square - square_of_mean, 0.0) * count / (count - 1)
    return square_of_mean - variance / count, variance


class NoiseEstimator:
    """Running estimate of a job's gradient noise scale.

    `initial_batch`: m0, examples. `smoothing`: theta, in [0, 1).
    """

    def __init__(self, initial_batch: int, smoothing: float = _SMOOTHING) -> None:
        if initial_batch < 1:
            raise ValueError(f"initial_batch = {initial_batch}: must be at least 1")
        if not 0 <= smoothing < 1:
            raise ValueError(f"smoothing = {smoothing}: must be in [0, 1)")
        self.initial_batch, self.smoothing = initial_batch, smoothing
        self._squared_norm = self._variance = self._weight = 0.0
        self._last: tuple[Floats, int] | None = None

    def observe(self, gradients: ArrayLike, local_batch: int) -> None:
        """Take in the gradients of one step.

        `gradients`: the gradients of each replica and accumulated pass; a single one is differenced with that
        of the step before, if that was one of as many examples. `local_batch`: b, examples of each.
        """
        gradients = np.atleast_2d(np.asarray(gradients, np.float64))
        if not gradients.size:
            raise ValueError("a step has at least one gradient")
        if len(gradients) > 1:
            self._last = None
            self._take(_replica_statistics(gradients), len(gradients), local_batch)
        elif self._last is not None and self._last[1] == local_batch:
            # Each gradient is in one pair: pairs that share one are not independent.
            self._take(_replica_statistics((self._last[0], gradients[0])), 2, local_batch)
            self._last = None
        else:
            self._last = gradients[0].copy(), local_batch

    def observe_norms(self, mean_square: float, square_of_mean: float, count: int, local_batch: int) -> None:
        """Take in the gradients of one step, two or more, by their norms: see `_norm_statistics`.

        `mean_square`, `square_of_mean`: mean of the gradients' squared norms, and squared norm of their mean.
        `count`: R, gradients. `local_batch`: b, examples of each.
        """
        self._last = None
        self._take(_norm_statistics(mean_square, square_of_mean, count), count, local_batch)

    def _take(self, statistics: tuple[float, float], count: int, local_batch: int) -> None:
        squared_norm, variance = statistics
        keep = self.smoothing ** (count * local_batch / self.initial_batch)
        self._weight = keep * self._weight + (1.0 - keep)
        self._squared_norm = keep * self._squared_norm + (1.0 - keep) * squared_norm
        at_initial = variance * local_batch / self.initial_batch
        self._variance = keep * self._variance + (1.0 - keep) * at_initial

    def state(self) -> dict[str, Floats]:
        """What it knows, as arrays that :meth:`restore` reads."""
        found = {"sums": np.array([self._squared_norm, self._variance, self._weight])}
        if self._last is not None:
            found |= {"last": self._last[0], "last_batch": np.array(float(self._last[1]))}
        return found

    def restore(self, state: Mapping[str, Floats]) -> None:
        """Know what another estimator of the same job knew."""
        self._squared_norm, self._variance, self._weight = (float(each) for each in state["sums"])
        self._last = None
        if "last" in state:
            self._last = np.array(state["last"], np.float64), int(state["last_batch"])

    @property
    def squared_norm(self) -> float:
        """mu^2; NaN before the first estimate."""
        return self._squared_norm / self._weight if self._weight else math.nan

    @property
    def variance(self) -> float:
        """sigma^2 at the initial batch size; NaN before the first estimate."""
        return self._variance / self._weight if self._weight else math.nan

    @property
    def noise_scale(self) -> float:
        """phi, examples; infinite while the gradient is lost in noise, NaN before the first estimate."""
        if not self._weight:
            return math.nan
        if self.squared_norm <= 0:
            return math.inf
        return self.initial_batch * self.variance / self.squared_norm
