"""Contribution of inactive requests to a certificate, as a few exact sums.

The allocations of inactive requests are optimal at the prices of the certificate
(:mod:`copter.proof.margins`). So these requests have no loss and no violation, and their contribution to
objective, bound and rows is a few sums. Fixed requests may have losses. Their losses at the prices of an
earlier certificate are known, and are one more sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.proof.pricing_kernels import forced_price
from copter.store.view import StoreView, cap_of, coefficients_of, cost_of, entries_of, fill_caps, fill_costs
from copter.sums.compensated import added
from copter.sums.exact import ExactSums, add_product

_EPS = 2.0**-52
_FIGURES = 5


class InactiveSums(NamedTuple):
    """Sums over requests whose allocation x has a known loss at the prices of a certificate.

    Attributes
    ----------
    objective : float
        c'x.
    decided : float
        Part of the objective that is not forced (:mod:`copter.proof.measure`).
    spent : float
        Sum of the absolute terms of `decided`.
    forced : float
        Absolute constant cost of requests with a choice.
    lost : float
        p'x - min p'x at their prices p.
    activity, weight : ndarrays, shape (row slots,)
        A x and |A| |x|.
    step : ndarray, shape (row slots,)
        Lower bound on |a_ij| min(upper_j, total_q) over used columns.
    local, squares : float
        Upper bounds on the largest relative violation of a box or a sum row, and on the sum of the squares of
        absolute violations.
    roundings : int
        Largest number of roundings of a term of `lost`; 0 if the sums are exact.
    """

    objective: float
    decided: float
    spent: float
    forced: float
    lost: float
    activity: NDArray[np.float64]
    weight: NDArray[np.float64]
    step: NDArray[np.float64]
    local: float
    squares: float
    roundings: int

    def bound(self, y: NDArray[np.float64]) -> tuple[float, float]:
        """Return the least p'x at prices y (row slots,), and a bound on its rounding error."""
        bound, size = _bound(self.objective, self.activity, y)
        off = 4.0 * _EPS * (size + abs(self.lost))
        if self.roundings:  # losses were summed in plain floating point
            off += self.roundings * _EPS * (abs(self.objective) + self.forced + self.shares(y))
        return bound - self.lost, off

    def shares(self, y: NDArray[np.float64]) -> float:
        """Return an upper bound on the absolute payments for sum rows, without the forced part."""
        return self.spent + float(self.weight @ abs(y))


class Contributions(NamedTuple):
    """Contributions of k single requests to the sums of an :class:`InactiveSums`.

    The data are copied from the program, so that the sums do not depend on later edits. Request k has
    ``start[k + 1] - start[k]`` nonzero columns, and column e of these ``entry_start[e + 1] - entry_start[e]``
    coefficients. `total`, `forced`, `lost` and `width` (k,) are the total of the sum row, the forced price of
    a unit of it, the loss, and the number of columns of each request.
    """

    total: NDArray[np.float64]
    forced: NDArray[np.float64]
    lost: NDArray[np.float64]
    width: NDArray[np.int32]
    start: NDArray[np.int64]
    value: NDArray[np.float64]
    cost: NDArray[np.float64]
    entry_start: NDArray[np.int64]
    row: NDArray[np.int32]
    coefficient: NDArray[np.float64]


def collect(
    view: StoreView,
    slots: NDArray[np.int64],
    start: NDArray[np.int64],
    column: NDArray[np.int64],
    value: NDArray[np.float64],
    lost: NDArray[np.float64],
    step: NDArray[np.float64],
) -> Contributions:
    """Copy the contributions of some requests (k,) with given allocations and losses `lost` from a store.

    `start` (k + 1,) has the position of each request's first nonzero in `column` and `value`. `step` (row
    slots,), of an :class:`InactiveSums`, is updated.
    """
    total, width = view.total[slots], view.n_columns[slots].astype(np.int32)
    collected = _collect(view, slots, start, column, step)
    return Contributions(total, collected[0], lost, width, start, value, *collected[1:])


class RestSums:
    """Exact sums, with `rows` row slots, to which contributions of requests can be added and subtracted."""

    def __init__(self, rows: int) -> None:
        self._figures, self._rows = ExactSums(_FIGURES), ExactSums(2 * rows)
        self._activity, self._weight = np.zeros(rows), np.zeros(rows)
        self._changed = np.zeros(rows, np.bool_)
        self._known: tuple[float, float, float, float, float] | None = None

    def fit(self, rows: int) -> None:
        """Extend the sums to `rows` row slots."""
        more = rows - self._activity.size
        if more <= 0:
            return
        if 2 * rows > self._rows.limbs.shape[0]:
            self._rows.grow(2 * rows)
        self._activity, self._weight, self._changed = (
            np.concatenate((each, np.zeros(more, each.dtype)))
            for each in (self._activity, self._weight, self._changed)
        )

    def add(self, parts: Contributions, which: NDArray[np.int64], sign: float = 1.0) -> None:
        """Add the contributions of the requests at the positions `which`; a sign of -1 subtracts them."""
        if not which.size:
            return
        most = int((parts.start[which + 1] - parts.start[which]).sum())
        for sums in (self._figures, self._rows):
            sums.expect(6 * most + 2 * which.size)
        _add(which, *parts, sign, self._figures.limbs, self._rows.limbs, self._changed)
        self._known = None

    def rest(self, step: NDArray[np.float64], local: float, squares: float, roundings: int) -> InactiveSums:
        """Return the sums, with the given fields of :class:`InactiveSums`."""
        if self._known is None:
            self._known = tuple(self._figures.values(np.arange(_FIGURES)).tolist())
            rows = np.flatnonzero(self._changed)
            self._activity[rows] = self._rows.values(2 * rows)
            self._weight[rows] = self._rows.values(2 * rows + 1)
            self._changed[rows] = False
        rows_too = self._activity.copy(), self._weight.copy(), step.copy()
        return InactiveSums(*self._known, *rows_too, local, squares, roundings)


@kernel
def _bound(objective, activity, y):  # type: ignore[no-untyped-def]
    """Return c'x + y'Ax, and the sum of its absolute terms."""
    high, low, size = objective, 0.0, abs(objective)
    for i in range(y.size):
        high, low = added(high, low, activity[i] * y[i])
        size += abs(activity[i] * y[i])
    return high + low, size


@kernel(allocates=True)
def _collect(view, slots, start, column, step):  # type: ignore[no-untyped-def]
    """Return forced prices, costs, and the entries of used columns, for :func:`collect`."""
    longest, entries = np.int64(0), np.int64(0)
    for k in range(slots.size):
        longest = max(longest, view.n_columns[slots[k]])
        for held in range(start[k], start[k + 1]):
            begin, end = entries_of(view, view.usage[slots[k]], column[held], column[held] + 1)
            entries += np.int64(end - begin)
    costs, upper = np.empty(longest), np.empty(longest)
    forced, cost = np.zeros(slots.size), np.empty(column.size)
    entry_start, row, coefficient = (
        np.zeros(column.size + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries),
    )
    at = np.int64(0)
    for k in range(slots.size):
        q = slots[k]
        n, usage, total = view.n_columns[q], view.usage[q], view.total[q]
        if view.exact[q]:
            fill_costs(view, q, 1.0, costs)
            if total == 0.0 or (view.upper_start[q] < 0 and view.upper[q] >= total):
                least, most = np.inf, -np.inf
                for j in range(n):
                    least, most = min(least, costs[j]), max(most, costs[j])
                forced[k] = max(0.0, least, -most)
            else:
                fill_caps(view, q, upper)
                forced[k] = forced_price(costs, 1.0, upper, n, total)
        shift, stride = coefficients_of(view, usage)
        for held in range(start[k], start[k + 1]):
            j = column[held]
            cost[held] = cost_of(view, q, j)
            most = min(cap_of(view, q, j), total)
            begin, end = entries_of(view, usage, j, j + 1)
            for e in range(begin, end):
                r, a = np.uint32(view.row[e]), view.coefficient[shift + stride * e]
                row[at], coefficient[at] = view.row[e], a
                at += 1
                if a != 0.0:
                    step[r] = min(step[r], abs(a) * most)
            entry_start[held + 1] = at
    return forced, cost, entry_start, row, coefficient


@kernel
def _add(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - numba takes longer for a record of arrays
    which,
    total,
    forced,
    lost,
    width,
    start,
    value,
    cost,
    entry_start,
    row,
    coefficient,
    sign,
    figures,
    rows,
    changed,
):
    """Add `sign` times the contributions of the requests `which` to exact sums, for :meth:`RestSums.add`."""
    for place in range(which.size):
        k = which[place]
        price = forced[k]
        if price != 0.0 and width[k] > 1:
            add_product(figures, 3, sign * price, total[k])
        if lost[k] != 0.0:
            add_product(figures, 4, sign, lost[k])
        for held in range(start[k], start[k + 1]):
            x, c = value[held], cost[held]
            add_product(figures, 0, sign * c, x)
            add_product(figures, 1, sign * (c - price if c > 0.0 else c + price), x)
            add_product(figures, 2, sign * (abs(c) - price), x)
            for e in range(entry_start[held], entry_start[held + 1]):
                r, a = np.int64(row[e]), coefficient[e]
                add_product(rows, 2 * r, sign * a, x)
                add_product(rows, 2 * r + 1, sign * abs(a), x)
                changed[r] = True
