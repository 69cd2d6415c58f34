"""Block descent on a program with convex terms: an exact step on all columns of a request with a term.

In the augmented Lagrangian of :mod:`copter.solvers.inner.descent`, requests are coupled by the penalty on the
rows. On the columns of one request, the curvature of the penalty is at most eta |A_q'A_q|. With this bound in
place of the penalty, the request's subproblem is

    min { g'x + phi(a'x) + |x - x_q|^2 L / 2 + |x - z_q|^2 / (2 sigma) : x in X_q },     L = eta |A_q'A_q|.

This subproblem is a projection with one unknown slope (:mod:`copter.solvers.inner.convex_kernels`). The
method needs no model of phi and no line search, and columns coupled by the curvature of phi do not zigzag.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from copter.arrays import Floats
from copter.compile.kernels import kernel
from copter.solvers.inner.convex_kernels import step_to
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.descent import CoordinateDescent, visit
from copter.solvers.inner.tuning import DescentTuning
from copter.solvers.inner.working_set import WorkingSet


class ConvexDescent(CoordinateDescent):
    """Coordinate descent with block steps for terms; `slopes` (k,) are initial values of phi'(a'x)."""

    def __init__(
        self,
        working: WorkingSet,
        terms: WorkingTerms,
        stop: Callable[[], bool],
        slopes: Floats,
        tuning: DescentTuning | None = None,
    ) -> None:
        super().__init__(working, stop, tuning)
        self.terms = terms
        self._term = np.full(working.slot.size, -1)
        self._term[terms.block] = np.arange(terms.block.size)
        self._pull, self._scale = -slopes, np.maximum(abs(slopes), 1e-300)
        self._norms = _block_norms(working)

    def _descend(
        self,
        w: WorkingSet,
        x: Floats,
        shifted: Floats,
        centre: Floats,
        sigma: float,
        eta: float,
        tolerance: float,
    ) -> bool:
        if w is not self.working:
            return super()._descend(w, x, shifted, centre, sigma, eta, tolerance)
        terms = self.terms
        packed = terms.batch.phi, self._term, terms.first, terms.image, terms.upper
        at_once = self.tuning.epochs_a_call
        for _ in range(self.tuning.term_epochs // at_once):
            if _epochs(
                w,
                (*packed, self._scale, self._norms),
                self._pull,
                x,
                shifted,
                centre,
                sigma,
                eta,
                tolerance,
                at_once,
            ):
                return True
            if self.stop():
                break
        return False


@kernel(allocates=True)
def _block_norms(w):  # type: ignore[no-untyped-def]
    """Return bounds on |A_q'A_q|: per block the largest absolute column sum."""
    norms, sums = np.zeros(w.slot.size), np.zeros(w.row_scale.size)
    for b in range(w.slot.size):
        for j in range(w.first[b], w.first[b + 1]):
            for k in range(w.pointer[j], w.pointer[j + 1]):
                sums[w.row[k]] += abs(w.value[k])
        for j in range(w.first[b], w.first[b + 1]):
            total = 0.0
            for k in range(w.pointer[j], w.pointer[j + 1]):
                total += abs(w.value[k]) * sums[w.row[k]]
            norms[b] = max(norms[b], total)
        for j in range(w.first[b], w.first[b + 1]):
            for k in range(w.pointer[j], w.pointer[j + 1]):
                sums[w.row[k]] = 0.0
    return norms


@kernel(allocates=True)
def _epochs(w, terms, pull, x, shifted, centre, sigma, eta, tolerance, limit):  # type: ignore[no-untyped-def]
    """Run epochs until every request is stationary to `tolerance`; return whether all are."""
    phi, term, first, image, upper, scale, norms = terms
    ray = np.zeros(shifted.size)
    v, new = np.empty(image.size), np.empty(image.size)
    active, everything = np.ones(w.slot.size, np.bool_), True
    for _ in range(limit):
        change = 0.0
        for b in range(w.slot.size):
            if not (active[b] or everything):
                continue
            q = term[b]
            if q < 0:
                moved = visit(w, b, x, shifted, centre, ray, sigma, eta, tolerance)
            else:
                curvature = eta * norms[b]
                step = 1.0 / (1.0 / sigma + curvature)
                begin, end, shift = first[q], first[q + 1], w.first[b] - first[q]
                for j in range(begin, end):
                    g = w.cost[j + shift]
                    for k in range(w.pointer[j + shift], w.pointer[j + shift + 1]):
                        r = w.row[k]
                        over = shifted[r] - min(max(shifted[r], w.lower_row[r]), w.upper_row[r])
                        g += eta * w.value[k] * over
                    v[j] = step * (centre[j + shift] / sigma + curvature * x[j + shift] - g)
                pull[q] = step_to(
                    phi,
                    q,
                    v,
                    step,
                    image,
                    upper,
                    w.exact[b],
                    w.total[b],
                    begin,
                    end,
                    scale[q],
                    pull[q],
                    new,
                )
                moved = 0.0
                for j in range(begin, end):
                    d = new[j] - x[j + shift]
                    moved = max(moved, abs(d) * sigma / step)
                    x[j + shift] = new[j]
                    for k in range(w.pointer[j + shift], w.pointer[j + shift + 1]):
                        shifted[w.row[k]] += w.value[k] * d
            active[b] = moved > tolerance
            change = max(change, moved)
        if change <= tolerance and everything:
            return True
        everything = change <= tolerance
    return False
