"""A solver: scipy's linprog on the whole program as one matrix."""

import numpy as np
from scipy.optimize import linprog

from copter import Status
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.baseline import Baseline, BaselineAnswer, Layout
from copter.store.compiled import compile_program

STATUS = {0: Status.OPTIMAL, 1: Status.DEADLINE, 2: Status.INFEASIBLE, 3: Status.UNBOUNDED}


class Scipy(Baseline):
    """scipy's linprog, rebuilt every round."""

    def _take(self, lp):
        self._lp = lp

    def _load(self, program):
        self._take(compile_program(program))
        return Layout.of(program)

    def _run(self, clock, reserve, tighter):
        lp, watch = self._lp, Stopwatch()
        above, below = np.isfinite(lp.row_upper), np.isfinite(lp.row_lower)
        rows = np.concatenate((lp.A.toarray()[above], -lp.A.toarray()[below]))
        right = np.concatenate((lp.row_upper[above], -lp.row_lower[below]))
        bounds = np.column_stack((lp.lower, lp.upper))
        found = linprog(lp.c, rows, right, bounds=bounds, options={"time_limit": clock.left(reserve)})
        status = STATUS.get(found.status, Status.NUMERICAL_ERROR)
        if found.x is None:
            return BaselineAnswer(status, found.message, details={"seconds": watch()})
        dual = np.zeros(above.size)
        dual[above] += found.ineqlin.marginals[: above.sum()]
        dual[below] -= found.ineqlin.marginals[above.sum() :]
        return BaselineAnswer(status, found.message, found.x, dual, found.nit, details={"seconds": watch()})
