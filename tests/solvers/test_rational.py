"""The simplex in rational numbers, against another one that shares nothing with it, and HiGHS."""

from fractions import Fraction

import numpy as np
import pytest
from exact_lp import solve_exactly
from families import FAMILIES
from hypothesis import given
from hypothesis import strategies as st
from numpy_twins import lagrangian, worst_row

from copter import ContinualProgram, Status, make_solver
from copter.clock import Clock
from copter.solvers.proximal import rational
from copter.solvers.proximal.rational import leaves_room, solve_in_rationals


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


def jobs(upper, relation="=="):
    program = ContinualProgram()
    program.add_resource("gpu", upper=upper)
    for job in range(4):
        program.add_request(
            job, [0.0, -1.0 - 0.1 * job, -1.7], {"gpu": [0, 1, 2]}, total=1, relation=relation
        )
    return program


@pytest.mark.parametrize(
    ("upper", "relation", "room"), [(3.0, "==", True), (3.0, "<=", True), (0.0, "==", False)]
)
def test_room_is_seen_where_nobody_must_use_anything(upper, relation, room):
    assert leaves_room(jobs(upper, relation)) is room


def test_where_rows_leave_room_nobody_asks_for_fractions(monkeypatch):
    """They take sixty times as long as a round."""
    monkeypatch.setattr("copter.solvers.proximal.accept.solve_in_rationals", None)
    program = jobs(3.0)
    solver = make_solver("copter")
    for scale in (1.0, 1.1, 1.3):
        program.update_request(2, scale=scale)
        assert solver.solve(program).status is Status.OPTIMAL


@given(seed=st.integers(0, 10**6))
def test_room_is_no_claim_that_highs_denies(seed):
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    for row in range(3):
        upper = float(rng.uniform(0, 4))
        program.add_resource(row, upper, lower=upper - float(rng.uniform(0, 5)))
    for q in range(5):
        usage = {row: rng.integers(-1, 3, 3).astype(float) for row in range(3)}
        relation = ["<=", "=="][int(rng.integers(2))]
        program.add_request(q, rng.normal(size=3), usage, total=1.0, relation=relation, upper=1.0)
    if leaves_room(program):
        assert make_solver("highs-simplex").solve(program).status is Status.OPTIMAL
