"""Words about whole numbers hold in exact arithmetic: against brute force in rationals, at any size."""

import math
import os
import time

import pytest

from copter import ContinualProgram, make_solver, milp
from copter.clock import Clock, Interrupted
from copter.solution import Status
from copter.solvers.apart import ProcessDied, call_apart
from copter.solvers.baselines import highs
from copter.solvers.exact import tree
from copter.solvers.general.scipy_arguments import STATUS
from support.amounts import longer
from support.exact_programs import FAMILIES, Tiny, answered

DEADLY = {
    "c": [-3, -1, -1, 1, 1, 2, 2, -1],
    "integrality": [0] * 7 + [1],
    "bounds": (
        [0, 0, -1e5, -5, -math.inf, 0, -math.inf, 2],
        [1, 0, -99996, math.inf, math.inf, math.inf, -2, 7],
    ),
    "constraints": (
        [
            [0, 3, -1, 0, -1, 0, 0, 3],
            [-2, 0, 0, -3, 0, 2, 0, -1],
            [-1, -2, 0, 0, 2, 0, -1, 0],
            [0, 0, -1, 0, 0, 0, 0, -3],
            [0, -1, 0, 1, 0, -3, 3, -1],
        ],
        [-math.inf] * 5,
        [99998, 12, 12, 99990, -20],
    ),
}
"""A program on which branch and bound of HiGHS 1.13 ended the process by a fault."""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("share", [0.2, longer(1.0)])
def test_copter_exact_and_brute_force_agree(family, share):
    for seed in range(int(share * (120 if family in ("odd", "units") else 25))):
        assert answered(Tiny(seed, family)) == "", seed


@pytest.mark.parametrize("unit", [1e5, 1e8, 1e9, 1e12])
def test_one_unit_too_many_is_too_many(unit):
    program = ContinualProgram()
    program.add_resource("bytes", upper=2.0 * unit + 1.0)
    for q in "ab":
        usage = {"bytes": [unit, unit + 1.0]}
        program.add_request(q, [-1.0, -2.0], usage, total=1, relation="==", integral=True)
    solution = make_solver("copter-exact").solve(program)
    assert (solution.status, solution.objective) == (Status.OPTIMAL, -3.0)
    assert solution.integer.proven and solution.integer.bound <= -3.0


@pytest.mark.parametrize("big", [1e6, 1e9, 1e10, 1e12])
def test_a_switch_that_is_off_by_a_tolerance_is_off(big):
    program = ContinualProgram()
    program.add_resource("link", upper=0.0)
    program.add_resource("demand", lower=1.0)
    program.add_request("on", [100.0], {"link": [-big]}, upper=1, integral=True)
    program.add_request("flow", [1.0], {"link": [1.0], "demand": [1.0]}, upper=1e12)
    solution = make_solver("copter-exact").solve(program)
    assert solution.status is Status.OPTIMAL, solution.reason
    assert solution.objective == pytest.approx(101.0, rel=1e-9)


def test_ten_tenths_fit_where_there_is_one():
    program = ContinualProgram()
    program.add_resource("gpu", upper=1.0)
    for k in range(11):
        program.add_request(k, [-1.0], {"gpu": [0.1]}, upper=1, integral=True)
    solution = make_solver("copter-exact").solve(program)
    assert (solution.status, solution.objective) == (Status.OPTIMAL, -10.0)


@pytest.mark.parametrize(("lower", "upper"), [(6 * 0.1 - 0.4, 6 * 0.1), (1000.6 - 1000.4, 1000.6)])
@pytest.mark.parametrize("unit", [1.0, 2.0**32])
def test_a_bound_that_was_calculated_is_reached(lower, upper, unit):
    program = ContinualProgram()
    program.add_resource("share", upper, lower=lower)
    program.add_resource("memory", 1.5 * unit)
    program.add_request("a", [0.0], {"memory": [unit], "share": [0.1]}, upper=3.0, integral=True)
    program.add_request("b", [-4.0], {"memory": [unit], "share": [0.2]}, upper=1.0, integral=True)
    assert lower > 0.2
    solution = make_solver("copter-exact").solve(program)
    assert (solution.status, solution.objective) == (Status.OPTIMAL, -4.0)


def test_a_program_on_which_an_older_highs_died():
    answer = milp(**DEADLY)
    assert (answer.status, answer.fun) == (0, 99980.0)


def test_a_call_apart_says_how_it_ended():
    with pytest.raises(ProcessDied, match="SIGABRT"):
        call_apart(os.abort)
    with pytest.raises(ZeroDivisionError):
        call_apart(divmod, 1, 0)
    with pytest.raises(Interrupted):
        call_apart(time.sleep, 60.0, clock=Clock(0.2))


@pytest.mark.parametrize("name", ["copter-exact", "highs-milp"])
def test_solvers_answer_apart_as_here(name, monkeypatch):
    monkeypatch.setattr(tree, "choose", lambda *_: None)  # nothing by dynamic programming
    program = Tiny(4, "odd").program()
    here, apart = (make_solver(name, isolated=each).solve(program) for each in (False, True))
    assert (here.status, here.objective) == (apart.status, apart.objective)


def test_a_solver_outlives_its_branch_and_bound(monkeypatch):
    def died(*_, **__):
        raise ProcessDied("the process of branch and bound died: SIGSEGV")

    monkeypatch.setattr(highs, "call_apart", died)
    solution = make_solver("highs-milp", isolated=True).solve(Tiny(4, "odd").program())
    assert (solution.status, solution.found) == (Status.NUMERICAL_ERROR, False)
    assert "SIGSEGV" in solution.reason


def test_every_status_has_a_number_of_scipys():
    assert set(STATUS) == set(Status)
