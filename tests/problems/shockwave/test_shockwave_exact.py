"""Plans that are proven optimal: against brute force, and against branch and bound on all rounds."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.shockwave import build_window, plan_problem, snapshot, solve_waterfilling
from copter.problems.shockwave.exact import PROVEN, prove
from copter.problems.shockwave.plan import PlanProblem, PlanShim
from support.amounts import examples
from support.shockwave_cases import brute_force


def proven(problem, rounds, prices, deadline=0.0, bound=np.inf):
    """The shim's plan, and what branch and bound on the counts that are left makes of it."""
    shim = PlanShim(deadline)
    plan = shim.plan(problem, rounds, bound=bound, prices=prices)
    return plan, prove(problem, plan, prices, partial(shim.arrange, problem, prices=prices))


def of_window(window):
    relaxed = solve_waterfilling(window)
    prices = relaxed.capacity_price, relaxed.work_price, relaxed.job_prices
    problem = plan_problem(window)
    return problem, *proven(problem, relaxed.rounds, prices, bound=relaxed.bound)


def check(problem, plan):
    """Feasible, worth what it says, and no GPU idles that a job could use."""
    used = plan.runs.T @ problem.gpus
    assert (used <= problem.capacity).all()
    counts = plan.runs.sum(axis=1)
    assert (counts <= problem.most).all()
    assert problem.objective(counts) == pytest.approx(plan.objective, rel=1e-12)
    free = problem.capacity - used
    more = (counts < problem.most)[:, None] & ~plan.runs & (problem.gpus[:, None] <= free)
    assert not more.any()


@st.composite
def tables(draw):
    """Any tables: values that jump, run times that level off, prices that have nothing to do with them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    value = np.cumsum(rng.exponential(1.0, (n, rounds + 1)) * rng.integers(0, 2, (n, rounds + 1)), axis=1)
    left = np.sort(rng.integers(0, 5, (n, rounds + 1)).astype(float), axis=1)[:, ::-1]
    weight = draw(st.sampled_from([0.0, 0.3, 5.0]))
    gpus = rng.integers(1, 4, n)
    scale = draw(st.sampled_from([1e-7, 1.0, 1e7]))
    problem = PlanProblem(value * scale, left, gpus, 3, weight * scale)
    prices = rng.exponential(scale), rng.exponential(scale), rng.exponential(scale, n)
    return problem, rng.uniform(0.0, rounds, n), prices


@given(tables())
@settings(deadline=None, max_examples=examples(80))
def test_any_tables_and_prices_end_at_the_best_plan(case):
    problem, rounds, prices = case
    before, plan = proven(problem, rounds, prices)
    check(problem, plan)
    best = brute_force(problem)
    scale = problem.size(plan.runs.sum(axis=1))
    assert before.objective <= plan.objective + 1e-12 * scale
    assert plan.objective == pytest.approx(best, abs=2e-9 * max(scale, 1e-300))
    assert plan.gap <= PROVEN


def test_a_busy_cluster_is_proven_where_the_shim_leaves_a_gap():
    problem, before, plan = of_window(build_window(snapshot(300, 64, seed=300)))
    check(problem, plan)
    assert before.gap > PROVEN >= plan.gap
    assert plan.objective > before.objective
