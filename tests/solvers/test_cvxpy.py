"""copter.COPTER: cvxpy's own tests of solvers, statuses, duals and options."""

import inspect
import pickle
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

cp = pytest.importorskip("cvxpy", reason="needs the extra copter-opt[cvxpy]")
helpers = pytest.importorskip("cvxpy.tests.solver_test_helpers")

import copter  # noqa: E402
from copter.errors import SettingError  # noqa: E402
from copter.models.highs import HighsEngine  # noqa: E402

OTHER_CONES = {
    "StandardTestQPs": "quadratic objectives",
    "StandardTestSOCPs": "second-order cones",
    "StandardTestSDPs": "semidefinite cones",
    "StandardTestECPs": "exponential cones",
    "StandardTestMixedCPs": "exponential, second-order and semidefinite cones",
    "StandardTestPCPs": "power cones",
}
"""Classes of cvxpy's tests that a solver of LPs cannot be put to, and what it lacks."""
MEANT = {"StandardTestLPs", "StandardTestInfeasibleProblems"}
INFEASIBLE_LPS = ("test_lp_ineq_constraints", "test_lp_eq_constraints")


def methods(name):
    return [test for test in dir(getattr(helpers, name, object)) if test.startswith("test_")]


@pytest.fixture
def sdpa(monkeypatch):
    """test_lp_7 asks SDPA for its precision before it solves with any solver."""
    stub = ModuleType("sdpap")
    stub.sdpacall = SimpleNamespace(sdpacall=SimpleNamespace(get_backend_info=lambda: {"gmp": True}))
    monkeypatch.setitem(sys.modules, "sdpap", stub)


@pytest.mark.parametrize("test", methods("StandardTestLPs") + methods("StandardTestMixedIntegerPrograms"))
def test_cvxpys_own_programs(test, sdpa):
    owner = helpers.StandardTestLPs if test in methods("StandardTestLPs") else None
    owner = owner or helpers.StandardTestMixedIntegerPrograms
    getattr(owner, test)(solver=copter.COPTER)


@pytest.mark.parametrize("test", INFEASIBLE_LPS)
def test_cvxpys_own_infeasible_programs_have_their_certificates(test):
    getattr(helpers.StandardTestInfeasibleProblems, test)(solver=copter.COPTER)


def test_no_class_of_cvxpys_tests_is_left_out_silently():
    classes = {name for name, _ in inspect.getmembers(helpers, inspect.isclass) if "StandardTest" in name}
    assert classes - {"StandardTestMixedIntegerPrograms"} == MEANT | set(OTHER_CONES)


@pytest.mark.parametrize(
    "test", [test for test in methods("StandardTestInfeasibleProblems") if test not in INFEASIBLE_LPS]
)
def test_other_cones_are_refused_by_cvxpy(test):
    with pytest.raises(cp.error.SolverError, match="COPTER cannot solve"):
        getattr(helpers.StandardTestInfeasibleProblems, test)(solver=copter.COPTER)


def random_problem(seed, maximize=False):
    """A bounded, feasible LP of all kinds of rows, with its constraints."""
    rng = np.random.default_rng(seed)
    x, y = cp.Variable((3, 2)), cp.Variable(4, nonneg=True)
    inside_x, inside_y = rng.normal(size=(3, 2)), rng.random(4)
    A, B = rng.normal(size=(5, 6)), rng.normal(size=(5, 4))
    flat = cp.vec(x, order="F")
    at = A @ inside_x.ravel(order="F") + B @ inside_y
    constraints = [
        A[:3] @ flat + B[:3] @ y <= at[:3] + rng.random(3),
        A[3:] @ flat + B[3:] @ y == at[3:],
        x >= inside_x - 1,
        x <= inside_x + rng.random((3, 2)),
        cp.sum(y) <= 10,
    ]
    cost = cp.sum(cp.multiply(rng.normal(size=(3, 2)), x)) + rng.normal(size=4) @ y + 7
    return cp.Problem((cp.Maximize if maximize else cp.Minimize)(cost), constraints)


@pytest.mark.parametrize("seed", range(12))
def test_values_and_duals_of_random_programs_are_those_of_clarabel(seed):
    problem = random_problem(seed, maximize=seed % 2 == 1)
    problem.solve(solver=cp.CLARABEL)
    wanted = problem.value, [each.dual_value for each in problem.constraints]
    problem.solve(solver=copter.COPTER)
    assert problem.status == cp.OPTIMAL
    assert problem.value == pytest.approx(wanted[0], rel=1e-5, abs=1e-5)
    for one, dual in zip(problem.constraints, wanted[1], strict=True):
        assert one.dual_value == pytest.approx(dual, rel=1e-4, abs=1e-4)
        assert np.max(one.violation()) <= 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_whole_numbers_are_those_of_highs(seed):
    rng = np.random.default_rng(seed)
    x, on, y = cp.Variable(5, integer=True), cp.Variable(4, boolean=True), cp.Variable(3, nonneg=True)
    weights = rng.integers(1, 20, 12)
    load = weights[:5] @ x + weights[5:9] @ on + weights[9:] @ y
    constraints = [load <= weights.sum() / 2, x >= -1, x <= 3, y <= 2 * cp.sum(on)]
    gain = rng.random(5) @ x + rng.random(4) @ on + rng.random(3) @ y
    problem = cp.Problem(cp.Maximize(gain), constraints)
    wanted = problem.solve(solver=cp.HIGHS)
    assert problem.solve(solver=copter.COPTER) == pytest.approx(wanted, rel=1e-6)
    assert np.allclose(x.value, np.rint(x.value)) and np.allclose(on.value, np.rint(on.value))


def test_the_bounds_of_a_variable_can_contradict_each_other():
    x = cp.Variable(bounds=[0, cp.Parameter(value=-1)])
    problem = cp.Problem(cp.Minimize(x))
    problem.solve(solver=copter.COPTER)
    assert problem.status == cp.INFEASIBLE


@pytest.mark.parametrize("integer", [False, True])
def test_a_row_that_no_number_meets_is_infeasible(integer):
    x = cp.Variable(integer=integer)
    problem = cp.Problem(cp.Minimize(x), [x >= 1, x <= -np.inf])
    assert problem.solve(solver=copter.COPTER) == np.inf
    assert problem.status == cp.INFEASIBLE


def test_a_solved_problem_can_be_pickled():
    problem = random_problem(4)
    value = problem.solve(solver=copter.COPTER)
    twin = pickle.loads(pickle.dumps(problem))
    assert twin.solve(solver=copter.COPTER) == pytest.approx(value)
    assert not twin.solver_stats.extra_stats["warm_started"]


def test_the_same_problem_again_takes_no_iterations():
    problem = random_problem(3)
    problem.solve(solver=copter.COPTER)
    assert not problem.solver_stats.extra_stats["warm_started"]
    problem.solve(solver=copter.COPTER, warm_start=True)
    assert problem.solver_stats.extra_stats["warm_started"]
    assert problem.solver_stats.num_iters == 0
    problem.solve(solver=copter.COPTER, warm_start=False)
    assert not problem.solver_stats.extra_stats["warm_started"]


def test_changed_parameters_reach_highs_as_differences(monkeypatch):
    """Costs, right sides and bounds are changed in HiGHS' model, from whose basis it goes on."""
    calls = []
    for name in ("passModel", "changeColsCost", "changeRowsBounds", "changeColsBounds", "changeCoeff"):
        plain = getattr(HighsEngine, name)

        def spy(self, *given, name=name, plain=plain):
            calls.append(name)
            return plain(self, *given)

        monkeypatch.setattr(HighsEngine, name, spy)
    rng = np.random.default_rng(0)
    x, room, gain = cp.Variable((30, 5)), cp.Parameter(4), cp.Parameter((30, 5))
    most = cp.Parameter(value=0.9)
    room.value, gain.value = np.full(4, 3.0), rng.random((30, 5))
    load = rng.random((4, 30)) @ cp.sum(x, axis=1)
    rows = [x >= 0, x <= most, cp.sum(x, axis=1) <= 1, load <= room]
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(gain, x))), rows)
    for change, wanted in (
        (lambda: None, {"passModel"}),
        (lambda: setattr(gain, "value", gain.value + rng.random((30, 5))), {"changeColsCost"}),
        (lambda: setattr(room, "value", room.value * 0.9), {"changeRowsBounds"}),
        (lambda: setattr(most, "value", 0.75), {"changeColsBounds", "changeRowsBounds"}),
        (lambda: None, set()),
    ):
        change()
        calls.clear()
        problem.solve(solver=copter.COPTER)
        assert set(calls) <= wanted and bool(calls) == bool(wanted), calls
        warm = problem.solver_stats.extra_stats["warm_started"]
        assert warm == ("passModel" not in wanted)
        duals = [each.dual_value for each in rows]
        fresh = cp.Problem(problem.objective, rows)
        assert problem.value == pytest.approx(fresh.solve(solver=cp.CLARABEL), rel=1e-6)
        for one, dual in zip(fresh.constraints[1:], duals[1:], strict=True):
            assert dual == pytest.approx(one.dual_value, abs=1e-4)


def test_a_status_between_two_solves_is_right():
    limit, x = cp.Parameter(value=1.0), cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 0, x <= limit, x[0] + x[1] >= 1])
    found = []
    for value in (1.0, 0.2, 2.0):
        limit.value = value
        problem.solve(solver=copter.COPTER)
        found.append(problem.status)
    assert found == [cp.OPTIMAL, cp.INFEASIBLE, cp.OPTIMAL]


@pytest.mark.parametrize(("option", "value"), [("tolerance", 2.0), ("time_limit", -1), ("threads", "two")])
def test_an_option_that_makes_no_sense_is_named(option, value):
    problem = random_problem(0)
    with pytest.raises(SettingError, match=f"'COPTER': {option} = {value!r}"):
        problem.solve(solver=copter.COPTER, **{option: value})


def test_a_misspelt_option_is_a_type_error_that_names_the_nearest():
    with pytest.raises(TypeError, match="unexpected keyword argument 'tolerence'; did you mean tolerance"):
        random_problem(0).solve(solver=copter.COPTER, tolerence=1e-6)


@pytest.mark.parametrize("integer", [False, True])
def test_no_answer_in_time_is_an_error_of_the_solver(integer):
    x = cp.Variable(30, integer=integer)
    A = np.random.default_rng(0).random((20, 30))
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [A @ x >= 7.5, x >= 0])
    with pytest.raises(cp.error.SolverError, match="COPTER"):
        problem.solve(solver=copter.COPTER, time_limit=0)


def test_programs_without_variables_or_with_rows_of_constants():
    """Also a row that is false whatever the variables are."""
    t, y = cp.Variable(nonneg=True), cp.Variable(integer=True)
    for problem, status in (
        (cp.Problem(cp.Minimize(t), [y == 0.5]), cp.INFEASIBLE),
        (cp.Problem(cp.Maximize(0), [cp.Constant(0) == 1]), cp.INFEASIBLE),
        (cp.Problem(cp.Maximize(3), [cp.Constant(0) <= 1]), cp.OPTIMAL),
        (cp.Problem(cp.Minimize(t), [cp.Constant(2) <= 1, t >= 1]), cp.INFEASIBLE),
        (cp.Problem(cp.Minimize(0 * t + 5), [t <= 3]), cp.OPTIMAL),
    ):
        problem.solve(solver=copter.COPTER)
        assert problem.status == status, str(problem)


@pytest.mark.parametrize("wrong", [None, "model.mps", 3])
def test_what_is_no_problem_of_cvxpys_is_named(wrong):
    with pytest.raises(TypeError, match="'from_cvxpy': problem = .*: must be a cvxpy.Problem"):
        copter.from_cvxpy(wrong)
