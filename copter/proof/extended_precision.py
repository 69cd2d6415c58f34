"""Bound and objective in twice the working precision.

Both are used if the rounding errors of a plain pass are too large, for example if all allocations have almost
equal costs. A number is an unevaluated sum high + low. Products are split exactly (Dekker), and sums keep the
error of each addition (Knuth). So a price has an error of about k^2 eps^2 relative to its k terms.

At prices y, and for any level of each request (the price of its sum row, <= 0 for sum(x) <= total),

    total_q level_q + sum_j min(0, p_j - level_q) upper_j

is a lower bound on the request's part of the bound. The level of a pass in plain precision is accurate
enough.

Source: Ogita, Rump and Oishi, Accurate sum and dot product (2005), algorithm 5.3.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.proof import rigorous
from copter.proof.pricing_kernels import knapsack
from copter.proof.rigorous import exact_products
from copter.store.allocation import SparseX
from copter.store.executor import Part
from copter.store.store import ConstraintStore
from copter.store.view import (
    StoreView,
    cap_of,
    coefficients_of,
    cost_of,
    costs_at,
    entries_of,
    view_of,
)
from copter.sums.compensated import Pair

exact_product = kernel(inlined=True)(rigorous.exact_product)


def extended_bound(store: ConstraintStore, y: NDArray[np.float64]) -> Pair:
    """Return the bound at prices ``y`` of the right signs, without convex terms."""
    rows = store.rows
    paid = np.where(y > 0, rows.upper[: y.size], np.where(y < 0, rows.lower[: y.size], 0.0))
    pairs = store.executor.map(_extended_part, y)
    return _pair([part for pair in pairs for part in pair] + [-each for each in exact_products(y, paid)])


def extended_cost(store: ConstraintStore, x: SparseX) -> Pair:
    """Return the cost of an allocation without convex terms."""
    view, place = store.executor.columns(x.slot, x.column)
    return _pair(exact_products(costs_at(view, x.slot, place), x.value))


def _pair(terms: list[float]) -> Pair:
    high = math.fsum(terms)
    return (high, math.fsum([*terms, -high])) if math.isfinite(high) else (high, 0.0)


def _extended_part(part: Part, y: NDArray[np.float64]) -> Pair:
    high, low = _extended(view_of(part.store), y)
    return float(high), float(low)


@kernel(inlined=True)
def _plus(high, low, more, rest):  # type: ignore[no-untyped-def]
    """Return (high + low) + (more + rest)."""
    whole = high + more
    part = whole - high
    return whole, low + (((high - (whole - part)) + (more - part)) + rest)


@kernel(inner=True)
def _price(view: StoreView, q, j, y):  # type: ignore[no-untyped-def]
    """Return p_j as a normalised pair."""
    high, low = cost_of(view, q, j), 0.0
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        product, lost = exact_product(y[np.uint32(view.row[k])], view.coefficient[shift + stride * k])
        high, low = _plus(high, low, product, lost)
    whole = high + low
    return whole, low - (whole - high)


@kernel(allocates=True)
def _extended(view: StoreView, y):  # type: ignore[no-untyped-def]
    """Return the requests' part of the bound as a pair."""
    bound, bound_low, longest = 0.0, 0.0, 0
    for q in range(view.n_columns.size):
        longest = max(longest, view.n_columns[q])
    p, rest, upper = np.empty(longest), np.empty(longest), np.empty(longest)
    for q in range(view.n_columns.size):
        n, exact, total = view.n_columns[q], view.exact[q], view.total[q]
        if n == 0:
            continue
        capped, level, level_low = False, 0.0, 0.0
        for j in range(n):
            p[j], rest[j] = _price(view, q, j, y)
            upper[j] = cap_of(view, q, j)
            capped = capped or upper[j] < total
        if total < np.inf:
            if capped:
                value, level = knapsack(p, upper, n, exact, total)
                if value == np.inf:
                    return np.inf, 0.0
            else:
                level = np.inf
                for j in range(n):
                    if p[j] < level or (p[j] == level and rest[j] < level_low):
                        level, level_low = p[j], rest[j]
                if not exact and (level > 0.0 or (level == 0.0 and level_low > 0.0)):
                    level, level_low = 0.0, 0.0
            product, lost = exact_product(total, level)
            bound, bound_low = _plus(bound, bound_low, product, lost + total * level_low)
            if not capped:
                continue
        for j in range(n):
            high, low = _plus(p[j], rest[j], -level, -level_low)
            if high + low < 0.0 and upper[j] < np.inf:
                product, lost = exact_product(upper[j], high)
                bound, bound_low = _plus(bound, bound_low, product, lost + upper[j] * low)
    return bound, bound_low
