"""Measures of an allocation: costs, losses at given prices, and violations, by request and by row.

At prices y, with p = c + A'y and the marginal prices m_q of a pass (:mod:`copter.proof.pricing`), the
difference between the objective and the bound is a sum of losses. The losses of a feasible allocation are
nonnegative:

    request q    sum_j (p_j - m_q) x_j - min(p_j - m_q, 0) upper_j  +  m_q (sum_j x_j - total_q)
    row i        y_i (u_i - A_i x), or y_i (l_i - A_i x) where y_i < 0

In this sum no large numbers cancel. A request with forced costs has a loss of exactly 0, while objective -
bound would have the rounding error of these costs.

Losses and violations are relative to denominators with the same units. No denominator is a sum in which terms
cancel:

    the objective   the part that is not forced, sum_j (c_j - f_q) x_j, with the forced price f_q;
                    |phi'(a'x) a'x| for convex terms
    a row           its bound, or the least of |a_ij| min(upper_j, total_q) over the columns that use it, if
                    that is more; sum_j |a_ij x_j| if both are unknown (a bound of 0, and values of almost 0)
    a sum row       max(total_q, sum_j |x_j|);  a box  max(upper_j, |x_j|)

A violation of a row within the rounding error of its own sum does not count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.parallel import chunk_bounds, one_chunk, run_chunks
from copter.proof.pricing import Pricing
from copter.proof.rest import InactiveSums
from copter.store.allocation import SparseX
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, cap_of, coefficients_of, cost_of, entries_of, paid_for
from copter.sums.compensated import added
from copter.terms.batch import TermBatch

_ROUNDING = 16 * 2.0**-53
"""Rounding error of a row, relative to sum_j |a_ij x_j| plus its bound."""
_ZERO_TOLERANCE = 1e-9
"""Fraction of min(upper_j, total_q) up to which a column does not count as using its rows."""


class Measures(NamedTuple):
    """Measures of an allocation at the prices of a pass.

    Attributes
    ----------
    objective : float
        c'x, without convex terms.
    decided : float
        Part of the objective that is not forced.
    spent : float
        Sum of the absolute terms of `decided`.
    curved, curved_size : float
        Sum of the convex terms phi(a'x), and of their magnitudes |phi'(a'x) a'x|.
    loss : ndarray, shape (request slots,)
        Loss of each request without a convex term.
    lost : float
        Sum of the losses of all requests.
    activity, weight : ndarrays, shape (row slots,)
        A x and |A| |x|.
    step : ndarray, shape (row slots,)
        Least |a_ij| min(upper_j, total_q) over used columns; infinite without a used column.
    local, squares : float
        Largest relative violation of a box or a sum row, and the sum of the squares of absolute violations.
    """

    objective: float
    decided: float
    spent: float
    curved: float
    curved_size: float
    loss: NDArray[np.float64]
    lost: float
    activity: NDArray[np.float64]
    weight: NDArray[np.float64]
    step: NDArray[np.float64]
    local: float
    squares: float

    def with_rest(self, rest: InactiveSums) -> Measures:
        """Return the measures together with the contribution of inactive requests."""
        return self._replace(
            objective=self.objective + rest.objective,
            decided=self.decided + rest.decided,
            spent=self.spent + rest.spent,
            lost=self.lost + rest.lost,
            local=max(self.local, rest.local),
            squares=self.squares + rest.squares,
            activity=self.activity + rest.activity,
            weight=self.weight + rest.weight,
            step=np.minimum(self.step, rest.step),
        )


def measure(
    store: ConstraintStore,
    x: SparseX,
    y: NDArray[np.float64],
    pricing: Pricing,
    threads: int | None = None,
) -> Measures:
    """Measure an allocation at the prices of a pass, whose candidates include all columns with p_j < m_q."""
    size, table, (slot, column, value) = store.requests.size, store.requests, x
    view, column = store.executor.columns(slot, column, (pricing.slot, pricing.column))
    curved, n_columns = np.zeros(size, np.bool_), table.n_columns[:size]
    if store.terms:
        curved[store.terms.slots()] = True
    prices, entries = (y, pricing.marginal, pricing.forced), (column, value)
    if one_chunk(store.n_variables + slot.size + size):  # an upper bound on the work
        figures, loss, activity, weight, step = _measure_all(view, n_columns, *prices, curved, slot, *entries)
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
        figures = tuple(sum(part[0][k] for part in parts) for k in range(6))
        figures += (max(part[0][6] for part in parts),)
        activity, weight = (np.sum([part[k] for part in parts], axis=0) for k in (1, 2))
        step = np.min([part[3] for part in parts], axis=0)
    objective, decided, spent, along, squares, lost, local = figures
    phi = TermBatch.of(store).objective(x) if store.terms else (0.0, 0.0)
    lost += along + phi[0] - pricing.curved_bound
    spent = max(0.0, spent)
    return Measures(objective, decided, spent, *phi, loss, lost, activity, weight, step, local, squares)


@kernel
def row_figures(lower, upper, y, activity, weight, step):  # type: ignore[no-untyped-def]
    """Return figures of the rows at prices y, all arrays of shape (row slots,).

    They are the payment sum_i y_i b_i for the bounds b, the sum of its absolute terms, and the part for
    unused capacity, sum_i y_i (b_i - activity_i). Then come the violations: the sum of squares, the largest
    relative to the row's size, and the sum of |y_i| times the violations.
    """
    paid, low, terms, unused, squares, worst, worth = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(y.size):
        if y[i] != 0.0:
            bound = upper[i] if y[i] > 0.0 else lower[i]
            paid, low = added(paid, low, y[i] * bound)
            terms += abs(y[i] * bound)
            unused += y[i] * (bound - activity[i])
        over = max(activity[i] - upper[i], lower[i] - activity[i])
        if over > 0.0:
            squares += over * over
            bound = abs(upper[i] if activity[i] > upper[i] else lower[i])
            size = max(bound, step[i]) if step[i] < np.inf else bound
            over = max(0.0, over - _ROUNDING * (weight[i] + bound))
            worth += abs(y[i]) * over
            if over > 0.0:
                worst = max(worst, over / (size if size > 0.0 else weight[i]))
    return paid + low, terms, unused, squares, worst, worth


@kernel(inlined=True)
def _is_simple(view: StoreView, q):  # type: ignore[no-untyped-def]
    """Return whether a sum row bounds all columns of a request, so that only its nonzeros matter."""
    summed, total = view.total[q] < np.inf, view.total[q]
    return summed and (total == 0.0 or (view.upper_start[q] < 0 and view.upper[q] >= total))


@kernel(allocates=True)
def _work(view: StoreView, n_columns, slot):  # type: ignore[no-untyped-def]
    """Return the starts of the requests' nonzeros, the work of each request, and the largest column count."""
    size, longest = n_columns.size, 0
    first, work = np.zeros(size + 1, np.int64), np.empty(size, np.int64)
    for k in range(slot.size):
        first[slot[k] + 1] += 1
    for q in range(size):
        work[q] = 1 + first[q + 1] + (0 if _is_simple(view, q) else n_columns[q])
        first[q + 1] += first[q]
        longest = max(longest, n_columns[q])
    return first, work, longest


@kernel(allocates=True)
def _measure_all(  # type: ignore[no-untyped-def]
    view: StoreView, n_columns, y, marginal, forced, curved, slot, column, value
):
    """Measure all requests as one chunk; return (figures, losses, activity, weight, step)."""
    first, _, longest = _work(view, n_columns, slot)
    loss, size = np.zeros(n_columns.size), n_columns.size
    figures, activity, weight, step = _measure_chunk(
        view, n_columns, y, marginal, forced, curved, first, column, value, 0, size, longest, loss
    )
    return figures, loss, activity, weight, step


@kernel(allocates=True)
def _measure_chunk(  # type: ignore[no-untyped-def]  # noqa: C901 - one pass
    view: StoreView, n_columns, y, marginal, forced, curved, first, column, value, begin, end, longest, loss
):
    activity, weight = np.zeros(y.size), np.zeros(y.size)
    step, dense = np.full(y.size, np.inf), np.zeros(longest)
    objective, decided, spent, along, squares, lost_by_all, local = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for q in range(begin, end):
        if n_columns[q] == 0:
            continue
        usage, shift, stride = view.usage[q], np.uint64(0), np.uint64(0)
        if view.n_columns[q] > 0:  # the view may have no columns of the request
            shift, stride = coefficients_of(view, usage)
        exact, total, level = view.exact[q], view.total[q], marginal[q]
        summed, simple = total < np.inf, _is_simple(view, q)
        lost, mass, taken = 0.0, 0.0, 0.0
        for k in range(first[q], first[q + 1]):
            j, xj = column[k], value[k]
            c, paid, cap = cost_of(view, q, j), 0.0, cap_of(view, q, j)
            most = min(cap, total)
            used_up = abs(xj) > _ZERO_TOLERANCE * most
            enter, leave = entries_of(view, usage, j, j + 1)
            for e in range(enter, leave):
                r = np.uint32(view.row[e])
                used = view.coefficient[shift + stride * e]
                paid += y[r] * used
                activity[r] += used * xj
                weight[r] += abs(used * xj)
                if used_up and used != 0.0:
                    step[r] = min(step[r], abs(used) * most)
            objective += c * xj
            decided += (c - forced[q] if c > 0.0 else c + forced[q]) * xj
            spent += (abs(c) - forced[q]) * abs(xj)
            mass += xj
            taken += abs(xj)
            if curved[q]:
                along += (c + paid) * xj
            elif simple:
                lost += (c + paid - level) * xj
            else:
                dense[j] = xj
            beyond = max(-xj, xj - cap)
            if beyond > 0.0:
                squares += beyond * beyond
                local = max(local, beyond / max(abs(xj), cap if xj >= 0.0 and cap < np.inf else 0.0))
        if summed:
            over = mass - total
            if over > 0.0 or exact:
                squares += over * over
                if over != 0.0:
                    local = max(local, abs(over) / max(total, taken))
            if not curved[q] and over != 0.0:
                lost += level * over
        if not (simple or curved[q]):  # columns that are not in the view contribute 0
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
    return (objective, decided, spent, along, squares, lost_by_all, local), activity, weight, step
