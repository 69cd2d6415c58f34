"""Scipy's `linprog`: its arguments, results, status codes, warnings and signs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.models.general_lp import GeneralLP, checked, crossed_column
from copter.solution import Status
from copter.solvers.base import Stopwatch
from copter.solvers.general.hybrid import AUTO, Answer, solve_lp
from copter.solvers.general.integer import branch_and_bound
from copter.solvers.general.proof import reduced_costs
from copter.solvers.general.scipy_arguments import box, costs, kinds_of_columns, rows, scipy_status, vector
from copter.solvers.general.scipy_options import LINPROG, highs_options

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csc_array

    from copter.solvers.base import Solver

METHODS = {"highs": "", "highs-ds": "simplex", "highs-ipm": "ipm"}
"""scipy's methods, and HiGHS' own word for the one that it is to solve by alone."""
_DEPRECATED = ("simplex", "revised simplex", "interior-point")


def linprog(
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
    c, A_ub, b_ub, A_eq, b_eq
        As in :func:`scipy.optimize.linprog`; matrices may be sparse.
    bounds : pair or sequence of pairs, optional
        (lower, upper) of all columns or of each; None in a pair is no bound, and neither is a number of 1e20
        or more, nor, with a warning, a NaN.  None, or an empty sequence, is scipy's default too: every column
        at least 0.
    method : str
        "highs" is all parts together; "highs-ds" and "highs-ipm" are HiGHS alone, by dual simplex or by
        interior point with crossover.  What scipy deprecates ("simplex", "revised simplex",
        "interior-point") is solved as "highs" is, with scipy's warning.
    callback : None
        There is none, as for scipy's HiGHS.
    options : mapping, optional
        scipy's for HiGHS: ``disp, presolve, maxiter`` (of HiGHS' part), ``time_limit`` (of everything),
        ``mip_rel_gap, mip_max_nodes``, tolerances.  What HiGHS does not know or take is a warning.
    x0 : array_like, optional
        Not used, with scipy's warning.
    integrality : array_like, optional
        Kinds of columns, as for :func:`copter.milp`, for the method "highs".
    solver, tolerance, deadline, presolve, polish
        As in :func:`copter.solvers.general.hybrid.solve_lp`: all parts together, or one solver alone.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x, fun, status, success, message, slack, con, nit, crossover_nit`` and the ``residual`` and
        ``marginals`` of ``ineqlin, eqlin, lower, upper`` with scipy's meaning and sign; None where there is
        no x.  ``lower.marginals`` are the reduced costs that are positive, ``upper.marginals`` the negative
        ones; with integrality there are none.  ``mip_node_count, mip_dual_bound, mip_gap``: 0, fun and 0 where
        there was nothing to search.  Besides: ``finished_by``, ``seconds``, ``proof``, ``ray``, ``vertex`` (whether x is known to be one) and
        ``solution``, of :class:`copter.solvers.general.hybrid.Answer`.

    Raises
    ------
    EditError
        A ValueError: an unknown method, a shape that does not fit, a NaN, an infinite cost or coefficient, a
        tolerance or deadline that makes no sense.
    ArgumentTypeError
        A TypeError too: what is no number, text for example.
    NotImplementedError
        A callback.
    """
    from scipy.optimize import OptimizeResult, OptimizeWarning

    cost = costs(c)
    kinds = _kinds(method, x0, integrality, cost.size)
    if callback is not None:
        raise NotImplementedError("linprog: there is no callback; those of copter's solvers are of rounds")
    upper_rows, equal_rows = (
        rows("A_ub", A_ub, "b_ub", b_ub, cost.size),
        rows("A_eq", A_eq, "b_eq", b_eq, cost.size),
    )
    lp = _program(cost, upper_rows, equal_rows, box(bounds, cost.size), kinds)
    settings = highs_options(options, LINPROG, OptimizeWarning)
    limits = [limit for limit in (deadline, settings.pop("time_limit", None)) if limit is not None]
    limit = min(limits, default=None)
    n_upper = upper_rows[1].size
    empty = crossed_column(lp)
    if empty is not None:  # as scipy has it, infeasible and no error
        why = f"the bounds of column {empty} leave no value"
        nowhere = Answer(Status.INFEASIBLE, why, finished_by="bounds", seconds={"check": 0.0})
        return _result(lp, nowhere, n_upper)
    lp = checked(lp)  # from here on without bounds that are none
    if kinds.any():
        watch = Stopwatch()
        found = branch_and_bound(lp, kinds, settings if limit is None else settings | {"time_limit": limit})
        seconds = {"highs": watch()}
        answer = Answer(found.status, found.reason, x=found.x, finished_by="highs", seconds=seconds)
        return OptimizeResult(_result(lp, answer, n_upper) | found.figures())
    presolve = settings.pop("presolve", presolve)
    alone = METHODS.get(method, "")
    answer = solve_lp(
        lp,
        solver=solver,
        tolerance=tolerance,
        deadline=limit,
        presolve=presolve,
        polish=polish,
        highs_options=settings | ({"solver": alone} if alone else {}),
    )
    return _result(lp, answer, n_upper)


def _kinds(method: str, x0: ArrayLike | None, integrality: ArrayLike | None, n: int) -> NDArray[np.int32]:
    """Kinds of the columns, all continuous where the method has no others; warns as scipy does."""
    from scipy.optimize import OptimizeWarning

    if method not in (*METHODS, *_DEPRECATED):
        raise EditError("linprog", "method", method, f"is none of {', '.join((*METHODS, *_DEPRECATED))}")
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
    upper: tuple[csc_array, NDArray[np.float64]],
    equal: tuple[csc_array, NDArray[np.float64]],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    kinds: NDArray[np.int32],
) -> GeneralLP:
    """The program of some inequalities and equations, in this order."""
    from scipy.sparse import csc_array, vstack

    (A_ub, b_ub), (A_eq, b_eq) = upper, equal
    return GeneralLP(
        cost,
        csc_array(vstack([A_ub, A_eq])),
        np.concatenate((np.full(b_ub.size, -np.inf), b_eq)),
        np.concatenate((b_ub, b_eq)),
        *bounds,
        0.0,
        kinds == 1,
    )


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
        reduced, _ = reduced_costs(lp, y)
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
