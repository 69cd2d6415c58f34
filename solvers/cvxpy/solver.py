"""copter as a solver of cvxpy: ``problem.solve(solver=copter.COPTER)``.

cvxpy compiles a problem to ``min c'x`` subject to ``A x + s = b`` with s in cones. This solver supports the
zero cone and the nonnegative cone, so linear programs.  Continuous problems are solved by
:class:`~copter.solvers.general.warm.WarmLP`, an object that cvxpy keeps with the problem between solves.
Problems with integral columns are solved by :func:`~copter.solvers.general.integer.branch_and_bound`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cvxpy.settings as s
import numpy as np
from cvxpy.reductions.solution import Solution, failure_solution
from cvxpy.reductions.solvers import utilities
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
from numpy.typing import NDArray
from scipy.sparse import csc_array

from copter.errors import SettingError
from copter.keywords import check_keywords
from copter.models.general_lp import GeneralLP, crossed_column
from copter.proof.highs_lp import Answer
from copter.solution import Status
from copter.solvers.base import Stopwatch
from copter.solvers.general.integer import branch_and_bound
from copter.solvers.general.warm import WarmLP
from copter.solvers.settings import share, switch, time_limit, workers

NAME = "COPTER"
_CHECKS = {
    "tolerance": share,
    "deadline": time_limit,
    "threads": workers,
    "presolve": switch,
    "polish": switch,
}
_WHOLE = ("tolerance", "deadline", "threads", "presolve")
"""Options for problems with integral columns; the other options are for continuous problems only."""
_OF_CVXPY = "use_quad_obj"
"""Option of cvxpy's compilation that cvxpy also passes to the solver."""
_INACCURATE = 1e-3
"""Largest relative violation of a returned point if a limit ended the solve; also the largest residuals and
gap of a point that misses the tolerance.
"""
_ENDED = {
    Status.OPTIMAL: s.OPTIMAL,
    Status.INFEASIBLE: s.INFEASIBLE,
    Status.UNBOUNDED: s.UNBOUNDED,
}


@dataclass(frozen=True)
class _Result:
    """Result that :meth:`_CopterSolver.solve_via_data` passes to :meth:`_CopterSolver.invert`.

    `status`: in cvxpy's terms. `x`, `y`: point and duals; y is the ray instead if the problem is infeasible.
    """

    status: str
    value: float | None = None
    x: NDArray[np.float64] | None = None
    y: NDArray[np.float64] | None = None
    iterations: int = 0
    seconds: float = 0.0
    stats: Mapping[str, Any] = field(default_factory=dict)


class _CopterSolver(ConicSolver):
    """Solver of linear and mixed-integer linear problems for cvxpy.

    Options of ``problem.solve``: ``tolerance`` (relative residuals and gap, 1e-6), ``deadline`` (seconds),
    ``threads``, ``presolve``, and for continuous problems ``polish`` (end at a vertex).

    Examples
    --------
    >>> import cvxpy as cp, copter
    >>> x = cp.Variable(2, nonneg=True)
    >>> problem = cp.Problem(cp.Maximize(3 * x[0] + 2 * x[1]), [cp.sum(x) <= 8, x <= 6])
    >>> round(float(problem.solve(solver=copter.COPTER)), 3)
    22.0
    """

    MIP_CAPABLE = True
    BOUNDED_VARIABLES = True
    MI_SUPPORTED_CONSTRAINTS = ConicSolver.SUPPORTED_CONSTRAINTS

    def __repr__(self) -> str:
        return "copter.COPTER"

    def __reduce__(self) -> str:
        return NAME  # a pickle refers to this object, because cvxpy compares solvers by identity

    def name(self) -> str:
        """Return the name that cvxpy uses."""
        return NAME

    def import_solver(self) -> None:
        """Do nothing, because copter is imported already."""

    def cite(self, data: Any) -> str:
        """Return an empty string: there is no publication to cite."""
        return ""

    def apply(self, problem: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the data for :meth:`solve_via_data` and the data for :meth:`invert`."""
        data, back = super().apply(problem)
        program = data[s.PARAM_PROB]
        data[s.LOWER_BOUNDS], data[s.UPPER_BOUNDS] = program.lower_bounds, program.upper_bounds
        data[s.BOOL_IDX] = [int(index[0]) for index in program.x.boolean_idx]
        data[s.INT_IDX] = [int(index[0]) for index in program.x.integer_idx]
        return data, back

    def solve_via_data(
        self,
        data: Mapping[str, Any],
        warm_start: bool,
        verbose: bool,
        solver_opts: Mapping[str, Any],
        solver_cache: dict[str, Any] | None = None,
    ) -> _Result:
        """Solve the problem of the data of :meth:`apply`, from its last solution if `warm_start`.

        `solver_cache`: dictionary that cvxpy keeps with the problem. Raise TypeError if an option is unknown,
        SettingError if its value is invalid.
        """
        lp, watch = lp_of(data), Stopwatch()
        whole = bool(lp.integral.any())
        options = _checked_options(solver_opts, whole)
        impossible = _impossible(lp)
        if impossible:
            result = _Result(s.INFEASIBLE, stats={"reason": impossible})
        elif whole:
            result = _whole(lp, options, verbose)
        else:
            kept = {} if solver_cache is None else solver_cache
            result = _continuous(lp, kept.setdefault(NAME, WarmLP()), warm_start, options)
        if verbose:
            print(f"copter: {result.status} in {watch():.3g} s: {result.stats['reason']}")
        return result

    def invert(self, solution: _Result, inverse_data: Any) -> Solution:
        """Convert a result to cvxpy's Solution of the cone problem."""
        about = {
            s.SOLVE_TIME: solution.seconds,
            s.NUM_ITERS: solution.iterations,
            s.EXTRA_STATS: dict(solution.stats),
        }
        duals = {}
        if solution.y is not None:
            constraints = inverse_data[self.EQ_CONSTR] + inverse_data[self.NEQ_CONSTR]
            duals = utilities.get_dual_values(solution.y, utilities.extract_dual_value, constraints)
        if solution.x is None:
            return failure_solution(solution.status, about, duals)
        values = {inverse_data[self.VAR_ID]: solution.x}
        return Solution(solution.status, solution.value + inverse_data[s.OFFSET], values, duals, about)


def lp_of(data: Mapping[str, Any]) -> GeneralLP:
    """Return the LP of cvxpy's cone data, with marks of integral columns, without the objective's constant.

    The data are ``A x + s = b``, with the rows of the zero cone before those of the nonnegative cone, bounds
    of x, and the indices of Boolean and integral columns.
    """
    b = np.array(data[s.B], np.float64)
    A = csc_array(data[s.A], shape=(b.size, data[s.C].size), dtype=np.float64)
    row_lower = b.copy()
    row_lower[data["dims"].zero :] = -np.inf
    lower, upper = (
        np.full(A.shape[1], none) if data[side] is None else np.array(data[side], np.float64)
        for side, none in ((s.LOWER_BOUNDS, -np.inf), (s.UPPER_BOUNDS, np.inf))
    )
    boolean, integral = _indices(data[s.BOOL_IDX]), np.zeros(A.shape[1], np.bool_)
    integral[boolean] = True
    integral[_indices(data[s.INT_IDX])] = True
    lower[boolean], upper[boolean] = np.maximum(lower[boolean], 0.0), np.minimum(upper[boolean], 1.0)
    return GeneralLP(np.array(data[s.C], np.float64), A, row_lower, b, lower, upper, 0.0, integral)


def _indices(columns: Any) -> NDArray[np.int64]:
    return np.array(columns, np.int64)


def _checked_options(options: Mapping[str, Any], whole: bool) -> dict[str, Any]:
    """Return the options of copter's solvers among the options of ``problem.solve``.

    `whole`: True if there are integral columns. Raise TypeError for an unknown option, and SettingError for
    an invalid value or for an option that is not available with integral columns.
    """
    known = _WHOLE if whole else tuple(_CHECKS)
    found = {}
    given = {name: value for name, value in options.items() if name != _OF_CVXPY}
    check_keywords(f"{NAME}: solve", given, tuple(_CHECKS))
    for name, value in given.items():
        if name not in known:
            why = f"is for continuous problems only; there are: {', '.join(known)}"
            raise SettingError(NAME, name, value, why)
        try:
            found[name] = _CHECKS[name](value)
        except ValueError as error:
            raise SettingError(NAME, name, value, str(error)) from None
    return found


def _impossible(lp: GeneralLP) -> str:
    """Return a text that names contradicting or infinite bounds; empty if there are none."""
    empty = crossed_column(lp)
    if empty is not None:
        return f"the bounds of column {empty} leave no value"
    never = (lp.row_upper == -np.inf) | (lp.row_lower == np.inf)
    return f"row {int(never.argmax())}: its bounds allow infinite values only" if never.any() else ""


def _continuous(lp: GeneralLP, kept: WarmLP, warm: bool, options: Mapping[str, Any]) -> _Result:
    return result_of(lp, *kept.solve(lp, warm=warm, **options))


def result_of(lp: GeneralLP, answer: Answer, warm_reason: str) -> _Result:
    """Return an answer in cvxpy's form, as an error if there is no usable point.

    `warm_reason`: what the warm start used, or why there was none.
    """
    status = _status_of(answer)
    x, y = (answer.x, answer.y) if status in s.SOLUTION_PRESENT else (None, None)
    if status == s.INFEASIBLE and answer.ray is not None:
        y = answer.ray.vector
    stats = {
        "reason": answer.reason,
        "warm_started": answer.warm_started,
        "warm_reason": warm_reason,
        "finished_by": answer.finished_by,
        "seconds": dict(answer.seconds),
        "proof": answer.proof,
        "ray": answer.ray,
    }
    value = None if x is None else float(lp.c @ x)
    return _Result(status, value, x, y, answer.iterations, sum(answer.seconds.values()), stats)


def _status_of(answer: Answer) -> str:
    """Return cvxpy's status for an answer."""
    if answer.status in _ENDED:
        return str(_ENDED[answer.status])
    if answer.proof is None or not answer.proof.primal <= _INACCURATE:
        return str(s.SOLVER_ERROR)
    if answer.status in (Status.UNPROVED, Status.NUMERICAL_ERROR):
        # a reduced cost of the wrong sign may be all that prevents a proof
        near = answer.proof.worst <= _INACCURATE or answer.proof.dual <= _INACCURATE
        return str(s.OPTIMAL_INACCURATE if near else s.SOLVER_ERROR)
    return str(s.USER_LIMIT)


def _whole(lp: GeneralLP, options: Mapping[str, Any], verbose: bool) -> _Result:
    watch = Stopwatch()
    settings = {
        "output_flag": verbose,
        "mip_rel_gap": options.get("tolerance", 1e-6),
        "time_limit": options.get("deadline"),
        "threads": options.get("threads"),
        "presolve": options.get("presolve", True),
    }
    given = {name: value for name, value in settings.items() if value is not None}
    found = branch_and_bound(lp, given)
    usable = found.x is not None and found.status is not Status.NUMERICAL_ERROR
    status = _ENDED.get(found.status, s.USER_LIMIT if usable else s.SOLVER_ERROR)
    stats = {
        "reason": found.reason,
        "warm_started": False,
        "warm_reason": "branch and bound always starts cold",
        "mip_gap": found.gap,
        "mip_dual_bound": found.bound,
    }
    return _Result(
        status,
        found.objective,
        found.x if usable else None,
        iterations=found.nodes or 0,
        seconds=watch(),
        stats=stats,
    )


COPTER = _CopterSolver()
"""copter's solver for cvxpy.

There is one instance only, because cvxpy keeps a compiled problem as long as the solver is the same object.
"""
