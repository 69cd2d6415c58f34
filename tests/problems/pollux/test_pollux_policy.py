"""Pollux on small clusters: limits, rigid and pinned jobs, several types, determinism."""

import numpy as np
import pytest

from copter.problems.cluster import make_policy
from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.nodes import NodeFailure
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.simulation.jobs import SimulatedJob
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


def test_no_node_is_shared_by_two_distributed_jobs():
    simulator = simulate(scenario(MIXED, 10), Pollux(seed=3), placer=SiaPlacer())
    times = sorted({one.begin for one in simulator.segments})
    wide = [one for one in simulator.segments if one.nodes > 1]
    assert wide
    for time in times:
        on = [(one.type, node) for one in wide if one.begin <= time < one.end for node, _ in one.place]
        assert len(on) == len(set(on))


def test_the_same_seed_gives_the_same_simulation_and_another_one_does_not():
    runs = [simulate(scenario(T4), Pollux(seed=seed), placer=SiaPlacer()).segments for seed in (5, 5, 6)]
    assert runs[0] == runs[1] != runs[2]


def test_a_rigid_job_gets_its_gpus_or_none():
    rigid = JobSubmission("rigid", 0.0, "", "train", "rigid", 6)
    simulator = simulate(scenario(T4, jobs=[rigid]), Pollux(), placer=SiaPlacer())
    assert {one.gpus for one in simulator.segments if one.job == "rigid"} == {6}
    assert simulator.completed == 9


def test_a_job_that_must_not_be_preempted_keeps_what_it_got():
    pinned = JobSubmission("pinned", 0.0, "", "train", preemptible=False)
    simulator = simulate(scenario(T4, jobs=[pinned]), Pollux(), placer=SiaPlacer())
    assert len([one for one in simulator.segments if one.job == "pinned"]) == 1


def test_nothing_is_put_on_a_node_that_failed():
    failures = [NodeFailure(300.0, "t4", 1, 900.0)]
    simulator = simulate(scenario(T4), Pollux(), placer=SiaPlacer(), events=failures)
    assert simulator.completed == 8
    for one in simulator.segments:
        if one.begin < 1200.0 and one.end > 300.0:
            assert 1 not in [node for node, _ in one.place]


def test_a_job_that_runs_on_four_gpus_only_gets_four():
    profile = CountProfile("four", 30.0, 500.0, [4], {"t4": [2.0]})
    four = JobSubmission("four", 0.0, "", "four")
    simulator = simulate(scenario(T4, 3, jobs=[four], profiles={"four": profile}), Pollux())
    assert {one.gpus for one in simulator.segments if one.job == "four"} == {4}


def test_of_two_types_the_one_with_more_gpus_is_kept_and_of_equals_the_faster():
    policy, timer = Pollux(), Timer()
    job = SimulatedJob(JobSubmission("j", 0.0, "", "train"), training("train"), "adaptive", timer)
    nodes = [("t4", 0), ("t4", 1), ("a100", 0)]
    policy.problem([job], MIXED, nodes)
    more = policy._settle(job, np.array([3, 1, 2], np.int8), nodes)
    assert more == ("t4", ((0, 3), (1, 1)))
    equal = policy._settle(job, np.array([0, 2, 2], np.int8), nodes)
    assert equal == ("a100", ((0, 2),))
    assert policy._settle(job, np.array([0, 0, 0], np.int8), nodes) is None


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


def test_figures_are_those_of_the_answer():
    policy, timer = Pollux(), Timer()
    job = SimulatedJob(JobSubmission("j", 0.0, "", "train"), training("train"), "adaptive", timer)
    answer = policy.schedule(ClusterState(0.0, 0, 60.0, T4, {"j": job}))
    assert answer["j"].configuration == Configuration(1, 1, "t4")
    assert policy.figures["utility"] == pytest.approx(1 / 16)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="generations = 0"):
        Pollux(generations=0)
    assert make_policy("pollux", seed=4).name == "pollux"
