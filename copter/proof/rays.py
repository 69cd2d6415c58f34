"""Farkas rays: proofs that a program has no feasible point, checked on the program itself.

Prices y of the rows prove infeasibility with

    -(sum_i u_i max(y_i, 0) + l_i min(y_i, 0)) + sum_q min { (A_q'y)'x : x in X_q }  >  0.

This sum v is a lower bound on 0'x over all feasible x. It is the bound of the certificate with all costs set
to 0, minus its rounding errors.

Solvers accept points that violate rows within their tolerance. The violations of any x in the X_q, weighted
by |y|, have a sum of at least v. So some row i is violated by at least v / sum_k |y_k| s_k, relative to its
size s_i: the row's bound, or the least usage of the row by a column at its largest value, if that is more.
The primal residual of a solution has the same unit (:mod:`copter.proof.measure`). If this violation does not
exceed the tolerance, the ray proves nothing, and the program counts as feasible within the tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.proof.certificate import right_signs
from copter.proof.measure import row_figures
from copter.proof.pricing import price
from copter.solution import FarkasRay
from copter.store.executor import Part
from copter.store.view import cap_of, coefficients_of, entries_of, view_of

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.store import ConstraintStore

TOLERANCE = 1e-6
"""Relative violation that a ray must exceed by default."""
_EPS = 2.0**-52
_LITTLE_PRICES = (0.0, 1e-9, 1e-6)
"""Fractions of the largest price up to which prices are set to 0, because small prices may spoil a proof."""


def farkas_ray(
    program: ContinualProgram,
    y: NDArray[np.float64],
    threads: int | None = None,
    *,
    tolerance: float = TOLERANCE,
) -> FarkasRay | None:
    """Return the ray of an infeasible program from prices y of its row slots; None if they prove nothing.

    A price is positive for an upper bound. Prices of infinite bounds count as 0. The rows must be violated by
    more than `tolerance`, relative to their sizes.
    """
    store = program.store
    y = right_signs(store, np.where(store.rows.alive[: y.size] & np.isfinite(y), y, 0.0))
    largest = float(abs(y).max(initial=0.0))
    scaled = [y]
    if largest > 0:  # to norm 1, and to a norm near 1 by a power of 2, which keeps whole numbers exact
        scaled = [y / largest, y / 2.0 ** np.ceil(np.log2(largest))]
    for kept in (np.where(abs(y) > little, y, 0.0) for y in scaled for little in _LITTLE_PRICES):
        value = _lack(store, kept, threads)
        if value > 0 and value > tolerance * float(abs(kept) @ _sizes(store, kept)):
            prices = dict(zip(program.resource_ids, kept[program.resource_slots].tolist(), strict=True))
            return FarkasRay(prices, value)
    return None


def _lack(store: ConstraintStore, y: NDArray[np.float64], threads: int | None) -> float:
    """Return the violation that prices prove, rounded down."""
    pricing = price(store, y, cost_factor=0.0, threads=threads)
    if pricing.request_bound == np.inf:
        return np.inf
    nothing = np.zeros_like(y)
    lower, upper = store.rows.lower[: y.size], store.rows.upper[: y.size]
    paid, terms, *_ = row_figures(lower, upper, y, nothing, nothing, nothing)
    value = pricing.request_bound - paid
    return float(value - pricing.rounding - _EPS * (terms + abs(value)))


def _sizes(store: ConstraintStore, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the size of each row with a price, (row slots,); 0 for other rows."""
    lower, upper = store.rows.lower[: y.size], store.rows.upper[: y.size]
    bound = np.where(y > 0.0, upper, np.where(y < 0.0, lower, 0.0))
    step = np.minimum.reduce(store.executor.map(_least_part, y.size))
    return np.where(y == 0.0, 0.0, np.maximum(abs(bound), np.where(np.isinf(step), 0.0, step)))


def _least_part(part: Part, rows: int) -> NDArray[np.float64]:
    least: NDArray[np.float64] = _least(view_of(part.store), rows)
    return least


@kernel(allocates=True)
def _least(view, rows):  # type: ignore[no-untyped-def]
    """Return the least usage of each row by a column at its largest value; infinite without a column."""
    least = np.full(rows, np.inf)
    for q in range(view.n_columns.size):
        for j in range(view.n_columns[q]):
            most = min(cap_of(view, q, j), view.total[q])
            if most > 0.0:
                first, last = entries_of(view, view.usage[q], j, j + 1)
                shift, stride = coefficients_of(view, view.usage[q])
                for e in range(first, last):
                    used = abs(view.coefficient[shift + stride * e]) * most
                    if used > 0.0:
                        least[np.uint32(view.row[e])] = min(least[np.uint32(view.row[e])], used)
    return least
