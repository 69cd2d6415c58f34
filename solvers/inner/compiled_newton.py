"""Semismooth Newton on the prices in compiled pieces of many steps: for small programs, and for convex terms.

The method, and what a step is made of, is that of :mod:`copter.solvers.inner.newton`.  With some thousand
columns and a few dozen rows a Newton step is so little work that Python's part of it would be most of the
time; so the loop is compiled here, as many steps at once as take a fraction of a second together.  Programs
without terms have kernels without them.

The inner minimiser of a request with a term is found by the slope of its term
(:mod:`copter.solvers.inner.convex_kernels`).  A change of the prices then moves x by -sigma M A'dy, with the
projection P of a linear request less a rank-one part (Sherman and Morrison):

    M = P - rho v v' / sigma,   v = P a,   rho = sigma^2 / (1 / phi'' + sigma v'v),

so that the Newton matrix is that of the linear program less sum_q rho_q (A_q v_q)(A_q v_q)'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.compile.kernels import kernel
from copter.solvers.inner.convex_kernels import (
    rank_one_diagonal,
    rank_one_hessian,
    rank_one_times,
    solve_slopes,
    tangent_parts,
    term_centres,
)
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.newton import SemismoothNewton
from copter.solvers.inner.newton_kernels import (
    along_ray,
    begin_gradients,
    damped,
    dense_hessian,
    dense_system,
    hessian_diagonal,
    hessian_times,
    judge,
    next_gradient,
    price_rows,
    product,
    project_blocks,
    to_the_kinks,
)
from copter.solvers.inner.tuning import NewtonTuning
from copter.solvers.inner.working_set import InnerResult, RowTest, WorkingSet, runaway_price, worst_row
from copter.terms.phi import curvature, value


def is_small(working: WorkingSet, tuning: NewtonTuning) -> bool:
    """Whether a set without terms is for the compiled method: dense, no threads, samples or LAPACK."""
    rows, columns = working.row_scale.size, working.column.size
    few = rows <= min(tuning.compiled_rows, tuning.systems.dense_rows)
    return few and columns <= tuning.compiled_columns and working.slot.size <= tuning.hessian_blocks


class CompiledNewton:
    """Newton's method on psi, compiled; keeps the damping, and the slopes of the terms, between calls.

    `stop` is asked between calls of some steps whether to give up. `threads` serve the search of the least
    violation.
    """

    def __init__(
        self,
        working: WorkingSet,
        stop: Callable[[], bool],
        tuning: NewtonTuning | None = None,
        threads: int | None = None,
    ) -> None:
        self.working, self.stop, self.threads = working, stop, threads
        self.tuning = tuning or NewtonTuning()
        self._damping = self.tuning.line.first_damping
        self.terms: WorkingTerms | None = None  # its table is read by address
        self._terms: tuple[Any, ...] | None = None
        self._pull = np.empty(0)
        self._rows, self._far = RowTest(working), runaway_price(working)
        self._steps = max(1, self.tuning.columns_a_call // max(1, working.column.size))

    @classmethod
    def of_terms(
        cls,
        working: WorkingSet,
        terms: WorkingTerms,
        slopes: Floats,
        stop: Callable[[], bool],
        tuning: NewtonTuning | None = None,
        threads: int | None = None,
    ) -> CompiledNewton:
        """Return the method for a working set with convex terms; `slopes` (k,) are a guess of phi'(a'x)."""
        newton, batch = cls(working, stop, tuning, threads), terms.batch
        newton.terms = terms
        scale = np.maximum(abs(slopes), 1e-300)
        packed = terms.block, terms.first, terms.image, terms.upper, batch.relation, batch.total
        newton._terms, newton._pull = (batch.phi, *packed, scale), -slopes
        return newton

    def solve(self, y: Floats, centre: Floats, sigma: float, closeness: float, limit: int) -> InnerResult:
        """Maximise psi from ``y`` until every row is met to a share ``closeness`` of its size."""
        cost = self.working.cost
        tilted = cost if self.terms is None else cost.copy()
        steps, first = 0, 0.0
        while True:
            most = min(self._steps, limit - steps)
            x, y, self._pull, self._damping, taken, begin, left, residual = _solve(
                self.working,
                tilted,
                self._terms,
                self._pull,
                y,
                centre,
                sigma,
                self._rows.sizes,
                closeness,
                most,
                self._damping,
                self._far,
                self.tuning.line,
                self.tuning.systems,
            )
            first, steps = first or max(begin, 1.0), steps + taken
            if left <= 1.0 or taken < most or steps >= limit or self.stop():
                return InnerResult(x, y, left <= 1.0, steps, left / first, residual)

    def least_violation(self, centre: Floats, limit: int) -> InnerResult:
        """As :meth:`SemismoothNewton.least_violation`: it knows no objective, so no terms."""
        newton = SemismoothNewton(self.working, self.stop, self.threads, self.tuning)
        return newton.least_violation(centre, limit)


@kernel(allocates=True, inner=True)
def _tilt(w, tilted, terms, pull, y, centre, sigma):  # type: ignore[no-untyped-def]
    """Costs at the slopes that terms have at prices y, into ``tilted``: (what terms cost, slopes, a'x)."""
    phi, block, first, image, upper, relation, total, scale = terms
    v = term_centres(w, block, first, y, centre, sigma)
    s, t = pull.copy(), np.empty(pull.size)
    solve_slopes(phi, v, sigma, image, upper, relation, total, first, scale, s, t)
    more = 0.0
    for b in range(block.size):
        shift = w.first[block[b]] - first[b]
        for j in range(first[b], first[b + 1]):
            tilted[j + shift] = w.cost[j + shift] - s[b] * image[j]
        more += s[b] * t[b] + value(phi, b, t[b])
    return more, s, t


@kernel(allocates=True, inner=True)
def _evaluate(w, tilted, terms, pull, y, centre, sigma, spread):  # type: ignore[no-untyped-def]
    """psi at prices y: (value, gradient, x, free, tight, slopes, a'x); ``spread``: |centre|^2 / (2 sigma)."""
    if terms is None:  # a branch that is not compiled for the other kind of set
        more, s, t = 0.0, pull, pull
    else:
        more, s, t = _tilt(w, tilted, terms, pull, y, centre, sigma)
    x = np.empty(w.column.size)
    free, tight = np.empty(w.column.size, np.bool_), np.empty(w.slot.size, np.bool_)
    height, gradient, _ = project_blocks(w, tilted, y, centre, sigma, 0, w.slot.size, x, free, tight)
    height = price_rows(w, y, height + (more + spread), gradient)
    return height, gradient, x, free, tight, s, t


@kernel(inlined=True)
def _cholesky_solve(a, right):  # type: ignore[no-untyped-def]
    """Solve a d = right with the positive definite a, whose lower triangle is overwritten; d in ``right``."""
    n = right.size
    column = np.empty(n)
    for k in range(n):
        pivot = np.sqrt(max(a[k, k], 1e-300))
        for i in range(k, n):
            a[i, k] /= pivot
            column[i] = a[i, k]
        for i in range(k + 1, n):
            for j in range(k + 1, i + 1):
                a[i, j] -= column[i] * column[j]
    for i in range(n):
        for k in range(i):
            right[i] -= a[i, k] * right[k]
        right[i] /= a[i, i]
    for i in range(n - 1, -1, -1):
        right[i] /= a[i, i]
        for k in range(i):
            right[k] -= a[i, k] * right[i]


@kernel(allocates=True, inner=True)
def _rank_one(w, terms, free, tight, t, sigma):  # type: ignore[no-untyped-def]
    """(v, rho) of every term"""
    phi, block, first, image = terms[0], terms[1], terms[2], terms[3]
    v, square = tangent_parts(first, image, block, free, tight, w.first)
    rho = np.zeros(block.size)
    for b in range(block.size):
        if square[b] > 0.0:
            rho[b] = sigma * sigma / (1.0 / curvature(phi, b, t[b]) + sigma * square[b])
    return v, rho


@kernel(allocates=True, inner=True)
def _dense_direction(w, terms, y, gradient, free, tight, v, rho, sigma, damping, active, every, once):  # type: ignore[no-untyped-def]
    """Newton step by a factorisation."""
    index = np.full(y.size, -1)
    for a in range(active.size):
        index[active[a]] = a
    hessian = dense_hessian(w, free, tight, index, active.size, every, once)
    for a in range(active.size):
        for c in range(active.size):
            hessian[a, c] *= sigma
    if terms is not None:
        rank_one_hessian(w, terms[1], terms[2], v, rho, index, hessian)
    system, right, rows, step = dense_system(w, y, gradient, hessian, active, damping)
    _cholesky_solve(system, right)
    for a in range(rows.size):
        step[rows[a]] = right[a]
    return step


@kernel(allocates=True, inner=True)
def _times(w, terms, free, tight, v, rho, sigma, d, every, once):  # type: ignore[no-untyped-def]
    """Minus the Hessian of psi times d."""
    times = hessian_times(w, free, tight, d, every, once)
    own = rank_one_times(w, terms[1], terms[2], v, rho, d)
    for i in range(times.size):
        times[i] = times[i] * sigma - own[i]
    return times


@kernel(allocates=True, inner=True)
def _sparse_direction(w, terms, y, gradient, free, tight, v, rho, sigma, damping, systems, every, once):  # type: ignore[no-untyped-def]
    """Newton step by conjugate gradients."""
    diagonal = hessian_diagonal(w, free, tight, every, once)
    own = rank_one_diagonal(w, terms[1], terms[2], v, rho)
    for i in range(y.size):
        linear = sigma * diagonal[i]
        diagonal[i] = max(linear - own[i], 1e-12 * linear) + damping
    step, rest = to_the_kinks(w, y, gradient, diagonal)
    residual, search = _times(w, terms, free, tight, v, rho, sigma, step, every, once), np.empty(y.size)
    goal, along = begin_gradients(gradient, rest, diagonal, systems.cg_closeness, residual, search)
    for _ in range(systems.cg_steps):
        curved = _times(w, terms, free, tight, v, rho, sigma, search, every, once)
        along, left = next_gradient(curved, rest, diagonal, damping, step, residual, search, along)
        if left <= goal:
            break
    return step


@kernel(inlined=True)
def _direction(w, terms, y, gradient, free, tight, t, sigma, damping, systems, every, once):  # type: ignore[no-untyped-def]
    """Newton step; prices that would cross their kink go right to it, the others know of that."""
    if terms is None:
        v, rho = t, t
    else:
        v, rho = _rank_one(w, terms, free, tight, t, sigma)
    active, count = np.empty(y.size, np.int64), 0
    for i in range(y.size):
        if gradient[i] != 0.0 or y[i] != 0.0:
            active[count] = i
            count += 1
    active = active[:count]
    if terms is not None:  # sets without terms have no more rows than systems are dense for
        if active.size > systems.dense_rows:
            return _sparse_direction(
                w, terms, y, gradient, free, tight, v, rho, sigma, damping, systems, every, once
            )
    return _dense_direction(w, terms, y, gradient, free, tight, v, rho, sigma, damping, active, every, once)


@kernel(allocates=True)
def _solve(  # type: ignore[no-untyped-def]
    w, tilted, terms, pull, y, centre, sigma, sizes, closeness, limit, damping, far, line, systems
):
    """Take at most ``limit`` Newton steps.

    Return (x, y, -slopes, damping, steps, how far rows were off at first and are now, norm of the gradient).
    """
    every, once = np.arange(w.slot.size), np.ones(w.slot.size)
    spread = 0.5 * product(centre, centre) / sigma
    height, gradient, x, free, tight, s, t = _evaluate(w, tilted, terms, pull, y, centre, sigma, spread)
    first = left = worst_row(w, gradient, x, sizes, closeness)
    steepness = product(gradient, gradient)
    for iteration in range(limit):
        largest = 0.0
        for i in range(y.size):
            largest = max(largest, abs(y[i]))
        if left <= 1.0 or not largest <= far:  # prices run away where rows cannot be met
            return x, y, s, damping, iteration, first, left, np.sqrt(steepness)
        found = False
        for _ in range(line.retries):
            step = _direction(
                w, terms, y, gradient, free, tight, t, sigma, damping * sigma, systems, every, once
            )
            slope, bracket = product(gradient, step), (1.0, 0.0, np.inf)
            best = y, height, gradient, x, free, tight, s, t
            for _ in range(line.steps):
                new, promised = along_ray(w, y, step, bracket[0]), 0.0
                n_height, n_gradient, n_x, n_free, n_tight, n_s, n_t = _evaluate(
                    w, tilted, terms, s, new, centre, sigma, spread
                )
                for i in range(y.size):
                    promised += gradient[i] * (new[i] - y[i])
                steep, slopes = product(n_gradient, n_gradient), (slope, product(n_gradient, step))
                enough, ends, bracket = judge(
                    line, spread, (height, n_height), promised, (steepness, steep), slopes, bracket
                )
                if enough and (not found or n_height > best[1]):
                    best = new, n_height, n_gradient, n_x, n_free, n_tight, n_s, n_t
                    found = True
                if ends:
                    break
            damping = damped(line, damping, found, bracket[2])
            if found:
                y, height, gradient, x, free, tight, s, t = best
                break
        if not found:
            return x, y, s, damping, iteration, first, left, np.sqrt(steepness)
        left = worst_row(w, gradient, x, sizes, closeness)
        steepness = product(gradient, gradient)
    return x, y, s, damping, limit, first, left, np.sqrt(steepness)
