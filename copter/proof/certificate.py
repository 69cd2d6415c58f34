"""Certificates: residuals, bound and gap of a solution, recomputed from the program only.

For an allocation x and dual prices y (y_i > 0 for an upper bound of row i, y_i < 0 for a lower bound):

    objective        c'x + sum_q phi_q(a_q'x_q)
    bound            d(y) of :mod:`copter.proof.pricing`, minus its possible rounding error: at most the
                     optimum of the LP and of the MILP, in exact arithmetic
    primal residual  the largest violation of a row, a sum row or a box, each relative to its own size; or
                     the violations of rows times |y|, relative to the gap's denominator, if that is larger
    dual residual    the largest reduced cost that no bound can absorb, relative to |c_j| + |a_j|'|y|
    gap              (objective - bound) / denominator

Let f be the constant cost of every allocation (:mod:`copter.proof.pricing`). Without convex terms the
denominator of the gap is max(|objective - f|, |bound - f|), for objective >= bound. With convex terms it is
max(a, |a - gap|) with the gap objective - bound and a = |c'x - f| + sum_q |phi_q'(t) t|, t = a_q'x_q. The
values of convex terms may cancel, but the summands of a do not. If the denominator is negligible, one of two
substitutes replaces it (:class:`GapDenominator`): a thousandth of the least cost range of any request, or ten
million times the rounding error of the terms of objective and bound. So the gap is defined even if every
optimum costs 0, and costs that cancel do not increase the denominator.

No figure depends on units, on a bound that is not used, or on a cost that a request's own sum row forces.
(PDLP's norms, Applegate et al. 2021, section 2, relate all violations to one norm of all bounds, so that a
single large bound makes the feasibility test meaningless.)

A price of the wrong sign, for an infinite bound, counts as 0. The bound is minus infinity and the gap
infinite if a column without any bound, also implied by rows, has a negative reduced cost, however small
(:mod:`copter.proof.loose`). Solvers then measure progress by ``near_gap``, which ignores such columns.
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
"""Floor for the denominator of a relative reduced cost: this fraction of the gap's denominator, per natural
unit of the column.
"""
_LITTLE = 1e-3
"""Fraction of the least cost range of any request up to which an objective is negligible."""
_NOISE = 1e7
"""An objective of up to this multiple of its rounding error is negligible."""
_TIGHTEN = 1e-8
"""If rounding errors exceed this fraction of the gap's denominator, the bound is computed in extended
precision.
"""
_EPS, _TIGHTER = 2.0**-52, 2.0**-40
"""Relative rounding error of the rows' terms; rounding error of an extended bound relative to a plain one."""
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

    Relative residuals are the largest violation, each relative to its own scale. Absolute residuals are the
    Euclidean norm of all violations.

    Attributes
    ----------
    primal : float
        Violation of rows, sum rows and upper and lower bounds of columns.
    dual : float
        Violation of reduced costs that no bound can absorb.
    gap : float
        Relative gap, or objective minus bound in objective units.

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> relative = ProximalPoint().solve(program).relative
    >>> relative.primal <= 1e-6, relative.dual <= 1e-6, relative.gap <= 1e-6
    (True, True, True)
    """

    primal: float
    dual: float
    gap: float


@dataclass(frozen=True)
class Certificate:
    """Residuals, bound and gap of a solution, recomputed from the program.

    Attributes
    ----------
    objective, bound : float
        Objective, and a lower bound on every allocation's objective, of costs to be minimised.
    gap_denominator : float
        Denominator of the gap.
    gap_denominator_kind : GapDenominator
        Kind of the denominator.
    constant_cost : float
        Constant cost f of every allocation.
    relative, absolute : Residuals
        Primal residual, dual residual and gap.
    rounding : float
        Rounding error of the terms of objective and bound, and of constant costs of requests with a choice. A
        gap of at most this value is reported as 0.
    near_gap, near_bound : float
        Gap and bound without rounding errors and without reduced costs that no bound can absorb.

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram(sense="max")
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[1.0, 1.8], usage={"gpu": [1, 2]}, total=1)
    >>> certificate = ProximalPoint().solve(program).certificate
    >>> round(certificate.objective, 6), certificate.within(1e-6)
    (-1.8, True)
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
        """Return whether the solution is proved optimal within a relative tolerance.

        The gap and the primal residual are compared. The dual residual enters through the bound. A negative
        reduced cost of a column without an upper bound lowers the bound by as much as the rows allow, or to
        minus infinity.
        """
        relative = self.relative
        return relative.gap <= tolerance and relative.primal <= tolerance and math.isfinite(self.bound)

    def nearly(self, tolerance: float) -> bool:
        """Return whether only reduced costs of columns without a small bound prevent :meth:`within`."""
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
    """Compute residuals, a lower bound and the gap of an allocation at dual prices.

    The figures are those of costs to be minimised, because the store of every program has such costs.

    Parameters
    ----------
    store : ConstraintStore
        Store of a program, ``program.store``.
    x : SparseX
        Nonzeros of the allocation.
    y : ndarray, shape (row slots,)
        Dual prices by row slot. Positive for an upper bound, negative for a lower bound.
    pricing : Pricing, optional
        Pricing pass at the same prices, if it exists already.
    threads : int, optional
        Number of threads. The default is one for each processor.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np
    >>> from copter import ContinualProgram, certify
    >>> from copter.store.allocation import SparseX
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=1)
    >>> program.add_request("job", costs=[-2.0, -3.0], usage={"gpu": [1, 1]}, total=1)
    >>> x = SparseX(np.array([0]), np.array([0]), np.array([1.0]))
    >>> certificate = certify(program.store, x, np.array([3.0]))
    >>> certificate.objective, round(certificate.bound, 6), round(certificate.relative.gap, 6)
    (-2.0, -3.0, 0.333333)
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

    `rest` is the contribution of requests that are not in the store, if the certificate includes them.
    """
    rows = store.rows
    lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
    signed, wrong = _right_signs(lower, upper, y)
    if pricing is None or wrong or np.isnan(pricing.slack):
        pricing = price(store, signed, slack=0.0, threads=threads)
    found = measure(store, x.slot, x.column, x.value, signed, pricing, threads)
    table = store.requests
    relation, total, n_columns = (
        field[: table.size] for field in (table.relation, table.total, table.n_columns)
    )
    shares, forced = _payments(relation, total, n_columns, pricing.marginal, pricing.forced)
    request_bound, rounded = pricing.request_bound, pricing.rounding
    if rest is not None:
        found = found.with_rest(rest)
        bound, more = rest.bound(signed)
        request_bound, rounded = request_bound + bound, rounded + more
        shares, forced = shares + rest.shares(signed), forced + rest.forced
    objective, decided, signed_size = found.objective, abs(found.decided), found.decided
    constant_cost = objective - found.decided
    paid, priced, unused, squares, worst, worth = row_figures(
        lower, upper, signed, found.activity, found.weight, found.step
    )
    near_bound = request_bound - paid
    gap = found.lost + unused
    if store.terms:
        curved, sizes = TermBatch.of(store).objective(x)
        objective, decided = objective + curved, decided + sizes
        signed_size = decided  # the values of terms may cancel, their sizes do not
        gap += found.curved + curved - pricing.curved_bound
    gap = abs(gap)
    off = rounded + _EPS * priced
    rounding = _EPS * (found.spent + priced + shares)
    rounding = max(rounding, 2.0 * (off if store.terms else _TIGHTER * off))  # error of the best bound
    size, gap_denominator_kind = _gap_denominator(store, decided, abs(signed_size - gap), gap, rounding)
    rounding = max(rounding, _EPS * forced)
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
    """Return the prices near y (row slots,) with the best bound, their pass, certificate and measures.

    Unbounded columns must have a nonnegative reduced cost in exact arithmetic. Prices are changed by rounding
    errors until they have (:func:`copter.proof.loose.proved_bound`).
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
    """Return a certificate with another proved bound, if this bound is better."""
    if not bound > proof.bound:
        return proof
    gap = proof.near_gap * proof.gap_denominator + max(0.0, proof.near_bound - bound)
    gap = min(gap, max(0.0, proof.objective - bound) + proof.rounding)
    relative = replace(proof.relative, gap=_relative(gap, proof.gap_denominator, proof.rounding))
    return replace(proof, bound=bound, relative=relative, absolute=replace(proof.absolute, gap=gap))


@kernel
def _payments(relation, total, n_columns, marginal, forced):  # type: ignore[no-untyped-def]
    """Return the sum of the absolute payments of requests for their sum rows, without the forced part.

    The second number is the forced cost of requests with a choice, which limits the precision of their costs.
    """
    shares, forced_cost = 0.0, 0.0
    for q in range(relation.size):
        if relation[q] != NO_TOTAL:
            shares += max(abs(marginal[q]) - forced[q], 0.0) * total[q]
            if n_columns[q] > 1:
                forced_cost += forced[q] * total[q]
    return shares, forced_cost


def _share(part: float, size: float) -> float:
    """Return part / size, both >= 0; 0 if the part is 0, infinity if only the size is 0."""
    if part == 0.0:
        return 0.0
    return part / size if size > 0.0 else math.inf


def _relative(gap: float, size: float, rounding: float) -> float:
    """Return a gap over its denominator; 0 if it is within rounding errors."""
    return 0.0 if gap <= rounding else _share(gap, size)


def _gap_denominator(
    store: ConstraintStore, decided: float, bounded: float, gap: float, rounding: float
) -> tuple[float, GapDenominator]:
    """Return the denominator of a gap, and its kind.

    `decided`, `bounded`: |objective - f| and |bound - f| with the constant cost f.
    """
    size, gap_denominator_kind = max(decided, bounded), GapDenominator.OBJECTIVE
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
    """Return the dual residual of a pass; `little` is the negligible reduced cost per unit of a column."""
    loose, dual = LooseColumns.of(store), 0.0
    if pricing.dual > 0.0:
        dual = loose.dual(store, y, little)
    if pricing.curved_dual > 0.0:
        batch = TermBatch.of(store)
        view, _ = store.executor.columns(*batch.columns)
        dual = max(dual, term_bound(batch, view, y, loose.floors(*batch.columns, little))[2])
    return dual


def right_signs(store: ConstraintStore, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the prices (row slots,) with 0 in place of prices of infinite bounds."""
    rows = store.rows
    signed: NDArray[np.float64] = _right_signs(rows.lower, rows.upper, y)[0]
    return signed


@kernel(allocates=True)
def _right_signs(lower, upper, y):  # type: ignore[no-untyped-def]
    """Return :func:`right_signs` of prices, and whether a price had the wrong sign."""
    signed, wrong = y.copy(), False
    for i in range(y.size):
        if (y[i] > 0.0 and np.isinf(upper[i])) or (y[i] < 0.0 and np.isinf(lower[i])):
            signed[i], wrong = 0.0, True
    return signed, wrong
