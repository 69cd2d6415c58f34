"""Semismooth Newton on the prices of a program with convex terms.

The inner minimiser of psi (:mod:`copter.solvers.newton`) for a request with a term solves

    min { p'x + phi(a'x) + |x - z|^2 / (2 sigma) : x in X_q }.

With s = -phi'(a'x) at the answer it is that of a linear request, x(s) = Proj_X(z - sigma (p - s a)), and s is
the root of the increasing function s + phi'(a'x(s)).  a'x(s) is piecewise linear with slope
kappa = sigma a'P a, P as for a linear request; on a piece the root is a proximal point of phi, so a step goes
there at once, and steps inside a bracket reach it after a few pieces.  All requests take their steps
together, those that have arrived wait.

A change of the prices then moves x by -sigma M A'dy, with the projection less a rank-one part
(Sherman and Morrison):

    M = P - rho v v' / sigma,   v = P a,   rho = sigma^2 / (1 / phi'' + sigma v'v),

so that the Newton matrix is that of the linear program less sum_q rho_q (A_q v_q)(A_q v_q)'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from copter.convex import Floats
from copter.solvers.convex_terms import WorkingTerms, tangent_part
from copter.solvers.newton import Point, SemismoothNewton, respond
from copter.solvers.working_set import WorkingSet

_SLOPE_STEPS = 60
_SLOPE_CLOSE = 1e-13
_EXPANSION = 8.0
_SPARSE = 0.05


class ConvexNewton(SemismoothNewton):
    """Newton's method on psi with convex terms; keeps their slopes between evaluations.

    Parameters
    ----------
    working : WorkingSet
    terms : WorkingTerms
    stop : callable
    threads : int, optional
    slopes : (k,) ndarray
        Guess of phi'(a'x).
    """

    def __init__(
        self,
        working: WorkingSet,
        terms: WorkingTerms,
        stop: Callable[[], bool],
        threads: int | None,
        slopes: Floats,
    ) -> None:
        super().__init__(working, stop, threads)
        self.terms = terms
        self._stride = 1
        self._pull, self._scale = -slopes, np.maximum(abs(slopes), 1e-300)
        shape = (working.column.size, working.row_scale.size)
        by_column = csr_array((working.value, working.row.astype(np.int64), working.pointer), shape=shape)
        self._usage = by_column[terms.columns]
        self._usage_of_rows = self._usage.T.tocsc()
        self._rank_one: tuple[Point, Any, Floats] | None = None

    def _tilted(self, y: Floats, centre: Floats, sigma: float) -> tuple[WorkingSet, float]:
        terms = self.terms
        own = terms.columns
        v = centre[own] - sigma * (self.working.cost[own] + self._usage @ y)
        s, t = self._solve_slopes(v, sigma)
        self._pull = s
        return terms.tilted(-s), float(np.sum(s * t + terms.batch.value(t)))

    def _solve_slopes(self, v: Floats, sigma: float) -> tuple[Floats, Floats]:
        """Roots s of s + phi'(a'x(s)) with x(s) = Proj(v + sigma s a), and a'x there."""
        terms, batch, s = self.terms, self.terms.batch, self._pull
        fixed = terms.image, terms.local.upper, batch.relation, batch.total, batch.first
        low, high = np.full(s.size, -np.inf), np.full(s.size, np.inf)
        t, square, done = np.empty(s.size), np.empty(s.size), np.zeros(s.size, np.bool_)
        with np.errstate(all="ignore"):
            for _ in range(_SLOPE_STEPS):
                respond(v, sigma * s, *fixed, ~done, t, square)
                kappa = sigma * square
                flat = -batch.slope(t)
                low, high = np.where(s < flat, s, low), np.where(s > flat, s, high)
                new = np.where(kappa > 0, -batch.slope(batch.proximal(t - kappa * s, kappa)), flat)
                # far from the root the slope may be far too steep, or infinite
                reach = _EXPANSION * np.maximum(abs(s), self._scale)
                new = np.where(np.isinf(high), np.minimum(new, s + reach), new)
                new = np.where(np.isinf(low), np.maximum(new, s - reach), new)
                done |= (abs(new - s) <= _SLOPE_CLOSE * abs(s)) | (
                    s == flat
                )  # before rounding leaves the bracket
                if done.all():
                    break
                outside = ~((new > low) & (new < high))
                apart = (low > 0) & (high > _EXPANSION * low)
                middle = np.where(apart, np.sqrt(low * high), 0.5 * (low + high))
                middle = np.where(np.isinf(low), high - reach, np.where(np.isinf(high), low + reach, middle))
                s = np.where(done, s, np.where(outside, middle, new))
        return s, t

    def _rank_one_part(self, here: Point, sigma: float) -> tuple[Any, Floats]:
        """(A_q v_q, a column a term; rho)"""
        if self._rank_one is None or self._rank_one[0] is not here:
            terms = self.terms
            blocks = np.searchsorted(self.working.slot, terms.batch.slot)
            v, square = tangent_part(terms, here.free[terms.columns], here.tight[blocks])
            with np.errstate(all="ignore"):
                curvature = terms.batch.curvature(terms.images(here.x))
                rho = np.where(square > 0, sigma * sigma / (1.0 / curvature + sigma * square), 0.0)
            first = terms.batch.first
            spread = csc_array((v, np.arange(v.size), first), shape=(v.size, first.size - 1))
            self._rank_one = here, (self._usage_of_rows @ spread).tocsr(), rho
        return self._rank_one[1:]

    def _hessian(
        self, here: Point, sigma: float, index: NDArray[np.int64], active: NDArray[np.int64], turn: int
    ) -> Floats:
        hessian = super()._hessian(here, sigma, index, active, turn)
        usage, rho = self._rank_one_part(here, sigma)
        part = usage[active]
        if part.nnz > _SPARSE * part.shape[0] * part.shape[1]:
            dense = part.toarray()
            return hessian - (dense * rho) @ dense.T
        return hessian - (part.multiply(rho).tocsr() @ part.T).toarray()

    def _hessian_times(self, here: Point, sigma: float, d: Floats) -> Floats:
        usage, rho = self._rank_one_part(here, sigma)
        return super()._hessian_times(here, sigma, d) - usage @ (rho * (usage.T @ d))

    def _diagonal(self, here: Point, sigma: float, turn: int) -> Floats:
        usage, rho = self._rank_one_part(here, sigma)
        linear = super()._diagonal(here, sigma, turn)
        return np.maximum(linear - usage.multiply(usage) @ rho, 1e-12 * linear)
