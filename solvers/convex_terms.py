"""Convex terms on a working set: their images in its units, tangents, the gap, and a first step length."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from copter.convex import Floats
from copter.pricing import dot
from copter.slabs import spread
from copter.solvers.working_set import WorkingSet
from copter.store import NO_TOTAL
from copter.terms import TermBatch

_IDLE = 1e-3
"""A term whose image is below this share of a fair one is taken to be at the fair one, for its scale."""


class WorkingTerms:
    """The terms of the requests of a working set, which holds all columns of these requests.

    Parameters
    ----------
    working : WorkingSet
    batch : TermBatch

    Attributes
    ----------
    columns : (n,) columns of the set that belong to terms, term after term
    image : (n,) a in the units of the set's columns
    owner : (n,) term of each of these columns
    start : (k,) where the columns of each term begin
    local : the blocks of the terms as a working set of their own, without costs and rows
    """

    def __init__(self, working: WorkingSet, batch: TermBatch) -> None:
        self.working, self.batch = working, batch
        blocks, sizes = np.searchsorted(working.slot, batch.slot), np.diff(batch.first)
        self.columns = columns = spread(working.first[blocks], sizes)
        self.image: Floats = batch.image * working.column_scale[columns]
        self.owner = np.repeat(np.arange(sizes.size), sizes)
        self.start = batch.first[:-1]
        none = np.empty(0)
        self.local = WorkingSet(
            batch.slot,
            batch.relation,
            batch.total,
            batch.first,
            self.owner,
            working.column[columns],
            np.zeros(columns.size),
            working.upper[columns],
            np.zeros(columns.size + 1, np.int64),
            none.astype(np.uint32),
            none,
            none,
            none,
            none,
            working.column_scale[columns],
        )

    def images(self, x: Floats) -> Floats:
        """a'x of every term."""
        result: Floats = np.add.reduceat(self.image * x[self.columns], self.start)
        return result

    def value(self, x: Floats) -> float:
        """Sum of all phi(a'x)."""
        return float(np.sum(self.batch.value(self.images(x))))

    def tilted(self, slope: Floats) -> WorkingSet:
        """The working set with costs c + slope a: what it is with tangents in place of the terms."""
        cost = self.working.cost.copy()
        cost[self.columns] += np.where(self.image > 0, slope[self.owner] * self.image, 0.0)
        return self.working._replace(cost=cost)

    def gap(self, x: Floats, y: Floats) -> tuple[float, float]:
        """As :meth:`WorkingSet.gap`; the bound is that of the tangents at x."""
        t = self.images(x)
        linear, loss = self.tilted(np.maximum(self.batch.slope(t), -1e150)).gap(x, y)
        return dot(self.working.cost, x) + float(np.sum(self.batch.value(t))), loss

    def fair(self) -> Floats:
        """Roughly how large a column gets if all columns share rows, totals and bounds evenly."""
        w = self.working
        size = np.maximum(abs(w.lower_row), abs(w.upper_row))
        column = np.repeat(np.arange(w.column.size), np.diff(w.pointer))
        asked = np.bincount(w.row, abs(w.value), w.row_scale.size)
        share = np.where(np.isfinite(size) & (size > 0), size, np.inf)[w.row] / asked[w.row]
        x = np.full(w.column.size, np.inf)
        np.minimum.at(x, column, share)
        summed = w.relation != NO_TOTAL
        even = np.where(summed, w.total, np.inf) / np.diff(w.first)
        x = np.minimum(np.minimum(x, w.upper), even[w.block])
        return np.where(np.isfinite(x), x, 1.0)

    def reference(self, centre: Floats) -> tuple[Floats, float]:
        """Slopes that are typical around a centre, and the length of step that is natural for them."""
        fair = self.fair()
        t, even = self.images(centre), self.images(fair)
        slope = self.batch.slope(np.where(t > _IDLE * even, t, even))
        slope = np.maximum(slope, -1e100)
        cost = self.tilted(slope).cost
        return slope, _root_mean_square(fair) / max(1e-12, _root_mean_square(cost))


def _root_mean_square(values: Floats) -> float:
    return math.sqrt(dot(values, values) / max(1, int(np.count_nonzero(values))))


def tangent_part(
    terms: WorkingTerms, free: NDArray[np.bool_], tight: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """v = P a of every term, P the projection onto its free columns (of sum 0 if ``tight``), and v'v."""
    moving = np.where(free, terms.image, 0.0)
    count = np.add.reduceat(free.astype(np.float64), terms.start)
    mean = np.add.reduceat(moving, terms.start) / np.maximum(count, 1.0)
    v = np.where(free, terms.image - np.where(tight, mean, 0.0)[terms.owner], 0.0)
    v[((count == 1) & tight)[terms.owner]] = 0.0
    return v, np.add.reduceat(v * v, terms.start)
