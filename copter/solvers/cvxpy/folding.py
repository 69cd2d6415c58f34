"""Rows with one entry as bounds of columns: cvxpy writes bounds as rows.

HiGHS' basis has an entry for each row. A run from a basis took four times as long with these rows as with
bounds (a battery model of 4,368 columns).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from copter.models.linear_program import LinearProgram


class Folding:
    """Rows of a matrix that become bounds, and the rows that remain.

    `lp` is the given LP with all rows, `folded` the LP without those that became bounds.
    """

    def __init__(self, lp: LinearProgram, last: Folding | None = None) -> None:
        self.lp = lp
        if last is None or last.lp.A is not lp.A:
            by_row = lp.A.tocsr()
            single = np.diff(by_row.indptr) == 1
            self._row, self._kept = np.flatnonzero(single), np.flatnonzero(~single)
            at = by_row.indptr[self._row]
            self._column, self._entry = by_row.indices[at], by_row.data[at]
            self._A = by_row[self._kept].tocsc()
        else:
            self._row, self._kept, self._A = last._row, last._kept, last._A
            self._column, self._entry = last._column, last._entry
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.sort(
                (lp.row_lower[self._row] / self._entry, lp.row_upper[self._row] / self._entry), axis=0
            )
        lower, upper = lp.lower.copy(), lp.upper.copy()
        np.maximum.at(lower, self._column, ends[0])
        np.minimum.at(upper, self._column, ends[1])
        # the row that gives a column its bound; the last one of several
        self._below, self._above = np.full(lower.size, -1), np.full(upper.size, -1)
        for giver, bound, own, end in (
            (self._below, lower, lp.lower, ends[0]),
            (self._above, upper, lp.upper, ends[1]),
        ):
            some = np.flatnonzero((end == bound[self._column]) & (end != own[self._column]))
            giver[self._column[some]] = some
        sides = lp.row_lower[self._kept], lp.row_upper[self._kept]
        self.folded = replace(
            lp, A=self._A, row_lower=sides[0], row_upper=sides[1], lower=lower, upper=upper, row_names=()
        )

    def prices(self, y: NDArray[np.float64], *, costs: bool = True) -> NDArray[np.float64]:
        """Return the prices of all rows from those of the remaining rows; without costs for a ray."""
        whole = np.zeros(self.lp.row_lower.size)
        whole[self._kept] = y
        z = self._A.T @ y + (self.lp.c if costs else 0.0)
        for giver, drives in ((self._below, z > 0.0), (self._above, z < 0.0)):
            at = np.flatnonzero(drives & (giver >= 0))
            whole[self._row[giver[at]]] = -z[at] / self._entry[giver[at]]
        return whole
