"""scipy's `linprog`: arguments, results, status codes, warnings and signs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.models.general_lp import GeneralLP, checked, crossed_column
from copter.models.model import Model
from copter.proof.highs_lp import Answer
from copter.proof.rigorous import reduced_costs
from copter.solution import Status
from copter.solvers.base import Stopwatch
from copter.solvers.general.hybrid import AUTO, solve_lp
from copter.solvers.general.integer import branch_and_bound
from copter.solvers.general.scipy_arguments import (
    box,
    columns_of_kinds,
    costs,
    kinds_of_columns,
    rows,
    scipy_status,
    vector,
)
from copter.solvers.general.scipy_options import LINPROG, highs_options

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from copter.solvers.base import Solver

_METHODS = {"highs": "", "highs-ds": "simplex", "highs-ipm": "ipm"}
"""scipy's methods, and the name of HiGHS' method if HiGHS solves alone."""
_DEPRECATED = ("simplex", "revised simplex", "interior-point")


def linprog(  # noqa: PLR0913 - scipy's arguments
    c: ArrayLike,
    A_ub: Any = None,
    b_ub: ArrayLike | None = None,
    A_eq: Any = None,
    b_eq: ArrayLike | None = None,
    bounds: Any = (0, None),
    method: str = "highs",
    callback: None = None,
    options: Mapping[str, Any] | None = None,
    x0: ArrayLike | None = None,
    integrality: ArrayLike | None = None,
    *,
    solver: str | Solver = AUTO,
    tolerance: float = 1e-6,
    deadline: float | None = None,
    presolve: bool = True,
    polish: bool = False,
) -> OptimizeResult:
    """Minimise c'x subject to A_ub x <= b_ub, A_eq x == b_eq and bounds; as scipy's ``linprog``.

    Parameters
    ----------
    c, A_ub, b_ub, A_eq, b_eq, bounds
        As in scipy. Matrices may be sparse. A bound of 1e20 or more counts as no bound, and so does NaN, with
        a warning.
    method : str
        "highs": combination of all parts; "highs-ds", "highs-ipm": HiGHS alone, by dual simplex or interior
        point. scipy's deprecated methods count as "highs", with scipy's warning.
    options, integrality
        As in scipy for HiGHS; iteration limits apply to HiGHS only, the time limit to the whole call.
    callback, x0 : None
        A callback is an error; x0 is not used, with scipy's warning.
    solver, tolerance, deadline, presolve, polish
        As in :func:`copter.solve_lp`: all parts together, or one solver alone.  With ``integrality``, HiGHS'
        branch and bound solves the program at the gap of ``options``; only deadline and presolve apply then.

    Returns
    -------
    scipy.optimize.OptimizeResult
        scipy's fields, signs and codes; x and figures are None without a point.  Additional fields are
        ``finished_by, seconds, proof, ray, solution`` of :func:`copter.solve_lp`'s answer, and ``vertex``,
        which is True if x is known to be a vertex.

    Raises
    ------
    EditError
        A ValueError that names the invalid argument; an ArgumentTypeError is a TypeError too.
    NotImplementedError
        If there is a callback.

    Examples
    --------
    >>> import copter
    >>> result = copter.linprog([-3.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[8.0], bounds=(0, 6))
    >>> result.status, result.x.round(6).tolist(), round(result.fun, 6)
    (0, [6.0, 2.0], -22.0)
    >>> result.ineqlin.marginals.round(6).tolist()
    [-2.0]
    """
    from scipy.optimize import OptimizeWarning

    cost = costs(c)
    kinds = _kinds(method, callback, x0, integrality, cost.size)
    lp, n_upper = _program(cost, (A_ub, b_ub, A_eq, b_eq), box(bounds, cost.size), kinds)
    given = highs_options(options, LINPROG, OptimizeWarning)
    alone = {"solver": _METHODS[method]} if _METHODS.get(method) else {}
    how = {"solver": solver, "tolerance": tolerance, "deadline": deadline, "polish": polish}
    return _solved(lp, n_upper, kinds, how | {"presolve": presolve, "highs_options": given | alone})


def from_arrays(
    c: ArrayLike,
    A_ub: Any = None,
    b_ub: ArrayLike | None = None,
    A_eq: Any = None,
    b_eq: ArrayLike | None = None,
    bounds: Any = (0, None),
    integrality: ArrayLike | None = None,
) -> Model:
    """Convert the arguments of scipy's ``linprog`` to a ContinualProgram that can be edited and solved again.

    Rows that are sums over blocks of columns, as ``sum_j x_j <= total`` of an allocation, become the totals
    of requests (:mod:`copter.models.formulation`); every other row becomes a resource.

    Parameters
    ----------
    c, A_ub, b_ub, A_eq, b_eq, bounds
        As for :func:`linprog`.
    integrality : array_like, optional
        0 continuous, 1 integral; one number for all columns, or one for each.

    Returns
    -------
    Model
        ``program`` is the program. Its resources have the row numbers as ids, the rows of A_ub first.
        ``solution(answer)`` converts a solution back, to ``x``, ``y`` and ``objective``.

    Raises
    ------
    EditError
        As :func:`linprog`; also if a column is semi-continuous or its bounds contradict each other.

    Examples
    --------
    >>> import copter
    >>> model = copter.from_arrays([-3.0, -2.0], A_ub=[[1.0, 1.0], [2.0, 1.0]], b_ub=[8.0, 13.0])
    >>> solution = copter.make_solver("copter", tolerance=1e-9).solve(model.program)
    >>> found = model.solution(solution)
    >>> found.x.round(5).tolist(), round(found.objective, 5)
    ([5.0, 3.0], -21.0)
    """
    cost = costs(c)
    kinds = kinds_of_columns(integrality, cost.size)
    if (kinds > 1).any():
        why = "must be 0 (continuous) or 1 (integral); copter.milp takes semi-continuous columns"
        raise EditError(f"column {int((kinds > 1).argmax())}", "integrality", int(kinds.max()), why)
    lp, _ = _program(cost, (A_ub, b_ub, A_eq, b_eq), box(bounds, cost.size), kinds)
    return Model(lp)


def _kinds(
    method: str, callback: object, x0: ArrayLike | None, integrality: ArrayLike | None, n: int
) -> NDArray[np.int32]:
    """Return the kinds of the columns, all continuous unless the method is "highs"; warn as scipy does."""
    from scipy.optimize import OptimizeWarning

    if callback is not None:
        raise NotImplementedError("linprog: callback: must be None, as in scipy with HiGHS")
    if method not in (*_METHODS, *_DEPRECATED):
        raise EditError("linprog", "method", method, f"must be one of {', '.join((*_METHODS, *_DEPRECATED))}")
    if method in _DEPRECATED:
        told = f"`method='{method}'` is deprecated, as in scipy; method='highs' is used instead"
        warnings.warn(told, DeprecationWarning, stacklevel=3)
    if x0 is not None:
        vector("x0", x0)
        warnings.warn(
            "x0 is not used: the methods choose their own starting point", OptimizeWarning, stacklevel=3
        )
    kinds = kinds_of_columns(integrality, n)
    if kinds.any() and method != "highs":
        told = "Only `method='highs'` supports integer constraints. Ignoring `integrality`."
        warnings.warn(told, OptimizeWarning, stacklevel=3)
        return np.zeros(n, np.int32)
    return kinds


def _program(
    cost: NDArray[np.float64],
    constraints: tuple[Any, ArrayLike | None, Any, ArrayLike | None],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    kinds: NDArray[np.int32],
) -> tuple[GeneralLP, int]:
    """Return the LP of (A_ub, b_ub, A_eq, b_eq), and its number of inequality rows."""
    from scipy.sparse import csc_array, vstack

    A_ub, b_ub = rows("A_ub", constraints[0], "b_ub", constraints[1], cost.size)
    A_eq, b_eq = rows("A_eq", constraints[2], "b_eq", constraints[3], cost.size)
    low, high = np.concatenate((np.full(b_ub.size, -np.inf), b_eq)), np.concatenate((b_ub, b_eq))
    matrix = csc_array(vstack([A_ub, A_eq]))
    whole, semi = columns_of_kinds(kinds)
    return GeneralLP(cost, matrix, low, high, *bounds, 0.0, whole, semi=semi), b_ub.size


def _solved(lp: GeneralLP, n_upper: int, kinds: NDArray[np.int32], how: dict[str, Any]) -> OptimizeResult:
    """Return scipy's result of branch and bound, or of :func:`solve_lp` with the arguments `how`."""
    from scipy.optimize import OptimizeResult

    empty = crossed_column(lp)
    if empty is not None:  # as in scipy, the status is infeasible and there is no error
        why = f"the bounds of column {empty} leave no value"
        nowhere = Answer(Status.INFEASIBLE, why, finished_by="bounds", seconds={"check": 0.0})
        return _result(lp, nowhere, n_upper)
    lp = checked(lp)  # bounds of 1e20 and more are infinite from here on
    options = dict(how["highs_options"])
    limits = [limit for limit in (how["deadline"], options.pop("time_limit", None)) if limit is not None]
    deadline = min(limits, default=None)
    if kinds.any():
        if how["solver"] != AUTO:
            why = "must be 'auto' with integrality, which HiGHS' branch and bound solves"
            raise EditError("linprog", "solver", how["solver"], why)
        watch = Stopwatch()
        limit = {} if deadline is None else {"time_limit": deadline}
        presolve = {} if how["presolve"] else {"presolve": False}
        found = branch_and_bound(lp, presolve | options | limit)
        seconds = {"highs": watch()}
        answer = Answer(found.status, found.reason, x=found.x, finished_by="highs", seconds=seconds)
        return OptimizeResult(_result(lp, answer, n_upper) | found.figures())
    presolve = options.pop("presolve", how["presolve"])
    answer = solve_lp(lp, **how | {"presolve": presolve, "deadline": deadline, "highs_options": options})
    return _result(lp, answer, n_upper)


def _result(lp: GeneralLP, answer: Answer, n_upper: int) -> OptimizeResult:
    """Return scipy's result for an answer; the first `n_upper` rows are inequalities."""
    from scipy.optimize import OptimizeResult

    x, y = answer.x, answer.y
    code, message = scipy_status(answer.status, f"{answer.finished_by}: {answer.reason}")
    fun = None if x is None else float(lp.c @ x)
    residual: dict[str, Any] = dict.fromkeys(("ineqlin", "eqlin", "lower", "upper"))
    marginals: dict[str, Any] = dict(residual)
    if x is not None:
        left = lp.row_upper - lp.A @ x
        residual = {
            "ineqlin": left[:n_upper],
            "eqlin": left[n_upper:],
            "lower": x - lp.lower,
            "upper": lp.upper - x,
        }
    if y is not None:
        reduced, error, _ = reduced_costs(lp, y)
        reduced = np.where(abs(reduced) <= error, 0.0, reduced)  # rounding errors count as 0
        marginals = {
            "ineqlin": -y[:n_upper],
            "eqlin": -y[n_upper:],
            "lower": np.where(np.isfinite(lp.lower), np.maximum(reduced, 0.0), 0.0),
            "upper": np.where(np.isfinite(lp.upper), np.minimum(reduced, 0.0), 0.0),
        }
    groups = {name: OptimizeResult(residual=residual[name], marginals=marginals[name]) for name in residual}
    return OptimizeResult(
        x=x,
        slack=residual["ineqlin"],
        con=residual["eqlin"],
        **groups,
        fun=fun,
        status=code,
        success=code == 0,
        message=message,
        nit=answer.iterations,
        crossover_nit=answer.crossover,
        mip_node_count=None if x is None else 0,
        mip_dual_bound=fun,
        mip_gap=None if x is None else 0.0,
        finished_by=answer.finished_by,
        seconds=dict(answer.seconds),
        proof=answer.proof,
        ray=answer.ray,
        vertex=answer.basis is not None,
        solution=answer.solution,
    )
