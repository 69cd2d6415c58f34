"""Semismooth Newton on the prices of the proximal subproblem.

For a centre z and a step sigma the subproblem of the proximal-point method,

    min_x  c'x + |x - z|^2 / (2 sigma)   s.t.  x_q in X_q,  l <= A x <= u,

has the dual, one price a row and concave,

    psi(y) = -(u'y+ - l'y-) + sum_q min { p_q'x + |x - z_q|^2 / (2 sigma) : x in X_q },   p = c + A'y,

whose inner minimiser is a projection, and whose derivatives are

    x_q(y) = Proj_{X_q}(z_q - sigma p_q)
    grad   = A x(y) - (u where y > 0, l where y < 0, the nearest point of [l, u] where y = 0)
    Hess   = -sigma sum_q A_q P_q A_q',   P_q = diag(F) - [sum row tight] 1_F 1_F' / |F|,

F the columns strictly between their bounds.  A two-sided row is one price with a kink at 0: a step that
would cross it stops there.  Newton systems get Levenberg-Marquardt damping relative to sigma (without it
the Hessian vanishes where few columns are free); they are solved densely while few rows are active and by
conjugate gradients over the free columns otherwise: nothing of the program is ever factorised.

Sources: Li, Sun and Toh, arXiv 1903.09546 (SNIPAL); projection onto a capped simplex by Newton's method on
its multiplier, Condat (2016), section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.parallel import chunk_bounds, dot, run_chunks
from copter.solvers.inner.newton_kernels import dense_hessian, hessian_diagonal, hessian_times, project_blocks
from copter.solvers.inner.working_set import InnerResult, RowTest, WorkingSet, runaway_price
from copter.solvers.proximal.sampling import Sampler
from copter.store.store import NO_TOTAL

Sample: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Blocks, and how many each stands for."""

_DENSE_ROWS = 1000
_HESSIAN_BLOCKS = 10_000
"""A Hessian is summed over about so many blocks at first: of more, over a sample, another in each step."""
_POOR_STEPS = 3
"""After so many steps in a row that do not halve the gradient the sample doubles."""
_GOLDEN = 0.6180339887498949
ARMIJO = 1e-4
CURVATURE = 0.8
LINE_STEPS = 12
RETRIES = 5
LONGEST_STEP = 1e9
_ELASTIC_STEPS, _ELASTIC_ITERATIONS = 12, 50
_ELASTIC_CHANGE = 1e-10
"""Violations that change by less, relatively, are the least: longer steps would only meet round-off."""
DAMPING = (1e-12, 1e4)


@dataclass
class Point:
    """An evaluation of psi: value, gradient and what the Newton system needs."""

    y: NDArray[np.float64]
    x: NDArray[np.float64]
    free: NDArray[np.bool_]
    tight: NDArray[np.bool_]
    value: float
    gradient: NDArray[np.float64]


class SemismoothNewton:
    """Newton's method on psi; keeps the damping between calls.

    Parameters
    ----------
    working : WorkingSet
    stop : callable
        Asked before every step whether to give up, for deadlines.
    threads : int, optional
    blocks : int
        Blocks that the first Hessians are summed over.
    """

    def __init__(
        self,
        working: WorkingSet,
        stop: Callable[[], bool],
        threads: int | None = None,
        blocks: int = _HESSIAN_BLOCKS,
    ) -> None:
        self.working = working
        self.stop = stop
        self.threads = threads
        self._damping = 1e-3
        self._turn = self._poor = 0
        self._blocks = blocks
        # totals in the set's units go with the root of the curvature
        self._weight = np.where(working.relation == NO_TOTAL, np.inf, working.total**2)
        self._sampler = Sampler(self._weight, self._blocks)
        self._elastic = 0.0
        self._rows = RowTest(working)
        weights = np.diff(working.pointer[working.first]) + np.diff(working.first)
        self._chunks = chunk_bounds(weights)
        self._kinked = working.lower_row < working.upper_row

    def evaluate(self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float) -> Point:
        """psi, its gradient and the projection at prices ``y``."""
        bounds = self._chunks
        w, more = self._tilted(y, centre, sigma)
        x = np.empty(w.column.size)
        free, tight = np.empty(w.column.size, np.bool_), np.empty(w.slot.size, np.bool_)
        parts = run_chunks(
            lambda k: project_blocks(w, y, centre, sigma, bounds[k], bounds[k + 1], x, free, tight),
            bounds.size - 1,
            self.threads,
        )
        value, activity = more + 0.5 * dot(centre, centre) / sigma, np.zeros(y.size)
        for part in parts:
            value += part[0]
            activity += part[1]
        target = np.where(y > 0, w.upper_row, np.where(y < 0, w.lower_row, 0.0))
        value -= dot(np.where(y == 0, 0.0, y), target)
        nearest = np.clip(activity, w.lower_row, w.upper_row)
        held = np.where(self._kinked, target, w.upper_row)
        gradient = activity - np.where((y == 0) & self._kinked, nearest, held)
        value -= 0.5 * self._elastic * dot(y, y)
        gradient -= self._elastic * y
        return Point(y, x, free, tight, value, gradient)

    def _tilted(
        self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float
    ) -> tuple[WorkingSet, float]:
        """Costs at whose projection psi is to be evaluated, and what that leaves out of psi."""
        return self.working, 0.0

    def solve(
        self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float, closeness: float, limit: int
    ) -> InnerResult:
        """Maximise psi from ``y`` until every row is met to a share ``closeness`` of its size."""
        here = self.evaluate(y, centre, sigma)
        left, far = self._left(here, closeness), runaway_price(self.working)
        first = max(left, 1.0)

        def result(iterations: int) -> InnerResult:
            residual = float(np.linalg.norm(here.gradient))
            return InnerResult(here.x, here.y, left <= 1.0, iterations, left / first, residual)

        for iteration in range(limit):
            # prices run away where rows cannot be met
            if left <= 1.0 or abs(here.y).max(initial=0.0) > far or self.stop():
                return result(iteration)
            there = None
            for _ in range(RETRIES):
                there = self._search(here, self._direction(here, sigma), centre, sigma)
                if there is not None:
                    break
            if there is None:
                return result(iteration)
            self._judge(np.linalg.norm(there.gradient) <= 0.5 * np.linalg.norm(here.gradient))
            here, left = there, self._left(there, closeness)
        return result(limit)

    def _left(self, here: Point, closeness: float) -> float:
        """What is left of the gradient, over what may be left of it."""
        if self._elastic:
            return float(np.linalg.norm(here.gradient)) / closeness
        return self._rows.worst(here.gradient, here.x, closeness)

    def _judge(self, good: bool | np.bool_) -> None:
        """Take a larger sample for the Hessian where steps lead little further."""
        self._poor = 0 if good else self._poor + 1
        if self._poor == _POOR_STEPS and self._blocks < self._weight.size:
            self._poor, self._blocks = 0, 2 * self._blocks
            self._sampler = Sampler(self._weight, self._blocks)

    def least_violation(self, centre: NDArray[np.float64], limit: int) -> InnerResult:
        """(Scaled) prices proportional to the least violation of the rows that the columns can reach.

        At a minimiser x of dist(A x, [l, u])^2 / 2 over the boxes and sum rows, y = A x - Proj(A x) is a
        Farkas ray if it is not 0.  Its dual is psi with zero costs less |y|^2 / 2.
        """
        free = self.working._replace(cost=np.zeros_like(self.working.cost))
        newton = SemismoothNewton(free, self.stop, self.threads)
        newton._elastic = 1.0
        y, sigma, iterations, done = np.zeros(free.row_scale.size), 1.0, 0, False
        for _ in range(_ELASTIC_STEPS):
            most = min(_ELASTIC_ITERATIONS, limit - iterations)
            result = newton.solve(y, centre, sigma, 1e-12 * (1.0 + float(np.linalg.norm(y))), most)
            iterations += max(1, result.iterations)
            done = float(np.linalg.norm(result.y - y)) <= _ELASTIC_CHANGE * float(np.linalg.norm(y))
            y, centre = result.y, result.x
            sigma *= 10.0
            if done or iterations >= limit or self.stop():
                break
        return InnerResult(centre, y, done, iterations)

    def _direction(self, here: Point, sigma: float) -> NDArray[np.float64]:
        """Newton step; prices that would cross their kink go right to it, the others know of that."""
        damping = self._damping * sigma + self._elastic
        self._turn += 1
        sample = self._sampler.draw(self._turn * _GOLDEN % 1.0)
        diagonal = self._diagonal(here, sigma, sample) + damping
        towards = self._kinked & (here.y * here.gradient < 0)
        crossing = towards & (abs(here.gradient) >= abs(here.y) * diagonal)
        step = np.where(crossing, -here.y, 0.0)
        mask = ((here.gradient != 0) | (here.y != 0)) & ~crossing
        active = np.flatnonzero(mask | crossing)
        if active.size <= _DENSE_ROWS:
            index = np.full(here.y.size, -1)
            index[active] = np.arange(active.size)
            hessian = self._hessian(here, sigma, index, active, sample)
            rest, gone = index[mask], index[crossing]
            right = here.gradient[mask] - hessian[np.ix_(rest, gone)] @ step[crossing]
            hessian[np.diag_indices(active.size)] += damping + 1e-15 * hessian.diagonal().max(initial=0.0)
            step[mask] = np.linalg.solve(hessian[np.ix_(rest, rest)], right)
            return step
        pull = self._hessian_times(here, sigma, step)
        solved = self._conjugate_gradients(here, here.gradient - pull, mask, diagonal, sigma, damping)
        return step + solved

    def _hessian(
        self,
        here: Point,
        sigma: float,
        index: NDArray[np.int64],
        active: NDArray[np.int64],
        sample: Sample,
    ) -> NDArray[np.float64]:
        """Minus the Hessian of psi on active rows, which ``index`` numbers; from a sample of the blocks."""
        part = dense_hessian(self.working, here.free, here.tight, index, active.size, *sample)
        return sigma * part

    def _hessian_times(self, here: Point, sigma: float, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Minus the Hessian of psi times d."""
        product: NDArray[np.float64] = hessian_times(self.working, here.free, here.tight, d)
        return sigma * product

    def _diagonal(self, here: Point, sigma: float, sample: Sample) -> NDArray[np.float64]:
        """About the diagonal of minus the Hessian of psi, not below it."""
        diagonal: NDArray[np.float64] = hessian_diagonal(self.working, here.free, here.tight, *sample)
        return sigma * diagonal

    def _conjugate_gradients(
        self,
        here: Point,
        right: NDArray[np.float64],
        mask: NDArray[np.bool_],
        diagonal: NDArray[np.float64],
        sigma: float,
        damping: float,
    ) -> NDArray[np.float64]:
        residual = np.where(mask, right, 0.0)
        goal = min(0.1, float(np.linalg.norm(residual))) * float(np.linalg.norm(residual))
        step = np.zeros(residual.size)
        scaled = residual / diagonal
        search, product = scaled.copy(), dot(residual, scaled)
        for _ in range(500):
            curved = self._hessian_times(here, sigma, search) + damping * search
            curved[~mask] = 0.0
            curvature = dot(search, curved)
            if not curvature > 0.0:
                break
            length = product / curvature
            step += length * search
            residual -= length * curved
            if np.linalg.norm(residual) <= goal:
                break
            scaled = residual / diagonal
            last, product = product, dot(residual, scaled)
            search = scaled + (product / last) * search
        return step

    def _search(
        self, here: Point, step: NDArray[np.float64], centre: NDArray[np.float64], sigma: float
    ) -> Point | None:
        """A point along the (kinked) ray that is higher and not too steep; None if there is none."""
        slope = dot(here.gradient, step)
        # psi is a difference: x'x / 2 - x'v against z'z / 2, over sigma
        noise = 1e-14 * (1.0 + abs(here.value) + 0.5 * dot(centre, centre) / sigma)
        steepness = dot(here.gradient, here.gradient)
        length, low, high = 1.0, 0.0, np.inf
        best: Point | None = None
        for _ in range(LINE_STEPS):
            y = here.y + length * step
            crossed = self._kinked & (((here.y > 0) & (y < 0)) | ((here.y < 0) & (y > 0)))
            y[crossed] = 0.0
            blocked = np.isinf(self.working.upper_row) & (y > 0)
            blocked |= np.isinf(self.working.lower_row) & (y < 0)
            y[blocked] = 0.0
            there = self.evaluate(y, centre, sigma)
            risen = there.value - here.value
            enough = risen >= ARMIJO * dot(here.gradient, y - here.y) - noise
            # at the noise floor of the values only the gradient tells
            enough |= risen >= -100.0 * noise and dot(there.gradient, there.gradient) <= 0.5 * steepness
            if not enough:
                high = length
            else:
                if best is None or there.value > best.value:
                    best = there
                if dot(there.gradient, step) <= CURVATURE * slope:
                    break
                low = length
            if high == np.inf and length > LONGEST_STEP:
                break
            length = 0.5 * (low + high) if high < np.inf else 4.0 * length
        if best is None:
            self._damping = min(DAMPING[1], 100.0 * self._damping)
            return None
        self._damping *= 0.25 if high == np.inf else 4.0
        self._damping = min(DAMPING[1], max(DAMPING[0], self._damping))
        return best
