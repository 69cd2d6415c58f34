"""Shockwave as a policy: when it plans, what it runs, and the authors' traces against their results."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.tables import TableProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.shockwave import (
    BASELINES,
    Mode,
    Planner,
    Regime,
    RegimeJob,
    Settings,
    Shockwave,
    generate,
    read_jobs,
    read_published,
    replay,
    schedule_matrix,
)
from copter.problems.shockwave.forecast import forecast
from support.amounts import examples, longer
from support.shockwave_cases import jobs as some_jobs
from support.shockwave_cases import needs_data, now, result_path, state, static, trace_path


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


def ahead_of(trace, gpus, ours, names, makespan):
    """Ahead of baselines: so much in makespan, and in worst fairness and share of jobs above 1."""
    for name in names:
        other = replay(trace, gpus, make_policy(name)).metrics
        assert makespan * ours.makespan < other.makespan, name
        assert ours.worst_ftf < other.worst_ftf, name
        assert ours.unfair_fraction < other.unfair_fraction, name


@pytest.mark.long
@needs_data
@pytest.mark.data
def test_120_jobs_on_32_gpus_are_better_than_the_authors_result():
    trace = read_jobs(trace_path(120))
    published = read_published(result_path("shockwave"), trace).metrics
    ours = replay(trace, 32, Shockwave()).metrics
    assert ours.makespan <= 0.95 * published.makespan
    assert ours.worst_ftf <= published.worst_ftf and ours.unfair_fraction <= published.unfair_fraction
    assert ours.average_jct <= published.average_jct
    assert ours.utilisation >= published.utilisation
    # The authors' result is level with that of OSSP and 1.3 to 1.4 times as fast as the fair schedulers.
    ahead_of(trace, 32, ours, ("ossp",), 1.0)
    ahead_of(trace, 32, ours, set(BASELINES) - {"srpt", "ossp"}, 1.3)


@needs_data
@pytest.mark.data
@pytest.mark.long
def test_220_jobs_on_64_gpus_are_ahead_of_the_baselines():
    trace = read_jobs(trace_path(220))
    ours = replay(trace, 64, Shockwave()).metrics
    ahead_of(trace, 64, ours, ("ossp",), 1.0)
    ahead_of(trace, 64, ours, ("themis", "gavel", "allox", "gandiva-fair"), 1.25)


@pytest.mark.parametrize("seed", [longer(3), longer(8)])
def test_generated_traces_too(seed):
    """Another trace than those that settings were looked at with: fair, and as short as OSSP."""
    trace = generate(50, seed=seed, arrival_seconds=60.0)
    ours = replay(trace, 12, Shockwave()).metrics
    ossp = replay(trace, 12, make_policy("ossp")).metrics
    themis = replay(trace, 12, make_policy("themis")).metrics
    assert ours.makespan <= 1.02 * ossp.makespan and ours.makespan <= themis.makespan
    assert ours.worst_ftf < min(ossp.worst_ftf, themis.worst_ftf)
    assert ours.average_jct < min(ossp.average_jct, themis.average_jct)


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


@pytest.mark.long
def test_wrong_predictions_lengthen_the_makespan_before_they_are_unfair():
    """Section 8.10: errors of 60% cost makespan; what jobs are owed is averaged over predictions."""
    jobs = generate(40, seed=4, arrival_seconds=60.0, mode_mix={Mode.GNS: 1.0})
    exact, wrong = (replay(jobs, 12, Shockwave(noise=noise)).metrics for noise in (0.0, 0.6))
    assert wrong.makespan > exact.makespan
    assert wrong.worst_ftf < exact.worst_ftf + 0.5
    again = replay(jobs, 12, Shockwave(noise=0.6)).metrics
    other = replay(jobs, 12, Shockwave(noise=0.6, seed=1)).metrics
    assert again == wrong != other


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
