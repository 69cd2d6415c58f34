"""Gradient noise from synthetic gradients whose mean and variance are known."""

import math

import numpy as np
import pytest

from copter.problems.cluster.estimation.gradients import NoiseEstimator
from copter.problems.cluster.profiles.throughput import noise_scale

MEAN = np.linspace(-1.0, 1.0, 50)
DEVIATION = 3.0
"""Of each of the 50 entries of one example's gradient."""
TRUE_NORM, TRUE_VARIANCE = float(MEAN @ MEAN), 50 * DEVIATION**2


def _gradients(rng, replicas, local_batch):
    return MEAN + rng.normal(0.0, DEVIATION / math.sqrt(local_batch), (replicas, MEAN.size))


@pytest.mark.parametrize("replicas, local_batch", [(8, 4), (2, 64), (1, 16), (1, 128)])
def test_the_noise_scale_of_several_replicas_and_of_one(replicas, local_batch):
    rng = np.random.default_rng(replicas * local_batch)
    estimator = NoiseEstimator(16, smoothing=0.9999)
    assert math.isnan(estimator.noise_scale)
    for _ in range(3000):
        estimator.observe(_gradients(rng, replicas, local_batch), local_batch)
    # Whatever the batch: m0 sigma^2 / mu^2 is the ratio for one example.
    expected = noise_scale(TRUE_NORM, TRUE_VARIANCE / 16, 16)
    assert estimator.noise_scale == pytest.approx(expected, rel=0.1)
    assert estimator.variance == pytest.approx(TRUE_VARIANCE / 16, rel=0.05)


def test_norms_say_what_gradients_do():
    rng = np.random.default_rng(5)
    by_norms, by_gradients = NoiseEstimator(16), NoiseEstimator(16)
    for count, local_batch in [(4, 8), (1, 32), (2, 16), (7, 4), (1, 32), (1, 32)]:
        gradients = _gradients(rng, count, local_batch)
        mean, squares = gradients.mean(axis=0), (gradients**2).sum(axis=1).mean()
        by_gradients.observe(gradients, local_batch)
        if count == 1:
            by_norms.observe(gradients, local_batch)
        else:
            by_norms.observe_norms(squares, mean @ mean, count, local_batch)
    assert by_norms.squared_norm == pytest.approx(by_gradients.squared_norm)
    assert by_norms.variance == pytest.approx(by_gradients.variance)
    with pytest.raises(ValueError, match="count = 1"):
        by_norms.observe_norms(1.0, 1.0, 1, 4)


@pytest.mark.parametrize("steps", [0, 3, 4])
def test_an_estimator_goes_on_from_its_state(steps):
    rng = np.random.default_rng(6)
    one, other = NoiseEstimator(16), NoiseEstimator(16)
    for _ in range(steps):
        one.observe(_gradients(rng, 1, 8), 8)
    other.restore(one.state())
    for _ in range(3):
        gradient = _gradients(rng, 1, 8)
        one.observe(gradient, 8)
        other.observe(gradient, 8)
        assert other.noise_scale == one.noise_scale or math.isnan(one.noise_scale)
    assert (other.squared_norm, other.variance) == (one.squared_norm, one.variance)
