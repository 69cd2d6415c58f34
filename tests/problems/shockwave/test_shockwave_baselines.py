"""Baselines of Shockwave: shares against HiGHS and brute force, and replays against the authors' results."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from shockwave_cases import PUBLISHED, needs_data, now, result_path, state, static, trace_path
from shockwave_cases import jobs as some_jobs

from copter.problems.shockwave import (
    BASELINES,
    generate,
    make_baseline,
    read_jobs,
    read_published,
    replay,
    schedule_matrix,
)
from copter.problems.shockwave.baselines import AlloX, GandivaFair, OpenShop, Themis
from copter.problems.shockwave.gavel import LEFTOVER, MaxMinFairness, MaxSumThroughput


def states_of(jobs, draw_share):
    return [state(job, run=draw_share * job.seconds) for job in jobs]


@given(first=some_jobs(most=7), second=some_jobs(most=7), gpus=st.integers(4, 9))
@settings(deadline=None, max_examples=25)
def test_lp_shares_are_optimal_while_jobs_come_and_go(first, second, gpus):
    fair, fast = MaxMinFairness(), MaxSumThroughput()
    others = [replace(job, name=f"other-{job.name}") for job in second]
    for jobs in (first, first[1:] + others, first):
        states = states_of(jobs, 0.3)
        sizes = np.array([s.gpus for s in states], float)
        round_ = now(states, gpus)
        shares = fair.shares(round_)
        x = np.array([shares[s.name] for s in states])
        assert sizes @ x <= gpus * (1 + 1e-6)
        # maximise theta: variables x and theta
        best = linprog(
            np.append(np.zeros(len(states)), -1.0),
            A_ub=np.vstack((np.append(sizes, 0.0), np.column_stack((-np.diag(sizes), np.ones(len(states)))))),
            b_ub=np.append(gpus, np.zeros(len(states))),
            bounds=[(0, 1)] * len(states) + [(0, None)],
        )
        assert (sizes * x).min() >= -best.fun - 2 * LEFTOVER
        shares = fast.shares(round_)
        x = np.array([shares[s.name] for s in states])
        speed = np.array([s.steps_per_second for s in states])
        best = linprog(-speed, A_ub=sizes[None], b_ub=[gpus], bounds=(0, 1))
        assert speed @ x == pytest.approx(-best.fun, rel=1e-4)


@given(jobs=some_jobs(most=7), gpus=st.integers(4, 9))
def test_open_shop_shares_meet_the_smallest_makespan(jobs, gpus):
    states = states_of(jobs, 0.3)
    left = np.array([s.reactive_seconds for s in states])
    sizes = np.array([s.gpus for s in states], float)
    shares = OpenShop().shares(now(states, gpus))
    x = np.array([shares[s.name] for s in states])
    # maximise 1/H with x_j >= R_j / H
    best = linprog(
        np.append(np.zeros(len(states)), -1.0),
        A_ub=np.vstack((np.append(sizes, 0.0), np.column_stack((-np.eye(len(states)), left)))),
        b_ub=np.append(gpus, np.zeros(len(states))),
        bounds=[(0, 1)] * len(states) + [(0, None)],
    )
    assert (x / left).min() == pytest.approx(-best.fun, rel=1e-6)
    assert sizes @ x <= gpus * (1 + 1e-9)


@given(jobs=some_jobs(most=6), gpus=st.integers(4, 6), waited=st.floats(0, 3000))
def test_themis_has_the_smallest_worst_fairness(jobs, gpus, waited):
    jobs = [static(job.name, job.seconds, gpus=job.gpus) for job in jobs]
    time = 1000.0 + waited
    states = [state(job, run=0.2 * job.seconds, waited=waited) for job in jobs]
    shares = Themis().shares(now(states, gpus, time=time))
    alone = {s.name: min(1.0, gpus / len(states) / s.gpus) for s in states}
    left = {s.name: s.reactive_seconds for s in states}
    # Progress before the first look counts as exclusive time, as in the authors' code.
    finish = {s.name: s.run_seconds + left[s.name] / alone[s.name] for s in states}

    def worst(x):
        return max((time + left[s.name] / x[s.name]) / finish[s.name] for s in states)

    ours = worst({name: max(share, 1e-12) for name, share in shares.items()})
    assert sum(shares[s.name] * s.gpus for s in states) <= gpus * (1 + 1e-9)
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = rng.random(len(states))
        x *= min(1.0, gpus / (x @ [s.gpus for s in states]))
        assert worst({s.name: v for s, v in zip(states, x, strict=True)}) >= ours * (1 - 1e-9)


def test_the_filter_leaves_the_best_off_without_a_share():
    jobs = [static(f"j{k}", 1000.0) for k in range(4)]
    states = [state(job, run=100.0 * k, waited=900.0) for k, job in enumerate(jobs)]
    shares = Themis(filter=0.5).shares(now(states, 2, time=900.0))
    assert set(shares) < {"j0", "j1", "j2", "j3"} and len(shares) == 2
    with pytest.raises(ValueError, match="filter"):
        Themis(filter=0.0)
    with pytest.raises(ValueError, match="filter"):
        AlloX(filter=1.5)


@given(seconds=st.lists(st.floats(10, 1000), min_size=1, max_size=6, unique=True), gpus=st.integers(1, 3))
def test_allox_begins_a_schedule_with_the_least_average_completion_time(seconds, gpus):
    jobs = [static(f"j{k}", value) for k, value in enumerate(seconds)]
    heads = set(AlloX(filter=1.0).shares(now([state(job) for job in jobs], gpus)))

    def total(order):
        ends = [0.0] * gpus
        done = 0.0
        for k in order:
            first = min(range(gpus), key=ends.__getitem__)
            ends[first] += seconds[k]
            done += ends[first]
        return done

    best = min(total(order) for order in permutations(range(len(seconds))))
    # List scheduling with those jobs first, the others by length, reaches the best sum.
    order = sorted(range(len(seconds)), key=lambda k: (f"j{k}" not in heads, seconds[k]))
    assert len(heads) == min(gpus, len(seconds))
    assert total(order) == pytest.approx(best)


def test_gandiva_fair_ignores_sizes():
    states = [state(static("a", 10.0)), state(static("b", 10.0, gpus=4))]
    assert GandivaFair().shares(now(states, 1)) == {"a": 0.5, "b": 0.5}


def test_unknown_policies_are_named():
    with pytest.raises(ValueError, match="'fifo'"):
        make_baseline("fifo")


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_leave_no_gpu_idle_while_a_job_fits(name):
    jobs = generate(14, seed=2, arrival_seconds=200.0)
    result = replay(jobs, 8, make_baseline(name))
    assert len(result.jobs) == 14
    _, ran = schedule_matrix(result)
    sizes = {job.name: job.gpus for job in result.jobs}
    for record in result.rounds:
        idle = 8 - record.gpus
        assert all(sizes[job] > idle for job in set(record.jobs) - set(record.running))


@pytest.mark.parametrize("name", BASELINES)
def test_more_gpus_than_jobs_need(name):
    jobs = generate(6, seed=3)
    result = replay(jobs, 64, make_baseline(name))
    for job in result.jobs:
        # A round until it is seen, and one restart.
        assert job.jct <= job.exclusive_seconds + 120.0 + 20.0 + 1e-6
    assert all(job.starts == 1 for job in result.jobs)


@pytest.mark.parametrize("name", BASELINES)
def test_one_job_and_one_too_large(name):
    result = replay([static("a", 700.0, gpus=3), static("big", 10.0, gpus=9)], 8, make_baseline(name))
    assert result.rejected == ("big",)
    assert result.metrics.makespan == 700.0


def test_shortest_first_has_the_least_average_jct_of_all():
    jobs = generate(30, seed=8)
    average = {name: replay(jobs, 8, make_baseline(name)).metrics.average_jct for name in BASELINES}
    assert min(average, key=average.__getitem__) == "srpt"


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("name", sorted(set(BASELINES) & set(PUBLISHED)))
def test_replays_are_near_the_authors(name):
    """Makespan within 5%, average JCT within 10% and utilisation within 0.03 of the published simulation."""
    trace = read_jobs(trace_path(120))
    published = read_published(result_path(PUBLISHED[name]), trace).metrics
    ours = replay(trace, 32, make_baseline(name)).metrics
    assert ours.makespan == pytest.approx(published.makespan, rel=0.05)
    assert ours.average_jct == pytest.approx(published.average_jct, rel=0.10)
    assert ours.utilisation == pytest.approx(published.utilisation, abs=0.03)
    assert ours.worst_ftf == pytest.approx(published.worst_ftf, rel=0.20)
