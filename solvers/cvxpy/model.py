"""A cvxpy problem as a ContinualProgram that follows the problem's parameters.

cvxpy compiles the problem to a linear program, which :class:`~copter.models.model.Model` keeps as requests
and resources.  A new value of a ``Parameter`` changes some of the compiled numbers; only those are edited, so
that the next round of any of copter's solvers is warm.
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy.settings as s
import numpy as np
from cvxpy import Maximize, Problem

from copter.errors import ArgumentTypeError
from copter.models.general_lp import GeneralLP
from copter.models.model import Model, ModelSolution
from copter.proof.general_lp import prove
from copter.proof.highs_lp import Answer
from copter.solution import Solution
from copter.solvers.cvxpy.solver import COPTER, lp_of, result_of


class _Cvxpy:
    """A problem of cvxpy as the source of a program."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def read(self) -> GeneralLP:
        """Evaluate the problem at the parameters' values; cvxpy compiles it the first time only."""
        data, self._chain, self._back = self.problem.get_problem_data(COPTER)
        maximize = isinstance(self.problem.objective, Maximize)
        self._lp = replace(lp_of(data), offset=float(self._back[-1][s.OFFSET]), maximize=maximize)
        return self._lp

    def deliver(self, answer: Solution, found: ModelSolution) -> ModelSolution:
        """Give the problem its values, duals, status and value."""
        lp, x, y, proof = self._lp, None, found.y, None
        if answer.found:
            x = np.clip(found.x, lp.lower, lp.upper)
            proof = prove(lp, x, y)
        about = Answer(
            answer.status,
            answer.reason,
            x,
            y,
            proof,
            finished_by="copter",
            seconds={"edit": answer.timings.edit, "solve": answer.timings.solve},
            iterations=answer.iterations,
            warm_started=answer.warm_started,
        )
        problem = self.problem
        problem.unpack_results(result_of(lp, about, answer.warm_reason), self._chain, self._back)
        return replace(
            found,
            objective=float(problem.value),
            values={variable: variable.value for variable in problem.variables()},
            duals={row: row.dual_value for row in problem.constraints},
        )


def from_cvxpy(problem: Problem) -> Model:
    """A linear cvxpy problem as a program that is kept alive.

    Parameters
    ----------
    problem : cvxpy.Problem
        Linear, its integral variables marked as such; every ``Parameter`` needs a value.

    Returns
    -------
    Model
        ``model.program`` is the program; ``model.solution(answer)`` brings an answer back to the problem, and
        ``model.update()`` new values of its parameters into the program.

    Raises
    ------
    cvxpy.error.SolverError
        The problem is not linear.
    EditError
        Bounds contradict each other, or the argument is no problem of cvxpy's.
    """
    if not isinstance(problem, Problem):
        raise ArgumentTypeError("from_cvxpy", "problem", problem, "must be a cvxpy.Problem")
    return Model(_Cvxpy(problem), fold=True)
