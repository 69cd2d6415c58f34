"""Scipy's `milp`: whole numbers by HiGHS' branch and bound, the answer checked for what it must keep."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.models.general_lp import GeneralLP, checked, crossed_column
from copter.solution import Status
from copter.solvers.general.presolve import pass_lp
from copter.solvers.general.proof import violation
from copter.solvers.general.scipy_form import STATUS, vector
from copter.solvers.highs_model import engine, run, status_of

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint, OptimizeResult
    from scipy.sparse import csc_array

_KEPT = 1e-5
"""Violation of a row, relative to its size, and distance from a whole number that an answer may have."""
_STRAY = 1e-3
"""A column that is nearly 0 is judged as if it were this share of a typical one, as HiGHS has it."""
_OPTIONS = {"disp": "output_flag", "node_limit": "mip_max_nodes"}
_KNOWN = {"presolve", "time_limit", "mip_rel_gap", "threads", *_OPTIONS}
_INTEGER, _SEMI_INTEGER = 1, 3


def milp(
    c: ArrayLike,
    *,
    integrality: ArrayLike | None = None,
    bounds: Any = None,
    constraints: Any = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResult:
    """Minimise c'x subject to linear constraints, bounds and integrality, as scipy's ``milp`` does.

    Parameters
    ----------
    c : (n,) array_like
    integrality : array_like, optional
        For all columns or for each: 0 continuous, 1 integer, 2 semi-continuous, 3 semi-integer.
    bounds : scipy.optimize.Bounds, or the arguments of one, optional
        Default: every column at least 0.
    constraints : scipy.optimize.LinearConstraint, or the arguments of one, or a sequence of these, optional
    options : mapping, optional
        ``disp, presolve, time_limit, node_limit, mip_rel_gap, threads``; others are options of HiGHS.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x, fun, status, success, message, mip_node_count, mip_dual_bound, mip_gap``, None where there is
        no x.  Unlike scipy's, the status tells infeasible (2) from unbounded (3) where presolve does not, and
        a limit of nodes is 1, a limit.

    Raises
    ------
    EditError
        A ValueError: what scipy refuses, and a bound or coefficient that cannot be.
    SolverError
        HiGHS knows no such option.
    """
    cost = vector("c", c)
    if not cost.size:
        raise EditError("c", "shape", cost.shape, "needs at least one column")
    kinds = _kinds(integrality, cost.size)
    lower, upper = _bounds(bounds, cost.size)
    A, low, high = _constraints(constraints, cost.size)
    lp = GeneralLP(cost, A, low, high, lower, upper, 0.0, kinds == _INTEGER)
    empty = crossed_column(lp)
    if empty is not None:
        return _result(Status.INFEASIBLE, f"the bounds of column {empty} leave no value")
    lp = checked(lp)
    settings = _settings(options or {})
    highs = _branch_and_bound(lp, kinds, settings)
    status, reason = status_of(highs)
    if highs.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        without = _branch_and_bound(replace(lp, c=np.zeros(cost.size)), kinds, settings)
        feasible = status_of(without)[0] is Status.OPTIMAL
        status = Status.UNBOUNDED if feasible else status_of(without)[0]
    info, solution = highs.getInfo(), highs.getSolution()
    known = status not in (Status.INFEASIBLE, Status.UNBOUNDED) and solution.value_valid
    x = np.array(solution.col_value) if known else None
    if x is not None:
        why = _violation(lp, kinds, x)
        if why and status is Status.OPTIMAL:
            status, reason = Status.NUMERICAL_ERROR, f"{reason}, but {why}"
        elif why:
            x = None
    if x is None:
        return _result(status, reason)
    objective, whole = float(cost @ x), bool(kinds.any())
    return _result(
        status,
        reason,
        x=x,
        fun=objective,
        mip_node_count=max(0, int(info.mip_node_count)),
        mip_dual_bound=float(info.mip_dual_bound) if whole else objective,  # simplex proved it
        mip_gap=float(info.mip_gap) if whole else 0.0,
    )


def _result(status: Status, reason: str, **known: Any) -> OptimizeResult:
    """scipy's result, with None for what is not known."""
    from scipy.optimize import OptimizeResult

    code, words = STATUS[status]
    fields = ("x", "fun", "mip_node_count", "mip_dual_bound", "mip_gap")
    return OptimizeResult(
        status=code,
        message=f"{words} ({reason})",
        success=code == 0,
        **(dict.fromkeys(fields) | known),
    )


def _branch_and_bound(lp: GeneralLP, kinds: NDArray[np.int32], settings: Mapping[str, Any]) -> highspy.Highs:
    rest = dict(settings)
    highs = engine(rest.pop("threads", None), **rest)
    pass_lp(highs, lp, kinds)
    run(highs)
    return highs


def _violation(lp: GeneralLP, kinds: NDArray[np.int32], x: NDArray[np.float64]) -> str:
    """What an answer does not keep, in words; empty if it keeps all."""
    whole = (kinds == _INTEGER) | (kinds == _SEMI_INTEGER)
    broken = float(abs(x - np.rint(x))[whole].max(initial=0.0))
    if broken > _KEPT:
        return f"a column is {broken:.1e} from a whole number"
    off = (kinds > _INTEGER) & (x == 0)  # semi-continuous: 0, or within the bounds
    box = replace(lp, lower=np.where(off, 0.0, lp.lower), upper=np.where(off, 0.0, lp.upper))
    primal = violation(box, x, _STRAY)
    return f"a row or bound is violated by {primal:.1e} of its size" if primal > _KEPT else ""


def _kinds(integrality: ArrayLike | None, n: int) -> NDArray[np.int32]:
    why = f"must be integers 0 to 3, one or {n}"
    try:
        kinds = np.broadcast_to(np.asarray(0 if integrality is None else integrality, np.float64), (n,))
    except (TypeError, ValueError):
        raise EditError("integrality", "values", integrality, why) from None
    if not np.isin(kinds, (0, 1, 2, 3)).all():
        raise EditError("integrality", "values", float(kinds[~np.isin(kinds, (0, 1, 2, 3))][0]), why)
    return kinds.astype(np.int32)


def _bounds(bounds: Any, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.optimize import Bounds

    if bounds is None:
        bounds = Bounds(0, np.inf)
    try:
        box = bounds if isinstance(bounds, Bounds) else Bounds(*bounds)
        lower, upper = (np.broadcast_to(side, (n,)).astype(np.float64) for side in (box.lb, box.ub))
    except (TypeError, ValueError) as error:
        raise EditError("bounds", "values", bounds, f"must be scipy's, for {n} columns: {error}") from None
    return lower, upper


def _constraints(given: Any, n: int) -> tuple[csc_array, NDArray[np.float64], NDArray[np.float64]]:
    """Matrix and bounds of the rows of all constraints."""
    from scipy.optimize import LinearConstraint
    from scipy.sparse import csc_array, vstack

    if given is None or (isinstance(given, Sequence) and not given):
        return csc_array((0, n)), np.zeros(0), np.zeros(0)
    parts: list[LinearConstraint] = []
    try:
        for one in _each(given):
            parts.append(one if isinstance(one, LinearConstraint) else LinearConstraint(*one))
        matrices = [csc_array(part.A, dtype=np.float64) for part in parts]
        sides = [
            [np.broadcast_to(side, (matrix.shape[0],)).astype(np.float64) for side in (part.lb, part.ub)]
            for part, matrix in zip(parts, matrices, strict=True)
        ]
    except (TypeError, ValueError) as error:
        why = f"each must be a scipy LinearConstraint or the arguments of one: {error}"
        raise EditError("constraints", "values", given, why) from None
    for k, matrix in enumerate(matrices):
        if matrix.shape[1] != n:
            raise EditError(f"constraints[{k}]", "A", matrix.shape, f"needs {n} columns (as c)")
    low, high = (np.concatenate(side) for side in zip(*sides, strict=True))
    return csc_array(vstack(matrices)), low, high


def _each(given: Any) -> Sequence[Any]:
    """The constraints one by one: a triple of (A, lower, upper) is one, as scipy reads it."""
    from scipy.optimize import LinearConstraint

    if isinstance(given, LinearConstraint):
        return [given]
    if len(given) == 3 and not any(isinstance(each, LinearConstraint) for each in given):
        try:
            return [LinearConstraint(*given)]
        except (TypeError, ValueError):
            return list(given)
    return list(given)


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of HiGHS for those of scipy."""
    unknown = set(options) - _KNOWN
    if unknown:
        warnings.warn(
            f"Unrecognized options detected: {unknown}. These will be passed to HiGHS verbatim.",
            RuntimeWarning,
            stacklevel=3,
        )
    settings = {_OPTIONS.get(name, name): value for name, value in options.items() if value is not None}
    if "presolve" in settings:
        settings["presolve"] = "on" if settings["presolve"] else "off"
    if "time_limit" in settings:
        settings["time_limit"] = float(settings["time_limit"])
    return settings
