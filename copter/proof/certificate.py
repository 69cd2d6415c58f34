"""Certificates: feasibility, bound and gap of an answer, recomputed from the program and nothing else.

For an allocation x and prices y (y_i > 0 pays for an upper bound, y_i < 0 for a lower one)

    objective        c'x + sum_q phi_q(a_q'x_q)
    bound            d(y) of :mod:`copter.proof.pricing`, lowered by what rounding may have added to it: no
                     more than the optimum of the LP and of the MILP, in exact arithmetic
    primal residual  the largest excess of a row, a sum row or a box, each relative to its own size; or what
                     all excesses of rows are worth at y, relative to the size of the gap, if that is more
    dual residual    the largest reduced cost that no bound can absorb, relative to |c_j| + |a_j|'|y|
    gap              (objective - bound) / size

The size of the gap can be read off: it is the larger of |objective - f| and |bound - f|, f what every
allocation costs (:mod:`copter.proof.pricing`).  Where that is next to nothing, other figures of the program
take its place (:class:`GapDenominator` says which): a thousandth of the least cost_range of any request, or
ten million times the rounding error of what objective and bound are summed up from.  So a program whose every
optimum costs 0 has an answer, and costs that cancel hide nothing.

No figure depends on units, on a bound that nobody uses, or on a cost that a request's own sum row forces on
it.  (PDLP's norms, Applegate et al. 2021, section 2, relate all violations to one norm of all bounds, so that
a single large bound switches feasibility off.)

Prices of the wrong sign (on a bound that is infinite) count as 0.  The bound is minus infinity, and the gap
infinite, if a column that nothing bounds, not even the rows, has a negative reduced cost, however small
(:mod:`copter.proof.loose`).  Solvers measure progress by ``near_gap`` then, which leaves that out.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.proof.extended_precision import extended_bound, extended_cost
from copter.proof.loose import loose_part, proved_bound, signed_prices
from copter.proof.measure import Measures, measure, row_figures
from copter.proof.pricing import Pricing, price
from copter.proof.rest import InactiveSums
from copter.proof.tangents import term_bound
from copter.proof.units import LooseColumns, least_cost_range
from copter.store.allocation import SparseX
from copter.store.store import NO_TOTAL, ConstraintStore
from copter.terms.batch import TermBatch

RELATIVE_FLOOR = 1e-9
"""Floor of the denominator of a relative reduced cost: this share of the gap's denominator, per natural unit
of the column.
"""
_LITTLE = 1e-3
"""Share of the least cost range of any request up to which an objective is negligible."""
_NOISE = 1e7
"""An objective of up to so many times its rounding error is negligible."""
_TIGHTEN = 1e-8
"""Rounding errors of more than this share of the size ask for a bound in twice the precision."""
_EPS, _TIGHTER = 2.0**-52, 2.0**-40
"""Rounding error of the rows' terms; of a bound in twice the precision, as a share of a plain one's."""
_CLOSE, _NEARLY = 1e-2, 1e-3
"""Gap and dual residual below which rounding errors and doubtful signs are checked."""


class GapDenominator(enum.StrEnum):
    """Kind of the denominator of a gap."""

    OBJECTIVE = "the objective, without what every allocation costs"
    COST_RANGE = "a thousandth of the least cost_range of any request"
    ROUNDING = "ten million times the rounding error of the objective"


@dataclass(frozen=True)
class Residuals:
    """Primal residual, dual residual and gap.

    The primal residual is the violation of rows, sum rows and boxes; the dual residual that of reduced costs.
    If relative, each is the largest violation in its own scale; if absolute, the Euclidean norm of all.
    """

    primal: float
    dual: float
    gap: float


@dataclass(frozen=True)
class Certificate:
    """Quality of an answer, recomputed from the program.

    Attributes
    ----------
    gap_denominator : float
        Denominator of the gap.
    constant_cost : float
        f, the constant cost that every allocation has.
    rounding : float
        Rounding error of the terms of objective and bound, and of constant costs of requests with a choice. A
        gap of at most this is 0.
    near_gap, near_bound : float
        Gap and bound if reduced costs that no bound can absorb, and rounding errors, counted as 0.
    """

    objective: float
    bound: float
    gap_denominator: float
    gap_denominator_kind: GapDenominator
    constant_cost: float
    relative: Residuals
    absolute: Residuals
    rounding: float
    near_gap: float
    near_bound: float

    def within(self, tolerance: float) -> bool:
        """Whether the answer is proved to be optimal within a relative tolerance.

        The gap and the primal residual are compared.  The dual residual enters through the bound: a negative
        reduced cost of a column without a bound lowers the bound by as much as the rows allow, or makes it
        minus infinity.
        """
        relative = self.relative
        return relative.gap <= tolerance and relative.primal <= tolerance and math.isfinite(self.bound)

    def nearly(self, tolerance: float) -> bool:
        """Whether only reduced costs that no bound can absorb, or a far one, are between it and a proof."""
        parts = (self.relative.primal, self.relative.dual, self.near_gap)
        return not self.within(tolerance) and all(part <= tolerance for part in parts)


def certify(
    store: ConstraintStore,
    x: SparseX,
    y: NDArray[np.float64],
    pricing: Pricing | None = None,
    *,
    threads: int | None = None,
) -> Certificate:
    """Return the certificate of an allocation x at prices y.

    Its figures are those of costs to be minimised, which the store of every program has.

    Parameters
    ----------
    y : (row slots,) ndarray
    pricing : Pricing, optional
        A pricing pass at the same prices, if there is one already.
    """
    return measured_certificate(store, x, y, pricing, threads=threads)[0]


def measured_certificate(
    store: ConstraintStore,
    x: SparseX,
    y: NDArray[np.float64],
    pricing: Pricing | None = None,
    *,
    threads: int | None = None,
    rest: InactiveSums | None = None,
) -> tuple[Certificate, Measures]:
    """Return the certificate of :func:`certify` with its measures by request and by row.

    `rest`: contribution of requests outside the store, if the certificate is of more requests than the
    store's.
    """
    rows = store.rows
    lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
    signed, wrong = _right_signs(lower, upper, y)
    if pricing is None or wrong or np.isnan(pricing.slack):
        pricing = price(store, signed, slack=0.0, threads=threads)
    found = measure(store, x.slot, x.column, x.value, signed, pricing, threads)
    request_bound, rounded, shares, forced = (
        pricing.request_bound,
        pricing.rounding,
        _shares(store, pricing),
        0.0,
    )
    if rest is not None:
        found = found.with_rest(rest)
        bound, more = rest.bound(signed)
        request_bound, rounded = request_bound + bound, rounded + more
        shares, forced = shares + rest.shares(signed), rest.forced
    objective, decided = found.objective, abs(found.decided)
    constant_cost = objective - found.decided
    paid, priced, unused, squares, worst, worth = row_figures(
        lower, upper, signed, found.activity, found.weight, found.step
    )
    near_bound = request_bound - paid
    gap = found.lost + unused
    if store.terms:
        curved, sizes = TermBatch.of(store).objective(x)
        objective, decided = objective + curved, decided + sizes
        gap += found.curved + curved - pricing.curved_bound
    gap = abs(gap)
    off = rounded + _EPS * priced
    rounding = _EPS * (found.spent + priced + shares)
    rounding = max(rounding, 2.0 * (off if store.terms else _TIGHTER * off))  # no bound is any tighter
    size, gap_denominator_kind = _size_of_gap(store, decided, gap, rounding)
    rounding = max(rounding, _EPS * (_forced(store, pricing) + forced))
    dual = max(pricing.dual, pricing.curved_dual)
    if dual > 0.0:
        dual = _dual(store, signed, pricing, RELATIVE_FLOOR * size)
    known = math.isfinite(objective) and math.isfinite(near_bound) and math.isfinite(gap)
    near_gap = _relative(gap, size, rounding) if known else math.inf
    lowered = off
    close = near_gap <= _CLOSE and dual <= _NEARLY
    loose = 0.0
    if pricing.dual > 0.0 or pricing.doubtful:
        loose = loose_part(store, signed) if close else -math.inf
    if pricing.curved_dual > 0.0:
        loose = -math.inf
    bound = near_bound
    if math.isfinite(near_bound):
        bound += loose - lowered - _EPS * (abs(request_bound) + abs(paid))
    if known and close and off > _TIGHTEN * size and not store.terms and rest is None:
        high, low = extended_bound(store, signed)
        cost, cost_low = extended_cost(store, x)
        lowered = _TIGHTER * off
        bound = math.nextafter(high + low - lowered, -math.inf) + loose
        gap = abs((cost - high) + (cost_low - low))
        near_gap = _relative(gap, size, rounding)
    gap += lowered - loose
    found_gap = gap if known and math.isfinite(bound) else math.inf
    absolute = Residuals(math.sqrt(squares + found.squares), pricing.violation, found_gap)
    primal = max(worst, found.local, _relative(worth, size, rounding) if known else 0.0)
    relative = Residuals(primal, dual, _relative(found_gap, size, rounding))
    proof = Certificate(
        objective=objective,
        bound=bound,
        gap_denominator=size,
        gap_denominator_kind=gap_denominator_kind,
        constant_cost=constant_cost,
        relative=relative,
        absolute=absolute,
        rounding=rounding,
        near_gap=near_gap,
        near_bound=near_bound,
    )
    return proof, found


def proved(
    store: ConstraintStore,
    x: SparseX,
    y: NDArray[np.float64],
    threads: int | None = None,
) -> tuple[NDArray[np.float64], Pricing, Certificate, Measures]:
    """Return prices next to y (row slots,) that prove most of an allocation, their pass, certificate and
    measures.

    Unbounded columns must have a nonnegative reduced cost, exactly. Prices from floating point are moved by
    rounding errors until they do (:func:`copter.proof.loose.proved_bound`).
    """
    y = right_signs(store, y)
    pricing = price(store, y, slack=0.0, threads=threads)
    if not store.terms:
        bound, y = proved_bound(store, y, pricing.marginal)
        pricing = price(store, y, slack=0.0, threads=threads)
        proof, found = measured_certificate(store, x, y, pricing, threads=threads)
        return y, pricing, with_bound(proof, bound), found
    best = y, pricing, *measured_certificate(store, x, y, pricing, threads=threads)
    for there in signed_prices(store, y):
        pricing = price(store, there, slack=0.0, threads=threads)
        proof, found = measured_certificate(store, x, there, pricing, threads=threads)
        if proof.bound > best[2].bound:
            best = there, pricing, proof, found
    return best


def with_bound(proof: Certificate, bound: float) -> Certificate:
    """Return a certificate with a bound that was proved otherwise, if it is better."""
    if not bound > proof.bound:
        return proof
    gap = proof.near_gap * proof.gap_denominator + max(0.0, proof.near_bound - bound)
    gap = min(gap, max(0.0, proof.objective - bound) + proof.rounding)
    relative = replace(proof.relative, gap=_relative(gap, proof.gap_denominator, proof.rounding))
    return replace(proof, bound=bound, relative=relative, absolute=replace(proof.absolute, gap=gap))


def _shares(store: ConstraintStore, pricing: Pricing) -> float:
    """Return the sum of the absolute payments of requests for their sum rows, without the forced part."""
    table = store.requests
    summed = table.relation[: table.size] != NO_TOTAL
    each = np.maximum(abs(pricing.marginal) - pricing.forced, 0.0) * np.where(
        summed, table.total[: table.size], 0.0
    )
    return float(each.sum())


def _forced(store: ConstraintStore, pricing: Pricing) -> float:
    """Return the forced cost of requests with a choice, which limits the precision of their costs."""
    table = store.requests
    chooses = (table.relation[: table.size] != NO_TOTAL) & (table.n_columns[: table.size] > 1)
    return float(pricing.forced[chooses] @ table.total[: table.size][chooses])


def _share(part: float, size: float) -> float:
    """part / size, both >= 0; nothing of nothing is nothing."""
    if part == 0.0:
        return 0.0
    return part / size if size > 0.0 else math.inf


def _relative(gap: float, size: float, rounding: float) -> float:
    """Return a gap over its denominator; 0 if it is within rounding errors."""
    return 0.0 if gap <= rounding else _share(gap, size)


def _size_of_gap(
    store: ConstraintStore, decided: float, gap: float, rounding: float
) -> tuple[float, GapDenominator]:
    """Return the denominator of a gap, and its kind."""
    size, gap_denominator_kind = max(decided, abs(decided - gap)), GapDenominator.OBJECTIVE
    if not size < math.inf:
        return decided, gap_denominator_kind
    if _NOISE * rounding > size:
        size, gap_denominator_kind = _NOISE * rounding, GapDenominator.ROUNDING
    if gap > 0.0:
        cost_range = _LITTLE * least_cost_range(store, size / _LITTLE)
        if size < cost_range < math.inf:
            size, gap_denominator_kind = cost_range, GapDenominator.COST_RANGE
    return size, gap_denominator_kind


def _dual(store: ConstraintStore, y: NDArray[np.float64], pricing: Pricing, little: float) -> float:
    """The dual residual of a pass that has one, with what is little for a unit of a column as its floor."""
    loose, dual = LooseColumns.of(store), 0.0
    if pricing.dual > 0.0:
        dual = loose.dual(store, y, little)
    if pricing.curved_dual > 0.0:
        batch = TermBatch.of(store)
        view, _ = store.executor.columns(*batch.columns)
        dual = max(dual, term_bound(batch, view, y, loose.floors(*batch.columns, little))[2])
    return dual


def right_signs(store: ConstraintStore, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the prices (row slots,) with 0 for those that pay for an infinite bound."""
    rows = store.rows
    signed: NDArray[np.float64] = _right_signs(rows.lower, rows.upper, y)[0]
    return signed


@kernel(allocates=True)
def _right_signs(lower, upper, y):  # type: ignore[no-untyped-def]
    """See :func:`right_signs`; and whether there was a price of the wrong sign."""
    signed, wrong = y.copy(), False
    for i in range(y.size):
        if (y[i] > 0.0 and np.isinf(upper[i])) or (y[i] < 0.0 and np.isinf(lower[i])):
            signed[i], wrong = 0.0, True
    return signed, wrong
