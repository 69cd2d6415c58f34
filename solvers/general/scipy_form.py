"""Scipy's `linprog` and `milp`: their arguments, results, status codes and signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.models.general_lp import GeneralLP, checked, crossed_column
from copter.solution import Status
from copter.solvers.general.hybrid import AUTO, Answer, solve_lp

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csc_array

    from copter.solvers.base import Solver

STATUS = {
    Status.OPTIMAL: (0, "Optimization terminated successfully."),
    Status.ITERATION_LIMIT: (1, "Iteration limit reached."),
    Status.DEADLINE: (1, "Time limit reached."),
    Status.CANCELLED: (1, "Cancelled."),
    Status.INFEASIBLE: (2, "The problem is infeasible."),
    Status.UNBOUNDED: (3, "The problem is unbounded."),
    Status.NUMERICAL_ERROR: (4, "Numerical difficulties encountered."),
}


def linprog(
    c: ArrayLike,
    A_ub: Any = None,
    b_ub: ArrayLike | None = None,
    A_eq: Any = None,
    b_eq: ArrayLike | None = None,
    bounds: Any = (0, None),
    *,
    solver: str | Solver = AUTO,
    tolerance: float = 1e-6,
    deadline: float | None = None,
    presolve: bool = True,
    polish: bool = False,
) -> OptimizeResult:
    """Minimise c'x subject to A_ub x <= b_ub, A_eq x == b_eq and bounds, as scipy's ``linprog`` does.

    scipy's ``method``, ``callback``, ``options``, ``x0`` and ``integrality`` are not taken: settings are
    arguments of their own, and whole numbers are for :func:`copter.solvers.general.integer.milp`.

    Parameters
    ----------
    c, A_ub, b_ub, A_eq, b_eq
        As in :func:`scipy.optimize.linprog`; matrices may be sparse.
    bounds : pair or sequence of pairs, optional
        (lower, upper) of all columns or of each; None in a pair is no bound, and neither is a number of 1e20
        or more.  None, or an empty sequence, is scipy's default too: every column at least 0.
    solver, tolerance, deadline, presolve, polish
        As in :func:`copter.solvers.general.hybrid.solve_lp`: all parts together, or one solver alone.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x, fun, status, success, message, slack, con, nit, crossover_nit`` and the ``residual`` and
        ``marginals`` of ``ineqlin, eqlin, lower, upper`` with scipy's meaning and sign; None where there is
        no x.  ``lower.marginals`` are the reduced costs that are positive, ``upper.marginals`` the negative
        ones.  Besides: ``finished_by``, ``seconds``, ``proof``, ``ray``, ``vertex`` (whether x is known to be
        one) and ``solution``, of :class:`copter.solvers.general.hybrid.Answer`.

    Raises
    ------
    EditError
        A ValueError: a shape that does not fit, a NaN (also as a bound, where scipy reads "none"), an
        infinite cost or coefficient, a bound that no number reaches, a tolerance or deadline that makes no
        sense.
    """
    from scipy.sparse import csc_array, vstack

    cost = vector("c", c)
    n = cost.size
    if not n:
        raise EditError("c", "shape", cost.shape, "needs at least one column")
    upper_rows, b_up = _rows("A_ub", A_ub, "b_ub", b_ub, n)
    equal_rows, b_same = _rows("A_eq", A_eq, "b_eq", b_eq, n)
    lower, upper = _box(bounds, n)
    lp = GeneralLP(
        cost,
        csc_array(vstack([upper_rows, equal_rows])),
        np.concatenate((np.full(b_up.size, -np.inf), b_same)),
        np.concatenate((b_up, b_same)),
        lower,
        upper,
        0.0,
        np.zeros(n, np.bool_),
    )
    empty = crossed_column(lp)
    if empty is not None:  # as scipy has it, infeasible and no error
        why = f"the bounds of column {empty} leave no value"
        return _result(lp, Answer(Status.INFEASIBLE, why, finished_by="bounds"), b_up.size)
    lp = checked(lp)  # from here on without bounds that are none
    answer = solve_lp(
        lp, solver=solver, tolerance=tolerance, deadline=deadline, presolve=presolve, polish=polish
    )
    return _result(lp, answer, b_up.size)


def _result(lp: GeneralLP, answer: Answer, n_upper: int) -> OptimizeResult:
    """scipy's result for an answer; the first ``n_upper`` rows are inequalities."""
    from scipy.optimize import OptimizeResult

    x, y = answer.x, answer.y
    parts: dict[str, tuple[Any, Any]]
    code, words = STATUS[answer.status]
    if x is None or y is None:
        fun, parts = None, dict.fromkeys(("ineqlin", "eqlin", "lower", "upper"), (None, None))
    else:
        fun, reduced, left = float(lp.c @ x), lp.c + lp.A.T @ y, lp.row_upper - lp.A @ x
        parts = {
            "ineqlin": (left[:n_upper], -y[:n_upper]),
            "eqlin": (left[n_upper:], -y[n_upper:]),
            "lower": (x - lp.lower, np.where(np.isfinite(lp.lower), np.maximum(reduced, 0.0), 0.0)),
            "upper": (lp.upper - x, np.where(np.isfinite(lp.upper), np.minimum(reduced, 0.0), 0.0)),
        }
    groups = {
        name: OptimizeResult(residual=residual, marginals=marginals)
        for name, (residual, marginals) in parts.items()
    }
    return OptimizeResult(
        x=x,
        slack=parts["ineqlin"][0],
        con=parts["eqlin"][0],
        **groups,
        fun=fun,
        status=code,
        success=code == 0,
        message=f"{words} ({answer.finished_by}: {answer.reason})",
        nit=answer.iterations,
        crossover_nit=0,
        finished_by=answer.finished_by,
        seconds=dict(answer.seconds),
        proof=answer.proof,
        ray=answer.ray,
        vertex=answer.basis is not None,
        solution=answer.solution,
    )


def vector(name: str, given: ArrayLike | None) -> NDArray[np.float64]:
    """A vector of numbers, as scipy squeezes it out of what it is given; empty for None."""
    if given is None:
        return np.zeros(0)
    try:
        vector = np.atleast_1d(np.squeeze(np.asarray(given, np.float64)))
    except (TypeError, ValueError) as error:
        raise EditError(name, "values", given, f"must be numbers: {error}") from None
    if vector.ndim != 1:
        raise EditError(name, "shape", np.shape(given), "must have one dimension")
    return vector


def _rows(
    matrix_name: str, matrix: Any, right_name: str, right: ArrayLike | None, n: int
) -> tuple[csc_array, NDArray[np.float64]]:
    """Rows of ``n`` columns and their right-hand side."""
    from scipy.sparse import csc_array, issparse

    b = vector(right_name, right)
    if matrix is None or (not issparse(matrix) and np.size(matrix) == 0):
        rows = csc_array((0, n))
    else:
        if len(np.shape(matrix)) != 2:
            raise EditError(matrix_name, "shape", np.shape(matrix), "must have two dimensions")
        try:
            rows = csc_array(matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise EditError(matrix_name, "values", matrix, f"must be numbers: {error}") from None
    if rows.shape != (b.size, n):
        wanted = f"needs {b.size} rows (as b) and {n} columns (as c)"
        raise EditError(matrix_name, "shape", rows.shape, wanted)
    return rows, b


def _box(bounds: Any, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds of ``n`` columns from what scipy's ``linprog`` takes for them."""
    if bounds is None:
        return np.zeros(n), np.full(n, np.inf)
    try:
        pairs = np.array(bounds, object)
        missing = np.vectorize(lambda value: value is None, otypes=[bool])(pairs)
        pairs = np.where(missing, 0.0, pairs).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise EditError("bounds", "pairs", bounds, f"must be pairs of numbers or None: {error}") from None
    if pairs.size == 0:
        return np.zeros(n), np.full(n, np.inf)
    if pairs.shape not in ((2,), (1, 2), (n, 2)):
        raise EditError("bounds", "shape", pairs.shape, f"needs one pair or {n}")
    if np.isnan(pairs).any():
        where = int(np.isnan(pairs.reshape(-1, 2)).any(axis=1).argmax())
        pair = tuple(pairs.reshape(-1, 2)[where].tolist())
        raise EditError(f"column {where}", "bounds", pair, "must not be NaN; None is for no bound")
    box = np.where(missing, [-np.inf, np.inf], pairs)
    low, high = np.broadcast_to(box, (n, 2)).T
    return low.copy(), high.copy()
