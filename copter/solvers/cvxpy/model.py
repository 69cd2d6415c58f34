"""A cvxpy problem as a Model that follows the problem's parameters.

cvxpy compiles the problem to a linear program. A new value of a ``Parameter`` changes some of the compiled
numbers, and only those reach HiGHS, so that the next solve begins from the last basis.
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy.settings as s
from cvxpy import Maximize, Problem

from copter.errors import ArgumentTypeError
from copter.models.linear_program import LinearProgram
from copter.solvers.cvxpy.folding import Folding
from copter.solvers.cvxpy.solver import COPTER, lp_of, result_of
from copter.solvers.general.model import Model, ModelSolution


class _Cvxpy:
    """A cvxpy problem as the source of a :class:`Model`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def read(self) -> LinearProgram:
        """Return the problem at the parameters' present values; cvxpy compiles it in the first call only."""
        data, self._chain, self._back = self.problem.get_problem_data(COPTER)
        maximize, self._offset = isinstance(self.problem.objective, Maximize), float(self._back[-1][s.OFFSET])
        self._folding = Folding(replace(lp_of(data), offset=self._offset, maximize=maximize))
        return self._folding.folded

    def deliver(self, found: ModelSolution) -> ModelSolution:
        """Set the values, duals, status and objective value of the cvxpy problem."""
        problem = self.problem
        problem.unpack_results(result_of(found, self._folding, self._offset), self._chain, self._back)
        values = {variable: variable.value for variable in problem.variables()}
        duals = {row: row.dual_value for row in problem.constraints}
        return replace(found, by_source=(values, duals))


def from_cvxpy(problem: Problem) -> Model:
    """Make a :class:`~copter.Model` from a linear cvxpy problem.

    Parameters
    ----------
    problem : cvxpy.Problem
        Linear problem, possibly with Boolean or integer variables; every ``Parameter`` needs a value.

    Returns
    -------
    Model
        ``model.solve()`` also sets the problem's variables, duals and status; ``model.update()`` reads the
        parameters again.

    Raises
    ------
    cvxpy.error.SolverError
        If the problem is not linear.
    EditError
        If bounds contradict each other, or if the argument is not a cvxpy problem.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from copter import from_cvxpy
    >>> capacity, x = cp.Parameter(value=8.0), cp.Variable(2, nonneg=True)
    >>> problem = cp.Problem(cp.Maximize(3 * x[0] + 2 * x[1]), [cp.sum(x) <= capacity, x <= 6])
    >>> model = from_cvxpy(problem)
    >>> round(model.solve().objective, 3)
    22.0
    >>> capacity.value = 10.0
    >>> changes = model.update()
    >>> round(model.solve().objective, 3)
    26.0
    """
    if not isinstance(problem, Problem):
        raise ArgumentTypeError("from_cvxpy", "problem", problem, "must be a cvxpy.Problem")
    return Model(_Cvxpy(problem))
