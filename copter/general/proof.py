"""Proofs about a general LP: the quality of a point with prices, and rays, from the LP and nothing else.

At a point x and prices y (y_i > 0 pays for row_upper_i, y_i < 0 for row_lower_i), with z = c + A'y,

    bound   offset - sum_i y_i (the bound it pays for) + sum_j min { z_j x_j : lower_j <= x_j <= upper_j }

is no more than the optimum.  A reduced cost that an infinite bound leaves unpaid counts as 0 in it and is
the dual residual; so does one that only a bound would pay which is 1e6 times as far away as the columns are
large, or else the last digit of a price would be multiplied by it.

Every violation is judged in the scale of its own row or column, the gap in that of the sums that objective
and bound are, so no figure depends on units.  Rounding counts as nothing: what is within 1e-11 of the
absolute terms that a row or a reduced cost is the sum of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from copter.general.model import GeneralLP

_ROUNDING = 1e-11
_FAR = 1e6
_STRAY = 1e-3
"""A column that is nearly 0 is judged as if it were this share of a typical one."""
_LEAST_LACK = 1e-9
"""What an infeasible ray proves must exceed this share of the terms that it is the sum of."""
RAY_TOLERANCE = 1e-7
"""How far a ray may be from its conditions, relative to the absolute terms of each."""


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
    """What ``x``, (n,), and ``y``, (m,), are worth for a :func:`~copter.general.model.checked` LP."""
    size = abs(lp.A)
    activity, weight = lp.A @ x, size @ abs(x)
    unit = _STRAY * _typical(x)
    rows = _excess(activity, lp.row_lower, lp.row_upper, weight + unit * _largest(size, axis=1))
    box = _excess(x, lp.lower, lp.upper, np.maximum(abs(x), unit))
    y, paid = _paid(lp, y if lp.c.any() else np.zeros(y.size))  # without costs, nothing has a price
    z, terms = lp.c + lp.A.T @ y, abs(lp.c) + size.T @ abs(y)
    z = np.where(abs(z) <= _ROUNDING * terms, 0.0, z)
    held = np.where(z > 0, lp.lower, np.where(z < 0, lp.upper, 0.0))
    loose = abs(held - x) > _FAR * np.maximum(abs(x), _typical(x))
    # against prices and costs as they are in general where a column has none of its own
    scale = terms + _STRAY * _typical(lp.c)
    dual = float(np.max(np.where(loose, abs(z) / np.where(scale > 0, scale, 1.0), 0.0), initial=0.0))
    held = np.where(loose, 0.0, held)
    objective = float(lp.c @ x)
    bound = float(z @ held - y @ paid)
    magnitude = max(float(abs(lp.c) @ abs(x)), float(abs(z) @ abs(held) + abs(y) @ abs(paid)))
    gap = abs(objective - bound)
    relative = gap / magnitude if magnitude > 0 else 0.0
    return Proof(objective + lp.offset, bound + lp.offset, max(rows, box), dual, relative)


def infeasible_ray(lp: GeneralLP, y: NDArray[np.float64]) -> LPRay | None:
    """Ray from prices that show that no x in the box meets the rows: the bound without costs is above 0."""
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
    """Ray from a direction, (n,), along which the objective falls without end from any feasible point."""
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


def _largest(size: object, axis: int) -> NDArray[np.float64]:
    """Largest entry of each row (axis 1) of a sparse matrix without negative entries."""
    return size.max(axis=axis).toarray().ravel() if 0 not in size.shape else np.zeros(size.shape[1 - axis])  # type: ignore[attr-defined]
