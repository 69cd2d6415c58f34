"""Estimation of gradient noise during training.

With gradients g_1 .. g_R of R replicas or accumulated passes, each over b examples, and their mean g,

    sigma_b^2 = 1 / (R - 1) sum_k |g_k - g|^2         variance of a gradient over b examples
    mu^2 = |g|^2 - sigma_b^2 / R                      squared norm of the true gradient
    sigma^2 = sigma_b^2 b / m0                        variance at the initial batch size m0

The mean of the squared norms, q = 1/R sum_k |g_k|^2, and |g|^2 are sufficient to compute them:
sigma_b^2 = R / (R - 1) (q - |g|^2).

A single gradient in a step has no sample variance.  Then two consecutive steps give one estimate, as if they
were two replicas (differenced estimator).  The true gradient hardly changes from step to step, so

    sigma_b^2 = |g(t) - g(t-1)|^2 / 2,   mu^2 = |(g(t) + g(t-1)) / 2|^2 - sigma_b^2 / 2.

Both mu^2 and sigma^2 are smoothed exponentially over examples, not steps: an estimate over R b examples keeps
the share theta^(R b / m0) of the previous estimate.  Both are divided by the sum of the weights, so that the
first estimate has full weight.  The noise scale is phi = m0 sigma^2 / mu^2.

Sources: Pollux section 3.1 (estimating sigma and mu), equation 7; for the unbiased forms, McCandlish et al.
2018 and Johnson et al. 2020 (AdaScale), which Pollux cites.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats

_SMOOTHING = 0.999
"""Default of theta: an estimate decays over about a thousand initial batches."""


def _replica_statistics(gradients: ArrayLike) -> tuple[float, float]:
    """Return mu^2 and sigma_b^2 from several gradients over different examples.

    `gradients`: the gradients of R >= 2 replicas or passes, each over the same number of examples. Result:
    mu^2, unbiased, which may be negative by chance; sigma_b^2, the trace of the covariance.
    """
    gradients = np.asarray(gradients, np.float64)
    if gradients.ndim != 2 or len(gradients) < 2:
        raise ValueError(f"gradients of shape {gradients.shape}: must have at least two rows")
    mean = gradients.mean(axis=0)
    variance = float(((gradients - mean) ** 2).sum() / (len(gradients) - 1))
    return float(mean @ mean) - variance / len(gradients), variance


def _norm_statistics(mean_square: float, square_of_mean: float, count: int) -> tuple[float, float]:
    """Return the result of `_replica_statistics` from norms only.

    `mean_square`: q, mean of the gradients' squared norms. `square_of_mean`: |g|^2, squared norm of the mean
    gradient. `count`: R >= 2. The variance is a difference of two norms, and 0 if rounding makes it negative.
    """
    if count < 2:
        raise ValueError(f"count = {count}: must be at least 2")
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
        """Add the gradients of one step.

        `gradients`: the gradient of each replica and accumulated pass. A single gradient is differenced with
        the single gradient of the step before, if both have the same number of examples. `local_batch`: b,
        examples of each gradient.
        """
        gradients = np.atleast_2d(np.asarray(gradients, np.float64))
        if not gradients.size:
            raise ValueError("gradients: must have at least one row")
        if len(gradients) > 1:
            self._last = None
            self._take(_replica_statistics(gradients), len(gradients), local_batch)
        elif self._last is not None and self._last[1] == local_batch:
            # Each gradient is in at most one pair, because two pairs with a common gradient are dependent.
            self._take(_replica_statistics((self._last[0], gradients[0])), 2, local_batch)
            self._last = None
        else:
            self._last = gradients[0].copy(), local_batch

    def observe_norms(self, mean_square: float, square_of_mean: float, count: int, local_batch: int) -> None:
        """Add the gradients of one step, two or more, by their norms: see `_norm_statistics`.

        `mean_square`, `square_of_mean`: mean of the gradients' squared norms, and squared norm of their mean.
        `count`: R, number of gradients. `local_batch`: b, examples of each gradient.
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
        """Return the state of the estimator as arrays for :meth:`restore`."""
        found = {"sums": np.array([self._squared_norm, self._variance, self._weight])}
        if self._last is not None:
            found |= {"last": self._last[0], "last_batch": np.array(float(self._last[1]))}
        return found

    def restore(self, state: Mapping[str, Floats]) -> None:
        """Restore the state of another estimator of the same job."""
        self._squared_norm, self._variance, self._weight = (float(each) for each in state["sums"])
        self._last = None
        if "last" in state:
            self._last = np.array(state["last"], np.float64), int(state["last_batch"])

    @property
    def squared_norm(self) -> float:
        """Estimate of mu^2; NaN before the first observation."""
        return self._squared_norm / self._weight if self._weight else math.nan

    @property
    def variance(self) -> float:
        """Estimate of sigma^2 at the initial batch size; NaN before the first observation."""
        return self._variance / self._weight if self._weight else math.nan

    @property
    def noise_scale(self) -> float:
        """Estimate of phi in examples; infinite if mu^2 <= 0, NaN before the first observation."""
        if not self._weight:
            return math.nan
        if self.squared_norm <= 0:
            return math.inf
        return self.initial_batch * self.variance / self.squared_norm
