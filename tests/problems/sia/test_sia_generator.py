"""The built-in generator: same seed, same jobs; shapes as documented."""

from collections import Counter

import numpy as np
import pytest

from copter.problems.sia import builtin_cluster, builtin_profiles, generate
from copter.problems.sia.generator import _FIGURES, _JOB_MIX, _arrival_times


def test_same_seed_same_jobs():
    options = {"rigid": 0.2, "strong_scaling": 0.2, "non_preemptible": 0.1}
    assert generate(64, 500, seed=7, **options).jobs == generate(64, 500, seed=7, **options).jobs
    assert generate(64, 500, seed=7).jobs != generate(64, 500, seed=8).jobs


def test_mix_of_applications():
    jobs = generate(64, 20_000, seed=2).jobs
    counts = Counter(job.application for job in jobs)
    for application, share in _JOB_MIX.items():
        assert counts[application] / len(jobs) == pytest.approx(share, abs=0.015)
    assert set(_JOB_MIX) == set(builtin_profiles())


def test_arrivals_follow_the_hours_and_come_in_bursts():
    times = np.concatenate([_arrival_times(40_000, 24.0, np.random.default_rng(seed)) for seed in range(8)])
    hourly = np.bincount((times // 3600).astype(int), minlength=24) / times.size * 24
    assert np.corrcoef(hourly, _FIGURES["hourly"])[0, 1] > 0.9
    one = _arrival_times(40_000, 24.0, np.random.default_rng(0))
    minutes = np.bincount((one // 60).astype(int), minlength=1440).reshape(24, 60)
    dispersion = np.median(minutes.var(axis=1) / minutes.mean(axis=1))
    assert 15 < dispersion < 60  # the authors' 40k workload: 38; a Poisson process: 1


@pytest.mark.parametrize("gpus", [64, 512, 2560, 10240, 25600, 100_000])
def test_cluster_of_about_the_size_asked_for(gpus):
    cluster = builtin_cluster(gpus)
    assert cluster.gpus == pytest.approx(gpus, rel=0.15 if gpus < 256 else 0.005)
    assert len(cluster.names) == 7
