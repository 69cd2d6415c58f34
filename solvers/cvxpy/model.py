"""A cvxpy problem as a ContinualProgram that follows the problem's parameters.

cvxpy compiles the problem to a linear program, :class:`~copter.models.live.LiveLP` keeps that as
requests and resources.  A new value of a ``Parameter`` changes some of the compiled numbers; only those are
edited, so that the next round of any of copter's solvers is warm.
"""

from __future__ import annotations

import cvxpy.settings as s
import numpy as np
from cvxpy import Maximize, Problem

from copter.errors import CopterError
from copter.models.live import Changes, LiveLP
from copter.program.program import ContinualProgram
from copter.solution import Solution
from copter.solvers.cvxpy.form import lp_of
from copter.solvers.cvxpy.solver import COPTER, result_of
from copter.solvers.general.hybrid import Answer
from copter.solvers.general.proof import prove


class CvxpyModel:
    """A linear problem of cvxpy that is kept as a program.

    Parameters
    ----------
    problem : cvxpy.Problem
        Linear, its integral variables marked as such; every ``Parameter`` needs a value.

    Raises
    ------
    cvxpy.error.SolverError
        The problem is not linear.
    EditError
        Bounds contradict each other.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._compile()
        self._live = LiveLP(self._lp, share=0.0)

    @property
    def program(self) -> ContinualProgram:
        """The program; another one after an update that rebuilt it."""
        return self._live.program

    def update(self) -> Changes:
        """Bring the program up to date with the values of the problem's parameters, by edits.

        Returns
        -------
        Changes
            What was edited; ``rebuilt`` if the program is another one, for which the next solve is cold.

        Raises
        ------
        EditError
            Bounds contradict each other; the program is as before.
        """
        self._compile()
        return self._live.update(self._lp)

    def unpack(self, solution: Solution) -> float:
        """Give the problem a solution: values of its variables, duals of its constraints, status and value.

        Parameters
        ----------
        solution : Solution
            A solver's answer for the program as it is now.

        Returns
        -------
        float
            ``problem.value``.

        Raises
        ------
        CopterError
            The program was edited since.
        cvxpy.error.SolverError
            There is no allocation, and no proof that there is none.
        """
        if solution.clock != self.program.store.clock:
            raise CopterError("the program was edited after this solution: solve it again before unpacking")
        lp, x, y, proof = self._lp, None, self._live.prices(solution), None
        if solution.found:
            x = np.clip(self._live.point(solution), lp.lower, lp.upper)
            proof = prove(lp, x, y)
        answer = Answer(
            solution.status,
            solution.reason,
            x,
            y,
            proof,
            finished_by="copter",
            seconds={"edit": solution.timings.edit, "solve": solution.timings.solve},
            iterations=solution.iterations,
            warm_started=solution.warm_started,
        )
        result = result_of(lp, answer, solution.warm_reason)
        self.problem.unpack_results(result, self._chain, self._back)
        return float(self.problem.value)

    def bound(self, solution: Solution) -> float:
        """Certified bound on the problem's optimum: from below, or from above if it is a maximisation.

        Parameters
        ----------
        solution : Solution
            Of the program as it is now.
        """
        least = self._live.bound(solution) + self._offset
        return -least if isinstance(self.problem.objective, Maximize) else least

    def _compile(self) -> None:
        """Evaluate the problem at the parameters' values; cvxpy compiles it the first time only."""
        data, self._chain, self._back = self.problem.get_problem_data(COPTER)
        self._lp = lp_of(data)
        self._offset = float(self._back[-1][s.OFFSET])


def from_cvxpy(problem: Problem) -> CvxpyModel:
    """A linear cvxpy problem as a program that is kept alive.

    Returns
    -------
    CvxpyModel
        ``model.program`` is the program; ``model.unpack(solution)`` brings an answer back to the problem, and
        ``model.update()`` new values of its parameters into the program.

    Raises
    ------
    cvxpy.error.SolverError
        The problem is not linear.
    EditError
        Bounds contradict each other.
    """
    return CvxpyModel(problem)
