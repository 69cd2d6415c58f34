"""GeneralLP: a linear program as arrays, and the check of its numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.program.validation import as_bounds

if TYPE_CHECKING:
    from scipy.sparse import csc_array

_WHOLE = 1e-9
"""A bound within this distance of a whole number counts as that number."""


@dataclass(frozen=True)
class GeneralLP:
    """Linear program as arrays.

    Minimise ``c'x + offset`` subject to ``row_lower <= A x <= row_upper`` and ``lower <= x <= upper``.

    Attributes
    ----------
    c : (n,) ndarray
        Costs.
    A : (m, n) sparse array
    row_lower, row_upper : (m,) ndarrays
    lower, upper : (n,) ndarrays
    offset : float
        Constant of the objective.
    integral : (n,) bool ndarray
        True for integral columns.
    maximize : bool
        True if `c` and `offset` are those of the negated objective of a maximisation.
    column_names, row_names : tuple of str
        One name for each column or row, or empty.
    semi : (n,) bool ndarray, optional
        True for semi-continuous and semi-integer columns, which are 0 or within their bounds. None without
        such columns.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> lp = program.to_arrays()
    >>> lp.column_names, lp.row_names
    (('job[0]', 'job[1]'), ('gpu', 'total[job]'))
    >>> lp.A.toarray(), lp.row_upper
    (array([[1., 2.],
           [1., 1.]]), array([8., 1.]))
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
    column_names: tuple[str, ...] = ()
    row_names: tuple[str, ...] = ()
    semi: NDArray[np.bool_] | None = None

    def own_sense(self, cost: float) -> float:
        """Return the objective in the sense of the source for a value of c'x + offset."""
        return -cost if self.maximize else cost

    def box_at(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the bounds of the columns, (n,) each, with semi-continuous columns that are 0 at x fixed."""
        if self.semi is None:
            return self.lower, self.upper
        off = self.semi & (x == 0.0)
        return np.where(off, 0.0, self.lower), np.where(off, 0.0, self.upper)


def checked(lp: GeneralLP) -> GeneralLP:
    """Return a checked LP.

    Bounds with absolute values from 1e20 on become infinite. Bounds of integral columns are rounded inwards.
    Matrix entries that are given twice are summed. Semi-continuous columns without a choice become ordinary.
    Raise EditError, with the row or column, for a NaN, an infinite cost or coefficient, crossed bounds, a
    lower bound of infinity or upper bound of minus infinity, or an integral column without a whole number
    between its bounds.
    """
    from scipy.sparse import csc_array

    if not np.isfinite(lp.c).all():
        where = int(np.argmin(np.isfinite(lp.c)))
        raise EditError(f"c[{where}]", "c", float(lp.c[where]), "must be finite")
    A = csc_array(lp.A, copy=True)
    A.sum_duplicates()
    if not np.isfinite(A.data).all():
        where = int(np.argmin(np.isfinite(A.data)))
        column = int(np.searchsorted(A.indptr, where, side="right")) - 1
        subject = f"A: row {A.indices[where]}, column {column}"
        raise EditError(subject, "A", float(A.data[where]), "must be finite")
    lp = _decided(lp)
    row_lower, row_upper, lower, upper = map(as_bounds, (lp.row_lower, lp.row_upper, lp.lower, lp.upper))
    for name, low, high in (("column", lower, upper), ("row", row_lower, row_upper)):
        why = "must not be NaN, with lower <= upper, lower below infinity and upper above minus infinity"
        _check_bounds(name, low, high, why)
    lower, upper = np.where(lp.integral, (np.ceil(lower - _WHOLE), np.floor(upper + _WHOLE)), (lower, upper))
    _check_bounds("column", lower, upper, "must have a whole number between them; there is no whole number")
    return replace(lp, A=A, row_lower=row_lower, row_upper=row_upper, lower=lower, upper=upper)


def crossed_column(lp: GeneralLP) -> int | None:
    """Return the first column without a value within its bounds; None if all columns have one."""
    lp = _decided(lp)
    lower, upper = np.ceil(lp.lower - _WHOLE), np.floor(lp.upper + _WHOLE)
    bad = np.where(lp.integral, lower > upper, lp.lower > lp.upper)
    bad |= (lp.lower == np.inf) | (lp.upper == -np.inf)
    return int(bad.argmax()) if bad.any() else None


def _decided(lp: GeneralLP) -> GeneralLP:
    """Return the LP in which only columns with a choice between 0 and their bounds are semi-continuous.

    A column whose bounds contain 0 is ordinary. A column without a value within its bounds is 0.
    """
    if lp.semi is None:
        return lp
    lower, upper = as_bounds(lp.lower), as_bounds(lp.upper)
    low = np.where(lp.integral, np.ceil(lower - _WHOLE), lower)
    high = np.where(lp.integral, np.floor(upper + _WHOLE), upper)
    empty = lp.semi & ((low > high) | (low == np.inf) | (high == -np.inf))
    semi = lp.semi & ~empty & ~((low <= 0.0) & (high >= 0.0))
    return replace(
        lp,
        lower=np.where(empty, 0.0, lower),
        upper=np.where(empty, 0.0, upper),
        semi=semi if semi.any() else None,
    )


def _check_bounds(name: str, low: NDArray[np.float64], high: NDArray[np.float64], why: str) -> None:
    bad = ~(low <= high) | (low == np.inf) | (high == -np.inf)
    if bad.any():
        where = int(bad.argmax())
        raise EditError(f"{name} {where}", "bounds", (float(low[where]), float(high[where])), why)
