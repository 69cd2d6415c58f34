"""HiGHS, Clarabel, SCS and OSQP through cvxpy: a baseline that compiles a cvxpy model in every round.

The program becomes one matrix, as for every baseline, and then the cvxpy problem

    minimise c'x  subject to  A_e x = b_e,  A_u x <= u,  -A_l x <= -l,  0 <= x,  x_j <= upper_j where finite.

The round's edit time is cvxpy's compilation to the cones of the solver; the solve time is the run of the
solver.  No model is kept between rounds: a cvxpy Parameter can change numbers, but arriving and leaving
requests change the shape.  Each solver gets the wanted tolerance.  These solvers stop by residuals relative
to norms over all rows.  So a solver runs again at a third of its tolerance until the certificate is within
the wanted tolerance, at most eight times and while time is left.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, check_for
from copter.extras import extra
from copter.solution import Status
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.baseline import BASELINE, Baseline, BaselineAnswer, Layout
from copter.solvers.features import Feature
from copter.solvers.settings import Setting, one_of
from copter.store.compiled import compile_program

with extra("cvxpy"):
    import cvxpy as cp

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_TIGHTENINGS = 8
_ITERATIONS = 10_000_000
"""Limit on iterations that no run reaches before its time limit."""
_STATUS = {
    "optimal": Status.OPTIMAL,
    "optimal_inaccurate": Status.NUMERICAL_ERROR,
    "infeasible": Status.INFEASIBLE,
    "unbounded": Status.UNBOUNDED,
    "user_limit": Status.DEADLINE,
}


class CvxpyLP(Baseline):
    """A solver that cvxpy calls, started from nothing every round.

    Parameters
    ----------
    **common
        ``tolerance``, ``deadline``, ``threads`` of :class:`copter.solvers.baselines.baseline.Baseline`; only
        HiGHS and Clarabel use ``threads``.
    """

    features = BASELINE & ~Feature.CANCEL  # only the solver's time limit ends a run
    backend = Setting(one_of("highs", "clarabel", "scs", "osqp"))
    _of_one_round = ("_problem", "_rows", "_data", "_chain", "_back", "_upper")

    def __init__(
        self, name: str, *, backend: Literal["highs", "clarabel", "scs", "osqp"] = "clarabel", **common: Any
    ) -> None:
        super().__init__(name, **common)
        self.backend = backend

    def stopping(self) -> dict[str, float]:
        """Return the tolerances that the solver gets, by its own names."""
        return {name: value for name, value in self._options(1.0, math.inf).items() if name in _TOLERANCES}

    def _load(self, program: ContinualProgram) -> Layout:
        watch = Stopwatch()
        compiled = compile_program(program)
        self._upper = compiled.upper
        check_for(watch())
        x = cp.Variable(compiled.c.size, nonneg=True)
        self._rows: list[tuple[Any, NDArray[np.int64], float]] = []
        matrix = compiled.A.tocsr()
        lower, upper = compiled.row_lower, compiled.row_upper
        equal = lower == upper
        for chosen, bound, sign in (
            (equal, upper, 1.0),
            (~equal & np.isfinite(upper), upper, 1.0),
            (~equal & np.isfinite(lower), lower, -1.0),
        ):
            some = np.flatnonzero(chosen)
            if some.size:
                left, right = sign * matrix[some] @ x, sign * bound[some]
                self._rows.append((left == right if chosen is equal else left <= right, some, sign))
        constraints = [row for row, _, _ in self._rows]
        bounded = np.flatnonzero(np.isfinite(compiled.upper))
        if bounded.size:
            constraints.append(x[bounded] <= compiled.upper[bounded])
        self._problem: Any = cp.Problem(cp.Minimize(compiled.c @ x), constraints)
        self._data, self._chain, self._back = self._problem.get_problem_data(
            self.backend.upper(), solver_opts={}
        )
        return Layout.of(program)

    def _tightenings(self) -> int:
        return _TIGHTENINGS

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        check_for(0.0)
        options = self._options(tighter, clock.left(reserve))
        watch = Stopwatch()
        try:
            raw = self._chain.solve_via_data(self._problem, self._data, False, False, options)
            seconds = watch()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the certificate checks the accuracy
                self._problem.unpack_results(raw, self._chain, self._back)
            word = self._problem.status
        except cp.SolverError as error:
            return BaselineAnswer(
                Status.NUMERICAL_ERROR, f"{self.backend}: {error}", details={"seconds": watch()}
            )
        stats = self._problem.solver_stats
        iterations = int(getattr(stats, "num_iters", 0) or 0)
        status = _STATUS.get(word, Status.NUMERICAL_ERROR)
        x = self._problem.variables()[0].value
        dual = None
        if x is not None and status not in (Status.INFEASIBLE, Status.UNBOUNDED):
            x, dual = np.clip(x, 0.0, self._upper), self._duals()
        else:
            x = None
        return BaselineAnswer(
            status, f"{self.backend}: {word}", x, dual, iterations, details={"seconds": seconds}
        )

    def _duals(self) -> NDArray[np.float64]:
        """Return the row duals in the baselines' sign, which is the opposite of cvxpy's."""
        size = max(int(some.max()) for _, some, _ in self._rows) + 1 if self._rows else 0
        dual = np.zeros(size)
        for row, some, sign in self._rows:
            if row.dual_value is not None:
                dual[some] -= sign * np.atleast_1d(row.dual_value)
        return dual

    def _options(self, tighter: float, left: float) -> dict[str, Any]:
        """Return the solver's options by its own names."""
        tolerance, limited = self.tolerance * tighter, left < math.inf
        if self.backend == "highs":
            own: dict[str, Any] = dict.fromkeys(_TOLERANCES[:2], float(np.clip(tolerance, 1e-10, 1e-7)))
            own |= {"time_limit": left} if limited else {}
            return own | ({"threads": self.threads} if self.threads is not None else {})
        if self.backend == "clarabel":
            names = ("tol_feas", "tol_gap_abs", "tol_gap_rel")
            own = dict.fromkeys(names, max(1e-12, tolerance))
            own |= {"time_limit": left} if limited else {}
            return own | ({"max_threads": self.threads} if self.threads is not None else {})
        if self.backend == "scs":
            own = {"eps_abs": tolerance, "eps_rel": tolerance, "max_iters": _ITERATIONS}
            return own | ({"time_limit_secs": left} if limited else {})
        own = {"eps_abs": tolerance, "eps_rel": tolerance, "max_iter": _ITERATIONS}
        return own | ({"time_limit": left} if limited else {})


_TOLERANCES = (
    "primal_feasibility_tolerance",
    "dual_feasibility_tolerance",
    "tol_feas",
    "tol_gap_abs",
    "tol_gap_rel",
    "eps_abs",
    "eps_rel",
)
