"""General LPs: every kind of row and bound through `linprog` against scipy's own, and files against HiGHS."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import scipy.optimize
from scipy.sparse import csc_array, csr_array, vstack

from copter import ProximalPoint, Status, linprog, read_mps
from copter.bench.lp import read_lp
from copter.errors import CopterError, EditError, SettingError
from copter.models import highs_runs
from copter.models.general_lp import checked
from copter.models.highs_runs import optimize
from copter.models.reductions import shift_columns
from copter.proof import highs_lp
from copter.solvers.general import GeneralLP, Model, hybrid, solve_lp
from copter.solvers.general.scipy_arguments import STATUS
from support import real_data
from support.amounts import seeds
from support.lp_cases import random_general, scipy_form

INF, NAN = np.inf, np.nan
DATA = real_data.DATA / "lp"
with_data = [
    pytest.mark.data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason=f"no files in {DATA}; set COPTER_DATA to the folder of the data"
    ),
]
INNERS = [("newton", 1e-6), ("cd", 1e-4)]
UNPROVED = ("MODSZK1",)
"""No proof in exact arithmetic was found, because of two free columns."""

# ---- programs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("inner", "tolerance"), INNERS)
@pytest.mark.parametrize("seed", seeds(12, 40))
def test_every_row_and_bound(seed, inner, tolerance):
    lp = random_general(seed)
    truth = scipy.optimize.linprog(**scipy_form(lp))
    assert truth.status == 0
    model, shifted = Model(lp, share=None), shift_columns(checked(lp))[1]
    solution = ProximalPoint(inner=inner, tolerance=tolerance, deadline=600).solve(model.program)
    assert solution.status is Status.OPTIMAL, solution.reason
    found = model.solution(solution)
    x = found.x
    size = 10 * tolerance * (1 + np.linalg.norm(shifted.shift) + abs(truth.fun) + np.linalg.norm(x))
    assert lp.c @ x == pytest.approx(truth.fun, abs=size)
    assert found.objective == pytest.approx(lp.c @ x + lp.offset, abs=1e-9 * (1 + size))
    assert found.bound <= truth.fun + lp.offset + size
    activity = lp.A @ x
    assert (activity <= lp.row_upper + size).all() and (activity >= lp.row_lower - size).all()
    assert (x <= lp.upper + size).all() and (x >= lp.lower - size).all()


def test_a_program_of_a_general_lp_has_a_request_for_each_side_of_a_free_column():
    lp = GeneralLP(
        np.array([1.0, 2.0, 3.0, 4.0]),
        csc_array([[1.0, 2.0, 0.0, 4.0]]),
        np.array([1.0]),
        np.array([9.0]),
        np.array([-INF, 1.0, -INF, 2.0]),
        np.array([INF, 5.0, 7.0, INF]),
        0.5,
        np.zeros(4, bool),
    )
    model, (reduced, shifted) = Model(lp, share=None), shift_columns(lp)
    assert (shifted.origin.tolist(), shifted.sign.tolist()) == ([0, 1, 2, 3, 0], [1, 1, -1, 1, -1])
    assert shifted.shift.tolist() == [0.0, 1.0, 7.0, 2.0]
    assert model.program.resources[0] == (1.0 - 10.0, 9.0 - 10.0)
    assert [model.program.requests[q].costs.tolist() for q in range(5)] == [
        [1.0],
        [2.0],
        [-3.0],
        [4.0],
        [-1.0],
    ]
    assert model.objective(0.0) == reduced.offset == 2.0 + 21.0 + 8.0 + 0.5


@pytest.mark.parametrize("inner", ["newton", "cd"])
def test_the_direction_of_an_unbounded_program_is_in_its_own_columns(inner):
    """minimise x0 - x1 with x0 - x1 = 1 + free moves: x1 <= 3 mirrored, x2 free."""
    lp = GeneralLP(
        np.array([1.0, 0.0, 2.0]),
        csc_array([[1.0, 0.0, -1.0]]),
        np.array([0.0]),
        np.array([0.0]),
        np.array([-INF, -INF, -INF]),
        np.array([3.0, 1.0, INF]),
        0.0,
        np.zeros(3, bool),
    )
    model = Model(lp, share=None)
    solution = ProximalPoint(inner=inner, tolerance=1e-4).solve(model.program)
    assert solution.status is Status.UNBOUNDED
    d = model.direction(solution)
    assert d[0] == pytest.approx(d[2]) and d[0] < 0
    assert lp.c @ d == pytest.approx(solution.ray.value)
    with pytest.raises(ValueError, match="no primal ray"):
        solved = Model(random_general(0), share=None)
        solved.direction(ProximalPoint().solve(solved.program))


# ---- linprog -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(8, 25))
@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("alone", [False, True])
def test_linprog_is_scipy_s(seed, form, alone):
    given = scipy_form(random_general(seed))
    truth = scipy.optimize.linprog(**given)
    given["A_ub"], given["A_eq"] = form(given["A_ub"]), form(given["A_eq"])
    found = linprog(**given, **({"solver": "copter", "presolve": False} if alone else {}))
    size = 1e-5 * (1 + abs(truth.fun) + np.linalg.norm(truth.x))
    assert (found.status, found.success) == (0, True)
    assert found.fun == pytest.approx(truth.fun, abs=size)
    assert found.fun == pytest.approx(given["c"] @ found.x)
    np.testing.assert_allclose(found.slack, given["b_ub"] - given["A_ub"] @ found.x, atol=1e-9)
    np.testing.assert_allclose(found.con, given["b_eq"] - given["A_eq"] @ found.x, atol=1e-9)
    assert (found.slack >= -size).all() and (abs(found.con) <= size).all()
    assert (found.ineqlin.marginals <= 0).all()
    # the marginals are a dual solution: reduced costs have the sign of the bound that holds the column
    reduced = given["c"] - found.ineqlin.marginals @ given["A_ub"] - found.eqlin.marginals @ given["A_eq"]
    low, high = given["bounds"].T
    paid = np.where(reduced > 0, low, high)
    paid = np.where(abs(reduced) <= 1e-5, np.clip(0.0, low, high), paid)
    dual = found.ineqlin.marginals @ given["b_ub"] + found.eqlin.marginals @ given["b_eq"] + reduced @ paid
    assert dual == pytest.approx(truth.fun, abs=10 * size)
    assert found.proof.worst <= 1e-6 and found.proof.bound == pytest.approx(truth.fun, abs=size)
    if alone:
        assert found.solution.status is Status.OPTIMAL and found.nit == found.solution.iterations


def test_linprog_marginals_are_scipy_s_where_they_are_unique():
    given = {"c": [-3.0, -2.0], "A_ub": [[1.0, 1.0], [1.0, 3.0]], "b_ub": [4.0, 8.0]}
    given |= {"A_eq": [[1.0, -1.0]], "b_eq": [2.0], "bounds": [(0, None), (0, None)]}
    truth, found = scipy.optimize.linprog(**given), linprog(**given)
    np.testing.assert_allclose(found.x, truth.x, atol=1e-5)
    np.testing.assert_allclose(found.ineqlin.marginals, truth.ineqlin.marginals, atol=1e-5)
    np.testing.assert_allclose(found.eqlin.marginals, truth.eqlin.marginals, atol=1e-5)


def test_reduced_costs_are_split_by_bound_as_scipy_s():
    given = {"c": [1.0, -2.0, 0.5, -1.0], "A_ub": [[1.0, 1.0, 1.0, 1.0]], "b_ub": [3.0]}
    given["bounds"] = [(-1, 5), (0, 2), (0, None), (None, 4)]
    truth, found = scipy.optimize.linprog(**given), linprog(**given)
    np.testing.assert_allclose(found.x, truth.x, atol=1e-5)
    for side in ("lower", "upper"):
        np.testing.assert_allclose(found[side].marginals, truth[side].marginals, atol=1e-5)
        np.testing.assert_allclose(found[side].residual, truth[side].residual, atol=1e-5)


CASES = {
    "infeasible": ({"c": [1.0], "A_ub": [[1.0], [-1.0]], "b_ub": [1.0, -2.0]}, 2),
    "infeasible bounds": ({"c": [1.0, 1.0], "A_eq": [[1.0, 1.0]], "b_eq": [5.0], "bounds": (0, 2)}, 2),
    "unbounded": ({"c": [-1.0, 0.0], "A_ub": [[0.0, 1.0]], "b_ub": [1.0]}, 3),
    "unbounded free": ({"c": [1.0], "bounds": (None, None)}, 3),
    "no rows": ({"c": [1.0, -1.0], "bounds": [(-1, 1), (None, 2)]}, 0),
    "one pair of bounds": ({"c": [1.0, -1.0], "bounds": (-1, 1)}, 0),
    "None for no bound": ({"c": [1.0, -1.0], "bounds": [(0, None), (None, 4)]}, 0),
    "default bounds": ({"c": [1.0], "A_ub": [[-1.0]], "b_ub": [-3.0]}, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_status_codes(case):
    given, status = CASES[case]
    truth, found = scipy.optimize.linprog(**given), linprog(**given)
    assert truth.status == found.status == status
    assert found.success == (status == 0) and found.message
    if status == 0:
        np.testing.assert_allclose(found.x, truth.x, atol=1e-5)


SHAPES = {
    "costs in a row": {"c": [[1.0, 2.0]]},
    "costs in a column": {"c": [[1.0], [2.0]], "A_ub": [[-1.0, -1.0]], "b_ub": [[-3.0]]},
    "one cost": {"c": 5.0},
    "a scalar right-hand side": {"c": [1.0, 2.0], "A_ub": [[-1.0, -1.0]], "b_ub": -3.0},
    "empty bounds": {"c": [1.0, 2.0], "bounds": []},
    "empty pairs": {"c": [1.0], "bounds": [[]]},
    "one pair in a list": {"c": [1.0, 2.0], "bounds": [(1, 2)]},
    "bounds crossed": {"c": [1.0, 1.0], "bounds": [(0, 1), (3, 2)]},
}


@pytest.mark.parametrize("case", SHAPES)
def test_what_scipy_makes_of_shapes(case):
    truth, found = scipy.optimize.linprog(**SHAPES[case]), linprog(**SHAPES[case])
    assert found.status == truth.status
    assert (found.x is None) == (truth.x is None) and found.fun == truth.fun


@pytest.mark.parametrize("case", ["infeasible", "unbounded", "default bounds"])
def test_every_field_of_scipy_s_result_is_there(case):
    given = CASES[case][0]
    truth, found = scipy.optimize.linprog(**given), linprog(**given)
    assert set(truth) - {"mip_node_count", "mip_dual_bound", "mip_gap"} <= set(found)
    for name in ("x", "fun", "slack", "con"):
        assert (truth[name] is None) == (found[name] is None)
    for group in ("ineqlin", "eqlin", "lower", "upper"):
        assert set(truth[group]) == set(found[group])
        for name in truth[group]:
            assert (truth[group][name] is None) == (found[group][name] is None)


@pytest.mark.parametrize("solver", ["auto", "copter"])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e9, 1e16, 1e20, 1e30])
def test_bounds_far_away_on_both_sides(far, solver):
    """Held by rows, not by the bounds; the own solver alone may not be wrong."""
    given = {"c": [1.0, 2.0, 1.0], "A_ub": [[-1.0, -1.0, -1.0], [-1.0, 2.0, 0.0]], "b_ub": [-4.0, 5.0]}
    given["bounds"] = [(-far, far), (-5, far), (-1, 7)]
    truth, found = scipy.optimize.linprog(**given), linprog(**given, solver=solver)
    assert found.status == truth.status == 0
    assert found.fun == pytest.approx(truth.fun, abs=1e-4)


def test_a_deadline_of_nothing():
    found = linprog(**scipy_form(random_general(3)), deadline=0.0, presolve=False)
    assert found.status in (0, 1) and found.success == (found.status == 0)


@pytest.mark.parametrize("by_simplex", [True, False])
def test_highs_is_given_up_when_time_is_over(by_simplex, monkeypatch):
    release, ended = threading.Event(), []
    monkeypatch.setattr("copter.models.highs.run", lambda highs: ended.append(release.wait(60)))
    found = optimize(random_general(3), by_simplex=by_simplex, seconds=0.05)
    assert not ended
    release.set()
    assert (found.status, found.found, found.ray) == (Status.DEADLINE, None, None)


def test_every_status_has_a_code_and_a_cancelled_solver_has_1():
    assert set(STATUS) == set(Status)
    solver = ProximalPoint()
    solver.callback = lambda *_: solver.cancel()
    found = linprog(**scipy_form(random_general(2)), solver=solver, presolve=False)
    assert found.status == 1 and found.message.startswith("Cancelled.")


BAD_SETTINGS = [("deadline", -1), ("deadline", NAN), ("deadline", "x"), ("tolerance", NAN), ("tolerance", 0)]


@pytest.mark.parametrize("solver", ["auto", "copter"])
@pytest.mark.parametrize(("name", "value"), BAD_SETTINGS)
def test_settings_that_make_no_sense(name, value, solver):
    with pytest.raises(SettingError) as caught:
        linprog([1.0], solver=solver, **{name: value})
    assert (caught.value.subject, caught.value.field) == ("solve_lp", name)


def test_a_solver_is_judged_by_its_own_tolerance():
    given = scipy_form(random_general(8))
    found = linprog(**given, solver=ProximalPoint(tolerance=1e-2, fall_back=False), presolve=False)
    assert found.status == 0 and 1e-6 < found.proof.worst <= 1e-2


def test_an_iteration_limit_is_status_1():
    given = scipy_form(random_general(2))
    found = linprog(**given, solver=ProximalPoint(iteration_limit=0), presolve=False)
    assert (found.status, found.success) == (1, False)


@pytest.mark.parametrize("presolve", [True, False])
def test_entries_given_twice_are_summed(presolve):
    """Minimise -x0 + x1 with 2 x0 + x1 <= 3, where the 2 is given as 1 and 1."""
    A = csc_array((np.array([1.0, 1.0, 1.0]), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(1, 2))
    found = linprog([-1.0, 1.0], A_ub=A, b_ub=[3.0], presolve=presolve)
    assert found.fun == pytest.approx(-1.5) and found.proof.worst <= 1e-15
    none = np.zeros(2)
    lp = GeneralLP(none - 1, A, none[:1] - INF, none[:1] + 3, none, none + 9, 0.0, np.zeros(2, bool))
    assert checked(lp).A.data.tolist() == [2.0, 1.0] and lp.A.nnz == 3
    assert solve_lp(lp, presolve=presolve).status is Status.OPTIMAL


@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_bad_coefficient_is_named_by_its_row_and_column(bad):
    with pytest.raises(EditError, match="must be finite") as caught:
        linprog([1.0, 1.0, 1.0], A_ub=[[1.0, 1.0, 0.0], [1.0, 0.0, bad]], b_ub=[1.0, 1.0])
    assert "row 1" in str(caught.value) and "column 2" in str(caught.value)


# ---- files -------------------------------------------------------------------------------------------

FILES = [
    path for path in sorted([*DATA.rglob("*.npz"), *DATA.glob("*.mps")]) if not path.stem.startswith("nan")
]
# Left to `make test-long`.
LARGE = ("STOCFOR3", "PILOT", "PILOT87", "QAP12", "MAROS-R7", "GREENBEA", "FIT2D", "DEGEN3", "D6CUBE")
# Badly scaled: 5 s to minutes on a quiet machine, not all end within the limit
# (docs/reference/limits.md).
HARD = pytest.mark.skipif("COPTER_HARD" not in os.environ, reason="badly scaled, slow: COPTER_HARD tries it")
OPTIMAL = [
    "adlittle",
    "afiro",
    "e226",
    "egout",
    "flugpl",
    "israel",
    "lseu",
    "small_mip",
    "smalllp",
    "standata",
]
SLOW = ["25fv47", "bell5", "scrs8", "shell"]
FOR_DESCENT = ["afiro", "egout", "flugpl", "lseu", "small_mip", "smalllp"]
INFEASIBLE = ["box1", "galenet", "gams10am", "woodinfe", pytest.param("klein1", marks=HARD)]


def highs(lp: GeneralLP) -> scipy.optimize.OptimizeResult:
    A, equal = csr_array(lp.A), lp.row_lower == lp.row_upper
    below, above = np.isfinite(lp.row_upper) & ~equal, np.isfinite(lp.row_lower) & ~equal
    return scipy.optimize.linprog(
        lp.c,
        vstack((A[below], -A[above])),
        np.concatenate((lp.row_upper[below], -lp.row_lower[above])),
        A[equal],
        lp.row_upper[equal],
        np.column_stack((lp.lower, lp.upper)),
    )


def check_file(name: str, inner: str, tolerance: float) -> None:
    """Objective, bound and feasibility of a file's relaxation."""
    lp = read_mps(DATA / f"{name}.mps")
    truth = highs(lp)
    model, shifted = Model(lp, share=None), shift_columns(checked(lp))[1]
    solution = ProximalPoint(inner=inner, tolerance=tolerance, deadline=600).solve(model.program)
    found = model.solution(solution)
    assert solution.status is Status.OPTIMAL, solution.reason
    size = max(1.0, abs(solution.objective))
    assert solution.is_optimal(tolerance)
    assert abs(lp.c @ found.x - truth.fun) <= 5 * tolerance * size
    # where the dual residual is not 0 the bound is off by as much as unbounded columns can use it
    slack = solution.absolute.dual * np.linalg.norm(truth.x - shifted.shift) + 1e-9 * size
    assert found.bound - lp.offset <= truth.fun + slack


class TestFiles:
    pytestmark = with_data

    @pytest.mark.parametrize("name", OPTIMAL + [pytest.param(name, marks=HARD) for name in SLOW])
    def test_optimal(self, name):
        check_file(name, "auto", 1e-6)

    @pytest.mark.parametrize("name", FOR_DESCENT)
    def test_optimal_by_descent(self, name):
        check_file(name, "cd", 1e-4)

    @pytest.mark.parametrize("name", INFEASIBLE)
    def test_infeasible(self, name):
        model = Model(read_mps(DATA / f"{name}.mps"), share=None)
        solution = ProximalPoint(deadline=600).solve(model.program)
        assert solution.status is Status.INFEASIBLE, solution.reason
        y = np.array([solution.ray.y[i] for i in range(model.rest.row_lower.size)])
        lp = model.rest
        # over all x in the box: 0 >= y'Ax - y'(the bound it pays for) is impossible
        p = lp.A.T @ y
        paid = np.where(y > 0, lp.row_upper, np.where(y < 0, lp.row_lower, 0.0))
        least = np.where(p > 0, lp.lower, np.where(p < 0, lp.upper, 0.0))
        tiny = 1e-7 * solution.ray.value
        least = np.where(np.isinf(least) & (abs(p) <= tiny), 0.0, least)
        assert p @ least - y @ paid > 0

    @HARD
    def test_unbounded(self):
        model = Model(read_mps(DATA / "gas11.mps"), share=None)
        solution = ProximalPoint(deadline=600).solve(model.program)
        assert solution.status is Status.UNBOUNDED, solution.reason
        lp, d = model.rest, model.direction(solution)
        drop, activity = -float(lp.c @ d), lp.A @ d
        assert drop > 0
        wrong = [activity[np.isfinite(lp.row_upper)], -activity[np.isfinite(lp.row_lower)]]
        wrong += [d[np.isfinite(lp.upper)], -d[np.isfinite(lp.lower)]]
        assert max(part.max(initial=0.0) for part in wrong) <= 1e-6 * drop

    @pytest.mark.parametrize("name", ["nan1", "nan2"])
    def test_a_file_with_nan(self, name):
        with pytest.raises(CopterError, match=rf"{name}\.mps, line \d+, [A-Z]+: NaN"):
            read_mps(DATA / f"{name}.mps")


class TestDefault:
    """Status and objective of every LP there is, by the default."""

    pytestmark = with_data

    @pytest.mark.parametrize(
        "path",
        [
            pytest.param(path, marks=pytest.mark.long if path.stem in LARGE else (), id=path.stem)
            for path in FILES
        ],
    )
    def test_right(self, path):
        lp = read_lp(path)
        answer = solve_lp(lp)
        if path.stem == "QAP12":  # simplex takes a minute; the value is Netlib's
            status, value = 0, 522.89435056
        else:
            truth = highs(lp)
            status, value = truth.status, truth.fun
        if path.stem in UNPROVED:
            assert answer.status is Status.UNPROVED
            return
        assert STATUS[answer.status][0] == status, answer.reason
        if status == 0:
            assert answer.proof.objective - lp.offset == pytest.approx(value, rel=1e-6, abs=1e-6)
            assert answer.proof.worst <= 1e-6
        else:
            assert answer.ray is not None


def test_no_file(tmp_path):
    with pytest.raises(CopterError, match=r"none\.mps: no such file"):
        read_mps(tmp_path / "none.mps")


def test_a_file_that_is_no_program(tmp_path):
    (tmp_path / "bad.mps").write_text("this is not\nan MPS file\n")
    with pytest.raises(CopterError, match=r"bad\.mps, line 1: .* is not a section"):
        read_mps(tmp_path / "bad.mps")


def transport(sources=24, targets=90):
    """An LP of 4,320 nonzeros, which simplex solves in a few milliseconds."""
    rng = np.random.default_rng(3)
    cost, supply = rng.uniform(1.0, 2.0, (sources, targets)), np.full(sources, targets / sources * 1.2)
    columns = np.arange(sources * targets)
    rows = np.concatenate((columns // targets, sources + columns % targets))
    A = csc_array((np.ones(rows.size), (rows, np.tile(columns, 2))), shape=(sources + targets, columns.size))
    return {
        "c": cost.ravel(),
        "A_ub": A[:sources],
        "b_ub": supply,
        "A_eq": A[sources:],
        "b_eq": np.ones(targets),
    }


@pytest.mark.parametrize("seconds", [30.0, 0.0])
@pytest.mark.parametrize("large", [False, True])
def test_moments_of_simplex_and_what_follows_without_them(seconds, large, monkeypatch):
    """The optimum is the same if a moment is long enough, and if it is over at once."""
    given = transport()
    truth = scipy.optimize.linprog(**given)
    for module, name in ((hybrid, "_BEFORE_PRESOLVE"), (highs_runs, "_BEFORE_INTERIOR")):
        monkeypatch.setattr(module, name, seconds)
        monkeypatch.setattr(module, "_A_NONZERO", 0.0)
    if large:
        monkeypatch.setattr(highs_runs, "_LARGE", 0.0)
    runs = []

    def count(lp, **settings):
        found = optimize(lp, **settings)
        runs.append((settings.get("by_simplex", False), found.status))
        return found

    monkeypatch.setattr(highs_lp, "optimize", count)
    found = linprog(**given)
    assert found.status == 0 and found.fun == pytest.approx(truth.fun, rel=1e-6)
    assert found.nit > 0
    assert ("presolve" in found.seconds) == (seconds == 0.0)
    assert runs[0] == (True, Status.OPTIMAL if seconds else Status.DEADLINE)
    assert len(runs) == (1 if seconds else 2)


def test_very_small_programs_and_options_have_no_moment(monkeypatch):
    monkeypatch.setattr(hybrid, "_BEFORE_PRESOLVE", 30.0)
    assert "presolve" in linprog([1.0, 1.0], A_ub=[[-1.0, -1.0]], b_ub=[-1.0]).seconds
    assert "presolve" in linprog(**transport(), options={"presolve": True}, method="highs-ds").seconds
