"""Steps from a linear program to an easier one that lead back, as cvxpy's reductions do.

A reduction is a function ``lp -> (other, inverse)``: it is applied to a program, and ``inverse.invert`` takes
a point of the other program, with its prices, to one of the first.  :class:`copter.models.model.Model`
composes those that stand here,

``fold_rows``
    Rows of one column become bounds, as a presolve has it.  Models write bounds as rows: ``x >= 0`` among the
    constraints of a cvxpy problem is a row for each entry, and as rows they would hide that what is left are
    sums of columns from 0 on.
``shift_columns``
    Every column lies between 0 and a width, as those of requests do: shifted so that its lower bound is 0,
    or mirrored so that its upper one is, if the lower one is far away.  A free one becomes the difference of
    two, and so does one with bounds far away on both sides of 0: a shift by 1e9 would leave a row no more
    than seven digits.

and :mod:`copter.solvers.general.hybrid` goes through that of HiGHS' presolve.
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
"""A bound at least so far below 0 is not shifted to 0; if the other is as far above, the column is split."""


class ReducedPoint(NamedTuple):
    """Values of the columns (n,), prices of the rows (m,), and the basis if they are a vertex.

    A price is positive where an upper bound is paid for.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    basis: highspy.HighsBasis | None = None


class _Inverse(Protocol):
    """The way back of a reduction."""

    def invert(self, point: ReducedPoint) -> ReducedPoint:
        """The point of the program that was reduced, for one of what it was reduced to."""


@dataclass(frozen=True)
class Folded:
    """The way back to rows that became bounds.

    `source`, `rest`: the program with and without these rows, with the same columns. `kept` (k,): rows of the
    source in the rest. `lower_row`, `upper_row` (n,): row of each column's bound, -1 for its own.
    """

    source: GeneralLP
    rest: GeneralLP
    kept: NDArray[np.int64]
    lower_row: NDArray[np.int64]
    upper_row: NDArray[np.int64]

    def invert(self, point: ReducedPoint) -> ReducedPoint:
        """A reduced cost that a row's bound pays for is that row's price."""
        y = np.zeros(self.source.row_lower.size)
        y[self.kept] = point.y
        reduced = self.rest.c + self.rest.A.T @ point.y
        row = np.where(reduced > 0, self.lower_row, np.where(reduced < 0, self.upper_row, -1))
        column = np.flatnonzero(row >= 0)
        by_row = self.source.A.tocsr()
        y[row[column]] = -reduced[column] / by_row.data[by_row.indptr[row[column]]]
        return ReducedPoint(point.x, y)

    def direction(self, ray: NDArray[np.float64]) -> NDArray[np.float64]:
        """A direction of the source's columns."""
        return ray

    def like(self, other: Folded | Shifted) -> bool:
        """Whether another program was reduced in the same way, whatever its numbers."""
        return isinstance(other, Folded) and np.array_equal(self.kept, other.kept)


def fold_rows(lp: GeneralLP) -> tuple[GeneralLP, Folded]:
    """Return an LP with its rows of one nonzero made bounds of their columns.

    Contradicting bounds stay as they are: a lower one may be above an upper one.
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
    """Largest lower bound of each column, its own and those of rows, and the row it comes from."""
    least, source = own.copy(), np.full(own.size, -1)
    tighter = np.flatnonzero(bound > own[column])
    tighter = tighter[np.argsort(bound[tighter], kind="stable")]
    least[column[tighter]] = bound[tighter]  # of several for one column the last counts, the largest
    source[column[tighter]] = rows[tighter]
    return least, source


@dataclass(frozen=True)
class Shifted:
    """The way back to columns that were shifted, mirrored or split: x = shift, plus sign times the new ones.

    `origin`, `sign` (k,): column of the LP of each new one, and +1 or -1. `shift` (n,): x where the new ones
    are 0.
    """

    origin: NDArray[np.int64]
    sign: NDArray[np.float64]
    shift: NDArray[np.float64]

    def invert(self, point: ReducedPoint) -> ReducedPoint:
        """Rows, and so their prices, are those of the source."""
        return ReducedPoint(self.shift + self.direction(point.x), point.y)

    def direction(self, ray: NDArray[np.float64]) -> NDArray[np.float64]:
        """A direction of the source's columns."""
        return np.bincount(self.origin, self.sign * ray, self.shift.size).astype(np.float64, copy=False)

    def like(self, other: Folded | Shifted) -> bool:
        """Whether another program was reduced in the same way, whatever its numbers."""
        return isinstance(other, Shifted) and (
            np.array_equal(self.origin, other.origin) and np.array_equal(self.sign, other.sign)
        )


def shift_columns(lp: GeneralLP) -> tuple[GeneralLP, Shifted]:
    """Return a :func:`~copter.models.general_lp.checked` LP with columns from 0 on.

    The second halves of split columns come after all others; the offset includes the shifts' part of the
    objective.
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
