"""Gradient noise from synthetic gradients whose mean and variance are known."""

import math

import numpy as np
import pytest

from copter.problems.cluster.estimation.gradients import NoiseEstimator, _norm_statistics, _replica_statistics
from copter.problems.cluster.profiles.throughput import noise_scale

MEAN = np.linspace(-1.0, 1.0, 50)
DEVIATION = 3.0
"""Of each of the 50 entries of one example's gradient."""
TRUE_NORM, TRUE_VARIANCE = float(MEAN @ MEAN), 50 * DEVIATION**2


def _gradients(rng, replicas, local_batch):
    return MEAN + rng.normal(0.0, DEVIATION / math.sqrt(local_batch), (replicas, MEAN.size))


def test_statistics_of_replicas_by_hand():
    # Mean (1, 1); deviations (1, 0) and (-1, 0): variance 2 over one degree of freedom.
    assert _replica_statistics([[2.0, 1.0], [0.0, 1.0]]) == pytest.approx((2.0 - 1.0, 2.0))
    with pytest.raises(ValueError, match="two rows"):
        _replica_statistics([[1.0, 2.0]])


def test_statistics_of_replicas_are_unbiased():
    rng = np.random.default_rng(0)
    found = np.array([_replica_statistics(_gradients(rng, 4, 8)) for _ in range(4000)])
    norm, variance = found.mean(axis=0)
    error = found.std(axis=0) / math.sqrt(len(found))
    assert abs(norm - TRUE_NORM) < 4 * error[0]
    assert abs(variance - TRUE_VARIANCE / 8) < 4 * error[1]


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


def test_one_replica_is_differenced_only_with_as_many_examples():
    estimator = NoiseEstimator(1)
    estimator.observe([2.0, 1.0], 4)
    assert math.isnan(estimator.noise_scale)
    estimator.observe([5.0, 5.0], 8)
    assert math.isnan(estimator.noise_scale)
    estimator.observe([5.0, 3.0], 8)
    assert estimator.variance == pytest.approx(2.0 * 8)
    assert estimator.squared_norm == pytest.approx(25.0 + 16.0 - 1.0)
    assert estimator.noise_scale == pytest.approx(16.0 / 40.0)


def test_smoothing_goes_by_examples():
    # Two steps of 8 examples forget as much as one of 16; the first estimate counts in full.
    quick, slow = NoiseEstimator(4, 0.5), NoiseEstimator(4, 0.5)
    quick.observe([[3.0], [1.0]], 8)
    slow.observe([[3.0], [1.0]], 4)
    slow.observe([[3.0], [1.0]], 4)
    assert quick.squared_norm == pytest.approx(slow.squared_norm) == pytest.approx(3.0)
    quick.observe([[9.0], [1.0]], 8)
    slow.observe([[9.0], [1.0]], 4)
    slow.observe([[9.0], [1.0]], 4)
    assert quick.squared_norm == pytest.approx(slow.squared_norm)


def test_a_gradient_that_cannot_be_told_from_noise():
    estimator = NoiseEstimator(1)
    estimator.observe([[1.0], [-1.0]], 1)
    assert estimator.squared_norm < 0
    assert estimator.noise_scale == math.inf
    with pytest.raises(ValueError, match="smoothing"):
        NoiseEstimator(1, 1.0)
    with pytest.raises(ValueError, match="initial_batch"):
        NoiseEstimator(0)


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
            assert _norm_statistics(squares, mean @ mean, count) == pytest.approx(
                _replica_statistics(gradients)
            )
    assert by_norms.squared_norm == pytest.approx(by_gradients.squared_norm)
    assert by_norms.variance == pytest.approx(by_gradients.variance)
    assert _norm_statistics(1.0, 1.0 + 1e-15, 2)[1] == 0.0  # rounding is no variance
    with pytest.raises(ValueError, match="count = 1"):
        _norm_statistics(1.0, 1.0, 1)


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
