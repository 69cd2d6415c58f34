"""Rounding of :mod:`.groups`: whole shards that leave servers, and servers for them.

1. Each server releases whole shards of at least the load that has to leave it. Those of the fraction come
   first, then those with the least size for the load.
2. The released shards, and those without a server, are placed, the largest load first. Each gets the server
   with the least load that has the memory. A shard that would bring every such server above the band returns
   to its own server, if that has less load.
3. While the server with the least load is below the band, it gets shards of the server with the most load, as
   long as both stay within the band.

A shard frees its memory when it is placed elsewhere, so the moves in this order exceed no memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from copter.arrays import Floats, Ints
from copter.compile.kernels import kernel
from copter.problems.load_balancing.replicas import SLACK
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacementError

_ROUNDING = 1e-9
"""Load, relative to the mean of a server, that is a rounding error."""
_WHOLE = 1e-6
"""Distance below a whole number at which an amount counts as that number."""


class Spread(NamedTuple):
    """Shards that get another server: group, old server, -1 without one, and new server (k,)."""

    group: Ints
    source: Ints
    target: Ints

    def change(self, shape: tuple[int, ...]) -> csr_array:
        """Return the changes of the number of shards by server and group."""
        left = np.flatnonzero(self.source >= 0)
        server = np.append(self.source[left], self.target)
        by = np.append(-np.ones_like(left), np.ones_like(self.target))
        return csr_array((by, (server, np.append(self.group[left], self.group))), shape=shape)


def spread(
    fleet: ShardFleet, there: csr_array, waiting: Ints, loads: Floats, leaving: Floats | None
) -> Spread:
    """Return the shards that get another server.

    `there`: number of shards by server and group. `waiting`, `loads` (k,): shards without a server, and load
    of a shard, by group. `leaving`: about how many shards leave a server, for each entry of `there`; None to
    place the shards without a server only. Raise ShardPlacementError if one of them fits on no server.
    """
    n, start, group = len(fleet.memory), there.indptr.astype(np.int64), there.indices.astype(np.int64)
    lower, upper = (bound * fleet.mean for bound in fleet.band)
    out, near = np.zeros(group.size, np.int64), _ROUNDING * fleet.mean
    load_on, room = there @ loads, fleet.memory * (1.0 + SLACK) - there @ fleet.sizes
    owner = np.repeat(np.arange(n), np.diff(start))
    if leaving is not None:
        need = np.maximum(np.bincount(owner, leaving * loads[group], n), load_on - upper) - near
        _release(start, group, there.data, loads, fleet.sizes, leaving, need, out)
        load_on -= np.bincount(owner, out * loads[group], n)
    shards = np.concatenate((np.repeat(group, out), np.repeat(np.arange(loads.size), waiting)))
    source = np.concatenate((np.repeat(owner, out), np.full(int(waiting.sum()), -1)))
    order = np.argsort(-loads[shards], kind="stable")
    shards, source, target = shards[order], source[order], np.empty(shards.size, np.int64)
    stuck = _place(shards, source, loads, fleet.sizes, load_on, room, upper + near, target)
    if stuck >= 0:
        raise ShardPlacementError(int(stuck))
    moved, left, short = [Spread(shards, source, target)], there.data - out, leaving is not None
    while short and load_on.min() < lower - near:
        low, high = int(load_on.argmin()), int(load_on.argmax())
        own = group[start[high] : start[high + 1]]
        most = min(upper - load_on[low], load_on[high] - lower)
        fits = (left[start[high] : start[high + 1]] > 0) & (loads[own] > 0.0) & (loads[own] <= most)
        fits &= fleet.sizes[own] <= room[low]
        price = fleet.sizes[own] / np.clip(loads[own], near, lower - load_on[low])
        best = int(np.where(fits, price, np.inf).argmin()) if own.size else 0
        short = bool(fits.any())
        if short:
            g = own[best]
            left[start[high] + best] -= 1
            load_on[[high, low]] += -loads[g], loads[g]
            room[[high, low]] += fleet.sizes[g], -fleet.sizes[g]
            moved.append(Spread(*np.array([[g], [high], [low]])))
    shards, source, target = (np.concatenate(parts) for parts in zip(*moved, strict=True))
    kept = source != target
    return Spread(shards[kept], source[kept], target[kept])


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
