"""copter.from_cvxpy: a problem as a program, answers brought back, parameters followed by edits."""

import numpy as np
import pytest

cp = pytest.importorskip("cvxpy", reason="needs the extra copter-opt[cvxpy]")

import copter  # noqa: E402
from copter.errors import EditError  # noqa: E402

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


def check(case, found):
    """The problem has the values and duals that Clarabel finds."""
    mine = [each.dual_value for each in case.problem.constraints]
    assert case.problem.status == cp.OPTIMAL and case.problem.value == pytest.approx(found.objective)
    assert max(np.max(each.violation()) for each in case.problem.constraints) <= 1e-5
    assert found.values[case.x] is case.x.value and found.duals[case.room] is case.room.dual_value
    fresh = cp.Problem(case.problem.objective, case.problem.constraints)
    assert found.objective == pytest.approx(fresh.solve(solver=cp.CLARABEL), rel=1e-5)
    for one, dual in zip(fresh.constraints, mine, strict=True):
        assert dual == pytest.approx(one.dual_value, abs=1e-4)


@pytest.mark.parametrize("maximize", [False, True])
def test_values_duals_and_bounds_come_back_after_each_change_of_a_parameter(maximize):
    case, rng = Case(maximize=maximize), np.random.default_rng(1)
    model = copter.from_cvxpy(case.problem)
    check(case, model.solve())
    for parameter, kind in ((case.gain, "costs"), (case.capacity, "rows"), (case.size, "entries")):
        parameter.value = parameter.value * (1 + 0.2 * rng.random(parameter.shape))
        changes = model.update()
        assert getattr(changes, kind) and sum(changes) == getattr(changes, kind)
        found = model.solve()
        assert found.details["start"] == "kept basis"
        value = case.problem.value
        assert found.bound >= value - 1e-6 if maximize else found.bound <= value + 1e-6
        check(case, found)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning:cvxpy")
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_are_those_of_highs(seed):
    rng = np.random.default_rng(seed)
    x, t = cp.Variable(5), cp.Variable()
    A, target = rng.normal(size=(7, 5)), rng.normal(size=7)
    problem = cp.Problem(cp.Minimize(t + rng.random(5) @ x), [cp.abs(A @ x - target) <= t, x >= -1])
    value = copter.from_cvxpy(problem).solve().objective
    fresh = cp.Problem(problem.objective, problem.constraints)
    assert value == pytest.approx(fresh.solve(solver=cp.HIGHS), rel=1e-5, abs=1e-6)


def test_integral_variables_and_another_solver():
    x = cp.Variable(3, boolean=True)
    problem = cp.Problem(cp.Maximize(np.array([3.0, 2.0, 2.0]) @ x), [np.array([3.0, 2, 2]) @ x <= 4.5])
    for solve in (lambda model: model.solve(), copter.make_solver("highs-milp").solve):
        found = solve(copter.from_cvxpy(problem))
        assert problem.value == pytest.approx(4) and np.isnan(found.y).all()


def test_infeasible_and_unbounded_are_told():
    x = cp.Variable(2, nonneg=True)
    floor = cp.Parameter(value=3.0)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [cp.sum(x) <= 2, x[0] - x[1] >= floor])
    found = copter.from_cvxpy(problem).solve()
    assert np.isnan(found.objective) and found.ray.kind == "infeasible"
    assert problem.status == cp.INFEASIBLE and x.value is None
    free = cp.Problem(cp.Maximize(cp.sum(x)), [x[0] - x[1] <= 1])
    found = copter.from_cvxpy(free).solve()
    assert found.ray.kind == "unbounded" and free.status == cp.UNBOUNDED


def test_no_answer_is_an_error_of_cvxpy():
    x = cp.Variable(2, nonneg=True)
    model = copter.from_cvxpy(cp.Problem(cp.Minimize(cp.sum(x)), [x[0] + 2 * x[1] >= 1]))  # zeros are none
    with pytest.raises(cp.error.SolverError):
        model.solve(time_limit=0)
    assert model.solve().objective == pytest.approx(0.5)


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
