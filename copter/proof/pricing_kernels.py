"""Kernels of the pricing pass: prices, minima and candidates, request by request.

:mod:`copter.proof.pricing` describes the pass. The columns of a request are processed in strips, so that
minima are vectorised and few strips are read again for candidates. The kernels also compute a bound on the
rounding error of the bound (:mod:`copter.proof.usage_prices`).
"""

from __future__ import annotations

import numpy as np

from copter.compile.extremes import greater, lesser
from copter.compile.kernels import kernel
from copter.proof.usage_prices import no_rebates_in, paid_and_size, price_error, usage_prices
from copter.store.store import LACKING
from copter.store.view import cost_of, fill_caps
from copter.sums.compensated import added

_EPS = 2.0**-52
STRIP = 64
"""Number of columns of a strip."""
_COARSE = 1e-11
"""Fraction of a request's least price above which an error bound is refined column by column."""
KEEP_ALL = 8
"""All columns of a request with at most this number of columns are candidates."""


@kernel(loose=True, inner=True)
def _strip_minima(factor, cost, prices, strip):  # type: ignore[no-untyped-def]
    """Write the minimum of factor * cost + A'y of each strip of columns of a shared usage to `strip`.

    Return the minimum of all columns, and the least and the largest of factor * cost. The sums are not
    stored, because few strips are read again.
    """
    n = cost.size
    low, least, most = np.inf, np.inf, -np.inf
    for s in range(n // STRIP):
        own, paid = cost[s * STRIP : (s + 1) * STRIP], prices[s * STRIP : (s + 1) * STRIP]
        smallest = np.inf
        for j in range(STRIP):
            c = np.float64(own[j])
            smallest = lesser(factor * c + paid[j], smallest)
            least, most = lesser(c, least), greater(c, most)
        strip[s] = smallest
        low = lesser(smallest, low)
    if n % STRIP:
        smallest = np.inf
        for j in range(n - n % STRIP, n):
            c = np.float64(cost[j])
            smallest = lesser(factor * c + prices[j], smallest)
            least, most = lesser(c, least), greater(c, most)
        strip[n // STRIP] = smallest
        low = lesser(smallest, low)
    return low, factor * least, factor * most


@kernel(loose=True, inner=True)
def _fill_shared(factor, cost, prices, p):  # type: ignore[no-untyped-def]
    """Write factor * cost + A'y of the columns of a shared usage to `p`."""
    for j in range(cost.size):
        p[j] = factor * cost[j] + prices[j]


@kernel(inner=True)
def _fill_private(view, y, no_rebates, factor, cost, start, usage, n, p, strip):  # type: ignore[no-untyped-def]
    """Write prices to `p` and minima to `strip`, with A'y computed from the entries of the usage.

    Return the minimum, the least and largest factor * cost, the largest |a_j|'|y|, and the most entries.
    """
    low, least, most, widest, longest = np.inf, np.inf, -np.inf, 0.0, 0
    for s in range((n + STRIP - 1) // STRIP):
        smallest = np.inf
        for j in range(s * STRIP, min(n, (s + 1) * STRIP)):
            c = factor * cost[start + j]
            paid, size, entries = paid_and_size(view, usage, j, y, no_rebates)
            v = c + paid
            p[j] = v
            least, most = min(least, c), max(most, c)
            widest, longest = max(widest, size), max(longest, entries)
            if v < smallest:
                smallest = v
        strip[s] = smallest
        if smallest < low:
            low = smallest
    return low, least, most, widest, longest


@kernel(inlined=True)
def is_simple(view, q):  # type: ignore[no-untyped-def]
    """Return whether one column can take the whole total of a request."""
    total = view.total[q]
    uncut = total == 0.0 or (view.upper_start[q] < 0 and view.upper[q] >= total)
    return view.total[q] < np.inf and uncut


@kernel(inner=True)
def request_prices(  # type: ignore[no-untyped-def]
    view, y, no_rebates, paid, q, cost_factor, every, p, strip
):
    """Write the least price of each strip of a request's columns to `strip`, and prices to `p`.

    If the request shares its usage and `every` is False, `p` remains as it is; :func:`fill_prices` writes a
    part of it. Return the least price, the least and the largest cost, the largest |a_j|'|y|, the most
    entries of a column, and whether `p` was written.
    """
    offset, shared, widest, entries = paid
    n, usage, start = view.n_columns[q], view.usage[q], view.cost_start[q]
    factor = cost_factor * view.scale[q]
    at = offset[usage] if usage < offset.size else -1
    if at >= 0:
        wide, long = widest[usage], entries[usage]
        cost, prices = view.cost[start : start + n], shared[at : at + n]
        low, least, most = _strip_minima(factor, cost, prices, strip)
        if every:
            _fill_shared(factor, cost, prices, p)
    else:
        low, least, most, wide, long = _fill_private(
            view, y, no_rebates, factor, view.cost, start, usage, n, p, strip
        )
    return low, least, most, wide, long, every or at < 0


@kernel(inner=True)
def fill_prices(view, paid, q, cost_factor, first, last, p):  # type: ignore[no-untyped-def]
    """Write the prices of the columns [first, last) of a request that shares its usage."""
    start, at = view.cost_start[q], paid.offset[view.usage[q]]
    cost, prices = view.cost[start + first : start + last], paid.price[at + first : at + last]
    _fill_shared(cost_factor * view.scale[q], cost, prices, p[first:last])


@kernel
def knapsack(p, upper, n, exact, total):  # type: ignore[no-untyped-def]
    """Minimise p'x subject to 0 <= x <= upper and sum(x) <= total, or == total if `exact`.

    Return (value, marginal price), or (inf, inf) if infeasible. Greedy in the order of the prices, O(n) for
    each distinct price that is used, which are few. A total that the bounds miss by rounding is feasible.
    Source: Dantzig (1957), Discrete-variable extremum problems.
    """
    left, value, last = total, 0.0, -np.inf
    while left > 0.0:
        level = np.inf
        for j in range(n):
            if p[j] > last and p[j] < level and upper[j] > 0.0:
                level = p[j]
        if level == np.inf or (not exact and level >= 0.0):
            break
        for j in range(n):
            if p[j] == level:
                take = min(left, upper[j])
                value += level * take
                left -= take
        last = level
    if exact:
        if left > LACKING * total:
            return np.inf, np.inf
        return value, (last if last > -np.inf else 0.0)
    return value, (last if left <= 0.0 and last > -np.inf else 0.0)


@kernel(allocates=True, inner=True)
def forced_price(cost, factor, upper, n, total):  # type: ignore[no-untyped-def]
    """Return |f_q|, the forced cost per unit of the total, with sum(x) == total and bounds of the columns."""
    least, most = np.inf, -np.inf
    for j in range(n):
        if upper[j] > 0.0:
            least, most = min(least, factor * cost[j]), max(most, factor * cost[j])
    if not (least > 0.0 or most < 0.0) or total <= 0.0:
        return 0.0
    sized = np.empty(n)
    for j in range(n):
        sized[j] = abs(factor * cost[j])
    value, _ = knapsack(sized, upper, n, True, total)
    return value / total if value < np.inf else 0.0


@kernel(inner=True)
def _own_error(view, y, no_rebates, q, j, cost_factor):  # type: ignore[no-untyped-def]
    """Return a bound on the rounding error of the price of one column."""
    _, size, entries = paid_and_size(view, view.usage[q], j, y, no_rebates)
    return 0.0 if size == 0.0 else price_error(0.0, abs(cost_factor * cost_of(view, q, j)), size, entries)


@kernel(inner=True)
def _off(view, y, no_rebates, q, cost_factor, p, n, low, off):  # type: ignore[no-untyped-def]
    """Return a bound on the error of the least price ``low``, if each price has an error of at most ``off``.

    Columns with a price far above the least do not matter, however large their costs.
    """
    least = low
    for j in range(n):
        if p[j] - off < low:
            least = min(least, p[j] - _own_error(view, y, no_rebates, q, j, cost_factor))
    return low - least + _EPS * abs(low)


@kernel(allocates=True)
def longer(array, used, need):  # type: ignore[no-untyped-def]
    """Return a copy of the first `used` entries in an array of length `need`."""
    copy = np.empty(need, array.dtype)
    for k in range(used):
        copy[k] = array[k]
    return copy


@kernel(allocates=True)
def price_chunk(  # type: ignore[no-untyped-def]  # noqa: C901 - one pass
    view, y, paid, cost_factor, first, last, longest, collect, slack, marginal, forced
):
    """Price the requests [first, last).

    Return bound and rounding error as pairs, and slots and columns of the candidates. Write marginal and
    forced prices (request slots,). ``paid`` are UsagePrices, ``longest`` is the largest number of columns of
    a request.
    """
    p, upper = np.empty(longest), np.empty(longest)
    strip = np.empty((longest + STRIP - 1) // STRIP)
    slots = np.empty(256 if collect else 0, np.int64)
    columns = np.empty(256 if collect else 0, np.int64)
    found, no_rebates = np.int64(0), no_rebates_in(y)
    bound, bound_low, error, error_low = 0.0, 0.0, 0.0, 0.0
    for q in range(first, last):
        n = view.n_columns[q]
        if n == 0:
            continue
        exact, total, simple = view.exact[q], view.total[q], is_simple(view, q)
        low, least, most, wide, long, filled = request_prices(
            view, y, no_rebates, paid, q, cost_factor, not simple, p, strip
        )
        # with bounds, the minimum is a sum over several columns
        off = price_error(
            total if simple else 0.0, max(abs(least), abs(most)), wide, long if simple else long + n
        )
        level = 0.0
        if total == np.inf:
            fill_caps(view, q, upper)
            for j in range(n):
                cap = upper[j]
                if cap > 0.0 and (p[j] < off or p[j] < 0.0):
                    more = _own_error(view, y, no_rebates, q, j, cost_factor)
                    more -= max(p[j], 0.0) + min(p[j], 0.0) * _EPS  # with the product's error
                    error, error_low = added(error, error_low, max(more, 0.0) * cap)
                    bound, bound_low = added(bound, bound_low, min(p[j], 0.0) * cap)
        elif simple:
            level = low if exact else min(0.0, low)
            bound, bound_low = added(bound, bound_low, total * level)
            if off > _COARSE * abs(low):
                if not filled:
                    fill_prices(view, paid, q, cost_factor, 0, n, p)
                off = _off(view, y, no_rebates, q, cost_factor, p, n, low, off)
            error, error_low = added(error, error_low, total * off)
            if exact:
                forced[q] = max(0.0, least, -most)
        else:
            fill_caps(view, q, upper)
            value, level = knapsack(p, upper, n, exact, total)
            bound, bound_low = added(bound, bound_low, value)
            error, error_low = added(error, error_low, total * off)
            if exact:
                start, factor = view.cost_start[q], cost_factor * view.scale[q]
                forced[q] = forced_price(view.cost[start : start + n], factor, upper, n, total)
        marginal[q] = level
        if not collect:
            continue
        everything = total == np.inf or n <= KEEP_ALL
        limit = np.inf if everything else level + slack
        if found + n > slots.size:
            slots = longer(slots, found, 2 * slots.size + n)
            columns = longer(columns, found, slots.size)
        for s in range((n + STRIP - 1) // STRIP):
            if strip[s] <= limit:
                a, b = s * STRIP, min(n, (s + 1) * STRIP)
                if not filled:
                    fill_prices(view, paid, q, cost_factor, a, b, p)
                for j in range(a, b):
                    if p[j] <= limit:
                        slots[found] = q
                        columns[found] = j
                        found += 1
    return (bound, bound_low), (error, error_low), slots[:found], columns[:found]


@kernel(allocates=True)
def price_all(view, y, references, usage_columns, cost_factor, collect, slack):  # type: ignore[no-untyped-def]
    """Price all requests as one chunk; return (result of :func:`price_chunk`, marginal, forced)."""
    size, longest = view.n_columns.size, np.int64(0)
    for q in range(size):
        longest = max(longest, view.n_columns[q])
    paid = usage_prices(view, y, references, usage_columns)
    marginal, forced = np.zeros(size), np.zeros(size)
    part = price_chunk(view, y, paid, cost_factor, 0, size, longest, collect, slack, marginal, forced)
    return part, marginal, forced
