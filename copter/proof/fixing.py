"""Reduced-cost fixing: what columns can still be in an allocation that is better than a known one.

At prices y with the bound d, p = c + A'y and the marginal prices m_q of a pass (:mod:`copter.proof.pricing`),
an allocation costs d and its losses, none of which is negative (:mod:`copter.proof.measure`):

    sum_j (p_j - m_q) x_j - min(p_j - m_q, 0) upper_j  +  m_q (sum_j x_j - total_q)  +  y_i (u_i - A_i x)

So in every allocation that costs at most U, each of them is at most U - d, the budget:

    p_j > m_q    x_j <= (U - d) / (p_j - m_q)
    p_j < m_q    x_j >= upper_j - (U - d) / (m_q - p_j)

and where x_j is a whole number, the bounds are: a column whose excess p_j - m_q is more than the budget is 0.
Columns that want no whole number are never dropped, whatever their excess: a little of them may do.

The budget gets a margin for the rounding errors of a bound with so many terms, so that no optimum is cut off,
and none of those that tie with it.

Source: Dantzig, Fulkerson and Johnson (1954), section 3, who fix by the reduced costs of a relaxation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.parallel import run_chunks
from copter.proof.pricing import Pricing, price
from copter.store.store import NO_TOTAL, ConstraintStore
from copter.store.view import StoreView, cap_of, cost_of, paid_for

_ROUNDING = 1e-12
"""Share of the terms of a bound that exceeds the rounding errors of the terms and of their sums."""
_ERROR = 4e-15
"""Likewise, as they are: sums are pairwise or compensated."""
_WHOLE = 1e-9
"""Distance from a whole number, as a share of it, that counts as none."""
_CHUNK = 50_000
"""Columns processed in one piece."""


class Survivors(NamedTuple):
    """The columns (k,), ascending by slot and column, that a better allocation can use; all others are 0 in
    it.

    `excess`: reduced cost p_j - m_q of a unit; negative where the column is full in the bound. `lower`,
    `upper`: they enclose its value in every better allocation. `budget`: the budget, with the margin for
    rounding errors. `margin`: rounding errors that a sum of losses and the bound may have. `offset`: what
    sum_j (p_j - m_q) x_j lacks of the losses above, -sum_j min(p_j - m_q, 0) upper_j. `pricing`: the pass
    used.
    """

    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    excess: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    budget: float
    margin: float
    offset: float
    pricing: Pricing


def survivors(
    store: ConstraintStore,
    y: NDArray[np.float64],
    pricing: Pricing | None,
    budget: float,
    *,
    threads: int | None = None,
) -> Survivors:
    """Return the columns that can be in an allocation which costs at most ``budget`` more than the bound at
    y.

    The store has no convex terms; y (row slots,) has no price on an infinite bound. `pricing`: a pass at y,
    whose columns are used if its slack is large enough. `budget` >= 0; if it is infinite, only the bounds of
    columns fix.
    """
    table = store.requests
    whole = table.integral[: table.size]
    if pricing is None:
        pricing = price(store, y, slack=budget, threads=threads)
    terms = _magnitude(store, y, pricing)
    budget += _ROUNDING * terms
    loose = (table.n_columns[: table.size] > 0) & ~whole
    reach = np.inf if loose.any() else budget
    if pricing.clock != store.clock or not pricing.slack >= reach:
        pricing = price(store, y, slack=reach, threads=threads)
    slot, column = pricing.slot, pricing.column
    view, place = store.executor.columns(slot, column)
    excess, lower, upper, full = (np.empty(slot.size) for _ in range(4))
    bounds = np.linspace(0, slot.size, 2 + slot.size // _CHUNK).astype(np.int64)
    run_chunks(
        lambda k: _bounds(
            view,
            y,
            pricing.marginal,
            whole,
            slot,
            place,
            budget,
            bounds[k],
            bounds[k + 1],
            excess,
            lower,
            upper,
            full,
        ),
        bounds.size - 1,
        threads,
    )
    keep = upper > 0.0
    offset = float(np.sum(full))
    return Survivors(
        slot=slot[keep],
        column=column[keep],
        excess=excess[keep],
        lower=lower[keep],
        upper=upper[keep],
        budget=float(budget),
        margin=_ERROR * terms,
        offset=offset,
        pricing=pricing,
    )


def _magnitude(store: ConstraintStore, y: NDArray[np.float64], pricing: Pricing) -> float:
    """Return the sum of the absolute terms of a bound at y, of which its rounding errors are a share."""
    rows, table = store.rows, store.requests
    bound = np.where(y > 0, rows.upper[: y.size], rows.lower[: y.size])
    paid = abs(np.where(y == 0.0, 0.0, y) * np.where(y == 0.0, 0.0, bound))
    summed = table.relation[: table.size] != NO_TOTAL
    shares = abs(pricing.marginal) * np.where(summed, table.total[: table.size], 0.0)
    return float(paid.sum() + shares.sum()) + abs(pricing.request_bound)


@kernel
def _bounds(  # type: ignore[no-untyped-def]
    view: StoreView, y, marginal, whole, slot, column, budget, begin, end, excess, lower, upper, full
):
    for k in range(begin, end):
        q, j = slot[k], column[k]
        more = cost_of(view, q, j) + paid_for(view, view.usage[q], j, y)
        more -= marginal[q]
        excess[k] = more
        cap = cap_of(view, q, j)
        most = cap if view.relation[q] == NO_TOTAL else min(cap, view.total[q])
        least = 0.0
        full[k] = -more * cap if more < 0.0 and cap < np.inf else 0.0
        if more > 0.0 and budget < np.inf:
            most = min(most, budget / more)
        elif more < 0.0 and cap < np.inf and budget < np.inf:
            least = max(0.0, cap + budget / more)
        if whole[q]:
            if most < np.inf:
                most = np.floor(most * (1.0 + _WHOLE) + _WHOLE)
            least = np.ceil(least * (1.0 - _WHOLE) - _WHOLE)
        lower[k], upper[k] = least, most
