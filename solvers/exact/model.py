"""A mixed-integer program as arrays, whether a point keeps it exactly, and how far apart its numbers are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from copter.proof.whole import Terms, broken_row

WILD, DOUBTFUL = 1e7, 1e3
"""Ratios of two numbers of a row, or of the costs, beyond which HiGHS' word is not taken, and beyond which it
is looked at again where that costs little: with 1e5 beside 1 its presolve loses an optimum now and then."""
_BITS = 24
"""Of fractions of costs that are looked at."""
_EXACT = 2.0**53


class Model(NamedTuple):
    """Minimise c'x, row_lower <= A x <= row_upper, lower <= x <= upper, some of x whole numbers."""

    c: NDArray[np.float64]
    A: csc_array
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    integrality: NDArray[np.bool_]

    def terms(self, x: NDArray[np.float64]) -> Terms:
        """Terms of the rows at a point."""
        counts = np.diff(self.A.indptr)
        return Terms(self.A.indices, self.A.data, np.repeat(x, counts), np.repeat(self.integrality, counts))

    def keeps(self, x: NDArray[np.float64]) -> bool:
        """Whether a point keeps bounds, whole numbers and rows."""
        whole = self.integrality
        return bool(
            (x >= self.lower).all()
            and (x <= self.upper).all()
            and (x[whole] == np.rint(x[whole])).all()
            and broken_row(self.terms(x), self.row_lower, self.row_upper) < 0
        )


def wild(model: Model, ratio: float, *, costs: bool = True) -> bool:
    """Whether numbers of a row, or costs, or ranges of whole numbers are too far apart for tolerances.

    Parameters
    ----------
    costs : bool
        Whether costs count.
    """
    m, size = model.row_lower.size, abs(model.A.data)
    rows, column = model.A.indices, np.repeat(np.arange(model.c.size), np.diff(model.A.indptr))
    reach = size * np.maximum(abs(model.lower), abs(model.upper))[column]
    least, most = np.full(m, np.inf), np.zeros(m)
    np.minimum.at(least, rows, np.where(size > 0.0, size, np.inf))
    np.maximum.at(most, rows, size)
    attained = np.bincount(rows, np.where(size > 0.0, reach, 0.0), m)
    for bound in (model.row_lower, model.row_upper):  # what a row cannot reach holds nothing
        most = np.maximum(most, np.where(np.isfinite(bound), np.minimum(abs(bound), attained), 0.0))
    if (most[least < np.inf] > ratio * least[least < np.inf]).any():
        return True
    if size.size and (size.max() > ratio or size[size > 0.0].min(initial=1.0) < 1.0 / ratio):
        return True
    paid = abs(model.c[model.c != 0.0])
    if costs and paid.size and paid.max() > ratio * paid.min():
        return True
    ends = np.concatenate((model.lower[model.integrality], model.upper[model.integrality]))
    return bool((abs(ends[np.isfinite(ends)]) > ratio).any())


def grain_of(costs: NDArray[np.float64]) -> float:
    """What all costs are whole multiples of; 0 if nothing that is worth to know.

    Parameters
    ----------
    costs : (n,) ndarray
    """
    for k in range(0, _BITS, 4):
        scaled = costs * 2.0**k
        if abs(scaled).max(initial=0.0) > _EXACT:
            return 0.0
        if (scaled == np.rint(scaled)).all():
            return float(np.gcd.reduce(scaled.astype(np.int64))) / 2.0**k if scaled.size else 0.0
    return 0.0
