"""Runs in which HiGHS itself fails: a status says so, and no exception."""

import highspy
import numpy as np
import pytest
from scipy.optimize import linprog as linprog_of_scipy

from copter import Model, Status, from_arrays, linprog
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


def test_a_badly_scaled_lp_gets_no_wrong_answer():
    rows = {
        "A_ub": [[-1.265e-06, 0.0, -1.673, 0.0]],
        "b_ub": [-0.6730012650000001],
        "A_eq": [[0.006, 0.0, -7.860000000000002e-07, -1.4750000000000002e-07]],
        "b_eq": [0.2116606245],
    }
    c, bounds = [-0.132, 0.055, -0.294, 1.336], [(None, None), (0, None), (0, 5), (None, None)]
    best = linprog_of_scipy(c, bounds=bounds, **rows)
    found = linprog(c, bounds=bounds, **rows)
    assert found.status == 0 and found.fun == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("hot", [False, True])
def test_a_run_that_fails_is_repeated_from_scratch(hot, monkeypatch):
    """Also from a basis; a model whose runs all fail says so, and is solved again later."""
    rng, failures = np.random.default_rng(0), [0]
    A = rng.normal(size=(6, 12))
    model = from_arrays(rng.normal(size=12), A_eq=A, b_eq=A @ rng.random(12), bounds=(0, 2))
    best = model.solve().objective
    model = Model(model.lp)
    if hot:
        model.solve()
        model.update(c=model.lp.c * 1.0)
    plain = HighsEngine.getModelStatus

    def fails(self):
        failures[0] -= 1
        return highspy.HighsModelStatus.kSolveError if failures[0] >= 0 else plain(self)

    monkeypatch.setattr(HighsEngine, "getModelStatus", fails)
    failures[0] = 1
    found = model.solve()
    assert (found.status, found.objective) == (Status.OPTIMAL, pytest.approx(best))
    failures[0] = 10**6
    found = model.solve()  # the point itself may prove the optimum
    assert found.status in (Status.NUMERICAL_ERROR, Status.UNPROVED) or found.objective == pytest.approx(best)
    failures[0] = 0
    assert model.solve().objective == pytest.approx(best)
