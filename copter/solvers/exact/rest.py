"""Residual MILP: the columns that reduced-cost fixing leaves, with the losses to the bound as objective.

The objective is not c'x but the difference of the cost to the bound d at prices y
(:mod:`copter.proof.fixing`):

    c'x - d = sum_j e_j (x_j - [e_j < 0] upper_j) + sum_r |y_r| s_r + sum_q (-m_q) t_q

Here e = p - m is the excess of each column, s_r the slack of a row with a price, and t_q the slack of a
request's "<=" sum row with a dual value m_q < 0.  No large terms cancel in this sum.  The objective of an
improving point is between 0 and the budget U - d. It is scaled so that the budget is a fixed number, because
HiGHS' tolerances are absolute.  Rows are divided by a power of two near their smallest coefficient, so that
integers remain integers, or near 2^-40 of their largest one if that is more, because HiGHS rejects large
coefficients.

Among allocations of equal cost, the one nearest to the last round's allocation is preferred. For this purpose
columns outside the last round's allocation cost a little more. The sum of all these extra costs is below the
gap that may remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from copter.models.linear_program import LinearProgram
from copter.store.allocation import SparseX
from copter.store.store import ConstraintStore
from copter.store.view import costs_at, take_entries

if TYPE_CHECKING:
    from copter.proof.fixing import Survivors

_BUDGET = 1e4
"""Budget in units of the model's objective; HiGHS' feasibility tolerances are set to 1e-9."""
_WIDEST = 2.0**-40
"""Least coefficient of a row that determines its scale, as a share of the row's largest coefficient."""


@dataclass(frozen=True, eq=False)
class ResidualMilp:
    """A mixed-integer program over some of the columns that fixing left (residual MILP).

    `lp`: first these columns, then the slacks of rows and of totals. `slot`, `column` (k,): request slot and
    number of each column. `n_rows`: number of resource rows; the sum rows of requests follow. `unit`: one
    unit of the objective in the program's costs.
    """

    lp: LinearProgram
    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    n_rows: int
    unit: float = 1.0

    def allocation(self, x: NDArray[np.float64]) -> SparseX:
        """Return the allocation of the program at a point, (n,)."""
        value = x[: self.slot.size]
        return SparseX(self.slot, self.column, value).where(value > 0.0)

    def point(self, x: SparseX) -> NDArray[np.float64] | None:
        """Return the point, (n,), of an allocation; None if the allocation uses another column."""
        width = int(max(self.column.max(initial=0), x.column.max(initial=0))) + 1
        keys, wanted = self.slot * width + self.column, x.slot * width + x.column
        at = np.searchsorted(keys, wanted)
        if at.size and (at.max() >= keys.size or (keys[at] != wanted).any()):
            return None
        lp, k = self.lp, self.slot.size
        point = np.zeros(lp.c.size)
        point[at] = x.value
        activity = lp.A[:, :k] @ point[:k]
        slack = lp.A[:, k:]
        point[k:] = np.maximum(0.0, (lp.row_upper - activity)[slack.indices] / slack.data)
        return point


def _entries(
    store: ConstraintStore, slot: NDArray[np.int64], column: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return rows and coefficients of columns, column after column, and each column's number of entries."""
    view, place = store.executor.columns(slot, column)
    first, rows, value = take_entries(view, slot, place, store.rows.alive[: store.rows.size])
    return rows.astype(np.int64), value, np.diff(first)


class _Rows(NamedTuple):
    """Resource rows restricted to the residual columns.

    `row`, `value` (nnz,): position and scaled coefficient of each entry, column after column. `counts` (k,):
    number of entries of each column.
    """

    row: NDArray[np.int64]
    value: NDArray[np.float64]
    counts: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    price: NDArray[np.float64]


def _rows(
    store: ConstraintStore,
    slot: NDArray[np.int64],
    column: NDArray[np.int64],
    y: NDArray[np.float64] | None = None,
) -> _Rows:
    """Return the rows of columns, unscaled without prices.

    With prices `y`, they are scaled so that the smallest coefficient of each is about 1, and none is above
    2^41.
    """
    row, value, counts = _entries(store, slot, column)
    live = np.flatnonzero(store.rows.alive[: store.rows.size])
    position = np.full(store.rows.size, -1)
    position[live] = np.arange(live.size)
    row, scale = position[row], np.ones(live.size)
    price = np.zeros(live.size) if y is None else y[live]
    if y is not None:
        least, largest = np.full(live.size, np.inf), np.zeros(live.size)
        np.minimum.at(least, row, np.where(value == 0.0, np.inf, abs(value)))
        np.maximum.at(largest, row, abs(value))
        least = np.maximum(least, largest * _WIDEST)
        scale = np.exp2(-np.round(np.log2(np.where(np.isfinite(least), least, 1.0))))
    lower, upper = store.rows.lower[live] * scale, store.rows.upper[live] * scale
    return _Rows(row, value * scale[row], counts, lower, upper, price / scale)


def rest_of(
    store: ConstraintStore,
    y: NDArray[np.float64],
    left: Survivors,
    mask: NDArray[np.bool_],
    near: NDArray[np.float64] | None = None,
) -> ResidualMilp:
    """Return the MILP over the columns that are in `left` and in `mask` (k,); all others are fixed at 0.

    `y` (row slots,): prices. `near` (k,): small addition to each column's cost per unit.
    """
    slot, column = left.slot[mask], left.column[mask]
    excess, lower, upper = left.excess[mask], left.lower[mask], left.upper[mask]
    table, k, marginal = store.requests, slot.size, left.pricing.marginal
    budget = left.budget if left.budget < np.inf else float(abs(excess).max(initial=0.0))
    unit = budget / _BUDGET or 1.0
    rows = _rows(store, slot, column, y)
    # an equality request with a single column has a fixed value, and needs no sum row
    exact, total = table.exact[: table.size], table.total[: table.size]
    alone = (np.bincount(slot, minlength=table.size) == 1)[slot] & exact[slot]
    alone &= upper == total[slot]
    lower = np.where(alone, upper, lower)
    summed = (total < np.inf) & (table.n_columns[: table.size] > 0)
    summed[slot[alone]] = False
    owners = np.flatnonzero(summed)
    held = np.flatnonzero(summed[slot])
    # slacks of rows with a price, and of totals with a dual value
    paid = np.flatnonzero(rows.price)
    short = np.flatnonzero(~exact[owners] & (marginal[owners] < 0.0))
    extra, m = np.arange(k, k + paid.size + short.size), rows.price.size
    values = rows.value, np.ones(held.size), np.sign(rows.price[paid]), np.ones(short.size)
    members = rows.row, m + np.searchsorted(owners, slot[held]), paid, m + short
    columns = np.repeat(np.arange(k), rows.counts), held, extra
    where = np.concatenate(members), np.concatenate(columns)
    tight = exact[owners]
    tight[short] = True
    row_lower = np.concatenate((rows.lower, np.where(tight, total[owners], -np.inf)))
    row_upper = np.concatenate((rows.upper, total[owners]))
    row_lower[paid] = row_upper[paid] = np.where(rows.price > 0, rows.upper, rows.lower)[paid]
    spare = np.concatenate(((rows.upper - rows.lower)[paid], total[owners[short]]))
    own = excess if near is None else excess + near[mask]
    costs: NDArray[np.float64] = np.concatenate((own, abs(rows.price[paid]), -marginal[owners[short]]))
    lp = LinearProgram(
        c=costs / unit,
        A=csc_array((np.concatenate(values), where), shape=(m + owners.size, k + extra.size)),
        row_lower=row_lower,
        row_upper=row_upper,
        lower=np.concatenate((lower, np.zeros(spare.size))),
        upper=np.concatenate((upper, spare)),
        offset=left.offset / unit,
        integral=np.concatenate((table.integral[slot], np.zeros(spare.size, np.bool_))),
    )
    return ResidualMilp(lp, slot, column, m, unit)


def unscaled_rest(store: ConstraintStore, left: Survivors, mask: NDArray[np.bool_]) -> ResidualMilp:
    """Return the MILP over the columns in `mask` (k,), with unscaled rows and the program's own costs."""
    slot, column, table = left.slot[mask], left.column[mask], store.requests
    rows = _rows(store, slot, column)
    exact, total = table.exact[: table.size], table.total[: table.size]
    owners = np.flatnonzero((total < np.inf) & (table.n_columns[: table.size] > 0))
    held, m = np.flatnonzero(total[slot] < np.inf), rows.lower.size
    members = np.concatenate((rows.row, m + np.searchsorted(owners, slot[held])))
    columns = np.concatenate((np.repeat(np.arange(slot.size), rows.counts), held))
    values = np.concatenate((rows.value, np.ones(held.size)))
    matrix = csc_array((values, (members, columns)), shape=(m + owners.size, slot.size))
    view, place = store.executor.columns(slot, column)
    least = np.where(exact[owners], total[owners], -np.inf)
    lp = LinearProgram(
        c=costs_at(view, slot, place),
        A=matrix,
        row_lower=np.concatenate((rows.lower, least)),
        row_upper=np.concatenate((rows.upper, total[owners])),
        lower=left.lower[mask],
        upper=left.upper[mask],
        offset=0.0,
        integral=table.integral[slot],
    )
    return ResidualMilp(lp, slot, column, m)
