"""The time-share penalty: new jobs are served at once, and for the whole window."""

import numpy as np
import pytest

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.sia import Sia, SiaError
from copter.problems.sia.policy import SiaPolicy

CLUSTER = Cluster([GpuType("A", 2, 1)])
PROFILES = {"m": ReplicaProfile("m", 5.0, 6000.0, {"A": (1, 1.0)})}


def simulate(window, jobs=8):
    submissions = [JobSubmission(str(k), 120.0 * k, "", "m") for k in range(jobs)]
    simulator = Simulator(Scenario(CLUSTER, submissions, PROFILES), Sia(timeshare_seconds=window))
    list(simulator.run())
    return simulator


def test_a_new_job_keeps_its_gpus_until_it_ran_for_the_window():
    simulator = simulate(115.0)
    for name in (job.name for job in simulator.job_results()):
        first = [one for one in simulator.segments if one.job == name]
        ran = 0.0
        for before, after in zip(first, first[1:], strict=False):
            ran += before.end - before.begin - before.restart_seconds
            if ran < 115.0:
                assert after.begin == before.end
    assert all(job.finished > 0 for job in simulator.job_results())


@pytest.mark.parametrize("window", [0.0, -1.0, float("inf"), float("nan")])
def test_windows_that_make_no_sense(window):
    with pytest.raises(ValueError, match="timeshare_seconds"):
        Sia(timeshare_seconds=window)


def test_penalties_must_be_costs():
    with pytest.raises(SiaError, match="penalties"):
        SiaPolicy(CLUSTER).update_penalties([], np.array([np.nan]))
