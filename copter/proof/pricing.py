"""Pricing pass: the certified bound at given prices, and the candidate columns near the optimum.

With p = c + A'y, the Lagrangian bound separates over requests:

    d(y) = -(sum_i u_i max(y_i, 0) + l_i min(y_i, 0)) + sum_q min { p_q'x : x in X_q }

The minimum over X_q is a fractional knapsack: total * min(0, min_j p_j) for sum(x) <= total, total * min_j
p_j for sum(x) == total, sum_j upper_j min(0, p_j) for a box. The marginal price m_q of request q is the price
at which its knapsack is full. Candidates are the columns with p_j <= m_q + slack. All other columns are 0 in
every optimum with prices near y, so the solver works on the candidates (column generation).

Every column has a finite upper bound, or its request has a sum row (:mod:`copter.program.bounded`). So the
bound is finite at any prices.

The forced cost of a request is the part of its cost that every allocation has: with sum(x) == total and costs
of one sign, total times the smallest |c_j|. The pass computes the forced price f_q of a unit of the total.

Requests with a convex term are priced by :mod:`copter.proof.tangents`, and all their columns are candidates.

Each part of the store (:mod:`copter.store.executor`) prices its own requests, in chunks on threads. Sums are
computed so that the result does not depend on parts, chunks or threads in any bit (:mod:`copter.sums`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.parallel import chunk_bounds, one_chunk, run_chunks
from copter.proof.pricing_kernels import price_all, price_chunk
from copter.proof.tangents import term_bound
from copter.proof.usage_prices import UsagePrices, usage_prices
from copter.store.executor import Columns, Part, by_slot, joined, together
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, view_of
from copter.sums.compensated import Pair, sum_of
from copter.terms.batch import TermBatch


class Pricing(NamedTuple):
    """Result of a pricing pass.

    Attributes
    ----------
    request_bound : float
        sum_q min p_q'x (+ phi_q(a_q'x)) over X_q. +inf if an X_q is empty.
    rounding : float
        Bound on the rounding error of `request_bound`.
    curved_bound : float
        Part of `request_bound` from requests with convex terms.
    marginal : ndarray, shape (request slots,)
        Marginal prices m_q; 0 if the sum row is not active.
    forced : ndarray, shape (request slots,)
        |f_q|, the constant cost of a unit of the total; 0 if no constant cost was found.
    slot, column : ndarrays
        Candidates, ascending.
    slack : float
        Slack of the candidates; NaN if none were collected.
    clock : int
        Revision of the store at the pass. The result is invalid after an edit.
    """

    request_bound: float
    rounding: float
    curved_bound: float
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

    Collect the candidates with p_j <= m_q + `slack`, or no candidates if `slack` is None. Costs are
    multiplied by `cost_factor`, which is 0 for a Farkas ray.
    """
    size = store.requests.size
    parts = store.executor.map(_price_part, y, slack, cost_factor, threads)
    slot, column = joined([part.columns for part in parts], size)
    curved = [pair for part in parts for pair in part.curved]
    return Pricing(
        request_bound=sum_of([*curved, *(pair for part in parts for pair in part.bound)]),
        rounding=sum_of([pair for part in parts for pair in part.rounding]),
        curved_bound=sum_of(curved),
        marginal=together([part.marginal for part in parts], size),
        forced=together([part.forced for part in parts], size),
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
    marginal: NDArray[np.float64]
    forced: NDArray[np.float64]
    columns: Columns


def _price_part(
    part: Part, y: NDArray[np.float64], slack: float | None, cost_factor: float, threads: int | None
) -> _Priced:
    """Price the columns of a part."""
    store = part.store
    view = view_of(store)
    terms = TermBatch.of_part(part) if store.terms and cost_factor else None  # a Farkas ray needs X_q only
    nothing = (0.0, 0.0)
    curved, curved_error = (nothing, nothing) if terms is None else term_bound(terms, view, y)
    if terms is not None:  # the pass below skips their requests
        left = view.n_columns.copy()
        left[terms.slot] = 0
        view = replace(view, n_columns=left)
    collect, reach = slack is not None, slack or 0.0
    usages, size = store.usages, view.n_columns.size
    known = usages.references[: usages.size], usages.n_columns[: usages.size]
    if one_chunk(store.n_variables):
        chunk, marginal, forced = price_all(view, y, *known, cost_factor, collect, reach)
        chunks = [chunk]
    else:
        paid, found = usage_prices(view, y, *known), (np.zeros(size), np.zeros(size))
        chunks = _price_chunks(view, y, paid, cost_factor, collect, reach, threads, found)
        marginal, forced = found
    slot, column = (
        chunks[0][2:]
        if len(chunks) == 1
        else (np.concatenate([chunk[2 + k] for chunk in chunks]) for k in (0, 1))
    )
    if terms is not None and collect:
        more = terms.columns
        slot, column = by_slot(np.concatenate((slot, more[0])), np.concatenate((column, more[1])), size)
    return _Priced(
        bound=[chunk[0] for chunk in chunks],
        rounding=[curved_error, *(chunk[1] for chunk in chunks)],
        curved=[curved],
        marginal=marginal,
        forced=forced,
        columns=(part.slots(slot), column),
    )


def _price_chunks(
    view: StoreView,
    y: NDArray[np.float64],
    paid: UsagePrices,
    cost_factor: float,
    collect: bool,
    reach: float,
    threads: int | None,
    found: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> list[Any]:
    """Price each request separately, in chunks of requests."""
    bounds, longest = chunk_bounds(view.n_columns), int(view.n_columns.max(initial=0))
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
