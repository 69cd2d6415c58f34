"""Pollux on small clusters: limits, rigid and pinned jobs, several types, determinism."""

import pytest

from copter.problems.cluster import make_policy
from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.pollux import WEIGHTED_MEAN, Pollux
from support.policy_cases import simulate

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


def test_the_same_seed_gives_the_same_simulation_and_another_one_does_not():
    runs = [simulate(scenario(T4), Pollux(seed=seed), placer=SiaPlacer()).segments for seed in (5, 5, 6)]
    assert runs[0] == runs[1] != runs[2]


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
