"""copter as a solver of cvxpy: ``problem.solve(solver=copter.COPTER)``.

cvxpy compiles a problem to ``min c'x`` subject to ``A x + s = b`` with s in cones. This solver supports the
zero cone and the nonnegative cone, and so linear programs, also with integral columns. cvxpy keeps a
:class:`~copter.solvers.general.model.Model` with the problem between solves, so only numbers that changed are
passed to HiGHS.
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
from copter.models.linear_program import LinearProgram, crossed_column
from copter.solvers.base import Stopwatch
from copter.solvers.cvxpy.folding import Folding
from copter.solvers.general.model import Model, ModelSolution
from copter.solvers.settings import as_limit, share, workers
from copter.status import Status

NAME, _ROWS = "COPTER", "rows"
"""Keys of the model and of its rows in the dictionary that cvxpy keeps with a problem."""
_CHECKS = {"tolerance": share, "time_limit": as_limit, "threads": workers}
_OF_CVXPY = "use_quad_obj"
"""Option of cvxpy's compilation that cvxpy also passes to the solver."""
_INACCURATE = 1e-3
"""Largest relative violation of a returned point if a limit ended the solve or the point misses the
tolerance.
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

    Options of ``problem.solve``: ``tolerance`` (relative residuals and gap, 1e-6), ``time_limit`` (seconds),
    ``threads``.

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
        watch, options = Stopwatch(), _checked_options(solver_opts)
        kept = {} if solver_cache is None or not warm_start else solver_cache
        last = kept.get(_ROWS)
        lp = lp_of(data, None if last is None else (last[0], last[1].lp.A))
        folding = Folding(lp, None if last is None else last[1])
        kept[_ROWS] = data[s.A], folding
        impossible = _impossible(lp) or _impossible(folding.folded)
        if impossible:
            result = _Result(s.INFEASIBLE, stats={"reason": impossible})
        else:
            result = result_of(_solved(folding.folded, kept, options), folding)
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


def lp_of(data: Mapping[str, Any], known: tuple[Any, csc_array] | None = None) -> LinearProgram:
    """Return the LP of cvxpy's cone data, with marks of integral columns, without the objective's constant.

    The data are ``A x + s = b``, with the rows of the zero cone before those of the nonnegative cone, bounds
    of x, and the indices of Boolean and integral columns. `known`: the data's matrix of the last call, and
    the matrix made of it.
    """
    b = np.array(data[s.B], np.float64)
    if known is not None and known[0] is data[s.A]:
        A = known[1]
    else:
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
    return LinearProgram(np.array(data[s.C], np.float64), A, row_lower, b, lower, upper, 0.0, integral)


def _indices(columns: Any) -> NDArray[np.int64]:
    return np.array(columns, np.int64)


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among those of ``problem.solve``.

    Raise TypeError for an unknown option, and SettingError for an invalid value.
    """
    found = {}
    given = {name: value for name, value in options.items() if name != _OF_CVXPY}
    check_keywords(f"{NAME}: solve", given, tuple(_CHECKS))
    for name, value in given.items():
        try:
            found[name] = _CHECKS[name](value)
        except ValueError as error:
            raise SettingError(NAME, name, value, str(error)) from None
    return found


def _impossible(lp: LinearProgram) -> str:
    """Return a text that names contradicting or infinite bounds; empty without any."""
    empty = crossed_column(lp)
    if empty is not None:
        return f"the bounds of column {empty} leave no value"
    never = (lp.row_upper == -np.inf) | (lp.row_lower == np.inf)
    return f"row {int(never.argmax())}: its bounds allow infinite values only" if never.any() else ""


def _solved(lp: LinearProgram, kept: dict[str, Any], options: Mapping[str, Any]) -> ModelSolution:
    """Solve an LP by the kept model, which follows the LP's numbers."""
    model, threads = kept.get(NAME), options.get("threads")
    if model is None or model.threads != threads:
        model = kept[NAME] = Model(lp, threads=threads)
    else:
        model.update(lp)
    return model.solve(tolerance=options.get("tolerance", 1e-6), time_limit=options.get("time_limit"))


def result_of(found: ModelSolution, folding: Folding, offset: float = 0.0) -> _Result:
    """Return a solution in cvxpy's form, as an error if there is no usable point.

    `offset`: constant of the model's objective, which cvxpy adds itself.
    """
    status = _status_of(found)
    x = y = None
    if status in s.SOLUTION_PRESENT:
        x, y = found.x, None if found.certificate is None else folding.prices(found.y)
    elif status == s.INFEASIBLE and found.ray is not None:
        y = folding.prices(found.ray.vector, costs=False)
    stats = {
        "reason": found.reason,
        "warm_started": found.details["start"] != "cold",
        "start": found.details["start"],
        "solution": found,
    }
    cost = found.lp.own_sense(found.objective)
    value = None if x is None else cost - offset
    return _Result(status, value, x, y, found.iterations, found.seconds, stats)


def _status_of(found: ModelSolution) -> str:
    """Return cvxpy's status for a solution."""
    if found.status in _ENDED:
        return str(_ENDED[found.status])
    if not found.found or not found.primal_residual <= _INACCURATE:
        return str(s.SOLVER_ERROR)
    if found.status in (Status.UNPROVED, Status.NUMERICAL_ERROR):
        return str(s.OPTIMAL_INACCURATE)
    return str(s.USER_LIMIT)


COPTER = _CopterSolver()
"""copter's solver for cvxpy.

There is one instance only, because cvxpy keeps a compiled problem as long as the solver is the same object.
"""
