"""Semismooth Newton on the prices of the proximal subproblem.

For a centre z and a step sigma the subproblem of the proximal-point method is

    min_x  c'x + |x - z|^2 / (2 sigma)   s.t.  x_q in X_q,  l <= A x <= u.

Its dual has one price a row and a concave objective,

    psi(y) = -(u'y+ - l'y-) + sum_q min { p_q'x + |x - z_q|^2 / (2 sigma) : x in X_q },   p = c + A'y.

The inner minimiser is a projection, and the derivatives of psi are

    x_q(y) = Proj_{X_q}(z_q - sigma p_q)
    grad   = A x(y) - (u where y > 0, l where y < 0, the nearest point of [l, u] where y = 0)
    Hess   = -sigma sum_q A_q P_q A_q',   P_q = diag(F) - [sum row tight] 1_F 1_F' / |F|.

F are the columns strictly between their bounds.  A two-sided row has one price with a kink at 0; a step that
would cross the kink stops there.  The Newton systems have Levenberg-Marquardt damping relative to sigma,
because the Hessian is singular if few columns are free.  They are solved by a dense factorisation if few rows
are active in relation to the free columns, and by conjugate gradients over the free columns otherwise.

The operations of a step are in :mod:`copter.solvers.inner.newton_kernels`.  This module contains the loop for
large sets, whose sums run in threads (:mod:`copter.solvers.inner.sums`);
:mod:`copter.solvers.inner.compiled_newton` contains the loop for small sets.

Sources: Li, Sun and Toh, arXiv 1903.09546 (SNIPAL); projection onto a capped simplex by Newton's method on
its multiplier, Condat (2016), section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from copter.parallel import dot
from copter.solvers.inner.elastic import costless, least_violation
from copter.solvers.inner.newton_kernels import (
    along_ray,
    begin_gradients,
    curvature,
    damped,
    dense_hessian,
    dense_system,
    gradient_steps,
    judge,
    price_rows,
)
from copter.solvers.inner.sampling import Sampler
from copter.solvers.inner.sums import Projection, Sums
from copter.solvers.inner.tuning import NewtonTuning
from copter.solvers.inner.working_set import InnerResult, RowTest, WorkingSet, runaway_price

_judge: Any = judge.py_func  # type: ignore[attr-defined]
_damped: Any = damped.py_func  # type: ignore[attr-defined]
"""Plain Python versions: on a few numbers they are as fast, and need no compilation."""
_GOLDEN = 0.6180339887498949
"""Golden section: its multiples modulo 1, the offsets of successive samples, are evenly distributed."""


@dataclass
class DualPoint:
    """Value and gradient of psi at prices y, and the projection there."""

    y: NDArray[np.float64]
    at: Projection
    value: float
    gradient: NDArray[np.float64]


def _norm(v: NDArray[np.float64]) -> float:
    return math.sqrt(dot(v, v))


def _paid_for(here: DualPoint) -> tuple[float, float]:
    """Return y'r and |y|'|r| for the rows' violations r; in the second, |y| is at least a typical price."""
    price, off = abs(here.y), abs(here.gradient)
    typical = float(price.sum()) / max(1, int(np.count_nonzero(price)))
    return dot(here.y, here.gradient), dot(off, np.maximum(price, typical))


def _solved(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve a positive definite system; use an LU factorisation if rounding errors made it indefinite."""
    if not right.size:
        return right
    _, solved, failed = dposv(matrix, right)
    return np.asarray(np.linalg.solve(matrix, right) if failed else solved, np.float64)


class SemismoothNewton:
    """Newton's method on psi; the object keeps the damping between calls.

    `stop` is called before every step; if it returns True, the method ends.
    """

    def __init__(
        self,
        working: WorkingSet,
        stop: Callable[[], bool],
        threads: int | None = None,
        tuning: NewtonTuning | None = None,
    ) -> None:
        self.working = working
        self.stop = stop
        self.threads = threads
        self.sums = Sums(working, threads)
        self.tuning = tuning or NewtonTuning()
        self._damping = self.tuning.line.first_damping
        self._turn = self._poor = 0
        self._blocks = self.tuning.hessian_blocks
        # in the set's units, a total is proportional to the square root of the curvature
        self._weight = working.total**2
        self._sampler = Sampler(self._weight, self._blocks)
        self._elastic = 0.0
        self._rows = RowTest(working)

    def evaluate(self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float) -> DualPoint:
        """Return psi, its gradient and the projection at prices y, for centre z and length sigma > 0."""
        self.sums.begin(centre, sigma)
        return self._evaluate(y)

    def _evaluate(self, y: NDArray[np.float64]) -> DualPoint:
        """Evaluate psi at prices y for the present centre and length."""
        at = self.sums.project(y)
        gradient = at.activity.copy()
        value = price_rows(self.working, y, at.value, gradient)
        return DualPoint(y, at, value - 0.5 * self._elastic * dot(y, y), gradient - self._elastic * y)

    def solve(
        self,
        y: NDArray[np.float64],
        centre: NDArray[np.float64],
        sigma: float,
        closeness: float,
        limit: int,
        enough: float = 0.0,
    ) -> InnerResult:
        """Maximise psi from `y` until each row's violation is at most `closeness` times its size.

        The method also ends, without having converged, if the norm of the violations is at most `enough`
        times the distance that x moved. The other arguments are those of
        :class:`copter.solvers.proximal.steps.InnerSolver`.
        """
        here = self.evaluate(y, centre, sigma)
        left, far = self._left(here, closeness), runaway_price(self.working)
        first = max(left, 1.0)

        def result(iterations: int) -> InnerResult:
            off, residual = _paid_for(here), _norm(here.gradient)
            x = here.at.x
            return InnerResult(x, here.y, left <= 1.0, iterations, left / first, residual, *off)

        for iteration in range(limit):
            # prices diverge if rows cannot be satisfied
            if left <= 1.0 or abs(here.y).max(initial=0.0) > far or self.stop():
                return result(iteration)
            moved = math.sqrt(self.sums.moved(here.at)) if iteration and enough else 0.0
            if iteration and _norm(here.gradient) <= enough * moved:
                return result(iteration)
            there = None
            for _ in range(self.tuning.line.retries):
                there = self._search(here, self._direction(here, sigma))
                if there is not None:
                    break
            if there is None:
                return result(iteration)
            self._judge(np.linalg.norm(there.gradient) <= 0.5 * np.linalg.norm(here.gradient))
            here, left = there, self._left(there, closeness)
        return result(limit)

    def _left(self, here: DualPoint, closeness: float) -> float:
        """Return the ratio of the gradient to its tolerance; at most 1 if converged."""
        if self._elastic:
            return float(np.linalg.norm(here.gradient)) / closeness
        return self._rows.worst_of(here.gradient, here.at.square, closeness)

    def _judge(self, good: bool | np.bool_) -> None:
        """Enlarge the Hessian's sample if several steps in a row did not halve the gradient."""
        self._poor = 0 if good else self._poor + 1
        if self._poor == self.tuning.poor_steps and self._blocks < self._weight.size:
            self._poor = 0
            self._enlarge(2 * self._blocks)

    def _enlarge(self, blocks: int) -> None:
        """Sample at least this many blocks for the Hessian, or all."""
        if self._blocks < min(blocks, self._weight.size):
            self._blocks = blocks
            self._sampler = Sampler(self._weight, self._blocks)

    def least_violation(self, centre: NDArray[np.float64], limit: int) -> InnerResult:
        """Return the least violation of the rows (:func:`copter.solvers.inner.elastic.least_violation`).

        Its dual is psi with zero costs minus |y|^2 / 2.
        """
        tuning = self.tuning
        newton = SemismoothNewton(costless(self.working), self.stop, self.threads, tuning)
        newton._elastic = 1.0

        def step(
            y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float, limit: int
        ) -> InnerResult:
            closeness = tuning.elastic.closeness * (1.0 + float(np.linalg.norm(y)))
            return newton.solve(y, centre, sigma, closeness, min(tuning.elastic_iterations, limit))

        rows = self.working.row_scale.size
        return least_violation(step, centre, rows, limit, self.stop, tuning.elastic)

    def _direction(self, here: DualPoint, sigma: float) -> NDArray[np.float64]:
        """Return the Newton step; a price that would cross its kink at 0 moves to 0."""
        w, damping = self.working, self._damping * sigma + self._elastic
        active = np.flatnonzero((here.gradient != 0) | (here.y != 0))
        self._enlarge(self.tuning.blocks_a_row * active.size)
        self._turn += 1
        sample = self._sampler.draw(self._turn * _GOLDEN % 1.0)
        index, systems = np.full(here.y.size, -1), self.tuning.systems
        index[active] = np.arange(active.size)
        parts = curvature(w, here.at.free, here.at.tight, index, *sample)
        if not systems.dense(active.size, parts[1].size):
            state, along = begin_gradients(
                w, here.y, here.gradient, parts, sigma, damping, systems.cg_closeness
            )
            ends, left = False, systems.cg_steps
            some = max(1, systems.products // max(1, parts[1].size))
            while not ends and left > 0 and not self.stop():
                along, ends = gradient_steps(parts, sigma, damping, state, along, min(some, left))
                left -= some
            if ends or active.size > systems.dense_rows:
                return np.asarray(state.step)
        hessian = sigma * dense_hessian(parts, index, active.size)
        step: NDArray[np.float64]
        system, right, rows, step = dense_system(w, here.y, here.gradient, hessian, active, damping)
        step[rows] = _solved(system, right)
        return step

    def _search(self, here: DualPoint, step: NDArray[np.float64]) -> DualPoint | None:
        """Return a higher point along the (kinked) ray that is not too steep; None if none was found."""
        line, spread = self.tuning.line, 0.5 * self.sums.centre_square / self.sums.sigma
        steepness, slope = dot(here.gradient, here.gradient), dot(here.gradient, step)
        bracket = 1.0, 0.0, math.inf
        best: DualPoint | None = None
        for _ in range(line.steps):
            there = self._evaluate(along_ray(self.working, here.y, step, bracket[0]))
            enough, ends, bracket = _judge(
                line,
                spread,
                (here.value, there.value),
                dot(here.gradient, there.y - here.y),
                (steepness, dot(there.gradient, there.gradient)),
                (slope, dot(there.gradient, step)),
                bracket,
            )
            if enough and (best is None or there.value > best.value):
                best = there
            if ends:
                break
        self._damping = _damped(line, self._damping, best is not None, bracket[2])
        return best
