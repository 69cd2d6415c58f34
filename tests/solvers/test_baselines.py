"""Baselines against scipy, brute force and themselves; statuses and rays."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.bench.solvers import entry_of
from copter.program.program import ContinualProgram
from copter.solution import Status
from copter.solvers.registry import make_solver
from copter.store.compiled import compile_program
from support.amounts import examples
from support.lp_cases import by_scipy
from support.random_programs import random_edits, random_program, random_request

HOT = ["highs-hot", "highs-dual", "highs-primal"]
EXACT = [*HOT, "highs-simplex", "highs-presolve", "highs-crossover", "glop"]
LP = [*EXACT, "highs-ipm", "highs-pdlp", "pdlp"]


def make(name, **settings):
    """Return a registered solver, or one that is only measured."""
    return entry_of(name).make(**settings)


def check_against_scipy(program, solution, tolerance):
    found = by_scipy(program)
    best = found.fun
    if found.status == 2:
        assert solution.status is Status.INFEASIBLE, solution.reason
        return
    assert found.status == 0
    assert solution.status is Status.OPTIMAL, solution.reason
    assert solution.objective == pytest.approx(best, abs=tolerance * max(1.0, abs(best)))
    assert solution.bound <= best + 1e-7 * max(1.0, abs(best))
    assert solution.is_optimal(tolerance), (solution.relative, solution.reason)


@pytest.mark.parametrize("name", LP)
@pytest.mark.parametrize("seed", range(4))
def test_baselines_agree_with_scipy(name, seed):
    program = random_program(seed)
    tolerance = 1e-6 if name in EXACT else 1e-5
    check_against_scipy(program, make(name, tolerance=tolerance).solve(program), tolerance)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_hot_equals_rebuild_after_any_edits(seed):
    program = random_program(seed, requests=8)
    rng = np.random.default_rng(seed)
    fresh = itertools.count(1000)
    kept = [*(make(name) for name in HOT), make("highs-presolve")]
    for _ in range(4):
        rebuilt = make_solver("highs-simplex").solve(program)
        for solver in kept:
            solution = solver.solve(program)
            assert solution.status is rebuilt.status is Status.OPTIMAL
            assert solution.objective == pytest.approx(rebuilt.objective, abs=1e-6)
            assert solution.is_optimal(1e-6)
        random_edits(program, rng, fresh)


def test_hot_starts_from_the_kept_basis():
    program = random_program(3, requests=60)
    hot = make_solver("highs-hot")
    cold = hot.solve(program)
    again = hot.solve(program)
    assert cold.iterations > 10 and again.iterations == 0 and again.churn == 0.0
    program.remove_requests([5, 17])
    random_request(program, np.random.default_rng(0), "new")
    warm = hot.solve(program)
    assert warm.warm_started and warm.iterations < cold.iterations / 2
    assert not make_solver("highs-hot", keep_basis=False).solve(program).warm_started


@pytest.mark.parametrize("name", ["copter", "highs-hot", "highs-simplex"])
def test_a_slot_used_again_is_no_allocation_kept(name):
    program = ContinualProgram()
    program.add_resource("a", 10.0)
    for q in range(4):
        program.add_request(q, [-1.0], {"a": 1.0}, total=1.0)
    solver = make(name)
    assert solver.solve(program).churn == 1.0
    assert solver.solve(program).churn == 0.0
    program.remove_request(2)
    program.add_request("new", [-1.0], {"a": 1.0}, total=1.0)  # in the slot of 2
    assert program.store.requests.size == 4
    assert solver.solve(program).churn == pytest.approx(2 / 5)
    program.update_request(0, costs=[-1.0], usage={"a": 1.0})  # other columns in the same slot
    assert solver.solve(program).churn == pytest.approx(2 / 5)
    assert solver.solve(random_program(1)).churn == 1.0


def test_instances_of_different_thread_counts_live_together():
    program = random_program(4)
    solvers = [make_solver("highs-hot", threads=threads) for threads in (1, 2, None)]
    for _ in range(2):
        assert len({round(solver.solve(program).objective, 9) for solver in solvers}) == 1


def test_pdlp_accepts_its_own_answer():
    program = random_program(11)
    pdlp = make_solver("pdlp", tolerance=1e-5)
    cold = pdlp.solve(program)
    assert pdlp.solve(program).iterations < cold.iterations / 2
    pdlp.reset()
    assert pdlp.solve(program).iterations == cold.iterations


def test_the_gap_of_milp_is_relative_to_the_size_of_the_solution():
    """A large forced cost is in the objective, which HiGHS' own gap is relative to, and not in the size."""
    program = ContinualProgram()
    program.add_resource("a", 1.0)
    rng = np.random.default_rng(3)
    for q in range(40):
        use = rng.uniform(0.05, 0.1, 4)
        program.add_request(q, -use - rng.uniform(0.0, 0.02, 4), {"a": use}, total=1.0, integral=True)
    program.add_request("forced", [1000.0], {}, total=1.0, relation="==")
    solution = make_solver("highs-milp", mip_gap=0.5).solve(program)
    lost = solution.objective - solution.integer.bound
    assert lost > 1e-6
    assert solution.integer.gap == pytest.approx(lost / solution.gap_denominator, rel=1e-9)
    assert not solution.integer.proven


def infeasible_program():
    program = ContinualProgram()
    program.add_resource("a", 3.0)
    program.add_resource("b", 9.0, lower=6.0)
    for q in range(3):
        program.add_request(q, [1.0, -1.0], {"a": 1.0, "b": [1.0, 1.5]}, total=2.0)
    return program


@pytest.mark.parametrize("name", [*LP, "highs-milp"])
def test_infeasible_with_ray(name):
    program = infeasible_program()
    solution = make(name).solve(program)
    assert solution.status is Status.INFEASIBLE and solution.ray is not None
    compiled = compile_program(program)
    y = np.array([solution.ray.y[id] for id in compiled.resource_ids])
    slope = (compiled.A[: y.size].T @ y).reshape(3, 2)
    least = 2.0 * np.minimum(slope.min(axis=1), 0.0).sum()  # over all x that the requests allow
    most = np.where(y > 0, compiled.row_upper[:2], compiled.row_lower[:2])[y != 0] @ y[y != 0]
    assert least - most > 1e-6
    assert solution.ray.value > 0


@pytest.mark.parametrize("name", ["copter", *LP, "highs-milp"])
@pytest.mark.parametrize("free", [False, True])
def test_a_request_that_cannot_meet_its_own_sum(name, free):
    program = random_program(2)
    program.add_request("short", [1.0, -1.0], {"r0": 1.0}, total=5.0, relation="==", upper=[1.0, 2.0])
    if free:
        program.add_request("free", [-1.0], {}, upper=1e3)  # infeasible all the same
    solution = make(name).solve(program)
    assert solution.status is Status.INFEASIBLE and solution.ray is not None
    assert solution.ray.value == np.inf
    assert set(solution.ray.y.values()) == {0.0}
