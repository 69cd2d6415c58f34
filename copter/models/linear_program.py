"""LinearProgram: a linear program as arrays, and the check of its numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.arrays import INFINITE, as_bounds
from copter.errors import EditError

if TYPE_CHECKING:
    from scipy.sparse import csc_array

_ARRAYS = ("c", "row_lower", "row_upper", "lower", "upper", "integral")
LARGEST_ENTRY = 1e15
"""Absolute value from which on HiGHS rejects an entry of the matrix."""
_ORDERED = "must not be NaN, with lower <= upper, lower below infinity and upper above minus infinity"
_WHOLE = 1e-9
"""A bound within this distance of a whole number counts as that number."""


@dataclass(frozen=True)
class LinearProgram:
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
        """Return a cost c'x + offset in the sense of the source: negated if that is a maximisation."""
        return -cost if self.maximize else cost

    def box_at(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the bounds of the columns, (n,) each, with semi-continuous columns that are 0 at x fixed."""
        if self.semi is None:
            return self.lower, self.upper
        off = self.semi & (x == 0.0)
        return np.where(off, 0.0, self.lower), np.where(off, 0.0, self.upper)

    def fixed_at(self, x: NDArray[np.float64]) -> tuple[LinearProgram, NDArray[np.float64]]:
        """Return the LP that remains if the integral columns are fixed at x, and x with 0 in its columns.

        The LP has only the continuous columns. Semi-continuous columns that are 0 at x remain 0.
        """
        from scipy.sparse import csc_array

        loose = ~self.integral
        fixed = np.where(loose, 0.0, x)
        own, (lower, upper) = self.A @ fixed, self.box_at(x)
        rest = replace(
            self,
            c=self.c[loose],
            A=csc_array(self.A[:, np.flatnonzero(loose)]),
            row_lower=self.row_lower - own,
            row_upper=self.row_upper - own,
            lower=lower[loose],
            upper=upper[loose],
            offset=0.0,
            integral=self.integral[loose],
            column_names=(),
            semi=None,
        )
        return rest, fixed


def checked(lp: LinearProgram, old: LinearProgram | None = None) -> LinearProgram:
    """Return a checked copy of an LP; arrays that `old`, another checked LP, has too are kept as they are.

    Bounds with absolute values from 1e20 on become infinite. Bounds of integral columns are rounded inwards.
    Matrix entries that are given twice are summed. Semi-continuous columns without a choice become ordinary.
    Raise EditError, with the row or column, for a NaN, an infinite cost or coefficient, crossed bounds, a
    lower bound of infinity or upper bound of minus infinity, or an integral column without a whole number
    between its bounds.
    """
    if lp is old:
        return lp
    same = {name: _kept(lp, old, name) for name in _ARRAYS}
    lp = replace(lp, **same)
    if (old is None or lp.c is not old.c) and not np.isfinite(lp.c).all():
        where = int(np.argmin(np.isfinite(lp.c)))
        raise EditError(f"c[{where}]", "c", float(lp.c[where]), "must be finite")
    A = old.A if old is not None and _same_matrix(lp.A, old.A) else _checked_matrix(lp.A)
    lp = _decided(lp)
    sides = lp.row_lower, lp.row_upper
    if old is None or sides[0] is not old.row_lower or sides[1] is not old.row_upper:
        sides = as_bounds(lp.row_lower), as_bounds(lp.row_upper)
        _check_bounds("row", *sides, _ORDERED)
    box = lp.lower, lp.upper
    if old is None or box[0] is not old.lower or box[1] is not old.upper or lp.integral is not old.integral:
        box = as_bounds(lp.lower), as_bounds(lp.upper)
        _check_bounds("column", *box, _ORDERED)
        if lp.integral.any():
            low, high = np.ceil(box[0] - _WHOLE), np.floor(box[1] + _WHOLE)
            box = np.where(lp.integral, low, box[0]), np.where(lp.integral, high, box[1])
            _check_bounds("column", *box, "must have a whole number between them; there is no whole number")
    return replace(lp, A=A, row_lower=sides[0], row_upper=sides[1], lower=box[0], upper=box[1])


def _kept(lp: LinearProgram, old: LinearProgram | None, name: str) -> Any:
    """Return the array of `old` if it has the same numbers, else a copy, which the caller cannot change."""
    given = getattr(lp, name)
    known = None if old is None else getattr(old, name)
    return known if known is not None and np.array_equal(given, known) else np.array(given)


def _same_matrix(new: csc_array, old: csc_array) -> bool:
    return new is old or (
        getattr(new, "format", "") == "csc"
        and new.shape == old.shape
        and np.array_equal(new.indptr, old.indptr)
        and np.array_equal(new.indices, old.indices)
        and np.array_equal(new.data, old.data)
    )


def _checked_matrix(given: csc_array) -> csc_array:
    from scipy.sparse import csc_array

    A = csc_array(given, copy=True, dtype=np.float64)
    if not A.has_canonical_format:
        summed = A.copy()
        summed.sum_duplicates()
        A = summed if summed.nnz < A.nnz else A  # the path of HiGHS depends on the given order
    if not np.isfinite(A.data).all():
        where = int(np.argmin(np.isfinite(A.data)))
        column = int(np.searchsorted(A.indptr, where, side="right")) - 1
        subject = f"A: row {A.indices[where]}, column {column}"
        raise EditError(subject, "A", float(A.data[where]), "must be finite")
    return A


def supported(lp: LinearProgram, old: LinearProgram | None = None) -> LinearProgram:
    """Return the LP; raise EditError, with the place, for a number that HiGHS does not support.

    Arrays that `old`, another supported LP, has too are not checked.
    """
    size = abs(lp.A.data) if old is None or lp.A is not old.A else np.empty(0)
    if size.max(initial=0.0) >= LARGEST_ENTRY:
        where = int(size.argmax())
        column = int(np.searchsorted(lp.A.indptr, where, side="right")) - 1
        places = (("row", lp.row_names, int(lp.A.indices[where])), ("column", lp.column_names, column))
        subject = ", ".join(f"{kind} {names[k] if names else k}" for kind, names, k in places)
        value, why = float(lp.A.data[where]), f"must be below {LARGEST_ENTRY:g} in absolute value for HiGHS"
        raise EditError(subject, "A", value, why)
    if (old is None or lp.c is not old.c) and abs(lp.c).max(initial=0.0) >= INFINITE:
        where = int(abs(lp.c).argmax())
        subject = f"column {lp.column_names[where] if lp.column_names else where}"
        raise EditError(subject, "c", float(lp.c[where]), f"must be below {INFINITE:g} in absolute value")
    return lp


def crossed_column(lp: LinearProgram) -> int | None:
    """Return the first column without a value within its bounds; None if all columns have one."""
    lp = _decided(lp)
    lower, upper = np.ceil(lp.lower - _WHOLE), np.floor(lp.upper + _WHOLE)
    bad = np.where(lp.integral, lower > upper, lp.lower > lp.upper)
    bad |= (lp.lower == np.inf) | (lp.upper == -np.inf)
    return int(bad.argmax()) if bad.any() else None


def _decided(lp: LinearProgram) -> LinearProgram:
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
