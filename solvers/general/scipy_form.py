"""Scipy's `linprog`: its arguments, results, status codes, warnings and signs."""

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
"""scipy's methods, and HiGHS' name of the one that it solves by alone."""
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
    """Minimise c'x subject to A_ub x <= b_ub, A_eq x == b_eq and bounds, as scipy's ``linprog`` does.

    Parameters
    ----------
    c, A_ub, b_ub, A_eq, b_eq, bounds
        As scipy's; matrices may be sparse, a bound of 1e20 or more is none, and so, with a warning, is a NaN.
    method : str
        "highs": all parts together; "highs-ds", "highs-ipm": HiGHS alone, by dual simplex or interior point;
        what scipy deprecates is solved as "highs" is, with scipy's warning.
    options, integrality
        As scipy's for HiGHS; limits of iterations are HiGHS' alone, that of time is for everything.
    callback, x0 : None
        There is no callback; x0 is not used, with scipy's warning.
    solver, tolerance, deadline, presolve, polish
        As in :func:`copter.solve_lp`: all parts together, or one solver alone.  With ``integrality`` it is
        HiGHS' branch and bound, at the gap of ``options``: of these only deadline and presolve matter.

    Returns
    -------
    scipy.optimize.OptimizeResult
        scipy's fields, signs and codes, None where there is no x.  Besides: ``finished_by, seconds, proof,
        ray, vertex`` (whether x is known to be one) and ``solution``, of :func:`copter.solve_lp`'s answer.

    Raises
    ------
    EditError
        A ValueError that names what was wrong; an ArgumentTypeError is a TypeError too.
    NotImplementedError
        A callback.
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
    """A ContinualProgram from the arguments of scipy's ``linprog``, to be edited and solved every round.

    Rows that are sums over blocks of columns, as ``sum_j x_j <= total`` of an allocation, become the totals
    of requests (:mod:`copter.models.formulation`); every other row becomes a resource.

    Parameters
    ----------
    c, A_ub, b_ub, A_eq, b_eq, bounds
        As for :func:`linprog`.
    integrality : array_like, optional
        0 continuous, 1 integral, one for all columns or for each.

    Returns
    -------
    Model
        ``program``, whose resources are called as the rows are numbered, those of A_ub first, and the way
        back: ``solution(answer)`` has ``x``, ``y`` and ``objective``.

    Raises
    ------
    EditError
        As :func:`linprog`, and a column that is semi-continuous or whose bounds leave no value.
    """
    cost = costs(c)
    kinds = kinds_of_columns(integrality, cost.size)
    if (kinds > 1).any():
        why = "a program has continuous (0) and integral (1) columns; copter.milp takes semi-continuous ones"
        raise EditError(f"column {int((kinds > 1).argmax())}", "integrality", int(kinds.max()), why)
    lp, _ = _program(cost, (A_ub, b_ub, A_eq, b_eq), box(bounds, cost.size), kinds)
    return Model(lp)


def _kinds(
    method: str, callback: object, x0: ArrayLike | None, integrality: ArrayLike | None, n: int
) -> NDArray[np.int32]:
    """Kinds of the columns, all continuous where the method has no others; warns as scipy does."""
    from scipy.optimize import OptimizeWarning

    if callback is not None:
        raise NotImplementedError("linprog: there is no callback, as in scipy for HiGHS")
    if method not in (*_METHODS, *_DEPRECATED):
        raise EditError("linprog", "method", method, f"is none of {', '.join((*_METHODS, *_DEPRECATED))}")
    if method in _DEPRECATED:
        told = f"`method='{method}'` is deprecated, as in scipy, and solved as method='highs' is"
        warnings.warn(told, DeprecationWarning, stacklevel=3)
    if x0 is not None:
        vector("x0", x0)
        warnings.warn(
            "x0 is not used: every method begins from where it likes", OptimizeWarning, stacklevel=3
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
    """The program of inequalities and equations (A_ub, b_ub, A_eq, b_eq), and how many the former are."""
    from scipy.sparse import csc_array, vstack

    A_ub, b_ub = rows("A_ub", constraints[0], "b_ub", constraints[1], cost.size)
    A_eq, b_eq = rows("A_eq", constraints[2], "b_eq", constraints[3], cost.size)
    low, high = np.concatenate((np.full(b_ub.size, -np.inf), b_eq)), np.concatenate((b_ub, b_eq))
    matrix = csc_array(vstack([A_ub, A_eq]))
    whole, semi = columns_of_kinds(kinds)
    return GeneralLP(cost, matrix, low, high, *bounds, 0.0, whole, semi=semi), b_ub.size


def _solved(lp: GeneralLP, n_upper: int, kinds: NDArray[np.int32], how: dict[str, Any]) -> OptimizeResult:
    """scipy's result by branch and bound, or by :func:`solve_lp` with ``how``."""
    from scipy.optimize import OptimizeResult

    empty = crossed_column(lp)
    if empty is not None:  # as scipy has it, infeasible and no error
        why = f"the bounds of column {empty} leave no value"
        nowhere = Answer(Status.INFEASIBLE, why, finished_by="bounds", seconds={"check": 0.0})
        return _result(lp, nowhere, n_upper)
    lp = checked(lp)  # from here on without bounds that are none
    options = dict(how["highs_options"])
    limits = [limit for limit in (how["deadline"], options.pop("time_limit", None)) if limit is not None]
    deadline = min(limits, default=None)
    if kinds.any():
        if how["solver"] != AUTO:
            why = "columns that are not continuous are for HiGHS' branch and bound: leave one of the two out"
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
    """scipy's result for an answer; the first ``n_upper`` rows are inequalities."""
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
        reduced = np.where(abs(reduced) <= error, 0.0, reduced)  # what is left when its terms cancel
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
