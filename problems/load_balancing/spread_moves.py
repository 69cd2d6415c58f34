"""What the spread shim does to replicas: keep the memory, add those that the balance lacks, drop the rest.

Kernels on the pool of :mod:`copter.problems.load_balancing.replicas`.

After a maximum flow, a server that is still too full has a *closure*: the servers that its load can get to,
all of them full.  Replicas there are no way out, so what it lacks is a new replica, outside, of a shard with
load inside.  In the same way the closure of a server that has too little needs a new replica inside of a
shard with load outside.  So closures say where new replicas can be of use, and from below how many
it takes (:mod:`copter.problems.load_balancing.bound`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.problems.load_balancing.replicas import (
    DUST,
    Replicas,
    Search,
    add,
    carry,
    explore,
    find,
    join,
    leave,
    settle,
)


@kernel
def drop(pool: Replicas, r):  # type: ignore[no-untyped-def]
    """Drop a replica whose shard has others; they take over its load in proportion, or evenly."""
    j, rest = pool.shard[r], pool.load[r]
    leave(pool, r)
    pool.load[r] = 0.0
    total, s = 0.0, pool.first_of_shard[j]
    while s >= 0:
        total += pool.load[s]
        s = pool.after_in_shard[s]
    s = pool.first_of_shard[j]
    while s >= 0:
        more = rest * pool.load[s] / total if total > DUST else rest / pool.copies[j]
        pool.load[s] += more
        pool.load_on[pool.server[s]] += more
        s = pool.after_in_shard[s]


@kernel
def spare(pool: Replicas, i):  # type: ignore[no-untyped-def]
    """Return the replica on server i to drop first if memory is short, -1 if all are their shards' last."""
    best, r = -1, pool.first_on_server[i]
    while r >= 0:
        if pool.copies[pool.shard[r]] > 1 and pool.size[pool.shard[r]] > 0.0:
            if (
                best < 0
                or (pool.old[r] < pool.old[best])
                or (pool.old[r] == pool.old[best] and pool.load[r] < pool.load[best])
            ):
                best = r
        r = pool.after_on_server[r]
    return best


@kernel
def place(pool: Replicas, j, load):  # type: ignore[no-untyped-def]
    """Add a replica of shard j on the least loaded server with the memory for it, -1 if there is none.

    If no server has, replicas that others can stand in for are dropped where that makes room.
    """
    best = -1
    for i in range(pool.load_on.size):
        if pool.room[i] >= pool.size[j] - pool.slack[i] and find(pool, j, i) < 0:
            if best < 0 or pool.load_on[i] < pool.load_on[best]:
                best = i
    if best >= 0:
        return add(pool, j, best, load, False)
    for i in range(pool.load_on.size):
        if find(pool, j, i) >= 0:
            continue
        room, r = pool.room[i], pool.first_on_server[i]
        while r >= 0:
            if pool.copies[pool.shard[r]] > 1:
                room += pool.size[pool.shard[r]]
            r = pool.after_on_server[r]
        if room >= pool.size[j] - pool.slack[i] and (best < 0 or pool.load_on[i] < pool.load_on[best]):
            best = i
    if best < 0:
        return -1
    while pool.room[best] < pool.size[j] - pool.slack[best]:
        r = spare(pool, best)
        if r < 0:  # what is left to drop has no size: room was short by rounding only
            break
        drop(pool, r)
    return add(pool, j, best, load, False)


@kernel
def keep_memory(pool: Replicas, loads, order):  # type: ignore[no-untyped-def]
    """Let no server exceed its memory, and serve every shard; returns a shard without a place, or -1.

    Shards without a replica are placed in ``order``.
    """
    n = pool.load_on.size
    for i in range(n):
        while pool.room[i] < -pool.slack[i]:
            r = spare(pool, i)
            if r < 0:
                break
            drop(pool, r)
    for i in range(n):
        while pool.room[i] < -pool.slack[i]:
            # every replica is its shard's last: the largest of those with least load moves
            r, s = -1, pool.first_on_server[i]
            while s >= 0:
                if pool.size[pool.shard[s]] > 0.0 and (
                    r < 0 or pool.load[s] * pool.size[pool.shard[r]] < pool.load[r] * pool.size[pool.shard[s]]
                ):
                    r = s
                s = pool.after_on_server[s]
            s = place(pool, pool.shard[r], 0.0)
            if s < 0:
                return pool.shard[r]
            carry(pool, r, s, pool.load[r])
            leave(pool, r)
    for j in order:
        if pool.copies[j] == 0 and place(pool, j, loads[j]) < 0:
            return j
    return -1


@kernel
def outside(pool: Replicas, i, lower, upper):  # type: ignore[no-untyped-def]
    """Load by which a server is outside the band."""
    return max(pool.load_on[i] - upper, lower - pool.load_on[i], 0.0)


@kernel
def _least(pool: Replicas):  # type: ignore[no-untyped-def]
    """What shards without a size count as, so that loads can be divided by sizes."""
    largest = 0.0
    for size in pool.size:
        largest = max(largest, size)
    return 1e-12 * largest if largest > 0.0 else 1.0


def new_replicas(pool: Replicas) -> NDArray[np.int64]:
    """Replicas that balance may do without, cold shards' for their size first."""
    r = np.flatnonzero(pool.alive & ~pool.old)
    r = r[pool.copies[pool.shard[r]] > 1]
    total = np.bincount(pool.shard[pool.alive], pool.load[pool.alive], pool.copies.size)
    merit = (total[pool.shard[r]] + 1e-6 * pool.load[r]) / np.maximum(pool.size[pool.shard[r]], _least(pool))
    return r[np.argsort(merit, kind="stable")]


@kernel(allocates=True)
def prune(pool: Replicas, search: Search, lower, upper, candidates):  # type: ignore[no-untyped-def]
    """Drop those of some replicas that the balance does not need."""
    for r in candidates:
        if pool.copies[pool.shard[r]] > 1:
            _try_without(pool, search, r, lower, upper)


@kernel(allocates=True, inner=True)
def _try_without(pool: Replicas, search: Search, r, lower, upper):  # type: ignore[no-untyped-def]
    """Drop replica r if what it carries can flow along the others; else leave all as it is."""
    i = pool.server[r]
    to = _lightest_other(pool, r)
    if pool.load[r] <= DUST:
        carry(pool, r, to, pool.load[r])
        leave(pool, r)
        return True
    at = pool.server[to]
    before = outside(pool, i, lower, upper) + outside(pool, at, lower, upper)
    load, load_on = pool.load[: pool.used[0]].copy(), pool.load_on.copy()
    carry(pool, r, to, pool.load[r])
    leave(pool, r)
    now = settle(pool, search, at, lower, upper) + settle(pool, search, i, lower, upper)
    if now <= before + DUST:
        return True
    pool.load[: load.size] = load
    join(pool, r)
    pool.load_on[:] = load_on
    return False


@kernel(inner=True)
def _lightest_other(pool: Replicas, r):  # type: ignore[no-untyped-def]
    """Another replica of the same shard, that on the least loaded server."""
    to, s = -1, pool.first_of_shard[pool.shard[r]]
    while s >= 0:
        if s != r and (to < 0 or pool.load_on[pool.server[s]] < pool.load_on[pool.server[to]]):
            to = s
        s = pool.after_in_shard[s]
    return to


@kernel(allocates=True)
def extend(pool: Replicas, search: Search, lower, upper, dispensable):  # type: ignore[no-untyped-def]
    """Add replicas while a server is outside the band, for the worst server first.

    Replicas with no more load than is ``dispensable`` of their shard make way where memory is short.
    """
    n, k = pool.load_on.size, pool.copies.size
    given_up = np.zeros(n, np.bool_)
    idle, weight = np.empty(n), np.empty(k)
    for _ in range(8 * n):
        worst, most = -1, DUST
        for i in range(n):
            over = outside(pool, i, lower, upper)
            if over > most and not given_up[i]:
                worst, most = i, over
        if worst < 0:
            break
        left = settle(pool, search, worst, lower, upper)
        if left <= DUST:
            continue
        outward = pool.load_on[worst] > upper
        explore(pool, search, worst, upper if outward else lower, outward)
        r = _help(pool, search, outward, lower, upper, dispensable, idle, weight)
        if r < 0:
            given_up[worst] = True
            continue
        if settle(pool, search, worst, lower, upper) < left - DUST:
            given_up[:] = False
        else:
            given_up[worst] = True
            carry(pool, r, _lightest_other(pool, r), pool.load[r])
            leave(pool, r)


@kernel(inner=True)
def _help(pool: Replicas, search, outward, lower, upper, dispensable, idle, weight):  # type: ignore[no-untyped-def]
    """Add the replica that can take most load over the border of the closure just explored, or return -1."""
    n, k, stamp = pool.load_on.size, pool.copies.size, search.stamp[0]
    wanted = 0.0
    for i in range(n):
        if search.server_seen[i] == stamp:
            over = pool.load_on[i] - upper if outward else lower - pool.load_on[i]
            wanted += max(over, 0.0)
    weight[:] = 0.0
    idle[:] = 0.0
    for r in range(pool.used[0]):
        if not pool.alive[r]:
            continue
        j, i = pool.shard[r], pool.server[r]
        if outward and search.server_seen[i] == stamp:
            weight[j] += pool.load[r]
        elif not outward and search.server_seen[i] != stamp:
            weight[j] += min(pool.load[r], max(pool.load_on[i] - lower, 0.0))
        if pool.copies[j] > 1 and pool.load[r] <= dispensable[j] + DUST:
            idle[i] += pool.size[j]
    best_j, best_i, best, most, least = -1, -1, 0.0, 0.0, _least(pool)
    for j in range(k):
        size = max(pool.size[j], least)
        hope = min(wanted, weight[j]) / size
        if weight[j] <= DUST or hope < best or (hope <= best * (1.0 + 1e-9) and weight[j] / size <= most):
            continue
        to = -1
        for i in range(n):
            if (search.server_seen[i] == stamp) != outward and (to < 0 or pool.load_on[i] < pool.load_on[to]):
                if pool.room[i] + idle[i] >= pool.size[j] - pool.slack[i] and find(pool, j, i) < 0:
                    to = i
        if to < 0:
            continue
        amount = min(wanted, weight[j], upper - pool.load_on[to])
        merit = amount / size
        if amount > DUST and (
            merit > best * (1.0 + 1e-9) or (merit >= best * (1.0 - 1e-9) and weight[j] / size > most)
        ):
            best_j, best_i, best, most = j, to, merit, weight[j] / size
    if best_j < 0:
        return -1
    while pool.room[best_i] < pool.size[best_j] - pool.slack[best_i]:
        if not _evict(pool, best_i, dispensable):  # room was short by rounding only
            break
    return add(pool, best_j, best_i, 0.0, False)


@kernel(inner=True)
def _evict(pool: Replicas, i, dispensable):  # type: ignore[no-untyped-def]
    """Drop a replica on server i that is dispensable; whether there was one."""
    best, r = -1, pool.first_on_server[i]
    while r >= 0:
        j = pool.shard[r]
        if pool.copies[j] > 1 and pool.size[j] > 0.0 and pool.load[r] <= dispensable[j] + DUST:
            if best < 0 or pool.load[r] < pool.load[best]:
                best = r
        r = pool.after_on_server[r]
    if best >= 0:
        carry(pool, best, _lightest_other(pool, best), pool.load[best])
        leave(pool, best)
    return best >= 0


@kernel
def revive(pool: Replicas, lower, upper):  # type: ignore[no-untyped-def]
    """Give replicas of last round that have run dry their reserve, where the balance allows it."""
    for r in range(pool.used[0]):
        j = pool.shard[r]
        if not pool.alive[r] or not pool.old[r] or pool.load[r] >= pool.reserve[j]:
            continue
        wanted = pool.reserve[j] - pool.load[r]
        best, s = -1, pool.first_of_shard[j]
        while s >= 0:
            if pool.load[s] >= 2.0 * pool.reserve[j] and pool.load_on[pool.server[s]] - wanted >= lower:
                if best < 0 or pool.load[s] > pool.load[best]:
                    best = s
            s = pool.after_in_shard[s]
        if best >= 0 and pool.load_on[pool.server[r]] + wanted <= upper:
            carry(pool, best, r, wanted)
