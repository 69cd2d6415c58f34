"""Kernels of the Newton method on prices (:mod:`copter.solvers.inner.newton`).

The first part contains sums over blocks: projections, and the Hessian of psi.  The second part contains the
operations of a step on the rows: direction, step length, and the damping of the next step.  Both loops of the
method, in Python and compiled, call these kernels.

Source: projection onto a capped simplex by Newton's method on its multiplier, Condat (2016), section 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats
from copter.compile.kernels import kernel


@kernel(inner=True)
def multiplier(v, upper, total, tau):  # type: ignore[no-untyped-def]
    """Return tau with sum(clip(v - tau, 0, upper)) == total, by safeguarded Newton from the guess `tau`."""
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
                    edges += 1  # drops below its cap as soon as tau grows
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
    """Compute x = Proj(centre - sigma p), p = cost + A'y, for blocks [first, last).

    Write x, the free columns and the tight sum rows; return the blocks' parts of (psi, A x, x'x). Because
    p'x + |x - z|^2 / (2 sigma) = (x'x / 2 - x'v + z'z / 2) / sigma with v = z - sigma p, the sum runs over
    the support of x only. The caller adds z'z.
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
        tight[b] = w.exact[b]
        if not tight[b] and total < np.inf and top > 0.0:
            mass = 0.0
            for j in range(begin, end):
                if x[j] > 0.0:
                    mass += min(x[j], w.upper[j])
            tight[b] = mass > total
        # Usually one column takes the total. Otherwise Newton starts left of the multiplier: it is monotone.
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


@kernel(allocates=True)
def curvature(w, free, tight, index, sample, stands_for):  # type: ignore[no-untyped-def]
    """Return sum_q A_q P_q A_q', over a weighted sample of the blocks, as a sum of factor v v'.

    The result has the starts of the vectors v, the rows and values of their entries, and the factors.  Rows
    with a negative `index` are left out.
    """
    most, entries = _free_entries(w, free, sample)
    start, factor = np.zeros(2 * most + 1, np.int64), np.empty(2 * most)
    row, value, place = np.empty(2 * entries, np.int64), np.empty(2 * entries), np.full(index.size, -1)
    n = _pack(w, free, tight, index, sample, stands_for, place, start, row, value, factor)
    return start[: n + 1], row[: start[n]], value[: start[n]], factor[:n]


@kernel(inner=True)
def _free_entries(w, free, sample):  # type: ignore[no-untyped-def]
    """Return the numbers of free columns and of their entries in some blocks."""
    columns = entries = 0
    for i in range(sample.size):
        for j in range(w.first[sample[i]], w.first[sample[i] + 1]):
            if free[j]:
                columns, entries = columns + 1, entries + (w.pointer[j + 1] - w.pointer[j])
    return columns, entries


@kernel(inner=True)
def _pack(w, free, tight, index, sample, stands_for, place, start, row, value, factor):  # type: ignore[no-untyped-def]
    """Write the vectors of :func:`curvature`; return their number."""
    n, end = 0, np.int64(0)
    for i in range(sample.size):
        b, count = sample[i], 0
        for j in range(w.first[b], w.first[b + 1]):
            if free[j]:
                count += 1
        if count == 0 or (tight[b] and count == 1):
            continue
        pair, sign = tight[b] and count == 2, 1.0
        if tight[b] and not pair:  # P = 1 - 1 1' / count
            for j in range(w.first[b], w.first[b + 1]):
                if free[j]:
                    end = add_column(w, j, 1.0, index, start[n], end, place, row, value)
            factor[n] = -stands_for[i] / count
            n += 1
            start[n] = end
        for j in range(w.first[b], w.first[b + 1]):
            if not free[j]:
                continue
            end = add_column(w, j, sign, index, start[n], end, place, row, value)
            if pair and sign > 0.0:  # P = d d' / 2 with the difference d of the two columns
                sign = -1.0
                continue
            factor[n] = (0.5 if pair else 1.0) * stands_for[i]
            n += 1
            start[n] = end
    return n


@kernel(inner=True)
def add_column(w, j, times, index, begin, end, place, row, value):  # type: ignore[no-untyped-def]
    """Add a multiple of column j to the vector whose entries are begin to end; return the new end.

    `place` (rows,): place of the last entry of each row in all vectors, or -1.
    """
    for k in range(w.pointer[j], w.pointer[j + 1]):
        r = w.row[k]
        if index[r] < 0:
            continue
        if place[r] < begin:
            place[r], row[end], value[end] = end, r, 0.0
            end += 1
        value[place[r]] += times * w.value[k]
    return end


@kernel(allocates=True)
def dense_hessian(parts, index, size):  # type: ignore[no-untyped-def]
    """Return the sum of factor v v' on the rows numbered by `index`."""
    hessian = np.zeros((size, size))
    _add_outer(parts, index, hessian)
    return hessian


@kernel(inner=True)
def _add_outer(parts, index, hessian):  # type: ignore[no-untyped-def]
    """Add the sum of factor v v' to a matrix."""
    start, row, value, factor = parts
    for n in range(factor.size):
        for k in range(start[n], start[n + 1]):
            r, part = index[row[k]], factor[n] * value[k]
            for h in range(start[n], k + 1):
                s = index[row[h]]
                hessian[max(r, s), min(r, s)] += part * value[h]
    for r in range(hessian.shape[0]):
        for s in range(r):
            hessian[s, r] = hessian[r, s]


@kernel
def add_product(parts, d, result):  # type: ignore[no-untyped-def]
    """Add the sum of factor v v' d to `result`."""
    start, row, value, factor = parts
    for n in range(factor.size):
        along = 0.0
        for k in range(start[n], start[n + 1]):
            along += value[k] * d[row[k]]
        along *= factor[n]
        for k in range(start[n], start[n + 1]):
            result[row[k]] += along * value[k]


# ---- operations of a step on the rows ----------------------------------------------------------------


@kernel(inner=True)
def product(a, b):  # type: ignore[no-untyped-def]
    """Return a'b, summed in order."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def price_rows(w, y, height, gradient):  # type: ignore[no-untyped-def]
    """Subtract each row's bound from `gradient`, which is A x, and y times it from `height`, psi's value."""
    for i in range(y.size):
        low, high = w.lower_row[i], w.upper_row[i]
        if y[i] != 0.0:
            held = high if y[i] > 0.0 or low == high else low
            height -= y[i] * held
            gradient[i] -= held
        else:
            gradient[i] -= min(max(gradient[i], low), high)
    return height


@kernel(allocates=True)
def to_the_kinks(w, y, gradient, diagonal):  # type: ignore[no-untyped-def]
    """Return (step, rest): prices that would cross their kink move to it; `rest` marks other active rows."""
    step, rest = np.zeros(y.size), np.zeros(y.size, np.bool_)
    for i in range(y.size):
        towards = w.lower_row[i] < w.upper_row[i] and y[i] * gradient[i] < 0.0
        if towards and abs(gradient[i]) >= abs(y[i]) * diagonal[i]:
            step[i] = -y[i]
        else:
            rest[i] = gradient[i] != 0.0 or y[i] != 0.0
    return step, rest


@kernel(allocates=True)
def dense_system(w, y, gradient, hessian, active, damping):  # type: ignore[no-untyped-def]
    """Return the damped Newton system: (matrix, right-hand side, its rows, step of the other rows).

    The other rows are those whose prices move to their kink; the right-hand side includes their effect.
    """
    largest, diagonal = 0.0, np.full(y.size, np.inf)
    for a in range(active.size):
        largest = max(largest, hessian[a, a])
        diagonal[active[a]] = hessian[a, a] + damping
    step, free = to_the_kinks(w, y, gradient, diagonal)
    rest, rows, count = np.empty(active.size, np.int64), np.empty(active.size, np.int64), 0
    for a in range(active.size):
        if free[active[a]]:
            rest[count], rows[count] = a, active[a]
            count += 1
    system, right = np.empty((count, count)), np.empty(count)
    for a in range(count):
        right[a] = gradient[rows[a]]
        for c in range(active.size):
            right[a] -= hessian[rest[a], c] * step[active[c]]
        for c in range(count):
            system[a, c] = hessian[rest[a], rest[c]]
        system[a, a] += damping + 1e-15 * largest
    return system, right, rows[:count], step


class ConjugateGradients(NamedTuple):
    """State of conjugate gradients for a Newton step: arrays of the rows, changed by :func:`gradient_steps`.

    `rest`: unknowns; the other rows move to their kink. `diagonal`: preconditioner. `goal`: norm of the
    residual at which they end.
    """

    step: Floats
    rest: Flags
    diagonal: Floats
    residual: Floats
    search: Floats
    goal: float


@kernel(allocates=True)
def begin_gradients(w, y, gradient, parts, sigma, damping, closeness):  # type: ignore[no-untyped-def]
    """Begin conjugate gradients for the Newton step; return their state, and residual'search."""
    diagonal = np.full(y.size, damping)
    _add_diagonal(parts, sigma, diagonal)
    step, rest = to_the_kinks(w, y, gradient, diagonal)
    residual, search = np.zeros(y.size), np.empty(y.size)
    add_product(parts, step, residual)
    for i in range(y.size):
        residual[i] = gradient[i] - sigma * residual[i] if rest[i] else 0.0
        search[i] = residual[i] / diagonal[i]
    norm, along = np.sqrt(product(residual, residual)), product(residual, search)
    return ConjugateGradients(step, rest, diagonal, residual, search, min(closeness, norm) * norm), along


@kernel(inner=True)
def _add_diagonal(parts, sigma, diagonal):  # type: ignore[no-untyped-def]
    """Add an upper bound on the diagonal of sigma times the sum of factor v v'."""
    start, row, value, factor = parts
    for n in range(factor.size):
        times = sigma * max(factor[n], 0.0)
        for k in range(start[n], start[n + 1]):
            diagonal[row[k]] += times * (value[k] * value[k])


@kernel(allocates=True)
def gradient_steps(parts, sigma, damping, state, along, limit):  # type: ignore[no-untyped-def]
    """Take at most `limit` steps in place; return (residual'search, whether they are finished)."""
    step, rest, diagonal, residual, search, goal = state
    curved = np.empty(step.size)
    for _ in range(limit):
        for i in range(step.size):
            curved[i] = 0.0
        add_product(parts, search, curved)
        for i in range(step.size):
            curved[i] = sigma * curved[i] + damping * search[i] if rest[i] else 0.0
        curvature = product(search, curved)
        if not curvature > 0.0:
            return along, True
        length, last, along, square = along / curvature, along, 0.0, 0.0
        for i in range(step.size):
            step[i] += length * search[i]
            residual[i] -= length * curved[i]
            along += residual[i] * (residual[i] / diagonal[i])
            square += residual[i] * residual[i]
        for i in range(step.size):
            search[i] = residual[i] / diagonal[i] + along / last * search[i]
        if np.sqrt(square) <= goal:
            return along, True
    return along, False


@kernel(allocates=True)
def along_ray(w, y, step, length):  # type: ignore[no-untyped-def]
    """Return the prices along the (kinked) ray; 0 if the sign would select an infinite row bound."""
    new = np.empty(y.size)
    for i in range(y.size):
        new[i] = y[i] + length * step[i]
        crossed = w.lower_row[i] < w.upper_row[i] and y[i] * new[i] < 0.0
        if crossed or (new[i] > 0.0 and w.upper_row[i] == np.inf):
            new[i] = 0.0
        if new[i] < 0.0 and w.lower_row[i] == -np.inf:
            new[i] = 0.0
    return new


@kernel(inner=True)
def judge(line, spread, heights, promised, steepness, slopes, bracket):  # type: ignore[no-untyped-def]
    """Judge a point of the search along a step; it takes numbers, so that Python can call it too.

    Pairs contain the value at the start of the search and at the point: heights of psi, squared norms of the
    gradient, and slopes along the step. ``promised`` is the rise of psi by its slope at the start, ``spread``
    is |centre|^2 / (2 sigma), and ``bracket`` is the length of the point and the interval of the search.

    Return whether the point is high enough, whether the search ends, and the next bracket.
    """
    length, low, high = bracket
    # psi is a difference of terms of the size of `spread`, which determines its rounding error
    noise = 1e-14 * (1.0 + abs(heights[0]) + spread)
    risen = heights[1] - heights[0]
    enough = risen >= line.armijo * promised - noise
    # if differences of psi are rounding errors, the gradient decides
    enough = enough or (risen >= -100.0 * noise and steepness[1] <= 0.5 * steepness[0])
    if enough:
        if slopes[1] <= line.curvature * slopes[0]:
            return enough, True, bracket
        low = length
    else:
        high = length
    ends = high == np.inf and length > line.longest
    return enough, ends, (0.5 * (low + high) if high < np.inf else line.growth * length, low, high)


@kernel(inner=True)
def damped(line, damping, found, high):  # type: ignore[no-untyped-def]
    """Return the damping after a search: `found`: a point was found; `high`: a length that was too long."""
    if not found:
        return min(line.most_damping, line.damping_jump * damping)
    damping *= 1.0 / line.damping_change if high == np.inf else line.damping_change
    return min(line.most_damping, max(line.least_damping, damping))
