"""What each request would choose at given prices, and how little would have it choose otherwise.

At prices y a request of one sum row takes the cheapest of its columns, p_b = min p_j with p = c + A'y, or
nothing, at 0, where it may and nothing is cheaper.  The next best choice costs its margin more.  Relative to
what the best is made up of, |c_b| + |a_b|'|y|, margins say who responds first when prices move: requests with
the least are decided together by the prices, all others are spectators until prices have come far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.parallel import chunk_bounds, run_chunks
from copter.store.allocation import SparseX
from copter.store.store import AT_MOST, NO_TOTAL
from copter.store.view import cap_of, coefficients_of, cost_of, entries_of

if TYPE_CHECKING:
    from copter.proof.pricing import Pricing
    from copter.store.store import ConstraintStore


class Choices(NamedTuple):
    """Choices of the requests at the prices of a pass.

    Attributes
    ----------
    column : (request slots,) ndarray
        The best for each; -1 for nothing, -2 where there is no one choice: without a sum row, or with a
        column that cannot take all.
    margin : (request slots,) ndarray
        Relative margins; 0 where there is no one choice, infinite where there is no other.
    """

    column: NDArray[np.int64]
    margin: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        store: ConstraintStore,
        y: NDArray[np.float64],
        pricing: Pricing,
        seen: NDArray[np.bool_],
        threads: int | None,
    ) -> Choices:
        """The choices among the candidates of a pass.

        Parameters
        ----------
        y : (row slots,) ndarray
        pricing : Pricing
            The pass at these prices.
        seen : (row slots,) ndarray of bool
            Rows that may matter: who uses none of them has no other choice that matters.
        """
        size = store.requests.size
        view, place = store.excerpt(pricing.slot, pricing.column)
        first = np.concatenate(([0], np.cumsum(np.bincount(pricing.slot, minlength=size))))
        best, margin = np.full(size, -2), np.full(size, np.inf)
        bounds = chunk_bounds(np.diff(first))
        run_chunks(
            lambda k: _choose(
                view, y, first, place, pricing.column, seen, bounds[k], bounds[k + 1], best, margin
            ),
            bounds.size - 1,
            threads,
        )
        return cls(best, margin)

    def of_requests(self, store: ConstraintStore, slots: NDArray[np.int64]) -> SparseX:
        """The allocation in which some requests have what they would choose.

        Parameters
        ----------
        slots : (k,) ndarray
            Ascending.
        """
        some = slots[self.column[slots] >= 0]
        return SparseX(some, self.column[some], store.requests.total[some])

    def nearest(self, count: int) -> NDArray[np.bool_]:
        """Which requests have the ``count`` least margins, those that are no larger, and all that are 0.

        Returns
        -------
        (request slots,) ndarray of bool
        """
        if count >= self.margin.size:
            return np.isfinite(self.margin)
        limit = np.partition(self.margin, count - 1)[count - 1] if count else 0.0
        return np.isfinite(self.margin) & (self.margin <= limit)


@kernel
def _choose(view, y, first, place, column, seen, begin, end, best, margin):  # type: ignore[no-untyped-def]
    for q in range(begin, end):
        if view.total[q] <= 0.0 or first[q] == first[q + 1]:
            continue
        matters = False
        usage, single = view.usage[q], view.relation[q] != NO_TOTAL
        shift, stride = coefficients_of(view, usage)
        low, second, size, at = np.inf, np.inf, 0.0, -1
        if view.relation[q] == AT_MOST:
            low = 0.0
        for k in range(first[q], first[q + 1]):
            j = place[k]
            cost = cost_of(view, q, j)
            paid, owed = 0.0, abs(cost)
            enter, leave = entries_of(view, usage, j, j + 1)
            for e in range(enter, leave):
                part = y[np.uint32(view.row[e])] * view.coefficient[shift + stride * e]
                paid += part
                matters = matters or seen[np.uint32(view.row[e])]
                owed += abs(part)
            p = cost + paid
            size = max(size, owed)
            single = single and cap_of(view, q, j) >= view.total[q]
            if p < low:
                low, second, at = p, low, column[k]
            else:
                second = min(second, p)
        if single:
            best[q] = at
            if matters and second < np.inf and size > 0.0:
                margin[q] = (second - low) / size
        else:
            margin[q] = 0.0
