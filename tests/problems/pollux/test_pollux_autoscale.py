"""The size of a cluster in the cloud by the utility of its GPUs."""

import pytest

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
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


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"min_nodes": 0}, "min_nodes = 0"), ({"low": 0.9}, "low = 0.9"), ({"patience": 0}, "patience = 0")],
)
def test_settings_are_checked(settings, text):
    with pytest.raises(ValueError, match=text):
        AutoscalingPollux(**settings)
