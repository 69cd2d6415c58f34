"""Selection of columns of a large program by pricing passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.proof.pricing import Pricing, price
from copter.proof.pricing_kernels import KEEP_ALL
from copter.solvers.inner.gather import lightest, typical_slack, union
from copter.store.view import StoreView, cap_of, paid_for

if TYPE_CHECKING:
    from copter.solvers.proximal.tuning import ProximalTuning
    from copter.store.allocation import SparseX
    from copter.store.store import ConstraintStore

_Columns: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Slots and columns, ascending, no duplicates."""
_EQUAL = 1e-9
"""Relative difference up to which prices of columns count as equal."""


class Screening:
    """Pricing passes over a store, with a slack that adapts to collect about the wanted number of columns.

    `slack`: largest excess of a collected column's reduced cost over the least of its request; NaN before the
    first pass.
    """

    def __init__(
        self, store: ConstraintStore, threads: int | None, tuning: ProximalTuning, slack: float = np.nan
    ) -> None:
        self.store, self.threads = store, threads
        self.tuning, self._units = tuning.screening, tuning.working_set
        self.slack = slack

    def _sizes(self) -> NDArray[np.int64]:
        table = self.store.requests
        return table.n_columns[: table.size]

    def _screened(self) -> int:
        """Return the number of requests of which passes collect only some columns, at least 1."""
        return max(1, int(np.count_nonzero(self._sizes() > KEEP_ALL)))

    def price(self, y: NDArray[np.float64]) -> Pricing:
        """Run a pricing pass at prices `y`, and adapt the slack to the number of columns found."""
        store, threads, tuning = self.store, self.threads, self.tuning
        if store.n_variables <= tuning.screen_from or store.terms:
            return price(store, y, slack=np.inf, threads=threads)
        sizes = self._sizes()
        screened = self._screened()
        if np.isnan(self.slack):
            self.slack = self._typical_slack(y, tuning.wanted)
        pricing = price(store, y, slack=self.slack, threads=threads)
        share = np.count_nonzero(sizes[pricing.slot] > KEEP_ALL) / screened
        if share > tuning.far_too_many * tuning.wanted:
            slack = self._typical_slack(y, tuning.wanted)
            if slack < self.slack:
                self.slack = slack
                pricing = price(store, y, slack=slack, threads=threads)
            else:  # a few requests have many columns of equal price: reduce the slack for the next pass
                self.slack = max(tuning.narrower * self.slack, tuning.least_slack * slack)
        elif share > tuning.too_many * tuning.wanted:
            self.slack *= tuning.narrower
        elif share < tuning.too_few * tuning.wanted:
            self.slack *= tuning.wider
        return pricing

    def missing(self, violation: NDArray[np.float64], misses: int, known: _Columns) -> _Columns:
        """Return columns that reduce a violation of the rows; more of them after each of `misses` attempts.

        `violation` (row slots,): prices of the least violation that the `known` columns permit. If most
        columns of a request have the same price, nearly all are within the slack. Then the method chooses
        those that can reduce the violation most.
        """
        wanted = self.tuning.wanted * self.tuning.more_wanted**misses
        slack = np.inf
        if wanted < self._sizes().max(initial=0):
            slack = self._typical_slack(violation, wanted, cost_factor=0.0)
        found = price(self.store, violation, slack=slack, cost_factor=0.0, threads=self.threads)
        columns, most = (found.slot, found.column), wanted * self._screened()
        if found.slot.size <= self.tuning.far_too_many * most:
            return columns
        slot, place = (np.concatenate(pair) for pair in zip(known, columns, strict=True))
        view, place = self.store.executor.columns(slot, place)
        relief = _relief(view, violation, slot, place, known[0].size)
        some = np.flatnonzero(relief)
        if some.size > most:
            some = np.sort(some[np.argpartition(-relief[some], most)[:most]])
        return (found.slot[some], found.column[some]) if some.size else columns

    def most_columns(self) -> int:
        """Return the size above which a working set is thinned out."""
        sizes, tuning = self._sizes(), self.tuning
        kept = int(sizes[sizes <= KEEP_ALL].sum())
        screened = int(np.count_nonzero(sizes > KEEP_ALL))
        return kept + tuning.screen_from + tuning.widest * tuning.wanted * screened

    def _typical_slack(self, y: NDArray[np.float64], wanted: int, cost_factor: float = 1.0) -> float:
        return typical_slack(self.store, y, wanted, cost_factor=cost_factor, tuning=self._units)


class ColumnSet:
    """Columns of the steps: pricing passes add columns, and a set that is too large is thinned out."""

    def __init__(self, screening: Screening, pricing: Pricing, x: SparseX) -> None:
        self._screening = screening
        self._misses = 0
        columns = union(pricing.slot, pricing.column, x.slot, x.column)
        self.slot, self.column = union(*columns, *lightest(screening.store))

    def extend(self, pricing: Pricing, x: SparseX, violation: NDArray[np.float64] | None) -> bool:
        """Add the columns of a pricing pass and those that reduce a violation; return whether the set grew.

        The columns of `x` are always kept. `violation` (row slots,): prices of the least violation of the
        rows, if the present columns cannot satisfy them.
        """
        known, columns = self.slot.size, (self.slot, self.column)
        if known > self._screening.most_columns() and not self._misses:
            # prices have changed much: start again with the columns that matter at these prices
            columns = union(x.slot, x.column, *lightest(self._screening.store))
        columns = union(*columns, pricing.slot, pricing.column)
        if violation is not None:
            columns = union(*columns, *self._screening.missing(violation, self._misses, columns))
            self._misses += 1
        self.slot, self.column = columns
        return self.slot.size > known


@kernel(allocates=True)
def _relief(view: StoreView, y, slot, place, known):  # type: ignore[no-untyped-def]
    """Return by how much each column, after the first `known` ones, can reduce its request's cost at y.

    Both parts are ascending by request and place. Of the known columns, a request takes the cheapest ones, up
    to their bounds and its total; another column reduces the cost if it is cheaper than the dearest of these.
    """
    level = np.empty(view.n_columns.size)  # price at which a request has its total; infinite if it has less
    for q in range(level.size):
        level[q] = np.inf if view.exact[q] else 0.0
    begin = 0
    while begin < known:
        q, end = slot[begin], begin
        while end < known and slot[end] == q:
            end += 1
        if view.total[q] < np.inf:
            p, left = np.empty(end - begin), view.total[q]
            for k in range(begin, end):
                p[k - begin] = paid_for(view, view.usage[q], place[k], y)
            for k in np.argsort(p):
                left -= cap_of(view, q, place[begin + k])
                if left <= 0.0:
                    level[q] = min(level[q], p[k])
                    break
        begin = end
    relief, here = np.zeros(slot.size - known), 0
    for k in range(known, slot.size):
        q = slot[k]
        while here < known and (slot[here] < q or (slot[here] == q and place[here] < place[k])):
            here += 1
        if here < known and slot[here] == q and place[here] == place[k]:
            continue
        p, most = paid_for(view, view.usage[q], place[k], y), min(cap_of(view, q, place[k]), view.total[q])
        if level[q] == np.inf:
            relief[k - known] = np.inf
        elif p < level[q] - _EQUAL * (abs(p) + abs(level[q])):
            relief[k - known] = (level[q] - p) * most
    return relief
