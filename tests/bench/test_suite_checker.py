"""The checker: against a solver that lies."""

from dataclasses import replace

import numpy as np
import pytest

from copter import make_solver
from copter.bench.checks import CHECKERS, CheckedSolver
from copter.bench.settings import SolverSettings
from copter.bench.synthetic import Synthetic
from copter.solution import Allocation
from copter.solvers.wrapper import Wrapper
from copter.store.compiled import compile_program


class Liar(Wrapper):
    """Says that a worse point is optimal, with the certificate of the right one."""

    def solve(self, program, **how):
        right = super().solve(program, **how)
        wrong = right.nonzeros._replace(value=0.9 * right.nonzeros.value)
        return replace(right, x=Allocation.of(program, wrong))


def small_program():
    course = Synthetic(20, 30, rounds=1)
    solver = make_solver("copter", tolerance=1e-6)
    play = course.play(SolverSettings("copter", 1e-6))
    next(play.records)
    return play.program, solver


def test_a_claim_that_does_not_hold_is_found():
    program, solver = small_program()
    honest, liar = CheckedSolver(solver), CheckedSolver(Liar(make_solver("copter", tolerance=1e-6)))
    judged = []
    for one in (honest, liar):
        solution = one.solve(program)
        record = {"missed": not solution.found, "status": str(solution.status)}
        judged.append(CHECKERS["certificate"].judge(record, one.found, 1e-6))
    assert judged[0]["certified"] and not judged[0]["disagrees"]
    assert judged[1]["disagrees"] and not judged[1]["certified"]
    assert judged[1]["checked_gap"] > 1e-3 > judged[0]["checked_gap"]


def test_the_checker_takes_no_time_of_the_solver():
    program, solver = small_program()
    checked = CheckedSolver(solver)
    solution = checked.solve(program)
    checked.checking = 0.25
    edit, solve = checked.seconds(solution, 1.0)
    assert edit + solve == pytest.approx(0.75)


def test_no_answer_is_not_certified():
    for checker in CHECKERS.values():
        record = {"missed": True, "status": "deadline", "gap": 0.0, "answer_objective": 1.0, "proven": 1.0}
        judged = checker.judge(record, {}, 1e-4)
        assert not judged["certified"] and not judged["disagrees"]


def test_synthetic_rounds_are_the_same_for_every_solver():
    plays = [Synthetic(40, 25, 0.1, 3).play(SolverSettings(name, 1e-5)) for name in ("copter", "highs-hot")]
    for ours, theirs in zip(*(play.records for play in plays), strict=True):
        size = 1e-4 * abs(theirs["objective"])
        assert ours["nnz"] == theirs["nnz"] == 1000
        assert ours["objective"] == pytest.approx(theirs["objective"], abs=size)
        compiled = [compile_program(play.program) for play in plays]
        np.testing.assert_array_equal(compiled[0].c, compiled[1].c)
        np.testing.assert_array_equal(compiled[0].A.toarray(), compiled[1].A.toarray())
    assert compiled[0].column_start.size == 41
