"""Contribution of requests with convex terms to the certified bound, from their best tangents.

At prices y, a request with a term adds to the bound

    min { p'x + phi(a'x) : x in X_q }
        =  max over t of  phi(t) - phi'(t) t + min { (p + phi'(t) a)'x : x in X_q }.

Every t gives a lower bound, because a tangent lies below phi. The best t is found on the lower envelope of
the points (a'x, p'x). Two points of the envelope, one on either side of the minimum, bracket the minimum. The
minimiser of phi on the chord between them gives a tangent. The best x for this tangent is a new point of the
envelope, or proves that the chord belongs to the envelope. The envelope has few corners, so a few iterations
are enough.

A column without any bound allows no tangent steeper than s_max = min p_j / a_j (with slope -s). If even the
flattest tangent is too steep, the violation counts as dual residual, relative to its terms as in
:mod:`copter.proof.pricing`.
"""

from __future__ import annotations

import numpy as np

from copter.arrays import Floats
from copter.compile.kernels import kernel
from copter.store.store import AT_MOST, EXACTLY, LACKING, NO_TOTAL
from copter.store.view import StoreView, coefficients_of, cost_of
from copter.sums.compensated import Pair, added, sum_of
from copter.terms.batch import TermBatch
from copter.terms.phi import slope, touching, value

_ENVELOPE_STEPS = 80
_CLOSE = 1e-14
_HOPELESS = 1.0
_STEEP, _FAR = 1e100, 1e300
_ERROR = 2.0**-46
"""Relative rounding error of the terms of a tangent's bound: more than sixty roundings of each."""
_FLATTER = 1e-12
"""Relative rounding error of a reduced cost, in units of |c_j| + |a_j|'|y|."""
_ROUNDING = 1e-14
"""A reduced cost that is smaller than this fraction of its terms counts as 0."""


def term_bound(
    batch: TermBatch, view: StoreView, y: Floats, floors: Floats | None = None
) -> tuple[Pair, Pair, float]:
    """Return sum of min p'x + phi(a'x) over X_q at y (row slots,), its rounding error, and the dual residual.

    Sum and error are pairs (:mod:`copter.sums.compensated`). The residual is the largest relative violation
    of unbounded columns; its denominators are at least `floors` (columns,).
    """
    p, size = _prices(view, batch.slot, batch.first, y)
    if floors is not None:
        size = np.maximum(size, floors)
    return _bounds(batch.phi, p, size, batch.first, batch.image, batch.upper, batch.relation, batch.total)


def tangent_bound(
    batch: TermBatch, p: Floats, size: Floats, image: Floats, upper: Floats
) -> tuple[float, float]:
    """Return the bound and the violation of :func:`term_bound` for given prices p, images and bounds.

    All are in units of the columns. `size` (columns,) has |c_j| + |a_j|'|y|, the denominators of violations.
    """
    bound, _, violation = _bounds(batch.phi, p, size, batch.first, image, upper, batch.relation, batch.total)
    return sum_of([bound]), float(violation)


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
def _response(p, size, steep, begin, end, image, upper, relation, total):  # type: ignore[no-untyped-def]
    """Minimise r'x over X_q with r = p + steep a; return a'x, r'x, p'x and the largest relative violation.

    A violation is r_j < 0 of a column without a bound. An r_j that is 0 within rounding errors counts as 0,
    because the steepest tangent makes it 0. p'x has a sum of its own, because r'x - steep a'x would cancel.
    """
    reach, best, cost, violation = 0.0, 0.0, 0.0, 0.0
    if relation == NO_TOTAL:
        for j in range(begin, end):
            tilt = steep * image[j] if image[j] > 0.0 else 0.0
            r = p[j] + tilt
            if r < 0.0:
                if upper[j] < np.inf:
                    best += r * upper[j]
                    reach += image[j] * upper[j]
                    cost += p[j] * upper[j]
                elif r < -_ROUNDING * (size[j] + abs(tilt)):
                    violation = max(violation, -r / (size[j] + abs(tilt)))
        return reach, best, cost, violation
    left, last = total, -np.inf
    while left > 0.0:
        level = np.inf
        for j in range(begin, end):
            r = p[j] + (steep * image[j] if image[j] > 0.0 else 0.0)
            if r > last and r < level and upper[j] > 0.0:
                level = r
        if level == np.inf or (relation == AT_MOST and level >= 0.0):
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
    if relation == EXACTLY and left > LACKING * total:
        best = np.inf
    return reach, best, cost, violation


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
def _ends(phi, q, p, size, begin, end, image, upper, relation, total):  # type: ignore[no-untyped-def]
    """Return a range for the argument of the best tangent; its lower end is inf if no tangent is flat enough.

    The tangent is flatter, by the rounding errors of the prices, than a column without a bound allows.
    """
    steepest, most, largest = np.inf, 0.0, 0.0
    for j in range(begin, end):
        largest = max(largest, image[j])
        if relation != NO_TOTAL or upper[j] < np.inf:
            most += image[j] * min(upper[j], total)
        elif image[j] > 0.0:
            steepest = min(steepest, (p[j] - _FLATTER * size[j]) / image[j])
    if relation != NO_TOTAL:
        most = min(most, total * largest)
    least = touching(phi, q, -steepest) * (1.0 + _FLATTER) if steepest < np.inf else 0.0
    return least, most


@kernel(inner=True)
def _best_tangent(phi, q, p, size, begin, end, image, upper, relation, total):  # type: ignore[no-untyped-def]
    """Return (bound, violation, terms) of the best tangent of one term, from both ends of its lower envelope.

    ``terms`` is the sum of the absolute terms of the bound.
    """
    low, high = _ends(phi, q, p, size, begin, end, image, upper, relation, total)
    hopeless = low == np.inf
    if hopeless and abs(value(phi, q, _FAR) - value(phi, q, np.sqrt(_FAR))) <= 1e-100:
        # a column without a cost and without a bound takes the term to its limit
        _, best, cost, wrong = _response(p, size, 0.0, begin, end, image, upper, relation, total)
        return value(phi, q, _FAR) + best, wrong, abs(cost)
    low = _HOPELESS if hopeless else low
    high = max(low, high)
    bound, violation, terms = -np.inf, 0.0, 0.0
    left_t, left_c, right_t, right_c = 0.0, 0.0, 0.0, 0.0
    t, stage = high, 0
    for _ in range(_ENVELOPE_STEPS + 2):
        tilt = slope(phi, q, t)
        reach, best, cost, wrong = _response(p, size, tilt, begin, end, image, upper, relation, total)
        below = value(phi, q, t) - tilt * t + best
        if below > bound:
            bound, violation = below, wrong
            terms = abs(value(phi, q, t)) + abs(tilt * t) + abs(tilt * reach) + abs(cost)
        if stage == 0:  # the right end, whose response is the left point
            if not (reach < high and low < high) or hopeless:
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
    return bound, violation, terms


@kernel
def _bounds(phi, p, size, first, image, upper, relation, total):  # type: ignore[no-untyped-def]
    """Return the sums of the bounds and of the rounding errors of all terms, as pairs, and the violation."""
    bounds, low, violations = 0.0, 0.0, 0.0
    errors, errors_low = 0.0, 0.0
    for q in range(relation.size):
        begin, end = first[q], first[q + 1]
        dearest, most = 0.0, 0.0
        for j in range(begin, end):
            dearest = max(dearest, size[j])
            most += upper[j] if upper[j] < np.inf else 0.0
        most = most if relation[q] == NO_TOTAL else total[q]
        if end == begin + 1 and relation[q] != EXACTLY and image[begin] > 0.0:
            cap = upper[begin] if relation[q] == NO_TOTAL else min(upper[begin], total[q])
            if cap < np.inf:  # the minimum is known in closed form
                bound = _one_column(phi, q, p[begin], image[begin], cap)
                bounds, low = added(bounds, low, bound)
                errors, errors_low = added(errors, errors_low, _ERROR * (abs(bound) + 2.0 * dearest * cap))
                continue
        bound, violation, terms = _best_tangent(
            phi, q, p, size, begin, end, image, upper, relation[q], total[q]
        )
        bounds, low = added(bounds, low, bound)
        errors, errors_low = added(errors, errors_low, _ERROR * (terms + dearest * most))
        violations = max(violations, violation)
    return (bounds, low), (errors, errors_low), violations
