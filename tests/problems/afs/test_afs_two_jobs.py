"""Two jobs: splits of GPUs against all of them, and the toy example of appendix A."""

import numpy as np
import pytest

from copter.problems.afs.reproductions import (
    afs_split,
    best_split,
    grown_split,
    random_pair,
    total_seconds,
    toy_hours,
)


def excess(split, work, speed, gpus):
    best = total_seconds(work, speed, best_split(work, speed, gpus), gpus)
    return total_seconds(work, speed, split(work, speed, gpus), gpus) / best


def test_the_first_gpu_by_1_and_2_goes_where_it_should():
    rng = np.random.default_rng(5)
    for _ in range(200):
        assert excess(grown_split, *random_pair(rng, 1, concave=True), 1) == pytest.approx(1.0)


def test_splits_grown_by_1_and_2_are_the_best_ones_for_nine_concave_pairs_in_ten():
    rng = np.random.default_rng(6)
    found = []
    for _ in range(400):
        gpus = int(rng.integers(2, 17))
        found.append(excess(grown_split, *random_pair(rng, gpus, concave=True), gpus))
    assert np.mean(np.array(found) < 1 + 1e-9) > 0.85
    assert np.mean(found) < 1.005


def test_algorithm_1_loses_little_where_nobody_comes():
    rng = np.random.default_rng(7)
    found = []
    for _ in range(400):
        gpus = int(rng.integers(2, 17))
        found.append(excess(afs_split, *random_pair(rng, gpus, concave=True), gpus))
    assert np.mean(found) < 1.02
    assert min(found) >= 1 - 1e-12


def test_toy_example_by_hand():
    """A runs 1 h on both GPUs, then B 1.5 h; or both run 2 h on one each."""
    assert toy_hours("srtf", 0) == pytest.approx((1.0 + 2.5) / 2)
    assert toy_hours("max-min", 0) == pytest.approx(2.0)


@pytest.mark.parametrize("x", [1.1, 1.5, 1.9])
def test_arrivals_reverse_the_toy_example(x):
    assert toy_hours("max-min", 10, x) < toy_hours("srtf", 10, x)
