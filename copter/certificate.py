"""Certificates: residuals, bound and gap of an answer, recomputed from the program and nothing else.

For an allocation x and prices y (y_i > 0 pays for an upper bound, y_i < 0 for a lower one)

    objective        c'x + sum_q phi_q(a_q'x_q)
    bound            d(y) of :mod:`copter.pricing`, <= the optimum of the LP and of the MILP
    primal residual  || violations of rows, sum rows and boxes ||_2,  relative to 1 + || finite bounds ||_2
    dual residual    || reduced costs that no bound can absorb ||_2,   relative to 1 + || c ||_2
    gap              | objective - bound |,                            relative to max(1, | objective |)

The first two denominators are PDLP's (Applegate et al. 2021, section 2); the third is at least as strict as
PDLP's 1 + |objective| + |bound|.  Prices of the wrong sign (on a bound that is infinite) count as dual
residual and are left out of the bound.  If the dual residual is 0 the bound is rigorous, as it always is
for programs whose columns are all bounded or held by a sum row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.pricing import Pricing, StoreView, dot, price, run_chunks, view_of
from copter.store import AT_MOST, NO_TOTAL, ConstraintStore, spread
from copter.terms import TermBatch

_CHUNK = 50_000
"""Nonzeros whose usage is summed in one piece, about."""


class SparseX(NamedTuple):
    """Nonzeros of an allocation: request slot, column, value; ascending by slot and column."""

    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float64]

    def where(self, keep: NDArray[np.bool_]) -> SparseX:
        """The part of it that a mask keeps."""
        return SparseX(self.slot[keep], self.column[keep], self.value[keep])


NOTHING = SparseX(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
"""The allocation that is 0."""


def merged(first: SparseX, second: SparseX) -> SparseX:
    """Union of allocations of different requests."""
    slot = np.concatenate((first.slot, second.slot))
    order = np.argsort(slot, kind="stable")  # merges two ascending runs
    column, value = (np.concatenate(pair)[order] for pair in zip(first[1:], second[1:], strict=True))
    return SparseX(slot[order], column, value)


@dataclass(frozen=True)
class Residuals:
    """Primal residual, dual residual and gap, all relative or all absolute."""

    primal: float
    dual: float
    gap: float


@dataclass(frozen=True)
class Certificate:
    """Quality of an answer, recomputed from the program.

    Attributes
    ----------
    objective, bound : float
    relative, absolute : Residuals
    """

    objective: float
    bound: float
    relative: Residuals
    absolute: Residuals

    def within(self, tolerance: float) -> bool:
        """Whether all relative residuals are at most ``tolerance``."""
        worst = max(self.relative.primal, self.relative.dual, self.relative.gap)
        return bool(worst <= tolerance)  # False for NaN


def certify(
    store: ConstraintStore,
    x: SparseX,
    y: NDArray[np.float64],
    pricing: Pricing | None = None,
    *,
    threads: int | None = None,
) -> Certificate:
    """Certificate of the allocation ``x`` at the prices ``y`` (one a row slot).

    ``pricing`` may hand over a pass at the same prices that was made anyway.
    """
    rows = store.rows
    lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
    wrong = np.where(y > 0, np.isinf(upper), (y < 0) & np.isinf(lower))
    signed = np.where(wrong, 0.0, y)
    if pricing is None or wrong.any():
        pricing = price(store, signed, threads=threads)
    paid = np.where(signed > 0, upper, np.where(signed < 0, lower, 0.0))
    bound = pricing.request_bound - dot(signed, np.where(signed == 0, 0.0, paid))
    objective, local = _objective_and_local(store, x)
    activity = row_activity(store, x, threads=threads)
    excess = np.maximum(0.0, np.maximum(activity - upper, lower - activity))
    primal = float(np.sqrt(dot(excess, excess) + local))
    dual = float(np.hypot(pricing.violation, np.linalg.norm(y[wrong])))
    gap = abs(objective - bound) if np.isfinite(objective) else np.inf
    absolute = Residuals(primal, dual, gap)
    scale = right_hand_norm(store)
    relative = Residuals(
        primal / (1.0 + scale),
        dual / (1.0 + _cost_norm(store) if dual else 1.0),
        gap / max(1.0, abs(objective)) if np.isfinite(objective) else np.inf,
    )
    return Certificate(objective, bound, relative, absolute)


def right_hand_norm(store: ConstraintStore) -> float:
    """Euclidean norm of all finite row bounds (the larger of two) and totals."""
    rows, table = store.rows, store.requests
    lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
    below, above = (np.where(np.isfinite(bound), abs(bound), 0.0) for bound in (lower, upper))
    bounds = np.maximum(below, above)
    totals = np.where(table.relation[: table.size] != NO_TOTAL, table.total[: table.size], 0.0)
    return float(np.sqrt(dot(bounds, bounds) + dot(totals, totals)))


def row_activity(
    store: ConstraintStore, x: SparseX, *, absolute: bool = False, threads: int | None = None
) -> NDArray[np.float64]:
    """A x, or |A| |x|, one entry a row slot (dropped rows: arbitrary)."""
    view = view_of(store)
    if absolute:
        view = view._replace(value=abs(view.value))
    value = abs(x.value) if absolute else x.value
    bounds = np.linspace(0, x.slot.size, 2 + x.slot.size // _CHUNK).astype(np.int64)
    n_rows = store.rows.size
    parts = run_chunks(
        lambda k: _activity(view, x.slot, x.column, value, bounds[k], bounds[k + 1], n_rows),
        bounds.size - 1,
        threads,
    )
    activity = np.zeros(n_rows)
    for part in parts:
        activity += part
    return activity


def _cost_norm(store: ConstraintStore) -> float:
    table, slots = store.requests, store.live_requests()
    sizes = table.n_columns[slots]
    costs = np.repeat(table.scale[slots], sizes) * store.costs.cost[spread(table.cost_start[slots], sizes)]
    return float(np.sqrt(dot(costs, costs)))


def _objective_and_local(store: ConstraintStore, x: SparseX) -> tuple[float, float]:
    """The objective, and the squared violations of boxes and sum rows."""
    table = store.requests
    objective, local = _local_terms(view_of(store), table.size, x.slot, x.column, x.value)
    if store.terms:
        objective += TermBatch.of(store).objective(x)
    return objective, local


@kernel
def _activity(view: StoreView, slot, column, value, begin, end, n_rows):  # type: ignore[no-untyped-def]
    activity = np.zeros(n_rows)
    for k in range(begin, end):
        usage = view.usage[slot[k]]
        pointer, entry = view.pointer_start[usage] + column[k], view.entry_start[usage]
        for e in range(entry + view.pointer[pointer], entry + view.pointer[pointer + 1]):
            activity[np.uint32(view.row[e])] += view.value[e] * value[k]
    return activity


@kernel
def _local_terms(view: StoreView, size, slot, column, value):  # type: ignore[no-untyped-def]
    objective, squares = 0.0, 0.0
    sums = np.zeros(size)
    for k in range(slot.size):
        q, j = slot[k], column[k]
        objective += view.scale[q] * view.cost[view.cost_start[q] + j] * value[k]
        sums[q] += value[k]
        cap = view.upper[q] if view.upper_start[q] < 0 else view.uppers[view.upper_start[q] + j]
        beyond = max(0.0, -value[k], value[k] - cap)
        squares += beyond * beyond
    for q in range(size):
        if view.n_columns[q] > 0 and view.relation[q] != NO_TOTAL:
            over = sums[q] - view.total[q]
            if over > 0.0 or view.relation[q] != AT_MOST:
                squares += over * over
    return objective, squares
