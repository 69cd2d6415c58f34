"""What an allocation does, request by request and row by row: costs, losses at given prices, violations.

At prices y, with p = c + A'y and the marginal prices m_q of a pass (:mod:`copter.proof.pricing`), the
difference between the objective and the bound is a sum of losses, none of them negative where nothing is
violated:

    request q    sum_j (p_j - m_q) x_j - min(p_j - m_q, 0) upper_j  +  m_q (sum_j x_j - total_q)
    row i        y_i (u_i - A_i x), or y_i (l_i - A_i x) where y_i < 0

Added up like this nothing large cancels: a request whose costs are forced on it has a loss of exactly 0,
where objective - bound would have the rounding error of these costs.

Sizes, which losses and violations are judged against, are sums of absolute terms, so that they grow and
shrink with the units of what they measure:

    of the objective    sum_j (|c_j| - f_q) x_j, f_q the price of what is forced; of terms |phi'(a'x) a'x|
    of a row            max(|its bound|, sum_j |a_ij x_j|)
    of a sum row        max(total_q, sum_j |x_j|);  of a box  max(upper_j, |x_j|)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import inlined_kernel, kernel
from copter.parallel import chunk_bounds, one_chunk, run_chunks
from copter.proof.pricing import Pricing
from copter.proof.units import row_limits, row_units
from copter.store.store import AT_MOST, NO_TOTAL, ConstraintStore
from copter.store.view import StoreView, cap_of, coefficients_of, cost_of, entries_of, paid_for

_NOISE, COMPARABLE, _SMALL = 1e-12, 1e-3, 1e-9
"""What a row may be over, as a share of the most that one of its columns can use; asked for rows that are
over by at least so much of their own size, and whose bounds are at most so small beside those of others."""


class Measures(NamedTuple):
    """An allocation at the prices of a pass.

    Attributes
    ----------
    objective : c'x, convex terms not counted
    size : what it is judged against, convex terms not counted
    curved : p'x of requests with convex terms, whose losses are not in ``loss``
    loss : (request slots,) losses of the requests
    lost : sum of them
    activity, weight : (row slots,) A x and |A| |x|
    local : largest violation of a box or a sum row, relative to its size
    squares : sum of their squares, absolute
    """

    objective: float
    size: float
    curved: float
    loss: NDArray[np.float64]
    lost: float
    activity: NDArray[np.float64]
    weight: NDArray[np.float64]
    local: float
    squares: float


def measure(
    store: ConstraintStore,
    slot: NDArray[np.int64],
    column: NDArray[np.int64],
    value: NDArray[np.float64],
    y: NDArray[np.float64],
    pricing: Pricing,
    threads: int | None = None,
) -> Measures:
    """Measure an allocation, given by its nonzeros (ascending by slot and column), at the prices of a pass.

    Parameters
    ----------
    store : ConstraintStore
    slot, column, value : (k,) arrays
    y : (row slots,) ndarray
        The prices of ``pricing``.
    pricing : Pricing
        Its candidates are among the columns looked at: those with p_j < m_q, at least.
    threads : int, optional
    """
    size, table = store.requests.size, store.requests
    view, column = store.excerpt(slot, column, (pricing.slot, pricing.column))
    curved, n_columns = np.zeros(size, np.bool_), table.n_columns[:size]
    if store.terms:
        curved[store.terms.slots()] = True
    prices, entries = (y, pricing.marginal, pricing.forced), (column, value)
    if one_chunk(store.n_variables + slot.size + size):  # at most
        figures, loss, activity, weight = _measure_all(view, n_columns, *prices, curved, slot, *entries)
    else:
        first, work, longest = _work(view, n_columns, slot)
        bounds, loss = chunk_bounds(work), np.zeros(size)
        parts = run_chunks(
            lambda k: _measure_chunk(
                view, n_columns, *prices, curved, first, *entries, bounds[k], bounds[k + 1], longest, loss
            ),
            bounds.size - 1,
            threads,
        )
        figures = tuple(sum(part[0][k] for part in parts) for k in range(5))
        figures += (max(part[0][5] for part in parts),)
        activity, weight = (np.sum([part[k] for part in parts], axis=0) for k in (1, 2))
    objective, spent, along, squares, lost, local = figures
    return Measures(objective, max(0.0, spent), along, loss, lost, activity, weight, local, squares)


def unlike_noise(store: ConstraintStore, activity: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """The largest excess of a row over its bounds, relative to the row's own size.

    Where bound and excess are both next to nothing, rounding errors of the columns would count: what is below
    1e-12 of what a single column of the row can use is no excess.

    Parameters
    ----------
    store : ConstraintStore
    activity, weight : (row slots,) arrays
        A x and |A| |x|.

    Returns
    -------
    float
    """
    rows = store.rows
    lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
    over = np.maximum(0.0, np.maximum(activity - upper, lower - activity))
    bound, limits = abs(np.where(activity > upper, upper, lower)), row_limits(store)
    relative = np.divide(over, np.maximum(bound, weight), out=np.zeros(over.size), where=over > 0)
    doubtful = relative > COMPARABLE
    doubtful &= bound <= _SMALL * float(np.median(limits[limits > 0])) if limits.any() else bound == 0
    if doubtful.any():
        units = row_units(store, doubtful)
        relative[doubtful & (np.maximum(over, bound) <= _NOISE * units)] = 0.0
    return float(relative.max(initial=0.0))


@kernel
def row_figures(lower, upper, y, activity, weight):  # type: ignore[no-untyped-def]
    """What prices pay for the bounds of rows, and for what of these is not used, and what rows are over.

    The latter as the sum of squares, absolute, and the largest, relative to the row's own size.
    """
    paid, unused, squares, worst = 0.0, 0.0, 0.0, 0.0
    for i in range(y.size):
        if y[i] != 0.0:
            bound = upper[i] if y[i] > 0.0 else lower[i]
            paid += y[i] * bound
            unused += y[i] * (bound - activity[i])
        over = max(activity[i] - upper[i], lower[i] - activity[i])
        if over > 0.0:
            squares += over * over
            size = max(abs(upper[i] if activity[i] > upper[i] else lower[i]), weight[i])
            worst = max(worst, over / size)
    return paid, unused, squares, worst


@inlined_kernel
def _is_simple(view: StoreView, q):  # type: ignore[no-untyped-def]
    """Whether a sum row holds all columns of a request: its nonzeros alone are looked at, not its columns."""
    summed, total = view.relation[q] != NO_TOTAL, view.total[q]
    return summed and (total == 0.0 or (view.upper_start[q] < 0 and view.upper[q] >= total))


@kernel
def _work(view: StoreView, n_columns, slot):  # type: ignore[no-untyped-def]
    """Where the nonzeros of each request begin, and end; what is to be looked at of it; the most columns."""
    size, longest = n_columns.size, 0
    first, work = np.zeros(size + 1, np.int64), np.empty(size, np.int64)
    for k in range(slot.size):
        first[slot[k] + 1] += 1
    for q in range(size):
        work[q] = 1 + first[q + 1] + (0 if _is_simple(view, q) else n_columns[q])
        first[q + 1] += first[q]
        longest = max(longest, n_columns[q])
    return first, work, longest


@kernel
def _measure_all(  # type: ignore[no-untyped-def]
    view: StoreView, n_columns, y, marginal, forced, curved, slot, column, value
):
    """All requests as one chunk: (figures, losses, activity, weight)."""
    first, _, longest = _work(view, n_columns, slot)
    loss, size = np.zeros(n_columns.size), n_columns.size
    figures, activity, weight = _measure_chunk(
        view, n_columns, y, marginal, forced, curved, first, column, value, 0, size, longest, loss
    )
    return figures, loss, activity, weight


@kernel
def _measure_chunk(  # type: ignore[no-untyped-def]
    view: StoreView, n_columns, y, marginal, forced, curved, first, column, value, begin, end, longest, loss
):
    activity, weight = np.zeros(y.size), np.zeros(y.size)
    dense = np.zeros(longest)
    objective, spent, along, squares, lost_by_all, local = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for q in range(begin, end):
        if n_columns[q] == 0:
            continue
        usage, shift, stride = view.usage[q], np.uint64(0), np.uint64(0)
        if view.n_columns[q] > 0:  # a view may have none of its columns
            shift, stride = coefficients_of(view, usage)
        relation, total, level = view.relation[q], view.total[q], marginal[q]
        summed, simple = relation != NO_TOTAL, _is_simple(view, q)
        lost, mass, taken = 0.0, 0.0, 0.0
        for k in range(first[q], first[q + 1]):
            j, xj = column[k], value[k]
            c, paid = cost_of(view, q, j), 0.0
            enter, leave = entries_of(view, usage, j, j + 1)
            for e in range(enter, leave):
                r = np.uint32(view.row[e])
                used = view.coefficient[shift + stride * e]
                paid += y[r] * used
                activity[r] += used * xj
                weight[r] += abs(used * xj)
            objective += c * xj
            spent += (abs(c) - forced[q]) * abs(xj)
            mass += xj
            taken += abs(xj)
            if curved[q]:
                along += (c + paid) * xj
            elif simple:
                lost += (c + paid - level) * xj
            else:
                dense[j] = xj
            cap = cap_of(view, q, j)
            beyond = max(-xj, xj - cap)
            if beyond > 0.0:
                squares += beyond * beyond
                local = max(local, beyond / max(abs(xj), cap if xj >= 0.0 and cap < np.inf else 0.0))
        if summed:
            over = mass - total
            if over > 0.0 or relation != AT_MOST:
                squares += over * over
                if over != 0.0:
                    local = max(local, abs(over) / max(total, taken))
            if not curved[q] and over != 0.0:
                lost += level * over
        if not (simple or curved[q]):  # columns that are not in the view add nothing
            for j in range(view.n_columns[q]):
                p = cost_of(view, q, j) + paid_for(view, usage, j, y) - level
                if p < 0.0:
                    cap = cap_of(view, q, j)
                    lost += p * (dense[j] - cap if cap < np.inf else dense[j])
                else:
                    lost += p * dense[j]
                dense[j] = 0.0
        loss[q] = lost
        lost_by_all += lost
    return (objective, spent, along, squares, lost_by_all, local), activity, weight
