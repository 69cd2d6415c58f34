"""AlloX, Themis, open shop, Gandiva-Fair: against brute force, HiGHS and random shares."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from copter.problems.policies import AlloX, GandivaFair, OpenShop, Themis, queue_heads
from support.amounts import examples
from support.policy_cases import cluster_of, job_lists, round_of, state_of


def best_heads(seconds, queues):
    """Who begins queues of which type, in every schedule with the least sum of completion times."""
    machines = [t for t, count in enumerate(queues) for _ in range(count)]
    able = [k for k in range(len(seconds)) if np.isfinite(seconds[k][machines]).any()]
    best, found = np.inf, []
    for choice in product(range(len(machines)), repeat=len(able)):
        total, heads = 0.0, np.full(len(seconds), -1)
        for m, t in enumerate(machines):
            mine = sorted(able[i] for i in range(len(able)) if choice[i] == m)
            order = sorted(mine, key=lambda k: seconds[k][t])
            total += sum(seconds[k][t] * (len(order) - at) for at, k in enumerate(order))
            if order:
                heads[order[0]] = t
        if total < best - 1e-9:
            best, found = total, []
        if total <= best + 1e-9:
            found.append(heads.tolist())
    return found


@given(
    rows=st.lists(st.tuples(st.floats(10, 1000), st.floats(0.3, 5)), min_size=1, max_size=5, unique=True),
    closed=st.integers(-1, 3),
    queues=st.sampled_from([(1, 0), (1, 1), (2, 1), (0, 2)]),
)
@settings(deadline=None, max_examples=examples(60))
def test_allox_begins_a_schedule_with_the_least_average_completion_time(rows, closed, queues):
    # No two are equal, so that every queue has one best order.
    seconds = np.array([(run, run * ratio) for run, ratio in rows])
    seconds *= 1.0 + 1e-5 * np.sqrt(1.0 + np.arange(seconds.size)).reshape(seconds.shape)
    if 0 <= closed < len(rows):
        seconds[closed, 1] = np.inf  # cannot run on the second type
    heads = queue_heads(seconds, np.zeros(len(rows)), np.array(queues))
    assert heads.tolist() in best_heads(seconds, queues)


def test_allox_lets_a_job_on_one_gpu_run_to_its_end():
    policy, cluster = AlloX(), cluster_of(1)
    long = state_of("long", [1.0], work=5000.0)
    assert policy.shares(round_of(cluster, [long])).tolist() == [[1.0]]
    later = round_of(cluster, [long, state_of("short", [1.0], work=10.0)], time=400.0)
    assert policy.shares(later).tolist() == [[1.0], [0.0]]


@given(states=job_lists(), gpus=st.tuples(st.integers(3, 5), st.integers(3, 5)))
@settings(deadline=None)
def test_open_shop_shares_meet_the_smallest_makespan(states, gpus):
    now = round_of(cluster_of(*gpus), states)
    left, x = now.mean_seconds_left, OpenShop().shares(now)[:, 0]
    # maximise 1/H with x_j >= R_j / H
    best = linprog(
        np.append(np.zeros(left.size), -1.0),
        A_ub=np.vstack((np.append(now.gpus, 0.0), np.column_stack((-np.eye(left.size), left)))),
        b_ub=np.append(sum(gpus), np.zeros(left.size)),
        bounds=[(0, 1)] * left.size + [(0, None)],
    )
    assert (x / left).min() == pytest.approx(-best.fun, rel=1e-6)
    assert now.gpus @ x <= sum(gpus) * (1 + 1e-9)


@given(states=job_lists(types=1), gpus=st.integers(3, 6), age=st.floats(0, 3000))
@settings(deadline=None, max_examples=examples(40))
def test_themis_has_the_smallest_worst_fairness(states, gpus, age):
    now = round_of(cluster_of(gpus), states, time=age)
    x = Themis().shares(now)[:, 0]
    finish = now.mean_seconds_left / np.minimum(1.0, gpus / len(states) / now.gpus)

    def worst(shares):
        return ((age + now.mean_seconds_left / np.maximum(shares, 1e-12)) / finish).max()

    assert now.gpus @ x <= gpus * (1 + 1e-9)
    rng = np.random.default_rng(0)
    for _ in range(100):
        other = rng.random(len(states))
        assert worst(other * min(1.0, gpus / (other @ now.gpus))) >= worst(x) * (1 - 1e-9)


def test_the_filter_leaves_the_best_off_without_a_share():
    states = [state_of(f"j{k}", [1.0], work=1000.0 * (k + 1)) for k in range(4)]
    now = round_of(cluster_of(2), states, time=900.0)
    # The shortest are the furthest behind: their age weighs most.
    assert (Themis(filter=0.5).shares(now)[:, 0] > 0).tolist() == [True, True, False, False]
    with pytest.raises(ValueError, match="filter"):
        Themis(filter=0.0)
    with pytest.raises(ValueError, match="filter"):
        AlloX(filter=1.5)


def test_gandiva_fair_ignores_sizes():
    now = round_of(cluster_of(4, 4), [state_of(f"j{k}", [1.0, 2.0], gpus=1 + k % 4) for k in range(16)])
    assert GandivaFair().shares(now)[:, 0].tolist() == [0.5] * 16
