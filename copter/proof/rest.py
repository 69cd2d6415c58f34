"""What the requests that are not looked at add to a certificate: sums that are kept exactly.

Their allocations are known to be the best at the prices of the certificate (:mod:`copter.proof.margins`), so
they lose nothing and violate nothing, and what they have in objective, bound and rows is a few sums.  Or the
prices are those of the last certificate: then they lose what they lost there, which is one more sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.exact_sums import ExactSums, add_product
from copter.kernels import kernel
from copter.proof.pricing_kernels import forced_price
from copter.store.store import EXACTLY, NO_TOTAL, ConstraintStore
from copter.store.view import StoreView, cap_of, coefficients_of, cost_of, entries_of, fill_caps, fill_costs
from copter.sums import added

_EPS = 2.0**-52
_FIGURES = 5


class Rest(NamedTuple):
    """Sums over requests of which is known what their allocation x loses at the prices in question.

    Attributes
    ----------
    objective : c'x
    decided : what of it is not forced (:mod:`copter.proof.measure`)
    spent : the same summed without signs
    forced : what is forced on requests that have a choice
    lost : p'x - min p'x, p their prices
    activity, weight : (row slots,) A x and |A| |x|
    step : (row slots,) no more than the least of |a_ij| min(upper_j, total_q) over columns that are used
    local, squares : no less than the largest violation of a box or a sum row, relative, and the sum of their
        squares, absolute
    roundings : of each term of what is lost, at most; 0 where nothing is
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
        """The least of p'x at prices y, (row slots,), and what rounding may have added to it."""
        bound, size = _bound(self.objective, self.activity, y)
        off = 4.0 * _EPS * (size + abs(self.lost))
        if self.roundings:  # what each loses was summed up in plain floating point
            off += self.roundings * _EPS * (abs(self.objective) + self.forced + self.shares(y))
        return bound - self.lost, off

    def shares(self, y: NDArray[np.float64]) -> float:
        """At least what the requests pay for their sum rows, without what is forced, without signs."""
        return self.spent + float(self.weight @ abs(y))


class RestSums:
    """The sums of a :class:`Rest`, to which requests are added and from which they are taken off.

    Parameters
    ----------
    rows : int
        Row slots.

    Attributes
    ----------
    step : (row slots,) ndarray
        Of a :class:`Rest`; it never grows, for what is taken off need not have been the least.
    local, squares : float
        Of a :class:`Rest`; they never fall, for what is taken off need not have been the largest.
    as_they_are : bool
        Whether requests need not have their best allocations.
    """

    def __init__(self, rows: int) -> None:
        self._figures, self._rows = ExactSums(_FIGURES), ExactSums(2 * rows)
        self.step = np.full(rows, np.inf)
        self.local = self.squares = 0.0
        self.as_they_are = False
        self._longest = np.zeros(1, np.int64)
        self._activity, self._weight = np.zeros(rows), np.zeros(rows)
        self._changed = np.zeros(rows, np.bool_)
        self._known: Rest | None = None

    def fit(self, rows: int) -> None:
        """Make room for so many row slots."""
        if rows > self.step.size:
            if 2 * rows > self._rows.limbs.shape[0]:
                self._rows.grow(2 * rows)
            more = rows - self.step.size
            self.step = np.concatenate((self.step, np.full(more, np.inf)))
            self._activity, self._weight, self._changed = (
                np.concatenate((each, np.zeros(more, each.dtype)))
                for each in (self._activity, self._weight, self._changed)
            )
            self._known = None

    def add(
        self,
        view: StoreView,
        slots: NDArray[np.int64],
        count: NDArray[np.int64],
        column: NDArray[np.int64],
        value: NDArray[np.float64],
        lost: NDArray[np.float64],
        sign: float = 1.0,
    ) -> None:
        """Add requests with their allocations, as they are in the view now; a sign of -1 takes them off.

        Parameters
        ----------
        slots, count : (k,) ndarrays
            Numbers of the nonzeros of each.
        column, value : (sum(count),) ndarrays
        lost : (k,) ndarray
        """
        if not slots.size:
            return
        for sums in (self._figures, self._rows):
            sums.expect(6 * column.size + 2 * slots.size)
        limbs = self._figures.limbs, self._rows.limbs
        _add(view, slots, count, column, value, lost, sign, *limbs, self.step, self._changed, self._longest)
        self._known = None

    def rest(self) -> Rest:
        """What they come to."""
        if self._known is None:
            objective, decided, spent, forced, lost = self._figures.values(np.arange(_FIGURES)).tolist()
            rows = np.flatnonzero(self._changed)
            self._activity[rows] = self._rows.values(2 * rows)
            self._weight[rows] = self._rows.values(2 * rows + 1)
            self._changed[rows] = False
            each = self._activity.copy(), self._weight.copy(), self.step.copy()
            roundings = 8 + int(self._longest[0]) if self.as_they_are else 0
            more = self.local, self.squares, roundings
            self._known = Rest(objective, decided, spent, forced, lost, *each, *more)
        return self._known

    def note_violations(self, local: float, squares: float) -> None:
        """Take note that boxes and sum rows of all requests are violated by so much, or by less.

        Parameters
        ----------
        local, squares : float
            As of a :class:`Rest`; of several notes the largest counts.
        """
        self.local, self.squares = max(self.local, local), max(self.squares, squares)
        self._known = None

    def same(self, other: RestSums) -> bool:
        """Whether two sums are the same, to the last bit."""
        return self._figures == other._figures and self._rows == other._rows


def price_size(store: ConstraintStore, y: NDArray[np.float64]) -> float:
    """No less than what a price is summed up from, without signs, at prices y, (row slots,)."""
    costs, coefficients = store.costs, store.coefficients
    scale, own = store.requests.scale[: store.requests.size], costs.cost[: costs.used]
    dearest = float(abs(own).max(initial=0.0)) * float(abs(scale).max(initial=0.0))
    return dearest + float(abs(coefficients.value[: coefficients.used]).max()) * float(abs(y).sum())


@kernel
def _bound(objective, activity, y):  # type: ignore[no-untyped-def]
    """c'x + y'Ax, and its terms without signs."""
    high, low, size = objective, 0.0, abs(objective)
    for i in range(y.size):
        high, low = added(high, low, activity[i] * y[i])
        size += abs(activity[i] * y[i])
    return high + low, size


@kernel(allocates=True)
def _add(view, slots, count, column, value, lost, sign, figures, rows, step, changed, most_entries):  # type: ignore[no-untyped-def]
    """See :meth:`RestSums.add`."""
    longest, at = np.int64(0), 0
    for k in range(slots.size):
        longest = max(longest, view.n_columns[slots[k]])
    costs, upper = np.empty(longest), np.empty(longest)
    for k in range(slots.size):
        q = slots[k]
        n, usage, total, forced = view.n_columns[q], view.usage[q], view.total[q], 0.0
        summed = view.relation[q] != NO_TOTAL
        if view.relation[q] == EXACTLY:
            fill_costs(view, q, 1.0, costs)
            if total == 0.0 or (view.upper_start[q] < 0 and view.upper[q] >= total):
                least, most = np.inf, -np.inf
                for j in range(n):
                    least, most = min(least, costs[j]), max(most, costs[j])
                forced = max(0.0, least, -most)
            else:
                fill_caps(view, q, upper)
                forced = forced_price(costs, 1.0, upper, n, total)
        if summed and n > 1:
            add_product(figures, 3, sign * forced, total)
        if lost[k] != 0.0:
            add_product(figures, 4, sign, lost[k])
        shift, stride = coefficients_of(view, usage)
        for held in range(at, at + count[k]):
            j, x = column[held], value[held]
            c, cap = cost_of(view, q, j), cap_of(view, q, j)
            most = min(cap, total) if summed else cap
            add_product(figures, 0, sign * c, x)
            add_product(figures, 1, sign * (c - forced if c > 0.0 else c + forced), x)
            add_product(figures, 2, sign * (abs(c) - forced), x)
            begin, end = entries_of(view, usage, j, j + 1)
            most_entries[0] = max(most_entries[0], end - begin)
            for e in range(begin, end):
                r, used = np.int64(view.row[e]), view.coefficient[shift + stride * e]
                add_product(rows, 2 * r, sign * used, x)
                add_product(rows, 2 * r + 1, sign * abs(used), x)
                changed[r] = True
                if used != 0.0:
                    step[r] = min(step[r], abs(used) * most)
        at += count[k]
