"""Multiple-choice packing problems on few tight rows: dynamic programming with bounds from single rows.

The residual MILP (:mod:`copter.solvers.exact.rest`) often has one column to choose for each request, and
small losses against the relaxation.  Requests g = 1..G are decided one after the other.  A state is the
remaining capacity of the rows; of two ways to the same state the cheaper one is kept.  Let

    f_i(g, r) = min { losses of requests g..G + price_i (remaining capacity of row i at the end) }

over all choices that row i alone permits if its remaining capacity is r.  It is computed by a one-dimensional
dynamic program.  A state with accumulated loss l is discarded if l + max_i f_i(g, r_i) is not below the best
known objective.

The remaining capacity of a row is stored relative to the capacity that would remain after the cheapest
choices of the following requests, within a band.  The module gives up if a state leaves the band, if there
are too many states, or if coefficients are not multiples of a power of two.  Then general branch and bound is
used.

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
"""Bits of a state, which is stored as one integer."""
_WIDEST = 2048
"""Largest number of states of a row."""
_STATES = 10_000
"""Limit on the states of a request; the limit for all requests is ten times as large. With more states branch
and bound is faster. On one day of PAI's jobs on 512 GPUs the 99th percentile of the search time is 390, 240,
150 and 120 ms with limits of 100,000, 30,000, 10,000 and 3,000. With a limit of 1,500 the 95th percentile of
rounds on 2,048 GPUs is twice as long.
"""
_SHARES = tuple(min(1.0, 0.1 * 1.5**k) for k in range(7))
"""Cutoffs that are tried one after the other, as shares of the best known objective."""
_FINEST = 2**12
"""Largest denominator of the coefficients."""
_LARGEST = 2.0**40
"""Largest scaled coefficient; sums of thousands of them fit 64 bits."""
_NO_BETTER = 1e-9
"""Least improvement of an allocation, in units of the residual MILP's objective, whose budget is 1e4."""


class _Problem(NamedTuple):
    """Choices of the requests: request g owns the choices first[g]:first[g + 1], sorted by loss.

    ``use`` (choices, rows): use of the rows, scaled to integers. ``room`` (rows,): capacity of the rows.
    ``price`` (rows,): cost of an unused unit. ``column``: column of the residual MILP, -1 for the choice of
    nothing. ``fixed``: columns that are 1. ``wasted``: cost of capacity that is a fraction of a unit.
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
    """Return the allocation of least objective if it is below `most`, and a bound on every objective.

    `most`: best known objective, or infinity. The point is None if no point is below `most`. Return None
    instead of both if the residual MILP has another form or there are too many states.
    """
    problem = _problem(rest)
    if problem is None:
        return None
    base = float(rest.lp.c[problem.fixed].sum()) + problem.wasted + rest.lp.offset
    if (problem.room < 0).any():  # the fixed columns exceed the capacity
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
    """Return the residual MILP as a choice problem; None if it has another form."""
    k = rest.slot.size
    matrix = rest.lp.A.tocsc()
    entries, extra = matrix[:, :k].tocoo(), matrix[:, k:].tocoo()
    if not rest.lp.integral[:k].all() or not k:
        return None
    # the sum rows come after the resource rows, and hold the columns of one request each, with coefficient 1
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
    room = np.floor(capacity[bounded] * grain).astype(np.int64)  # grain is a power of two: exact
    wasted = float(price[bounded] @ np.maximum(0.0, capacity[bounded] - room / grain))
    room -= whole[fixed].sum(axis=0)
    none = np.flatnonzero(may_abstain)  # these requests have a choice that uses nothing
    with_sum = np.flatnonzero(sum_row >= 0)
    column = np.concatenate((free, np.full(none.size, -1)))
    block = np.concatenate((np.searchsorted(with_sum, owner[free]), none))
    loss = np.concatenate((rest.lp.c[free], price[of[none]]))
    used = np.concatenate((whole[free], np.zeros((none.size, bounded.size), np.int64)))
    if np.unique(block).size < with_sum.size or (loss < 0.0).any():
        return None
    return _ordered(block, loss, used, column, room, price[bounded] / grain, fixed, wasted)


def _grain(use: NDArray[np.float64], capacity: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the powers of two that make each row's coefficients integral; None if they become too large."""
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
    """Return the problem with requests sorted by decreasing loss of their second choice."""
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
    """Return (whether the search finished, least objective, choices; None if none is below `most`)."""
    first, loss, use, _, room, price, _, _ = problem
    cheapest = first[:-1]
    more = use - np.repeat(use[cheapest], np.diff(first), axis=0)
    left = room - use[cheapest].sum(axis=0)
    tight = (left < _most_more(more, first)) | (price > 0.0)  # no combination can fill the other rows
    more, left, price = more[:, tight], left[tight], price[tight]
    to_come = np.zeros((first.size, left.size), np.int64)
    to_come[:-1] = np.cumsum(use[cheapest][::-1][:, tight], axis=0)[::-1]
    half = (min(_WIDEST, int(2.0 ** (_BAND_BITS / max(1, left.size)))) - 1) // 2
    if (abs(left) > half).any():
        return False, most, None
    bounds = _bounds_of_rows(first, loss, more, to_come, price, half)
    shares = _SHARES if most < np.inf else (1.0,)
    for share in shares:  # a solution below a smaller cutoff is optimal too, and needs fewer states
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
    """Return, per row, the largest use of all requests beyond that of their cheapest choices."""
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
    """Return f_i(g, half + d): infinite if row i has too little capacity, 0 outside the band."""
    if d + to_come[g, i] < 0:
        return np.inf
    return bound[g, i, half + d] if -half <= d <= half else 0.0


@kernel(allocates=True)
def _bounds_of_rows(first, loss, more, to_come, price, half):  # type: ignore[no-untyped-def]
    """Return f_i(g, half + d), shape (requests + 1, rows, 2 half + 1).

    d is the capacity of row i that remains after the cheapest choices of requests g..G.
    """
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
    """Return the position of the least `lost` of each distinct key, in ascending order of the keys."""
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
    """Run the dynamic program; return (finished, least objective, parents, choices, starts, last state).

    A state is the integer with digits half + d_i to the base 2 half + 1. `finished` is False if a state left
    the band or a limit was exceeded.
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
                    break  # the choices are sorted by loss
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
