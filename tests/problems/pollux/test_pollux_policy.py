"""Pollux on small clusters, and its fitness by hand."""

import numpy as np
import pytest

from copter.problems.cluster import make_policy
from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.pollux import POWER_MEAN, WEIGHTED_MEAN, Fitness, Pollux
from support.policy_cases import simulate, state_of

T4 = Cluster([GpuType("t4", 4, 4)])
MIXED = Cluster([GpuType("t4", 4, 2), GpuType("a100", 8, 1)])


def training(name, work=4000.0, speed=None):
    scaling = Scaling(32.0, (2.0, 50.0), 0.05, (0.02, 0.08))
    return TrainingProfile(name, 30.0, work, speed or {"t4": 1.0, "a100": 3.0}, scaling)


def scenario(cluster, count=8, **special):
    jobs = [JobSubmission(f"j{k}", 100.0 * k, "", "train") for k in range(count)]
    jobs += special.get("jobs", [])
    return Scenario(cluster, jobs, {"train": training("train"), **special.get("profiles", {})})


def segments_of(simulator):
    by_job = {}
    for one in sorted(simulator.segments, key=lambda one: one.begin):
        by_job.setdefault(one.job, []).append(one)
    return by_job


@pytest.mark.parametrize("fitness", [WEIGHTED_MEAN, Pollux()._fitness], ids=["text", "published"])
@pytest.mark.parametrize("cluster", [T4, MIXED], ids=["one-type", "two-types"])
def test_jobs_begin_with_one_gpu_and_at_most_double(cluster, fitness):
    simulator = simulate(scenario(cluster), Pollux(fitness=fitness), placer=SiaPlacer())
    assert simulator.completed == 8
    for segments in segments_of(simulator).values():
        most = 1
        for one in segments:
            assert one.gpus <= most
            most = max(most, 2 * one.gpus)
    assert max(one.gpus for one in simulator.segments) > 2


@pytest.mark.parametrize("seed", range(6))
def test_a_rigid_job_that_was_put_on_several_types_gets_one(seed):
    """The algorithm finds 4 + 4 GPUs of two types as fit as 8 of one: the job waited for ever."""
    cluster = Cluster([GpuType("t4", 4, 6), GpuType("rtx", 8, 3), GpuType("a100", 8, 2)])
    jobs = [JobSubmission(f"r{k}", 0.0, "", "train", "rigid", gpus) for k, gpus in enumerate((8, 8, 16, 3))]
    speed = {"t4": 1.0, "rtx": 2.0, "a100": 3.0}
    profiles = {"train": training("train", speed=speed)}
    simulator = simulate(Scenario(cluster, jobs, profiles), Pollux(seed=seed), placer=SiaPlacer())
    assert simulator.completed == 4
    assert {(one.job, one.gpus) for one in simulator.segments} == {
        ("r0", 8),
        ("r1", 8),
        ("r2", 16),
        ("r3", 3),
    }
    # as there is room for all, nobody waits for long
    assert max(job.started for job in simulator.job_results()) <= 120.0


def test_one_job_alone_grows_to_the_best_shape():
    """With one job the fitness is its speedup: it ends up with the configuration of most goodput."""
    profile = training("train", work=50_000.0)
    alone = Scenario(T4, [JobSubmission("j", 0.0, "", "train")], {"train": profile})
    simulator = simulate(alone, Pollux(), placer=SiaPlacer())
    last = simulator.segments[-1]
    shapes = [Configuration(-(-gpus // 4), gpus, "t4") for gpus in range(1, 17)]
    best = max(shapes, key=lambda shape: profile.curve(shape)[-1])
    assert (last.nodes, last.gpus) == (best.nodes, best.gpus)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="generations = 0"):
        Pollux(generations=0)
    assert make_policy("pollux", seed=4).name == "pollux"


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
