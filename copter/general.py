"""General linear programs as programs of copter: `linprog`, and MPS files.

    minimise  c'x   subject to   row_lower <= A x <= row_upper,   lower <= x <= upper

Every column becomes a request of its own, shifted or mirrored so that its lower bound is 0; a free column
becomes the difference of two.  Rows become resources.  :func:`linprog` has the arguments, the status codes
and the sign conventions of ``scipy.optimize.linprog``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.mps import load
from copter.program import ContinualProgram
from copter.solution import Solution, Status

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csc_array

    from copter.solvers.base import Solver

SCIPY_STATUS = {
    Status.OPTIMAL: 0,
    Status.ITERATION_LIMIT: 1,
    Status.DEADLINE: 1,
    Status.INFEASIBLE: 2,
    Status.UNBOUNDED: 3,
    Status.NUMERICAL_ERROR: 4,
}
_WHOLE = 1e-9
"""A bound this near to a whole number counts as that number."""


@dataclass(frozen=True)
class GeneralLP:
    """A linear program in the usual form.

    Attributes
    ----------
    c : (n,) ndarray
    A : (m, n) sparse array
    row_lower, row_upper : (m,) ndarrays
    lower, upper : (n,) ndarrays
    offset : float
        Constant of the objective.
    integral : (n,) bool ndarray
    maximize : bool
        Whether c and offset are those of the negated objective of a maximisation.
    """

    c: NDArray[np.float64]
    A: csc_array
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    offset: float
    integral: NDArray[np.bool_]
    maximize: bool = False


@dataclass(frozen=True)
class GeneralProgram:
    """A general LP inside a ContinualProgram, and the way back.

    Attributes
    ----------
    program : ContinualProgram
        Requests ``0 .. k-1`` of one column each, the integral ones last; resources ``0 .. m-1``.
    source : GeneralLP
    origin : (k,) ndarray
        Column of the LP that a request stands for.
    sign : (k,) ndarray
        +1, or -1 where the column was mirrored.
    shift : (n,) ndarray
        Value of each column of the LP at which its requests are 0.
    constant : float
        What the shifts add to the objective.
    """

    program: ContinualProgram
    source: GeneralLP
    origin: NDArray[np.int64]
    sign: NDArray[np.float64]
    shift: NDArray[np.float64]
    constant: float

    def objective(self, solution: Solution) -> float:
        """Objective of the LP, in its own sense."""
        return self.own_sense(solution.objective)

    def bound(self, solution: Solution) -> float:
        """Certified bound on the LP's optimum: from below, or from above if it is a maximisation."""
        return self.own_sense(solution.bound)

    def own_sense(self, cost: float) -> float:
        """Objective of the LP for a cost of the program."""
        return -(cost + self.constant) if self.source.maximize else cost + self.constant

    def point(self, solution: Solution) -> NDArray[np.float64]:
        """Values of the LP's columns, (n,); NaN if the solution has no allocation."""
        if not solution.found:
            return np.full(self.shift.size, np.nan)
        position = np.full(self.program.store.requests.size, -1)
        position[self.program.request_slots] = np.arange(self.origin.size)
        which = position[solution.nonzeros.slot]
        x = self.shift.copy()
        np.add.at(x, self.origin[which], self.sign[which] * solution.nonzeros.value)
        return x

    def direction(self, solution: Solution) -> NDArray[np.float64]:
        """Unbounded ray in the LP's columns, (n,)."""
        if solution.ray is None or solution.ray.kind != "unbounded":
            raise ValueError(f"a {solution.status} solution has no primal ray")
        ray = np.zeros(self.shift.size)
        values = np.array([solution.ray.x[request][0] for request in range(self.origin.size)])
        np.add.at(ray, self.origin, self.sign * values)
        return ray


def to_program(lp: GeneralLP) -> GeneralProgram:
    """The LP as a ContinualProgram.

    Bounds of integral columns are rounded inwards, so that whole numbers stay whole when a bound moves to 0.

    Raises
    ------
    EditError
        A NaN, an infinite cost or coefficient, a lower bound above an upper one, or no whole number between
        those of an integral column: names row or column.
    """
    from scipy.sparse import csc_array

    n = lp.c.size
    if not np.isfinite(lp.c).all():
        where = int(np.argmin(np.isfinite(lp.c)))
        raise EditError(f"c[{where}]", "c", float(lp.c[where]), "must be finite")
    A = csc_array(lp.A)
    if not np.isfinite(A.data).all():
        where = int(np.argmin(np.isfinite(A.data)))
        column = int(np.searchsorted(A.indptr, where, side="right")) - 1
        subject = f"A: row {A.indices[where]}, column {column}"
        raise EditError(subject, "A", float(A.data[where]), "must be finite")
    for name, low, high in (("column", lp.lower, lp.upper), ("row", lp.row_lower, lp.row_upper)):
        _check_bounds(name, low, high, "lower must be <= upper, not NaN, and either may be reached")
    lower, upper = np.where(lp.integral, (_up(lp.lower), _down(lp.upper)), (lp.lower, lp.upper))
    _check_bounds("column", lower, upper, "no whole number lies between the bounds")
    bounded_below, bounded_above = np.isfinite(lower), np.isfinite(upper)
    mirrored = ~bounded_below & bounded_above
    free = ~bounded_below & ~bounded_above
    shift = np.where(bounded_below, lower, np.where(mirrored, upper, 0.0))
    origin = np.concatenate((np.arange(n), np.flatnonzero(free)))
    sign = np.concatenate((np.where(mirrored, -1.0, 1.0), -np.ones(int(free.sum()))))
    order = np.argsort(lp.integral[origin], kind="stable")
    origin, sign = origin[order], sign[order]
    width = np.where(bounded_below & bounded_above, upper - np.where(bounded_below, lower, 0.0), np.inf)
    moved = lp.A @ shift
    program = ContinualProgram()
    row_upper, row_lower = (lp.row_upper - moved).tolist(), (lp.row_lower - moved).tolist()
    for i, (high, low) in enumerate(zip(row_upper, row_lower, strict=True)):
        program.add_resource(i, high, low)
    columns = A[:, origin]
    columns.data = columns.data * np.repeat(sign, np.diff(columns.indptr))
    continuous = int(np.count_nonzero(~lp.integral[origin]))
    for part, integral in ((slice(0, continuous), False), (slice(continuous, origin.size), True)):
        program.add_requests(
            range(origin.size)[part],
            sign[part] * lp.c[origin[part]],
            np.ones(origin[part].size),
            columns[:, part],
            upper=width[origin[part]],
            integral=integral,
        )
    return GeneralProgram(program, lp, origin, sign, shift, float(lp.c @ shift) + lp.offset)


def _check_bounds(name: str, low: NDArray[np.float64], high: NDArray[np.float64], why: str) -> None:
    bad = ~(low <= high) | (low == np.inf) | (high == -np.inf)
    if bad.any():
        where = int(bad.argmax())
        raise EditError(f"{name} {where}", "bounds", (float(low[where]), float(high[where])), why)


def _up(bound: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ceil(bound - _WHOLE)


def _down(bound: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.floor(bound + _WHOLE)


def read_mps(path: str | Path) -> GeneralLP:
    """Read an MPS (or LP) file, plain or gzipped; a maximisation becomes the minimisation of the negation.

    Raises
    ------
    CopterError
        The file is missing, cannot be read, has a NaN in it or is no linear program.
    """
    import highspy
    from scipy.sparse import csc_array, csr_array

    lp = load(Path(path))
    matrix = lp.a_matrix_
    shape = (lp.num_row_, lp.num_col_)
    parts = (np.array(matrix.value_), np.array(matrix.index_), np.array(matrix.start_))
    columnwise = matrix.format_ == highspy.MatrixFormat.kColwise
    sparse = csc_array(parts, shape=shape) if columnwise else csc_array(csr_array(parts, shape=shape))
    maximize = lp.sense_ == highspy.ObjSense.kMaximize
    sign = -1.0 if maximize else 1.0
    integral = np.array([kind != highspy.HighsVarType.kContinuous for kind in lp.integrality_], np.bool_)
    return GeneralLP(
        sign * np.array(lp.col_cost_),
        sparse,
        np.array(lp.row_lower_),
        np.array(lp.row_upper_),
        np.array(lp.col_lower_),
        np.array(lp.col_upper_),
        sign * lp.offset_,
        integral if integral.size else np.zeros(lp.num_col_, np.bool_),
        maximize,
    )


def linprog(
    c: ArrayLike,
    A_ub: Any = None,
    b_ub: ArrayLike | None = None,
    A_eq: Any = None,
    b_eq: ArrayLike | None = None,
    bounds: Any = (0, None),
    *,
    solver: Solver | None = None,
) -> OptimizeResult:
    """Minimise c'x subject to A_ub x <= b_ub, A_eq x == b_eq and bounds, as scipy's ``linprog`` does.

    scipy's ``method``, ``callback``, ``options``, ``x0`` and ``integrality`` are not taken: settings belong
    to the ``solver``, and every column is continuous.

    Parameters
    ----------
    c, A_ub, b_ub, A_eq, b_eq
        As in :func:`scipy.optimize.linprog`; matrices may be sparse.
    bounds : pair or sequence of pairs, optional
        (lower, upper) of all columns or of each; None in a pair is no bound.  None is scipy's default too:
        every column at least 0.
    solver : Solver, optional
        Default: ``make_solver("copter")``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x, fun, status, success, message, slack, con, nit`` and the ``residual`` and ``marginals`` of
        ``ineqlin, eqlin, lower, upper`` with scipy's meaning and sign, and ``solution``: copter's own
        :class:`Solution`.  ``lower.marginals`` are the reduced costs that are positive, ``upper.marginals``
        the negative ones.

    Raises
    ------
    EditError
        A shape that does not fit, a NaN (also as a bound, where scipy reads "none"), an infinite cost or
        coefficient, a lower bound above an upper one.
    """
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csc_array, vstack

    from copter.solvers.base import make_solver

    cost = np.asarray(c, np.float64)
    n = cost.size
    upper_rows = csc_array((0, n)) if A_ub is None else csc_array(A_ub)
    equal_rows = csc_array((0, n)) if A_eq is None else csc_array(A_eq)
    b_up = np.asarray([] if b_ub is None else b_ub, np.float64)
    b_same = np.asarray([] if b_eq is None else b_eq, np.float64)
    for name, matrix, right in (("A_ub", upper_rows, b_up), ("A_eq", equal_rows, b_same)):
        if matrix.shape != (right.size, n):
            wanted = f"needs {right.size} rows (as b) and {n} columns (as c)"
            raise EditError(name, "shape", matrix.shape, wanted)
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
    general = to_program(lp)
    solution = (solver or make_solver("copter")).solve(general.program)
    x = general.point(solution)
    prices = np.array([solution.price[i] for i in range(b_up.size + b_same.size)])
    reduced = cost + lp.A.T @ prices
    return OptimizeResult(
        x=x,
        fun=float(cost @ x),
        status=SCIPY_STATUS[solution.status],
        success=solution.status is Status.OPTIMAL,
        message=solution.reason,
        slack=b_up - upper_rows @ x,
        con=b_same - equal_rows @ x,
        nit=solution.iterations,
        ineqlin=OptimizeResult(residual=b_up - upper_rows @ x, marginals=-prices[: b_up.size]),
        eqlin=OptimizeResult(residual=b_same - equal_rows @ x, marginals=-prices[b_up.size :]),
        lower=OptimizeResult(residual=x - lower, marginals=np.maximum(reduced, 0.0)),
        upper=OptimizeResult(residual=upper - x, marginals=np.minimum(reduced, 0.0)),
        solution=solution,
    )


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
    if pairs.size == 0 and n == 0:
        return np.zeros(0), np.zeros(0)
    if pairs.shape not in ((2,), (1, 2), (n, 2)):
        raise EditError("bounds", "shape", pairs.shape, f"needs one pair or {n}")
    if np.isnan(pairs).any():
        where = int(np.isnan(pairs.reshape(-1, 2)).any(axis=1).argmax())
        pair = tuple(pairs.reshape(-1, 2)[where].tolist())
        raise EditError(f"column {where}", "bounds", pair, "must not be NaN; None is for no bound")
    box = np.where(missing, [-np.inf, np.inf], pairs)
    low, high = np.broadcast_to(box, (n, 2)).T
    return low.copy(), high.copy()
