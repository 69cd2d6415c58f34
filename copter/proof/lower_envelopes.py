"""Joint pricing of requests that share costs and usage, by bisection of their scales.

At prices y, with w = A'y, a request of a group with the cost vector c and the scale r has the column prices
r c_j + w_j. As functions of r these are lines, and their minimum f(r) is concave: it is the lower envelope of
the lines. A request needs the columns whose line is within the slack of f at its own r. Few columns are
needed for any r of a group.

The requests of a group are sorted by r, and the range is bisected. On a range [a, b], f is at most the line
of its minimiser at a, and at most the line of its minimiser at b. Let h be the smaller of these two lines,
which has one kink, at r*. The line of a column minus h is linear except for a convex kink. So a column can be
within the slack somewhere in the range only if it is within the slack at a, at b or at r*. Other columns are
dropped for the whole range and its halves. If few columns are left, they are priced for every request of the
range. A pass takes about vectors times columns steps, plus some dozens of steps for each request.

Overridden columns of a request are priced separately. If the minimiser is overridden and its override costs
more, columns may be missing, and all columns of the request are priced. Prices and candidates are equal, in
all bits, to those of the pass over each request's own columns (:mod:`copter.proof.pricing`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.extremes import greater, lesser
from copter.compile.kernels import kernel
from copter.parallel import chunk_bounds, run_chunks
from copter.proof.usage_prices import UsagePrices, price_error
from copter.store.store import EXACTLY, NO_TOTAL
from copter.store.view import StoreView, override_at
from copter.sums.compensated import Pair, added

_SHORT, _FEW = 48, 2
"""A range with at most this number of columns, or of requests, is not bisected."""
_EXTREMES = 8
"""Number of smallest and largest costs of a vector that are stored; more overrides exclude from groups."""
_ROUNDING = 1e-13
"""Relative rounding error in comparisons of lines."""
_EACH = 100
"""Weight of a request of a group, in columns, for the division of work into chunks."""


class _Groups(NamedTuple):
    """Requests that share costs and usage.

    `member` (m,) has their slots, group after group, ascending by scale within a group. `first` (groups + 1,)
    has the position of each group's first member.
    """

    member: NDArray[np.int64]
    first: NDArray[np.int64]


def groups_of(view: StoreView, more_than: int) -> _Groups | None:
    """Return groups of at least two requests with shared costs and usage; None without a group.

    A request must have more than `more_than` columns, a sum row, and no upper bound below its total. Requests
    with many overrides are in no group, and are priced as if they had costs of their own.
    """
    free = (view.total == 0.0) | ((view.upper_start < 0) & (view.upper >= view.total))
    few = view.override_length < _EXTREMES
    plain = (view.vector >= 0) & (view.n_columns > more_than) & (view.relation != NO_TOTAL) & free & few
    slots = np.flatnonzero(plain)
    vector, usage = view.vector[slots], view.usage[slots]
    order = np.lexsort((view.scale[slots], usage, vector))
    slots, vector, usage = slots[order], vector[order], usage[order]
    fresh = np.flatnonzero((np.diff(vector, prepend=-1) != 0) | (np.diff(usage, prepend=-1) != 0))
    count = np.diff(fresh, append=slots.size)
    slots, count = slots[np.repeat(count > 1, count)], count[count > 1]
    return _Groups(slots, np.concatenate(([0], np.cumsum(count)))) if count.size else None


def price_groups(
    groups: _Groups,
    view: StoreView,
    paid: UsagePrices,
    cost_factor: float,
    slack: float | None,
    threads: int | None,
    found: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> tuple[Pair, Pair, NDArray[np.int64], NDArray[np.int64]]:
    """Price the requests of groups; `paid` has the prices of their usages.

    Write the members' marginal and forced prices to `found`, two arrays (request slots,). Return the members'
    part of the bound and its rounding error as pairs (:mod:`copter.sums`), and slot and column of the
    candidates within `slack`, with slots in any order and columns ascending within each.
    """
    offset, prices, widest, entries = paid
    (marginal, forced), dearest = found, np.zeros(view.n_columns.size)
    leader = groups.member[groups.first[:-1]]
    bounds = chunk_bounds(view.n_columns[leader] + _EACH * np.diff(groups.first))
    collect, reach = slack is not None, slack or 0.0
    parts = run_chunks(
        lambda k: _price_groups(
            view,
            groups.member,
            groups.first[bounds[k] : bounds[k + 1] + 1],
            offset,
            prices,
            cost_factor,
            collect,
            reach,
            marginal,
            forced,
            dearest,
        ),
        bounds.size - 1,
        threads,
    )
    slot, column = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    spent, error = _spent(groups.member, view.total, marginal, view.usage, dearest, widest, entries)
    return spent, error, slot, column


@kernel
def _spent(member, total, marginal, usage, dearest, widest, entries):  # type: ignore[no-untyped-def]
    """Return the members' part of the bound, sum of total times marginal price, and its rounding error."""
    high, low, error, error_low = 0.0, 0.0, 0.0, 0.0
    for q in member:
        high, low = added(high, low, total[q] * marginal[q])
        off = price_error(total[q], dearest[q], widest[usage[q]], entries[usage[q]])
        error, error_low = added(error, error_low, total[q] * off)
    return (high, low), (error, error_low)


@kernel(allocates=True)
def longer(array, used, need):  # type: ignore[no-untyped-def]
    """Return a copy of the first `used` entries in an array of length `need`."""
    copy = np.empty(need, array.dtype)
    for k in range(used):
        copy[k] = array[k]
    return copy


@kernel(allocates=True)
def _price_groups(  # type: ignore[no-untyped-def]
    view, member, first, offset, prices, cost_factor, collect, slack, marginal, forced, dearest
):
    slots = np.empty(256 if collect else 0, np.int64)
    columns = np.empty(256 if collect else 0, np.int64)
    kept = np.empty(256, np.int32)
    low, high = np.empty(_EXTREMES, np.int64), np.empty(_EXTREMES, np.int64)
    stack = np.empty((128, 4), np.int64)
    found = np.int64(0)
    for g in range(first.size - 1):
        q = member[first[g]]
        n, start, at = view.n_columns[q], view.cost_start[q], offset[view.usage[q]]
        cost, paid = view.cost[start : start + n], prices[at : at + n]
        _extremes(cost, low, high)
        if kept.size < 2 * n:
            kept = np.empty(2 * n, np.int32)
        stack[0] = first[g], first[g + 1], -1, n  # range of members, and range of columns to be filtered
        depth = 1
        while depth > 0:
            depth -= 1
            begin, end, head, tail = stack[depth]
            a, b = cost_factor * view.scale[member[begin]], cost_factor * view.scale[member[end - 1]]
            top = tail if head >= 0 else 0
            if kept.size < top + tail - max(head, 0):
                kept = longer(kept, top, 2 * kept.size + tail)
            count = _filter(cost, paid, a, b, slack, kept, head, tail, top)
            if count > _SHORT and end - begin > _FEW and a < b and depth + 2 < stack.shape[0]:
                half = (begin + end) // 2
                stack[depth] = half, end, top, top + count
                stack[depth + 1] = begin, half, top, top + count
                depth += 2
                continue
            for k in range(begin, end):
                q = member[k]
                near = kept[top : top + count]
                if found + n > slots.size and collect:
                    slots = longer(slots, found, 2 * slots.size + n)
                    columns = longer(columns, found, slots.size)
                more = _price_one(
                    view, q, cost, paid, cost_factor, near, slack, collect, columns[found:], marginal
                )
                if more < 0:  # the best column has an override that costs more
                    more = _price_one(
                        view, q, cost, paid, cost_factor, near[:0], slack, collect, columns[found:], marginal
                    )
                slots[found : found + more] = q
                found += more
                least, most = _least_and_most(view, q, cost, cost_factor, low, high)
                dearest[q] = max(abs(least), abs(most))
                if view.relation[q] == EXACTLY:
                    forced[q] = max(0.0, least, -most)
    return slots[:found], columns[:found]


@kernel(loose=True, inner=True)
def _least_at_ends(cost, paid, a, b):  # type: ignore[no-untyped-def]
    """Return the least a c + w and b c + w of all columns, and the largest |c| and |w|."""
    at_a, at_b, size_c, size_w = np.inf, np.inf, 0.0, 0.0
    for j in range(cost.size):
        c, w = np.float64(cost[j]), paid[j]
        at_a, at_b = lesser(a * c + w, at_a), lesser(b * c + w, at_b)
        size_c, size_w = greater(abs(c), size_c), greater(abs(w), size_w)
    return at_a, at_b, size_c, size_w


@kernel(inner=True)
def _filter(cost, paid, a, b, slack, kept, head, tail, top):  # type: ignore[no-untyped-def]
    """Filter the columns kept[head:tail], or all columns if head < 0, for scales in [a, b].

    Write the columns that may be within the slack somewhere in [a, b] to ``kept``, from ``top`` on. Return
    their number.
    """
    whole = head < 0
    first, last = (0, cost.size) if whole else (head, tail)
    if whole:
        at_a, at_b, size_c, size_w = _least_at_ends(cost, paid, a, b)
    else:
        at_a, at_b, size_c, size_w = np.inf, np.inf, 0.0, 0.0
        for i in range(first, last):
            c, w = cost[kept[i]], paid[kept[i]]
            at_a, at_b = min(at_a, a * c + w), min(at_b, b * c + w)
            size_c, size_w = max(size_c, abs(c)), max(size_w, abs(w))
    lowest, at_low, highest, at_high = np.inf, 0.0, -np.inf, 0.0
    for i in range(first, last):  # of several minimisers, the flattest line at a and the steepest at b
        j = i if whole else np.int64(kept[i])
        c, w = cost[j], paid[j]
        if a * c + w == at_a and c < lowest:
            lowest, at_low = c, w
        if b * c + w == at_b and c > highest:
            highest, at_high = c, w
    kink = (at_high - at_low) / (lowest - highest) if lowest > highest else a
    kink = min(max(kink, a), b)
    rounding = _ROUNDING * (max(abs(a), abs(b)) * size_c + size_w)
    at_kink = max(kink * lowest + at_low, kink * highest + at_high) if lowest > highest else at_a
    limit_a, limit_b, limit = at_a + slack + rounding, at_b + slack + rounding, at_kink + slack + rounding
    count = 0
    for i in range(first, last):
        j = i if whole else np.int64(kept[i])
        c, w = cost[j], paid[j]
        if (a * c + w <= limit_a) | (b * c + w <= limit_b) | (kink * c + w <= limit):
            kept[top + count] = j
            count += 1
    return count


@kernel(inner=True)
def _price_one(  # type: ignore[no-untyped-def]
    view, q, cost, paid, cost_factor, near, slack, collect, columns, marginal
):
    """Write the marginal price of a request and its candidates; return the number of candidates.

    Price the columns ``near``, or all columns if ``near`` is empty. Return -1 if columns may be missing,
    because the best of ``near`` has an override that costs more. Candidates are written to ``columns``.
    """
    factor, whole = cost_factor * view.scale[q], near.size == 0
    begin, end = view.override_start[q], view.override_start[q] + view.override_length[q]
    least, low = np.inf, np.inf
    for i in range(cost.size if whole else near.size):
        j = i if whole else np.int64(near[i])
        v = factor * cost[j] + paid[j]
        least = min(least, v)
        if v < low and not (end > begin and override_at(view, q, j) >= 0):
            low = v
    for i in range(begin, end):
        low = min(low, cost_factor * view.override_value[i] + paid[view.override_column[i]])
    if low > least and not whole:
        return -1
    level = low if view.relation[q] == EXACTLY else min(0.0, low)
    marginal[q] = level
    if not collect:
        return 0
    found, limit = 0, level + slack
    for i in range(cost.size if whole else near.size):
        j = i if whole else np.int64(near[i])
        if factor * cost[j] + paid[j] <= limit and not (end > begin and override_at(view, q, j) >= 0):
            columns[found] = j
            found += 1
    for i in range(begin, end):
        j = view.override_column[i]
        if cost_factor * view.override_value[i] + paid[j] <= limit:
            k = found
            while k > 0 and columns[k - 1] > j:
                columns[k] = columns[k - 1]
                k -= 1
            columns[k] = j
            found += 1
    return found


@kernel(inner=True)
def _extremes(cost, low, high):  # type: ignore[no-untyped-def]
    """Write the columns of the smallest costs to `low` and of the largest costs to `high`, in order."""
    small, large = np.inf, -np.inf
    used = 0
    for j in range(cost.size):
        c = cost[j]
        if used < low.size or c < small or c > large:
            _insert(cost, 1.0, low, used, j)
            _insert(cost, -1.0, high, used, j)
            used = min(used + 1, low.size)
            if used == low.size:
                small, large = cost[low[used - 1]], cost[high[used - 1]]


@kernel(inner=True)
def _insert(cost, sign, best, used, j):  # type: ignore[no-untyped-def]
    """Insert column j into the sorted list `best` of `used` columns, if it belongs there."""
    k = used
    while k > 0 and sign * cost[best[k - 1]] > sign * cost[j]:
        if k < best.size:
            best[k] = best[k - 1]
        k -= 1
    if k < best.size:
        best[k] = j


@kernel(inner=True)
def _least_and_most(view, q, cost, cost_factor, low, high):  # type: ignore[no-untyped-def]
    """Return the smallest and the largest cost of a request."""
    begin, end = view.override_start[q], view.override_start[q] + view.override_length[q]
    factor, least, most = cost_factor * view.scale[q], np.inf, -np.inf
    for i in range(begin, end):
        c = cost_factor * view.override_value[i]
        least, most = min(least, c), max(most, c)
    for i in range(low.size):
        if override_at(view, q, low[i]) < 0:
            least = min(least, factor * cost[low[i]])
            break
    for i in range(high.size):
        if override_at(view, q, high[i]) < 0:
            most = max(most, factor * cost[high[i]])
            break
    return least, most
