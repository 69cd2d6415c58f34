"""Checks of a mixed-integer program: exact feasibility of a point, and the range of the coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.proof.whole import Terms, broken_row

if TYPE_CHECKING:
    from copter.models.linear_program import LinearProgram

WILD, DOUBTFUL = 1e7, 1e3
"""Ratios of two numbers of a row, or of two costs.  Above the first, HiGHS' results are not trusted; above
the second, they are checked in small programs: with 1e5 next to 1, HiGHS' presolve sometimes loses an
optimum.
"""
_BITS = 24
"""Largest number of fractional bits of costs that is tried."""
_EXACT = 2.0**53


def keeps(lp: LinearProgram, x: NDArray[np.float64]) -> bool:
    """Return whether a point, (n,), satisfies bounds, integrality and rows exactly."""
    whole, counts, (lower, upper) = lp.integral, np.diff(lp.A.indptr), lp.box_at(x)
    terms = Terms(lp.A.indices, lp.A.data, np.repeat(x, counts), np.repeat(whole, counts))
    return bool(
        (x >= lower).all()
        and (x <= upper).all()
        and (x[whole] == np.rint(x[whole])).all()
        and broken_row(terms, lp.row_lower, lp.row_upper) < 0
    )


def wild(lp: LinearProgram, ratio: float, *, costs: bool = True) -> bool:
    """Return whether coefficients of a row, costs, or integral bounds differ by more than `ratio`.

    `costs`: True to include the costs.
    """
    m, size = lp.row_lower.size, abs(lp.A.data)
    rows, column = lp.A.indices, np.repeat(np.arange(lp.c.size), np.diff(lp.A.indptr))
    reach = size * np.maximum(abs(lp.lower), abs(lp.upper))[column]
    least, most = np.full(m, np.inf), np.zeros(m)
    np.minimum.at(least, rows, np.where(size > 0.0, size, np.inf))
    np.maximum.at(most, rows, size)
    attained = np.bincount(rows, np.where(size > 0.0, reach, 0.0), m)
    for bound in (lp.row_lower, lp.row_upper):  # a bound that the row cannot reach does not matter
        most = np.maximum(most, np.where(np.isfinite(bound), np.minimum(abs(bound), attained), 0.0))
    if (most[least < np.inf] > ratio * least[least < np.inf]).any():
        return True
    paid = abs(lp.c[lp.c != 0.0])
    if costs and paid.size and paid.max() > ratio * paid.min():
        return True
    ends = np.concatenate((lp.lower[lp.integral], lp.upper[lp.integral]))
    return bool((abs(ends[np.isfinite(ends)]) > ratio).any())


def grain_of(costs: NDArray[np.float64]) -> float:
    """Return the largest number found of which all costs are multiples; 0 without one."""
    for k in range(0, _BITS, 4):
        scaled = costs * 2.0**k
        if abs(scaled).max(initial=0.0) > _EXACT:
            return 0.0
        if (scaled == np.rint(scaled)).all():
            return float(np.gcd.reduce(scaled.astype(np.int64))) / 2.0**k if scaled.size else 0.0
    return 0.0
