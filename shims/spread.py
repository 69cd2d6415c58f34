"""SpreadShim: replicas of shards on servers, few of them new, within the memory and with balanced loads.

For shard load balancing: every shard is served by one or more replicas, each carries a share of the shard's
load, a replica needs as much memory as its shard is large, and a new one is a movement that costs its size.

1. Replicas are those of last round and those to which the linear program gives load.
2. A linear program pays for a new replica by its load, so an answer, the more so one from inside the optimal
   face, has many that carry little.  Each goes if its load can flow along the others without putting a server
   outside the band: those of cold shards for their size first, for a hot shard's replicas can carry more
   in the rounds to come.
3. Memory: on a server that has too little, new replicas go first, then those with least load, if their shards
   have others, which take over the load in proportion (the thesis' shim).
4. The new ones that are left are chosen.  Loads begin again as they were last round, and the least flow that
   brings all servers into the band, along old and chosen replicas, is applied: shares change little, and
   replicas that the answer happened not to use are kept.
5. If that is not enough (a coarse answer, or memory in the way) further replicas are added, the largest loads
   first, from where there is most to where there is least.
6. Replicas without load are dropped.

Memory is never exceeded and every shard is served, whatever the solution; the balance is kept as far as
this finds a way.

Source: thesis section 5.1.1 (step 2); flows along replicas are a maximum flow (:mod:`copter.shims.replicas`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.kernels import kernel
from copter.shims.replicas import (
    DUST,
    Replicas,
    Search,
    add,
    balance,
    carry,
    empty,
    fill,
    find,
    join,
    leave,
    scratch,
    settle,
)

MARGIN = 2e-3
"""Of the tolerance, that a program's band is narrower."""


class PlacementError(CopterError):
    """No place was found for a shard; `shard` is its index.

    Attributes
    ----------
    shard : int
    """

    def __init__(self, shard: int) -> None:
        self.shard = shard
        super().__init__(f"no server has the memory for shard {shard}, however the others are placed")


@dataclass(frozen=True)
class Placement:
    """Replicas and the shares of their shards' load that they carry; ascending by shard and server.

    Attributes
    ----------
    shard, server : (m,) int ndarray
    share : (m,) float ndarray
        > 0; those of a shard add up to 1.
    """

    shard: NDArray[np.int64]
    server: NDArray[np.int64]
    share: NDArray[np.float64]

    def __len__(self) -> int:
        return self.shard.size

    def keys(self, servers: int) -> NDArray[np.int64]:
        """Return shard * servers + server of each replica, ascending."""
        return self.shard * servers + self.server


NOWHERE = Placement(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class Fleet:
    """Shards and servers as a shim sees them.

    Attributes
    ----------
    loads, sizes : (k,) ndarray
        Of the shards; any unit of load.
    memory : (n,) ndarray
        Of the servers.
    tolerance : float
        The load of a server may be this much off the mean, relative to it.
    """

    loads: NDArray[np.float64]
    sizes: NDArray[np.float64]
    memory: NDArray[np.float64]
    tolerance: float

    @property
    def mean(self) -> float:
        """Mean load of a server."""
        return float(self.loads.sum()) / self.memory.size

    @property
    def band(self) -> tuple[float, float]:
        """Least and most load of a server, in units of the mean.

        1 -+ tolerance / (1 + tolerance), a little narrower than 1 -+ tolerance: so the most loaded server
        has at most ``1 + 2 tolerance`` times the load of the least loaded one.
        """
        width = self.tolerance / (1.0 + self.tolerance)
        return 1.0 - width, 1.0 + width

    @property
    def inner_band(self) -> tuple[float, float]:
        """Band for a program: narrower by a little, so that what a solver is off does not cost a replica."""
        margin = MARGIN * self.tolerance
        return self.band[0] + margin, self.band[1] - margin


class SpreadShim:
    """Turns a fractional answer into replicas."""

    def round(
        self,
        fleet: Fleet,
        last: Placement,
        shard: NDArray[np.int64],
        server: NDArray[np.int64],
        load: NDArray[np.float64],
    ) -> Placement:
        """Placement near a fractional answer.

        Parameters
        ----------
        fleet : Fleet
        last : Placement
            Of the last round, without what is gone since.
        shard, server, load : (m,) ndarray
            The answer: load > 0 in units of the mean, each pair once.  A shard without any stays as it is.

        Raises
        ------
        PlacementError
            The memory does not suffice.
        """
        n = fleet.memory.size
        loads = fleet.loads / (fleet.mean or 1.0)
        old, answered = last.keys(n), shard * n + server
        before = last.share * loads[last.shard]
        keys = np.union1d(old, answered)
        value = np.zeros(keys.size)
        value[np.searchsorted(keys, answered)] = load
        pool = _settle(fleet, loads, keys, old, value, prune=True)
        chosen = np.flatnonzero(pool.alive & ~pool.old)
        keys = np.union1d(old, pool.shard[chosen] * n + pool.server[chosen])
        value = np.zeros(keys.size)
        value[np.searchsorted(keys, old)] = before
        pool = _settle(fleet, loads, keys, old, value, prune=False)
        return _placement(pool, loads)


def _settle(
    fleet: Fleet,
    loads: NDArray[np.float64],
    keys: NDArray[np.int64],
    old: NDArray[np.int64],
    value: NDArray[np.float64],
    *,
    prune: bool,
) -> Replicas:
    """Pool of the replicas `keys` (shard * n + server), their loads brought into memory and balance."""
    k, n = fleet.loads.size, fleet.memory.size
    shard, is_old = keys // n, np.isin(keys, old, assume_unique=True)
    total = np.bincount(shard, value, k)
    value = np.where((total <= DUST)[shard], loads[shard], value)
    total = np.bincount(shard, value, k)
    value = value * np.divide(loads, total, out=np.zeros(k), where=total > 0)[shard]
    pool, search = empty(fleet.sizes, fleet.memory, keys.size + 2 * k + 16 * n), scratch(k, n)
    fill(pool, shard, keys % n, value, is_old)
    lower, upper = fleet.band
    if prune and fleet.mean > 0:
        _prune(pool, search, lower, upper)
    lost = _keep_memory(pool, loads)
    if lost >= 0:
        raise PlacementError(int(lost))
    if fleet.mean > 0:
        balance(pool, search, lower, upper)
        _extend(pool, search, lower, upper)
        _prune(pool, search, lower, upper)
    return pool


def _placement(pool: Replicas, loads: NDArray[np.float64]) -> Placement:
    """Replicas that carry load, or whose shard has none."""
    k, n = loads.size, pool.load_on.size
    idle = loads <= DUST
    keep = np.flatnonzero(pool.alive & ((pool.load > DUST) | idle[pool.shard]))
    keep = keep[np.argsort(pool.shard[keep] * n + pool.server[keep])]
    shard = pool.shard[keep]
    share = np.where(idle[shard], 1.0, pool.load[keep])
    return Placement(shard, pool.server[keep], share / np.bincount(shard, share, k)[shard])


@kernel
def _drop(pool: Replicas, r):  # type: ignore[no-untyped-def]
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
def _spare(pool: Replicas, i):  # type: ignore[no-untyped-def]
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
def _place(pool: Replicas, j, load):  # type: ignore[no-untyped-def]
    """Add a replica of shard j on the least loaded server with the memory for it, -1 if there is none.

    If no server has, replicas that others can stand in for are dropped where that makes room.
    """
    best = -1
    for i in range(pool.load_on.size):
        if pool.room[i] >= pool.size[j] - 1e-9 and find(pool, j, i) < 0:
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
        if room >= pool.size[j] - 1e-9 and (best < 0 or pool.load_on[i] < pool.load_on[best]):
            best = i
    if best < 0:
        return -1
    while pool.room[best] < pool.size[j] - 1e-9:
        _drop(pool, _spare(pool, best))
    return add(pool, j, best, load, False)


@kernel
def _keep_memory(pool: Replicas, loads):  # type: ignore[no-untyped-def]
    """Let no server exceed its memory, and serve every shard; returns a shard without a place, or -1."""
    n = pool.load_on.size
    for i in range(n):
        while pool.room[i] < -1e-9:
            r = _spare(pool, i)
            if r < 0:
                break
            _drop(pool, r)
    for i in range(n):
        while pool.room[i] < -1e-9:
            # every replica is its shard's last: the largest of those with least load moves
            r, s = -1, pool.first_on_server[i]
            while s >= 0:
                if pool.size[pool.shard[s]] > 0.0 and (
                    r < 0 or pool.load[s] * pool.size[pool.shard[r]] < pool.load[r] * pool.size[pool.shard[s]]
                ):
                    r = s
                s = pool.after_on_server[s]
            s = _place(pool, pool.shard[r], 0.0)
            if s < 0:
                return pool.shard[r]
            carry(pool, r, s, pool.load[r])
            leave(pool, r)
    for j in np.argsort(-pool.size, kind="mergesort"):
        if pool.copies[j] == 0 and _place(pool, j, loads[j]) < 0:
            return j
    return -1


@kernel
def _prune(pool: Replicas, search: Search, lower, upper):  # type: ignore[no-untyped-def]
    """Drop new replicas that the balance does not need, those of cold shards for their size first."""
    count = 0
    order = np.empty(pool.used[0], np.int64)
    merit = np.empty(pool.used[0])
    for r in range(pool.used[0]):
        if pool.alive[r] and not pool.old[r] and pool.copies[pool.shard[r]] > 1:
            order[count] = r
            merit[count] = (_total(pool, pool.shard[r]) + 1e-6 * pool.load[r]) / max(
                pool.size[pool.shard[r]], 1e-12
            )
            count += 1
    for p in np.argsort(merit[:count], kind="mergesort"):
        r = order[p]
        if pool.copies[pool.shard[r]] > 1:
            _try_without(pool, search, r, lower, upper)


@kernel
def _try_without(pool: Replicas, search: Search, r, lower, upper):  # type: ignore[no-untyped-def]
    """Drop replica r if what it carries can flow along the others; else leave all as it is."""
    i, j = pool.server[r], pool.shard[r]
    to, s = -1, pool.first_of_shard[j]
    while s >= 0:
        if s != r and (to < 0 or pool.load_on[pool.server[s]] < pool.load_on[pool.server[to]]):
            to = s
        s = pool.after_in_shard[s]
    if pool.load[r] <= DUST:
        carry(pool, r, to, pool.load[r])
        leave(pool, r)
        return True
    at = pool.server[to]
    outside = _outside(pool, i, lower, upper) + _outside(pool, at, lower, upper)
    load, load_on = pool.load[: pool.used[0]].copy(), pool.load_on.copy()
    carry(pool, r, to, pool.load[r])
    leave(pool, r)
    now = settle(pool, search, at, lower, upper) + settle(pool, search, i, lower, upper)
    if now <= outside + DUST:
        return True
    pool.load[: load.size] = load
    join(pool, r)
    pool.load_on[:] = load_on
    return False


@kernel
def _outside(pool: Replicas, i, lower, upper):  # type: ignore[no-untyped-def]
    return max(pool.load_on[i] - upper, lower - pool.load_on[i], 0.0)


@kernel
def _extend(pool: Replicas, search: Search, lower, upper):  # type: ignore[no-untyped-def]
    """Add replicas while a server is outside the band, the worst server first."""
    n = pool.load_on.size
    given_up = np.zeros(n, np.bool_)
    for _ in range(8 * n):
        worst, most = -1, DUST
        for i in range(n):
            outside = _outside(pool, i, lower, upper)
            if outside > most and not given_up[i]:
                worst, most = i, outside
        if worst < 0:
            break
        before = pool.load_on[worst]
        if before > upper:
            moved = _relieve(pool, worst, lower, upper)
        else:
            moved = _feed(pool, worst, lower, upper)
        settle(pool, search, worst, lower, upper)
        given_up[worst] = not moved


@kernel
def _relieve(pool: Replicas, a, lower, upper):  # type: ignore[no-untyped-def]
    """Take load off server a onto a new replica elsewhere; returns whether that was possible."""
    best_r, best_i, best = -1, -1, 0.0
    r = pool.first_on_server[a]
    while r >= 0:
        j = pool.shard[r]
        if pool.load[r] > DUST:
            i = _emptiest(pool, j)
            if i >= 0:
                most = min(pool.load[r], upper - pool.load_on[i], pool.load_on[a] - lower)
                merit = most / max(pool.size[j], 1e-12)
                if most > DUST and merit > best:
                    best_r, best_i, best = r, i, merit
        r = pool.after_on_server[r]
    if best_r < 0:
        return False
    return _move(pool, best_r, best_i, lower, upper)


@kernel
def _feed(pool: Replicas, b, lower, upper):  # type: ignore[no-untyped-def]
    """Bring load to server b with a new replica there; returns whether that was possible."""
    best_r, best = -1, 0.0
    for r in range(pool.used[0]):
        if not pool.alive[r] or pool.load[r] <= DUST:
            continue
        j, i = pool.shard[r], pool.server[r]
        most = min(pool.load[r], pool.load_on[i] - lower, upper - pool.load_on[b])
        merit = most / max(pool.size[j], 1e-12)
        if most > DUST and merit > best and pool.room[b] >= pool.size[j] - 1e-9 and find(pool, j, b) < 0:
            best_r, best = r, merit
    if best_r < 0:
        return False
    return _move(pool, best_r, b, lower, upper)


@kernel
def _emptiest(pool: Replicas, j):  # type: ignore[no-untyped-def]
    """Least loaded server with the memory for a replica of shard j that it has not, -1 if there is none."""
    best = -1
    for i in range(pool.load_on.size):
        if (best < 0 or pool.load_on[i] < pool.load_on[best]) and pool.room[i] >= pool.size[j] - 1e-9:
            if find(pool, j, i) < 0:
                best = i
    return best


@kernel
def _move(pool: Replicas, r, i, lower, upper):  # type: ignore[no-untyped-def]
    """Move load of replica r to a new one on server i, towards the middle of the band on both ends."""
    a = pool.server[r]
    most = min(pool.load[r], upper - pool.load_on[i], pool.load_on[a] - lower)
    wanted = 0.5 * (pool.load_on[a] - pool.load_on[i])
    s = add(pool, pool.shard[r], i, 0.0, False)
    if s < 0:
        return False
    carry(pool, r, s, min(most, wanted) if wanted > DUST else most)
    return True


@kernel
def _total(pool: Replicas, j):  # type: ignore[no-untyped-def]
    """Load of a shard."""
    total, r = 0.0, pool.first_of_shard[j]
    while r >= 0:
        total += pool.load[r]
        r = pool.after_in_shard[r]
    return total
