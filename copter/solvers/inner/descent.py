"""Coordinate descent on the augmented Lagrangian of the proximal subproblem.

With prices y and a penalty eta the subproblem of the proximal-point method becomes

    min over x_q in X_q   c'x + |x - z|^2 / (2 sigma) + (eta / 2) dist(A x + y / eta, [l, u])^2.

After its solution the prices are y <- eta (s - Proj_[l,u](s)) with s = A x + y / eta.  The partial
derivatives are g_j = c_j + (x_j - z_j) / sigma + a_j'w with w = eta (s - Proj(s)); s is updated with x.

A request without a sum row takes exact steps on single columns.  A request with a sum row moves value between
the pair of columns that violates optimality most, so its sum row holds after every step; for sum(x) <= total
the slack is a column of cost 0.  Requests that are optimal are skipped in the following epochs until all are
optimal. Then all requests are visited in one epoch, which must confirm convergence.  eta grows if the
violation at a stationary point is not clearly smaller than at the previous stationary point.

Sources: Yen et al. (2015), "Sparse linear programming via primal and dual augmented coordinate descent";
thesis section 4.3.2; the pairwise step is Platt's (1998), with working sets by maximal violation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.solvers.inner.elastic import costless, least_violation
from copter.solvers.inner.tuning import DescentTuning
from copter.solvers.inner.working_set import InnerResult, RowTest, WorkingSet, runaway_price

_PAIR_STEPS = 8
"""Largest number of pair steps in one visit of a request; compiled into the kernel, so not in the tuning."""


class CoordinateDescent:
    """Inner solver by coordinate descent; the object keeps its allocation between calls.

    `stop` is called before every multiplier step; if it returns True, the method ends.
    """

    def __init__(
        self, working: WorkingSet, stop: Callable[[], bool], tuning: DescentTuning | None = None
    ) -> None:
        self.working = working
        self.tuning = tuning = tuning or DescentTuning()
        self.stop = stop
        column = np.repeat(np.arange(working.column.size), np.diff(working.pointer))
        norms = np.bincount(column, working.value**2)
        self._curvature = float(np.median(norms[norms > 0])) if norms.any() else 1.0
        # size of the whole allocation: the unit of the tolerance for steps of x
        bounds = np.minimum(abs(np.concatenate((working.lower_row, working.upper_row))), tuning.far)
        self._reach = 1.0 + float(np.linalg.norm(bounds[bounds < tuning.far]))
        self._first = tuning.penalty
        self._rows = RowTest(working)
        self._x: NDArray[np.float64] | None = None

    def solve(
        self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float, closeness: float, limit: int
    ) -> InnerResult:
        """Solve until violations are at most `closeness` times the rows' sizes; at most `limit` steps.

        A step updates the prices once.
        """
        w, tuning = self.working, self.tuning
        tolerance = closeness * self._reach
        most = tuning.penalty_limit / (sigma * self._curvature)
        eta = self._first / sigma
        x = centre.copy() if self._x is None else self._x.copy()
        make_feasible(w, x)
        far, last, iteration = runaway_price(w), np.inf, 0
        for iteration in range(1, limit + 1):
            shifted = usage_of_rows(w, x) + y / eta
            stationary = self._descend(w, x, shifted, centre, sigma, eta, tolerance)
            y = eta * (shifted - np.clip(shifted, w.lower_row, w.upper_row))
            violation = self._rows.worst(_complementarity(w, usage_of_rows(w, x), y), x, closeness)
            if violation <= 1.0 and stationary:
                self._x = x
                return InnerResult(x, y, True, iteration)
            if violation > tuning.enough * last and stationary:
                eta = min(tuning.penalty_growth * eta, most)
            last = violation
            if abs(y).max(initial=0.0) > far or self.stop():  # prices diverge if rows cannot be satisfied
                break
        self._x = x
        self._first = min(tuning.first_growth * self._first, tuning.penalty_limit / self._curvature)
        return InnerResult(x, y, False, iteration)

    def _descend(
        self,
        w: WorkingSet,
        x: NDArray[np.float64],
        shifted: NDArray[np.float64],
        centre: NDArray[np.float64],
        sigma: float,
        eta: float,
        tolerance: float,
    ) -> bool:
        """Run epochs on x and `shifted`; return whether x became stationary within the limits."""
        at_once = self.tuning.epochs_a_call
        for _ in range(self.tuning.epochs // at_once):
            if descend(w, x, shifted, centre, sigma, eta, tolerance, at_once):
                return True
            if self.stop():
                break
        return False

    def least_violation(self, centre: NDArray[np.float64], limit: int) -> InnerResult:
        """Return the least violation of the rows (:func:`copter.solvers.inner.elastic.least_violation`).

        Each of its steps is a descent with y = 0 and eta = 1.
        """
        w, tuning = costless(self.working), self.tuning.elastic
        begin = centre.copy()
        make_feasible(w, begin)

        def step(
            y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float, limit: int
        ) -> InnerResult:
            x = centre.copy()
            self._descend(w, x, usage_of_rows(w, x), centre, sigma, 1.0, tuning.closeness)
            activity: NDArray[np.float64] = usage_of_rows(w, x)
            return InnerResult(x, activity - np.clip(activity, w.lower_row, w.upper_row), False, 1)

        return least_violation(step, begin, w.row_scale.size, limit, self.stop, tuning)


def _complementarity(
    w: WorkingSet, activity: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return each row's violation, or its slack if the row has a price, whichever is larger."""
    excess = np.maximum(activity - w.upper_row, w.lower_row - activity)
    idle = np.where(y > 0, w.upper_row - activity, np.where(y < 0, activity - w.lower_row, 0.0))
    worst: NDArray[np.float64] = np.maximum(0.0, np.maximum(excess, idle))
    return worst


@kernel(allocates=True)
def usage_of_rows(w, x):  # type: ignore[no-untyped-def]
    """Return A x of a working set."""
    activity = np.zeros(w.lower_row.size)
    for j in range(x.size):
        if x[j] != 0.0:
            for k in range(w.pointer[j], w.pointer[j + 1]):
                activity[w.row[k]] += w.value[k] * x[j]
    return activity


@kernel
def make_feasible(w, x):  # type: ignore[no-untyped-def]
    """Change x to satisfy the box and sum row of every block, by filling or emptying columns in order."""
    for b in range(w.slot.size):
        total = 0.0
        for j in range(w.first[b], w.first[b + 1]):
            x[j] = min(max(x[j], 0.0), w.upper[j])
            total += x[j]
        if w.total[b] == np.inf:
            continue
        wrong = total - w.total[b]
        for j in range(w.first[b], w.first[b + 1]):
            if wrong > 0.0:
                step = min(wrong, x[j])
                x[j] -= step
                wrong -= step
            elif wrong < 0.0 and w.exact[b]:
                step = min(-wrong, w.upper[j] - x[j])
                x[j] += step
                wrong += step


@kernel(inner=True)
def _gradient(w, j, x, shifted, centre, sigma, eta):  # type: ignore[no-untyped-def]
    slope = 0.0
    for k in range(w.pointer[j], w.pointer[j + 1]):
        r = w.row[k]
        slope += w.value[k] * (shifted[r] - min(max(shifted[r], w.lower_row[r]), w.upper_row[r]))
    return w.cost[j] + (x[j] - centre[j]) / sigma + eta * slope


@kernel(inner=True)
def _move(w, j, step, x, shifted):  # type: ignore[no-untyped-def]
    x[j] += step
    for k in range(w.pointer[j], w.pointer[j + 1]):
        shifted[w.row[k]] += w.value[k] * step


@kernel
def _curvature(w, to, source, step, shifted, ray, eta):  # type: ignore[no-untyped-def]
    """Return the penalty's curvature along e_to - e_source, over rows violated now or after `step`.

    `ray` is scratch memory, zero on entry and on return. Column -1 is the slack of a sum row.
    """
    for j, sign in ((to, 1.0), (source, -1.0)):
        if j >= 0:
            for k in range(w.pointer[j], w.pointer[j + 1]):
                ray[w.row[k]] += sign * w.value[k]
    curvature = 0.0
    for j in (to, source):
        if j >= 0:
            for k in range(w.pointer[j], w.pointer[j + 1]):
                r = w.row[k]
                there = shifted[r] + step * ray[r]
                if (
                    max(shifted[r], there) > w.upper_row[r]
                    or min(shifted[r], there) < w.lower_row[r]
                    or w.lower_row[r] == w.upper_row[r]
                ):
                    curvature += ray[r] * ray[r]
                ray[r] = 0.0
    return eta * curvature


@kernel(inner=True)
def _step(w, to, source, slope, room, shifted, ray, sigma, eta):  # type: ignore[no-untyped-def]
    """Return the length of a descent step: Newton's, counting every row that the step would violate."""
    prox = (1.0 if to >= 0 else 0.0) / sigma + (1.0 if source >= 0 else 0.0) / sigma
    far = min(room, slope / (prox + _curvature(w, to, source, 0.0, shifted, ray, eta)))
    return min(room, slope / (prox + _curvature(w, to, source, far, shifted, ray, eta)))


@kernel(allocates=True)
def descend(w, x, shifted, centre, sigma, eta, tolerance, limit):  # type: ignore[no-untyped-def]
    """Run epochs until every request is stationary to `tolerance`; return whether all are."""
    active = np.ones(w.slot.size, np.bool_)
    ray = np.zeros(shifted.size)
    everything = True
    for _ in range(limit):
        change = 0.0
        for b in range(w.slot.size):
            if active[b] or everything:
                moved = visit(w, b, x, shifted, centre, ray, sigma, eta, tolerance)
                active[b] = moved > tolerance
                change = max(change, moved)
        if change <= tolerance and everything:
            return True
        everything = change <= tolerance
    return False


@kernel(inner=True)
def visit(  # type: ignore[no-untyped-def]  # noqa: C901 - one pass
    w, b, x, shifted, centre, ray, sigma, eta, tolerance
):
    """Take steps on block b; return the largest violation of optimality, as a step of length sigma."""
    begin, end = w.first[b], w.first[b + 1]
    largest = 0.0
    unused = np.int64(-1)
    if w.total[b] == np.inf:
        for j in range(begin, end):
            gradient = _gradient(w, j, x, shifted, centre, sigma, eta)
            if gradient < 0.0:
                wrong = min(w.upper[j] - x[j], -sigma * gradient)
                step = _step(w, j, unused, -gradient, w.upper[j] - x[j], shifted, ray, sigma, eta)
            else:
                wrong = min(x[j], sigma * gradient)
                step = -_step(w, unused, j, gradient, x[j], shifted, ray, sigma, eta)
            largest = max(largest, wrong)
            if step != 0.0:
                _move(w, j, step, x, shifted)
        return largest
    rest = 0.0
    if not w.exact[b]:
        rest = w.total[b]
        for j in range(begin, end):
            rest -= x[j]
        rest = max(rest, 0.0)
    for _ in range(min(2 + (end - begin) // 4, _PAIR_STEPS)):
        to, source = unused - 1, unused - 1
        low, high = np.inf, -np.inf
        if not w.exact[b]:
            to, low = unused, 0.0
            if rest > 0.0:
                source, high = unused, 0.0
        for j in range(begin, end):
            gradient = _gradient(w, j, x, shifted, centre, sigma, eta)
            if gradient < low and x[j] < w.upper[j]:
                to, low = np.int64(j), gradient
            if gradient > high and x[j] > 0.0:
                source, high = np.int64(j), gradient
        if to == source or to < unused or source < unused or high <= low:
            break
        room = x[source] if source >= 0 else rest
        if to >= 0:
            room = min(room, w.upper[to] - x[to])
        largest = max(largest, min(room, sigma * (high - low)))
        if sigma * (high - low) <= tolerance:
            break
        step = _step(w, to, source, high - low, room, shifted, ray, sigma, eta)
        if step <= 0.0:
            break
        if to >= 0:
            _move(w, to, step, x, shifted)
        else:
            rest += step
        if source >= 0:
            _move(w, source, -step, x, shifted)
        else:
            rest -= step
    return largest
