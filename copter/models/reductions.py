"""Reductions: reversible steps from a linear program to an easier one, similar to reductions in cvxpy.

A reduction is a function ``lp -> (other, inverse)``. ``inverse.invert`` converts a point of the other
program, with its prices, to a point of the first. :class:`copter.models.model.Model` composes the reductions
of this module:

``fold_rows``
    Rows with one nonzero become bounds of columns, as in a presolve. Models often write bounds as rows, for
    example ``x >= 0`` in a cvxpy problem. As rows they would hide that the other rows are sums of columns.
``shift_columns``
    Every column gets the bounds 0 and a width, as columns of requests have. It is shifted so that its lower
    bound is 0, or mirrored if only its upper bound is near 0. A free column becomes the difference of two
    columns. A column with bounds far away on both sides of 0 does, too, because a shift by 1e9 would leave
    seven digits of precision in its rows.

:mod:`copter.solvers.general.hybrid` uses HiGHS' presolve in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from copter.models.general_lp import GeneralLP

if TYPE_CHECKING:
    import highspy

_FAR = 1e4
"""A lower bound this far below 0 is not shifted; if the upper is as far above, the column is split."""


class ReducedPoint(NamedTuple):
    """Values of the columns (n,), dual prices of the rows (m,), and the basis if the point is a vertex.

    A price is positive for an upper bound.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    basis: highspy.HighsBasis | None = None


class _Inverse(Protocol):
    """Inverse of a reduction."""

    def invert(self, point: ReducedPoint) -> ReducedPoint:
        """Convert a point of the reduced program to a point of the original program."""


@dataclass(frozen=True)
class Folded:
    """Inverse of :func:`fold_rows`.

    `source` and `rest` are the program with and without the rows that became bounds, with the same columns.
    `kept` (k,) has the rows of the source that are in the rest. `lower_row` and `upper_row` (n,) have the row
    that each bound of a column comes from, -1 for its own bound.
    """

    source: GeneralLP
    rest: GeneralLP
    kept: NDArray[np.int64]
    lower_row: NDArray[np.int64]
    upper_row: NDArray[np.int64]

    def invert(self, point: ReducedPoint) -> ReducedPoint:
        """Convert a point; the reduced cost of a column at a bound from a row is the price of the row."""
        y = np.zeros(self.source.row_lower.size)
        y[self.kept] = point.y
        reduced = self.rest.c + self.rest.A.T @ point.y
        row = np.where(reduced > 0, self.lower_row, np.where(reduced < 0, self.upper_row, -1))
        column = np.flatnonzero(row >= 0)
        by_row = self.source.A.tocsr()
        y[row[column]] = -reduced[column] / by_row.data[by_row.indptr[row[column]]]
        return ReducedPoint(point.x, y)

    def direction(self, ray: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a direction to a direction of the source's columns."""
        return ray

    def like(self, other: Folded | Shifted) -> bool:
        """Return whether another program was reduced by the same steps, with any numbers."""
        return isinstance(other, Folded) and np.array_equal(self.kept, other.kept)


def fold_rows(lp: GeneralLP) -> tuple[GeneralLP, Folded]:
    """Return an LP in which rows with one nonzero are bounds of their columns, and the inverse.

    Contradicting bounds are kept: a lower bound may be above an upper bound.
    """
    A = lp.A.copy()
    A.sum_duplicates()
    A.eliminate_zeros()
    lp = replace(lp, A=A)
    by_row = A.tocsr()
    single = np.diff(by_row.indptr) == 1
    rows = np.flatnonzero(single)
    column = by_row.indices[by_row.indptr[rows]]
    coefficient = by_row.data[by_row.indptr[rows]]
    ends = np.stack((lp.row_lower[rows], lp.row_upper[rows])) / coefficient
    low, high = np.where(coefficient > 0, ends, ends[::-1])
    lower, lower_row = _tightest(lp.lower, column, low, rows)
    upper, upper_row = _tightest(-lp.upper, column, -high, rows)
    kept = np.flatnonzero(~single)
    rest = replace(
        lp,
        A=by_row[kept].tocsc(),
        row_lower=lp.row_lower[kept],
        row_upper=lp.row_upper[kept],
        lower=lower,
        upper=-upper,
        row_names=(),
    )
    return rest, Folded(lp, rest, kept, lower_row, upper_row)


def _tightest(
    own: NDArray[np.float64],
    column: NDArray[np.int64],
    bound: NDArray[np.float64],
    rows: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the largest lower bound of each column, from itself or a row, and the row it comes from."""
    least, source = own.copy(), np.full(own.size, -1)
    tighter = np.flatnonzero(bound > own[column])
    tighter = tighter[np.argsort(bound[tighter], kind="stable")]
    least[column[tighter]] = bound[tighter]  # with several bounds of a column the last, the largest, counts
    source[column[tighter]] = rows[tighter]
    return least, source


@dataclass(frozen=True)
class Shifted:
    """Inverse of :func:`shift_columns`: x = shift + sum of sign times the new columns.

    `origin` and `sign` (k,) have the column of the LP of each new column, and +1 or -1. `shift` (n,) is x
    where all new columns are 0.
    """

    origin: NDArray[np.int64]
    sign: NDArray[np.float64]
    shift: NDArray[np.float64]

    def invert(self, point: ReducedPoint) -> ReducedPoint:
        """Convert a point; rows and their prices are those of the source."""
        return ReducedPoint(self.shift + self.direction(point.x), point.y)

    def direction(self, ray: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a direction to a direction of the source's columns."""
        return np.bincount(self.origin, self.sign * ray, self.shift.size).astype(np.float64, copy=False)

    def like(self, other: Folded | Shifted) -> bool:
        """Return whether another program was reduced by the same steps, with any numbers."""
        return isinstance(other, Shifted) and (
            np.array_equal(self.origin, other.origin) and np.array_equal(self.sign, other.sign)
        )


def shift_columns(lp: GeneralLP) -> tuple[GeneralLP, Shifted]:
    """Return a :func:`~copter.models.general_lp.checked` LP with columns from 0 on, and the inverse.

    The second halves of split columns follow all other columns. The offset includes the objective of the
    shifts.
    """
    n, lower, upper = lp.c.size, lp.lower, lp.upper
    split = (lower <= -_FAR) & (upper >= _FAR)
    mirrored = ~split & (lower <= -_FAR) & (abs(upper) < abs(lower))
    shift = np.where(split, 0.0, np.where(mirrored, upper, lower))
    origin = np.concatenate((np.arange(n), np.flatnonzero(split)))
    sign = np.concatenate((np.where(mirrored, -1.0, 1.0), -np.ones(int(split.sum()))))
    moved = lp.A @ shift
    A = lp.A[:, origin]
    A.data = A.data * np.repeat(sign, np.diff(A.indptr))
    shifted = replace(
        lp,
        c=sign * lp.c[origin],
        A=A,
        row_lower=lp.row_lower - moved,
        row_upper=lp.row_upper - moved,
        lower=np.zeros(origin.size),
        upper=np.concatenate((np.where(split, upper, upper - lower), -lower[split])),
        offset=float(lp.c @ shift) + lp.offset,
        integral=lp.integral[origin],
        column_names=(),
    )
    return shifted, Shifted(origin, sign, shift)
