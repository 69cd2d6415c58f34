"""Certificates of general LPs: figures do not depend on units, and proofs hold in exact arithmetic."""

from collections import Counter

import numpy as np
import pytest

from copter import linprog
from copter.proof.general_lp import LPChecker, infeasible_ray, unbounded_ray
from support.exact_lp import exact_optimum, of_lp, ray_holds
from support.lp_families import FAMILIES, made

INF = np.inf


def certificate(lp, x, y):
    return LPChecker(lp).certificate(np.array(x, float), np.array(y, float))


def test_a_small_cost_counts_where_the_bound_is_far():
    found = linprog([1.0, -1e-10], A_ub=[[-1.0, 0.0]], b_ub=[-1.0], bounds=[(1, None), (0, 1e15)])
    assert found.status == 0 and found.fun == pytest.approx(1 - 1e5)


def test_reduced_costs_are_judged_by_their_own_terms():
    lp = made([1.0, -1e-10], [[1.0, 0.0]], 1.0, INF)
    assert 1e-11 < certificate(lp, [1, 0], [-1]).dual <= 1.0 and not certificate(lp, [1, 0], [-1]).certified
    boxed = made([1.0, -1e-10], [[1.0, 0.0]], 1.0, INF, 0.0, [INF, 1e15])
    assert certificate(boxed, [1, 0], [-1]).gap == pytest.approx(1.0, abs=1e-4)


def test_a_row_is_judged_by_its_own_bound_and_terms():
    lp = made([0.0, 1.0], np.eye(2), [1e-9, 1e6], INF)
    assert certificate(lp, [1e-9, 1e6], [0, -1]).worst() <= 1e-15
    assert certificate(lp, [1e-9, 0.9e6], [0, -1]).primal == pytest.approx(0.1)


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_units_of_rows_and_costs_change_no_figure(unit):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        lp = FAMILIES["half_free"](rng)
        m, x = lp.A.shape[0], rng.normal(size=lp.c.size)
        y = rng.normal(size=m)
        r = np.where(np.arange(m) % 2, unit, 1.0)
        scaled = made(
            lp.c * unit, lp.A.toarray() * r[:, None], lp.row_lower * r, lp.row_upper * r, lp.lower, lp.upper
        )
        one, other = certificate(lp, x, y), certificate(scaled, x, y * unit / r)
        assert (one.primal, one.dual, one.gap) == pytest.approx((other.primal, other.dual, other.gap))


@pytest.mark.parametrize("family", FAMILIES)
def test_bounds_and_rays_of_any_prices_hold_in_fractions(family):
    """Prices and directions need not come from a solver: nothing false is certified."""
    counts: Counter = Counter()
    for seed in range(25):
        rng = np.random.default_rng([seed, 1])
        lp = FAMILIES[family](rng)
        m, n = lp.A.shape
        status, value = exact_optimum(*of_lp(lp))
        for noise in (0.0, 1e-9, 1.0):
            y = rng.integers(-4, 5, m) + noise * rng.normal(size=m)
            proof = certificate(lp, np.zeros(n), y)
            if proof.certified and np.isfinite(proof.bound):
                counts["bounds"] += 1
                assert value is None and status == "infeasible" or value is not None and proof.bound <= value
            for ray in (infeasible_ray(lp, y), unbounded_ray(lp, rng.integers(-2, 3, n) + noise)):
                if ray is not None and ray.certified:
                    counts[ray.kind] += 1
                    assert ray.kind == "unbounded" or status == "infeasible"
                    assert ray.kind == "infeasible" or ray_holds(lp, ray)
    assert counts["bounds"] or family in ("free", "unbounded", "infeasible", "whole_data"), counts
