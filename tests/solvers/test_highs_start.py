"""The first basis that HiGHS is given: near the optimum, and harmless where there is none."""

import numpy as np
import pytest

from copter import ContinualProgram, Status
from copter.models.highs import HighsEngine
from copter.solvers.baselines import highs_hot
from copter.solvers.baselines.highs_hot import first_basis
from copter.solvers.registry import make_solver
from copter.store.compiled import compile_program
from support.amounts import seeds
from support.numpy_twins import verify
from support.strategies import KINDS, make_infeasible, random_plain


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(highs_hot, "_START_FROM", 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(3, 8))
@pytest.mark.parametrize("make", [None, make_infeasible])
def test_answers_are_as_right_as_from_a_slack_basis(seed, kind, make, always):
    rng = np.random.default_rng([seed, 71])
    plain = random_plain(rng, kind)
    if make is not None:
        make(rng, plain)
    program = plain.build()
    solution = make_solver("highs-hot").solve(program)
    wanted = "optimal" if make is None else "infeasible"
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


def test_half_of_the_call_s_deadline_is_for_the_start(always, monkeypatch):
    given = []
    monkeypatch.setattr(highs_hot, "first_basis", lambda program, **options: given.append(options))
    make_solver("highs-hot", time_limit=60.0).solve(assignment(50, 8, seed=2), time_limit=8.0)
    make_solver("highs-hot").solve(assignment(50, 8, seed=2))
    assert [0 < options["time_limit"] <= 4.0 for options in given[:1]] == [True]
    assert given[1]["time_limit"] is None


def test_no_time_for_a_start_leaves_simplex_to_itself(always, monkeypatch):
    program = assignment(600, 24, seed=2)
    assert first_basis(program, time_limit=0.0) is None
    real = highs_hot.first_basis
    monkeypatch.setattr(highs_hot, "first_basis", lambda program, **options: real(program, time_limit=0.0))
    solution = make_solver("highs-hot").solve(program)
    assert (solution.status, solution.warm_reason) == ("optimal", "no earlier round")


@pytest.mark.parametrize(
    ("options", "used"),
    [({}, True), ({"strategy": "dual"}, True), ({"threads": None}, True), ({"keep_basis": False}, False)],
)
def test_every_way_to_run_it_gives_the_optimum(options, used, always):
    program = assignment(200, 12, seed=3)
    best = make_solver("highs-simplex").solve(program).objective
    solver = make_solver("highs-hot", **options)
    first = solver.solve(program)
    assert first.objective == pytest.approx(best, rel=1e-9)
    assert ("copter" in first.warm_reason) == used
    program.update_requests(range(0, 200, 3), scales=[1.3] * 67)
    best = make_solver("highs-simplex").solve(program).objective
    assert solver.solve(program).objective == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize(("total", "upper"), [(1.0, 1.0), (0.5, 0.5), (1.0, 3.0)])
@pytest.mark.parametrize("relation", ["<=", "=="])
def test_columns_that_fill_their_total_alone_cost_no_pivots(total, upper, relation, always):
    program = ContinualProgram()
    program.add_resource("plenty", 1e3)
    for k in range(300):
        program.add_request(k, [-1.0, -2.0], {"plenty": 1.0}, total=total, upper=upper, relation=relation)
    solution = make_solver("highs-hot").solve(program)
    assert solution.objective == pytest.approx(-600.0 * min(total, upper))
    assert solution.iterations <= 3


def test_rows_that_are_gone_and_requests_of_every_kind(always):
    program = assignment(60, 8, seed=4)
    program.remove_resources(3)
    program.remove_requests([0, 7, 8])
    program.add_request("box", [-1.0, 0.0], {1: 1.0}, upper=[2.0, 9.0])
    program.add_request("both", [1.0, -1.0], {2: [0.5, 1.0]}, total=0.3, relation="==", integral=True)
    best = make_solver("highs-simplex").solve(program).objective
    assert make_solver("highs-hot").solve(program).objective == pytest.approx(best, rel=1e-9)


def test_programs_of_nothing():
    assert first_basis(ContinualProgram()) is None
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    assert first_basis(program) is None


def test_a_basis_that_fails_is_given_up(always, monkeypatch):
    program, statuses = assignment(60, 8, seed=5), []
    real = HighsEngine.outcome

    def failing(highs):
        statuses.append(real(highs))
        return statuses[-1] if len(statuses) > 1 else (Status.NUMERICAL_ERROR, "singular")

    monkeypatch.setattr(HighsEngine, "outcome", failing)
    solution = make_solver("highs-hot").solve(program)
    assert solution.status is Status.OPTIMAL and len(statuses) == 2
    assert solution.warm_reason == "the last basis failed and was cleared (singular)"
