"""The replay: times by hand, and what must hold in every round."""

import math

import pytest

from copter.problems.sia import (
    Cluster,
    GpuType,
    JobSubmission,
    Replay,
    ReplicaProfile,
    Scenario,
    SiaPolicy,
    SteadyReplay,
)
from copter.solvers.registry import make_solver
from support.sia_cases import Exact


def run(scenario, **options):
    policy = SiaPolicy(scenario.cluster, shim=Exact())
    replay = Replay(scenario, make_solver("highs-milp"), policy=policy, **options)
    list(replay.run())
    return replay


ONE = Cluster([GpuType("A", 1, 1)])


def one_gpu(*times):
    jobs = [JobSubmission(f"J{k}", time, "SiaJob", "m") for k, time in enumerate(times)]
    return Scenario(ONE, jobs, {"m": ReplicaProfile("m", 30.0, 100.0, {"A": (1, 1.0)})})


def test_times_by_hand():
    # Submitted at 10 s, seen at 60 s, starts with 30 s of restoring, then 100 s of work: done at 190 s.
    replay = run(one_gpu(10.0))
    (job,) = replay.job_results()
    assert (job.started, job.finished, job.jct) == pytest.approx((60.0, 190.0, 180.0))
    assert job.restarts == 0
    assert job.gpu_seconds == pytest.approx(130.0)
    assert [record.time for record in replay.records] == [60.0, 120.0, 180.0]
    assert [record.completed for record in replay.records] == [0, 0, 1]
    summary = replay.summary()
    assert summary["average_jct_hours"] == pytest.approx(180 / 3600)
    assert summary["makespan_hours"] == pytest.approx(180 / 3600)
    assert summary["utilisation"] == 1.0


def test_hours_and_max_hours():
    scenario = one_gpu(0.0, 3700.0)
    assert run(scenario, hours=1.0).summary()["jobs_completed"] == 1
    stopped = run(scenario, max_hours=100 / 3600)
    assert [record.time for record in stopped.records] == [0.0, 60.0]
    summary = stopped.summary()
    assert summary["jobs_completed"] == 0
    assert math.isnan(summary["average_jct_hours"])
    assert math.isnan(stopped.job_results()[0].finished)


def test_unknown_applications_and_duplicate_names_are_errors():
    scenario = one_gpu(0.0)
    with pytest.raises(ValueError, match="'m' has no profile"):
        run(Scenario(ONE, scenario.jobs, {}))
    with pytest.raises(ValueError, match="must have a name of its own"):
        run(Scenario(ONE, scenario.jobs * 2, scenario.profiles))
    with pytest.raises(ValueError, match="hours"):
        run(scenario, hours=0.0)


# ---- steady rounds -----------------------------------------------------------------------------------


def test_a_steady_cluster_keeps_its_number_of_jobs():
    replay = SteadyReplay(256, 30, 5, make_solver("highs-milp"), churn=0.1, seed=1)
    replay.policy._shim = Exact()
    records = list(replay.run())
    assert [record.queue + record.running for record in records] == [30] * 5
    assert records[0].arrived == 30
    assert [record.arrived for record in records[1:]] == [max(3, record.completed) for record in records[:-1]]


@pytest.mark.parametrize("arguments", [(64, 0, 1), (64, 1, 0)])
def test_steady_arguments_that_make_no_sense(arguments):
    with pytest.raises(ValueError, match=r"must be at least 1, and in \[0, 1\]"):
        SteadyReplay(*arguments, make_solver("highs-milp"))
