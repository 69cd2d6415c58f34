"""Rounding of :mod:`.groups`: whole shards that leave servers, and servers for them.

1. Each server releases whole shards with at least the load that has to leave it: first as many of each group
   as the program's answer has in whole, then those with the least size per load.
2. The released shards, and those without a server, are placed, the largest load first. Each gets the server
   with the least load that has the memory. A shard that would bring every such server above the band returns
   to its own server, if that has less load.
3. While the server with the least load is below the band, it gets shards of the server with the most load, as
   long as both stay within the band.

The memory of a shard is free when the shard is placed elsewhere. If a shard without a server finds no memory,
step 2 is repeated with the shards of the largest sizes first.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from copter.arrays import Floats, Ints
from copter.compile.kernels import kernel
from copter.problems.load_balancing.replicas import SLACK, ZERO_TOLERANCE
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacementError

_WHOLE = 1e-6
"""Distance below a whole number at which an amount counts as that number."""


def limits(fleet: ShardFleet) -> tuple[float, float]:
    """Return the least and the largest load of a server that are within the band up to rounding errors."""
    near = ZERO_TOLERANCE * fleet.memory.size
    lower, upper = fleet.band
    return (lower - near) * fleet.mean, (upper + near) * fleet.mean


def spread(
    fleet: ShardFleet, there: csr_array, waiting: Ints, loads: Floats, leaving: Floats | None
) -> csr_array:
    """Return the number of shards by server and group after the moves.

    `there`: the same before the moves. `waiting`, `loads` (k,): shards without a server, and load of a shard,
    by group. `leaving`: about how many shards leave a server, for each entry of `there`; None to place the
    shards without a server only. Raise ShardPlacementError if one of them fits on no server.
    """
    n, start, group = len(fleet.memory), there.indptr.astype(np.int64), there.indices.astype(np.int64)
    (lower, upper), sizes, out = limits(fleet), fleet.sizes, np.zeros(group.size, np.int64)
    owner, load_on = np.repeat(np.arange(n), np.diff(start)), there @ loads
    if leaving is not None:
        need = np.bincount(owner, leaving * loads[group], n) * (1.0 - _WHOLE)
        _release(start, group, there.data, loads, sizes, leaving, np.maximum(need, load_on - upper), out)
    shards = np.concatenate((np.repeat(group, out), np.repeat(np.arange(loads.size), waiting)))
    source = np.concatenate((np.repeat(owner, out), np.full(int(waiting.sum()), -1)))
    rest = load_on - np.bincount(owner, out * loads[group], n)
    for first in (loads, sizes):  # if memory is short, the largest sizes first
        order = np.lexsort((-loads[shards], -first[shards]))
        moved, target = (shards[order], source[order]), np.empty(shards.size, np.int64)
        on, room = rest.copy(), fleet.memory * (1.0 + SLACK) - there @ sizes
        stuck = int(_place(*moved, loads, sizes, on, room, upper, target))
        if stuck < 0:
            break
    else:
        raise ShardPlacementError(stuck)
    left, found = there.data - out, [np.stack((*moved, target))]
    while leaving is not None and on.min() < lower:
        low, high = int(on.argmin()), int(on.argmax())
        mine = slice(start[high], start[high + 1])
        own, most = group[mine], min(upper - on[low], on[high] - lower)
        fits = (left[mine] > 0) & (loads[own] > 0.0) & (loads[own] <= most) & (sizes[own] <= room[low])
        if not fits.any():
            break
        price = sizes[own] / np.minimum(np.where(fits, loads[own], 1.0), lower - on[low])
        best = int(np.where(fits, price, np.inf).argmin())
        left[mine.start + best] -= 1
        on[[high, low]] += loads[own[best]] * np.array([-1.0, 1.0])
        room[[high, low]] += sizes[own[best]] * np.array([1.0, -1.0])
        found.append(np.array([[own[best]], [high], [low]]))
    shard, source, target = np.concatenate(found, axis=1)
    known = np.flatnonzero(source >= 0)
    where = np.append(source[known], target), np.append(shard[known], shard)
    by = np.repeat((-1, 1), (known.size, target.size))
    after: csr_array = there + csr_array((by, where), shape=there.shape)
    after.eliminate_zeros()
    return after


@kernel
def _release(start, group, number, loads, sizes, leaving, need, out):  # type: ignore[no-untyped-def]
    """Write the number of shards that leave each server by group, with a load of at least `need` (n,)."""
    for i in range(need.size):
        load = 0.0
        for e in range(start[i], start[i + 1]):
            each = loads[group[e]]
            if each > 0.0 and need[i] > 0.0:
                out[e] = min(number[e], np.int64(leaving[e] + _WHOLE))
                load += out[e] * each
        while load < need[i]:
            best, least = -1, np.inf
            for e in range(start[i], start[i + 1]):
                each = loads[group[e]]
                if out[e] < number[e] and each > 0.0:
                    price = sizes[group[e]] / min(each, need[i] - load)
                    if price < least or (price == least and each < loads[group[best]]):
                        best, least = e, price
            if best < 0:
                break
            out[best] += 1
            load += loads[group[best]]


@kernel
def _place(shards, source, loads, sizes, load_on, room, upper, target):  # type: ignore[no-untyped-def]
    """Write the server of each shard; return the group of a new shard that fits nowhere, or -1."""
    for k in range(shards.size):
        g, old, best = shards[k], source[k], -1
        for i in range(load_on.size):
            if i != old and room[i] >= sizes[g] and (best < 0 or load_on[i] < load_on[best]):
                best = i
        if old >= 0 and (best < 0 or (load_on[best] + loads[g] > upper and load_on[old] <= load_on[best])):
            best = old
        if best < 0:
            return g
        target[k] = best
        load_on[best] += loads[g]
        if best != old:
            room[best] -= sizes[g]
            if old >= 0:
                room[old] += sizes[g]
    return -1
