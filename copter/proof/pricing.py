"""One pass over the whole store at given prices: the certified bound, and the columns worth looking at.

With p = c + A'y, the Lagrangian bound separates over requests:

    d(y) = -(sum_i u_i max(y_i, 0) + l_i min(y_i, 0)) + sum_q min { p_q'x : x in X_q }

and min over X_q is a fractional knapsack: total * min(0, min_j p_j) for sum(x) <= total, total * min_j p_j
for sum(x) == total, sum_j upper_j min(0, p_j) for a box.  The price at which the knapsack of request q is
full, its marginal price m_q, says which columns matter: those with p_j <= m_q + slack.  All others are
zero in every optimum whose prices are near y, so the solver works on the rest (column generation).

A column that is unbounded, and that no sum row holds, adds no finite term when p_j < 0: that is a dual
violation, judged against |c_j| + |a_j|'|y|, and left out of the bound here.  What that means for the bound,
and for one with p_j so near 0 that its sign is doubtful, :mod:`copter.proof.loose` says.

What a request costs in any case is no part of what is decided: with sum(x) == total and costs of one sign,
total times the smallest of them.  The pass finds that forced price f_q on its way.

Requests that share a cost vector and a usage are priced together (:mod:`copter.proof.lower_envelopes`);
requests with a convex term are priced by :mod:`copter.proof.tangents`; all their columns are candidates.

Each part of the store (:mod:`copter.store.executor`) prices its own requests, in chunks on threads.  Sums are
carried so that neither parts nor chunks nor threads change a bit of the result (:mod:`copter.sums`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.parallel import chunk_bounds, one_chunk, run_chunks
from copter.proof.lower_envelopes import groups_of, price_groups
from copter.proof.pricing_kernels import KEEP_ALL, price_all, price_chunk
from copter.proof.tangents import term_bound
from copter.proof.usage_prices import UsagePrices, usage_prices
from copter.store.executor import Columns, Part, by_slot, joined, together
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, view_of
from copter.sums.compensated import Pair, sum_of
from copter.terms.batch import TermBatch

GROUPS_FROM = 500_000
"""Columns up to which requests with shared costs are priced one by one, which is as quick."""


class Pricing(NamedTuple):
    """Result of a pricing pass.

    `request_bound`: sum_q min p_q'x (+ phi_q(a_q'x)) over X_q, without unbounded columns of p < 0; +inf if
    some X_q is empty. `rounding`: by how much rounding may have raised it, at most. `curved_bound`: the part
    of requests with convex terms. `violation`: Euclidean norm of the negative p of unbounded columns. `dual`,
    `curved_dual`: the largest of these relative to |c_j| + |a_j|'|y|, of requests without and with convex
    terms. `doubtful`: whether an unbounded column of requests without terms may have p < 0, rounding
    considered. `marginal` (request slots,): m_q; 0 where no sum row binds. `forced` (request slots,): |f_q|,
    constant cost of a unit of the total; 0 where there may be none. `slot`, `column`: candidates, ascending.
    `slack`: of the candidates; NaN if none were collected. `clock`: the store's revision counter at the pass;
    an edit since then makes it stale.
    """

    request_bound: float
    rounding: float
    curved_bound: float
    violation: float
    dual: float
    curved_dual: float
    doubtful: bool
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
    """Price every column of the store at prices y (row slots,), which are 0 for dropped rows.

    `slack`: collect the columns with p_j <= m_q + slack; None collects none. `cost_factor` on the costs: 0
    prices the columns for a Farkas ray.
    """
    size = store.requests.size
    parts = store.executor.map(_price_part, y, slack, cost_factor, threads, fetch=True)
    slot, column = joined([part.columns for part in parts], size)
    marginal, forced = (
        together([getattr(part, of) for part in parts], size) for of in ("marginal", "forced")
    )
    curved = [pair for part in parts for pair in part.curved]
    return Pricing(
        request_bound=sum_of(chain(curved, (pair for part in parts for pair in part.bound))),
        rounding=sum_of(pair for part in parts for pair in part.rounding),
        curved_bound=sum_of(curved),
        violation=math.sqrt(sum_of(pair for part in parts for pair in part.violation)),
        dual=max(part.dual for part in parts),
        curved_dual=max(part.curved_dual for part in parts),
        doubtful=any(part.doubtful for part in parts),
        marginal=marginal,
        forced=forced,
        slot=slot,
        column=column,
        slack=np.nan if slack is None else slack,
        clock=store.clock,
    )


class _Priced(NamedTuple):
    """Result of a part's pass; sums are lists of pairs (:mod:`copter.sums`), ``columns`` of the program."""

    bound: list[Pair]
    rounding: list[Pair]
    curved: list[Pair]
    violation: list[Pair]
    dual: float
    curved_dual: float
    doubtful: bool
    marginal: NDArray[np.float64]
    forced: NDArray[np.float64]
    columns: Columns


def _price_part(
    part: Part, y: NDArray[np.float64], slack: float | None, cost_factor: float, threads: int | None
) -> _Priced:
    """Price the columns of a part."""
    store = part.store
    view = view_of(store)
    terms = (
        TermBatch.of_part(part) if store.terms and cost_factor else None
    )  # a Farkas ray asks for X_q alone
    nothing = (0.0, 0.0)
    curved, curved_error, curved_dual = (
        (nothing, nothing, 0.0) if terms is None else term_bound(terms, view, y)
    )
    if terms is not None:  # the passes below leave them out
        view = replace(view, n_columns=_without(view.n_columns, terms.slot))
    collect, reach = slack is not None, slack or 0.0
    usages, size = store.usages, view.n_columns.size
    known = usages.references[: usages.size], usages.n_columns[: usages.size]
    grouping = store.vectors.size and slack != np.inf and store.n_variables > GROUPS_FROM
    groups = groups_of(view, KEEP_ALL) if grouping else None
    grouped, grouped_error, more = nothing, nothing, [np.empty(0, np.int64)] * 2
    if groups is None and one_chunk(store.n_variables):
        chunk, marginal, forced = price_all(view, y, *known, cost_factor, collect, reach)
        chunks = [chunk]
    else:
        paid, found = usage_prices(view, y, *known), (np.zeros(size), np.zeros(size))
        if groups is not None:
            grouped, grouped_error, *more = price_groups(
                groups, view, paid, cost_factor, slack, threads, found
            )
            view = replace(view, n_columns=_without(view.n_columns, groups.member))
        chunks = _price_chunks(view, y, paid, cost_factor, slack, threads, found)
        marginal, forced = found
    slot, column = (
        chunks[0][5:]
        if groups is None and len(chunks) == 1
        else (np.concatenate([more[k], *(chunk[5 + k] for chunk in chunks)]) for k in (0, 1))
    )
    if terms is not None and collect:
        slot, column = (np.concatenate(pair) for pair in zip((slot, column), terms.columns, strict=True))
    if terms is not None or groups is not None:
        slot, column = by_slot(slot, column, size)
    return _Priced(
        bound=[grouped, *(chunk[0] for chunk in chunks)],
        rounding=[grouped_error, curved_error, *(chunk[1] for chunk in chunks)],
        curved=[curved],
        violation=[chunk[2] for chunk in chunks],
        dual=max(chunk[3] for chunk in chunks),
        curved_dual=curved_dual,
        doubtful=any(chunk[4] for chunk in chunks),
        marginal=marginal,
        forced=forced,
        columns=(part.slots(slot), column),
    )


def _price_chunks(
    view: StoreView,
    y: NDArray[np.float64],
    paid: UsagePrices,
    cost_factor: float,
    slack: float | None,
    threads: int | None,
    found: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> list[Any]:
    """The pass over each request's own columns, in chunks of requests."""
    bounds, longest = chunk_bounds(view.n_columns), int(view.n_columns.max(initial=0))
    collect, reach = slack is not None, slack or 0.0
    return run_chunks(
        lambda k: price_chunk(
            view,
            y,
            paid,
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


def _without(n_columns: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of columns with none for some requests, which passes leave out then."""
    left = n_columns.copy()
    left[slots] = 0
    return left
