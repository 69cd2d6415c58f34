"""Proofs about a general LP: the quality of a point with prices, and rays, from the LP and nothing else.

At a point x and prices y (y_i > 0 pays for row_upper_i, y_i < 0 for row_lower_i), with z = c + A'y,

    bound   offset - sum_i y_i (the bound it pays for) + sum_j min { z_j x_j : lower_j <= x_j <= upper_j }

is no more than the optimum, in exact arithmetic (:mod:`copter.proof.rigorous`): it is lowered by its rounding
errors, and -inf where a reduced cost, however small, is that of a column without a bound on the side to which
it drives it, and no bound follows from the rows.

A row is judged by its bound, or by the least that a column which uses it can use of it, if that is more; the
gap by the larger of objective and bound, or by ten million times their rounding errors.  No sum of terms that
cancel hides anything, and no figure depends on units.  Noise in a point or in prices is taken out of them
(:func:`quietest`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from copter.proof.rigorous import EPS, falling_ray, outward_bound, reduced_costs

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from copter.models.general_lp import GeneralLP

_NOISE = (1e-12, 1e-9, 1e-7)
"""Shares of a typical value, or price, below which one may be noise."""
_NOTHING = 1e7
"""Times the rounding errors of objective and bound: an objective that is next to nothing."""
_USED = 1e-9
"""Share of its largest value up to which a column does not count as using its rows."""


@dataclass(frozen=True)
class Proof:
    """Quality of a point and prices.

    `bound`: what c'x + offset cannot fall below; -inf or NaN if the prices prove nothing. `size`: denominator
    of the gap. `y` (m,): prices of the bound, the given ones or some next to them.
    """

    objective: float
    bound: float
    primal: float
    dual: float
    gap: float
    size: float
    y: NDArray[np.float64]

    @property
    def worst(self) -> float:
        """The larger of primal residual and gap; infinite if one is unknown."""
        parts = np.array([self.primal, self.gap])
        return float(np.where(np.isnan(parts), np.inf, parts).max())


@dataclass(frozen=True)
class LPRay:
    """Proof that a general LP is infeasible or, if it has a feasible point, unbounded.

    `vector`: prices of the rows (m,) or a direction of the columns (n,), with a largest entry of 1. `value`:
    what the rows lack at these prices, > 0, or the cost along the direction, < 0.
    """

    kind: Literal["infeasible", "unbounded"]
    vector: NDArray[np.float64]
    value: float


def prove(lp: GeneralLP, x: NDArray[np.float64], y: NDArray[np.float64]) -> Proof:
    """Return what ``x``, (n,), and ``y``, (m,), prove for a :func:`~copter.models.general_lp.checked` LP."""
    found = outward_bound(lp, y if lp.c.any() else np.zeros(y.size))  # without costs, nothing has a price
    y = found.y
    z, error, terms = reduced_costs(lp, y)
    unpaid = np.isinf(np.where(z > error, lp.lower, np.where(z < -error, lp.upper, 0.0)))
    dual = float(np.max(abs(z[unpaid]) / terms[unpaid], initial=0.0))
    objective = math.fsum((lp.c * x).tolist())
    rounding = found.rounding + EPS * float(abs(lp.c) @ abs(x))
    gap = max(0.0, objective - found.value) if np.isfinite(found.value) else np.inf
    size = max(abs(objective), abs(objective - gap) if gap < np.inf else 0.0, _NOTHING * rounding)
    worth = float(abs(y) @ _rows_over(lp, x)[0])
    relative, worth = (part / size if part > 0 and size > 0 else part for part in (gap, worth))
    primal = max(violation(lp, x), worth)
    return Proof(objective + lp.offset, found.value + lp.offset, primal, dual, relative, size, y)


def violation(lp: GeneralLP, x: NDArray[np.float64], floor: float = 0.0) -> float:
    """Return the largest relative violation of a row or bound by ``x``, (n,).

    A nearly zero column is judged as if it were the share ``floor`` of a typical one.
    """
    unit = floor * _typical(x)
    over, size = _rows_over(lp, x)
    size = np.maximum(size, unit * _largest(abs(lp.A)))
    rows = np.divide(over, size, out=np.zeros(over.size), where=over > 0)
    beyond = np.maximum(0.0, np.maximum(x - lp.upper, lp.lower - x))
    boxes = np.divide(beyond, np.maximum(abs(x), unit), out=np.zeros(x.size), where=beyond > 0)
    return float(max(rows.max(initial=0.0), boxes.max(initial=0.0)))


def _rows_over(lp: GeneralLP, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By how much rows are over, beyond the rounding errors of their sums, and their sizes; both (m,)."""
    A, held = lp.A, np.where(np.isfinite(lp.upper - lp.lower), lp.upper - lp.lower, np.inf)
    activity, weight = A @ x, abs(A) @ abs(x)
    over = np.maximum(activity - lp.row_upper, lp.row_lower - activity)
    bound = np.where(activity > lp.row_upper, lp.row_upper, lp.row_lower)
    bound = np.where(np.isfinite(bound), abs(bound), 0.0)
    entries = np.bincount(A.indices, minlength=over.size)
    over = np.maximum(0.0, over - (entries + 4) * EPS * (weight + bound))
    column = np.repeat(np.arange(x.size), np.diff(A.indptr))
    used = (abs(x) > _USED * held)[column] & (A.data != 0) & np.isfinite(held)[column]
    step = np.full(over.size, np.inf)
    np.minimum.at(step, A.indices[used], abs(A.data[used]) * held[column[used]])
    size = np.maximum(bound, np.where(np.isfinite(step), step, 0.0))
    return over, np.where(size > 0, size, weight)


def quietest(
    lp: GeneralLP, x: NDArray[np.float64], y: NDArray[np.float64], enough: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], Proof]:
    """Return point, prices and their proof, without what may be noise if the worst is not within ``enough``.

    Noise that is all there is of a row or of a reduced cost is a relative violation of 1.
    """
    proof = prove(lp, x, y)
    price = abs(y) * _largest(abs(lp.A))
    for noise in _NOISE:
        if proof.worst <= enough:
            break
        silent = np.clip(np.where(abs(x) <= noise * _typical(x), 0.0, x), lp.lower, lp.upper)
        if proof.primal > enough and violation(lp, silent) < proof.primal:
            x, proof = silent, prove(lp, silent, y)
        unpriced = np.where(price <= noise * _typical(price), 0.0, y)
        without = prove(lp, x, unpriced)
        if without.worst < proof.worst:
            y, proof = unpriced, without
    return x, y, proof


def infeasible_ray(lp: GeneralLP, y: NDArray[np.float64]) -> LPRay | None:
    """Return the ray of prices (m,) if their bound without costs is above 0, else None.

    Then no x in the box meets the rows.
    """
    largest = float(abs(y).max(initial=0.0))
    for noise in (0.0, *_NOISE):
        found = outward_bound(replace(lp, c=np.zeros(lp.c.size)), np.where(abs(y) > noise * largest, y, 0.0))
        if found.value > 0:
            unit = float(abs(found.y).max(initial=0.0)) or 1.0
            return LPRay("infeasible", found.y / unit, found.value / unit)
    return None


def unbounded_ray(lp: GeneralLP, direction: NDArray[np.float64]) -> LPRay | None:
    """Ray from a direction, (n,), if the objective falls along it without end from any feasible point."""
    largest = float(abs(direction).max(initial=0.0))
    d = falling_ray(lp, direction) if 0 < largest < np.inf else None
    if d is None:
        return None
    d = d / float(abs(d).max())
    return LPRay("unbounded", d, float(lp.c @ d))


def falling(lp: GeneralLP) -> NDArray[np.float64]:
    """Direction of the columns in no row that nothing keeps from lowering the objective, (n,)."""
    down = (lp.c > 0) & np.isinf(lp.lower)
    up = (lp.c < 0) & np.isinf(lp.upper)
    alone = np.diff(lp.A.indptr) == 0
    return np.where(alone & up, 1.0, np.where(alone & down, -1.0, 0.0))


def _typical(values: NDArray[np.float64]) -> float:
    """Root mean square of those that are not 0; 1 if there are none."""
    nonzero = values[values != 0]
    return float(np.sqrt(np.mean(nonzero**2))) if nonzero.size else 1.0


def _largest(size: csc_array) -> NDArray[np.float64]:
    """Largest entry of each row of a sparse matrix without negative entries."""
    largest = np.zeros(size.shape[0])
    np.maximum.at(largest, size.indices, size.data)
    return largest
