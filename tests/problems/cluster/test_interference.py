"""Distributed jobs that share a node, played under a policy that puts them there."""

import pytest

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Placement, Scenario, Simulator
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.simulation.resize import SharedNodes


class OnNodes:
    name, kind, round_seconds = "on-nodes", "adaptive", 100.0

    def __init__(self, **places):
        self.places = {name: Placement("a", nodes) for name, nodes in places.items()}

    def schedule(self, now):
        return {name: self.places[name] for name in now.jobs}


@pytest.mark.parametrize("slowdown", [0.0, 0.5])
def test_both_run_slower_until_one_is_gone(slowdown):
    """One unit a second and GPU; x has 450 units, y 1,000, and their nodes overlap; z is on one node."""
    apps = {
        name: CountProfile(name, 0.0, work, [2], {"a": [2.0]}) for name, work in (("s", 450), ("l", 1000))
    }
    jobs = [JobSubmission(name, 0.0, "", app) for name, app in (("x", "s"), ("y", "l"), ("z", "l"))]
    policy = OnNodes(x=((0, 1), (1, 1)), y=((1, 1), (2, 1)), z=((1, 2),))
    scenario = Scenario(Cluster([GpuType("a", 4, 3)]), jobs, apps)
    simulator = Simulator(scenario, policy, placer=SiaPlacer(), interference=SharedNodes(slowdown))
    list(simulator.run())
    results = {job.name: job for job in simulator.job_results()}
    if slowdown:  # x ends at 450, y makes the other 550 at full speed
        assert [results[name].finished for name in "xyz"] == pytest.approx([450, 450 + 275, 500])
    else:
        assert [results[name].finished for name in "xyz"] == pytest.approx([225, 500, 500])
    for job in results.values():
        held = [one for one in simulator.segments if one.job == job.name]
        assert len(held) == 1 and held[0].begin == 0.0 and held[0].end == job.finished
        assert job.gpu_seconds == pytest.approx(2 * job.finished)
