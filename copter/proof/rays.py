"""Rays: proofs that a program has no feasible point or no finite optimum, checked on the program itself.

Infeasible (Farkas ray): prices y of the rows with

    -(sum_i u_i max(y_i, 0) + l_i min(y_i, 0)) + sum_q min { (A_q'y)'x : x in X_q }  >  0.

This sum is a lower bound on 0'x over all feasible x. It is the bound of the certificate with all costs set to
0, minus its rounding errors. (A'y)_j >= 0 must hold exactly for free columns.

Unbounded (primal ray): a direction x of the columns with c'x < 0, x >= 0, and x_j = 0 for every column with
an upper bound or a sum row. A x <= 0 must hold for rows with a finite upper bound, and A x >= 0 for rows with
a finite lower bound. All conditions hold exactly, for the direction itself or for one near it. A convex term
counts in c'x with the limit of its slope. Together with a feasible point, the ray proves that the objective
is unbounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.proof.certificate import right_signs
from copter.proof.loose import loose_part, signed_prices, unbounded_direction
from copter.proof.measure import row_figures
from copter.proof.pricing import price
from copter.proof.rigorous import EPS
from copter.proof.units import LooseColumns
from copter.solution import Allocation, Ray
from copter.store.allocation import SparseX, row_activity
from copter.store.store import NO_TOTAL
from copter.store.view import caps_at, costs_at
from copter.terms.batch import TermBatch

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.store import ConstraintStore

_ZERO_TOLERANCE = 1e-12
"""Entries of a direction up to this fraction of the largest are treated as numerical noise."""
_LITTLE_PRICES = (0.0, 1e-9, 1e-6)
"""Fractions of the largest price up to which prices are set to 0, because small prices may spoil a proof."""


def farkas_ray(program: ContinualProgram, y: NDArray[np.float64], threads: int | None = None) -> Ray | None:
    """Return the ray of an infeasible program from prices y of its row slots; None if they prove nothing.

    A price is positive for an upper bound. Prices of infinite bounds count as 0.
    """
    store = program.store
    y = right_signs(store, np.where(store.rows.alive[: y.size] & np.isfinite(y), y, 0.0))
    largest = float(abs(y).max(initial=0.0))
    scaled = [y]
    if largest > 0:  # to norm 1, and to a norm near 1 by a power of 2, which keeps whole numbers exact
        scaled = [y / largest, y / 2.0 ** np.ceil(np.log2(largest))]
    for kept in (np.where(abs(y) > little, y, 0.0) for y in scaled for little in _LITTLE_PRICES):
        value = _lack(store, kept, threads)
        if value == -np.inf:
            for there in signed_prices(store, kept, 0.0):
                lack = _lack(store, there, threads)
                if lack > value:
                    value, kept = lack, there
        if value > 0:
            prices = dict(zip(program.resource_ids, kept[program.resource_slots].tolist(), strict=True))
            return Ray("infeasible", prices, {}, value, 0.0)
    return None


def _lack(store: ConstraintStore, y: NDArray[np.float64], threads: int | None) -> float:
    """Return the violation that prices prove, rounded down; -inf if a free column has a negative price."""
    pricing = price(store, y, cost_factor=0.0, threads=threads)
    if pricing.request_bound == np.inf:
        return np.inf
    nothing = np.zeros_like(y)
    lower, upper = store.rows.lower[: y.size], store.rows.upper[: y.size]
    paid, terms, *_ = row_figures(lower, upper, y, nothing, nothing, nothing)
    value = pricing.request_bound - paid
    value -= pricing.rounding + EPS * (terms + abs(value))
    if pricing.dual > 0.0 or pricing.doubtful:
        value += loose_part(store, y, 0.0)
    return float(value)


def primal_ray(program: ContinualProgram, direction: SparseX) -> Ray | None:
    """Return the ray of an unbounded program from the free columns of a direction, or None."""
    store, table = program.store, program.store.requests
    slot, column = direction.slot, direction.column
    view, place = store.executor.columns(slot, column)
    cap = caps_at(view, slot, place)
    loose = (table.relation[slot] == NO_TOTAL) & np.isinf(cap) & (direction.value > 0)
    largest = float(direction.value[loose].max(initial=0.0))
    if largest == 0:
        return None
    units = LooseColumns.of(store).units_of(slot, column)
    share = np.where(loose, direction.value, 0.0) / np.where(units > 0, units, 1.0)
    loose &= share > _ZERO_TOLERANCE * share.max()  # drop numerical noise
    ray = SparseX(slot[loose], column[loose], direction.value[loose] / largest)
    costs = costs_at(view, ray.slot, place[loose])
    if store.terms:
        batch = TermBatch.of(store)
        costs += batch.spread_over(ray, batch.recession)
        if np.isinf(costs).any():
            return None
    found = unbounded_direction(store, ray, costs)
    if found is None:
        return None
    ray = found._replace(value=found.value / found.value.max())
    value = float(costs @ ray.value)
    activity, weight = row_activity(store, ray), row_activity(store, ray, absolute=True)
    lower, upper = store.rows.lower[: activity.size], store.rows.upper[: activity.size]
    above = np.where(np.isfinite(upper), np.maximum(activity, 0.0), 0.0)
    below = np.where(np.isfinite(lower), np.maximum(-activity, 0.0), 0.0)
    off = np.maximum(above, below) / np.where(weight > 0, weight, 1.0)
    residual = float(off[store.rows.alive[: activity.size]].max(initial=0.0))
    parts = Allocation.of(program, ray)
    return Ray("unbounded", {}, parts, value, residual)
