"""A policy survives a time without any node."""

import numpy as np
import pytest

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.nodes import NodeFailure
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy, policy_names
from support.amounts import longer

POLICIES = [name for name in policy_names() if name not in ("pop-8", "pop-16", "pop-32")]
"""All but those that are as pop-4 with more parts."""
SHORT = {"pollux": {"generations": 1, "population": 6, "round_seconds": 600.0}}
"""Settings with which a policy answers soon enough for tests."""
SLOW = ("pollux-autoscaling", "pop-4")
"""Policies that take seconds; test_simulator_properties.py checks the same of them on smaller clusters."""
COUNTS = [1, 2, 4, 8, 16, 32, 64]


def crowd(preemptible):
    """64 GPUs, two long jobs that come first, and ten shorter ones that ask for more than is there."""
    apps = {}
    for app, work in (("long", 60_000.0), ("short", 12_000.0)):
        apps[app] = CountProfile(app, 20.0, work, COUNTS, {"t4": np.array(COUNTS) ** 0.8})
    fixed = {"preemptible": preemptible}
    jobs = [
        JobSubmission("wide", 0.0, "", "long", "rigid", 16, **fixed),
        JobSubmission("elastic", 0.0, "", "long", "adaptive", tuned_gpus=8, min_gpus=4, **fixed),
    ]
    for k in range(10):
        kind = {"kind": "rigid", "gpus": (8, 16)[k // 3 % 2]} if k % 3 == 0 else {"tuned_gpus": 16}
        jobs.append(JobSubmission(f"j{k}", 10.0 + 450.0 * k, "", "short", **kind))
    return Scenario(Cluster([GpuType("t4", 4, 16)]), jobs, apps)


@pytest.mark.parametrize("name", [longer(name) if name in SLOW else name for name in POLICIES])
def test_a_policy_survives_a_time_without_any_node(name):
    crowded = crowd(True)
    jobs = [job for job in crowded.jobs if job.name in ("wide", "j0", "j1")]
    failures = [NodeFailure(3000.0, "t4", node, 7200.0) for node in range(16)]
    scenario = Scenario(crowded.cluster, jobs, crowded.profiles)
    simulator = Simulator(
        scenario, make_policy(name, **SHORT.get(name, {})), placer=SiaPlacer(), events=failures
    )
    without = [record for record in simulator.run() if not sum(record.there.values())]
    assert without and simulator.completed == 3
    if name != "pollux-autoscaling":  # it gets new nodes at once
        assert not [one for one in simulator.segments if one.begin < 10_200.0 and one.end > 3000.0]
