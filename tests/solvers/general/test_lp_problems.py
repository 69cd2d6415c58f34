"""Every solver on the reference LPs: the default is right, one alone may give up but is never wrong."""

import numpy as np
import pytest
import scipy.optimize
from lp_problems import PROBLEMS

from copter import linprog
from copter.solvers.api import SOLVERS

ALONE = [name for name in SOLVERS if name != "highs-milp"]
named = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)


def check(problem, found):
    assert found.status == problem.status, found.message
    if problem.status == 0:
        allowed = 1e-5 * max(abs(problem.value), problem.scale)
        assert found.fun == pytest.approx(problem.value, abs=allowed)


@named
def test_the_values_of_the_table(problem):
    found = scipy.optimize.linprog(**problem.given)
    assert found.status == problem.status or (problem.status in (2, 3) and found.status == 4)
    if problem.status == 0:
        assert found.fun == pytest.approx(problem.value, rel=1e-7, abs=1e-7 * problem.scale)


@named
@pytest.mark.parametrize("polish", [False, True])
def test_default(problem, polish):
    found = linprog(**problem.given, polish=polish)
    check(problem, found)
    if problem.status == 0:
        if polish:
            assert found.vertex
        assert found.proof.worst <= 1e-6
        assert found.proof.bound == pytest.approx(problem.value, rel=1e-6, abs=1e-6 * problem.scale)
    else:
        assert found.ray.kind == {2: "infeasible", 3: "unbounded"}[problem.status]
        assert found.x is found.fun is found.slack is found.lower.residual is None


@named
@pytest.mark.parametrize(("solver", "presolve"), [("copter", True), *((name, False) for name in ALONE)])
def test_alone(problem, solver, presolve):
    found = linprog(**problem.given, solver=solver, presolve=presolve, deadline=2.0)
    if found.status in (1, 4):  # gave up, and says so
        assert not found.success
    else:
        check(problem, found)


def test_what_the_own_solver_finds_alone():
    """All but a few."""
    unsolved = {
        problem.name
        for problem in PROBLEMS
        if linprog(**problem.given, solver="copter", presolve=False, deadline=600.0).status != problem.status
    }
    assert unsolved <= {"no costs", "bounds of 1e9", "bounds of 1e16", "Hilbert"}


def test_who_finished_and_how_long_each_part_took():
    found = linprog(**PROBLEMS[4].given)
    assert found.finished_by in ("presolve", "highs")
    assert set(found.seconds) <= {"presolve", "copter", "highs", "check"}
    assert all(np.isfinite(seconds) and seconds >= 0 for seconds in found.seconds.values())
