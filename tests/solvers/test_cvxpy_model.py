"""copter.from_cvxpy: a problem as a program, answers brought back, parameters followed by edits."""

import numpy as np
import pytest

cp = pytest.importorskip("cvxpy", reason="needs the extra copter-opt[cvxpy]")

import copter  # noqa: E402
from copter import ProximalPoint  # noqa: E402
from copter.errors import CopterError, EditError  # noqa: E402

JOBS, SITES = 12, 4


class Case:
    """Jobs on sites: each job once at most, sites up to their capacity."""

    def __init__(self, seed=0, maximize=True):
        rng = np.random.default_rng(seed)
        self.x = cp.Variable((JOBS, SITES))
        self.gain = cp.Parameter((JOBS, SITES), value=rng.random((JOBS, SITES)))
        self.capacity = cp.Parameter(SITES, value=np.full(SITES, 2.0))
        self.size = cp.Parameter(JOBS, value=0.5 + rng.random(JOBS), nonneg=True)
        gain = cp.sum(cp.multiply(self.gain, self.x)) + 3
        self.once = cp.sum(self.x, axis=1) <= 1
        self.room = self.size @ self.x <= self.capacity
        objective = cp.Maximize(gain) if maximize else cp.Minimize(-gain)
        self.problem = cp.Problem(objective, [self.x >= 0, self.once, self.room])


def check(case, model, solution):
    """The problem has the values and duals that Clarabel finds."""
    value = model.solution(solution).objective
    mine = [each.dual_value for each in case.problem.constraints]
    assert case.problem.status == cp.OPTIMAL
    assert max(np.max(each.violation()) for each in case.problem.constraints) <= 1e-5
    fresh = cp.Problem(case.problem.objective, case.problem.constraints)
    assert value == pytest.approx(fresh.solve(solver=cp.CLARABEL), rel=1e-5)
    for one, dual in zip(fresh.constraints, mine, strict=True):
        assert dual == pytest.approx(one.dual_value, abs=1e-4)


@pytest.mark.parametrize("maximize", [False, True])
def test_the_program_has_requests_with_sum_rows_and_the_answer_comes_back(maximize):
    case = Case(maximize=maximize)
    model = copter.from_cvxpy(case.problem)
    assert len(model.program) == JOBS and len(model.program.resource_ids) == SITES
    solution = ProximalPoint(tolerance=1e-7).solve(model.program)
    check(case, model, solution)
    bound, value = model.solution(solution).bound, case.problem.value
    assert bound == pytest.approx(value, rel=1e-5)
    assert bound >= value - 1e-6 if maximize else bound <= value + 1e-6


def test_new_values_of_parameters_become_edits_and_warm_rounds():
    case, solver = Case(), ProximalPoint(tolerance=1e-7)
    model = copter.from_cvxpy(case.problem)
    program = model.program
    check(case, model, solver.solve(program))
    rng = np.random.default_rng(1)
    for parameter, kind in ((case.gain, "costs"), (case.capacity, "resources"), (case.size, "columns")):
        parameter.value = parameter.value * (1 + 0.2 * rng.random(parameter.shape))
        changes = model.update()
        assert getattr(changes, kind) and model.program is program
        solution = solver.solve(program)
        assert solution.warm_started
        check(case, model, solution)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning:cvxpy")
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_are_those_of_highs(seed):
    rng = np.random.default_rng(seed)
    x, t = cp.Variable(5), cp.Variable()
    A, target = rng.normal(size=(7, 5)), rng.normal(size=7)
    problem = cp.Problem(cp.Minimize(t + rng.random(5) @ x), [cp.abs(A @ x - target) <= t, x >= -1])
    model = copter.from_cvxpy(problem)
    value = model.solution(ProximalPoint().solve(model.program)).objective
    fresh = cp.Problem(problem.objective, problem.constraints)
    assert value == pytest.approx(fresh.solve(solver=cp.HIGHS), rel=1e-5, abs=1e-6)


def test_integral_variables_are_for_solvers_of_whole_numbers():
    x = cp.Variable(3, boolean=True)
    problem = cp.Problem(cp.Maximize(np.array([3.0, 2.0, 2.0]) @ x), [np.array([3.0, 2, 2]) @ x <= 4.5])
    model = copter.from_cvxpy(problem)
    model.solution(copter.make_solver("highs-milp").solve(model.program))
    assert problem.value == pytest.approx(4)


def test_infeasible_and_unbounded_are_told():
    x = cp.Variable(2, nonneg=True)
    floor = cp.Parameter(value=3.0)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [cp.sum(x) <= 2, x[0] - x[1] >= floor])
    model = copter.from_cvxpy(problem)
    assert model.solution(ProximalPoint().solve(model.program)).objective == np.inf
    assert problem.status == cp.INFEASIBLE and x.value is None
    free = cp.Problem(cp.Maximize(cp.sum(x)), [x[0] - x[1] <= 1])
    model = copter.from_cvxpy(free)
    assert model.solution(ProximalPoint().solve(model.program)).objective == np.inf
    assert free.status == cp.UNBOUNDED


def test_an_answer_from_before_an_edit_is_refused():
    case = Case()
    model = copter.from_cvxpy(case.problem)
    solution = ProximalPoint().solve(model.program)
    case.capacity.value = np.ones(SITES)
    model.update()
    with pytest.raises(CopterError, match="solve it again"):
        model.solution(solution)


def test_an_answer_from_before_a_rebuild_is_refused_too():
    """The new program took as many verbs as the old one."""
    x, floor = cp.Variable(2), cp.Parameter(2, value=[0.0, 0.0])
    rows = [x >= floor, x <= 1e5, x[0] + 2 * x[1] >= 1, x[0] + 3 * x[1] <= 4]
    problem = cp.Problem(cp.Minimize(cp.sum(x)), rows)
    model, solver = copter.from_cvxpy(problem), ProximalPoint()
    solution = solver.solve(model.program)
    floor.value = [-1e5, 0.0]
    assert model.update().rebuilt
    with pytest.raises(CopterError, match="solve it again"):
        model.solution(solution)
    assert model.solution(solver.solve(model.program)).objective == pytest.approx(-2.0)


def test_no_answer_is_an_error_of_the_solver():
    x = cp.Variable(2, nonneg=True)
    model = copter.from_cvxpy(cp.Problem(cp.Minimize(cp.sum(x)), [x[0] + 2 * x[1] >= 1]))  # zeros are none
    with pytest.raises(cp.error.SolverError):
        model.solution(ProximalPoint(fall_back=False, iteration_limit=1).solve(model.program, deadline=0))


def test_bounds_that_contradict_each_other_are_named():
    x, floor = cp.Variable(2, name="x"), cp.Parameter(value=0.0)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x >= floor, x <= 1, cp.sum(x) >= 1])
    model = copter.from_cvxpy(problem)
    floor.value = 2.0
    with pytest.raises(EditError, match="column 0"):
        model.update()


def test_a_quadratic_problem_is_refused():
    x = cp.Variable(2)
    with pytest.raises(cp.error.SolverError, match="COPTER cannot solve"):
        copter.from_cvxpy(cp.Problem(cp.Minimize(cp.sum_squares(x))))
