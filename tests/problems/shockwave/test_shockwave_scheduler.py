"""Shockwave as a policy: when it plans, what it runs, and the authors' traces against their results."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.tables import TableProfile
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.shockwave import (
    Mode,
    Planner,
    Regime,
    RegimeJob,
    Settings,
    Shockwave,
    replay,
)
from copter.problems.shockwave.forecast import forecast
from support.amounts import examples
from support.shockwave_cases import jobs as some_jobs
from support.shockwave_cases import now, schedule_matrix, state, static


def test_a_plan_is_made_anew_for_arrivals_completions_and_after_eight_rounds():
    jobs = [static("a", 30 * 120.0), static("b", 11 * 120.0 - 20, arrival=3 * 120.0)]
    policy = Shockwave()
    replay(jobs, 2, policy)
    # b comes in round 3, is gone in round 14, and a completes in round 29.
    assert [solve.index for solve in policy.planner.solves] == [0, 3, 11, 14, 22]


@given(jobs=some_jobs(most=8), gpus=st.integers(4, 8))
@settings(deadline=None, max_examples=examples(20))
def test_all_jobs_complete_and_no_gpu_idles_while_a_job_fits(jobs, gpus):
    policy = Shockwave(rounds=6)
    result = replay(jobs, gpus, policy)
    assert len(result.jobs) == len(jobs)
    _, ran = schedule_matrix(result)
    sizes = np.array([job.gpus for job in result.jobs])
    times = np.array([record.time for record in result.rounds])
    there = np.array([(job.arrival <= times) & (times < job.finished) for job in result.jobs])
    # What waits in a round is larger than what is idle.
    assert (np.where(there & ~ran, sizes[:, None], gpus + 1) > gpus - sizes @ ran).all()
    for solve in policy.planner.solves:
        assert solve.plan.bound >= solve.plan.objective - 1e-12 * max(1.0, abs(solve.plan.objective))


def test_the_reactive_mode_plans_anew_when_a_regime_begins():
    # Two regimes: the second begins after 600 s, in round 5.
    job = RegimeJob("a", 0.0, 1, Mode.GNS, (Regime(16, 6, 100.0), Regime(32, 10, 90.0)))
    for reactive, rounds in ((True, [0, 5]), (False, [0, 8])):
        policy = Shockwave(reactive=reactive)
        replay([job], 1, policy)
        assert [solve.index for solve in policy.planner.solves] == rounds


def test_jobs_of_no_trace_are_static_and_run_where_they_are_fastest():
    cluster = Cluster([GpuType("slow", 4, 1), GpuType("fast", 4, 1)])
    grid = [cluster.packed(type, 2) for type in ("slow", "fast")]
    profile = TableProfile("app", 10.0, [2000.0], grid, [[1.0, 3.0]])
    jobs = [JobSubmission(f"j{k}", 0.0, "", "app", "rigid", 2) for k in range(3)]
    simulator = Simulator(Scenario(cluster, jobs, {"app": profile}), Shockwave())
    records = list(simulator.run())
    assert records[0].gpus == {"slow": 2, "fast": 4}
    # Two take 10 s and 2000 / 3; then the third moves, with 710 of its 2000 done, and pays for it once more.
    first, second, third = sorted(job.finished for job in simulator.job_results())
    assert (first, second) == pytest.approx((10 + 2000 / 3, 10 + 2000 / 3))
    assert third == pytest.approx(720 + 10 + (2000 - 710) / 3)


def test_what_a_job_is_owed_is_the_mean_of_its_predictions():
    job = static("a", 1000.0)
    planner = Planner(Settings(rounds=4))
    for index, (run, waited, remaining) in enumerate(((0.0, 0.0, 1000.0), (100.0, 500.0, 2900.0))):
        round_ = now([state(job, run=run, waited=waited, contention=2.0)], 1, index=index)
        seen = replace(
            forecast(round_.jobs),
            remaining_seconds=np.array([remaining]),
            total_seconds=np.array([run + remaining]),
        )
        owed = 1000.0 if index == 0 else 0.5 * (1000.0 + 3000.0)
        rho = (run + waited + 2.0 * remaining) / (2.0 * owed)
        planner._told, found = planner._fairness(round_, seen)
        assert found == pytest.approx([rho])
