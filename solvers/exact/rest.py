"""What fixing left over as a mixed-integer program of its own, in units of what is still to be decided.

The objective is not c'x but what an allocation loses to the bound d at prices y (:mod:`copter.proof.fixing`):

    c'x - d = sum_j e_j (x_j - [e_j < 0] upper_j) + sum_r |y_r| s_r + sum_q (-m_q) t_q

with e = p - m the excess of each column, s_r what is left of a row that has a price, and t_q what is left of
a request's total if its sum row is "<=" and has one.  No large terms cancel in it: branch and bound works
between 0 and the budget, U - d, which is scaled to a fixed number because its tolerances are absolute.  Rows
are divided by a power of two near their smallest coefficient, so that whole numbers stay whole.

Of allocations that cost the same the one nearest to the last round's is wanted.  Columns that are not in it
cost a little more, all of them together less than what the proof leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from copter.models.general_lp import GeneralLP
from copter.store.allocation import SparseX
from copter.store.store import AT_MOST, EXACTLY, NO_TOTAL, ConstraintStore
from copter.store.view import costs_at, take_entries

if TYPE_CHECKING:
    from copter.proof.fixing import Survivors

_BUDGET = 1e4
"""The budget in units of the model: branch and bound has tolerances of 1e-9."""


@dataclass(frozen=True, eq=False)
class ResidualMilp:
    """A mixed-integer program of some of the columns that are left (residual MILP).

    `lp`: first the columns, then the remaining parts of rows and of totals. `slot`, `column` (k,): of these
    columns. `n_rows`: number of the program's rows; the sum rows of requests follow. `unit`: what 1 of its
    objective is in the program's costs.
    """

    lp: GeneralLP
    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    n_rows: int
    unit: float = 1.0

    def allocation(self, x: NDArray[np.float64]) -> SparseX:
        """Allocation of the program that a point, (n,), is."""
        value = x[: self.slot.size]
        return SparseX(self.slot, self.column, value).where(value > 0.0)

    def point(self, x: SparseX) -> NDArray[np.float64] | None:
        """Point, (n,), that an allocation of the program is; None if it uses a column that is not left."""
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
    """Rows and coefficients of some columns, one column after the other, and how many each has."""
    view, place = store.executor.columns(slot, column)
    first, rows, value = take_entries(view, slot, place, store.rows.alive[: store.rows.size])
    return rows.astype(np.int64), value, np.diff(first)


class _Rows(NamedTuple):
    """Resource rows of the columns that are left.

    `row`, `value` (nnz,): position and scaled coefficient of each entry, column after column. `counts` (k,):
    entries of each column.
    """

    row: NDArray[np.int64]
    value: NDArray[np.float64]
    counts: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    price: NDArray[np.float64]


def _rows(
    store: ConstraintStore, y: NDArray[np.float64], slot: NDArray[np.int64], column: NDArray[np.int64]
) -> _Rows:
    """Rows in units in which their smallest coefficient is about 1."""
    row, value, counts = _entries(store, slot, column)
    live = np.flatnonzero(store.rows.alive[: y.size])
    position = np.full(y.size, -1)
    position[live] = np.arange(live.size)
    row = position[row]
    least = np.full(live.size, np.inf)
    np.minimum.at(least, row, np.where(value == 0.0, np.inf, abs(value)))
    scale = np.exp2(-np.round(np.log2(np.where(np.isfinite(least), least, 1.0))))
    lower, upper = store.rows.lower[live] * scale, store.rows.upper[live] * scale
    return _Rows(row, value * scale[row], counts, lower, upper, y[live] / scale)


def rest_of(
    store: ConstraintStore,
    y: NDArray[np.float64],
    left: Survivors,
    mask: NDArray[np.bool_],
    near: NDArray[np.float64] | None = None,
) -> ResidualMilp:
    """Return the program of the columns in `mask` (k,) of those that are left; all others are 0.

    `y` (row slots,). `near` (k,): small addition to the cost of a unit of each.
    """
    slot, column = left.slot[mask], left.column[mask]
    excess, lower, upper = left.excess[mask], left.lower[mask], left.upper[mask]
    table, k, marginal = store.requests, slot.size, left.pricing.marginal
    budget = left.budget if left.budget < np.inf else float(abs(excess).max(initial=0.0))
    unit = budget / _BUDGET or 1.0
    rows = _rows(store, y, slot, column)
    # requests that have one column left take it, and need no sum row
    relation, total = table.relation[: table.size], table.total[: table.size]
    alone = (np.bincount(slot, minlength=table.size) == 1)[slot] & (relation[slot] == EXACTLY)
    alone &= upper == total[slot]
    lower = np.where(alone, upper, lower)
    summed = (relation != NO_TOTAL) & (table.n_columns[: table.size] > 0)
    summed[slot[alone]] = False
    owners = np.flatnonzero(summed)
    held = np.flatnonzero(summed[slot])
    # what is left of rows that have a price, and of totals that have one
    paid = np.flatnonzero(rows.price)
    short = np.flatnonzero((relation[owners] == AT_MOST) & (marginal[owners] < 0.0))
    extra, m = np.arange(k, k + paid.size + short.size), rows.price.size
    values = rows.value, np.ones(held.size), np.sign(rows.price[paid]), np.ones(short.size)
    members = rows.row, m + np.searchsorted(owners, slot[held]), paid, m + short
    columns = np.repeat(np.arange(k), rows.counts), held, extra
    where = np.concatenate(members), np.concatenate(columns)
    tight = relation[owners] == EXACTLY
    tight[short] = True
    row_lower = np.concatenate((rows.lower, np.where(tight, total[owners], -np.inf)))
    row_upper = np.concatenate((rows.upper, total[owners]))
    row_lower[paid] = row_upper[paid] = np.where(rows.price > 0, rows.upper, rows.lower)[paid]
    spare = np.concatenate(((rows.upper - rows.lower)[paid], total[owners[short]]))
    own = excess if near is None else excess + near[mask]
    costs: NDArray[np.float64] = np.concatenate((own, abs(rows.price[paid]), -marginal[owners[short]]))
    lp = GeneralLP(
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
    """Return the program of the columns in `mask` (k,) of those left, unscaled and in its own costs."""
    slot, column, table = left.slot[mask], left.column[mask], store.requests
    row, value, counts = _entries(store, slot, column)
    live = np.flatnonzero(store.rows.alive[: store.rows.size])
    position = np.full(store.rows.size, -1)
    position[live] = np.arange(live.size)
    relation, total = table.relation[: table.size], table.total[: table.size]
    owners = np.flatnonzero((relation != NO_TOTAL) & (table.n_columns[: table.size] > 0))
    held, m = np.flatnonzero(relation[slot] != NO_TOTAL), live.size
    members = np.concatenate((position[row], m + np.searchsorted(owners, slot[held])))
    columns = np.concatenate((np.repeat(np.arange(slot.size), counts), held))
    matrix = csc_array(
        (np.concatenate((value, np.ones(held.size))), (members, columns)), shape=(m + owners.size, slot.size)
    )
    view, place = store.executor.columns(slot, column)
    least = np.where(relation[owners] == EXACTLY, total[owners], -np.inf)
    lp = GeneralLP(
        c=costs_at(view, slot, place),
        A=matrix,
        row_lower=np.concatenate((store.rows.lower[live], least)),
        row_upper=np.concatenate((store.rows.upper[live], total[owners])),
        lower=left.lower[mask],
        upper=left.upper[mask],
        offset=0.0,
        integral=table.integral[slot],
    )
    return ResidualMilp(lp, slot, column, m)
