"""The first basis that HiGHS is given: near the optimum, and harmless where there is none."""

import numpy as np
import pytest
from numpy_twins import verify
from strategies import KINDS, make_infeasible, make_unbounded, random_plain

from copter import ContinualProgram
from copter.compiled import compile_program
from copter.solvers import highs_hot
from copter.solvers.base import make_solver
from copter.solvers.highs_start import first_basis


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(highs_hot, "_START_FROM", 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("make", [None, make_infeasible, make_unbounded])
def test_answers_are_as_right_as_from_a_slack_basis(seed, kind, make, always):
    rng = np.random.default_rng([seed, 71])
    plain = random_plain(rng, kind)
    if make is not None:
        make(rng, plain)
    program = plain.build()
    solution = make_solver("highs-hot").solve(program)
    wanted = {None: "optimal", make_infeasible: "infeasible", make_unbounded: "unbounded"}[make]
    assert verify(solution, program, plain.model(), 1e-6) == wanted
    assert (first_basis(program) is None) == (make is not None)


def assignment(agents, tasks, seed):
    """Many requests that compete for few resources: degenerate, with ties."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    for task in range(tasks):
        program.add_resource(task, 0.7 * agents / tasks)
    for agent in range(agents):
        some = rng.choice(tasks, 4, replace=False).tolist()
        usage = {task: ([column], [1.0]) for column, task in enumerate(some)}
        program.add_request(agent, -rng.integers(1, 4, 4).astype(float), usage, total=1.0)
    return program


def test_few_iterations_are_left(always, monkeypatch):
    program = assignment(600, 24, seed=0)
    basis = first_basis(program)
    compiled = compile_program(program)
    assert len(basis.col_status) == compiled.c.size
    assert len(basis.row_status) == compiled.row_lower.size
    near = make_solver("highs-hot").solve(program)
    monkeypatch.setattr(highs_hot, "_START_FROM", 10**9)
    far = make_solver("highs-hot").solve(program)
    assert near.objective == pytest.approx(far.objective, rel=1e-9)
    assert near.iterations < far.iterations / 10


def test_the_program_itself_is_not_touched():
    program = assignment(50, 8, seed=1)
    program.update_request(3, scale=2.0, override={1: -9.0})
    before = compile_program(program)
    first_basis(program)
    after = compile_program(program)
    np.testing.assert_array_equal(before.c, after.c)


def test_a_deadline_that_has_passed_leaves_simplex_to_itself(always):
    program = assignment(600, 24, seed=2)
    assert first_basis(program, deadline=0.0) is None
    solution = make_solver("highs-hot").solve(program)
    assert solution.status == "optimal"
