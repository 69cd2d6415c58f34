"""Certificates: feasibility, bound and gap of an answer, recomputed from the program and nothing else.

For an allocation x and prices y (y_i > 0 pays for an upper bound, y_i < 0 for a lower one)

    objective        c'x + sum_q phi_q(a_q'x_q)
    bound            d(y) of :mod:`copter.proof.pricing`, <= the optimum of the LP and of the MILP
    primal residual  the largest excess of a row, a sum row or a box, each relative to its own size
    dual residual    the largest reduced cost that no bound can absorb, relative to |c_j| + |a_j|'|y|
    gap              |objective - bound|, the sum of all losses at y, relative to what the objective is made
                     up of without the costs that are forced

:mod:`copter.proof.measure` has the sizes.  No figure depends on units, on a bound that nobody uses, or on a
cost that a request's own sum row forces on it: multiplying a row, all costs or a column's unit by a constant
changes none of them.  (PDLP's norms, Applegate et al. 2021, section 2, relate all violations to one norm of
all bounds, so that a single large bound switches feasibility off.) Where next to nothing is paid, a
thousandth of the least stake of any request takes the place of the objective: a unit of cost that the
program itself names.

Prices of the wrong sign (on a bound that is infinite) count as 0.  If the dual residual is 0 the bound is
rigorous up to rounding, as it always is for programs whose columns are all bounded or held by a sum row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.proof.measure import COMPARABLE, Measures, measure, row_figures, unlike_noise
from copter.proof.pricing import Pricing, price
from copter.proof.tangents import term_bound
from copter.proof.units import LooseColumns, size_of_gap
from copter.store.allocation import SparseX
from copter.store.store import ConstraintStore
from copter.terms.batch import TermBatch

TRIFLE = 1e-9
"""Of the objective: what a reduced cost adds with a unit of its column; times the tolerance it is noise."""


@dataclass(frozen=True)
class Residuals:
    """Primal residual, dual residual and gap.

    Relative: the largest violation of a row, a sum row or a box, and of a reduced cost, each in its own
    scale; absolute: the Euclidean norms of both.
    """

    primal: float
    dual: float
    gap: float


@dataclass(frozen=True)
class Certificate:
    """Quality of an answer, recomputed from the program.

    Attributes
    ----------
    objective, bound : float
    size : float
        What the gap is relative to.
    relative, absolute : Residuals
    """

    objective: float
    bound: float
    size: float
    relative: Residuals
    absolute: Residuals

    def within(self, tolerance: float) -> bool:
        """Whether all relative residuals are at most ``tolerance``.

        Parameters
        ----------
        tolerance : float

        Returns
        -------
        bool
        """
        relative = self.relative
        return all(part <= tolerance for part in (relative.primal, relative.dual, relative.gap))  # NaN is not


def certify(
    store: ConstraintStore,
    x: SparseX,
    y: NDArray[np.float64],
    pricing: Pricing | None = None,
    *,
    threads: int | None = None,
) -> Certificate:
    """Certificate of the allocation ``x`` at the prices ``y``.

    Parameters
    ----------
    store : ConstraintStore
    x : SparseX
    y : (row slots,) ndarray
    pricing : Pricing, optional
        A pass at the same prices that was made anyway.
    threads : int, optional

    Returns
    -------
    Certificate
    """
    return measured_certificate(store, x, y, pricing, threads=threads)[0]


def measured_certificate(
    store: ConstraintStore,
    x: SparseX,
    y: NDArray[np.float64],
    pricing: Pricing | None = None,
    *,
    threads: int | None = None,
) -> tuple[Certificate, Measures]:
    """As :func:`certify`, with what it was measured by, request by request and row by row.

    Parameters
    ----------
    store, x, y, pricing, threads
        As for :func:`certify`.

    Returns
    -------
    Certificate, Measures
    """
    rows = store.rows
    lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
    signed, wrong = _right_signs(lower, upper, y)
    if pricing is None or wrong or np.isnan(pricing.slack):
        pricing = price(store, signed, slack=0.0, threads=threads)
    found = measure(store, x.slot, x.column, x.value, signed, pricing, threads)
    objective, size = found.objective, found.size
    paid, unused, squares, worst = row_figures(lower, upper, signed, found.activity, found.weight)
    if worst > COMPARABLE:
        worst = unlike_noise(store, found.activity, found.weight)
    bound = pricing.request_bound - paid
    gap = found.lost + unused
    if store.terms:
        curved, sizes = TermBatch.of(store).objective(x)
        objective, size = objective + curved, size + sizes
        gap += found.curved + curved - pricing.curved_bound
    gap = abs(gap)
    if gap > 0.0:
        size = size_of_gap(store, size, gap)
    dual = max(pricing.dual, pricing.curved_dual)
    if dual > 0.0:
        dual = _dual(store, signed, pricing, TRIFLE * size)
    known = math.isfinite(objective) and math.isfinite(bound) and math.isfinite(gap)
    absolute = Residuals(math.sqrt(squares + found.squares), pricing.violation, gap if known else math.inf)
    share = math.inf if gap > 0.0 or not known else 0.0
    if known and gap > 0.0 and size > 0.0:
        share = gap / size
    relative = Residuals(max(worst, found.local), dual, share)
    return Certificate(objective, bound, size, relative, absolute), found


def _dual(store: ConstraintStore, y: NDArray[np.float64], pricing: Pricing, little: float) -> float:
    """The dual residual of a pass that has one, with what is little for a unit of a column as its floor."""
    loose, dual = LooseColumns.of(store), 0.0
    if pricing.dual > 0.0:
        dual = loose.dual(store, y, little)
    if pricing.curved_dual > 0.0:
        batch = TermBatch.of(store)
        view, _ = store.excerpt(*batch.columns)
        dual = max(dual, term_bound(batch, view, y, loose.floors(*batch.columns, little))[1])
    return dual


def right_signs(store: ConstraintStore, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Prices without those that pay for a bound that is infinite.

    Parameters
    ----------
    store : ConstraintStore
    y : (row slots,) ndarray

    Returns
    -------
    (row slots,) ndarray
    """
    rows = store.rows
    signed: NDArray[np.float64] = _right_signs(rows.lower, rows.upper, y)[0]
    return signed


@kernel
def _right_signs(lower, upper, y):  # type: ignore[no-untyped-def]
    """See :func:`right_signs`; and whether there was a price of the wrong sign."""
    signed, wrong = y.copy(), False
    for i in range(y.size):
        if (y[i] > 0.0 and np.isinf(upper[i])) or (y[i] < 0.0 and np.isinf(lower[i])):
            signed[i], wrong = 0.0, True
    return signed, wrong
