"""Replicas of shards on servers as linked lists, and load that flows along them; kernels of ReplicaShim.

Servers are nodes.  Two servers with replicas of the same shard are joined, because load of that shard can
move between them without a new replica.  So the best balance of existing replicas is a maximum flow, found by
shortest augmenting paths (Edmonds and Karp 1972).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel

ZERO_TOLERANCE = 1e-9
"""Smallest load in units of the mean load of a server; smaller ones count as 0."""
SLACK = 1e-9
"""Smallest memory as a share of a server's; less counts as 0."""

_NONE = -1


class Replicas(NamedTuple):
    """Replicas in a pool, each in the list of its shard and in that of its server.

    `shard`, `server`, `load` (capacity,): those of each replica. `old` (capacity,): whether the replica
    existed in the last round; a new one is a movement. `alive` (capacity,): whether it exists.
    `after_in_shard`, `before_in_shard`, `after_on_server`, `before_on_server` (capacity,): the lists, which
    end with -1. `first_of_shard`, `copies` (k,): first replica and number of replicas of each shard. `size`
    (k,): sizes of the shards. `reserve` (k,): load that flows leave on a replica of the shard if it has it; 0
    if all of it may flow. `first_on_server`, `load_on`, `room` (n,): `room` is the free memory, negative if
    it is exceeded. `slack` (n,): rounding error of a server's memory. `used` (1,): number of entries used so
    far; freed entries are not used again.
    """

    shard: Ints
    server: Ints
    load: Floats
    old: Flags
    alive: Flags
    after_in_shard: Ints
    before_in_shard: Ints
    after_on_server: Ints
    before_on_server: Ints
    first_of_shard: Ints
    copies: Ints
    size: Floats
    reserve: Floats
    first_on_server: Ints
    load_on: Floats
    room: Floats
    slack: Floats
    used: Ints


class ReplicaSearch(NamedTuple):
    """Work arrays of a breadth-first search over servers, and the loads to restore if a change is undone.

    `saved` (capacity,): replicas whose load has changed since :func:`remember`, `saved_load` their loads at
    that time, `saved_seen` the stamp of the last such call for each replica of the pool. `saved_count` (2,):
    the number of saved replicas, and the stamp.
    """

    queue: Ints
    origin: Ints
    leave: Ints
    enter: Ints
    server_seen: Ints
    shard_seen: Ints
    stamp: Ints
    saved: Ints
    saved_load: Floats
    saved_seen: Ints
    saved_count: Ints


def empty_pool(sizes: Floats, memory: Floats, capacity: int) -> Replicas:
    """Return a pool without replicas.

    `sizes` (k,): sizes of the shards. `memory` (n,): memory of the servers in the unit of the sizes; copied.
    `capacity`: largest number of replicas, including dropped ones.
    """
    k, n = sizes.size, memory.size
    return Replicas(
        np.full(capacity, _NONE),
        np.full(capacity, _NONE),
        np.zeros(capacity),
        np.zeros(capacity, np.bool_),
        np.zeros(capacity, np.bool_),
        np.full(capacity, _NONE),
        np.full(capacity, _NONE),
        np.full(capacity, _NONE),
        np.full(capacity, _NONE),
        np.full(k, _NONE),
        np.zeros(k, np.int64),
        sizes,
        np.zeros(k),
        np.full(n, _NONE),
        np.zeros(n),
        memory.copy(),
        SLACK * memory,
        np.zeros(1, np.int64),
    )


def scratch(pool: Replicas) -> ReplicaSearch:
    """Return the work arrays of a pool."""
    capacity, k, n = pool.shard.size, pool.copies.size, pool.load_on.size
    queue, origin, out, into, seen = np.zeros((5, n), np.int64)
    saved, saved_seen = np.zeros((2, capacity), np.int64)
    search = queue, origin, out, into, seen, np.zeros(k, np.int64), np.zeros(1, np.int64)
    return ReplicaSearch(*search, saved, np.zeros(capacity), saved_seen, np.zeros(2, np.int64))


@kernel
def join(pool: Replicas, r):  # type: ignore[no-untyped-def]
    """Insert replica r of the pool, with its shard, server and load, into the lists."""
    j, i = pool.shard[r], pool.server[r]
    after = pool.first_of_shard[j]
    pool.after_in_shard[r], pool.before_in_shard[r] = after, -1
    if after >= 0:
        pool.before_in_shard[after] = r
    pool.first_of_shard[j] = r
    after = pool.first_on_server[i]
    pool.after_on_server[r], pool.before_on_server[r] = after, -1
    if after >= 0:
        pool.before_on_server[after] = r
    pool.first_on_server[i] = r
    pool.alive[r] = True
    pool.copies[j] += 1
    pool.load_on[i] += pool.load[r]
    pool.room[i] -= pool.size[j]


@kernel
def leave(pool: Replicas, r):  # type: ignore[no-untyped-def]
    """Remove replica r and its load from the lists."""
    j, i = pool.shard[r], pool.server[r]
    after, before = pool.after_in_shard[r], pool.before_in_shard[r]
    if before >= 0:
        pool.after_in_shard[before] = after
    else:
        pool.first_of_shard[j] = after
    if after >= 0:
        pool.before_in_shard[after] = before
    after, before = pool.after_on_server[r], pool.before_on_server[r]
    if before >= 0:
        pool.after_on_server[before] = after
    else:
        pool.first_on_server[i] = after
    if after >= 0:
        pool.before_on_server[after] = before
    pool.alive[r] = False
    pool.copies[j] -= 1
    pool.load_on[i] -= pool.load[r]
    pool.room[i] += pool.size[j]


@kernel
def add(pool: Replicas, j, i, load, old):  # type: ignore[no-untyped-def]
    """Add a replica of shard j on server i, and return its index, or -1 if the pool is full."""
    r = pool.used[0]
    if r == pool.shard.size:
        return -1
    pool.used[0] += 1
    pool.shard[r], pool.server[r], pool.load[r], pool.old[r] = j, i, load, old
    join(pool, r)
    return r


@kernel
def fill(pool: Replicas, shard, server, load, old):  # type: ignore[no-untyped-def]
    """Add new replicas."""
    for e in range(shard.size):
        add(pool, shard[e], server[e], load[e], old[e])


@kernel
def find(pool: Replicas, j, i):  # type: ignore[no-untyped-def]
    """Return the replica of shard j on server i, or -1 without one."""
    r = pool.first_of_shard[j]
    while r >= 0 and pool.server[r] != i:
        r = pool.after_in_shard[r]
    return r


@kernel
def carry(pool: Replicas, r, s, amount):  # type: ignore[no-untyped-def]
    """Move load from replica r to replica s of the same shard."""
    pool.load[r] -= amount
    pool.load[s] += amount
    pool.load_on[pool.server[r]] -= amount
    pool.load_on[pool.server[s]] += amount


@kernel
def remember(search: ReplicaSearch):  # type: ignore[no-untyped-def]
    """Begin a change of loads that :func:`undo` can undo; the last one cannot be undone any more."""
    search.saved_count[0] = 0
    search.saved_count[1] += 1


@kernel
def save(pool: Replicas, search: ReplicaSearch, r):  # type: ignore[no-untyped-def]
    """Save the load of replica r, which is going to change."""
    if search.saved_seen[r] != search.saved_count[1]:
        search.saved_seen[r] = search.saved_count[1]
        search.saved[search.saved_count[0]], search.saved_load[search.saved_count[0]] = r, pool.load[r]
        search.saved_count[0] += 1


@kernel
def undo(pool: Replicas, search: ReplicaSearch):  # type: ignore[no-untyped-def]
    """Restore the loads of replicas as they were at the last :func:`remember`, but not those of servers."""
    for k in range(search.saved_count[0]):
        pool.load[search.saved[k]] = search.saved_load[k]
    search.saved_count[0] = 0


@kernel(inner=True)
def _route(pool: Replicas, search: ReplicaSearch, start, amount, bound, outward):  # type: ignore[no-untyped-def]
    """Let load flow from a server to servers below a bound, or from servers above it; return the amount.

    The load flows along existing replicas, also through other servers, whose own load does not change.
    """
    moved = 0.0
    while moved < amount - ZERO_TOLERANCE:
        goal = explore(pool, search, start, bound, outward)
        if goal < 0:
            break
        most = min(amount - moved, abs(bound - pool.load_on[goal]))
        at = goal
        while at != start:
            r = search.leave[at] if outward else search.enter[at]
            most = min(most, pool.load[r] - pool.reserve[pool.shard[r]])
            at = search.origin[at]
        at = goal
        while at != start:
            save(pool, search, search.leave[at])
            save(pool, search, search.enter[at])
            if outward:
                carry(pool, search.leave[at], search.enter[at], most)
            else:
                carry(pool, search.enter[at], search.leave[at], most)
            at = search.origin[at]
        moved += most
    return moved


@kernel(inner=True)
def explore(pool: Replicas, search: ReplicaSearch, start, bound, outward):  # type: ignore[no-untyped-def]
    """Return the nearest server that can take (outward) or give load, -1 if none can.

    If none can, the servers whose `server_seen` equals `stamp` are all that load can reach (or come from).
    """
    search.stamp[0] += 1
    stamp = search.stamp[0]
    search.queue[0] = start
    search.server_seen[start] = stamp
    head, tail = 0, 1
    while head < tail:
        at = search.queue[head]
        head += 1
        r = pool.first_on_server[at]
        while r >= 0:
            j = pool.shard[r]
            if search.shard_seen[j] != stamp and (
                pool.load[r] > pool.reserve[j] + ZERO_TOLERANCE or not outward
            ):
                search.shard_seen[j] = stamp
                s = pool.first_of_shard[j]
                while s >= 0:
                    to = pool.server[s]
                    if search.server_seen[to] != stamp and (
                        outward or pool.load[s] > pool.reserve[j] + ZERO_TOLERANCE
                    ):
                        search.server_seen[to] = stamp
                        search.origin[to], search.leave[to], search.enter[to] = at, r, s
                        load = pool.load_on[to]
                        if (load < bound - ZERO_TOLERANCE) if outward else (load > bound + ZERO_TOLERANCE):
                            return to
                        search.queue[tail] = to
                        tail += 1
                    s = pool.after_in_shard[s]
            r = pool.after_on_server[r]
    return -1


@kernel
def settle(pool: Replicas, search: ReplicaSearch, i, lower, upper):  # type: ignore[no-untyped-def]
    """Bring one server's load between the bounds as far as replicas allow; return the rest outside."""
    over = pool.load_on[i] - upper
    amount = max(over, lower - pool.load_on[i])
    if amount > ZERO_TOLERANCE:
        _route(pool, search, i, amount, upper if over > 0.0 else lower, over > 0.0)
    return max(pool.load_on[i] - upper, lower - pool.load_on[i], 0.0)


@kernel(allocates=True)
def balance(pool: Replicas, search: ReplicaSearch, lower, upper, sparing=False):  # type: ignore[no-untyped-def]
    """Bring all servers' loads between the bounds as far as replicas allow; return the rest outside.

    First, excess load flows to servers with free capacity; then missing load flows from servers that can give
    it. Together this is a maximum flow with lower bounds.  Reserves are used only if necessary, and never if
    `sparing`.
    """
    n, reserve, outside = pool.load_on.size, pool.reserve.copy(), 0.0
    for turn in range(4):
        if turn == 2:
            if sparing or outside <= ZERO_TOLERANCE:
                break
            pool.reserve[:] = 0.0
        outside = 0.0 if turn % 2 == 0 else outside
        for i in range(n):
            over = pool.load_on[i] - upper if turn % 2 == 0 else lower - pool.load_on[i]
            if over > ZERO_TOLERANCE:
                outside += settle(pool, search, i, lower, upper)
    pool.reserve[:] = reserve
    return outside
