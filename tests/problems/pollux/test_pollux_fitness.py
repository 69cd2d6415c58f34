"""Fitness, weights, penalties and utility by hand."""

import numpy as np
import pytest

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.jobs import Timer
from copter.problems.pollux import POWER_MEAN, WEIGHTED_MEAN, Fitness
from copter.problems.pollux.fitness import utility
from support.policy_cases import state_of


def test_weights_fall_with_the_root_of_gpu_time_after_four_hours():
    hour = 3600.0
    weights = [WEIGHTED_MEAN.weight(hours * hour) for hours in (0.0, 3.0, 4.0, 16.0, 400.0)]
    assert weights == pytest.approx([1.0, 1.0, 1.0, 0.5, 0.1])
    assert POWER_MEAN.weight(400 * hour) == 1.0


@pytest.mark.parametrize(("power", "mean"), [(-1.0, 1.6), (0.0, 2.0), (1.0, 2.5), (2.0, 8.5**0.5)])
def test_power_means_of_one_and_four(power, mean):
    assert Fitness(power=power)([1.0, 4.0]) == pytest.approx(mean, rel=2e-3)


@pytest.mark.parametrize("power", [-1.0, 0.0, 0.5, 1.0])
def test_the_sum_that_is_maximized_orders_allocations_as_the_fitness_does(power):
    fitness = Fitness(power=power)
    samples = np.random.default_rng(0).uniform(0.0, 4.0, (40, 5))
    by_sum = np.argsort([fitness.value(speedups).sum() for speedups in samples])
    assert by_sum.tolist() == np.argsort([fitness(list(speedups)) for speedups in samples]).tolist()


def test_a_restart_costs_a_quarter_or_a_share_that_falls_with_age():
    timer = Timer()
    job = state_of("a", [1.0], time=0.0, timer=timer)
    job.seen.restart_seconds = 30.0
    job.enter()
    speedup = np.array([2.0])
    timer.time = 90.0
    assert WEIGHTED_MEAN.restarted(speedup, job) == [2.0]  # it has not begun: nothing restarts
    assert POWER_MEAN.restarted(speedup, job) == [2.0]
    job.give(90.0, Configuration(1, 1, "t0"))
    job.restarts = 2
    timer.time = 270.0
    assert WEIGHTED_MEAN.restarted(speedup, job) == [1.75]
    assert POWER_MEAN.restarted(speedup, job) == pytest.approx([2.0 * (270 - 60) / 300])


def test_utility_is_speedup_by_gpus():
    assert utility([1.0, 3.0, 2.0], 8) == 0.75
    assert utility([], 0) == 0.0
