"""Semismooth Newton on the prices with a compiled loop, for small programs and for convex terms.

The method is that of :mod:`copter.solvers.inner.newton`.  With a few thousand columns and a few dozen rows, a
Newton step takes so little time that the Python code around it would dominate.  So the loop is compiled.  One
call runs several steps, which together take a fraction of a second.  There are separate kernels for programs
without terms.

The inner minimiser of a request with a term is determined by the slope of the term
(:mod:`copter.solvers.inner.convex_kernels`).  A change dy of the prices moves x by -sigma M A'dy, where M is
the projection P of a linear request minus a rank-one matrix (Sherman and Morrison):

    M = P - rho v v' / sigma,   v = P a,   rho = sigma^2 / (1 / phi'' + sigma v'v).

So the Newton matrix is that of the linear program minus sum_q rho_q (A_q v_q)(A_q v_q)'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.compile.kernels import kernel
from copter.solvers.inner.convex_kernels import (
    rank_one_parts,
    solve_slopes,
    tangent_parts,
    term_centres,
)
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.newton import SemismoothNewton
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
    product,
    project_blocks,
)
from copter.solvers.inner.tuning import NewtonTuning
from copter.solvers.inner.working_set import InnerResult, RowTest, WorkingSet, runaway_price, worst_row
from copter.terms.phi import curvature as curvature_of
from copter.terms.phi import value


def is_small(working: WorkingSet, tuning: NewtonTuning) -> bool:
    """Return whether a set without terms suits the compiled method: few rows, columns and blocks."""
    rows, columns = working.row_scale.size, working.column.size
    few = rows <= min(tuning.compiled_rows, tuning.systems.dense_rows)
    return few and columns <= tuning.compiled_columns and working.slot.size <= tuning.hessian_blocks


class CompiledNewton:
    """Newton's method on psi with compiled loops; the object keeps damping and slopes of terms between calls.

    `stop` is called after every call of a kernel; if it returns True, the method ends. `threads` are used for
    the search of the least violation.
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
        self.terms: WorkingTerms | None = None  # a reference: kernels read its table by address
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
        """Return the method for a set with convex terms; `slopes` (k,) are initial values of phi'(a'x)."""
        newton, batch = cls(working, stop, tuning, threads), terms.batch
        newton.terms = terms
        scale = np.maximum(abs(slopes), 1e-300)
        packed = terms.block, terms.first, terms.image, terms.upper, batch.exact, batch.total
        newton._terms, newton._pull = (batch.phi, *packed, scale), -slopes
        return newton

    def solve(self, y: Floats, centre: Floats, sigma: float, closeness: float, limit: int) -> InnerResult:
        """Maximise psi from `y` until each row's violation is at most `closeness` times its size."""
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
        """Return the least violation of the rows, see :meth:`SemismoothNewton.least_violation`.

        The violation has no objective, so terms do not matter.
        """
        newton = SemismoothNewton(self.working, self.stop, self.threads, self.tuning)
        return newton.least_violation(centre, limit)


@kernel(allocates=True, inner=True)
def _tilt(w, tilted, terms, pull, y, centre, sigma):  # type: ignore[no-untyped-def]
    """Write the costs at the terms' slopes at prices y to `tilted`; return (cost of terms, slopes, a'x)."""
    phi, block, first, image, upper, exact, total, scale = terms
    v = term_centres(w, block, first, y, centre, sigma)
    s, t = pull.copy(), np.empty(pull.size)
    solve_slopes(phi, v, sigma, image, upper, exact, total, first, scale, s, t)
    more = 0.0
    for b in range(block.size):
        shift = w.first[block[b]] - first[b]
        for j in range(first[b], first[b + 1]):
            tilted[j + shift] = w.cost[j + shift] - s[b] * image[j]
        more += s[b] * t[b] + value(phi, b, t[b])
    return more, s, t


@kernel(allocates=True, inner=True)
def _evaluate(w, tilted, terms, pull, y, centre, sigma, spread):  # type: ignore[no-untyped-def]
    """Evaluate psi at prices y; `spread` is |centre|^2 / (2 sigma).

    Return (value, gradient, x, free, tight, slopes, a'x).
    """
    if terms is None:  # each kind of set compiles only its own branch
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
    """Solve a d = right for a positive definite; overwrite a's lower triangle, and `right` with d."""
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
def _rank_one(w, terms, free, tight, t, sigma, index):  # type: ignore[no-untyped-def]
    """Return the parts of the terms in the negative Hessian, divided by sigma."""
    phi, block, first, image = terms[:4]
    v, square = tangent_parts(first, image, block, free, tight, w.first)
    rho = np.zeros(block.size)
    for b in range(block.size):
        if square[b] > 0.0:
            rho[b] = sigma / (1.0 / curvature_of(phi, b, t[b]) + sigma * square[b])
    return rank_one_parts(w, block, first, v, rho, index)


@kernel(allocates=True, inner=True)
def _direction(w, terms, y, gradient, free, tight, t, sigma, damping, systems):  # type: ignore[no-untyped-def]
    """Return the Newton step; a price that would cross its kink at 0 moves to 0."""
    index, active, count = np.full(y.size, -1), np.empty(y.size, np.int64), 0
    for i in range(y.size):
        if gradient[i] != 0.0 or y[i] != 0.0:
            active[count], index[i] = i, count
            count += 1
    parts = curvature(w, free, tight, index, np.arange(w.slot.size), np.ones(w.slot.size))
    if terms is not None:
        more = _rank_one(w, terms, free, tight, t, sigma, index)
        start = np.concatenate((parts[0], more[0][1:] + parts[0][-1]))
        row, entry = np.concatenate((parts[1], more[1])), np.concatenate((parts[2], more[2]))
        parts = start, row, entry, np.concatenate((parts[3], more[3]))
        if count > systems.dense_rows:  # without terms the method is used only with few rows
            state, along = begin_gradients(w, y, gradient, parts, sigma, damping, systems.cg_closeness)
            gradient_steps(parts, sigma, damping, state, along, systems.cg_steps)
            return state.step
    hessian = dense_hessian(parts, index, count)
    for a in range(count):
        for c in range(count):
            hessian[a, c] *= sigma
    system, right, rows, step = dense_system(w, y, gradient, hessian, active[:count], damping)
    _cholesky_solve(system, right)
    for a in range(rows.size):
        step[rows[a]] = right[a]
    return step


@kernel(allocates=True)
def _solve(  # type: ignore[no-untyped-def]
    w, tilted, terms, pull, y, centre, sigma, sizes, closeness, limit, damping, far, line, systems
):
    """Take at most `limit` Newton steps.

    Return (x, y, -slopes, damping, steps, first and last ratio of the worst row, norm of the gradient).
    """
    spread = 0.5 * product(centre, centre) / sigma
    height, gradient, x, free, tight, s, t = _evaluate(w, tilted, terms, pull, y, centre, sigma, spread)
    first = left = worst_row(gradient, product(x, x), sizes, closeness)
    steepness = product(gradient, gradient)
    for iteration in range(limit):
        largest = 0.0
        for i in range(y.size):
            largest = max(largest, abs(y[i]))
        if left <= 1.0 or not largest <= far:  # prices diverge if rows cannot be satisfied
            return x, y, s, damping, iteration, first, left, np.sqrt(steepness)
        found = False
        for _ in range(line.retries):
            step = _direction(w, terms, y, gradient, free, tight, t, sigma, damping * sigma, systems)
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
        left = worst_row(gradient, product(x, x), sizes, closeness)
        steepness = product(gradient, gradient)
    return x, y, s, damping, limit, first, left, np.sqrt(steepness)
