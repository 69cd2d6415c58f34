"""Convex terms on a working set: scaled images, tangents, gap, and typical slopes and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from copter.arrays import Floats
from copter.parallel import dot
from copter.proof.tangents import tangent_bound
from copter.solvers.inner.convex_kernels import term_centres
from copter.solvers.inner.scaling import root_mean_square
from copter.solvers.inner.working_set import WorkingSet
from copter.store.slabs import slice_indices
from copter.terms.batch import TermBatch

_IDLE = 1e-3
"""Share of the fair image: below it, a term's typical slope is computed at the fair image."""


class WorkingTerms:
    """The k terms of a working set that contains all columns of the requests with terms.

    `block`: block of each term. `first` (k + 1,), `start` (k,): starts of the terms' columns in the following
    arrays. `columns`: their numbers in the set. `image`: a in the units of the set's columns. `owner`: term
    of each column. `upper`: upper bound of each column.
    """

    def __init__(self, working: WorkingSet, batch: TermBatch) -> None:
        self.working, self.block = working, np.searchsorted(working.slot, batch.slot)
        self.batch = batch.in_units(working.total[self.block], working.cost_scale)
        self.first, sizes = batch.first, np.diff(batch.first)
        self.columns = columns = slice_indices(working.first[self.block], sizes)
        self.image: Floats = batch.image * working.column_scale[columns]
        self.owner = np.repeat(np.arange(sizes.size), sizes)
        self.start = batch.first[:-1]
        self.upper: Floats = working.upper[columns]
        self._curved = np.zeros(working.slot.size, np.bool_)
        self._curved[self.block] = True
        self._nowhere = np.zeros(working.column.size)

    def images(self, x: Floats) -> Floats:
        """Return a'x of every term."""
        result: Floats = np.add.reduceat(self.image * x[self.columns], self.start)
        return result

    def tilted(self, slope: Floats) -> WorkingSet:
        """Return the working set with costs c + slope a, in which tangents replace the terms."""
        cost = self.working.cost.copy()
        cost[self.columns] += np.where(self.image > 0, slope[self.owner] * self.image, 0.0)
        return replace(self.working, cost=cost)

    def gap(self, x: Floats, y: Floats) -> tuple[float, float]:
        """Return denominator and gap as in :meth:`WorkingSet.gap`; the bound is exact for the terms."""
        w, t = self.working, self.images(x)
        with np.errstate(all="ignore"):
            sizes = np.where(t > 0, abs(self.batch.slope(t) * t), 0.0)
        size = abs(dot(w.cost, x)) + float(np.sum(sizes))
        p = term_centres(w, self.block, self.first, y, self._nowhere, -1.0)
        curved = tangent_bound(self.batch, p, self.image, self.upper)
        objective = dot(w.cost, x) + float(np.sum(self.batch.value(t)))
        return size, objective - curved - w.bound(x, y, self._curved)

    def fair(self) -> Floats:
        """Return the value of each column if the columns share rows, totals and bounds evenly."""
        w = self.working
        size = np.maximum(abs(w.lower_row), abs(w.upper_row))
        column = np.repeat(np.arange(w.column.size), np.diff(w.pointer))
        asked = np.bincount(w.row, abs(w.value), w.row_scale.size)
        share = np.where(np.isfinite(size) & (size > 0), size, np.inf)[w.row] / asked[w.row]
        x = np.full(w.column.size, np.inf)
        np.minimum.at(x, column, share)
        even = w.total / np.diff(w.first)
        x = np.minimum(np.minimum(x, w.upper), even[w.block])
        return np.where(np.isfinite(x), x, 1.0)

    def reference(self, centre: Floats) -> tuple[Floats, float, float]:
        """Return typical slopes near `centre`, and a typical value and cost of a column there."""
        fair = self.fair()
        t, even = self.images(centre), self.images(fair)
        slope = self.batch.slope(np.where(t > _IDLE * even, t, even))
        slope = np.maximum(slope, -1e100)
        cost = self.tilted(slope).cost
        # fair shares are all 0 if totals or bounds fix all columns at 0
        return slope, root_mean_square(fair) or 1.0, root_mean_square(cost) or 1.0
