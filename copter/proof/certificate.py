"""Certificates: residuals, bound and gap of a solution, recomputed from the program only.

For an allocation x and dual prices y (y_i > 0 for an upper bound of row i, y_i < 0 for a lower bound):

    objective        c'x + sum_q phi_q(a_q'x_q)
    bound            d(y) of :mod:`copter.proof.pricing`, minus its possible rounding error: at most the
                     optimum of the LP and of the MILP, in exact arithmetic
    primal residual  the largest violation of a row, a sum row or a box, each relative to its own size; or,
                     if it is larger, the sum of the rows' violations times |y| over the gap's denominator
    gap              (objective - bound) / denominator; the difference is summed as losses
                     (:mod:`copter.proof.measure`), in which no large numbers cancel

Let f be the constant cost of every allocation (:mod:`copter.proof.pricing`). Without convex terms the
denominator of the gap is max(|objective - f|, |bound - f|). With convex terms it is max(a, |a - gap|) with
the gap objective - bound and a = |c'x - f| + sum_q |phi_q'(t) t|, t = a_q'x_q. The values of convex terms may
cancel, but the summands of `a` do not. If the denominator is negligible, the larger of two substitutes
replaces it (:class:`GapDenominator`): a thousandth of the least cost range of any request, or ten million
times the rounding error of the terms of objective and bound. So the gap is defined even if every optimum
costs 0, and costs that cancel do not increase the denominator.

No relative figure depends on units, on a bound that is not used, or on a cost that a request's own sum row
forces. (PDLP's norms, Applegate et al. 2021, section 2, relate all violations to one norm of all bounds, so
that a single large bound makes the feasibility test meaningless.)

A price that belongs to an infinite bound has the wrong sign and counts as 0. Every column has a finite bound
or a total, so the bound is finite at any prices, unless bounds and total of a request contradict each other:
then the bound is infinite.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.proof.cost_ranges import least_cost_range
from copter.proof.extended_precision import extended_bound, extended_cost
from copter.proof.measure import Measures, measure, row_figures
from copter.proof.pricing import Pricing, price
from copter.proof.rest import InactiveSums
from copter.store.allocation import SparseX
from copter.store.store import ConstraintStore

_LITTLE = 1e-3
"""An objective of up to this fraction of the least cost range of any request is negligible."""
_NOISE = 1e7
"""An objective of up to this multiple of its rounding error is negligible."""
_TIGHTEN = 1e-8
"""If rounding errors exceed this fraction of the gap's denominator, the bound is computed in extended
precision.
"""
_EPS, _TIGHTER = 2.0**-52, 2.0**-40
"""Relative rounding error of the rows' terms; rounding error of an extended bound relative to a plain one."""
_CLOSE = 1e-2
"""Gap below which rounding errors are checked."""


class GapDenominator(enum.StrEnum):
    """Kind of the denominator of a gap."""

    OBJECTIVE = "the objective, without what every allocation costs"
    COST_RANGE = "a thousandth of the least cost range of any request"
    ROUNDING = "ten million times the rounding error of the objective"


@dataclass(frozen=True)
class Residuals:
    """Primal residual and gap.

    A relative primal residual is the largest of the violations, each relative to its own scale. An absolute
    primal residual is the Euclidean norm of all violations.

    Attributes
    ----------
    primal : float
        Violation of rows, sum rows and upper and lower bounds of columns.
    gap : float
        Relative gap, or objective minus bound in objective units.

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> relative = ProximalPoint().solve(program).relative
    >>> relative.primal <= 1e-6, relative.gap <= 1e-6
    (True, True)
    """

    primal: float
    gap: float


@dataclass(frozen=True)
class Certificate:
    """Residuals, bound and gap of a solution, recomputed from the program.

    Attributes
    ----------
    objective, bound : float
        Objective, and a lower bound on the objective of every allocation, both as costs to be minimised.
    gap_denominator : float
        Denominator of the gap.
    gap_denominator_kind : GapDenominator
        Kind of the denominator.
    constant_cost : float
        Constant cost f of every allocation.
    relative, absolute : Residuals
        Primal residual and gap.
    rounding : float
        Rounding error of the terms of objective and bound, and of constant costs of requests with a choice. A
        gap of at most this value is reported as 0.

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

    def within(self, tolerance: float) -> bool:
        """Return whether the solution is proved optimal within a relative tolerance.

        Both the gap and the primal residual must be within the tolerance.
        """
        relative = self.relative
        return relative.gap <= tolerance and relative.primal <= tolerance and math.isfinite(self.bound)


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
    rows, table = store.rows, store.requests
    signed, wrong = _right_signs(rows.lower, rows.upper, y)
    if pricing is None or wrong or np.isnan(pricing.slack):
        pricing = price(store, signed, slack=0.0, threads=threads)
    found = measure(store, x, signed, pricing, threads)
    request_bound, off = pricing.request_bound, pricing.rounding
    shares, forced = _payments(table.exact, table.total, table.n_columns, pricing.marginal, pricing.forced)
    if rest is not None:
        found, (inactive, more) = found.with_rest(rest), rest.bound(signed)
        request_bound, off = request_bound + inactive, off + more
        shares, forced = shares + rest.shares(signed), forced + rest.forced
    paid, priced, unused, squares, worst, worth = row_figures(
        rows.lower, rows.upper, signed, found.activity, found.weight, found.step
    )
    objective, bound = found.objective + found.curved, request_bound - paid
    gap, off = abs(found.lost + unused), off + _EPS * priced
    rounding = _EPS * (found.spent + priced + shares)
    rounding = max(rounding, 2.0 * (off if store.terms else _TIGHTER * off))  # error of the best bound
    decided = abs(found.decided) + found.curved_size
    bounded = abs((decided if store.terms else found.decided) - gap)
    size, kind = _gap_denominator(store, decided, bounded, gap, rounding)
    rounding = max(rounding, _EPS * forced)
    known = math.isfinite(objective) and math.isfinite(bound) and math.isfinite(gap)
    if math.isfinite(bound):
        bound -= off + _EPS * (abs(request_bound) + abs(paid))
    close = known and _relative(gap, size, rounding) <= _CLOSE
    if close and off > _TIGHTEN * size and not store.terms and rest is None:
        high, low = extended_bound(store, signed)
        cost, cost_low = extended_cost(store, x)
        off = _TIGHTER * off
        bound = math.nextafter(high + low - off, -math.inf)
        gap = abs((cost - high) + (cost_low - low))
    gap = gap + off if known else math.inf
    primal = max(worst, found.local, _relative(worth, size, rounding) if known else 0.0)
    proof = Certificate(
        objective=objective,
        bound=bound,
        gap_denominator=size,
        gap_denominator_kind=kind,
        constant_cost=found.objective - found.decided,
        relative=Residuals(primal, _relative(gap, size, rounding)),
        absolute=Residuals(math.sqrt(squares + found.squares), gap),
        rounding=rounding,
    )
    return proof, found


@kernel
def _payments(exact, total, n_columns, marginal, forced):  # type: ignore[no-untyped-def]
    """Return the sum of the absolute payments of requests for their sum rows, without the forced part.

    The second number is the forced cost of requests with a choice, which limits the precision of their costs.
    """
    shares, forced_cost = 0.0, 0.0
    for q in range(marginal.size):
        if total[q] < np.inf:
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
    size, kind = max(decided, bounded), GapDenominator.OBJECTIVE
    if not size < math.inf:
        return decided, kind
    if _NOISE * rounding > size:
        size, kind = _NOISE * rounding, GapDenominator.ROUNDING
    if gap > 0.0:
        cost_range = _LITTLE * least_cost_range(store, size / _LITTLE)
        if size < cost_range < math.inf:
            size, kind = cost_range, GapDenominator.COST_RANGE
    return size, kind


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
