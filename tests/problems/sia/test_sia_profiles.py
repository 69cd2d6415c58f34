"""Profiles: rows of goodput, and progress over time against a plain simulation."""

import numpy as np
import pytest

from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.workload import JobSubmission
from copter.problems.sia import Cluster, Configuration, CountProfile, GpuType, ReplicaProfile, TableProfile

CLUSTER = Cluster([GpuType("A", 2, 2), GpuType("B", 4, 1)])
CONFIGURATIONS = CLUSTER.configurations  # A: 1, 2, 4; B: 1, 2, 4


def table(goodput, progress, calibration=1.0):
    grid = [
        Configuration(1, 2, "A"),
        Configuration(1, 1, "A"),
        Configuration(9, 36, "B"),
        Configuration(1, 1, "Z"),
    ]
    return TableProfile("m", 10.0, progress, grid, goodput, calibration)


def advance(profile, progress, seconds):
    """Progress after so many seconds on one A, and the seconds until the job is complete, if fewer."""
    job = SimulatedJob(JobSubmission("j", 0.0, "", "m"), profile, "adaptive", Timer())
    job.begin_at(progress)
    job.give(0.0, CONFIGURATIONS[0])
    return job.progress_at(seconds), min(seconds, job.finish_at)


def test_table_gives_what_is_on_its_grid_and_in_the_cluster():
    profile = table([[2.0, 1.0, 9.0, 9.0], [0.0, 3.0, 9.0, 9.0]], [10.0, 20.0])
    assert profile.goodput(CONFIGURATIONS, 0).tolist() == [1.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    assert profile.goodput(CONFIGURATIONS, 1).tolist() == [3.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    columns, values = profile.row(CONFIGURATIONS, 1)
    assert (columns.tolist(), values.tolist()) == ([0], [3.0])
    assert profile.curve(CONFIGURATIONS[1]).tolist() == [2.0, 0.0]
    assert profile.curve(CONFIGURATIONS[4]).tolist() == [0.0, 0.0]


def test_counts_ignore_nodes_and_end_at_the_largest():
    profile = CountProfile("m", 0.0, 1.0, [1, 2, 4], {"A": [1.0, 2.0, 3.0], "B": [5.0, 6.0, 7.0]}, max_gpus=2)
    assert profile.goodput(CONFIGURATIONS, 0).tolist() == [1.0, 2.0, 0.0, 5.0, 6.0, 0.0]


def test_replicas_are_whole():
    profile = ReplicaProfile("m", 0.0, 1.0, {"A": (2, 10.0), "B": (1, 4.0)}, max_replicas=2)
    assert profile.goodput(CONFIGURATIONS, 0).tolist() == [0.0, 10.0, 20.0, 4.0, 8.0, 0.0]


def test_progress_through_levels_by_hand():
    # Column 0 (one A): 10 units at 1 a second, then 10 at 4 a second, both divided by a calibration of 2.
    profile = table([[1.0, 1.0, 1.0, 1.0], [1.0, 4.0, 1.0, 1.0]], [10.0, 20.0], calibration=2.0)
    assert profile.clock(CONFIGURATIONS[0]).tolist() == [0.0, 20.0, 25.0]
    ran = [advance(profile, begin, 12.0) for begin in (0.0, 5.0, 15.0)]
    assert ran == [pytest.approx(end) for end in [(6.0, 12.0), (14.0, 12.0), (20.0, 2.5)]]


@pytest.mark.parametrize(
    ("goodput", "progress", "message"),
    [
        ([[1.0] * 4] * 2, [2.0, 1.0], "positive and ascending"),
        ([[1.0] * 4], [np.inf], "must be finite"),
        ([[1.0] * 3], [1.0], r"goodput of shape \(1, 3\): must be \(1, 4\)"),
        ([[1.0, -1.0, 1.0, 1.0]], [1.0], "not negative"),
        ([["a"] * 4], [1.0], "must be numbers"),
    ],
)
def test_tables_that_make_no_sense(goodput, progress, message):
    with pytest.raises(ValueError, match=message):
        table(goodput, progress)
