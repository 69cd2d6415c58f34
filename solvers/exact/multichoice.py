"""One column a request on few tight rows, by dynamic programming with bounds from single rows.

What fixing leaves of a multiple-choice packing problem (:mod:`copter.solvers.exact.rest`) costs little to be
off the relaxation in any single place, and nearly nothing may be left of any row: the search is for a
combination of small losses that fills the rows exactly.  Requests g = 1..G are decided one after the other; a
state is what is left of the rows, and of two ways to the same state the cheaper one goes on.  With

    f_i(g, r) = min { losses of requests g..G + price_i (what is left of row i at the end) }

over all choices that row i alone allows when r of it is left, a state that has lost l is given up if
l + max_i f_i(g, r_i) is no less than the best allocation known: f_i is a one-dimensional dynamic program.

What is left of a row is counted from what the cheapest choices of the requests to come would leave of it,
within a band.  States beyond the band, more states than a limit, coefficients that are no whole multiples of
a power of two: then it says so, and general branch and bound has to do it.

Source: Kellerer, Pferschy and Pisinger, Knapsack Problems (2004), sections 9.3 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel

if TYPE_CHECKING:
    from copter.solvers.exact.rest import ResidualMilp

_BAND_BITS = 62
"""Bits of a state, which is one number."""
_WIDEST = 2048
"""States of a row at most."""
_STATES = 10_000
"""Limit of states for one request, and ten times as many for all; beyond it branch and bound is quicker. On a
day of PAI's jobs on 512 GPUs the 99th percentile of a search is 390, 240, 150 and 120 ms with 100,000,
30,000, 10,000 and 3,000; rounds of 2,048 GPUs take twice as long at the 95th with 1,500.
"""
_SHARES = tuple(min(1.0, 0.1 * 1.5**k) for k in range(7))
"""Shares of the best known objective, below which a better one is looked for, one after the other."""
_FINEST = 2**12
"""Denominator of coefficients at most."""
_LARGEST = 2.0**40
"""Largest whole number of which sums of thousands fit 64 bits."""
_NO_BETTER = 1e-9
"""In units of the rest's objective, whose budget is 1e4: an allocation must be better by that."""


class _Problem(NamedTuple):
    """Requests g own the choices first[g]:first[g + 1], cheapest first.

    ``use`` (choices, rows) in whole numbers; ``room`` (rows,) that the rows have; ``price`` (rows,) of an
    unused unit; ``column`` of the residual MILP, -1 for none; ``fixed``, its columns at 1; ``wasted``, cost
    of fractions of a unit in the rows.
    """

    first: NDArray[np.int64]
    loss: NDArray[np.float64]
    use: NDArray[np.int64]
    column: NDArray[np.int64]
    room: NDArray[np.int64]
    price: NDArray[np.float64]
    fixed: NDArray[np.int64]
    wasted: float


def choose(rest: ResidualMilp, most: float) -> tuple[NDArray[np.float64] | None, float] | None:
    """Return the allocation of least objective if it is below ``most``, and a bound on every objective.

    The point is None if none is better than ``most``, the best known objective or infinity. None instead of
    both if the residual MILP has another shape or there were too many states.
    """
    problem = _problem(rest)
    if problem is None:
        return None
    base = float(rest.lp.c[problem.fixed].sum()) + problem.wasted + rest.lp.offset
    if (problem.room < 0).any():  # columns that must be taken do not fit
        return None, most
    known, best, picks = _search(problem, most - base - _NO_BETTER)
    if not known:
        return None
    if picks is None:
        return None, most - _NO_BETTER
    x = np.zeros(rest.lp.c.size)
    x[problem.fixed] = 1.0
    taken = problem.column[picks]
    x[taken[taken >= 0]] = 1.0
    k = rest.slot.size
    activity = rest.lp.A[:, :k] @ x[:k]
    slack = rest.lp.A[:, k:].tocsc()
    x[k:] = np.maximum(0.0, (rest.lp.row_upper[slack.indices] - activity[slack.indices]) / slack.data)
    return x, base + best


def _problem(rest: ResidualMilp) -> _Problem | None:
    """The rest as choices; None if it has another shape."""
    k = rest.slot.size
    matrix = rest.lp.A.tocsc()
    entries, extra = matrix[:, :k].tocoo(), matrix[:, k:].tocoo()
    if not rest.lp.integral[:k].all() or not k:
        return None
    # sum rows hold the columns of one request each, all with 1, and come after the rows
    requests, owner = np.unique(rest.slot, return_inverse=True)
    price, slack = np.zeros(matrix.shape[0]), np.zeros(matrix.shape[0], np.bool_)
    if (extra.data <= 0.0).any():
        return None
    price[extra.row], slack[extra.row] = rest.lp.c[k:][extra.col], True
    rows = rest.n_rows
    sums = entries.row >= rows
    if (entries.data[sums] != 1.0).any() or (entries.data[~sums] < 0.0).any():
        return None
    sum_row = np.full(requests.size, -1)
    sum_row[owner[entries.col[sums]]] = entries.row[sums]
    fixed = np.flatnonzero(rest.lp.lower[:k] > 0.0)
    free = np.flatnonzero((rest.lp.lower[:k] <= 0.0) & (rest.lp.upper[:k] >= 1.0))
    if (
        (rest.lp.lower[fixed] != 1.0).any()
        or (sum_row[owner[fixed]] >= 0).any()
        or (sum_row[owner[free]] < 0).any()
    ):
        return None
    of = sum_row[sum_row >= 0]
    if np.setdiff1d(np.arange(rows, matrix.shape[0]), sum_row).size:  # a request has no column left
        return None
    may_abstain = slack[of] | (rest.lp.row_lower[of] <= 0.0)
    if (rest.lp.row_upper[of] != 1.0).any() or (~may_abstain & (rest.lp.row_lower[of] != 1.0)).any():
        return None
    spare = rest.lp.upper[k:]
    capacity = rest.lp.row_upper[:rows]
    bounded = np.flatnonzero(np.isfinite(capacity))
    lower = np.where(slack[:rows], capacity, rest.lp.row_lower[:rows])
    lower[extra.row[extra.row < rows]] -= spare[extra.col[extra.row < rows]]
    if (lower > 0.0).any() or not np.isfinite(price).all():
        return None
    use = np.zeros((k, rows))
    np.add.at(use, (entries.col[~sums], entries.row[~sums]), entries.data[~sums])
    use = use[:, bounded]
    grain = _grain(use, capacity[bounded])
    if grain is None:
        return None
    whole = np.rint(use * grain).astype(np.int64)
    room = np.floor(capacity[bounded] * grain).astype(np.int64)  # a power of two: exact
    wasted = float(price[bounded] @ np.maximum(0.0, capacity[bounded] - room / grain))
    room -= whole[fixed].sum(axis=0)
    none = np.flatnonzero(may_abstain)  # of those with a sum row: a choice that uses nothing
    with_sum = np.flatnonzero(sum_row >= 0)
    column = np.concatenate((free, np.full(none.size, -1)))
    block = np.concatenate((np.searchsorted(with_sum, owner[free]), none))
    loss = np.concatenate((rest.lp.c[free], price[of[none]]))
    used = np.concatenate((whole[free], np.zeros((none.size, bounded.size), np.int64)))
    if np.unique(block).size < with_sum.size or (loss < 0.0).any():
        return None
    return _ordered(block, loss, used, column, room, price[bounded] / grain, fixed, wasted)


def _grain(use: NDArray[np.float64], capacity: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Powers of two that make the coefficients of each row whole; None if that makes too large numbers."""
    grain = np.ones(use.shape[1])
    while True:
        broken = (use * grain != np.rint(use * grain)).any(axis=0)
        if not broken.any():
            largest = max((use * grain).max(initial=0.0), (capacity * grain).max(initial=0.0))
            return grain if largest <= _LARGEST else None
        grain[broken] *= 2.0
        if grain.max() > _FINEST:
            return None


def _ordered(
    block: NDArray[np.int64],
    loss: NDArray[np.float64],
    use: NDArray[np.int64],
    column: NDArray[np.int64],
    room: NDArray[np.int64],
    price: NDArray[np.float64],
    fixed: NDArray[np.int64],
    wasted: float,
) -> _Problem:
    """Requests in the order in which they are decided: those whose second choice costs most come first."""
    order = np.lexsort((loss, block))
    block, loss, use, column = block[order], loss[order], use[order], column[order]
    first = np.flatnonzero(np.diff(block, prepend=-1))
    sizes = np.diff(np.append(first, block.size))
    second = np.where(sizes > 1, loss[np.minimum(first + 1, loss.size - 1)] - loss[first], np.inf)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(-second, kind="stable")] = np.arange(first.size)
    again = np.argsort(np.repeat(rank, sizes), kind="stable")
    starts = np.concatenate(([0], np.cumsum(sizes[np.argsort(rank)])))
    return _Problem(starts, loss[again], use[again], column[again], room, price, fixed, wasted)


def _search(problem: _Problem, most: float) -> tuple[bool, float, NDArray[np.int64] | None]:
    """(whether it is known, least objective, choice of each request; None if none is below ``most``)."""
    first, loss, use, _, room, price, _, _ = problem
    cheapest = first[:-1]
    more = use - np.repeat(use[cheapest], np.diff(first), axis=0)
    left = room - use[cheapest].sum(axis=0)
    tight = (left < _most_more(more, first)) | (price > 0.0)  # no combination can fill the others
    more, left, price = more[:, tight], left[tight], price[tight]
    to_come = np.zeros((first.size, left.size), np.int64)
    to_come[:-1] = np.cumsum(use[cheapest][::-1][:, tight], axis=0)[::-1]
    half = (min(_WIDEST, int(2.0 ** (_BAND_BITS / max(1, left.size)))) - 1) // 2
    if (abs(left) > half).any():
        return False, most, None
    bounds = _bounds_of_rows(first, loss, more, to_come, price, half)
    shares = _SHARES if most < np.inf else (1.0,)
    for share in shares:  # what is found below a part of it is the best of all, and took fewer states
        known, best, parents, picks, starts, last = _states(
            first, loss, more, left, to_come, price, bounds, half, share * most, _STATES
        )
        if not known:
            return False, most, None
        if last >= 0:
            break
    if last < 0:
        return True, most, None
    chosen = np.empty(first.size - 1, np.int64)
    for g in range(first.size - 2, -1, -1):
        chosen[g], last = picks[starts[g] + last], parents[starts[g] + last]
    return True, float(best), chosen


@kernel(allocates=True)
def _most_more(more, first):  # type: ignore[no-untyped-def]
    """Use of all requests together beyond that of their cheapest choices, at most."""
    most = np.zeros(more.shape[1], np.int64)
    for g in range(first.size - 1):
        for i in range(most.size):
            largest = np.int64(0)
            for j in range(first[g], first[g + 1]):
                largest = max(largest, more[j, i])
            most[i] += largest
    return most


@kernel(inlined=True)
def _ahead(bound, to_come, half, g, i, d):  # type: ignore[no-untyped-def]
    """f_i(g, half + d): infinite if row i has too little, 0 beyond the band."""
    if d + to_come[g, i] < 0:
        return np.inf
    return bound[g, i, half + d] if -half <= d <= half else 0.0


@kernel(allocates=True)
def _bounds_of_rows(first, loss, more, to_come, price, half):  # type: ignore[no-untyped-def]
    """f_i(g, half + d), d what is left of row i when the cheapest choices of g..G have what they use."""
    rows, requests = price.size, first.size - 1
    bound = np.zeros((requests + 1, rows, 2 * half + 1))
    for i in range(rows):
        for d in range(-half, half + 1):
            bound[requests, i, half + d] = np.inf if d < 0 else price[i] * d
    for g in range(requests - 1, -1, -1):
        for i in range(rows):
            for d in range(-half, half + 1):
                low = np.inf
                if d + to_come[g, i] >= 0:
                    for j in range(first[g], first[g + 1]):
                        low = min(low, loss[j] + _ahead(bound, to_come, half, g + 1, i, d - more[j, i]))
                bound[g, i, half + d] = low
    return bound


@kernel(allocates=True, inner=True)
def _cheapest(key, lost):  # type: ignore[no-untyped-def]
    """Place of the least loss of each key, ascending by key."""
    kept, u = np.empty(key.size, np.int64), 0
    for o in np.argsort(key, kind="mergesort"):
        if u and key[o] == key[kept[u - 1]]:
            if lost[o] < lost[kept[u - 1]]:
                kept[u - 1] = o
        else:
            kept[u] = o
            u += 1
    return kept[:u]


@kernel(allocates=True)
def _states(first, loss, more, left, to_come, price, bound, half, most, limit):  # type: ignore[no-untyped-def]
    """Process request after request: (known, least, parents, choices, their starts, last state).

    A state is the number with digits half + d_i to the base 2 half + 1.
    """
    rows, requests, base = price.size, first.size - 1, np.int64(2 * half + 1)
    keys, lost = np.zeros(1, np.int64), np.zeros(1)
    for i in range(rows - 1, -1, -1):
        keys[0] = keys[0] * base + half + left[i]
    starts = np.zeros(requests + 1, np.int64)
    parents, picks = np.empty(1024, np.int64), np.empty(1024, np.int64)
    for g in range(requests):
        room = keys.size * (first[g + 1] - first[g])
        new_key, new_lost = np.empty(room, np.int64), np.empty(room)
        new_from, new_pick = np.empty(room, np.int64), np.empty(room, np.int64)
        n = 0
        for s in range(keys.size):
            for j in range(first[g], first[g + 1]):
                spent = lost[s] + loss[j]
                if spent >= most:
                    break  # the cheapest come first
                rest, key, place, ahead, within = keys[s], np.int64(0), np.int64(1), 0.0, True
                for i in range(rows):
                    d = rest % base - half - more[j, i]
                    rest //= base
                    ahead = max(ahead, _ahead(bound, to_come, half, g + 1, i, d))
                    within = within and -half <= d <= half
                    key += (half + d) * place
                    place *= base
                if spent + ahead >= most:
                    continue
                if not within:
                    return False, most, parents, picks, starts, np.int64(-1)
                new_key[n], new_lost[n], new_from[n], new_pick[n] = key, spent, s, j
                n += 1
        kept = _cheapest(new_key[:n], new_lost)
        u = kept.size
        starts[g + 1] = starts[g] + u
        if u > limit or starts[g + 1] > 10 * limit:
            return False, most, parents, picks, starts, np.int64(-1)
        while starts[g + 1] > parents.size:
            parents = np.concatenate((parents, np.empty(parents.size, np.int64)))
            picks = np.concatenate((picks, np.empty(picks.size, np.int64)))
        for s in range(u):
            parents[starts[g] + s], picks[starts[g] + s] = new_from[kept[s]], new_pick[kept[s]]
        keys, lost = new_key[kept], new_lost[kept]
    best, last = most, np.int64(-1)
    for s in range(keys.size):
        rest, value = keys[s], lost[s]
        for i in range(rows):
            value += price[i] * (rest % base - half)
            rest //= base
        if value < best:
            best, last = value, np.int64(s)
    return True, best, parents, picks, starts, last
