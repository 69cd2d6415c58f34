"""Kernels for convex terms: the slope at a request's minimiser, and rank-one parts of the Hessian.

The subproblem of a request with a term is

    min { p'x + phi(a'x) + |x - z|^2 / (2 sigma) : x in X_q }.

With s = -phi'(a'x) at the minimiser, the minimiser is that of a linear request,
x(s) = Proj_X(z - sigma (p - s a)), and s is the root of the increasing function s + phi'(a'x(s)).  The image
a'x(s) is piecewise linear with slope kappa = sigma a'P a, with P as for a linear request.  On a piece the
root is a proximal point of phi, so a step reaches it at once. Safeguarded by a bracket, a few steps suffice.

Terms are numbered as in their batch; ``block`` is the block of each in the working set ``w``.  ``first``
gives the start of each term's columns in the arrays that contain the columns of terms only.
"""

from __future__ import annotations

import numpy as np

from copter.compile.kernels import kernel
from copter.solvers.inner.newton_kernels import add_column, multiplier
from copter.terms.phi import proximal, slope

_SLOPE_STEPS = 60
_SLOPE_CLOSE = 1e-13
_EXPANSION = 8.0


@kernel(allocates=True)
def term_centres(w, block, first, y, centre, sigma):  # type: ignore[no-untyped-def]
    """Return centre - sigma (c + A'y) on the columns of terms."""
    v = np.empty(first[-1])
    for b in range(block.size):
        begin = w.first[block[b]]
        for i in range(first[b + 1] - first[b]):
            p = w.cost[begin + i]
            for k in range(w.pointer[begin + i], w.pointer[begin + i + 1]):
                p += y[w.row[k]] * w.value[k]
            v[first[b] + i] = centre[begin + i] - sigma * p
    return v


@kernel(inner=True)
def _projection(v, push, image, upper, exact, total, begin, end, x):  # type: ignore[no-untyped-def]
    """Write Proj(v + push a) to x; return a'x, and the squared norm of P a over the free columns."""
    top, mass = -np.inf, 0.0
    for j in range(begin, end):
        x[j] = v[j] + (push * image[j] if image[j] > 0.0 else 0.0)
        top = max(top, x[j])
        if x[j] > 0.0:
            mass += min(x[j], upper[j])
    tight = exact or mass > total
    tau = multiplier(x[begin:end], upper[begin:end], total, top - total) if tight else 0.0
    at, mean, count = 0.0, 0.0, 0
    for j in range(begin, end):
        d = x[j] - tau
        if d > 0.0 and upper[j] > 0.0:
            at += image[j] * min(d, upper[j])
            if d < upper[j]:
                mean += image[j]
                count += 1
    mean = mean / count if tight and count > 0 else 0.0
    curved = 0.0
    if not (tight and count == 1):
        for j in range(begin, end):
            d = x[j] - tau
            if d > 0.0 and d < upper[j]:
                curved += (image[j] - mean) * (image[j] - mean)
    return at, curved


@kernel(inner=True)
def _solve_slope(phi, q, v, sigma, image, upper, exact, total, begin, end, scale, guess, x):  # type: ignore[no-untyped-def]
    """Return the root s of s = -phi'(a'x(s)), x(s) = Proj(v + sigma s a), of term q, and a'x(s)."""
    if end == begin + 1 and not exact and image[begin] > 0.0:  # closed form for one column
        most, a = min(upper[begin], total), image[begin]
        at = a * min(max(proximal(phi, q, a * v[begin], sigma * a * a) / a, 0.0), most)
        return -slope(phi, q, at), at
    low, high, at = -np.inf, np.inf, 0.0
    for _ in range(_SLOPE_STEPS):
        at, square = _projection(v, sigma * guess, image, upper, exact, total, begin, end, x)
        kappa, flat = sigma * square, -slope(phi, q, at)
        if guess < flat:
            low = guess
        elif guess > flat:
            high = guess
        new = flat
        if kappa > 0.0:
            new = -slope(phi, q, proximal(phi, q, at - kappa * guess, kappa))
        # far from the root the slope of phi may be huge or infinite
        reach = _EXPANSION * max(abs(guess), scale)
        if high == np.inf:
            new = min(new, guess + reach)
        if low == -np.inf:
            new = max(new, guess - reach)
        if abs(new - guess) <= _SLOPE_CLOSE * abs(guess) or guess == flat:
            break  # otherwise rounding errors could leave the bracket
        if new > low and new < high:
            guess = new
        elif low == -np.inf:
            guess = high - reach
        elif high == np.inf:
            guess = low + reach
        elif low > 0.0 and high > _EXPANSION * low:
            guess = np.sqrt(low * high)
        else:
            guess = 0.5 * (low + high)
    return guess, at


@kernel(allocates=True, inner=True)
def solve_slopes(phi, v, sigma, image, upper, exact, total, first, scale, s, t):  # type: ignore[no-untyped-def]
    """Overwrite the guesses in `s` with the roots of all terms, and `t` with a'x there."""
    x = np.empty(v.size)
    for q in range(exact.size):
        begin, end = first[q], first[q + 1]
        s[q], t[q] = _solve_slope(
            phi, q, v, sigma, image, upper, exact[q], total[q], begin, end, scale[q], s[q], x
        )


@kernel(inner=True)
def step_to(phi, q, v, sigma, image, upper, exact, total, begin, end, scale, guess, x):  # type: ignore[no-untyped-def]
    """Write the minimiser of |x - v|^2 / (2 sigma) + phi(a'x) over X_q to `x`; return its slope s."""
    s, _ = _solve_slope(phi, q, v, sigma, image, upper, exact, total, begin, end, scale, guess, x)
    top, mass = -np.inf, 0.0
    for j in range(begin, end):
        x[j] = v[j] + (sigma * s * image[j] if image[j] > 0.0 else 0.0)
        top = max(top, x[j])
        if x[j] > 0.0:
            mass += min(x[j], upper[j])
    tight = exact or mass > total
    tau = multiplier(x[begin:end], upper[begin:end], total, top - total) if tight else 0.0
    for j in range(begin, end):
        x[j] = min(max(x[j] - tau, 0.0), upper[j])
    return s


@kernel(allocates=True, inner=True)
def tangent_parts(first, image, block, free, tight, start):  # type: ignore[no-untyped-def]
    """Return v = P a of every term, and v'v.

    P is the projection onto the free columns, with sum 0 if the sum row is `tight`.
    """
    v, square = np.zeros(image.size), np.zeros(block.size)
    for b in range(block.size):
        shift = start[block[b]] - first[b]
        mean, count = 0.0, 0
        for j in range(first[b], first[b + 1]):
            if free[j + shift]:
                mean += image[j]
                count += 1
        if count == 0 or (tight[block[b]] and count == 1):
            continue
        mean = mean / count if tight[block[b]] else 0.0
        for j in range(first[b], first[b + 1]):
            if free[j + shift]:
                v[j] = image[j] - mean
                square[b] += v[j] * v[j]
    return v, square


@kernel(allocates=True, inner=True)
def rank_one_parts(w, block, first, v, rho, index):  # type: ignore[no-untyped-def]
    """Return -sum_q rho_q (A_q v_q)(A_q v_q)', as :func:`copter.solvers.inner.newton_kernels.curvature`."""
    entries, n, end = 0, 0, np.int64(0)
    for b in block:
        entries += w.pointer[w.first[b + 1]] - w.pointer[w.first[b]]
    start, factor = np.zeros(block.size + 1, np.int64), np.empty(block.size)
    row, value, place = np.empty(entries, np.int64), np.empty(entries), np.full(w.lower_row.size, -1)
    for b in range(block.size):
        if rho[b] != 0.0:
            for j in range(first[b], first[b + 1]):
                column = w.first[block[b]] + j - first[b]
                if v[j] != 0.0:
                    end = add_column(w, column, v[j], index, start[n], end, place, row, value)
            factor[n], n = -rho[b], n + 1
            start[n] = end
    return start[: n + 1], row[:end], value[:end], factor[:n]
