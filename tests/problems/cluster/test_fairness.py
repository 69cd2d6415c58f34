"""Finish time fairness against run times worked out by hand."""

import math

import numpy as np
import pytest

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.tables import CountProfile, ReplicaProfile
from copter.problems.cluster.report.fairness import Alone, fairness_figures, finish_time_fairness
from copter.problems.cluster.results import JobRecord
from copter.problems.cluster.workload import JobSubmission, Scenario

# 120 units of work; on a: 1, 1.5 and 2 units a second on 1, 2 and 4 GPUs, on b twice that.
APP = CountProfile("app", 10.0, 120.0, [1, 2, 4], {"a": [1, 1.5, 2], "b": [2, 3, 4]})
WIDE = ReplicaProfile("wide", 0.0, 120.0, {"a": (2, 1.0)})


def record(name, jct, contention, application="app", kind="adaptive", gpus=0):
    times = {"submitted": 0.0, "started": 0.0, "finished": jct, "jct": jct}
    nothing = {"category": "", "tenant": "", "run_seconds": 0.0, "gpu_seconds": 0.0, "restarts": 0}
    return JobRecord(
        name=name, application=application, kind=kind, gpus=gpus, contention=contention, **times, **nothing
    )


def scenario(*jobs, types=(("a", 4, 1),)):
    submissions = [
        JobSubmission(job.name, 0.0, "", job.application, job.kind, job.gpus or None) for job in jobs
    ]
    return Scenario(Cluster(GpuType(*type) for type in types), submissions, {"app": APP, "wide": WIDE})


@pytest.mark.parametrize(
    ("share", "seconds"),
    [
        (1, 120.0),
        (2, 80.0),
        (4, 60.0),
        (3, 80.0),  # three GPUs are of no more use than two
        (1.5, 100.0),  # half way between
        (3.5, 70.0),
        (0.5, 240.0),  # half of the time on one
        (9, 60.0),  # there are no more than four
    ],
)
def test_run_time_on_a_share(share, seconds):
    job = record("x", 1.0, 1.0)
    case = scenario(job)
    alone = Alone(case, [job])
    assert alone.seconds(case.cluster.types[0], np.array([share]), start=False) == [pytest.approx(seconds)]
    assert alone.seconds(case.cluster.types[0], np.array([share])) == [pytest.approx(seconds + 10)]


def test_fairness_on_one_type_is_time_over_time_alone():
    jobs = [record("x", 260.0, 0.5), record("y", 65.0, 0.25), record("z", math.nan, 1.0)]
    case = scenario(*jobs)  # x had one of two jobs on four GPUs, y was alone
    for rule in ("authors", "printed"):
        rho = finish_time_fairness(case, jobs, rule)
        assert rho[:2].tolist() == pytest.approx([260 / 90, 65 / 70])
        assert math.isnan(rho[2])
    assert fairness_figures(rho) == {"worst_ftf": pytest.approx(260 / 90), "unfair_fraction": 0.5}


def test_fairness_over_types_in_both_readings():
    job = record("x", 100.0, 1 / 6)  # two jobs on twelve GPUs: eight of a, four of b
    case = scenario(job, types=(("a", 4, 2), ("b", 4, 1)))
    # printed: four GPUs of a or two of b; the authors': six (of no more use than four) or four
    on_a, on_b = 10 + 60.0, 10 + 40.0
    assert finish_time_fairness(case, [job]) == pytest.approx([100 * (2 / on_a + 1 / on_b) / 3])
    on_a, on_b = 10 + 60.0, 10 + 30.0
    assert finish_time_fairness(case, [job], "authors") == pytest.approx([100 * 3 / (2 * on_a + on_b)])


def test_types_that_cannot_run_a_job_do_not_count():
    job = record("x", 100.0, 1 / 12, "wide")
    case = scenario(job, types=(("a", 4, 2), ("b", 4, 1)))
    for rule in ("authors", "printed"):
        assert finish_time_fairness(case, [job], rule) == pytest.approx([100 / 30])


def test_no_jobs():
    assert finish_time_fairness(scenario(), []).size == 0
    assert math.isnan(fairness_figures(np.empty(0))["worst_ftf"])
