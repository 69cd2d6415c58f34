"""The simplex in rational numbers, against another one that shares nothing with it, and HiGHS."""

from fractions import Fraction

import numpy as np
import pytest
from exact_lp import solve_exactly
from families import FAMILIES
from numpy_twins import lagrangian, worst_row

from copter.clock import Clock
from copter.solvers.proximal import rational
from copter.solvers.proximal.rational import solve_in_rationals


@pytest.mark.parametrize("family", FAMILIES)
def test_status_optimum_and_proof(family):
    solved = 0
    for seed in range(12):
        plain = FAMILIES[family](np.random.default_rng([seed, *family.encode()]))
        found = solve_in_rationals(plain.build(), Clock(None))
        if found is None:
            continue
        solved += 1
        status, optimum = solve_exactly(plain.model())
        assert found.status == status
        if status == "optimal":
            assert found.bound <= optimum <= Fraction(np.nextafter(found.bound, np.inf))
            assert worst_row(plain.model(), found.x) <= 1e-12
        if status == "infeasible":
            assert lagrangian(plain.model(), found.y, costs=False) > -1e-9
    assert solved or family == "wide_and_narrow"


def test_what_is_too_large_is_left_alone(monkeypatch):
    plain = FAMILIES["boxes"](np.random.default_rng(0))
    monkeypatch.setattr(rational, "ENTRIES", 1)
    assert solve_in_rationals(plain.build(), Clock(None)) is None


def test_what_contradicts_itself_by_rounding_is_left_alone():
    tenth = FAMILIES["boxes"](np.random.default_rng(0))
    tenth.resources, tenth.requests = {"a": (0.3, 0.3)}, {}
    program = tenth.build()
    program.add_request("q", [1.0, 1.0, 1.0], {"a": 1.0}, total=0.1 + 0.2, relation="==")
    assert 0.1 + 0.2 != 0.3
    assert solve_in_rationals(program, Clock(None)) is None
