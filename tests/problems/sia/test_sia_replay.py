"""Sia in the simulator: times by hand, and a cluster in a steady state."""

from __future__ import annotations

import math

import pytest

from copter.problems.cluster import Simulator
from copter.problems.cluster.report.metrics import summarise
from copter.problems.sia import Cluster, GpuType, JobSubmission, ReplicaProfile, Scenario, Sia, SiaPolicy
from copter.problems.sia.steady import steady_simulator
from copter.solvers.registry import make_solver
from support.sia_cases import Exact


def run(scenario, **options):
    policy = SiaPolicy(scenario.cluster, shim=Exact())
    return Simulator(scenario, Sia(policy=policy, solver=make_solver("highs-milp")), **options).play()


def summary(played):
    return summarise(played.scenario, played.job_results(), played.records, played.segments)


ONE = Cluster([GpuType("A", 1, 1)])


def one_gpu(*times):
    jobs = [JobSubmission(f"J{k}", time, "SiaJob", "m") for k, time in enumerate(times)]
    return Scenario(ONE, jobs, {"m": ReplicaProfile("m", 30.0, 100.0, {"A": (1, 1.0)})})


def test_times_by_hand():
    # Submitted at 10 s, seen at 60 s, starts with 30 s of restoring, then 100 s of work: done at 190 s.
    played = run(one_gpu(10.0))
    (job,) = played.job_results()
    assert (job.started, job.finished, job.jct) == pytest.approx((60.0, 190.0, 180.0))
    assert job.restarts == 0
    assert job.gpu_seconds == pytest.approx(130.0)
    assert [record.time for record in played.records] == [60.0, 120.0, 180.0]
    assert [record.completed for record in played.records] == [0, 0, 1]
    assert summary(played)["average_jct_hours"] == pytest.approx(180 / 3600)
    assert summary(played)["makespan_hours"] == pytest.approx(180 / 3600)


def test_a_run_stops_at_a_time():
    stopped = run(one_gpu(0.0, 3700.0), max_hours=100 / 3600)
    assert [record.time for record in stopped.records] == [0.0, 60.0]
    assert summary(stopped)["jobs_completed"] == 0
    assert math.isnan(summary(stopped)["average_jct_hours"])
    assert math.isnan(stopped.job_results()[0].finished)


def test_a_steady_cluster_keeps_its_number_of_jobs():
    simulator = steady_simulator(256, 30, 5, make_solver("highs-milp"), churn=0.1, seed=1)
    records = [record for _, record in zip(range(5), simulator.run(), strict=False)]
    assert [record.jobs for record in records] == [30] * 5
    assert records[0].arrived == 30
    assert [record.arrived for record in records[1:]] == [max(3, record.completed) for record in records[:-1]]
