"""One pass over the whole store at given prices: the certified bound, and the columns worth looking at.

With p = c + A'y, the Lagrangian bound separates over requests (DESIGN of the certificate):

    d(y) = -(sum_i u_i max(y_i, 0) + l_i min(y_i, 0)) + sum_q min { p_q'x : x in X_q }

and min over X_q is a fractional knapsack: total * min(0, min_j p_j) for sum(x) <= total, total * min_j p_j
for sum(x) == total, sum_j upper_j min(0, p_j) for a box.  The price at which the knapsack of request q is
full, its marginal price m_q, says which columns matter: those with p_j <= m_q + slack.  All others are
zero in every optimum whose prices are near y, so the solver works on the rest (column generation).

A column that is unbounded, and that no sum row holds, adds no finite term when p_j < 0: that is a dual
violation, judged against |c_j| + |a_j|'|y|, and left out of the bound.

What a request costs in any case is no part of what is decided: with sum(x) == total and costs of one sign,
total times the smallest of them.  The pass finds that forced price f_q on its way.

Requests that share a cost vector and a usage are priced together (:mod:`copter.proof.hulls`); requests with a
convex term are priced by :mod:`copter.proof.tangents`; all their columns are candidates.

Work is split into a fixed number of chunks of requests whatever the number of threads, and reduced in
order: the same input gives bitwise the same output.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.extremes import greater, lesser
from copter.kernels import kernel, loose_kernel
from copter.parallel import chunk_bounds, one_chunk, run_chunks
from copter.proof.hulls import groups_of, longer, price_groups
from copter.proof.tangents import term_bound
from copter.store.store import AT_MOST, EXACTLY, LACKING, NO_TOTAL, ConstraintStore
from copter.store.view import (
    StoreView,
    coefficients_of,
    cost_of,
    entries_of,
    fill_caps,
    fill_costs,
    paid_for,
    view_of,
)
from copter.store.where import by_slot
from copter.terms.batch import TermBatch

_STRIP = 64
GROUPS_FROM = 500_000
"""Columns up to which those of requests that share costs are looked at one by one: it is as quick."""
KEEP_ALL = 8
"""Requests of at most so many columns are never screened: all their columns are candidates."""


class Pricing(NamedTuple):
    """What a pass found.

    Attributes
    ----------
    request_bound : float
        sum_q min p_q'x (+ phi_q(a_q'x)) over X_q, unbounded columns with p < 0 left out; +inf if some
        X_q is empty.
    curved_bound : float
        The part of it that requests with convex terms have.
    violation : float
        Euclidean norm of the negative p of unbounded columns.
    dual, curved_dual : float
        The largest of them relative to |c_j| + |a_j|'|y|; of requests without and with convex terms.
    marginal : (request slots,) ndarray
        Marginal price m_q; 0 where no sum row binds.
    forced : (request slots,) ndarray
        |f_q|: what a unit of the request's total costs in any case; 0 where that may be nothing.
    slot, column : (k,) ndarrays
        Candidate columns, ascending by slot and column.
    slack : float
        Slack of the candidates; nan if none were collected.
    clock : int
        The store's clock at the pass: an edit since then makes it stale.
    """

    request_bound: float
    curved_bound: float
    violation: float
    dual: float
    curved_dual: float
    marginal: NDArray[np.float64]
    forced: NDArray[np.float64]
    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    slack: float
    clock: int


def price(
    store: ConstraintStore,
    y: NDArray[np.float64],
    *,
    slack: float | None = None,
    cost_factor: float = 1.0,
    threads: int | None = None,
) -> Pricing:
    """Price every column of the store.

    Parameters
    ----------
    store : ConstraintStore
    y : (row slots,) ndarray
        Price of each row slot; dropped rows must have 0.
    slack : float, optional
        Collect the columns with p_j <= m_q + slack; None collects nothing.
    cost_factor : float
        Factor on the costs: 0 prices the columns for a Farkas ray.
    threads : int, optional
        Default: all processors that this process may use.

    Returns
    -------
    Pricing
    """
    view = view_of(store)
    terms = TermBatch.of(store) if store.terms and cost_factor else None  # a Farkas ray asks for X_q alone
    curved, curved_dual = (0.0, 0.0) if terms is None else term_bound(terms, view, y)
    if terms is not None:  # the passes below leave them out
        view = view._replace(n_columns=without(view.n_columns, terms.slot))
    collect, reach = slack is not None, slack or 0.0
    usages, size = store.usages, view.n_columns.size
    known = usages.references[: usages.size], usages.n_columns[: usages.size]
    grouping = store.vectors.size and slack != np.inf and store.n_variables > GROUPS_FROM
    groups = groups_of(view, KEEP_ALL) if grouping else None
    grouped, more = 0.0, [np.empty(0, np.int64)] * 2
    if groups is None and one_chunk(store.n_variables):
        part, marginal, forced = _price_all(view, y, *known, cost_factor, collect, reach)
        parts = [part]
    else:
        paid, found = _usage_prices(view, y, *known), (np.zeros(size), np.zeros(size))
        if groups is not None:
            grouped, *more = price_groups(groups, view, paid, cost_factor, slack, threads, found)
            view = view._replace(n_columns=without(view.n_columns, groups.member))
        parts = _price_chunks(view, y, paid, cost_factor, slack, threads, found)
        marginal, forced = found
    bound, violation, dual = curved + grouped, 0.0, 0.0
    for part in parts:
        bound += part[0]
        violation += part[1]
        dual = max(dual, part[2])
    slot, column = (
        parts[0][3:]
        if groups is None and len(parts) == 1
        else (np.concatenate([more[k], *(part[3 + k] for part in parts)]) for k in (0, 1))
    )
    if terms is not None and collect:
        slot, column = (np.concatenate(pair) for pair in zip((slot, column), terms.columns, strict=True))
    if terms is not None or groups is not None:
        slot, column = by_slot(slot, column, size)
    used = np.nan if slack is None else slack
    root = float(np.sqrt(violation))
    return Pricing(bound, curved, root, dual, curved_dual, marginal, forced, slot, column, used, store.clock)


def _price_chunks(
    view: StoreView,
    y: NDArray[np.float64],
    paid: tuple[NDArray[np.int64], NDArray[np.float64]],
    cost_factor: float,
    slack: float | None,
    threads: int | None,
    found: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> list[Any]:
    """The pass over each request's own columns, in chunks of requests."""
    bounds, longest = chunk_bounds(view.n_columns), int(view.n_columns.max(initial=0))
    collect, reach = slack is not None, slack or 0.0
    return run_chunks(
        lambda k: _price_chunk(
            view,
            y,
            *paid,
            cost_factor,
            bounds[k],
            bounds[k + 1],
            longest,
            collect,
            reach,
            *found,
        ),
        bounds.size - 1,
        threads,
    )


def without(n_columns: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of columns with none for some requests, which passes leave out then.

    Parameters
    ----------
    n_columns : (request slots,) ndarray
    slots : (k,) ndarray

    Returns
    -------
    (request slots,) ndarray
    """
    left = n_columns.copy()
    left[slots] = 0
    return left


@kernel
def _usage_prices(view, y, references, n_columns):  # type: ignore[no-untyped-def]
    """A'y of every usage that several requests share; offset -1 where it must be computed on the fly."""
    offset, length = np.full(references.size, -1), 0
    for usage in range(references.size):
        if references[usage] > 1:
            offset[usage] = length
            length += n_columns[usage]
    prices = np.empty(length)
    for usage in range(references.size):
        if offset[usage] >= 0:
            for j in range(n_columns[usage]):
                prices[offset[usage] + j] = paid_for(view, usage, j, y)
    return offset, prices


@loose_kernel
def _strip_minima(factor, cost, prices, strip):  # type: ignore[no-untyped-def]
    """The minimum of factor * cost + A'y of a shared usage, of each strip of columns and of all.

    Returns that of all, and the least and the largest of factor * cost.  The sums themselves are not kept:
    few strips are looked at again.
    """
    n = cost.size
    low, least, most = np.inf, np.inf, -np.inf
    for s in range(n // _STRIP):
        own, paid = cost[s * _STRIP : (s + 1) * _STRIP], prices[s * _STRIP : (s + 1) * _STRIP]
        smallest = np.inf
        for j in range(_STRIP):
            c = np.float64(own[j])
            smallest = lesser(factor * c + paid[j], smallest)
            least, most = lesser(c, least), greater(c, most)
        strip[s] = smallest
        low = lesser(smallest, low)
    if n % _STRIP:
        smallest = np.inf
        for j in range(n - n % _STRIP, n):
            c = np.float64(cost[j])
            smallest = lesser(factor * c + prices[j], smallest)
            least, most = lesser(c, least), greater(c, most)
        strip[n // _STRIP] = smallest
        low = lesser(smallest, low)
    return low, factor * least, factor * most


@loose_kernel
def _fill_shared(factor, cost, prices, p):  # type: ignore[no-untyped-def]
    """p = factor * cost + A'y of columns of a shared usage."""
    for j in range(cost.size):
        p[j] = factor * cost[j] + prices[j]


@kernel
def _fill_private(view, y, factor, cost, start, usage, n, p, strip):  # type: ignore[no-untyped-def]
    """As `_fill_shared` and `_strip_minima`, A'y summed from the usage's entries."""
    low, least, most = np.inf, np.inf, -np.inf
    for s in range((n + _STRIP - 1) // _STRIP):
        smallest = np.inf
        for j in range(s * _STRIP, min(n, (s + 1) * _STRIP)):
            c = factor * cost[start + j]
            v = c + paid_for(view, usage, j, y)
            p[j] = v
            least, most = min(least, c), max(most, c)
            if v < smallest:
                smallest = v
        strip[s] = smallest
        if smallest < low:
            low = smallest
    return low, least, most


@kernel
def _knapsack(p, upper, n, relation, total):  # type: ignore[no-untyped-def]
    """(value, marginal price) of min p'x over 0 <= x <= upper, sum(x) <= total or == total.

    Columns are taken in the order of their prices, found price by price: a column that cannot take all of
    what is left is rare, so few prices are looked for.  What the bounds lack of a total but for rounding is
    no contradiction.
    """
    left, value, last = total, 0.0, -np.inf
    while left > 0.0:
        level = np.inf
        for j in range(n):
            if p[j] > last and p[j] < level and upper[j] > 0.0:
                level = p[j]
        if level == np.inf or (relation == AT_MOST and level >= 0.0):
            break
        for j in range(n):
            if p[j] == level:
                take = min(left, upper[j])
                value += level * take
                left -= take
        last = level
    if relation == EXACTLY:
        if left > LACKING * total:
            return np.inf, np.inf
        return value, (last if last > -np.inf else 0.0)
    return value, (last if left <= 0.0 and last > -np.inf else 0.0)


@kernel
def _forced_price(cost, factor, upper, n, total):  # type: ignore[no-untyped-def]
    """|f_q| of a request with sum(x) == total whose columns have bounds: its cheapest allocation's."""
    least, most = np.inf, -np.inf
    for j in range(n):
        if upper[j] > 0.0:
            least, most = min(least, factor * cost[j]), max(most, factor * cost[j])
    if not (least > 0.0 or most < 0.0) or total <= 0.0:
        return 0.0
    sized = np.empty(n)
    for j in range(n):
        sized[j] = abs(factor * cost[j])
    value, _ = _knapsack(sized, upper, n, EXACTLY, total)
    return value / total if value < np.inf else 0.0


@kernel
def _relative_violation(view, y, q, j, factor, p):  # type: ignore[no-untyped-def]
    """-p_j relative to |c_j| + |a_j|'|y|."""
    size = abs(factor * cost_of(view, q, j))
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        size += abs(y[np.uint32(view.row[k])] * view.coefficient[shift + stride * k])
    return -p / size


@kernel
def _price_chunk(  # type: ignore[no-untyped-def]
    view, y, offset, shared, cost_factor, first, last, longest, collect, slack, marginal, forced
):
    p, own = np.empty(longest), np.empty(longest)
    upper = np.empty(longest)
    strip = np.empty((longest + _STRIP - 1) // _STRIP)
    slots = np.empty(256 if collect else 0, np.int64)
    columns = np.empty(256 if collect else 0, np.int64)
    found = 0
    bound, violation, dual = 0.0, 0.0, 0.0
    for q in range(first, last):
        n = view.n_columns[q]
        if n == 0:
            continue
        factor, start, usage = cost_factor * view.scale[q], view.cost_start[q], view.usage[q]
        relation, total, at = view.relation[q], view.total[q], offset[usage]
        uncut = total == 0.0 or (view.upper_start[q] < 0 and view.upper[q] >= total)
        simple = relation != NO_TOTAL and uncut  # the best column can take all of the total
        patched = view.vector[q] >= 0 and view.override_length[q] > 0
        if patched:
            fill_costs(view, q, cost_factor, own)
        if patched and at >= 0:
            low, least, most = _strip_minima(1.0, own[:n], shared[at : at + n], strip)
            _fill_shared(1.0, own[:n], shared[at : at + n], p)
        elif patched:
            low, least, most = _fill_private(view, y, 1.0, own, 0, usage, n, p, strip)
        elif at >= 0:
            cost, paid = view.cost[start : start + n], shared[at : at + n]
            low, least, most = _strip_minima(factor, cost, paid, strip)
            if not simple:
                _fill_shared(factor, cost, paid, p)
        else:
            low, least, most = _fill_private(view, y, factor, view.cost, start, usage, n, p, strip)
        level = 0.0
        if relation == NO_TOTAL:
            fill_caps(view, q, upper)
            for j in range(n):
                if p[j] < 0.0:
                    cap = upper[j]
                    if cap == np.inf:
                        violation += p[j] * p[j]
                        dual = max(dual, _relative_violation(view, y, q, j, cost_factor, p[j]))
                    elif cap > 0.0:
                        bound += p[j] * cap
        elif simple:
            level = low if relation == EXACTLY else min(0.0, low)
            bound += total * level
            if relation == EXACTLY:
                forced[q] = max(0.0, least, -most)
        else:
            fill_caps(view, q, upper)
            value, level = _knapsack(p, upper, n, relation, total)
            bound += value
            if relation == EXACTLY:
                if patched:
                    forced[q] = _forced_price(own, 1.0, upper, n, total)
                else:
                    forced[q] = _forced_price(view.cost[start : start + n], factor, upper, n, total)
        marginal[q] = level
        if not collect:
            continue
        everything = relation == NO_TOTAL or n <= KEEP_ALL
        limit = np.inf if everything else level + slack
        if found + n > slots.size:
            slots = longer(slots, found, 2 * slots.size + n)
            columns = longer(columns, found, slots.size)
        for s in range((n + _STRIP - 1) // _STRIP):
            if strip[s] <= limit:
                a, b = s * _STRIP, min(n, (s + 1) * _STRIP)
                if simple and at >= 0 and not patched:
                    _fill_shared(factor, view.cost[start + a : start + b], shared[at + a : at + b], p[a:b])
                for j in range(a, b):
                    if p[j] <= limit:
                        slots[found] = q
                        columns[found] = j
                        found += 1
    return bound, violation, dual, slots[:found], columns[:found]


@kernel
def _price_all(view, y, references, usage_columns, cost_factor, collect, slack):  # type: ignore[no-untyped-def]
    """All requests as one chunk: (what a chunk returns, marginal, forced)."""
    size, longest = view.n_columns.size, 0
    for q in range(size):
        longest = max(longest, view.n_columns[q])
    offset, shared = _usage_prices(view, y, references, usage_columns)
    marginal, forced = np.zeros(size), np.zeros(size)
    part = _price_chunk(
        view, y, offset, shared, cost_factor, 0, size, longest, collect, slack, marginal, forced
    )
    return part, marginal, forced
