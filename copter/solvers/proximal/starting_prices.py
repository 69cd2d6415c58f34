"""Initial prices, if the last round's prices are poor or missing.

*A sample.* Without prices, a pricing pass finds the columns that would be optimal with free resources, and
many passes follow until the prices are useful. So the solver first solves a sample. A request is drawn with a
probability proportional to its total, and its total is divided by that probability
(:mod:`copter.solvers.inner.sampling`). If there is an allocation to begin with, the solve of the sample
begins from the sampled requests' part of it, scaled in the same way.

*Toggled rows.*  If the capacity of a row was set to 0, the row still has its old price, mostly 0, and
requests choose the row at that price.  If the capacity was set from 0 to u_i > 0, the row has the price that
kept all requests away, u_i y_i is no longer 0, and the bound is poor.  With all other prices fixed, a request
uses row i up to the price that equals its saving for each unit of the row,

    s_q = (the least p_j without the row - the least p_j with it, at y_i = 0) / a_ij.

So the price of an opened row is the largest one at which the requests with larger savings fit: their usages
a_ij t_q sum to at most u_i.  At a closed row there is no usage and the price does not affect the bound, so
the price may be higher: it is the largest sum of s_q and |c_j| / a_ij, with j the cheapest column of request
q in the row.

*Violated rows.*  If loads change in all rows, the bound at the last prices can be worse than at prices of 0.
From y = 0 the bound increases in the direction of the last allocation's row violations. The prices in this
direction with the best bound show which columns are worth using. Without prices all columns of equal cost
look the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.clock import check
from copter.compile.kernels import kernel
from copter.solvers.inner.gather import LeftOut, gather
from copter.solvers.inner.sampling import Sampler
from copter.solvers.inner.working_set import WorkingSet
from copter.solvers.proximal.steps import Aim, Method, run_steps
from copter.store.allocation import SparseX, row_activity
from copter.store.slabs import every_column
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, coefficients_of, cost_of, entries_of, paid_for, view_of

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.state import Budget, Iterate
    from copter.solvers.proximal.tuning import ProximalTuning
    from copter.store.executor import Part

_Savings: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""For each user of a row: its saving per unit of the row, the value of its column, and its usage."""
_MOST = 64
"""Largest number of changed rows: with more, all prices have changed."""
_LEAST_BOUND = 1e-150
"""Least bound of a row whose relative violation is computed, because of its square."""
_IDLE = 0.5
"""Usage of a row, as a share of its bound, below which a positive price counts as too high."""


class Sampled(NamedTuple):
    """Prices y (row slots,) of a sample, and its approximate A x (row slots,); None without a sample."""

    y: NDArray[np.float64]
    flow: NDArray[np.float64] | None


def sampled_prices(
    program: ContinualProgram,
    x: SparseX,
    method: Method,
    budget: Budget,
    tuning: ProximalTuning,
) -> Sampled:
    """Return the prices of a sample of the requests, with all their columns; 0 if there is no sample.

    `x`: allocation to begin with; the prices begin at 0.
    """
    sample, y = _sample(program, tuning), np.zeros(program.store.rows.size)
    if sample is None:
        return Sampled(y, None)
    working, held, stands_for = sample
    goal = tuning.sample.goal
    aim = Aim(goal, tuning.steps.cold_sigma, loose=tuning.sample.loose * goal)
    begin = x._replace(value=x.value * stands_for[x.slot])
    store = program.store
    steps = run_steps(store, working, method, budget, begin, y, aim, tuning, rays_of=program, project=False)
    flow = row_activity(store, steps.x, threads=budget.threads)
    return Sampled(steps.y, flow if held is None else flow + held.usage)


def _sample(
    program: ContinualProgram, tuning: ProximalTuning
) -> tuple[WorkingSet, LeftOut | None, NDArray[np.float64]] | None:
    """Return a sample as a working set, the usage outside of it, and the sampling weight of each request.

    Return None if the program is small, or if a sample could not determine every price.
    """
    store, sample, rows = program.store, tuning.sample, len(program.resource_slots)
    table = store.requests
    n_columns, exact = table.n_columns[: table.size], table.exact[: table.size]
    summed, decided = table.total[: table.size] < np.inf, exact & (n_columns == 1)
    slots, single = np.flatnonzero(summed & (n_columns > decided)), np.flatnonzero(~summed & (n_columns > 0))
    columns = max(sample.columns, sample.columns_a_row * rows)
    wanted = slots.size * columns // max(1, int(n_columns[slots].sum()))
    least, most = max(sample.least_requests, rows), sample.largest_share * slots.size
    if wanted < least <= sample.small_share * slots.size:  # wide requests: the least number, however wide
        wanted = least
    if not least <= wanted <= most or int(n_columns[single].sum()) > columns:
        return None
    taken, factor = Sampler(table.total[slots], wanted).draw()
    drawn = np.sort(np.concatenate((slots[taken], single)))
    stands_for = np.ones(table.size)
    stands_for[slots[taken]] = factor
    held = _held(store, np.flatnonzero(decided))
    slot, column = every_column(drawn, n_columns[drawn])
    working = gather(store, slot, column, held, stands_for, tuning=tuning.working_set)
    return working, held, stands_for


def _held(store: ConstraintStore, decided: NDArray[np.int64]) -> LeftOut | None:
    """Return the usage of the requests without a choice; they must not be sampled with a weight."""
    if not decided.size:
        return None
    x = SparseX(decided, np.zeros_like(decided), store.requests.total[decided])
    return LeftOut(row_activity(store, x), store.rows.alive[: store.rows.size])


def violation_prices(store: ConstraintStore, activity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return prices (row slots,) proportional to the rows' relative violations by an activity (row slots,).

    They are scaled to a first-order increase of the bound by 1; all are 0 if no row is violated. A row with a
    bound of 0, or of less than 1e-150, has no relative violation.
    """
    rows = store.rows
    lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
    over = np.where(activity > upper, activity - upper, np.minimum(activity - lower, 0.0))
    bound = abs(np.where(activity > upper, upper, lower))
    prices = np.zeros(rows.size)
    some = (over != 0.0) & (bound > _LEAST_BOUND)
    prices[some] = over[some] / bound[some] / bound[some]
    gained = float(prices @ over)
    return prices / gained if 0.0 < gained < np.inf else np.zeros(rows.size)


# ---- toggled rows -----------------------------------------------------------------------------------


def reset_prices(store: ConstraintStore, now: Iterate) -> NDArray[np.float64]:
    """Return an iterate's prices, with new ones for rows that were closed or opened; `now.y` if none was."""
    rows, y = store.rows, now.y
    lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
    closed = rows.alive[: rows.size] & (upper == 0.0) & (lower <= 0.0)
    opened = (y > 0.0) & (upper > 0.0) & (now.measures.activity < _IDLE * upper)
    again = np.flatnonzero(opened | (closed & (y == 0.0)))
    if not 0 < again.size <= _MOST:
        return y
    prices = np.where(opened, 0.0, y)
    found = store.executor.map(_savings_part, prices, again, closed)
    for k, i in enumerate(again.tolist()):
        saved, worth, wanted = (np.concatenate([part[k][field] for part in found]) for field in range(3))
        if closed[i]:
            prices[i] = (saved + worth).max(initial=0.0)
        else:
            order = np.argsort(-saved, kind="stable")
            fit = int(np.searchsorted(np.cumsum(wanted[order]), upper[i], side="right"))
            prices[i] = saved[order[fit]] if fit < order.size else 0.0
    return prices


def _savings_part(
    part: Part, y: NDArray[np.float64], rows: NDArray[np.int64], closed: NDArray[np.bool_]
) -> list[_Savings]:
    view, asked = view_of(part.store), np.zeros(y.size, np.bool_)
    asked[rows] = True
    slots = _users(view, asked)
    return [_savings(view, slots, y, row, closed) for row in rows.tolist()]


def _savings(
    view: StoreView,
    slots: NDArray[np.int64],
    y: NDArray[np.float64],
    row: int,
    closed: NDArray[np.bool_],
) -> _Savings:
    """Return the savings of the requests that use a row; columns in other closed rows are excluded."""
    check()  # the deadline may be over
    saved, worth, wanted = np.empty((3, slots.size))
    count = _fill_savings(view, slots, y, row, closed, saved, worth, wanted)
    return saved[:count], worth[:count], wanted[:count]


@kernel(allocates=True)
def _users(view, asked):  # type: ignore[no-untyped-def]
    """Return the requests with a column in one of the rows marked in `asked`."""
    uses = np.zeros(view.n_columns.size, np.bool_)
    for q in range(view.n_columns.size):
        if view.n_columns[q] > 0 and view.total[q] > 0.0:
            first, last = entries_of(view, view.usage[q], 0, view.n_columns[q])
            for e in range(first, last):
                uses[q] = uses[q] or asked[np.uint32(view.row[e])]
    return np.flatnonzero(uses)


@kernel
def _fill_savings(view, slots, y, row, closed, saved, worth, wanted):  # type: ignore[no-untyped-def]
    """Write the savings of the requests that use a row, and return their number."""
    count = 0
    for q in slots:
        usage = view.usage[q]
        shift, stride = coefficients_of(view, usage)
        without, with_row, unit, value = np.inf, np.inf, 0.0, 0.0
        if not view.exact[q]:
            without = 0.0
        for j in range(view.n_columns[q]):
            begin, end = entries_of(view, usage, j, j + 1)
            shut, own = False, 0.0
            for e in range(begin, end):
                i = np.uint32(view.row[e])
                if np.int64(i) == row:
                    own = view.coefficient[shift + stride * e]
                else:
                    shut = shut or closed[i]
            if shut:
                continue
            cost = cost_of(view, q, j)
            p = cost + paid_for(view, usage, j, y) - own * y[row]
            if own <= 0.0:
                without = min(without, p)
            elif p < with_row:
                with_row, unit, value = p, own, abs(cost)
        if without < np.inf and with_row <= without:
            saved[count], worth[count] = (without - with_row) / unit, value / unit
            wanted[count] = view.total[q] * unit
            count += 1
    return count
