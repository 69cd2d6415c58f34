"""The checker: against a solver that lies."""

from dataclasses import replace

from copter import make_solver
from copter.bench.checks import CHECKERS, CheckedSolver
from copter.bench.settings import SolverSettings
from copter.bench.synthetic import Synthetic
from copter.solution import Allocation
from copter.solvers.wrapper import Wrapper


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


def test_no_answer_is_not_certified():
    for checker in CHECKERS.values():
        record = {"missed": True, "status": "deadline", "gap": 0.0, "answer_objective": 1.0, "proven": 1.0}
        judged = checker.judge(record, {}, 1e-4)
        assert not judged["certified"] and not judged["disagrees"]
