"""Reduced-cost fixing: bounds on columns in every allocation that is better than a known one.

At prices y with the bound d, p = c + A'y and the marginal prices m_q of a pass (:mod:`copter.proof.pricing`),
the cost of an allocation is d plus its losses, which are nonnegative (:mod:`copter.proof.measure`):

    sum_j (p_j - m_q) x_j - min(p_j - m_q, 0) upper_j  +  m_q (sum_j x_j - total_q)  +  y_i (u_i - A_i x)

In every allocation with a cost of at most U, each loss is at most the budget U - d:

    p_j > m_q    x_j <= (U - d) / (p_j - m_q)
    p_j < m_q    x_j >= upper_j - (U - d) / (m_q - p_j)

If x_j is integral, the bounds are rounded to whole numbers. So an integral column with an excess p_j - m_q
above the budget is 0. Continuous columns are never fixed at 0, because a small value may still be possible.

A margin for the rounding errors of the bound is added to the budget, so that no optimum is cut off, not even
one of several optima of equal cost.

Source: Dantzig, Fulkerson and Johnson (1954), section 3, who fix by the reduced costs of a relaxation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.parallel import run_chunks
from copter.proof.pricing import Pricing, price
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, cap_of, cost_of, paid_for

_ROUNDING = 1e-12
"""Rounding error of a bound relative to its terms, with a large safety margin."""
_ERROR = 4e-15
"""Rounding error of a bound relative to its terms; sums are pairwise or compensated."""
_WHOLE = 1e-9
"""Relative tolerance within which a number counts as whole."""
_CHUNK = 50_000
"""Number of columns that are processed in one chunk."""


class Survivors(NamedTuple):
    """Columns (k,) that can be nonzero in a better allocation, ascending by slot and column.

    Attributes
    ----------
    slot, column : (k,) ndarrays
    excess : (k,) ndarray
        Reduced cost p_j - m_q of a unit; negative if the column is at its upper bound in the relaxation.
    lower, upper : (k,) ndarrays
        Bounds on the column's value in every better allocation.
    budget : float
        Budget U - d with the margin for rounding errors.
    margin : float
        Bound on the rounding errors of a sum of losses and of the bound.
    offset : float
        -sum_j min(p_j - m_q, 0) upper_j, the difference between the losses above and sum_j (p_j - m_q) x_j.
    pricing : Pricing
        Pricing pass that was used.
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
    """Return the columns that can be nonzero in an allocation with a cost of at most the bound plus `budget`.

    The bound is at prices y (row slots,), which have no price of an infinite bound. The store must have no
    convex terms. `pricing` is a pass at y, whose candidates are used if its slack is large enough. `budget`
    is >= 0; if it is infinite, only columns with an upper bound of 0 are fixed.
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
    """Return the sum of the absolute terms of a bound at y, to which its rounding errors are relative."""
    rows, table = store.rows, store.requests
    bound = np.where(y > 0, rows.upper[: y.size], rows.lower[: y.size])
    paid = abs(np.where(y == 0.0, 0.0, y) * np.where(y == 0.0, 0.0, bound))
    summed = table.total[: table.size] < np.inf
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
        most = min(cap, view.total[q])
        least = 0.0
        full[k] = -more * cap if more < 0.0 and cap < np.inf else 0.0
        if more > 0.0 and budget < np.inf:
            most = min(most, budget / more)
        elif more < 0.0 and cap < np.inf and budget < np.inf:
            least = max(0.0, cap + budget / more)
        if whole[q]:
            most = np.floor(most * (1.0 + _WHOLE) + _WHOLE)
            least = np.ceil(least * (1.0 - _WHOLE) - _WHOLE)
        lower[k], upper[k] = least, most
