"""Conversion of the arguments of scipy's `linprog` and `milp` to arrays, and scipy's status codes.

Invalid arguments raise the errors that scipy raises: :class:`copter.errors.ArgumentTypeError` is both a
TypeError and an EditError, and an EditError is a ValueError.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import ArgumentTypeError, EditError
from copter.status import Status

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint
    from scipy.sparse import csc_array

STATUS = {
    Status.OPTIMAL: (0, "Optimization terminated successfully.", "7: Optimal"),
    Status.ITERATION_LIMIT: (1, "Iteration limit reached.", "14: Iteration limit reached"),
    Status.DEADLINE: (1, "Time limit reached.", "13: Time limit reached"),
    Status.CANCELLED: (1, "Cancelled.", "17: Interrupted by user"),
    Status.INFEASIBLE: (2, "The problem is infeasible.", "8: Infeasible"),
    Status.UNBOUNDED: (3, "The problem is unbounded.", "10: Unbounded"),
    Status.UNPROVED: (4, "No optimum was proved.", "15: Unknown"),
    Status.NUMERICAL_ERROR: (4, "Numerical difficulties encountered.", "4: Solve error"),
}
_INTEGER, _SEMI_INTEGER = 1, 3
_CONSTRAINTS = (
    "`constraints` (or each element within `constraints`) must be convertible into an instance of "
    "`scipy.optimize.LinearConstraint`"
)


def scipy_status(status: Status, reason: str) -> tuple[int, str]:
    """Return scipy's code for a status, and a message with scipy's text, HiGHS' status number and `reason`.

    Callers of scipy parse HiGHS' status number in the message.
    """
    code, words, highs = STATUS[status]
    return code, f"{words} (HiGHS Status {highs}; {reason})"


def vector(name: str, given: ArrayLike | None) -> NDArray[np.float64]:
    """Return an argument as a vector of numbers, squeezed as in scipy; empty for None.

    Raise ArgumentTypeError if it contains anything but numbers, EditError if it has two or more dimensions.
    """
    if given is None:
        return np.zeros(0)
    found = np.atleast_1d(np.squeeze(numbers(name, given)))
    if found.ndim != 1:
        raise EditError(name, "shape", np.shape(given), "must be a vector, of one dimension")
    return found


def costs(given: ArrayLike) -> NDArray[np.float64]:
    """Return the argument c as an array of shape (n,), n > 0.

    Raise ArgumentTypeError if it is None or contains anything but numbers. Raise EditError if it is not a
    vector, is empty, or is not finite.
    """
    from scipy.sparse import issparse

    why = "`c` must be a one-dimensional array of finite numbers with at least one element"
    if issparse(given):
        raise EditError("c", "values", type(given).__name__, f"`c` must be a dense array; {why}")
    if given is None:
        raise ArgumentTypeError("c", "values", given, why)
    found = numbers("c", given).squeeze()
    if found.ndim > 1 or not found.size:
        raise EditError("c", "shape", np.shape(given), why)
    found = np.atleast_1d(found)
    if not np.isfinite(found).all():
        where = int(np.argmin(np.isfinite(found)))
        raise EditError(f"c[{where}]", "c", float(found[where]), why)
    return found


def numbers(name: str, given: Any) -> NDArray[np.float64]:
    """Return an array of numbers; raise ArgumentTypeError for text, although numpy would parse it."""
    try:
        found = np.asarray(given)
        text = found.dtype.kind in "SU" or (
            found.dtype.kind == "O" and any(isinstance(each, str | bytes) for each in found.flat)
        )
        if np.ma.is_masked(given):
            raise TypeError("an entry is masked")
        wrong = "text" if text else {"c": "complex numbers", "m": "times", "M": "times"}.get(found.dtype.kind)
        if wrong:
            raise TypeError(f"the array contains {wrong}")
        return found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(name, "values", given, f"must be numbers: {error}") from None


def rows(
    matrix_name: str, matrix: Any, right_name: str, right: ArrayLike | None, n: int
) -> tuple[csc_array, NDArray[np.float64]]:
    """Return rows of `n` columns and their right-hand side.

    Raise ArgumentTypeError if they contain anything but numbers, EditError if the shapes do not fit.
    """
    from scipy.sparse import csc_array, issparse

    b = vector(right_name, right)
    if matrix is None or (not issparse(matrix) and np.size(matrix) == 0):
        found = csc_array((0, n))
    else:
        values = matrix if issparse(matrix) else numbers(matrix_name, matrix)
        if values.ndim != 2:
            raise EditError(matrix_name, "shape", values.shape, "must have two dimensions")
        found = csc_array(values, dtype=np.float64)
    if found.shape != (b.size, n):
        wanted = f"must have {b.size} rows (as {right_name}) and {n} columns (as c)"
        raise EditError(matrix_name, "shape", found.shape, wanted)
    return found, b


def box(bounds: Any, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds of `n` columns from the argument ``bounds`` of scipy's ``linprog``.

    Raise EditError if they are not pairs of numbers, or if there is not one pair for each column.
    """
    from scipy.optimize import OptimizeWarning

    if bounds is None:
        return np.zeros(n), np.full(n, np.inf)
    try:
        pairs = np.array(bounds, object)
        missing = np.vectorize(lambda value: value is None, otypes=[bool])(pairs)
        pairs = numbers("bounds", np.where(missing, 0.0, pairs))
    except ValueError as error:  # includes ArgumentTypeError
        raise EditError("bounds", "pairs", bounds, f"must be pairs of numbers or None: {error}") from None
    if pairs.size == 0:
        return np.zeros(n), np.full(n, np.inf)
    if pairs.shape not in ((2,), (1, 2), (n, 2)):
        raise EditError("bounds", "shape", pairs.shape, f"must be one pair or {n} pairs")
    no_number = np.isnan(pairs)
    if no_number.any():
        where = int(no_number.reshape(-1, 2).any(axis=1).argmax())
        told = f"bounds of column {where}: NaN counts as no bound; use None instead"
        warnings.warn(told, OptimizeWarning, stacklevel=3)
        missing = missing | no_number
    low, high = np.broadcast_to(np.where(missing, [-np.inf, np.inf], pairs), (n, 2)).T
    return low.copy(), high.copy()


def kinds_of_columns(integrality: ArrayLike | None, n: int) -> NDArray[np.int32]:
    """Return scipy's kinds of columns, (n,): 0 continuous, 1 integer, 2 semi-continuous, 3 semi-integer.

    `integrality` is one number for all columns, or one for each; None is 0. Raise EditError if it is sparse,
    or has another shape or other numbers.
    """
    from scipy.sparse import issparse

    if issparse(integrality):
        raise EditError(
            "integrality", "values", type(integrality).__name__, "`integrality` must be a dense array"
        )
    why = f"`integrality` must contain integers 0-3 and be broadcastable to `c.shape`. It has {n} columns"
    try:
        kinds = np.broadcast_to(np.asarray(0 if integrality is None else integrality, np.float64), (n,))
    except (TypeError, ValueError):
        raise EditError("integrality", "values", integrality, why) from None
    known = np.isin(kinds, (0, 1, 2, 3))
    if not known.all():
        raise EditError("integrality", "values", float(kinds[~known][0]), why)
    return kinds.astype(np.int32)


def columns_of_kinds(kinds: NDArray[np.int32]) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Return ``integral`` and ``semi`` of a LinearProgram for scipy's kinds of columns, (n,)."""
    semi = kinds > _INTEGER
    return (kinds == _INTEGER) | (kinds == _SEMI_INTEGER), semi if semi.any() else None


def bounds_of_columns(bounds: Any, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds of `n` columns from the argument ``bounds`` of scipy's ``milp``.

    Raise EditError if they are not bounds, or have another number of columns.
    """
    from scipy.optimize import Bounds

    if bounds is None:
        bounds = Bounds(0, np.inf)
    if not isinstance(bounds, Bounds):
        try:
            bounds = Bounds(*bounds)
        except (TypeError, ValueError) as error:
            why = f"`bounds` must be convertible into an instance of `scipy.optimize.Bounds`: {error}"
            raise EditError("bounds", "values", bounds, why) from None
    try:
        lower, upper = (np.broadcast_to(side, (n,)).astype(np.float64) for side in (bounds.lb, bounds.ub))
    except (TypeError, ValueError) as error:
        why = f"`bounds.lb` and `bounds.ub` must contain reals and be broadcastable to `c.shape`: {error}"
        raise EditError("bounds", "values", bounds, why) from None
    return lower, upper


def rows_of_constraints(given: Any, n: int) -> tuple[csc_array, NDArray[np.float64], NDArray[np.float64]]:
    """Return matrix, lower and upper bounds of all rows of scipy's ``constraints``, for `n` columns.

    Raise EditError if an element is not a constraint, or has another number of columns or bounds.
    """
    from scipy.sparse import csc_array, vstack

    if given is None or (isinstance(given, Sequence) and not given):
        return csc_array((0, n)), np.zeros(0), np.zeros(0)
    try:
        parts = _constraints(given)
        matrices = [csc_array(part.A, dtype=np.float64) for part in parts]
        sides = [
            [np.broadcast_to(side, (matrix.shape[0],)).astype(np.float64) for side in (part.lb, part.ub)]
            for part, matrix in zip(parts, matrices, strict=True)
        ]
    except (TypeError, ValueError) as error:
        raise EditError("constraints", "values", given, f"{_CONSTRAINTS}: {error}") from None
    for k, matrix in enumerate(matrices):
        if matrix.shape[1] != n:
            why = f"{_CONSTRAINTS}: The shape of `A` must be (len(b_l), len(c)). It needs {n} columns"
            raise EditError(f"constraints[{k}]", "A", matrix.shape, why)
    low, high = (np.concatenate(side) for side in zip(*sides, strict=True))
    return csc_array(vstack(matrices)), low, high


def _constraints(given: Any) -> list[LinearConstraint]:
    """Return the list of constraints; as in scipy, a triple (A, lower, upper) is one constraint."""
    from scipy.optimize import LinearConstraint

    if isinstance(given, LinearConstraint):
        return [given]
    if len(given) == 3 and not any(isinstance(each, LinearConstraint) for each in given):
        try:
            return [LinearConstraint(*given)]
        except (TypeError, ValueError):
            given = list(given)
    return [one if isinstance(one, LinearConstraint) else LinearConstraint(*one) for one in given]
