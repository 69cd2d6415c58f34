"""The replay: times by hand, and figures against dense arrays."""

from __future__ import annotations

import math

import numpy as np
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
    generate,
)
from copter.problems.sia.replay import _SAME
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


# ---- steady rounds -----------------------------------------------------------------------------------


def test_a_steady_cluster_keeps_its_number_of_jobs():
    replay = SteadyReplay(256, 30, 5, make_solver("highs-milp"), churn=0.1, seed=1)
    replay.policy._shim = Exact()
    records = list(replay.run())
    assert [record.queue + record.running for record in records] == [30] * 5
    assert records[0].arrived == 30
    assert [record.arrived for record in records[1:]] == [max(3, record.completed) for record in records[:-1]]


def dense(replay):
    """Values of all variables of the round's program by job and configuration, absent ones NaN."""
    policy, solution = replay.policy, replay.scheduler.last.solution
    table = {}
    for job, choices in policy.choices().items():
        row = np.full(len(policy.cluster.configurations) + 1, math.nan)
        row[choices.columns + 1] = solution.x[job]
        table[job] = row
    return table


def compared(before, now):
    """Changed, added, removed, integral and the two lengths, by brute force."""
    jobs = [*(before | now)]
    width = len(next(iter(now.values())))
    absent = np.full(width, math.nan)
    old, new = (np.array([table.get(job, absent) for job in jobs]) for table in (before, now))
    there, here = ~np.isnan(old), ~np.isnan(new)
    both = there & here
    difference = np.nan_to_num(new) - np.nan_to_num(old)
    return {
        "changed": (abs(difference[both]) > _SAME).mean(),
        "added": 1 - both.sum() / here.sum(),
        "removed": 1 - both.sum() / there.sum(),
        "integral": ((new[here] < _SAME) | (new[here] > 1 - _SAME)).mean(),
        "path_x": (difference**2).sum(),
        "path_n": abs(int(here.sum()) - int(there.sum())),
    }


def test_shares_and_lengths_are_those_of_dense_arrays():
    replay = Replay(generate(gpus=64, jobs_per_day=1200, hours=0.5, seed=2), make_solver("copter"))
    before = None
    for number, record in enumerate(replay.run()):
        now = dense(replay)
        if before:
            for name, expected in compared(before, now).items():
                assert getattr(record, name) == pytest.approx(expected, abs=1e-12), (number, name)
        before = now
        if number == 25:
            break
    assert number == 25
