"""The part of requests with convex terms in the certified bound, by the best tangents.

At prices y a request with a term adds to the bound

    min { p'x + phi(a'x) : x in X_q }
        =  max over t of  phi(t) - phi'(t) t + min { (p + phi'(t) a)'x : x in X_q }.

Every t gives a lower bound, because a tangent lies below phi; the best one is found by following the lower
hull of the points (a'x, p'x).  Two points of it, one on either side of the minimum, bracket the minimum; the
minimiser of phi on the chord between them gives a tangent, and the x that is best for the tangent is a new
point of the hull, or the proof that the chord belongs to it.  The hull has few corners, so few rounds do.

A column without any bound allows no tangent steeper than s_max = min p_j / a_j (with slope -s).  If not even
the flattest one fits, the violation counts as dual residual, as in :mod:`copter.proof.pricing`: relative to
the terms that it is the sum of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.store.store import AT_MOST, EXACTLY, LACKING, NO_TOTAL
from copter.terms.batch import TermBatch
from copter.terms.convex import Floats

if TYPE_CHECKING:
    from copter.store.view import StoreView

_HULL_STEPS = 80
_CLOSE = 1e-14
_HOPELESS = 1.0
_STEEP = 1e100


def term_bound(
    batch: TermBatch, view: StoreView, y: Floats, floors: Floats | None = None
) -> tuple[float, float]:
    """(sum of min p'x + phi(a'x) over X_q, largest relative violation of unbounded columns) at prices y.

    ``floors`` are what the violation of each column is judged against at least.
    """
    p, size = _prices(view, batch.slot, batch.first, y)
    if floors is not None:
        size = np.maximum(size, floors)
    return tangent_bound(batch, p, size, batch.image, batch.upper)


def tangent_bound(
    batch: TermBatch, p: Floats, size: Floats, image: Floats, upper: Floats
) -> tuple[float, float]:
    """As :func:`term_bound` for prices p, images and bounds of the columns in units of their own.

    ``size`` is |c_j| + |a_j|'|y|, which a violation is relative to.
    """
    logs = batch.logs
    bound, violation = _log_bounds(p, size, batch.first, image, upper, batch.relation, batch.total, *logs)
    if not logs.own.all():
        more = _Hull(replace(batch, image=image, upper=upper), p, size).best(~logs.own)
        bound, violation = bound + more[0], max(violation, more[1])
    return bound, violation


class _Hull:
    """The search for the best tangents, all requests at once, by the numpy functions of their classes."""

    def __init__(self, batch: TermBatch, p: Floats, size: Floats) -> None:
        self.batch, self.p, self.size = batch, p, size
        loose = (np.repeat(batch.relation, np.diff(batch.first)) == NO_TOTAL) & np.isinf(batch.upper)
        ratio = np.where(loose & (batch.image > 0), p / np.maximum(batch.image, 1e-300), np.inf)
        start = batch.first[:-1]
        steepest = np.minimum.reduceat(ratio, start)
        capped = np.isfinite(steepest)
        least = np.where(capped, batch.touching(np.where(capped, -steepest, -1.0)), 0.0)
        self.hopeless = np.isinf(least)
        self.least = np.where(self.hopeless, _HOPELESS, least)
        total = np.repeat(batch.total, np.diff(batch.first))
        cap = np.where(loose, 0.0, np.minimum(batch.upper, total))
        most = np.add.reduceat(batch.image * cap, start)
        summed = batch.relation != NO_TOTAL
        most[summed] = np.minimum(
            most[summed], batch.total[summed] * np.maximum.reduceat(batch.image, start)[summed]
        )
        self.most = np.maximum(self.least, most)
        self.bound = np.full(len(batch), -np.inf)
        self.violation = np.zeros(len(batch))

    def _at(self, t: Floats, todo: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Best responses to the tangents at t: their (a'x, p'x); keeps the best bounds."""
        batch = self.batch
        slope = batch.slope(t)
        reach, best, cost, violation = _respond(
            self.p, self.size, slope, batch.first, batch.image, batch.upper, batch.relation, batch.total, todo
        )
        bound = batch.value(t) - slope * t + best
        better = todo & (bound > self.bound)
        self.bound[better], self.violation[better] = bound[better], violation[better]
        return reach, cost

    def best(self, members: NDArray[np.bool_]) -> tuple[float, float]:
        """Sum of the best bounds of some terms, and the largest violation at their tangents."""
        batch, todo = self.batch, members.copy()
        with np.errstate(all="ignore"):
            low, high = self.least.copy(), self.most.copy()
            left_t, left_c = self._at(high, todo)
            todo &= (left_t < high) & (low < high) & ~self.hopeless
            low = np.maximum(low, np.minimum(left_t, high))
            low = np.where(batch.slope(low) > -_STEEP, low, np.maximum(low, 1e-12 * high))
            right_t, right_c = self._at(low, todo)
            todo &= right_t > low
            for _ in range(_HULL_STEPS):
                if not todo.any():
                    break
                chord = (right_c - left_c) / (right_t - left_t)
                t = np.clip(batch.touching(-np.where(np.isfinite(chord), chord, 0.0)), left_t, right_t)
                attained = left_c + chord * (t - left_t) + batch.value(t)
                todo &= attained - self.bound > _CLOSE * (abs(attained) + abs(batch.value(t)))
                t = np.where((t > low) & (t < high), t, 0.5 * (low + high))
                new_t, new_c = self._at(t, todo)
                left, right = todo & (new_t < t), todo & (new_t >= t)
                left_t, left_c = np.where(left, new_t, left_t), np.where(left, new_c, left_c)
                right_t, right_c = np.where(right, new_t, right_t), np.where(right, new_c, right_c)
                high, low = np.where(left, t, high), np.where(right, t, low)
                todo &= (new_t != t) & (low < high)
        return float(np.sum(self.bound[members])), float(self.violation[members].max(initial=0.0))


@kernel
def _prices(view: StoreView, slot, first, y):  # type: ignore[no-untyped-def]
    """c + A'y, and |c| + |A|'|y|, of all columns of the given requests."""
    p, size = np.empty(first[-1]), np.empty(first[-1])
    for b in range(slot.size):
        q = slot[b]
        usage = view.usage[q]
        pointer, entry = view.pointer_start[usage], view.entry_start[usage]
        for j in range(view.n_columns[q]):
            cost, along, whole = view.scale[q] * view.cost[view.cost_start[q] + j], 0.0, 0.0
            for k in range(entry + view.pointer[pointer + j], entry + view.pointer[pointer + j + 1]):
                along += y[np.uint32(view.row[k])] * view.value[k]
                whole += abs(y[np.uint32(view.row[k])] * view.value[k])
            p[first[b] + j], size[first[b] + j] = cost + along, abs(cost) + whole
    return p, size


@kernel
def _response(p, size, slope, begin, end, image, upper, relation, total):  # type: ignore[no-untyped-def]
    """Minimiser of r'x over X_q, r = p + slope a: a'x, r'x, p'x, and relative r < 0 of columns without bound.

    p'x is summed for itself: where the slope is steep, nothing is left of it in r'x - slope a'x.
    r_j of a column without bound that is 0 but for rounding counts as 0: the steepest tangent makes it so.
    """
    reach, best, cost, violation = 0.0, 0.0, 0.0, 0.0
    if relation == NO_TOTAL:
        for j in range(begin, end):
            tilt = slope * image[j] if image[j] > 0.0 else 0.0
            r = p[j] + tilt
            if r < 0.0:
                if upper[j] < np.inf:
                    best += r * upper[j]
                    reach += image[j] * upper[j]
                    cost += p[j] * upper[j]
                elif r < -1e-14 * (size[j] + abs(tilt)):
                    violation = max(violation, -r / (size[j] + abs(tilt)))
        return reach, best, cost, violation
    left, last = total, -np.inf
    while left > 0.0:
        level = np.inf
        for j in range(begin, end):
            r = p[j] + (slope * image[j] if image[j] > 0.0 else 0.0)
            if r > last and r < level and upper[j] > 0.0:
                level = r
        if level == np.inf or (relation == AT_MOST and level >= 0.0):
            break
        for j in range(begin, end):
            if p[j] + (slope * image[j] if image[j] > 0.0 else 0.0) == level:
                take = min(left, upper[j])
                if take > 0.0:
                    best += level * take
                    reach += image[j] * take
                    cost += p[j] * take
                    left -= take
        last = level
    if relation == EXACTLY and left > LACKING * total:
        best = np.inf
    return reach, best, cost, violation


@kernel
def _respond(p, size, slope, first, image, upper, relation, total, todo):  # type: ignore[no-untyped-def]
    """Best responses of many requests."""
    reach, best = np.zeros(todo.size), np.zeros(todo.size)
    cost, violation = np.zeros(todo.size), np.zeros(todo.size)
    for b in range(todo.size):
        if todo[b]:
            reach[b], best[b], cost[b], violation[b] = _response(
                p, size, slope[b], first[b], first[b + 1], image, upper, relation[b], total[b]
            )
    return reach, best, cost, violation


@kernel
def _log_touching(weight, offset, slope):  # type: ignore[no-untyped-def]
    return max(-weight / slope - offset, 0.0) if slope < 0.0 else np.inf


@kernel
def _log_bounds(p, size, first, image, upper, relation, total, own, weight, offset):  # type: ignore[no-untyped-def]
    """As :class:`_Hull`, for logarithms: (sum of bounds, largest violation)."""
    bounds, violations = 0.0, 0.0
    for b in range(own.size):
        if not own[b]:
            continue
        w, beta, begin, end = weight[b], offset[b], first[b], first[b + 1]
        if end == begin + 1 and w > 0.0 and relation[b] != EXACTLY and image[begin] > 0.0:
            cap = upper[begin] if relation[b] == NO_TOTAL else min(upper[begin], total[b])
            if cap < np.inf:  # one column: its best value is known, and no tangent asks for more
                a, price = image[begin], p[begin]
                x = min(max((w * a / price - beta) / a, 0.0), cap) if price > 0.0 else cap
                bounds += price * x - w * np.log(beta + a * x)
                continue
        steepest, most, largest = np.inf, 0.0, 0.0
        for j in range(begin, end):
            largest = max(largest, image[j])
            if relation[b] != NO_TOTAL or upper[j] < np.inf:
                most += image[j] * min(upper[j], total[b])
            elif image[j] > 0.0:
                steepest = min(steepest, p[j] / image[j])
        if relation[b] != NO_TOTAL:
            most = min(most, total[b] * largest)
        least = _log_touching(w, beta, -steepest) if steepest < np.inf else 0.0
        hopeless = least == np.inf
        least = _HOPELESS if hopeless else least
        low, high = least, max(least, most)
        bound, violation = -np.inf, 0.0
        left_t, left_c, right_t, right_c = 0.0, 0.0, 0.0, 0.0
        t, stage = high, 0
        for _ in range(_HULL_STEPS + 2):
            slope = -w / max(beta + t, 1e-300) if w > 0.0 else 0.0
            value = -w * np.log(beta + t) if w > 0.0 else 0.0
            reach, best, cost, wrong = _response(
                p, size, slope, begin, end, image, upper, relation[b], total[b]
            )
            if value - slope * t + best > bound:
                bound, violation = value - slope * t + best, wrong
            if stage == 0:  # the right end, whose response is the left point
                if not (reach < high and low < high) or hopeless:
                    break
                left_t, left_c = reach, cost
                low = max(low, min(reach, high))
                if w > 0.0 and not -w / max(beta + low, 1e-300) > -_STEEP:
                    low = max(low, 1e-12 * high)
                t, stage = low, 1
                continue
            if stage == 1:
                right_t, right_c, stage = reach, cost, 2
                if not right_t > low:
                    break
            else:
                if reach < t:
                    left_t, left_c, high = reach, cost, t
                else:
                    right_t, right_c, low = reach, cost, t
                if reach == t or not low < high:
                    break
            chord = (right_c - left_c) / (right_t - left_t)
            t = _log_touching(w, beta, -chord if np.isfinite(chord) else 0.0)
            t = min(max(t, left_t), right_t)
            value = -w * np.log(beta + t) if w > 0.0 else 0.0
            attained = left_c + chord * (t - left_t) + value
            if not attained - bound > _CLOSE * (abs(attained) + abs(value)):
                break
            if not (t > low and t < high):
                t = 0.5 * (low + high)
        bounds += bound
        violations = max(violations, violation)
    return bounds, violations
