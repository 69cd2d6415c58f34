"""Kernels of the Newton method on prices: projections of blocks, and the Hessian of psi on them.

Source: projection onto a capped simplex by Newton's method on its multiplier, Condat (2016), section 3.
"""

from __future__ import annotations

import numpy as np

from copter.kernels import kernel
from copter.store.store import AT_MOST, EXACTLY


@kernel(inner=True)
def multiplier(v, upper, total, tau):  # type: ignore[no-untyped-def]
    """tau with sum(clip(v - tau, 0, upper)) == total, by safeguarded Newton from a guess."""
    low, high = -np.inf, np.inf
    for _ in range(200):
        mass, count, edges = -total, 0, 0
        above, below = np.inf, -np.inf
        for j in range(v.size):
            d = v[j] - tau
            if d <= 0.0:
                below = max(below, d)
            elif d >= upper[j]:
                mass += upper[j]
                beyond = d - upper[j]
                if beyond <= 1e-15 * abs(tau):
                    edges += 1  # leaves its cap as soon as tau grows
                else:
                    above = min(above, beyond)
            else:
                mass += d
                count += 1
        if abs(mass) <= 1e-15 * (1.0 + total + abs(tau)):
            return tau
        if mass > 0.0:
            low = tau
            count += edges
            guess = tau + (mass / count if count > 0 else above)
        else:
            high = tau
            guess = tau + (mass / count if count > 0 else below + mass)
        if guess == tau:
            return tau
        if not low < guess < high:
            if low == -np.inf or high == np.inf:
                guess = tau + 2.0 * mass
            else:
                guess = 0.5 * (low + high)
                if guess == low or guess == high:
                    return guess
        tau = guess
    return tau


@kernel(allocates=True)
def project_blocks(  # type: ignore[no-untyped-def]  # noqa: C901 - one pass
    w, cost, y, centre, sigma, first, last, x, free, tight
):
    """x = Proj(centre - sigma p), p = cost + A'y, for blocks [first, last); (part of psi, of A x, of x'x).

    p'x + |x - z|^2 / (2 sigma) = (x'x / 2 - x'v + z'z / 2) / sigma with v = z - sigma p: the last term is
    the caller's, so that only the support of x counts here.
    """
    activity = np.zeros(y.size)
    value = square = 0.0
    for b in range(first, last):
        begin, end = w.first[b], w.first[b + 1]
        top, second, best = -np.inf, -np.inf, begin
        for j in range(begin, end):
            p = cost[j]
            for k in range(w.pointer[j], w.pointer[j + 1]):
                p += y[w.row[k]] * w.value[k]
            v = centre[j] - sigma * p
            x[j] = v
            if v > top:
                top, second, best = v, top, j
            elif v > second:
                second = v
        total = w.total[b]
        tight[b] = w.relation[b] == EXACTLY
        if w.relation[b] == AT_MOST and top > 0.0:
            mass = 0.0
            for j in range(begin, end):
                if x[j] > 0.0:
                    mass += min(x[j], w.upper[j])
            tight[b] = mass > total
        # one column takes all, most often; if not, Newton starts left of the multiplier, where it is monotone
        t = top - total if tight[b] else 0.0
        if tight[b] and second <= t and total <= w.upper[best]:
            for j in range(begin, end):
                x[j] = 0.0
                free[j] = False
            x[best] = total
            free[best] = total < w.upper[best]
            value += total * (0.5 * total - top)
            square += total * total
            for k in range(w.pointer[best], w.pointer[best + 1]):
                activity[w.row[k]] += w.value[k] * total
            continue
        if tight[b]:
            t = multiplier(x[begin:end], w.upper[begin:end], total, t)
        for j in range(begin, end):
            v = x[j]
            d = v - t
            if d <= 0.0 or w.upper[j] == 0.0:
                x[j] = 0.0
                free[j] = False
                continue
            free[j] = d < w.upper[j]
            xj = min(d, w.upper[j])
            x[j] = xj
            value += xj * (0.5 * xj - v)
            square += xj * xj
            for k in range(w.pointer[j], w.pointer[j + 1]):
                activity[w.row[k]] += w.value[k] * xj
    return value / sigma, activity, square


@kernel(inlined=True)
def _free_columns(w, free, tight, b):  # type: ignore[no-untyped-def]
    """Free columns of a block; 0 if they have no curvature, as a lone one under a tight sum row."""
    count = 0
    for j in range(w.first[b], w.first[b + 1]):
        if free[j]:
            count += 1
    return 0 if tight[b] and count == 1 else count


@kernel(allocates=True)
def dense_hessian(  # type: ignore[no-untyped-def]  # noqa: C901 - one pass
    w, free, tight, index, size, sample, stands_for
):
    """sum_q A_q P_q A_q' on the active rows, from a sample of the blocks."""
    hessian = np.zeros((size, size))
    total = np.zeros(size)
    touched = np.empty(size, np.int64)
    is_touched = np.zeros(size, np.bool_)
    for i in range(sample.size):
        b, times = sample[i], stands_for[i]
        count = _free_columns(w, free, tight, b)
        if count == 0:
            continue
        pair = tight[b] and count == 2  # P = d d' / 2 with the difference d of the two columns
        seen, sign = 0, 1.0
        for j in range(w.first[b], w.first[b + 1]):
            if not free[j]:
                continue
            for k in range(w.pointer[j], w.pointer[j + 1]):
                r = index[w.row[k]]
                if r < 0:
                    continue
                if not pair:
                    for h in range(w.pointer[j], w.pointer[j + 1]):
                        s = index[w.row[h]]
                        if 0 <= s <= r:
                            hessian[r, s] += times * w.value[k] * w.value[h]
                if tight[b]:
                    if not is_touched[r]:
                        is_touched[r] = True
                        touched[seen] = r
                        seen += 1
                    total[r] += sign * w.value[k]
            sign = -1.0 if pair else 1.0
        factor = times * (0.5 if pair else -1.0 / count)
        for a in range(seen):
            r = touched[a]
            part = factor * total[r]
            if part != 0.0:
                for c in range(seen):
                    if touched[c] <= r:
                        hessian[r, touched[c]] += part * total[touched[c]]
        for a in range(seen):
            total[touched[a]] = 0.0
            is_touched[touched[a]] = False
    for r in range(size):
        for s in range(r + 1):
            hessian[s, r] = hessian[r, s]
    return hessian


@kernel(allocates=True)
def hessian_diagonal(w, free, tight, sample, stands_for):  # type: ignore[no-untyped-def]
    """Diagonal of sum_q A_q diag(F) A_q', above that of the Hessian, from a sample of the blocks."""
    diagonal = np.zeros(w.lower_row.size)
    for i in range(sample.size):
        b, times = sample[i], stands_for[i]
        if _free_columns(w, free, tight, b) == 0:
            continue
        for j in range(w.first[b], w.first[b + 1]):
            if free[j]:
                for k in range(w.pointer[j], w.pointer[j + 1]):
                    diagonal[w.row[k]] += times * w.value[k] * w.value[k]
    return diagonal


@kernel(allocates=True)
def hessian_times(w, free, tight, d, sample, stands_for):  # type: ignore[no-untyped-def]
    """sum_q A_q P_q A_q' d, from a sample of the blocks."""
    result = np.zeros(d.size)
    for i in range(sample.size):
        b = sample[i]
        count = _free_columns(w, free, tight, b)
        if count == 0:
            continue
        mean = 0.0
        for j in range(w.first[b], w.first[b + 1]):
            if free[j] and tight[b]:
                for k in range(w.pointer[j], w.pointer[j + 1]):
                    mean += w.value[k] * d[w.row[k]]
        mean /= count
        for j in range(w.first[b], w.first[b + 1]):
            if free[j]:
                slope = -mean
                for k in range(w.pointer[j], w.pointer[j + 1]):
                    slope += w.value[k] * d[w.row[k]]
                for k in range(w.pointer[j], w.pointer[j + 1]):
                    result[w.row[k]] += w.value[k] * (stands_for[i] * slope)
    return result
