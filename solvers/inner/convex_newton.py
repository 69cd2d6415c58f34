"""Semismooth Newton on the prices of a program with convex terms.

The inner minimiser of psi (:mod:`copter.solvers.inner.newton`) for a request with a term solves

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
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from copter.solvers.inner.convex_kernels import (
    EXPANSION,
    SLOPE_CLOSE,
    SLOPE_STEPS,
    rank_one_diagonal,
    rank_one_hessian,
    rank_one_times,
    respond,
    solve_logs,
    tangent_parts,
    term_centres,
)
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.newton import Point, Sample, SemismoothNewton
from copter.solvers.inner.tuning import NewtonTuning
from copter.solvers.inner.working_set import WorkingSet
from copter.terms.convex import Floats


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
    tuning : NewtonTuning, optional
    """

    def __init__(
        self,
        working: WorkingSet,
        terms: WorkingTerms,
        stop: Callable[[], bool],
        threads: int | None,
        slopes: Floats,
        tuning: NewtonTuning | None = None,
    ) -> None:
        every = replace(tuning or NewtonTuning(), hessian_blocks=working.slot.size)  # no samples
        super().__init__(working, stop, threads, every)
        self.terms = terms
        self._pull, self._scale = -slopes, np.maximum(abs(slopes), 1e-300)
        self._rank_one: tuple[Point, Floats, Floats] | None = None

    def _tilted(self, y: Floats, centre: Floats, sigma: float) -> tuple[WorkingSet, float]:
        terms = self.terms
        v = term_centres(self.working, terms.block, terms.first, y, centre, sigma)
        self._pull, t = self._solve_slopes(v, sigma)
        return terms.tilted(-self._pull), float(np.sum(self._pull * t + terms.batch.value(t)))

    def _solve_slopes(self, v: Floats, sigma: float) -> tuple[Floats, Floats]:
        """Roots s of s + phi'(a'x(s)) with x(s) = Proj(v + sigma s a), and a'x there."""
        terms, batch, logs = self.terms, self.terms.batch, self.terms.batch.logs
        fixed = terms.image, terms.upper, batch.relation, batch.total, batch.first
        s, t = self._pull.copy(), np.empty(self._pull.size)
        solve_logs(v, sigma, *fixed, *logs, self._scale, s, t)
        if logs.own.all():
            return s, t
        low, high = np.full(s.size, -np.inf), np.full(s.size, np.inf)
        square, done = np.empty(s.size), logs.own.copy()
        with np.errstate(all="ignore"):
            for _ in range(SLOPE_STEPS):
                respond(v, sigma * s, *fixed, ~done, t, square)
                kappa = sigma * square
                flat = -batch.slope(t)
                low, high = np.where(s < flat, s, low), np.where(s > flat, s, high)
                new = np.where(kappa > 0, -batch.slope(batch.proximal(t - kappa * s, kappa)), flat)
                # far from the root the slope may be far too steep, or infinite
                reach = EXPANSION * np.maximum(abs(s), self._scale)
                new = np.where(np.isinf(high), np.minimum(new, s + reach), new)
                new = np.where(np.isinf(low), np.maximum(new, s - reach), new)
                close = abs(new - s) <= SLOPE_CLOSE * abs(s)
                done |= close | (s == flat)  # before rounding leaves the bracket
                if done.all():
                    break
                outside = ~((new > low) & (new < high))
                apart = (low > 0) & (high > EXPANSION * low)
                middle = np.where(apart, np.sqrt(low * high), 0.5 * (low + high))
                middle = np.where(np.isinf(low), high - reach, np.where(np.isinf(high), low + reach, middle))
                s = np.where(done, s, np.where(outside, middle, new))
        return s, t

    def _rank_one_part(self, here: Point, sigma: float) -> tuple[Floats, Floats]:
        """(v, rho) of every term"""
        if self._rank_one is None or self._rank_one[0] is not here:
            terms = self.terms
            v, square = tangent_parts(
                terms.first, terms.image, terms.block, here.free, here.tight, self.working.first
            )
            with np.errstate(all="ignore"):
                curvature = terms.batch.curvature(terms.images(here.x))
                rho = np.where(square > 0, sigma * sigma / (1.0 / curvature + sigma * square), 0.0)
            self._rank_one = here, v, rho
        return self._rank_one[1:]

    def _hessian(
        self, here: Point, sigma: float, index: NDArray[np.int64], active: NDArray[np.int64], sample: Sample
    ) -> Floats:
        hessian = super()._hessian(here, sigma, index, active, sample)
        v, rho = self._rank_one_part(here, sigma)
        rank_one_hessian(self.working, self.terms.block, self.terms.first, v, rho, index, hessian)
        return hessian

    def _hessian_times(self, here: Point, sigma: float, d: Floats) -> Floats:
        v, rho = self._rank_one_part(here, sigma)
        own: Floats = rank_one_times(self.working, self.terms.block, self.terms.first, v, rho, d)
        return super()._hessian_times(here, sigma, d) - own

    def _diagonal(self, here: Point, sigma: float, sample: Sample) -> Floats:
        v, rho = self._rank_one_part(here, sigma)
        linear = super()._diagonal(here, sigma, sample)
        own = rank_one_diagonal(self.working, self.terms.block, self.terms.first, v, rho)
        return np.maximum(linear - own, 1e-12 * linear)
