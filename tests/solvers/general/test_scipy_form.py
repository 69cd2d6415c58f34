"""`linprog` as scipy has it: arguments, methods, options, warnings, integrality and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import OptimizeWarning
from scipy.sparse import csc_array, csr_array

from copter import linprog
from copter.errors import EditError, SettingError
from support.amounts import seeds
from support.lp_cases import random_general, scipy_form

INF, NAN = np.inf, np.nan
GIVEN = {"c": [-3.0, -2.0], "A_ub": [[2.0, 1.0], [1.0, 1.0], [1.0, 0.0]], "b_ub": [10.0, 8.0, 4.0]}
FRACTIONAL = {"c": [0.0, -1.0], "A_ub": [[-1.0, 1.0], [3.0, 2.0], [2.0, 3.0]], "b_ub": [1.0, 12.0, 12.0]}
RNG = np.random.default_rng(5)
LARGER = {"c": -RNG.random(60), "A_ub": RNG.random((40, 60)), "b_ub": RNG.uniform(20, 40, 40)}


def test_a_method_is_taken_alone_and_crossover_is_counted():
    one = np.ones(6)
    ties = {"c": np.ones(36), "A_eq": np.vstack([np.kron(np.eye(6), one), np.kron(one, np.eye(6))])}
    ties |= {"b_eq": np.ones(12), "options": {"presolve": False}}
    found = linprog(**ties, method="highs-ipm")
    assert found.crossover_nit > 0 and found.nit > found.crossover_nit
    assert linprog(**ties, method="highs-ds").crossover_nit == 0


@pytest.mark.parametrize("kinds", [1, [1, 1], [0, 1], [2, 3]])
def test_integrality(kinds):
    bounds = [(1.5, 4), (1.5, 4)]
    given = FRACTIONAL | {"integrality": kinds, "bounds": bounds}
    truth, found = scipy.optimize.linprog(**given), linprog(**given)
    assert (found.status, found.fun) == (truth.status, pytest.approx(truth.fun))
    assert found.mip_gap == pytest.approx(truth.mip_gap) and found.mip_dual_bound <= found.fun + 1e-9
    np.testing.assert_allclose(found.slack, FRACTIONAL["b_ub"] - FRACTIONAL["A_ub"] @ found.x)
    assert found.ineqlin.marginals is None and "HiGHS" in repr(found)


def test_iteration_and_time_limits():
    few = linprog(**LARGER, method="highs-ds", options={"maxiter": 3})
    assert (few.status, few.nit) == (1, 3)
    assert few.message.startswith("Iteration limit reached. (HiGHS Status 14")
    assert linprog(**LARGER, method="highs", options={"time_limit": 0.0}).status == 1


def test_what_no_column_can_take_is_infeasible_and_can_be_shown():
    for bounds in ((1, -1), (INF, INF), (-INF, -INF)):
        found = linprog([1.0], bounds=bounds)
        assert (found.status, found.x, found.nit) == (2, None, 0) and "bounds" in repr(found)


WARNED = {
    "NaN bound": ({"bounds": [(0, 1), (NAN, 2)]}, "column 1"),
    "NaN in the only pair": ({"bounds": (0, NAN)}, "column 0"),
    "x0": ({"x0": [1.0, 1.0]}, "x0"),
    "integrality of another method": ({"integrality": 1, "method": "highs-ds"}, "integrality"),
    "option of nobody": ({"options": {"ekki": 1}}, "Unrecognized options detected: {'ekki': 1}"),
    "switch that is none": ({"options": {"presolve": 2}}, "'presolve' is 2"),
    "limit below 0": ({"options": {"maxiter": -4}}, "'maxiter' is -4"),
    "strategy of nobody": ({"options": {"simplex_dual_edge_weight_strategy": "ekki"}}, "ekki"),
}


@pytest.mark.parametrize("case", WARNED)
def test_warnings_of_what_is_left_out(case):
    given, words = WARNED[case]
    with pytest.warns(OptimizeWarning) as caught:
        found = linprog(**GIVEN, **given)
    assert found.status == 0
    assert words in str(caught[0].message) and caught[0].filename == __file__


def test_a_method_that_scipy_deprecates_is_solved_with_a_warning():
    with pytest.warns(DeprecationWarning, match="simplex"):
        assert linprog(**GIVEN, method="simplex").fun == pytest.approx(-18.0)


TEXT = [
    {"c": ["1", "2"]},
    {"c": [1.0, "x"]},
    {"c": [1.0], "A_ub": [["1"]], "b_ub": [1.0]},
    {"c": [1.0], "A_ub": csr_array([[1.0]]), "b_ub": ["1"]},
    {"c": None},
    {"c": [1j]},
]


@pytest.mark.parametrize("given", TEXT, ids=str)
def test_text_is_no_number(given):
    with pytest.raises(EditError, match="number") as caught:
        linprog(**given)
    assert isinstance(caught.value, TypeError)


ERRORS = {
    "NaN cost": ({"c": [1.0, NAN]}, "c[1]", "c"),
    "infinite cost": ({"c": [INF, 1.0]}, "c[0]", "c"),
    "bounds of no numbers": ({"c": [1.0], "bounds": [("a", 2)]}, "bounds", "pairs"),
    "ragged bounds": ({"c": [1.0, 2.0], "bounds": [(0, 2), (1,)]}, "bounds", "pairs"),
    "NaN right-hand side": ({"c": [1.0], "A_ub": [[1.0], [2.0]], "b_ub": [1.0, NAN]}, "row 1", "bounds"),
    "rows of A_ub": ({"c": [1.0], "A_ub": [[1.0]], "b_ub": [1.0, 2.0]}, "A_ub", "shape"),
    "columns of A_eq": ({"c": [1.0], "A_eq": [[1.0, 1.0]], "b_eq": [1.0]}, "A_eq", "shape"),
    "b_ub alone": ({"c": [1.0], "b_ub": [1.0]}, "A_ub", "shape"),
    "bounds": ({"c": [1.0, 1.0, 1.0], "bounds": [(0, 1), (0, 1)]}, "bounds", "shape"),
    "method of nobody": ({"c": [1.0], "method": "ekki"}, "linprog", "method"),
    "kinds of other columns": ({"c": [1.0], "integrality": [1, 1]}, "integrality", "values"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    given, subject, field = ERRORS[case]
    with pytest.raises(EditError) as caught:
        linprog(**given)
    assert (caught.value.subject, caught.value.field) == (subject, field)


def test_a_callback_is_refused():
    with pytest.raises(NotImplementedError, match="callback"):
        linprog([1.0], callback=print)


# ---- results as in scipy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(8, 40))
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_values_and_marginals_are_those_of_scipy(seed, form):
    lp = random_general(seed)
    given = scipy_form(lp)
    truth = scipy.optimize.linprog(**given)
    given["A_ub"], given["A_eq"] = form(given["A_ub"]), form(given["A_eq"])
    found = linprog(**given)
    size = 1e-6 * (1 + abs(truth.fun) + np.linalg.norm(truth.x))
    assert (found.status, found.success) == (0, True) and found.fun == pytest.approx(truth.fun, abs=size)
    assert found.fun == pytest.approx(given["c"] @ found.x)
    np.testing.assert_allclose(found.slack, given["b_ub"] - given["A_ub"] @ found.x, atol=1e-9)
    np.testing.assert_allclose(found.con, given["b_eq"] - given["A_eq"] @ found.x, atol=1e-9)
    assert (found.slack >= -size).all() and (abs(found.con) <= size).all()
    assert (found.ineqlin.marginals <= 0).all()
    # the marginals are a dual solution
    reduced = given["c"] - found.ineqlin.marginals @ given["A_ub"] - found.eqlin.marginals @ given["A_eq"]
    np.testing.assert_allclose(found.lower.marginals + found.upper.marginals, reduced, atol=1e-6)
    low, high = (np.where(np.isinf(side), 0.0, side) for side in given["bounds"].T)
    dual = found.ineqlin.marginals @ given["b_ub"] + found.eqlin.marginals @ given["b_eq"]
    dual += found.lower.marginals @ low + found.upper.marginals @ high
    assert dual == pytest.approx(truth.fun, abs=10 * size)
    assert found.certificate.worst() <= 1e-6 and found.ray is None
    assert found.certificate.bound == pytest.approx(truth.fun + 0.0, abs=size)


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9, 1e16, 1e20, 1e30])
def test_bounds_far_away_on_both_sides(far):
    """The rows hold the columns, not the bounds."""
    given = {"c": [1.0, 2.0, 1.0], "A_ub": [[-1.0, -1.0, -1.0], [-1.0, 2.0, 0.0]], "b_ub": [-4.0, 5.0]}
    given["bounds"] = [(-far, far), (-5, far), (-1, 7)]
    truth, found = scipy.optimize.linprog(**given), linprog(**given)
    assert found.status == truth.status == 0 and found.fun == pytest.approx(truth.fun, abs=1e-4)


@pytest.mark.parametrize("tolerance", [NAN, 0, -1e-6, "x"])
def test_a_tolerance_that_makes_no_sense(tolerance):
    with pytest.raises(SettingError, match="tolerance"):
        linprog([1.0], tolerance=tolerance)


def test_entries_given_twice_are_summed():
    """Minimise -x0 + x1 with 2 x0 + x1 <= 3, where the 2 is given as 1 and 1."""
    A = csc_array((np.array([1.0, 1.0, 1.0]), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(1, 2))
    found = linprog([-1.0, 1.0], A_ub=A, b_ub=[3.0])
    assert found.fun == pytest.approx(-1.5) and found.certificate.worst() <= 1e-15 and A.nnz == 3


@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_bad_coefficient_is_named_by_its_row_and_column(bad):
    with pytest.raises(EditError, match="row 1, column 2.*must be finite"):
        linprog([1.0, 1.0, 1.0], A_ub=[[1.0, 1.0, 0.0], [1.0, 0.0, bad]], b_ub=[1.0, 1.0])
