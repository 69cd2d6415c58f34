"""The Newton method of :mod:`copter.solvers.inner.convex_newton` in one piece, for logarithms and few rows.

With some thousand columns and a few dozen rows a Newton step is so little work that Python's part of it is
most of the time.  Here all steps of a proximal subproblem are one call.  The method is the same: see
:mod:`copter.solvers.inner.newton` for the step and the search; Newton systems are always dense.
"""

from __future__ import annotations

import numpy as np

from copter.kernels import kernel
from copter.solvers.inner.convex_kernels import rank_one_hessian, solve_logs, tangent_parts, term_centres
from copter.solvers.inner.convex_newton import ConvexNewton
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.newton_kernels import dense_hessian, project_blocks
from copter.solvers.inner.working_set import InnerResult, WorkingSet, runaway_price
from copter.terms.convex import Floats

_ROWS, _COLUMNS = 100, 50_000


def fits(working: WorkingSet, terms: WorkingTerms) -> bool:
    """Whether the compiled method is for this working set."""
    return terms.logs and working.row_scale.size <= _ROWS and working.column.size <= _COLUMNS


class LogNewton(ConvexNewton):
    """As ConvexNewton, for working sets that :func:`fits` accepts; asks for the deadline after all steps."""

    def solve(self, y: Floats, centre: Floats, sigma: float, closeness: float, limit: int) -> InnerResult:
        """Maximise psi from ``y`` until every row is met to a share ``closeness`` of its size."""
        terms, batch = self.terms, self.terms.batch
        tilted = self.working._replace(cost=self.working.cost.copy())
        packed = terms.block, terms.first, terms.image, terms.upper, batch.relation, batch.total
        x, y, self._pull, self._damping, iterations, converged, left = _solve(
            self.working,
            tilted,
            (*packed, *batch.logs, self._scale),
            self._pull,
            y,
            centre,
            sigma,
            self._rows.limits(centre, closeness),
            limit,
            self.tuning.line,
            self._damping,
            runaway_price(self.working),
        )
        return InnerResult(x, y, converged, iterations, left)


@kernel
def _evaluate(w, tilted, terms, pull, y, centre, sigma):  # type: ignore[no-untyped-def]
    """psi at prices y: (value, gradient, x, free, tight, slopes, a'x)."""
    block, first, image, upper, relation, total, own, weight, offset, scale = terms
    v = term_centres(w, block, first, y, centre, sigma)
    s, t = pull.copy(), np.empty(pull.size)
    solve_logs(v, sigma, image, upper, relation, total, first, own, weight, offset, scale, s, t)
    more = 0.0
    for b in range(block.size):
        shift = w.first[block[b]] - first[b]
        for j in range(first[b], first[b + 1]):
            tilted.cost[j + shift] = w.cost[j + shift] - s[b] * image[j]
        if weight[b] > 0.0:
            more += s[b] * t[b] - weight[b] * np.log(offset[b] + t[b])
    x = np.empty(w.column.size)
    free, tight = np.empty(w.column.size, np.bool_), np.empty(w.slot.size, np.bool_)
    value, gradient = project_blocks(tilted, y, centre, sigma, 0, w.slot.size, x, free, tight)
    value += more
    for j in range(centre.size):
        value += 0.5 * centre[j] * centre[j] / sigma
    for i in range(y.size):
        low, high = w.lower_row[i], w.upper_row[i]
        if y[i] != 0.0:
            held = high if y[i] > 0.0 or low == high else low
            value -= y[i] * held
            gradient[i] -= held
        else:
            gradient[i] -= min(max(gradient[i], low), high)
    return value, gradient, x, free, tight, s, t


@kernel
def _cholesky_solve(a, right):  # type: ignore[no-untyped-def]
    """Solve a d = right with the positive definite a, whose lower triangle is overwritten; d in ``right``."""
    n = right.size
    for j in range(n):
        for k in range(j):
            for i in range(j, n):
                a[i, j] -= a[i, k] * a[j, k]
        pivot = np.sqrt(max(a[j, j], 1e-300))
        for i in range(j, n):
            a[i, j] /= pivot
    for i in range(n):
        for k in range(i):
            right[i] -= a[i, k] * right[k]
        right[i] /= a[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            right[i] -= a[k, i] * right[k]
        right[i] /= a[i, i]


@kernel
def _direction(w, terms, y, gradient, free, tight, t, sigma, damping):  # type: ignore[no-untyped-def]
    """Newton step; prices that would cross their kink go right to it, the others know of that."""
    block, first, image, weight, offset = terms[0], terms[1], terms[2], terms[7], terms[8]
    step, index = np.zeros(y.size), np.full(y.size, -1)
    active = np.flatnonzero((gradient != 0.0) | (y != 0.0))
    for a in range(active.size):
        index[active[a]] = a
    every = np.arange(tight.size)
    hessian = dense_hessian(w, free, tight, index, active.size, every, np.ones(every.size))
    for a in range(active.size):
        for c in range(active.size):
            hessian[a, c] *= sigma
    v, square = tangent_parts(first, image, block, free, tight, w.first)
    rho = np.zeros(block.size)
    for b in range(block.size):
        if square[b] > 0.0 and weight[b] > 0.0:
            rho[b] = sigma * sigma / ((offset[b] + t[b]) ** 2 / weight[b] + sigma * square[b])
    rank_one_hessian(w, block, first, v, rho, index, hessian)
    largest, rest = 0.0, np.empty(active.size, np.int64)
    for a in range(active.size):
        largest = max(largest, hessian[a, a])
    count = 0
    for a in range(active.size):
        i = active[a]
        kinked = w.lower_row[i] < w.upper_row[i]
        if kinked and y[i] * gradient[i] < 0.0 and abs(gradient[i]) >= abs(y[i]) * (hessian[a, a] + damping):
            step[i] = -y[i]
        else:
            rest[count] = a
            count += 1
    system, right = np.empty((count, count)), np.empty(count)
    for a in range(count):
        right[a] = gradient[active[rest[a]]]
        for c in range(active.size):
            right[a] -= hessian[rest[a], c] * step[active[c]]
        for c in range(count):
            system[a, c] = hessian[rest[a], rest[c]]
        system[a, a] += damping + 1e-15 * largest
    _cholesky_solve(system, right)
    for a in range(count):
        step[active[rest[a]]] = right[a]
    return step


@kernel
def _moved(w, y, step, length):  # type: ignore[no-untyped-def]
    """Prices along the (kinked) ray, none of them on a bound that is infinite."""
    new = y + length * step
    for i in range(y.size):
        crossed = w.lower_row[i] < w.upper_row[i] and y[i] * new[i] < 0.0
        if crossed or (new[i] > 0.0 and w.upper_row[i] == np.inf):
            new[i] = 0.0
        if new[i] < 0.0 and w.lower_row[i] == -np.inf:
            new[i] = 0.0
    return new


@kernel
def _worst(gradient, limits):  # type: ignore[no-untyped-def]
    worst = 0.0
    for i in range(gradient.size):
        worst = max(worst, abs(gradient[i]) / limits[i])
    return worst


@kernel
def _solve(w, tilted, terms, pull, y, centre, sigma, limits, limit, line, damping, far):  # type: ignore[no-untyped-def]
    value, gradient, x, free, tight, s, t = _evaluate(w, tilted, terms, pull, y, centre, sigma)
    spread = 0.0
    for j in range(centre.size):
        spread += 0.5 * centre[j] * centre[j] / sigma
    first = max(_worst(gradient, limits), 1.0)
    for iteration in range(limit):
        steepness, largest = 0.0, 0.0
        for i in range(y.size):
            steepness += gradient[i] * gradient[i]
            largest = max(largest, abs(y[i]))
        left = _worst(gradient, limits)
        if left <= 1.0 or not largest <= far:  # prices run away where rows cannot be met
            return x, y, s, damping, iteration, left <= 1.0, left / first
        found = False
        for _ in range(line.retries):
            step = _direction(w, terms, y, gradient, free, tight, t, sigma, damping * sigma)
            slope = np.sum(gradient * step)
            noise = 1e-14 * (1.0 + abs(value) + spread)
            length, low, high = 1.0, 0.0, np.inf
            best = y, value, gradient, x, free, tight, s, t
            for _ in range(line.steps):
                new = _moved(w, y, step, length)
                n_value, n_gradient, n_x, n_free, n_tight, n_s, n_t = _evaluate(
                    w, tilted, terms, s, new, centre, sigma
                )
                risen = n_value - value
                enough = risen >= line.armijo * np.sum(gradient * (new - y)) - noise
                # at the noise floor of the values only the gradient tells
                flatter = np.sum(n_gradient * n_gradient) <= 0.5 * steepness
                if enough or (risen >= -100.0 * noise and flatter):
                    if not found or n_value > best[1]:
                        best = new, n_value, n_gradient, n_x, n_free, n_tight, n_s, n_t
                        found = True
                    if np.sum(n_gradient * step) <= line.curvature * slope:
                        break
                    low = length
                else:
                    high = length
                if high == np.inf and length > line.longest:
                    break
                length = 0.5 * (low + high) if high < np.inf else line.growth * length
            if found:
                y, value, gradient, x, free, tight, s, t = best
                damping *= 1.0 / line.damping_change if high == np.inf else line.damping_change
                damping = min(line.most_damping, max(line.least_damping, damping))
                break
            damping = min(line.most_damping, line.damping_jump * damping)
        if not found:
            return x, y, s, damping, iteration, False, left / first
    left = _worst(gradient, limits)
    return x, y, s, damping, limit, left <= 1.0, left / first
