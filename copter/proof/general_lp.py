"""Proofs about a general LP: residuals and gap of a point with prices, and rays, from the LP only.

At a point x and prices y, with z = c + A'y, let b_i be row_upper_i if y_i > 0 and row_lower_i if y_i < 0.
Then

    bound   offset - sum_i b_i y_i + sum_j min { z_j x_j : lower_j <= x_j <= upper_j }

is at most the optimum, in exact arithmetic (:mod:`copter.proof.rigorous`). Its rounding errors are
subtracted. It is -inf if a nonzero z_j, however small, drives a column towards a missing bound that the rows
do not imply.

The violation of a row is relative to its bound, or to the least usage of the row by one of its columns at its
largest value, if that is more. The gap is relative to the larger of objective and bound, or to ten million
times their rounding errors. No denominator is a sum in which terms cancel, and no figure depends on units.
:func:`quietest` removes numerical noise from a point and from prices.
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
"""Fractions of a typical value or price below which a value or price may be noise."""
_NOTHING = 1e7
"""An objective of up to this multiple of its rounding error is negligible."""
_USED = 1e-9
"""Fraction of its largest value up to which a column does not count as using its rows."""


@dataclass(frozen=True)
class Proof:
    """Residuals, bound and gap of a point and prices.

    `bound` is a lower bound on c'x + offset; -inf or NaN if the prices prove nothing. `y` (m,) has the prices
    of the bound: the given prices, or prices near them.
    """

    objective: float
    bound: float
    primal: float
    dual: float
    gap: float
    gap_denominator: float
    y: NDArray[np.float64]

    @property
    def worst(self) -> float:
        """Larger of primal residual and gap; infinite if one is unknown."""
        parts = np.array([self.primal, self.gap])
        return float(np.where(np.isnan(parts), np.inf, parts).max())


@dataclass(frozen=True)
class LPRay:
    """Proof that a general LP is infeasible or, if it has a feasible point, unbounded.

    `vector` has prices of the rows (m,) or a direction of the columns (n,), with a largest absolute entry of
    1. `value` is the violation that the prices prove, > 0, or the cost along the direction, < 0.
    """

    kind: Literal["infeasible", "unbounded"]
    vector: NDArray[np.float64]
    value: float


def prove(lp: GeneralLP, x: NDArray[np.float64], y: NDArray[np.float64]) -> Proof:
    """Return the proof of ``x`` (n,) and ``y`` (m,) for a :func:`~copter.models.general_lp.checked` LP."""
    found = outward_bound(lp, y if lp.c.any() else np.zeros(y.size))  # without costs all prices are 0
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
    """Return the largest relative violation of a row or bound by ``x`` (n,).

    The denominators are at least ``floor`` times a typical value of a column.
    """
    unit = floor * _typical(x)
    over, size = _rows_over(lp, x)
    size = np.maximum(size, unit * _largest(abs(lp.A)))
    rows = np.divide(over, size, out=np.zeros(over.size), where=over > 0)
    beyond = np.maximum(0.0, np.maximum(x - lp.upper, lp.lower - x))
    boxes = np.divide(beyond, np.maximum(abs(x), unit), out=np.zeros(x.size), where=beyond > 0)
    return float(max(rows.max(initial=0.0), boxes.max(initial=0.0)))


def _rows_over(lp: GeneralLP, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the violations of the rows beyond their rounding errors, and their denominators; both (m,)."""
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
    """Return point, prices and their proof; remove possible noise while the worst exceeds ``enough``.

    If a row or a reduced cost consists of noise only, it has a relative violation of 1.
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

    Such prices prove that no x within its bounds satisfies the rows.
    """
    largest = float(abs(y).max(initial=0.0))
    for noise in (0.0, *_NOISE):
        found = outward_bound(replace(lp, c=np.zeros(lp.c.size)), np.where(abs(y) > noise * largest, y, 0.0))
        if found.value > 0:
            unit = float(abs(found.y).max(initial=0.0)) or 1.0
            return LPRay("infeasible", found.y / unit, found.value / unit)
    return None


def unbounded_ray(lp: GeneralLP, direction: NDArray[np.float64]) -> LPRay | None:
    """Return the ray of a direction (n,) if the objective falls along it without limit, else None."""
    largest = float(abs(direction).max(initial=0.0))
    d = falling_ray(lp, direction) if 0 < largest < np.inf else None
    if d is None:
        return None
    d = d / float(abs(d).max())
    return LPRay("unbounded", d, float(lp.c @ d))


def falling(lp: GeneralLP) -> NDArray[np.float64]:
    """Return the direction (n,) of columns without rows and bounds that lower the objective without limit."""
    down = (lp.c > 0) & np.isinf(lp.lower)
    up = (lp.c < 0) & np.isinf(lp.upper)
    alone = np.diff(lp.A.indptr) == 0
    return np.where(alone & up, 1.0, np.where(alone & down, -1.0, 0.0))


def _typical(values: NDArray[np.float64]) -> float:
    """Return the root mean square of the nonzero values; 1 without nonzero values."""
    nonzero = values[values != 0]
    return float(np.sqrt(np.mean(nonzero**2))) if nonzero.size else 1.0


def _largest(size: csc_array) -> NDArray[np.float64]:
    """Return the largest entry of each row of a sparse matrix without negative entries."""
    largest = np.zeros(size.shape[0])
    np.maximum.at(largest, size.indices, size.data)
    return largest
