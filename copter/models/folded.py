"""A general LP whose rows of one column have become bounds, as a presolve has it, and the way back.

Models write bounds as rows: ``x >= 0`` among the constraints of a cvxpy problem is a row for each entry.  As
rows they would hide that what is left are sums of columns from 0 on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from copter.models.general_lp import GeneralLP


@dataclass(frozen=True)
class Folded:
    """An LP without the rows that became bounds.

    Attributes
    ----------
    lp : GeneralLP
        The rest: the same columns.
    kept : (k,) ndarray
        Rows of the source that are rows of the rest.
    lower_row, upper_row : (n,) ndarrays
        Row that each column's bound comes from, -1 for its own.
    """

    lp: GeneralLP
    source: GeneralLP
    kept: NDArray[np.int64]
    lower_row: NDArray[np.int64]
    upper_row: NDArray[np.int64]

    def prices(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Prices of all rows of the source, (m,), from those of the rest, (k,).

        A reduced cost that a row's bound pays for is that row's price.

        Parameters
        ----------
        y : (k,) ndarray

        Returns
        -------
        (m,) ndarray
        """
        full = np.zeros(self.source.row_lower.size)
        full[self.kept] = y
        reduced = self.lp.c + self.lp.A.T @ y
        row = np.where(reduced > 0, self.lower_row, np.where(reduced < 0, self.upper_row, -1))
        column = np.flatnonzero(row >= 0)
        by_row = self.source.A.tocsr()
        coefficient = by_row.data[by_row.indptr[row[column]]]
        full[row[column]] = -reduced[column] / coefficient
        return full


def folded(lp: GeneralLP) -> Folded:
    """An LP with its rows of one nonzero made bounds of their columns.

    Parameters
    ----------
    lp : GeneralLP
        Bounds that contradict each other stay as they are: a lower one may be above an upper one.
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
    )
    return Folded(rest, lp, kept, lower_row, upper_row)


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
