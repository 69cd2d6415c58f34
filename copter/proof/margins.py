"""Margins: the change of prices up to which a request's best allocation stays the best.

At prices y, the subproblem of request q, min p'x over X_q with p = c + A'y, has a best vertex. Either one
column takes the whole total, or all columns are 0, or some columns are at their bounds and one is between its
bounds. The *margin* of the vertex is the change of the difference of two column prices, or of a column price
and 0, at which another vertex becomes better. A change d of the row prices changes the price of column j by
v_j = a_j'd. So this change reduces the margin by at most

    v_j - min_k v_k           if the best column j takes all of sum(x) == total (for sum(x) <= total, the
                              minimum includes 0)
    max(v, 0) - min(v, 0)     for any vertex
    (n_j + n_k) max_i r_i |d_i|     for the difference of columns j and k, n_j = sum_i |a_ij| / r_i

Here r_i is the range of the coefficients of row i, with 0 included, over all requests with columns of their
own. The last bound depends on the request only through n_j + n_k. So the margin of a request with columns of
its own is the least difference of a column's price and the best price, divided by the larger of n_j + n_k and
1. Such a margin is at most this difference, whose rounding errors are known.

Requests with the same columns and the same kind of vertex form a *group*. Each group has an *accumulated
price change*: the sum, over all changes of prices, of the bounds above. It is an upper bound on the true
change. Suppose the margin of a request was mu when the accumulated price change of its group was P. Then the
request keeps its best vertex until the accumulated price change reaches P + mu, its *price-change threshold*.
The threshold does not depend on other requests.

Margins are rounded down and accumulated changes are rounded up, by the possible error of a price
(:mod:`copter.proof.usage_prices`). The groups of n shared columns, numbered from the first group of these
columns, are

    j           column j takes all of sum(x) == total;  n + j: column j takes all of sum(x) <= total
    2n          all columns are 0, with sum(x) <= total
    2n + 1      any other vertex

Group 0 has all vertices of all requests with columns of their own.
"""

from __future__ import annotations

import numpy as np

from copter.compile.extremes import greater, lesser
from copter.compile.kernels import kernel
from copter.proof.pricing_kernels import STRIP, fill_prices, is_simple, longer, request_prices
from copter.proof.usage_prices import no_rebates_in, paid_and_size, price_error
from copter.store.store import LACKING
from copter.store.view import coefficients_of, entries_of, fill_caps

_EPS = 2.0**-52
OWN_COLUMNS = 0
"""Group of the requests with columns of their own."""


@kernel(allocates=True)
def best_vertices(view, y, paid, slots, first_group, reach):  # type: ignore[no-untyped-def]
    """Compute the best vertices of k requests at prices y; return (margin, group, count, column, value).

    `paid` are UsagePrices at y. `first_group` (k,) has the first group of each request's columns, negative
    for the group OWN_COLUMNS; `reach` (row slots,) are the ranges r_i of the coefficients of that group. A
    margin is not positive if the vertex may not be the only best one, within rounding errors. `count` (k,)
    has the number of nonzero columns of each request. `column`, ascending within a request, and `value` have
    these columns, one request after the other.
    """
    margin, group = np.empty(slots.size), np.empty(slots.size, np.int32)
    count = np.zeros(slots.size, np.int64)
    columns, values, found = np.empty(slots.size + 64, np.int64), np.empty(slots.size + 64), np.int64(0)
    longest, no_rebates = np.int64(0), no_rebates_in(y)
    for k in range(slots.size):
        longest = max(longest, view.n_columns[slots[k]])
    p, upper, taken = np.empty(longest), np.empty(longest), np.empty(longest)
    strip = np.empty((longest + STRIP - 1) // STRIP)
    for k in range(slots.size):
        q = slots[k]
        n, exact, total, simple = view.n_columns[q], view.exact[q], view.total[q], is_simple(view, q)
        low, least, most, widest, entries, filled = request_prices(
            view, y, no_rebates, paid, q, 1.0, not simple, p, strip
        )
        off = price_error(0.0, max(abs(least), abs(most)), widest, entries)
        begin, best = first_group[k], np.int64(-2)
        if simple:
            best, second = _two_least(view, paid, q, n, filled, p, strip)
            if not exact and low < 0.0:
                second = min(second, 0.0)
            elif not exact:
                best, low, second = np.int64(-1), 0.0, low
            room, kind = second - low, 2 * n if best < 0 else best + (n if not exact else 0)
            if total == 0.0:
                room, kind = np.inf, 2 * n + 1
            elif best >= 0:
                if found + 1 > columns.size:
                    columns, values = longer(columns, found, 2 * found), longer(values, found, 2 * found)
                columns[found], values[found] = best, total
                found += 1
                count[k] = 1
        else:
            fill_caps(view, q, upper)
            kind = 2 * n + 1
            room = _fill(p, upper, n, exact, total, taken)
            if found + n > columns.size:
                columns, values = longer(columns, found, 2 * found + n), longer(values, found, 2 * found + n)
            for j in range(n):
                if taken[j] > 0.0:
                    columns[found], values[found] = j, taken[j]
                    found += 1
                    count[k] += 1
        group[k] = begin + kind if begin >= 0 else OWN_COLUMNS
        off = 2.0 * off + 4.0 * _EPS * abs(low)
        margin[k] = room - off if room < np.inf else np.inf
        if begin < 0 and 0.0 < margin[k] < np.inf:
            if not filled:
                fill_prices(view, paid, q, 1.0, 0, n, p)
            margin[k] = _radius(view, q, p, best, exact, margin[k], off, reach)
    return margin, group, count, columns[:found], values[:found]


@kernel(inner=True)
def _radius(view, q, p, best, exact, margin, off, reach):  # type: ignore[no-untyped-def]
    """Return the largest max_i reach_i |d_i| for which the vertex stays best, with columns of its own.

    `best`: the column that takes the total; -1 if all are 0, and -2 for another vertex, with a given margin.
    """
    own, low = 0.0, 0.0
    if best >= 0:
        own, low = _size(view, q, best, reach), p[best]
    radius = (-low - off) / max(own, 1.0) if best >= 0 and not exact else np.inf
    begin, end = entries_of(view, view.usage[q], 0, view.n_columns[q])
    entries = end - begin
    for j in range(view.n_columns[q]):
        if best == -2:
            radius = min(radius, margin / max(2.0 * _size(view, q, j, reach), 1.0))
        elif j != best:
            begin, end = entries_of(view, view.usage[q], j, j + 1)
            room = p[j] - low - off
            if room < radius * max(own + (end - begin), 1.0):  # each entry adds at most 1 to the size
                radius = min(radius, room / max(own + _size(view, q, j, reach), 1.0))
    return radius * (1.0 - (entries + 8) * _EPS)


@kernel(inner=True)
def _size(view, q, j, reach):  # type: ignore[no-untyped-def]
    """Return sum_i |a_ij| / reach_i of a column."""
    shift, stride = coefficients_of(view, view.usage[q])
    begin, end = entries_of(view, view.usage[q], j, j + 1)
    size = 0.0
    for e in range(begin, end):
        a = abs(view.coefficient[shift + stride * e])
        size += a / reach[np.uint32(view.row[e])] if a > 0.0 else 0.0
    return size


@kernel(inner=True)
def _two_least(view, paid, q, n, filled, p, strip):  # type: ignore[no-untyped-def]
    """Return the first column with the least price, and the least price of the other columns.

    `strip` has the least price of each strip. Prices are written to `p` unless it is `filled`.
    """
    where, lowest, second = 0, np.inf, np.inf
    for s in range((n + STRIP - 1) // STRIP):
        if strip[s] < lowest:
            where, lowest, second = s, strip[s], lowest
        else:
            second = min(second, strip[s])
    first, last = where * STRIP, min(n, (where + 1) * STRIP)
    if not filled:
        fill_prices(view, paid, q, 1.0, first, last, p)
    best = first
    for j in range(first + 1, last):
        if p[j] < p[best]:
            best, second = j, min(second, p[best])
        else:
            second = min(second, p[j])
    return best, second


@kernel(inner=True)
def _fill(p, upper, n, exact, total, taken):  # type: ignore[no-untyped-def]
    """Minimise p'x subject to 0 <= x <= upper and a sum row, if any; return the margin of the minimiser x.

    Write x to ``taken``. The margin is the least difference between the price of a full, partial or empty
    column and the price at which the sum row is full, or 0 if it is not full. Return -1 if there is no x.
    """
    for j in range(n):
        taken[j] = 0.0
    if total == np.inf:
        for j in range(n):
            if p[j] < 0.0:
                taken[j] = upper[j]
        return _to_level(p, upper, n, taken, 0.0, -1)
    left, last = total, -1
    while left > 0.0:
        best = -1
        for j in range(n):
            # with equal prices the margin is 0, in any order of the columns
            if taken[j] == 0.0 and upper[j] > 0.0 and (best < 0 or p[j] < p[best]):
                best = j
        if best < 0 or (not exact and p[best] >= 0.0):
            break
        taken[best] = min(left, upper[best])
        left -= taken[best]
        last = best
    if left > 0.0:
        if not exact:
            return _to_level(p, upper, n, taken, 0.0, -1)
        return np.inf if left <= LACKING * total else -1.0  # all columns are full at any prices
    if taken[last] < upper[last]:
        taken[last] = _left_of(total, taken, upper, n, last)
        margin = _to_level(p, upper, n, taken, p[last], last)
        return min(margin, -p[last]) if not exact else margin
    following = 0.0 if not exact else np.inf  # no column is partial; find the next price
    for j in range(n):
        if taken[j] == 0.0 and upper[j] > 0.0:
            following = min(following, p[j])
    return following - p[last]


@kernel(inner=True)
def _left_of(total, taken, upper, n, last):  # type: ignore[no-untyped-def]
    """Return what the other columns leave of the total; its bits do not depend on the order of prices."""
    left = total
    for j in range(n):
        if j != last:
            left -= taken[j]
    return min(max(left, 0.0), upper[last])


@kernel(inner=True)
def _to_level(p, upper, n, taken, level, without):  # type: ignore[no-untyped-def]
    """Return the least difference of the price of a full or empty column, except one, to a level."""
    margin = np.inf
    for j in range(n):
        if j != without and upper[j] > 0.0:
            margin = min(margin, p[j] - level if taken[j] == 0.0 else level - p[j])
    return margin


@kernel(allocates=True)
def lengthen(view, usages, n_columns, first_group, reach, d, path):  # type: ignore[no-untyped-def]
    """Add a change d (row slots,) of the row prices to the accumulated price changes `path` (groups,).

    `usages`, `n_columns` and `first_group` (k,) have the shared columns with groups, their numbers of columns
    and first groups. `reach` (row slots,): see :func:`best_vertices`. Return the largest addition.
    """
    most, no_rebates = 0.0, False
    for i in range(d.size):
        most = max(most, reach[i] * abs(d[i]))
    _grow(path, OWN_COLUMNS, most)
    longest = np.int64(0)
    for k in range(usages.size):
        longest = max(longest, n_columns[k])
    v = np.empty(longest)
    for k in range(usages.size):
        usage = usages[k]
        n, begin = n_columns[k], first_group[k]
        least, largest, widest, entries = np.inf, -np.inf, 0.0, 0
        for j in range(n):
            v[j], size, length = paid_and_size(view, usage, j, d, no_rebates)
            least, largest = lesser(v[j], least), greater(v[j], largest)
            widest, entries = max(widest, size), max(entries, length)
        if widest == 0.0:
            continue
        off = 2.0 * price_error(0.0, 0.0, widest, entries)
        below = min(least, 0.0)
        for j in range(n):
            _grow(path, begin + j, v[j] - least + off)
            _grow(path, begin + n + j, v[j] - below + off)
        _grow(path, begin + 2 * n, off - below)
        span = max(largest, 0.0) - below + off
        _grow(path, begin + 2 * n + 1, span)
        most = max(most, span)
    return most * (1.0 + 4.0 * _EPS)


@kernel(inlined=True)
def _grow(path, which, by):  # type: ignore[no-untyped-def]
    path[which] += by + 2.0 * _EPS * (path[which] + by)


@kernel
def widen(view, slots, reach_low, reach_high):  # type: ignore[no-untyped-def]
    """Include requests of the group :data:`OWN_COLUMNS` in the least and largest coefficient of each row.

    These are `reach_low` <= 0 and `reach_high` >= 0, (row slots,), which are updated.
    """
    for k in range(slots.size):
        usage = view.usage[slots[k]]
        shift, stride = coefficients_of(view, usage)
        begin, end = entries_of(view, usage, 0, view.n_columns[slots[k]])
        for e in range(begin, end):
            r, a = np.uint32(view.row[e]), view.coefficient[shift + stride * e]
            reach_low[r], reach_high[r] = min(reach_low[r], a), max(reach_high[r], a)
