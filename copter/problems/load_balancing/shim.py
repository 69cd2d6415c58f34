"""ReplicaShim: placements of shards with few new replicas, within the memory, with balanced loads.

In shard load balancing, every shard is served by one or more replicas, each of which carries a share of the
shard's load.  A replica takes as much memory as the size of its shard, and a new one is a movement that costs
its size.

1. Carry: loads start as in the last round, and the least flow along last round's replicas that brings all
   servers into the band is applied.  If there is one, its result is the placement, and nothing moves.
2. Memory: on a server with too little memory, new replicas are dropped first, then replicas with least load,
   if their shards have others.  The shard's other replicas take over the load in proportion (the thesis'
   shim).
3. New replicas are added across the border of the servers that load can reach, first replicas that can carry
   most.  In the end, each new replica that the others can replace is dropped again.
4. If the result exceeds the lower bound in whole replicas (:mod:`copter.problems.load_balancing.bound`), a
   second attempt starts from the replicas to which the linear program gives load.  An answer of the program,
   in particular from inside the optimal face, has many replicas with small loads.  So each new replica is
   dropped if its load can flow along the others.  Replicas of shards with little load for their size are
   dropped first, because a hot shard's replica can carry more in later rounds.  The remaining new replicas
   are added to last round's before another run of steps 2 and 3, and the better of both results is used.
5. Last round's replicas keep a small load, which costs nothing and may save a movement in later rounds,
   unless their memory or their load is needed; all other replicas without load are dropped.

A placement never exceeds the memory and serves every shard; if a shard fits nowhere, ShardPlacementError is
raised.  The loads are balanced as far as this method finds a way.

Source: thesis section 5.1.1 (step 2); flows along replicas are a maximum flow
(:mod:`copter.problems.load_balancing.replicas`).

Kernels work on the pool of :mod:`copter.problems.load_balancing.replicas`.  After a maximum flow, a server
with too much load has a *closure*: the servers that its load can reach, all of them full.  Existing replicas
do not lead out of it, so a new replica outside is necessary, of a shard with load inside.  In the same way,
the closure of a server with too little load needs a new replica inside, of a shard with load outside.  So
closures show where new replicas are useful, and give a lower bound on them
(:mod:`copter.problems.load_balancing.bound`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.errors import CopterError
from copter.problems.load_balancing.bound import needed
from copter.problems.load_balancing.replicas import (
    ZERO_TOLERANCE,
    Replicas,
    ReplicaSearch,
    add,
    balance,
    carry,
    empty_pool,
    explore,
    fill,
    find,
    join,
    leave,
    remember,
    save,
    scratch,
    settle,
    undo,
)

MARGIN = 2e-3
"""Share of the tolerance by which a program's band is narrower."""
_LEAST_LOAD, _LEAST_SHARE = 1e-3, 1e-2
"""Least load that a replica keeps instead of being dropped: of a server's mean, and at most of its shard."""
_EASE = 0.05
"""Share of the width of the band."""


class ShardPlacementError(CopterError):
    """No server has the memory for a shard; `shard` is its index."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        super().__init__(f"shard {shard}: must fit in the memory of a server; none has room after all moves")


@dataclass(frozen=True)
class ShardPlacement:
    """Replicas with their shares of their shards' load, ascending by shard and server.

    `shard`, `server` (m,). `share` (m,): > 0; the shares of a shard add up to 1.
    """

    shard: Ints
    server: Ints
    share: Floats

    def __len__(self) -> int:
        return self.shard.size

    def keys(self, servers: int) -> Ints:
        """Return shard * servers + server of each replica, ascending."""
        return self.shard * servers + self.server


def among(keys: Ints, others: Ints) -> Flags:
    """Return which keys (:meth:`ShardPlacement.keys`) are also among others.

    `keys` (m,). `others` (k,): ascending.
    """
    if np.array_equal(keys, others):
        return np.ones(keys.size, np.bool_)
    at = np.searchsorted(others, keys)
    found = at < others.size
    found[found] = others[at[found]] == keys[found]
    return found


_NO_KEYS = np.empty(0, np.int64)
NOWHERE = ShardPlacement(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class ShardFleet:
    """Shards and servers for a shim.

    `loads`, `sizes` (k,): those of the shards; any unit of load. `memory` (n,): memory of the servers, in the
    unit of the sizes, which is arbitrary. `tolerance`: largest deviation of a server's load from the mean,
    relative to the mean.
    """

    loads: Floats
    sizes: Floats
    memory: Floats
    tolerance: float

    @property
    def mean(self) -> float:
        """Mean load of a server."""
        return float(self.loads.sum()) / self.memory.size

    @property
    def unit_size(self) -> float:
        """Mean size of a shard; 1 if all sizes are 0."""
        return float(self.sizes.mean()) or 1.0

    @property
    def band(self) -> tuple[float, float]:
        """Least and largest load of a server, in units of the mean.

        They are 1 -+ tolerance / (1 + tolerance), a little narrower than 1 -+ tolerance.  So the most loaded
        server has at most ``1 + 2 tolerance`` times the load of the least loaded one.
        """
        width = self.tolerance / (1.0 + self.tolerance)
        return 1.0 - width, 1.0 + width

    @property
    def inner_band(self) -> tuple[float, float]:
        """Slightly narrower band for a program, so that a solver's error does not cost a replica."""
        margin = MARGIN * self.tolerance
        return self.band[0] + margin, self.band[1] - margin


@dataclass(frozen=True)
class Carried:
    """Placement of last round's replicas for this round's loads.

    `placement`: placement of these replicas only, as balanced as possible; shards without any are not in it.
    `enough`: whether it is a placement of all shards, within memory and balanced, so that no movement is
    needed. `needed`: lower bound on the size of the new replicas of any placement within the band.
    """

    placement: ShardPlacement
    enough: bool
    needed: float


class ReplicaShim:
    """Shim that turns a fractional answer into replicas."""

    def carry(self, fleet: ShardFleet, last: ShardPlacement) -> Carried:
        """Balance this round's loads along last round's replicas only."""
        n = fleet.memory.size
        loads = fleet.loads / (fleet.mean or 1.0)
        pool, search = _pool(fleet, loads, last.keys(n), last.keys(n), last.share * loads[last.shard])
        there = not ((pool.room < -pool.slack).any() or (pool.copies == 0).any())
        if fleet.mean == 0 and there:
            return Carried(_placement(pool, loads), True, 0.0)
        lower, upper = fleet.inner_band
        enough = there and balance(pool, search, lower, upper) <= ZERO_TOLERANCE * n
        if not enough:
            lower, upper = fleet.band
            enough = balance(pool, search, lower, upper) <= ZERO_TOLERANCE * n and there
        if enough:
            _keep(fleet, pool, search)
            return Carried(_placement(pool, loads), True, 0.0)
        pool.reserve[:] = 0.0
        return Carried(_placement(pool, loads), False, needed(pool, search, loads, lower, upper))

    def proven(self, fleet: ShardFleet, last: ShardPlacement, carried: Carried) -> ShardPlacement | None:
        """Return a placement within the band of proven least cost, if one is found without an answer."""
        if carried.enough:
            return carried.placement
        loads = fleet.loads / (fleet.mean or 1.0)
        try:
            plain = _settle(
                fleet, loads, last.keys(fleet.memory.size), last.share * loads[last.shard], _NO_KEYS
            )
        except ShardPlacementError:
            return None
        return _placement(plain, loads) if _is_least(fleet, plain, carried) else None

    def repair(self, fleet: ShardFleet, last: ShardPlacement) -> ShardPlacement:
        """Return last round's placement within the memory, all shards served, without replicas for balance.

        A late round uses it. Raise ShardPlacementError if a shard fits nowhere.
        """
        n, loads = fleet.memory.size, fleet.loads / (fleet.mean or 1.0)
        pool, search = _pool(fleet, loads, last.keys(n), last.keys(n), last.share * loads[last.shard])
        _memory(pool, loads)
        if fleet.mean > 0:
            pool.reserve[:] = 0.0
            balance(pool, search, *fleet.band)
        return _placement(pool, loads)

    def round(
        self,
        fleet: ShardFleet,
        last: ShardPlacement,
        shard: Ints,
        server: Ints,
        load: Floats,
        carried: Carried | None = None,
    ) -> ShardPlacement:
        """Return the placement near a fractional answer.

        `last`: placement of the last round, without shards and servers removed since. `shard`, `server`,
        `load` (m,): the answer, with load > 0 in units of the mean, and each pair once. A shard without any
        stays unchanged. `carried`: result of :meth:`carry`, if it was called before.
        """
        carried = carried or self.carry(fleet, last)
        if carried.enough:
            return carried.placement
        n = fleet.memory.size
        loads = fleet.loads / (fleet.mean or 1.0)
        old, answered = last.keys(n), shard * n + server
        before = last.share * loads[last.shard]
        plain = _settle(fleet, loads, old, before, _NO_KEYS)
        if _is_least(fleet, plain, carried):
            return _placement(plain, loads)
        try:
            guided = _settle(fleet, loads, old, before, _chosen(fleet, loads, old, answered, load))
        except ShardPlacementError:  # the answer's replicas took memory that others need
            return _placement(plain, loads)
        return _placement(min(plain, guided, key=lambda pool: _worth(fleet, pool)), loads)


def _pool(
    fleet: ShardFleet, loads: Floats, keys: Ints, old: Ints, value: Floats
) -> tuple[Replicas, ReplicaSearch]:
    """Return the pool of the replicas `keys` (shard * n + server), with loads in proportion to `value`."""
    k, n = fleet.loads.size, fleet.memory.size
    shard, is_old = keys // n, among(keys, old)
    total = np.bincount(shard, value, k)
    value = np.where((total <= ZERO_TOLERANCE)[shard], loads[shard], value)
    total = np.bincount(shard, value, k)
    value = value * np.divide(loads, total, out=np.zeros(k), where=total > 0)[shard]
    pool = empty_pool(fleet.sizes, fleet.memory, keys.size + 2 * k + 16 * n)
    search = scratch(pool)
    pool.reserve[:] = np.minimum(_LEAST_LOAD, _LEAST_SHARE * loads)
    fill(pool, shard, keys % n, value, is_old)
    return pool, search


def _memory(pool: Replicas, loads: Floats) -> None:
    lost = _keep_memory(pool, loads, np.argsort(-pool.size, kind="stable"))
    if lost >= 0:
        raise ShardPlacementError(int(lost))


def _chosen(fleet: ShardFleet, loads: Floats, old: Ints, answered: Ints, load: Floats) -> Ints:
    """Return the answer's new replicas that balance and memory permit, as keys (see :func:`_pool`)."""
    keys = np.union1d(old, answered)
    value = np.zeros(keys.size)
    value[np.searchsorted(keys, answered)] = load
    pool, search = _pool(fleet, loads, keys, old, value)
    if fleet.mean > 0:
        _prune(pool, search, *fleet.band, _new_replicas(pool))
    _memory(pool, loads)
    if fleet.mean > 0:
        _prune(pool, search, *fleet.band, _new_replicas(pool))
    new = np.flatnonzero(pool.alive & ~pool.old)
    chosen: Ints = pool.shard[new] * fleet.memory.size + pool.server[new]
    return chosen


def _settle(fleet: ShardFleet, loads: Floats, old: Ints, before: Floats, chosen: Ints) -> Replicas:
    """Return the pool of old and chosen replicas, within memory and balanced from the old ones' loads."""
    keys = np.union1d(old, chosen)
    value = np.zeros(keys.size)
    value[np.searchsorted(keys, old)] = before
    pool, search = _pool(fleet, loads, keys, old, value)
    _memory(pool, loads)
    if fleet.mean > 0:
        lower, upper = fleet.band
        if balance(pool, search, lower, upper) > ZERO_TOLERANCE:
            reserve = pool.reserve.copy()
            pool.reserve[:] = 0.0
            _extend(pool, search, lower, upper, reserve)
            _prune(pool, search, lower, upper, _new_replicas(pool))
            pool.reserve[:] = reserve
        else:
            _prune(pool, search, lower, upper, _new_replicas(pool))
        _keep(fleet, pool, search)
    return pool


def _keep(fleet: ShardFleet, pool: Replicas, search: ReplicaSearch) -> None:
    """Give last round's replicas their reserves; servers at the edge of the band move inwards for that."""
    lower, upper = fleet.band
    ease = _EASE * (upper - lower)
    balance(pool, search, lower + ease, upper - ease, True)
    _revive(pool, *fleet.inner_band)


def _worth(fleet: ShardFleet, pool: Replicas) -> tuple[float, float]:
    """Return the load outside the band and the size of the new replicas, both to be minimised."""
    lower, upper = fleet.band
    off = float(np.maximum(pool.load_on - upper, lower - pool.load_on).clip(0.0).sum()) if fleet.mean else 0.0
    new = pool.alive & ~pool.old & (pool.load > ZERO_TOLERANCE)
    return (round(off, 6), float(fleet.sizes[pool.shard[new]].sum()))


def _is_least(fleet: ShardFleet, pool: Replicas, carried: Carried) -> bool:
    """Return whether replicas balance the load at the cost of the lower bound."""
    return _worth(fleet, pool) <= (0.0, carried.needed * (1.0 + 1e-9))


def _placement(pool: Replicas, loads: Floats) -> ShardPlacement:
    """Return the placement of replicas that carry load, or whose shard has no load."""
    k, n = loads.size, pool.load_on.size
    idle = loads <= ZERO_TOLERANCE
    keep = np.flatnonzero(pool.alive & ((pool.load > ZERO_TOLERANCE) | idle[pool.shard]))
    keep = keep[np.argsort(pool.shard[keep] * n + pool.server[keep])]
    shard = pool.shard[keep]
    share = np.where(idle[shard], 1.0, pool.load[keep])
    return ShardPlacement(shard, pool.server[keep], share / np.bincount(shard, share, k)[shard])


@kernel
def _drop(pool: Replicas, r):  # type: ignore[no-untyped-def]
    """Drop a replica whose shard has others, which take over its load in proportion, or equally."""
    j, rest = pool.shard[r], pool.load[r]
    leave(pool, r)
    pool.load[r] = 0.0
    total, s = 0.0, pool.first_of_shard[j]
    while s >= 0:
        total += pool.load[s]
        s = pool.after_in_shard[s]
    s = pool.first_of_shard[j]
    while s >= 0:
        more = rest * pool.load[s] / total if total > ZERO_TOLERANCE else rest / pool.copies[j]
        pool.load[s] += more
        pool.load_on[pool.server[s]] += more
        s = pool.after_in_shard[s]


@kernel
def _spare(pool: Replicas, i):  # type: ignore[no-untyped-def]
    """Return the replica on server i to drop first for its memory, -1 if all are their shards' last."""
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
def _place(pool: Replicas, j, load, rank):  # type: ignore[no-untyped-def]
    """Add a replica of shard j on the server of least rank with the memory for it; return -1 if none has it.

    If no server has the memory, replicas that other replicas can replace are dropped to make room.
    """
    best = -1
    for i in range(pool.load_on.size):
        if pool.room[i] >= pool.size[j] - pool.slack[i] and find(pool, j, i) < 0:
            if best < 0 or rank[i] < rank[best]:
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
        if room >= pool.size[j] - pool.slack[i] and (best < 0 or rank[i] < rank[best]):
            best = i
    if best < 0:
        return -1
    while pool.room[best] < pool.size[j] - pool.slack[best]:
        r = _spare(pool, best)
        if r < 0:  # the other replicas have size 0: room was short by rounding only
            break
        _drop(pool, r)
    return add(pool, j, best, load, False)


@kernel(allocates=True)
def _keep_memory(pool: Replicas, loads, order):  # type: ignore[no-untyped-def]
    """Keep all servers within their memory, and serve every shard; return a shard that fits nowhere, or -1.

    Shards without a replica are placed in `order`, on servers with little load, or with few replicas if they
    have no load.
    """
    n = pool.load_on.size
    for i in range(n):
        while pool.room[i] < -pool.slack[i]:
            r = _spare(pool, i)
            if r < 0:
                break
            _drop(pool, r)
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
            s = _place(pool, pool.shard[r], 0.0, pool.load_on)
            if s < 0:
                return pool.shard[r]
            carry(pool, r, s, pool.load[r])
            leave(pool, r)
    replicas = np.zeros(n)
    for r in range(pool.alive.size):
        if pool.alive[r]:
            replicas[pool.server[r]] += 1.0
    for j in order:
        if pool.copies[j] == 0:
            r = _place(pool, j, loads[j], pool.load_on if loads[j] > 0.0 else replicas)
            if r < 0:
                return j
            replicas[pool.server[r]] += 1.0
    return -1


@kernel
def _outside(pool: Replicas, i, lower, upper):  # type: ignore[no-untyped-def]
    """Return the load by which a server is outside the band."""
    return max(pool.load_on[i] - upper, lower - pool.load_on[i], 0.0)


@kernel
def _least(pool: Replicas):  # type: ignore[no-untyped-def]
    """Return the size to use for shards of size 0, so that loads can be divided by sizes."""
    largest = 0.0
    for size in pool.size:
        largest = max(largest, size)
    return 1e-12 * largest if largest > 0.0 else 1.0


def _new_replicas(pool: Replicas) -> Ints:
    """Return the new replicas that could be dropped, those of shards with least load per size first."""
    r = np.flatnonzero(pool.alive & ~pool.old)
    r = r[pool.copies[pool.shard[r]] > 1]
    total = np.bincount(pool.shard[pool.alive], pool.load[pool.alive], pool.copies.size)
    merit = (total[pool.shard[r]] + 1e-6 * pool.load[r]) / np.maximum(pool.size[pool.shard[r]], _least(pool))
    return r[np.argsort(merit, kind="stable")]


@kernel(allocates=True)
def _prune(pool: Replicas, search: ReplicaSearch, lower, upper, candidates):  # type: ignore[no-untyped-def]
    """Drop the candidates that the balance does not need."""
    for r in candidates:
        if pool.copies[pool.shard[r]] > 1:
            _try_without(pool, search, r, lower, upper)


@kernel(allocates=True, inner=True)
def _try_without(pool: Replicas, search: ReplicaSearch, r, lower, upper):  # type: ignore[no-untyped-def]
    """Drop replica r if its load can flow along the others; else change nothing."""
    i = pool.server[r]
    to = _lightest_other(pool, r)
    if pool.load[r] <= ZERO_TOLERANCE:
        carry(pool, r, to, pool.load[r])
        leave(pool, r)
        return True
    at = pool.server[to]
    before = _outside(pool, i, lower, upper) + _outside(pool, at, lower, upper)
    load_on = pool.load_on.copy()
    remember(search)
    save(pool, search, r)
    save(pool, search, to)
    carry(pool, r, to, pool.load[r])
    leave(pool, r)
    now = settle(pool, search, at, lower, upper) + settle(pool, search, i, lower, upper)
    if now <= before + ZERO_TOLERANCE:
        return True
    undo(pool, search)
    join(pool, r)
    pool.load_on[:] = load_on
    return False


@kernel(inner=True)
def _lightest_other(pool: Replicas, r):  # type: ignore[no-untyped-def]
    """Return another replica of the same shard, on the least loaded server."""
    to, s = -1, pool.first_of_shard[pool.shard[r]]
    while s >= 0:
        if s != r and (to < 0 or pool.load_on[pool.server[s]] < pool.load_on[pool.server[to]]):
            to = s
        s = pool.after_in_shard[s]
    return to


@kernel(allocates=True)
def _extend(pool: Replicas, search: ReplicaSearch, lower, upper, dispensable):  # type: ignore[no-untyped-def]
    """Add replicas while a server is outside the band, for the worst server first.

    Replicas with at most the `dispensable` load of their shard are dropped if memory is short.
    """
    n, k = pool.load_on.size, pool.copies.size
    given_up = np.zeros(n, np.bool_)
    idle, weight = np.empty(n), np.empty(k)
    for _ in range(8 * n):
        worst, most = -1, ZERO_TOLERANCE
        for i in range(n):
            over = _outside(pool, i, lower, upper)
            if over > most and not given_up[i]:
                worst, most = i, over
        if worst < 0:
            break
        left = settle(pool, search, worst, lower, upper)
        if left <= ZERO_TOLERANCE:
            continue
        outward = pool.load_on[worst] > upper
        explore(pool, search, worst, upper if outward else lower, outward)
        r = _help(pool, search, outward, lower, upper, dispensable, idle, weight)
        if r < 0:
            given_up[worst] = True
            continue
        if settle(pool, search, worst, lower, upper) < left - ZERO_TOLERANCE:
            given_up[:] = False
        else:
            given_up[worst] = True
            carry(pool, r, _lightest_other(pool, r), pool.load[r])
            leave(pool, r)


@kernel(inner=True)
def _help(  # type: ignore[no-untyped-def]  # noqa: C901 - one pass
    pool: Replicas, search, outward, lower, upper, dispensable, idle, weight
):
    """Add the replica that can carry most load over the border of the last closure, or return -1."""
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
        if pool.copies[j] > 1 and pool.load[r] <= dispensable[j] + ZERO_TOLERANCE:
            idle[i] += pool.size[j]
    best_j, best_i, best, most, least = -1, -1, 0.0, 0.0, _least(pool)
    for j in range(k):
        size = max(pool.size[j], least)
        hope = min(wanted, weight[j]) / size
        if (
            weight[j] <= ZERO_TOLERANCE
            or hope < best
            or (hope <= best * (1.0 + 1e-9) and weight[j] / size <= most)
        ):
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
        if amount > ZERO_TOLERANCE and (
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
    """Drop a dispensable replica on server i; return whether there was one."""
    best, r = -1, pool.first_on_server[i]
    while r >= 0:
        j = pool.shard[r]
        if pool.copies[j] > 1 and pool.size[j] > 0.0 and pool.load[r] <= dispensable[j] + ZERO_TOLERANCE:
            if best < 0 or pool.load[r] < pool.load[best]:
                best = r
        r = pool.after_on_server[r]
    if best >= 0:
        carry(pool, best, _lightest_other(pool, best), pool.load[best])
        leave(pool, best)
    return best >= 0


@kernel
def _revive(pool: Replicas, lower, upper):  # type: ignore[no-untyped-def]
    """Raise the load of last round's replicas to their reserve, where the balance allows it."""
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
