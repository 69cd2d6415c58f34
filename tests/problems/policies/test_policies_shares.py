"""Gavel's four programs against HiGHS from scratch, while jobs come and go."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from copter.problems.policies import FinishTimeFairness, Makespan, MaxMinFairness, MaxSumThroughput
from copter.problems.policies.gavel import _LEFTOVER, _equal_shares, _worst_rho
from support.amounts import examples
from support.policy_cases import cluster_of, job_lists, round_of, state_of

TOLERANCE = 1e-4


def rows(now):
    """Left sides and right sides of: at most all of a job's time, at most all GPUs; x in row-major order."""
    n, types = now.speed.shape
    own = np.kron(np.eye(n), np.ones(types))
    gpus = np.kron(now.gpus[None, :], np.eye(types))
    return np.vstack((own, gpus)), np.concatenate((np.ones(n), now.capacity))


def bounds(now):
    return [(0.0, 1.0 if v > 0 else 0.0) for v in now.speed.ravel()]


def greatest_least(now, rates):
    """The greatest rate of the job that is worst off."""
    n, types = now.speed.shape
    sides, right = rows(now)
    floors = np.column_stack((-np.kron(np.eye(n), np.ones(types)) * rates.ravel(), np.ones(n)))
    best = linprog(
        np.append(np.zeros(n * types), -1.0),
        A_ub=np.vstack((np.column_stack((sides, np.zeros(len(right)))), floors)),
        b_ub=np.concatenate((right, np.zeros(n))),
        bounds=[*bounds(now), (0, None)],
    )
    return -best.fun


def check_feasible(now, x):
    sides, right = rows(now)
    assert (sides @ x.ravel() <= right * (1 + 1e-5) + 1e-9).all()
    assert (x[now.speed == 0] == 0).all()


@given(first=job_lists(), second=job_lists(prefix="k"), gpus=st.tuples(st.integers(3, 6), st.integers(3, 6)))
@settings(deadline=None, max_examples=examples(15))
def test_programs_are_optimal_while_jobs_come_and_go(first, second, gpus):
    fair, fast, short = MaxMinFairness(), MaxSumThroughput(), Makespan()
    cluster = cluster_of(*gpus)
    for states in (first, first[1:] + second, first):
        now = round_of(cluster, states)
        x = fair.shares(now)
        check_feasible(now, x)
        rates = now.gpus[:, None] * now.speed / now.mean_speed[:, None]
        least = (rates * x).sum(axis=1).min()
        # The gain of time for all may cost the poorest this much.
        assert least >= greatest_least(now, rates) - 2 * _LEFTOVER

        x = fast.shares(now)
        check_feasible(now, x)
        best = linprog(
            -now.speed.ravel(), A_ub=rows(now)[0], b_ub=rows(now)[1], bounds=bounds(now), method="highs"
        )
        assert (now.speed * x).sum() == pytest.approx(-best.fun, rel=TOLERANCE)

        x = short.shares(now)
        check_feasible(now, x)
        makespan = (now.left / (now.speed * x).sum(axis=1)).max()
        least = 1.0 / greatest_least(now, now.speed / now.left[:, None])
        assert least * (1 - TOLERANCE) <= makespan <= least * (1 + 4 * _LEFTOVER)


@given(states=job_lists(most=5), gpus=st.tuples(st.integers(3, 5), st.integers(3, 5)), age=st.floats(0, 5000))
@settings(deadline=None, max_examples=examples(15))
def test_finish_time_fairness_is_the_best_there_is(states, gpus, age):
    now = round_of(cluster_of(*gpus), states, time=age)
    x = FinishTimeFairness().shares(now)
    check_feasible(now, x)
    finish = now.left / (_equal_shares(now) * now.speed).sum(axis=1)
    ours = _worst_rho(now, x, finish)
    # Bisection: rho can be met if every job can have the speed that it needs.
    low, high = (now.age / finish).max(), _worst_rho(now, _equal_shares(now), finish) * (1 + 1e-9)
    for _ in range(40):
        middle = 0.5 * (low + high)
        slack = middle * finish - now.age
        met = (slack > 0).all() and greatest_least(now, now.speed * (slack / now.left)[:, None]) >= 1.0
        low, high = (low, middle) if met else (middle, high)
    assert high * (1 - TOLERANCE) <= ours <= high * (1 + 5e-3)


def test_gpus_that_come_back_are_used_again():
    policy, states = MaxMinFairness(), [state_of(f"j{k}", [1.0]) for k in range(4)]
    assert policy.shares(round_of(cluster_of(4), states)).sum() == pytest.approx(4.0, abs=1e-3)
    assert policy.shares(round_of(cluster_of(1), states)).sum() == pytest.approx(1.0, abs=1e-3)
    assert policy.shares(round_of(cluster_of(3), states)).sum() == pytest.approx(3.0, abs=1e-3)
