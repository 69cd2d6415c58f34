"""The size of a cluster in the cloud by the utility of its GPUs."""

import pytest

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.pollux.cloud import AutoscalingPollux
from support.policy_cases import simulate


def model(work):
    """Its gradient noise, and with it the use of GPUs, grows by a factor of 50."""
    return TrainingProfile("m", 30.0, work, {"t4": 1.0}, Scaling(64.0, (2.0, 100.0), 0.02, (0.02, 0.2)))


def scenario(work=100_000.0):
    return Scenario(Cluster([GpuType("t4", 4, 1)]), [JobSubmission("j", 0.0, "", "m")], {"m": model(work)})


def sizes(**settings):
    policy = AutoscalingPollux(max_nodes=8, patience=3, generations=10, population=20, **settings)
    simulator = simulate(scenario(), policy, placer=SiaPlacer())
    return [record.there["t4"] // 4 for record in simulator.records], simulator


def test_nodes_follow_the_efficiency_of_large_batches():
    nodes, simulator = sizes()
    assert nodes[0] == 1 and simulator.completed == 1
    assert nodes[len(nodes) // 3] < nodes[-1] <= 8


def test_a_range_that_always_holds_changes_nothing():
    assert set(sizes(low=0.0, high=10.0)[0]) == {1}


def test_the_size_chosen_has_the_utility_closest_to_the_middle():
    """Against all sizes; the job has had enough GPUs to be allowed any number."""
    policy, timer = AutoscalingPollux(max_nodes=8, low=0.5, high=0.6), Timer()
    cluster = Cluster([GpuType("t4", 4, 8)])
    job = SimulatedJob(JobSubmission("j", 0.0, "", "m"), model(1000.0), "adaptive", timer)
    job.enter()
    job.give(0.0, Configuration(8, 32, "t4"), tuple((node, 4) for node in range(8)))
    timer.time = 3600.0
    now = ClusterState(3600.0, 1, 60.0, cluster, {"j": job})
    policy.schedule(now)
    utilities = [policy.utility_of(now, nodes) for nodes in range(1, 9)]
    assert utilities == sorted(utilities, reverse=True)
    best = min(range(1, 9), key=lambda nodes: abs(utilities[nodes - 1] - 0.55))
    assert policy._best_size(now) == best


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"min_nodes": 0}, "min_nodes = 0"), ({"low": 0.9}, "low = 0.9"), ({"patience": 0}, "patience = 0")],
)
def test_settings_are_checked(settings, text):
    with pytest.raises(ValueError, match=text):
        AutoscalingPollux(**settings)
