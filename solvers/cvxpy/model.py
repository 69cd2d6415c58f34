"""A cvxpy problem as a ContinualProgram that follows the problem's parameters.

cvxpy compiles the problem to a linear program, which :class:`~copter.models.model.Model` stores as requests
and resources.  A new value of a ``Parameter`` changes some of the compiled numbers. Only those are edited, so
that the next solve is warm-started.
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
    """A cvxpy problem as the source of a program."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def read(self) -> GeneralLP:
        """Return the problem at the parameters' present values; cvxpy compiles it in the first call only."""
        data, self._chain, self._back = self.problem.get_problem_data(COPTER)
        maximize = isinstance(self.problem.objective, Maximize)
        self._lp = replace(lp_of(data), offset=float(self._back[-1][s.OFFSET]), maximize=maximize)
        return self._lp

    def deliver(self, answer: Solution, found: ModelSolution) -> ModelSolution:
        """Set the values, duals, status and objective value of the cvxpy problem."""
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
    """Convert a linear cvxpy problem to a program that can be edited and solved again.

    Parameters
    ----------
    problem : cvxpy.Problem
        Linear problem, possibly with Boolean or integer variables; every ``Parameter`` needs a value.

    Returns
    -------
    Model
        ``model.program`` is the program. ``model.solution(answer)`` sets the problem's variables, duals and
        status from a solution; ``model.update()`` edits the program after parameters got new values.

    Raises
    ------
    cvxpy.error.SolverError
        If the problem is not linear.
    EditError
        If bounds contradict each other, or if the argument is not a cvxpy problem.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from copter import from_cvxpy, make_solver
    >>> capacity, x = cp.Parameter(value=8.0), cp.Variable(2, nonneg=True)
    >>> problem = cp.Problem(cp.Maximize(3 * x[0] + 2 * x[1]), [cp.sum(x) <= capacity, x <= 6])
    >>> model, solver = from_cvxpy(problem), make_solver("copter")
    >>> round(model.solution(solver.solve(model.program)).objective, 3)
    22.0
    >>> capacity.value = 10.0
    >>> changes = model.update()
    >>> round(model.solution(solver.solve(model.program)).objective, 3)
    26.0
    """
    if not isinstance(problem, Problem):
        raise ArgumentTypeError("from_cvxpy", "problem", problem, "must be a cvxpy.Problem")
    return Model(_Cvxpy(problem), fold=True)
