"""scipy's `linprog` and `milp`, and `from_arrays`: arguments, results, status codes, warnings and signs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.clock import Clock, ctrl_c_cancels, current, running
from copter.errors import EditError, SettingError
from copter.models.highs_lp import HighsLP, LPAnswer
from copter.models.linear_program import LinearProgram, checked, crossed_column, supported
from copter.solvers.general.integer import IntegerAnswer, solve_integer
from copter.solvers.general.model import Model
from copter.solvers.general.scipy_arguments import (
    bounds_of_columns,
    box,
    columns_of_kinds,
    costs,
    kinds_of_columns,
    rows,
    rows_of_constraints,
    scipy_status,
    vector,
)
from copter.solvers.general.scipy_options import LINPROG, MILP, highs_options
from copter.solvers.settings import share
from copter.status import Status

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

_METHODS = {"highs": "", "highs-ds": "simplex", "highs-ipm": "ipm"}
"""scipy's methods, and the name of HiGHS' method if HiGHS solves alone."""
_GAP = 1e-4
"""HiGHS' default of the relative gap."""
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
    tolerance: float = 1e-6,
) -> OptimizeResult:
    """Minimise c'x subject to A_ub x <= b_ub, A_eq x == b_eq and bounds; as scipy's ``linprog``.

    Parameters
    ----------
    c, A_ub, b_ub, A_eq, b_eq, bounds
        As in scipy. Matrices may be sparse. A bound of 1e20 or more counts as no bound, and so does NaN, with
        a warning.
    method : str
        "highs": HiGHS' default; "highs-ds", "highs-ipm": dual simplex or interior point. scipy's deprecated
        methods count as "highs", with scipy's warning.
    options, integrality
        As in scipy for HiGHS; the time limit is for the whole call.
    callback, x0 : None
        A callback is an error; x0 is not used, with scipy's warning.
    tolerance : float
        Largest relative residuals and gap of an optimal answer, which are recomputed from the arguments.

    Returns
    -------
    scipy.optimize.OptimizeResult
        scipy's fields, signs and codes; x and figures are None without a point.  Additional fields are
        ``certificate``, an :class:`~copter.proof.general_lp.LPCertificate` with the bound and whether it is
        proved in exact arithmetic, and ``ray``, which proves that the LP is infeasible or unbounded.

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
    try:
        tolerance = share(tolerance)
    except ValueError as error:
        raise SettingError("linprog", "tolerance", tolerance, str(error)) from None
    lp, n_upper = _program(cost, (A_ub, b_ub, A_eq, b_eq), box(bounds, cost.size), kinds)
    given = highs_options(options, LINPROG, OptimizeWarning)
    if _METHODS.get(method):
        given["solver"] = _METHODS[method]
    empty = crossed_column(lp)
    if empty is not None:  # as in scipy, the status is infeasible and there is no error
        nowhere = LPAnswer(Status.INFEASIBLE, f"the bounds of column {empty} leave no value")
        return _result(lp, nowhere, n_upper)
    lp = supported(checked(lp))  # bounds of 1e20 and more are infinite from here on
    found = _solved(lp, given, tolerance)
    if isinstance(found, LPAnswer):
        return _result(lp, found, n_upper)
    result = _result(lp, LPAnswer(found.status, found.reason), n_upper, found.x)
    result.update(found.figures())
    return result


def milp(
    c: ArrayLike,
    *,
    integrality: ArrayLike | None = None,
    bounds: Any = None,
    constraints: Any = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResult:
    """Minimise c'x subject to linear constraints, bounds and integrality; as scipy's ``milp``.

    Parameters
    ----------
    c : (n,) array_like
        Costs.
    integrality : array_like, optional
        One number for all columns, or one for each: 0 continuous, 1 integer, 2 semi-continuous, 3
        semi-integer.
    bounds : scipy.optimize.Bounds, or the arguments of one, optional
        Default: every column is at least 0.
    constraints : scipy.optimize.LinearConstraint, or the arguments of one, or a sequence of these, optional
        Rows of the program.
    options : mapping, optional
        ``disp, presolve, time_limit, node_limit, mip_rel_gap``; others are passed to HiGHS, with a warning.
        An option that HiGHS rejects is ignored, with a warning.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x, fun, status, success, message, mip_node_count, mip_dual_bound, mip_gap``; ``x`` and the figures
        are None without a point. The message says what was checked.  Unlike in scipy, infeasible (2) and
        unbounded (3) are distinguished, and the node limit has status 1.

    Raises
    ------
    EditError
        A ValueError, if scipy rejects the argument, or if a bound or coefficient is invalid, or larger than
        HiGHS supports.

    Examples
    --------
    >>> import copter
    >>> result = copter.milp([-5.0, -4.0], integrality=1, constraints=([[6.0, 4.0]], -float("inf"), 23.0))
    >>> result.status, result.x.tolist(), result.fun
    (0, [1.0, 4.0], -21.0)
    """
    from scipy.optimize import OptimizeResult

    cost = costs(c)
    lower, upper = bounds_of_columns(bounds, cost.size)
    A, low, high = rows_of_constraints(constraints, cost.size)
    whole, semi = columns_of_kinds(kinds_of_columns(integrality, cost.size))
    lp = LinearProgram(cost, A, low, high, lower, upper, 0.0, whole, semi=semi)
    settings = highs_options(options, MILP, RuntimeWarning)
    empty = crossed_column(lp)
    found: IntegerAnswer | LPAnswer
    if empty is not None:
        found = IntegerAnswer(Status.INFEASIBLE, f"the bounds of column {empty} leave no value")
    else:
        found = _solved(supported(checked(lp)), settings, 1e-6)
    code, message = scipy_status(found.status, found.reason)
    if isinstance(found, LPAnswer):
        proof = found.certificate
        known = proof is not None and found.status not in (Status.INFEASIBLE, Status.UNBOUNDED)
        x, fun = (proof.x, proof.objective) if proof is not None and known else (None, None)
        bound, gap = (proof.bound, proof.gap) if proof is not None and known else (None, None)
        figures = {"mip_node_count": 0 if known else None, "mip_dual_bound": bound, "mip_gap": gap}
    else:
        x, fun, figures = found.x, found.objective, found.figures()
    return OptimizeResult(status=code, message=message, success=code == 0, x=x, fun=fun, **figures)


def _solved(lp: LinearProgram, options: dict[str, Any], tolerance: float) -> LPAnswer | IntegerAnswer:
    """Solve a checked program with HiGHS' options; Ctrl-C ends the solve."""
    clock = Clock(options.pop("time_limit", None), parent=current())
    presolve = options.pop("presolve", None)
    if presolve is not None:
        options["presolve"] = {True: "on", False: "off"}.get(presolve, presolve)
    with ctrl_c_cancels(clock), running(clock):
        if not lp.integral.any() and lp.semi is None:
            return HighsLP(lp, options=options).solve(tolerance, clock)
        return solve_integer(lp, options.pop("mip_rel_gap", _GAP), clock, options=options)


def from_arrays(
    c: ArrayLike,
    A_ub: Any = None,
    b_ub: ArrayLike | None = None,
    A_eq: Any = None,
    b_eq: ArrayLike | None = None,
    bounds: Any = (0, None),
    integrality: ArrayLike | None = None,
) -> Model:
    """Make a :class:`Model`, which can be changed and solved again, from arguments of scipy's ``linprog``.

    Parameters
    ----------
    c, A_ub, b_ub, A_eq, b_eq, bounds
        As for :func:`linprog`.
    integrality : array_like, optional
        0 continuous, 1 integral, 2 semi-continuous, 3 semi-integer; one number for all columns, or one for
        each.

    Returns
    -------
    Model
        The rows of A_ub come first.

    Raises
    ------
    EditError
        Under the conditions of :func:`linprog`, or if the bounds of a column contradict each other.

    Examples
    --------
    >>> import copter
    >>> model = copter.from_arrays([-3.0, -2.0], A_ub=[[1.0, 1.0], [2.0, 1.0]], b_ub=[8.0, 13.0])
    >>> found = model.solve()
    >>> found.x.round(5).tolist(), found.objective
    ([5.0, 3.0], -21.0)
    >>> _ = model.update(b_ub={0: 9.0})
    >>> model.solve().objective
    -22.0
    """
    cost = costs(c)
    kinds = kinds_of_columns(integrality, cost.size)
    lp, n_upper = _program(cost, (A_ub, b_ub, A_eq, b_eq), box(bounds, cost.size), kinds)
    return Model(lp, n_inequalities=n_upper)


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
) -> tuple[LinearProgram, int]:
    """Return the LP of (A_ub, b_ub, A_eq, b_eq), and its number of inequality rows."""
    from scipy.sparse import csc_array, vstack

    A_ub, b_ub = rows("A_ub", constraints[0], "b_ub", constraints[1], cost.size)
    A_eq, b_eq = rows("A_eq", constraints[2], "b_eq", constraints[3], cost.size)
    low, high = np.concatenate((np.full(b_ub.size, -np.inf), b_eq)), np.concatenate((b_ub, b_eq))
    matrix = csc_array(vstack([A_ub, A_eq]))
    whole, semi = columns_of_kinds(kinds)
    return LinearProgram(cost, matrix, low, high, *bounds, 0.0, whole, semi=semi), b_ub.size


def _result(
    lp: LinearProgram, answer: LPAnswer, n_upper: int, point: NDArray[np.float64] | None = None
) -> OptimizeResult:
    """Return scipy's result for an answer, or for a point without prices; the first rows are inequalities."""
    from scipy.optimize import OptimizeResult

    proof = None if answer.status in (Status.INFEASIBLE, Status.UNBOUNDED) else answer.certificate
    x = point if proof is None else proof.x
    code, message = scipy_status(answer.status, answer.reason)
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
    if proof is not None:
        y, reduced = proof.y, proof.reduced_costs
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
        certificate=proof,
        ray=answer.ray,
    )
