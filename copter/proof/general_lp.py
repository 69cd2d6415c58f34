"""Certificate of a general LP: residuals, bound and gap of a point with prices, and rays, from the LP only.

At a point x and prices y, with z = c + A'y, let b_i be row_upper_i if y_i > 0 and row_lower_i if y_i < 0.
Then

    bound   offset - sum_i b_i y_i + sum_j min { z_j x_j : lower_j <= x_j <= upper_j }

is at most the optimum. The sum is evaluated with its rounding errors subtracted, so that the bound holds in
exact arithmetic. If a column has no bound on the side towards which z_j drives it, the sum is minus infinity,
however small z_j is. Two remedies are tried: bounds of the column that the rows imply, and prices near y with
the right sign of z_j (:mod:`copter.proof.rigorous`). If neither helps, no bound is proved. ``bound`` is then
the sum without these columns, and ``certified`` is False.

The violation of a row is relative to the largest of its bound, the sum of the absolute terms of its activity,
and its largest coefficient times the typical value of a column. A reduced cost that drives a column towards a
missing bound is relative to the larger of the sum of its absolute terms and the root mean square of the
costs. So no figure depends on the units of rows or costs.

References: Neumaier and Shcherbina (2004), "Safe bounds in linear and mixed-integer linear programming".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from copter.proof.rigorous import (
    EPS,
    absolute,
    bound_at,
    exact_reduced_costs,
    implied_bounds,
    paid_prices,
    reduced_costs,
    right_prices,
)

if TYPE_CHECKING:
    from copter.models.linear_program import LinearProgram

_CANCELLED = 1e-3
"""Least denominator of the gap, as a share of the absolute terms of both objectives."""
_NEGLIGIBLE = 1e-9
"""Relative difference of the objectives from which on their rounding errors are subtracted."""
_LOST = 1e-6
"""Largest part of the dual objective, relative to the gap's denominator, that a proved bound may lose."""
_NOISE = (0.0, 1e-12, 1e-9, 1e-7)
"""Fractions of the largest entry of a ray below which an entry may be noise."""
_SIMPLE = 10_000
"""Largest denominator of the ratio of two entries of a ray that counts as a simple fraction."""
_CLEAR = 1e-9
"""Least violation that an unproved ray must show, relative to its terms."""


@dataclass(frozen=True, eq=False)
class LPCertificate:
    """Residuals, bound and gap of a point and prices of an LP, as a minimisation.

    Attributes
    ----------
    lp : LinearProgram
    x, y : (n,) and (m,) ndarrays
        Point, and prices with 0 for missing bounds of rows.
    objective, dual_objective : float
        c'x + offset, and the bound without the columns that have no proof. `dual_objective` is not proved.
    primal, dual : float
        Largest relative violation of a row, and largest relative reduced cost that drives a column towards a
        missing bound.
    terms : float
        Sum of the absolute terms of both objectives.
    """

    lp: LinearProgram = field(repr=False)
    x: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.float64] = field(repr=False)
    objective: float
    dual_objective: float
    primal: float
    dual: float
    terms: float

    @property
    def reduced_costs(self) -> NDArray[np.float64]:
        """Reduced costs c + A'y of the columns (n,); rounding errors count as 0."""
        z, error = self._reduced
        return np.where(abs(z) <= error, 0.0, z)

    @property
    def gap_denominator(self) -> float:
        """Larger of |objective| and |dual objective|, or a share of their terms if they cancel."""
        size = max(abs(self.objective), abs(self.dual_objective))
        return max(size, _CANCELLED * self.terms)

    def worst(self) -> float:
        """Return the largest of the residuals and the relative difference of the objectives."""
        return max(self.primal, self.dual, self._apart(self.gap_denominator))

    def confirms(self, tolerance: float) -> bool:
        """Return whether residuals and complementarity, relative to the terms, are within a tolerance."""
        return max(self.primal, self.dual, self._apart(max(self.gap_denominator, self.terms))) <= tolerance

    def _apart(self, size: float) -> float:
        apart = abs(self.objective - self.dual_objective)
        if apart > _NEGLIGIBLE * size:
            apart = max(apart - self._rounding, 0.0)
        return apart / size if apart > 0.0 else 0.0

    @cached_property
    def _reduced(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Reduced costs of the columns (n,), and the largest rounding error of each."""
        z, error, _ = reduced_costs(self.lp, self.y)
        return z, error

    @cached_property
    def _rounding(self) -> float:
        """Effect of the rounding errors of the reduced costs on the dual objective."""
        z, error = self._reduced
        drives = np.where(z > 0.0, self.lp.lower, self.lp.upper)
        return float(error @ abs(np.where(np.isinf(drives), 0.0, drives)))

    @cached_property
    def _proved(self) -> float:
        """Lower bound that holds in exact arithmetic; minus infinity if the prices prove nothing."""
        lp, best = self.lp, -math.inf
        enough = self.dual_objective - lp.offset - 1e-9 * self.gap_denominator
        for prices, lower, upper in self._attempts():
            best = max(best, bound_at(lp, prices, lower, upper).value)
            if best >= enough:
                break
        return math.nextafter(best + lp.offset, -math.inf) if lp.offset else best

    def _attempts(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
        """Yield prices (m,) and bounds of the columns (n,) that may prove a bound, the cheapest first."""
        lp = self.lp
        yield self.y, lp.lower, lp.upper
        yield self.y, *implied_bounds(lp)
        moved = right_prices(lp, self.y)
        if moved is not None:
            yield moved, lp.lower, lp.upper
            yield moved, *implied_bounds(lp)

    @property
    def certified(self) -> bool:
        """True if `bound` is proved in exact arithmetic."""
        loss = self.dual_objective - self._proved
        return loss <= max(_LOST, self.worst()) * self.gap_denominator

    @property
    def bound(self) -> float:
        """Lower bound on the optimum; the dual objective if no bound near it is proved."""
        return self._proved if self.certified else self.dual_objective

    @property
    def gap(self) -> float:
        """(objective - bound) / `gap_denominator`, at least 0."""
        apart = self.objective - self.bound
        return apart / self.gap_denominator if apart > 0.0 else 0.0


@dataclass(frozen=True)
class LPRay:
    """Proof that a general LP is infeasible or, if it has a feasible point, unbounded.

    `vector` has prices of the rows (m,) or a direction of the columns (n,). `value` is the violation that the
    prices prove, > 0, or the cost along the direction, < 0. `certified` is True if the vector itself proves
    this in exact arithmetic. It is False if the proof holds up to rounding errors, or needs bounds of columns
    that rows imply.
    """

    kind: Literal["infeasible", "unbounded"]
    vector: NDArray[np.float64]
    value: float
    certified: bool = True


class LPChecker:
    """LP with the transposed and absolute matrices that its certificates read."""

    def __init__(self, lp: LinearProgram) -> None:
        self.lp, A = lp, lp.A
        self._size = absolute(A)
        self._T, self._size_T = A.T, self._size.T
        self._row_count = (np.bincount(A.indices, minlength=A.shape[0]) + 4) * EPS
        self._column_count = (np.diff(A.indptr) + 4) * EPS
        self._largest = np.zeros(A.shape[0])
        np.maximum.at(self._largest, A.indices, self._size.data)

    def follow(self, lp: LinearProgram) -> LPChecker:
        """Return the checker of another state of the LP."""
        if lp.A is not self.lp.A:
            return LPChecker(lp)
        self.lp = lp
        return self

    def certificate(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> LPCertificate:
        """Return residuals and objectives of a point (n,), clipped to its bounds, and prices (m,)."""
        lp = self.lp
        x, y = np.clip(x, lp.lower, lp.upper), paid_prices(lp, y)
        cost = lp.c * x
        z = lp.c + self._T @ y
        drives = np.where(z > 0.0, lp.lower, lp.upper)
        endless = np.isinf(drives)
        held = z * np.where(endless, 0.0, drives)
        paid = y * np.where(y > 0.0, lp.row_upper, np.where(y < 0.0, lp.row_lower, 0.0))
        objective, dual_objective = float(cost.sum()), float(held.sum() - paid.sum())
        terms = float(abs(cost).sum() + abs(held).sum() + abs(paid).sum())
        return LPCertificate(
            lp,
            x,
            y,
            objective + lp.offset,
            dual_objective + lp.offset,
            self.violation(x),
            self._unpaid(z, y, np.flatnonzero(endless & (z != 0.0))),
            terms + abs(lp.offset),
        )

    def _unpaid(self, z: NDArray[np.float64], y: NDArray[np.float64], at: NDArray[np.int64]) -> float:
        """Return the largest relative reduced cost of some columns, beyond its rounding errors."""
        at = at[abs(z[at]) > self._column_count[at] * abs(self.lp.c[at])]
        if not at.size:
            return 0.0
        terms = (abs(self.lp.c) + self._size_T @ abs(y))[at]
        over = abs(z[at]) - self._column_count[at] * terms
        return _largest_ratio(over, np.maximum(terms, math.sqrt(float(np.mean(self.lp.c**2)))))

    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest relative violation of a row by a point within its bounds."""
        lp = self.lp
        activity = lp.A @ x
        bound = abs(np.where(activity > lp.row_upper, lp.row_upper, lp.row_lower))
        over = np.maximum(activity - lp.row_upper, lp.row_lower - activity)
        at = np.flatnonzero(over > self._row_count * bound)
        if not at.size:
            return 0.0
        size = np.maximum((self._size @ abs(x))[at], bound[at])
        over = over[at] - self._row_count[at] * size
        if over.max() <= 0.0:
            return 0.0
        return _largest_ratio(over, np.maximum(size, self._largest[at] * _typical(x)))


def _largest_ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    """Return the largest quotient; 0 / 0 is 0, and an infinite part over an infinite whole is infinite."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(part > 0.0, part / whole, 0.0)
    return float(np.where(np.isnan(found), np.inf, found).max(initial=0.0))


def _typical(values: NDArray[np.float64]) -> float:
    """Return the median of the absolute nonzero values; 0 without any."""
    nonzero = values[values != 0.0]
    return float(np.median(abs(nonzero))) if nonzero.size else 0.0


# ---- rays --------------------------------------------------------------------------------------------------


def infeasible_ray(lp: LinearProgram, y: NDArray[np.float64]) -> LPRay | None:
    """Return the ray of prices (m,) if their bound without costs is above 0, else None.

    Such prices prove that no x within its bounds satisfies the rows.
    """
    bare = replace(lp, c=np.zeros(lp.c.size), offset=0.0)
    box, tried = (lp.lower, lp.upper), []
    for near in _nearby(y):
        prices = paid_prices(bare, near)
        for bounds in (box, implied_bounds(bare)):
            found = bound_at(bare, prices, *bounds)
            if found.value > 0.0:
                return LPRay("infeasible", prices, found.value, certified=bounds is box)
        tried.append(prices)
    for prices in tried:
        found_at = LPChecker(bare).certificate(np.zeros(lp.c.size), prices)
        if found_at.dual <= _CLEAR and found_at.dual_objective > _CLEAR * found_at.terms:
            return LPRay("infeasible", prices, found_at.dual_objective, certified=False)
    return None


def unbounded_ray(lp: LinearProgram, direction: NDArray[np.float64]) -> LPRay | None:
    """Return the ray of a direction (n,) if the objective falls along it without limit, else None."""
    rows = lp.A.T.tocsc()
    across = replace(lp, c=np.zeros(lp.row_lower.size), A=rows)
    last = None
    for d in _nearby(direction):
        d = np.where((np.isfinite(lp.upper) & (d > 0)) | (np.isfinite(lp.lower) & (d < 0)), 0.0, d)
        value = math.fsum((lp.c * d).tolist())
        weight = abs(rows).T @ abs(d)
        along = exact_reduced_costs(across, d, np.arange(weight.size))
        over = np.maximum(
            np.where(np.isfinite(lp.row_upper), along, 0.0), np.where(np.isfinite(lp.row_lower), -along, 0.0)
        )
        if value < -EPS * d.size * float(abs(lp.c) @ abs(d)):
            if not (over > 0.0).any():
                return LPRay("unbounded", d, value)
            if (
                last is None
                and (over <= _CLEAR * weight).all()
                and -value > _CLEAR * float(abs(lp.c) @ abs(d))
            ):
                last = LPRay("unbounded", d, value, certified=False)
    return last


def _nearby(ray: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Yield multiples of a ray: in whole numbers if these are simple, and with noise set to 0.

    Scaling by a power of 2 changes no digit. Entries that are simple fractions of each other become whole
    numbers, because a sum that must be exactly 0 is not 0 at rounded fractions.
    """
    largest = float(abs(ray).max(initial=0.0))
    if not 0.0 < largest < math.inf:
        return
    ray = ray / 2.0 ** np.ceil(np.log2(largest))
    for noise in _NOISE:
        kept = np.where(abs(ray) > noise, ray, 0.0)
        whole = _whole_multiple(kept)
        if whole is not None:
            yield whole
        yield kept


def _whole_multiple(ray: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return whole numbers in the ratios of a ray; None if the ratios are not simple fractions."""
    at = np.flatnonzero(ray)
    values = ray[at] / abs(ray[at]).min()
    ratios, place = np.unique(values, return_inverse=True)
    if ratios.size > _SIMPLE or abs(ratios).max() > 2.0**40:
        return None
    near = [Fraction(ratio).limit_denominator(_SIMPLE) for ratio in ratios.tolist()]
    if any(
        abs(float(one) - ratio) > 1e-9 * abs(ratio) for one, ratio in zip(near, ratios.tolist(), strict=True)
    ):
        return None
    factor = math.lcm(*(one.denominator for one in near))
    if factor * abs(ratios).max() > 2.0**52:
        return None
    whole = np.zeros(ray.size)
    whole[at] = np.array([float(one * factor) for one in near])[place]
    return whole
