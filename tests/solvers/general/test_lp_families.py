"""`Model` on families of hard LPs, cold and over rounds, against exact rationals and HiGHS from scratch."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize

from copter.solvers.general.model import Model
from support.amounts import whole
from support.exact_lp import exact_optimum, of_lp, ray_holds
from support.lp_cases import scipy_form
from support.lp_families import CHANGES, FAMILIES, changed

WANTED = {"infeasible": "infeasible", "unbounded": "unbounded", "free": "unbounded"}
"""Status of some families; the others have an optimum most of the time, and free ones until costs change."""
UNPROVED = {"infeasible": 0.5, "tiny": 0.08, "whole_data": 0.08}
"""Largest share of answers without a proof, by family."""
SIDES = ("row_lower", "row_upper", "lower", "upper")
CODES = {0: "optimal", 2: "infeasible", 3: "unbounded"}


def rounds(family: str, seed: int, *, big: bool = False):
    """Yield the solutions of a model, cold and after each change."""
    rng = np.random.default_rng([seed, len(family), 7 + big])
    model = Model(FAMILIES[family](rng, big))
    yield "cold", model, model.solve()
    for what in CHANGES:
        model.update(**changed(rng, model.lp, what))
        yield what, model, model.solve()


def check_figures(lp, found) -> None:
    """Assert that the reported figures are those that numpy finds for the point."""
    assert (found.x >= lp.lower).all() and (found.x <= lp.upper).all()
    assert found.objective == pytest.approx(lp.c @ found.x + lp.offset, rel=1e-12, abs=1e-12)
    at, size = lp.A @ found.x, abs(lp.A) @ abs(found.x)
    for side, sign in ((lp.row_upper, 1), (lp.row_lower, -1)):
        finite = np.isfinite(side)
        terms = np.maximum(size, abs(np.where(finite, side, 0.0)))
        most = np.maximum(terms, abs(lp.A).max(axis=1).toarray().ravel() * np.median(abs(found.x)))
        room = found.primal_residual * most + 1e-14 * terms
        assert found.primal_residual > 0 or (sign * (at - side) <= 1e-13 * terms)[finite].all()
        assert (sign * (at - side) <= np.maximum(room, 1e-6 * most))[finite].all()


@pytest.mark.parametrize("family", FAMILIES)
def test_small_lps_are_right_in_fractions(family):
    counts: Counter = Counter()
    for seed in range(100 if whole() else 14):
        for what, model, found in rounds(family, seed):
            lp, where = model.lp, (family, seed, what, found.reason)
            status, value = exact_optimum(*of_lp(lp))
            counts[str(found.status)] += 1
            counts[what, found.details["start"]] += 1
            if str(found.status) == "unproved":
                continue
            assert str(found.status) == status, where
            counts["certified"] += found.certified
            if value is None:
                assert found.ray.kind == status and not found.found and np.isnan(found.objective)
                assert ray_holds(lp, found.ray) or not found.certified, where
                continue
            proof = found.certificate
            size = max(proof.gap_denominator, proof.terms)
            assert abs(Fraction(found.objective) - value) <= Fraction(1e-6 * size), where
            assert not found.certified or Fraction(found.bound) <= value, where
            assert max(found.primal_residual, found.dual_residual) <= 1e-6, where
            assert found.gap * proof.gap_denominator <= 1e-6 * size, where
            check_figures(lp, found)
    rounds_in_all = sum(counts[each] for each in ("optimal", "infeasible", "unbounded", "unproved"))
    assert counts["unproved"] <= UNPROVED.get(family, 0.0) * rounds_in_all, counts
    assert counts[WANTED.get(family, "optimal")] >= 0.2 * rounds_in_all, counts
    assert counts["certified"] >= 0.5 * rounds_in_all, counts
    assert all(counts[what, "kept basis"] for what in CHANGES), counts


@pytest.mark.parametrize("family", FAMILIES)
def test_larger_lps_are_those_of_highs_from_scratch(family):
    counts: Counter = Counter()
    seeds = 12 if whole() else 2
    for seed in range(seeds):
        for what, model, found in rounds(family, seed, big=True):
            lp, where = model.lp, (family, seed, what, found.reason)
            unit = 2.0**24 if family == "tiny" else 1.0  # HiGHS' tolerances are absolute
            sides = {name: unit * getattr(lp, name) for name in SIDES}
            given = scipy_form(replace(lp, **sides))
            for options in ({}, {"presolve": False}):  # with presolve, 4 may mean infeasible or unbounded
                truth = scipy.optimize.linprog(**given, options=options)
                if truth.status != 4:
                    break
            counts[str(found.status)] += 1
            if str(found.status) == "unproved":
                continue
            assert str(found.status) == CODES.get(truth.status, str(found.status)), where
            if truth.status:
                assert not found.certified or ray_holds(lp, found.ray), where
                continue
            size = max(found.certificate.gap_denominator, found.certificate.terms)
            assert abs(found.objective - truth.fun / unit) <= 1e-6 * size, where
            assert found.bound <= truth.fun / unit + 1e-6 * size, where
            check_figures(lp, found)
            counts["certified"] += found.certified
    assert counts["unproved"] <= UNPROVED.get(family, 0.0) * counts.total(), counts
    assert family == "whole_data" or counts[WANTED.get(family, "optimal")] >= 2 * seeds, counts
