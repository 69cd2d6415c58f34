"""Proofs about a general LP: the quality of a point with prices, and rays, from the LP and nothing else.

At a point x and prices y (y_i > 0 pays for row_upper_i, y_i < 0 for row_lower_i), with z = c + A'y,

    bound   offset - sum_i y_i (the bound it pays for) + sum_j min { z_j x_j : lower_j <= x_j <= upper_j }

is no more than the optimum.  A reduced cost that only an infinite bound would pay counts as 0 in it and is
the dual residual; one that a finite bound pays counts in full, however far away that bound is.

Every row is judged by the larger of its bound and the sum of its absolute terms, every reduced cost by its
absolute terms, the gap by the sums that objective and bound are, so no figure depends on units.  Nothing is
forgiven but the rounding of these sums.  Noise in a point or in prices is no excuse: :func:`quietest` takes
it out of them instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from copter.proof.rays import RAY_TOLERANCE

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from copter.models.general_lp import GeneralLP

_ROUNDING = 1e-11
_CANCELLED = 1e-14
"""A reduced cost of this share of its terms is what is left when they cancel."""
_NOISE = (1e-12, 1e-9, 1e-7)
"""Shares of a typical value, or price, below which one may be noise."""
_LEAST_LACK = 1e-9
"""What an infeasible ray proves must exceed this share of the terms that it is the sum of."""


@dataclass(frozen=True)
class Proof:
    """Quality of a point and prices.

    Attributes
    ----------
    objective, bound : float
        c'x + offset, and what it cannot fall below; -inf or NaN if the prices show nothing.
    primal, dual, gap : float
        Relative residuals and gap.
    """

    objective: float
    bound: float
    primal: float
    dual: float
    gap: float

    @property
    def worst(self) -> float:
        """The largest of residuals and gap; infinite if one is unknown."""
        parts = np.array([self.primal, self.dual, self.gap])
        return float(np.where(np.isnan(parts), np.inf, parts).max())


@dataclass(frozen=True)
class LPRay:
    """Proof that a general LP is infeasible or, if it has a feasible point, unbounded.

    Attributes
    ----------
    kind : "infeasible" or "unbounded"
    vector : (m,) or (n,) ndarray
        Prices of the rows, or a direction of the columns; the largest is 1.
    value : float
        What the rows lack at these prices, > 0, or the cost along the direction, < 0.
    """

    kind: Literal["infeasible", "unbounded"]
    vector: NDArray[np.float64]
    value: float


def prove(lp: GeneralLP, x: NDArray[np.float64], y: NDArray[np.float64]) -> Proof:
    """What ``x``, (n,), and ``y``, (m,), are worth for a :func:`~copter.models.general_lp.checked` LP.

    Parameters
    ----------
    lp : GeneralLP
    x : (n,) ndarray
    y : (m,) ndarray
        Positive where an upper bound is paid for.

    Returns
    -------
    Proof
    """
    y, paid = _paid(lp, y if lp.c.any() else np.zeros(y.size))  # without costs, nothing has a price
    z, terms = reduced_costs(lp, y)
    held = np.where(z > 0, lp.lower, np.where(z < 0, lp.upper, 0.0))
    unpaid = np.isinf(held)
    dual = float(np.max(abs(z[unpaid]) / terms[unpaid], initial=0.0))
    held = np.where(unpaid, 0.0, held)
    objective = float(lp.c @ x)
    bound = float(z @ held - y @ paid)
    magnitude = max(float(abs(lp.c) @ abs(x)), float(abs(z) @ abs(held) + abs(y) @ abs(paid)))
    gap = abs(objective - bound)
    relative = gap / magnitude if magnitude > 0 else 0.0
    return Proof(objective + lp.offset, bound + lp.offset, violation(lp, x), dual, relative)


def reduced_costs(lp: GeneralLP, y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the columns cost at some prices, and the sums of the absolute terms of that, both (n,).

    Parameters
    ----------
    lp : GeneralLP
    y : (m,) ndarray

    Returns
    -------
    (n,) ndarray, (n,) ndarray
        What is left when the terms cancel is 0.
    """
    z, terms = lp.c + lp.A.T @ y, abs(lp.c) + abs(lp.A).T @ abs(y)
    return np.where(abs(z) <= _CANCELLED * terms, 0.0, z), terms


def violation(lp: GeneralLP, x: NDArray[np.float64], floor: float = 0.0) -> float:
    """The largest relative violation of a row or bound by ``x``, (n,).

    Parameters
    ----------
    lp : GeneralLP
    x : (n,) ndarray
    floor : float
        A column that is nearly 0 is judged as if it were this share of a typical one.

    Returns
    -------
    float
    """
    size, unit = abs(lp.A), floor * _typical(x)
    weight = size @ abs(x) + unit * _largest(size)
    rows = _excess(lp.A @ x, lp.row_lower, lp.row_upper, weight)
    return max(rows, _excess(x, lp.lower, lp.upper, np.maximum(abs(x), unit)))


def quietest(
    lp: GeneralLP, x: NDArray[np.float64], y: NDArray[np.float64], enough: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], Proof]:
    """Point, prices and their proof, without what may be noise if they are not good ``enough``.

    Noise that is all there is of a row or of a reduced cost is a relative violation of 1.

    Parameters
    ----------
    lp : GeneralLP
    x : (n,) ndarray
    y : (m,) ndarray
    enough : float
        Worst of residuals and gap that is good enough.

    Returns
    -------
    (n,) ndarray, (m,) ndarray, Proof
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
    """Ray from prices that show that no x in the box meets the rows: the bound without costs is above 0.

    Parameters
    ----------
    lp : GeneralLP
    y : (m,) ndarray
        Positive where an upper bound is paid for.

    Returns
    -------
    LPRay or None
        None if they show nothing.
    """
    y, paid = _paid(lp, y)
    z, terms = lp.A.T @ y, abs(lp.A).T @ abs(y)
    loose = np.isinf(np.where(z > 0, lp.lower, np.where(z < 0, lp.upper, 0.0)))
    if (abs(z) > RAY_TOLERANCE * terms)[loose].any():
        return None
    z = np.where(loose, 0.0, z)
    held = np.where(z > 0, lp.lower, np.where(z < 0, lp.upper, 0.0))
    value = float(z @ held - y @ paid)
    if not value > _LEAST_LACK * float(abs(z) @ abs(held) + abs(y) @ abs(paid)):
        return None
    largest = float(abs(y).max(initial=0.0)) or 1.0
    return LPRay("infeasible", y / largest, value / largest)


def unbounded_ray(lp: GeneralLP, direction: NDArray[np.float64]) -> LPRay | None:
    """Ray from a direction, (n,), along which the objective falls without end from any feasible point.

    Parameters
    ----------
    lp : GeneralLP
    direction : (n,) ndarray

    Returns
    -------
    LPRay or None
        None if it is no such direction.
    """
    d = np.where(abs(direction) <= _ROUNDING * abs(direction).max(initial=0.0), 0.0, direction)
    along, weight = lp.A @ d, abs(lp.A) @ abs(d)
    wrong = (np.isfinite(lp.row_upper) & (along > RAY_TOLERANCE * weight)) | (
        np.isfinite(lp.row_lower) & (along < -RAY_TOLERANCE * weight)
    )
    blocked = (np.isfinite(lp.upper) & (d > 0)) | (np.isfinite(lp.lower) & (d < 0))
    value = float(lp.c @ d)
    if wrong.any() or blocked.any() or not value < -RAY_TOLERANCE * float(abs(lp.c) @ abs(d)):
        return None
    largest = float(abs(d).max(initial=0.0))
    return LPRay("unbounded", d / largest, value / largest)


def falling(lp: GeneralLP) -> NDArray[np.float64]:
    """Direction of the columns in no row that nothing keeps from lowering the objective, (n,)."""
    down = (lp.c > 0) & np.isinf(lp.lower)
    up = (lp.c < 0) & np.isinf(lp.upper)
    alone = np.diff(lp.A.indptr) == 0
    return np.where(alone & up, 1.0, np.where(alone & down, -1.0, 0.0))


def _paid(lp: GeneralLP, y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Prices without those of bounds that are infinite, and the bounds that they pay for."""
    paid = np.where(y > 0, lp.row_upper, np.where(y < 0, lp.row_lower, 0.0))
    nothing = np.isinf(paid)
    return np.where(nothing, 0.0, y), np.where(nothing, 0.0, paid)


def _excess(
    value: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    size: NDArray[np.float64],
) -> float:
    """The largest amount by which values are out of their bounds, relative to bound and size."""
    over = np.maximum(value - upper, lower - value)
    bound = abs(np.where(value > upper, upper, lower))
    size = np.maximum(size, np.where(np.isfinite(bound), bound, 0.0))
    relative = np.divide(over, size, out=np.zeros(over.size), where=(over > 0) & (size > 0))
    return float(relative[relative > _ROUNDING].max(initial=0.0))


def _typical(values: NDArray[np.float64]) -> float:
    """Root mean square of those that are not 0; 1 if there are none."""
    nonzero = values[values != 0]
    return float(np.sqrt(np.mean(nonzero**2))) if nonzero.size else 1.0


def _largest(size: csc_array) -> NDArray[np.float64]:
    """Largest entry of each row of a sparse matrix without negative entries."""
    largest = np.zeros(size.shape[0])
    np.maximum.at(largest, size.indices, size.data)
    return largest
