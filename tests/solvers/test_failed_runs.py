"""Runs in which HiGHS itself fails: a status says so, and no exception."""

import highspy
import numpy as np
import pytest
from scipy.optimize import linprog as linprog_of_scipy

from copter import linprog
from copter.models.highs import HighsEngine


def test_an_unbounded_lp_on_which_the_dual_simplex_method_fails():
    c = [-1.463e-06, 0.0006730000000000001, -0.00429, -162500.0]
    equality = {
        "A_eq": [[0.0, 0.0, 0.0013380000000000002, -3.6599999999999997e-07]],
        "b_eq": [-540007.726620432],
    }
    bounds = [(0.0, 1.0), (0.0, None), (-1.0, None), (1.0, None)]
    assert linprog_of_scipy(c, bounds=bounds, **equality).status == 3
    for tolerance in (1e-6, 1e-9):
        assert linprog(c, bounds=bounds, tolerance=tolerance, **equality).status == 3


@pytest.mark.parametrize("presolve", [True, False])
def test_a_badly_scaled_lp_gets_no_wrong_answer(presolve):
    rows = {
        "A_ub": [[-1.265e-06, 0.0, -1.673, 0.0]],
        "b_ub": [-0.6730012650000001],
        "A_eq": [[0.006, 0.0, -7.860000000000002e-07, -1.4750000000000002e-07]],
        "b_eq": [0.2116606245],
    }
    c, bounds = [-0.132, 0.055, -0.294, 1.336], [(None, None), (0, None), (0, 5), (None, None)]
    best = linprog_of_scipy(c, bounds=bounds, **rows)
    found = linprog(c, bounds=bounds, presolve=presolve, **rows)
    assert found.status in (0, 4) and (found.status == 0 or not presolve)
    if found.status == 0:
        assert found.fun == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("method", ["presolve", "postsolve"])
def test_an_lp_is_solved_without_presolve_if_that_fails(method, monkeypatch):
    rng, failed = np.random.default_rng(0), []

    def fails(*_):
        failed.append(1)
        return highspy.HighsStatus.kError

    A, x = rng.normal(size=(6, 12)), rng.random(12)
    bounds = [(x[0], x[0]), *[(0.0, 2.0)] * 11]  # presolve removes the first column
    rows = {"A_eq": A, "b_eq": A @ x, "bounds": bounds}
    c = rng.normal(size=12)
    best = linprog(c, **rows)
    monkeypatch.setattr(HighsEngine, method, fails)
    found = linprog(c, **rows)
    assert failed and found.status == best.status == 0
    assert found.fun == pytest.approx(best.fun, rel=1e-6)
