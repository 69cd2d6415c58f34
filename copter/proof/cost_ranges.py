"""Cost ranges of requests, which serve as units of costs where the objective is negligible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.store.executor import Part
from copter.store.store import ConstraintStore
from copter.store.view import cap_of, coefficients_of, cost_of, entries_of, view_of

_SAMPLE = 16


def least_cost_range(store: ConstraintStore, enough: float) -> float:
    """Return the least cost range of any request, or any cost range of at most ``enough``.

    The cost range of a request with a sum row is (second smallest cost - smallest cost) times the largest
    value of a column. The least one serves as the unit of costs where the objective is negligible. Return
    infinity if no request has a choice.
    """
    least = min(store.executor.once(_cost_range_part, 0.0, slots=_sample(store)))
    return least if least <= enough else min(store.executor.map(_cost_range_part, enough))


def _row_limits(store: ConstraintStore) -> NDArray[np.float64]:
    """Return the larger absolute finite bound of each row, (row slots,); 0 without a finite bound."""
    rows = store.rows
    limits: NDArray[np.float64] = _limits(rows.lower[: rows.size], rows.upper[: rows.size])
    return limits


@kernel(allocates=True)
def _limits(lower, upper):  # type: ignore[no-untyped-def]
    """Return :func:`_row_limits` of given bounds."""
    limits = np.zeros(lower.size)
    for i in range(lower.size):
        for bound in (lower[i], upper[i]):
            if np.isfinite(bound):
                limits[i] = max(limits[i], abs(bound))
    return limits


@kernel(inner=True)
def _most(view, limit, q, j):  # type: ignore[no-untyped-def]
    """Return the largest value that a column's bound, its request's total and its widest row allow."""
    most = min(cap_of(view, q, j), view.total[q])
    if view.exact[q]:
        return most
    widest = 0.0
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for e in range(first, last):
        value = view.coefficient[shift + stride * e]
        if value != 0.0:
            widest = max(widest, limit[np.uint32(view.row[e])] / abs(value))
    return min(most, widest) if widest > 0.0 else most


def _sample(store: ConstraintStore) -> NDArray[np.int64]:
    """Return an evenly spaced sample of the requests."""
    n = store.requests.size
    return np.arange(0, n, max(1, n // _SAMPLE))


def _cost_range_part(part: Part, enough: float, slots: NDArray[np.int64] | None = None) -> float:
    """Return the least cost range of some or all requests of a part, or any of at most ``enough``."""
    store = part.store
    some = np.arange(store.requests.size) if slots is None else slots
    return float(_cost_range_of(view_of(store), _row_limits(store), enough, some))


@kernel
def _cost_range_of(view, limit, enough, slots):  # type: ignore[no-untyped-def]
    """Return the least cost range of requests, or the first of at most ``enough``; inf without a choice."""
    least = np.inf
    for q in slots:
        if least <= enough:
            break
        summed = view.total[q] < np.inf
        best, next_best, most, first = np.inf, np.inf, 0.0, np.int64(-1)
        if summed and not view.exact[q]:
            best = 0.0
        for j in range(view.n_columns[q]):
            c, cap = cost_of(view, q, j), cap_of(view, q, j)
            if not cap > 0.0:
                continue
            if not summed:
                continue
            noise = 1e-12 * max(abs(c), abs(best) if best < np.inf else 0.0)
            if c < best - noise:
                best, next_best, first = c, best, np.int64(j)
            elif c > best + noise and c < next_best:
                next_best = c
        if first >= 0:
            most = _most(view, limit, q, first)
        if next_best < np.inf and most > 0.0:
            least = min(least, (next_best - best) * most)
    return least
