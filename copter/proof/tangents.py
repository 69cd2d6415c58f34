"""Contribution of requests with convex terms to the certified bound, from their best tangents.

At prices y, a request with a term adds to the bound

    min { p'x + phi(a'x) : x in X_q }
        =  max over t of  phi(t) - phi'(t) t + min { (p + phi'(t) a)'x : x in X_q }.

Every t gives a lower bound, because a tangent lies below phi. The best t is found on the lower envelope of
the points (a'x, p'x). Two points of the envelope, one on either side of the minimum, bracket the minimum. The
minimiser of phi on the chord between them gives a tangent. The best x for this tangent is a new point of the
envelope, or proves that the chord belongs to the envelope. The envelope has few corners, so a few iterations
are enough.
"""

from __future__ import annotations

import numpy as np

from copter.arrays import Floats
from copter.compile.kernels import kernel
from copter.store.store import LACKING
from copter.store.view import StoreView, coefficients_of, cost_of
from copter.sums.compensated import Pair, added, sum_of
from copter.terms.batch import TermBatch
from copter.terms.phi import slope, touching, value

_ENVELOPE_STEPS = 80
_CLOSE = 1e-14
_STEEP = 1e100
_ERROR = 2.0**-46
"""Relative rounding error of the terms of a tangent's bound: more than sixty roundings of each."""
_ROUNDING = 1e-14
"""A reduced cost that is smaller than this fraction of its terms counts as 0."""


def term_bound(batch: TermBatch, view: StoreView, y: Floats) -> tuple[Pair, Pair]:
    """Return the sum of min p'x + phi(a'x) over X_q at y (row slots,), and its rounding error.

    Both are pairs (:mod:`copter.sums.compensated`).
    """
    p, size = _prices(view, batch.slot, batch.first, y)
    pairs: tuple[Pair, Pair]
    pairs = _bounds(batch.phi, p, size, batch.first, batch.image, batch.upper, batch.exact, batch.total)
    return pairs


def tangent_bound(batch: TermBatch, p: Floats, image: Floats, upper: Floats) -> float:
    """Return the bound of :func:`term_bound` for prices p, images and bounds in the units of columns."""
    args = batch.phi, p, abs(p), batch.first, image, upper, batch.exact, batch.total
    return sum_of([_bounds(*args)[0]])


@kernel(allocates=True)
def _prices(view: StoreView, slot, first, y):  # type: ignore[no-untyped-def]
    """Return c + A'y and |c| + |A|'|y| of all columns of the given requests."""
    p, size = np.empty(first[-1]), np.empty(first[-1])
    for b in range(slot.size):
        q = slot[b]
        usage = view.usage[q]
        pointer, entry = view.pointer_start[usage], view.entry_start[usage]
        shift, stride = coefficients_of(view, usage)
        for j in range(view.n_columns[q]):
            cost, along, whole = cost_of(view, q, j), 0.0, 0.0
            for k in range(entry + view.pointer[pointer + j], entry + view.pointer[pointer + j + 1]):
                paid = y[np.uint32(view.row[k])] * view.coefficient[shift + stride * np.uint64(k)]
                along += paid
                whole += abs(paid)
            p[first[b] + j], size[first[b] + j] = cost + along, abs(cost) + whole
    return p, size


@kernel(inner=True)
def _response(p, steep, begin, end, image, upper, exact, total):  # type: ignore[no-untyped-def]
    """Minimise r'x over X_q with r = p + steep a; return a'x, r'x and p'x.

    p'x has a sum of its own, because r'x - steep a'x would cancel.
    """
    reach, best, cost = 0.0, 0.0, 0.0
    if total == np.inf:
        for j in range(begin, end):
            r = p[j] + (steep * image[j] if image[j] > 0.0 else 0.0)
            if r < 0.0:
                best += r * upper[j]
                reach += image[j] * upper[j]
                cost += p[j] * upper[j]
        return reach, best, cost
    left, last = total, -np.inf
    while left > 0.0:
        level = np.inf
        for j in range(begin, end):
            r = p[j] + (steep * image[j] if image[j] > 0.0 else 0.0)
            if r > last and r < level and upper[j] > 0.0:
                level = r
        if level == np.inf or (not exact and level >= 0.0):
            break
        for j in range(begin, end):
            if p[j] + (steep * image[j] if image[j] > 0.0 else 0.0) == level:
                take = min(left, upper[j])
                if take > 0.0:
                    best += level * take
                    reach += image[j] * take
                    cost += p[j] * take
                    left -= take
        last = level
    if exact and left > LACKING * total:
        best = np.inf
    return reach, best, cost


@kernel(inner=True)
def _one_column(phi, q, price, image, cap):  # type: ignore[no-untyped-def]
    """Return min { p x + phi(a x) : 0 <= x <= cap }, lowered by the error of the slope at the minimiser."""
    x = min(touching(phi, q, -price / image) / image, cap)
    tilt = slope(phi, q, image * x) * image
    r, bound = price + tilt, price * x + value(phi, q, image * x)
    if abs(r) <= _ROUNDING * (abs(price) + abs(tilt)):
        return bound
    if r > 0.0 and x > 0.0:
        bound -= r * x
    elif r < 0.0 and x < cap:
        bound += r * (cap - x)
    return bound


@kernel(inner=True)
def _most(begin, end, image, upper, exact, total):  # type: ignore[no-untyped-def]
    """Return an upper bound on a'x over X_q."""
    most, largest = 0.0, 0.0
    for j in range(begin, end):
        largest = max(largest, image[j])
        most += image[j] * min(upper[j], total)
    return most if total == np.inf else min(most, total * largest)


@kernel(inner=True)
def _best_tangent(phi, q, p, begin, end, image, upper, exact, total):  # type: ignore[no-untyped-def]
    """Return (bound, terms) of the best tangent of one term, from both ends of its lower envelope.

    ``terms`` is the sum of the absolute terms of the bound.
    """
    low, high = 0.0, _most(begin, end, image, upper, exact, total)
    bound, terms = -np.inf, 0.0
    left_t, left_c, right_t, right_c = 0.0, 0.0, 0.0, 0.0
    t, stage = high, 0
    for _ in range(_ENVELOPE_STEPS + 2):
        tilt = slope(phi, q, t)
        reach, best, cost = _response(p, tilt, begin, end, image, upper, exact, total)
        below = value(phi, q, t) - tilt * t + best
        if below > bound:
            bound = below
            terms = abs(value(phi, q, t)) + abs(tilt * t) + abs(tilt * reach) + abs(cost)
        if stage == 0:  # the right end, whose response is the left point
            if not (reach < high and low < high):
                break
            left_t, left_c = reach, cost
            low = max(low, min(reach, high))
            if not slope(phi, q, low) > -_STEEP:
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
        t = touching(phi, q, -chord if np.isfinite(chord) else 0.0)
        t = min(max(t, left_t), right_t)
        height = value(phi, q, t)
        attained = left_c + chord * (t - left_t) + height
        if not attained - bound > _CLOSE * (abs(attained) + abs(height)):
            break
        if not (t > low and t < high):
            t = 0.5 * (low + high)
    return bound, terms


@kernel
def _bounds(phi, p, size, first, image, upper, exact, total):  # type: ignore[no-untyped-def]
    """Return the sums of the bounds and of the rounding errors of all terms, as pairs.

    `size` (columns,) has |c_j| + |a_j|'|y|.
    """
    bounds, low = 0.0, 0.0
    errors, errors_low = 0.0, 0.0
    for q in range(exact.size):
        begin, end = first[q], first[q + 1]
        dearest, most = 0.0, 0.0
        for j in range(begin, end):
            dearest = max(dearest, size[j])
            most += upper[j]
        most = most if total[q] == np.inf else total[q]
        if end == begin + 1 and not exact[q] and image[begin] > 0.0:  # known in closed form
            cap = min(upper[begin], most)
            bound = _one_column(phi, q, p[begin], image[begin], cap)
            terms, most = 2.0 * dearest * cap + abs(bound), 0.0
        else:
            bound, terms = _best_tangent(phi, q, p, begin, end, image, upper, exact[q], total[q])
        bounds, low = added(bounds, low, bound)
        errors, errors_low = added(errors, errors_low, _ERROR * (terms + dearest * most))
    return (bounds, low), (errors, errors_low)
