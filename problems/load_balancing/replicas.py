"""Replicas of shards on servers as linked lists, and load that flows along them; kernels of the spread shim.

Servers are nodes; two servers with a replica of the same shard are joined: load of that shard can go from the
one to the other without a new replica.  So what the replicas there are can do for the balance is a maximum
flow, found by shortest augmenting paths (Edmonds and Karp 1972).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel

ZERO_TOLERANCE = 1e-9
"""Loads are in units of the mean load of a server; less than this is nothing."""
SLACK = 1e-9
"""The same of memory, as a share of a server's."""

_NONE = -1


class Replicas(NamedTuple):
    """Replicas in a pool, each in the list of its shard and in that of its server.

    `shard`, `server`, `load` (capacity,): those of each replica. `old` (capacity,): whether it was there in
    the last round: a new one is a movement. `alive` (capacity,). `after_in_shard`, `before_in_shard`,
    `after_on_server`, `before_on_server` (capacity,): the lists; -1 ends them. `first_of_shard`, `copies`
    (k,). `size` (k,). `reserve` (k,): load that flows leave on a replica of the shard if it has that much; 0
    where all of it may go. `first_on_server`, `load_on`, `room` (n,): `room` is the memory that is left,
    negative if there are too many replicas. `slack` (n,): so little of a server's memory is nothing: rounding
    errors. `used` (1,): places of the pool taken so far; a freed one is not taken again.
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
    """Scratch of a breadth-first search over servers."""

    queue: Ints
    origin: Ints
    leave: Ints
    enter: Ints
    server_seen: Ints
    shard_seen: Ints
    stamp: Ints


def empty_pool(sizes: Floats, memory: Floats, capacity: int) -> Replicas:
    """Return a pool without replicas.

    `sizes` (k,): the sizes of the shards. `memory` (n,): the memory of the servers, in the unit of the sizes;
    copied. `capacity`: replicas that it has places for, those dropped again included.
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


def scratch(k: int, n: int) -> ReplicaSearch:
    """Return the scratch for k shards on n servers."""
    queue, origin, out, into, seen = np.zeros((5, n), np.int64)
    return ReplicaSearch(queue, origin, out, into, seen, np.zeros(k, np.int64), np.zeros(1, np.int64))


@kernel
def join(pool: Replicas, r):  # type: ignore[no-untyped-def]
    """Put replica r of the pool, with its shard, server and load, into the lists."""
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
    """Take replica r out of the lists; its load goes with it."""
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
    """Add a replica of shard j on server i; returns its place, -1 if the pool is full."""
    r = pool.used[0]
    if r == pool.shard.size:
        return -1
    pool.used[0] += 1
    pool.shard[r], pool.server[r], pool.load[r], pool.old[r] = j, i, load, old
    join(pool, r)
    return r


@kernel
def fill(pool: Replicas, shard, server, load, old):  # type: ignore[no-untyped-def]
    """Add replicas that were not there."""
    for e in range(shard.size):
        add(pool, shard[e], server[e], load[e], old[e])


@kernel
def find(pool: Replicas, j, i):  # type: ignore[no-untyped-def]
    """Return the replica of shard j on server i, -1 if there is none."""
    r = pool.first_of_shard[j]
    while r >= 0 and pool.server[r] != i:
        r = pool.after_in_shard[r]
    return r


@kernel
def carry(pool: Replicas, r, s, amount):  # type: ignore[no-untyped-def]
    """Take load from replica r to replica s of the same shard."""
    pool.load[r] -= amount
    pool.load[s] += amount
    pool.load_on[pool.server[r]] -= amount
    pool.load_on[pool.server[s]] += amount


@kernel(inner=True)
def _route(pool: Replicas, search: ReplicaSearch, start, amount, bound, outward):  # type: ignore[no-untyped-def]
    """Let load flow out of a server into those below a bound, or into it from those above; returns how much.

    Along replicas that there are, over other servers if need be, whose own load stays as it is.
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
            if outward:
                carry(pool, search.leave[at], search.enter[at], most)
            else:
                carry(pool, search.enter[at], search.leave[at], most)
            at = search.origin[at]
        moved += most
    return moved


@kernel(inner=True)
def explore(pool: Replicas, search: ReplicaSearch, start, bound, outward):  # type: ignore[no-untyped-def]
    """Return the nearest server that can take (outward) or give load, -1 if there is none.

    If there is none, the servers whose ``server_seen`` is the ``stamp`` are all it can get to (or from).
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
    """Bring one server's load between the bounds as far as replicas allow; returns what is left outside."""
    over = pool.load_on[i] - upper
    amount = max(over, lower - pool.load_on[i])
    if amount > ZERO_TOLERANCE:
        _route(pool, search, i, amount, upper if over > 0.0 else lower, over > 0.0)
    return max(pool.load_on[i] - upper, lower - pool.load_on[i], 0.0)


@kernel(allocates=True)
def balance(pool: Replicas, search: ReplicaSearch, lower, upper, sparing=False):  # type: ignore[no-untyped-def]
    """Bring all servers' loads between the bounds as far as replicas allow; returns what is left outside.

    First what is too much goes where there is room, then what lacks comes from those that can spare it:
    together that is a maximum flow with lower bounds.  Reserves are used only if it takes them, and not at
    all if it is to be ``sparing``.
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
