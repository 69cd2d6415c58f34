"""Rays: proofs that a program has no feasible point, or no finite optimum, checked on the program itself.

Infeasible (Farkas): prices y of the rows with

    -(sum_i u_i max(y_i, 0) + l_i min(y_i, 0)) + sum_q min { (A_q'y)'x : x in X_q }  >  0

since that sum bounds 0'x from below over all feasible x.  It is the certificate's bound with the costs at 0.

Unbounded: a direction x of the columns with c'x < 0, x >= 0, x = 0 wherever an upper bound or a sum row
holds the column, A x <= 0 on rows with a finite upper bound and A x >= 0 on rows with a finite lower one.
A convex term counts in c'x with the limit of its slope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.proof.certificate import TRIFLE
from copter.proof.pricing import price
from copter.proof.units import LooseColumns, row_units
from copter.solution import Allocation, Ray
from copter.store.allocation import SparseX, row_activity
from copter.store.store import NO_TOTAL
from copter.store.view import caps_at, costs_at
from copter.terms.batch import TermBatch

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

RAY_TOLERANCE = 1e-7
"""How far a ray may be from its conditions: a reduced cost (Farkas) or a row activity (unbounded) relative to
the sum of its absolute terms, so that units do not matter."""
_NOISE, _DUST = 1e-9, 1e-12
"""What a ray proves must exceed this share of the terms that it is the sum of; smaller prices are none."""


def farkas_ray(program: ContinualProgram, y: NDArray[np.float64], threads: int | None = None) -> Ray | None:
    """Ray of an infeasible program from prices of its row slots; None if they prove nothing.

    Parameters
    ----------
    program : ContinualProgram
    y : (row slots,) ndarray
        Positive where an upper bound is paid for; those of infinite bounds count as 0.
    threads : int, optional

    Returns
    -------
    Ray or None
    """
    store = program.store
    lower, upper = store.rows.lower[: store.rows.size], store.rows.upper[: store.rows.size]
    wrong = ((y > 0) & np.isinf(upper)) | ((y < 0) & np.isinf(lower))
    y = np.where(wrong | ~store.rows.alive[: y.size], 0.0, y)
    largest = float(abs(y).max(initial=0.0))
    if largest > 0:
        worth = abs(y) * row_units(store)
        y = np.where((worth > _DUST * worth.max()) | (worth == 0), y / largest, 0.0)
    pricing = price(store, y, cost_factor=0.0, threads=threads)
    paid = np.where(y > 0, upper, np.where(y < 0, lower, 0.0))
    terms = y * np.where(y == 0, 0.0, paid)
    value = pricing.request_bound - float(terms.sum())
    if not value > 0:
        return None
    dual = 0.0
    if np.isfinite(value):
        if pricing.dual > 0:
            dual = LooseColumns.of(store).dual(store, y, TRIFLE * value, cost_factor=0.0)
        table = store.requests
        summed = table.relation[: table.size] != NO_TOTAL
        own = float(abs(pricing.marginal[summed] * table.total[: table.size][summed]).sum())
        if not value > _NOISE * (max(own, abs(pricing.request_bound)) + float(abs(terms).sum())):
            return None
    if dual > RAY_TOLERANCE:
        return None
    prices = dict(zip(program.resource_ids, y[program.resource_slots].tolist(), strict=True))
    return Ray("infeasible", prices, {}, value, dual)


def primal_ray(program: ContinualProgram, direction: SparseX) -> Ray | None:
    """Ray of an unbounded program from a direction of its columns; None if it proves nothing.

    Parameters
    ----------
    program : ContinualProgram
    direction : SparseX
        Of it the columns that nothing holds count.

    Returns
    -------
    Ray or None
    """
    store, table = program.store, program.store.requests
    slot, column = direction.slot, direction.column
    view, place = store.excerpt(slot, column)
    cap = caps_at(view, slot, place)
    loose = (table.relation[slot] == NO_TOTAL) & np.isinf(cap) & (direction.value > 0)
    largest = float(direction.value[loose].max(initial=0.0))
    if largest == 0:
        return None
    units = LooseColumns.of(store).units_of(slot, column)
    share = np.where(loose, direction.value, 0.0) / np.where(units > 0, units, 1.0)
    loose &= share > _DUST * share.max()  # what a long step leaves on columns that should not move
    ray = SparseX(slot[loose], column[loose], direction.value[loose] / largest)
    costs = costs_at(view, ray.slot, place[loose])
    if store.terms:
        batch = TermBatch.of(store)
        costs += batch.spread_over(ray, batch.recession)
        if np.isinf(costs).any():
            return None
    value = float(costs @ ray.value)
    activity = row_activity(store, ray)
    weight = row_activity(store, ray, absolute=True)
    lower, upper = store.rows.lower[: activity.size], store.rows.upper[: activity.size]
    above = np.where(np.isfinite(upper), np.maximum(activity, 0.0), 0.0)
    below = np.where(np.isfinite(lower), np.maximum(-activity, 0.0), 0.0)
    wrong = np.maximum(above, below) / np.where(weight > 0, weight, 1.0)
    residual = float(wrong[store.rows.alive[: activity.size]].max(initial=0.0))
    if not value < -RAY_TOLERANCE * float(abs(costs) @ ray.value) or residual > RAY_TOLERANCE:
        return None
    parts = Allocation(program.slot_of, table.n_columns[: table.size].copy(), ray)
    return Ray("unbounded", {}, parts, value, residual)
