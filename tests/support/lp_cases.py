"""Random general LPs with every kind of row and bound, and scipy's arguments for one."""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import csc_array

from copter import ContinualProgram
from copter.models.linear_program import LinearProgram

INF = np.inf
BOUNDS = {
    "usual": lambda v, r: (0.0, INF),
    "free": lambda v, r: (-INF, INF),
    "fixed": lambda v, r: (v, v),
    "upper only": lambda v, r: (-INF, v + r),
    "lower only": lambda v, r: (v - r, INF),
    "box": lambda v, r: (v - r, v + 1.0),
    "negative": lambda v, r: (-abs(v) - 3.0, -abs(v) - 1.0 + r),
}


def random_general(seed: int) -> LinearProgram:
    """Feasible and bounded, with every kind of row and bound: rows around a point, costs around prices."""
    rng = np.random.default_rng([seed, 77])
    m, n = int(rng.integers(1, 8)), int(rng.integers(1, 14))
    x = rng.normal(size=n) * 2
    lower, upper = np.empty(n), np.empty(n)
    for j in range(n):
        lower[j], upper[j] = BOUNDS[str(rng.choice(list(BOUNDS)))](float(x[j]), float(rng.integers(0, 2)))
    x = np.clip(x, lower, upper)
    # on a grid, so that c = reduced - A'y holds exactly: else free columns make it unbounded
    A = np.round(rng.normal(size=(m, n)) * 1024) / 1024 * (rng.random((m, n)) < 0.6)
    activity, y = A @ x, np.zeros(m)
    row_lower, row_upper = np.full(m, -INF), np.full(m, INF)
    for i in range(m):
        kind = rng.choice(["<=", ">=", "==", "range", "free"])
        if kind in ("<=", "==", "range"):
            row_upper[i] = activity[i] + (rng.integers(0, 2) if kind != "==" else 0)
        if kind in (">=", "==", "range"):
            row_lower[i] = activity[i] - (rng.integers(0, 2) if kind != "==" else 0)
        y[i] = {"<=": 1, ">=": -1, "free": 0}.get(str(kind), rng.choice([-1, 1])) * abs(rng.normal())
    y = np.round(y * 1024) / 1024
    reduced = np.round(rng.normal(size=n) * 1024) / 1024
    reduced = np.where(np.isinf(upper), abs(reduced), reduced)
    reduced = np.where(np.isinf(lower), -abs(reduced), reduced)
    reduced[np.isinf(lower) & np.isinf(upper)] = 0.0
    c = reduced - A.T @ y
    return LinearProgram(c, csc_array(A), row_lower, row_upper, lower, upper, 2.5, np.zeros(n, bool))


def scipy_form(lp: LinearProgram) -> dict:
    """Arguments of linprog: equations, and two inequalities for a row of two sides."""
    A = lp.A.toarray()
    equal = lp.row_lower == lp.row_upper
    below, above = np.isfinite(lp.row_upper) & ~equal, np.isfinite(lp.row_lower) & ~equal
    return {
        "c": lp.c,
        "A_ub": np.vstack((A[below], -A[above])),
        "b_ub": np.concatenate((lp.row_upper[below], -lp.row_lower[above])),
        "A_eq": A[equal],
        "b_eq": lp.row_upper[equal],
        "bounds": np.column_stack((lp.lower, lp.upper)),
    }


def by_scipy(program: ContinualProgram) -> OptimizeResult:
    """What scipy finds, on the arrays of a program."""
    return linprog(**scipy_form(program.to_arrays()))
