"""Figures of small simulations and finish time fairness by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.tables import CountProfile, ReplicaProfile
from copter.problems.cluster.report.fairness import Alone, fairness_figures, finish_time_fairness
from copter.problems.cluster.report.metrics import interval, summarise
from copter.problems.cluster.results import JobRecord

HOUR = 3600.0


class OneAtATime:
    """Both GPUs to whoever came first."""

    name, kind, round_seconds = "one-at-a-time", "adaptive", HOUR

    def schedule(self, now):
        return {name: now.cluster.packed("a", 2) for name in list(now.jobs)[:1]}


@pytest.fixture(scope="module")
def played():
    # 1 unit an hour on one GPU, 1.5 on two; three jobs of 1.5 units, the third long after
    profile = CountProfile("app", 0.5 * HOUR, 1.5 * HOUR, [1, 2], {"a": [1.0, 1.5]})
    jobs = [JobSubmission(name, time * HOUR, "", "app") for name, time in (("x", 0), ("y", 1), ("z", 10))]
    scenario = Scenario(Cluster([GpuType("a", 2, 1)]), jobs, {"app": profile})
    simulator = Simulator(scenario, OneAtATime(), placer=SiaPlacer())
    assert [record.time / HOUR for record in simulator.run()] == [0, 1, 2, 3, 10, 11]
    return scenario, simulator.job_results(), simulator.records, simulator.segments


def test_figures_by_hand(played):
    """Jobs x runs from 0 to 1.5 h, y from 2 to 3.5, z from 10 to 11.5; 0.5 h of each is the restart."""
    found = summarise(*played)
    expected = {
        "average_jct_hours": (1.5 + 2.5 + 1.5) / 3,
        "p50_jct_hours": 1.5,
        "p95_jct_hours": 2.4,
        "p99_jct_hours": 2.48,
        "makespan_hours": 11.5,
        "average_queue_hours": 1 / 3,
        "gpu_hours_per_job": 3.0,
        "restarts_per_job": 0.0,
        "utilisation": 4.5 / 11.5,
        "busy_utilisation": 3.0 / 11.5,
        "average_contention": (1 + 2 + 1 + 1 + 1 + 1) / 6,
        "max_contention": 2.0,
        "evictions_per_round": 0.0,
        "jobs_completed": 3,
        "jobs_submitted": 3,
        "rounds": 6,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    # y saw 2, 1 and 1 jobs: 1.5 GPUs are its share, on which it takes between 1.5 and 1 h, and the restart
    assert found["worst_ftf"] == pytest.approx(2.5 / (1.25 + 0.5))
    assert found["unfair_fraction"] == pytest.approx(1 / 3)
    assert found["worst_ftf_authors"] == found["worst_ftf"]
    assert 0 <= found["policy_p50_s"] <= found["policy_p95_s"] <= found["policy_p99_s"]


def test_nothing_completed():
    scenario = Scenario(Cluster([GpuType("a", 2, 1)]), [], {})
    found = summarise(scenario, [], [], [])
    assert found["jobs_completed"] == 0
    assert math.isnan(found["average_jct_hours"]) and math.isnan(found["worst_ftf"])


def test_intervals():
    values = [1.0, 2.0, 4.0, 8.0]
    reference = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert interval(values) == pytest.approx((reference.low, reference.high))
    assert all(math.isnan(one) for one in interval([1.0]))


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


def test_no_jobs():
    assert finish_time_fairness(scenario(), []).size == 0
    assert math.isnan(fairness_figures(np.empty(0))["worst_ftf"])
