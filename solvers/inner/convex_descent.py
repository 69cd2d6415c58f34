"""Coordinate descent on a program with convex terms, by quadratic models of the terms.

The augmented Lagrangian of :mod:`copter.solvers.inner.descent` gets phi(a'x) for every term.  Around t0 =
a'x0 a term is replaced by its tangent, which goes to the costs, and by phi''(t0) (a'x - t0)^2 / 2, which has
the form of the penalty on one more row: coefficients r a and both bounds r t0, with r^2 = phi''(t0) / eta.
So the epochs are those of a linear program.  Between the models a line search on the true function keeps it
falling (damped Newton); the answer is stationary when a whole step was taken and the model's slopes at its
end were right.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from copter.parallel import dot
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.descent import CoordinateDescent, descend, make_feasible, row_activity
from copter.solvers.inner.tuning import DescentTuning
from copter.solvers.inner.working_set import WorkingSet
from copter.terms.convex import Floats

_MODELS = 30
_EPOCHS = 100
_ARMIJO = 1e-4
_HALVINGS = 40
_TOWARDS_FAIR = 0.1


class ConvexDescent(CoordinateDescent):
    """Inner solver by coordinate descent on models of the terms.

    Parameters
    ----------
    working : WorkingSet
    terms : WorkingTerms
    stop : callable
    tuning : DescentTuning, optional
    """

    def __init__(
        self,
        working: WorkingSet,
        terms: WorkingTerms,
        stop: Callable[[], bool],
        tuning: DescentTuning | None = None,
    ) -> None:
        super().__init__(working, stop, tuning)
        self.terms = terms
        own, m = terms.columns, working.row_scale.size
        extra = np.zeros(working.column.size, np.int64)
        extra[own] = 1
        pointer = working.pointer + np.concatenate(([0], np.cumsum(extra)))
        self._last = pointer[own + 1] - 1
        kept = np.ones(int(pointer[-1]), np.bool_)
        kept[self._last] = False
        row, value = np.zeros(kept.size, np.uint32), np.zeros(kept.size)
        row[kept], value[kept] = working.row, working.value
        row[self._last] = m + terms.owner
        self._wider = working._replace(pointer=pointer, row=row, value=value)

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
        if w is not self.working:  # the search for the least violation knows no objective
            return super()._descend(w, x, shifted, centre, sigma, eta, tolerance)
        terms, prices = self.terms, shifted - row_activity(w, x)
        self._leave_the_edge(x)

        def function(z: Floats, there: Floats) -> float:
            far = there - np.clip(there, w.lower_row, w.upper_row)
            step = z - centre
            linear = dot(w.cost, z) + terms.value(z)
            return linear + 0.5 * dot(step, step) / sigma + 0.5 * eta * dot(far, far)

        shifted[:] = row_activity(w, x) + prices
        here = function(x, shifted)
        for _ in range(_MODELS):
            t = terms.images(x)
            slope, curvature = terms.batch.slope(t), terms.batch.curvature(t)
            model, ray = self._model(t, slope, curvature, eta)
            z, beyond = x.copy(), np.concatenate((shifted, ray * t))
            settled = descend(model, z, beyond, centre, sigma, eta, tolerance, _EPOCHS)
            change = terms.images(z) - t
            step, length = z - x, 1.0
            gained = self._slope_along(model.cost, x, step, shifted, centre, sigma, eta)
            noise = 1e-14 * (1.0 + abs(here))
            for _ in range(_HALVINGS):
                z = x + length * step
                there = row_activity(w, z) + prices
                value = function(z, there)
                if value <= here + _ARMIJO * length * gained + noise:
                    break
                length *= 0.5
            else:
                return False
            x[:], shifted[:], here = z, there, value
            if settled and length == 1.0:
                with np.errstate(all="ignore"):
                    wrong = abs(terms.batch.slope(t + change) - slope - curvature * change)
                if (sigma * wrong[terms.owner] * terms.image <= tolerance).all():
                    return True
            if self.stop():
                break
        return False

    def _model(self, t: Floats, slope: Floats, curvature: Floats, eta: float) -> tuple[WorkingSet, Floats]:
        """Working set with the tangents in its costs and a row for the curvature of each term."""
        terms, w = self.terms, self._wider
        ray = np.sqrt(curvature / eta)
        value = w.value.copy()
        value[self._last] = ray[terms.owner] * terms.image
        model = terms.tilted(slope)._replace(
            pointer=w.pointer,
            row=w.row,
            value=value,
            lower_row=np.concatenate((w.lower_row, ray * t)),
            upper_row=np.concatenate((w.upper_row, ray * t)),
        )
        return model, ray

    def _slope_along(
        self,
        cost: Floats,
        x: Floats,
        step: Floats,
        shifted: Floats,
        centre: Floats,
        sigma: float,
        eta: float,
    ) -> float:
        """Derivative of the augmented Lagrangian at x along a step; at most 0."""
        w = self.working
        far = shifted - np.clip(shifted, w.lower_row, w.upper_row)
        rate = dot(cost + (x - centre) / sigma, step) + eta * dot(far, row_activity(w, step))
        return min(rate, 0.0)

    def _leave_the_edge(self, x: Floats) -> None:
        """Move requests at which phi is infinitely steep some way to their fair share."""
        terms = self.terms
        steep: NDArray[np.bool_] = ~(terms.batch.slope(terms.images(x)) > -1e100)
        if steep.any():
            fair = terms.fair()
            own = terms.columns[steep[terms.owner]]
            x[own] += _TOWARDS_FAIR * (fair[own] - x[own])
            make_feasible(self.working, x)
