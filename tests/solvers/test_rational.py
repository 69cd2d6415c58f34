"""The simplex in rational numbers, against another one that shares nothing with it, and HiGHS."""

from fractions import Fraction

import numpy as np
import pytest

from copter import ContinualProgram, Status, make_solver
from copter.clock import Clock
from copter.solvers.proximal import rational
from copter.solvers.proximal.rational import solve_in_rationals
from support.exact_lp import solve_exactly
from support.families import FAMILIES
from support.numpy_twins import lagrangian, worst_row


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


def two_stages(seed, idle, slack):
    """The status of a second stage that keeps the optimum of the first stage, up to a slack."""
    rng = np.random.default_rng(seed)
    jobs, rows, choices = int(rng.integers(3, 9)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    use = rng.integers(0, 5, (jobs, rows, choices)) * 1.0
    first, second = -rng.random((jobs, choices)) * 10, rng.random((jobs, choices)) * 10
    program = ContinualProgram()
    program.add_resources(list(range(rows)), upper=rng.integers(3, 12, rows) * 1.0)
    program.add_resource("first")
    for job in range(jobs):
        usage = {**{row: use[job, row] for row in range(rows)}, "first": first[job]}
        program.add_request(job, first[job], usage, total=1)
    for job in range(idle):
        program.add_request(("idle", job), [0.0, 1.0], {0: [0.0, 1.0]}, total=1)
    solver = make_solver("copter", tolerance=1e-6)
    best = solver.solve(program)
    assert best.status is Status.OPTIMAL
    program.update_resources("first", upper=best.objective + slack * abs(best.objective))
    for job in range(jobs):
        program.update_request(job, costs=second[job])
    found = solver.solve(program)
    if found.status is Status.OPTIMAL:
        kept = sum(first[job] @ found.x[job] for job in range(jobs))
        assert kept <= best.objective + 1e-5 * abs(best.objective)
    return found.status


@pytest.mark.parametrize("idle", [0, 20, 200])
@pytest.mark.parametrize("seed", range(10))
def test_a_second_stage_may_hold_the_first_at_any_size(seed, idle):
    assert two_stages(seed, idle, 0.0) is Status.OPTIMAL
    assert two_stages(seed, idle, -1e-3) is Status.INFEASIBLE
