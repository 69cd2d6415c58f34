"""Packing of shards on servers, each on one, by branch and bound.

One replica of each shard is placed in the memory of the servers. Shards of the same size are interchangeable,
so the program counts them:

    minimise    sum_gi s_g m_gi                     size of moved shards
    subject to  sum_i n_gi = shards of size s_g,    m_gi >= n_gi - shards of that size that are on i
                sum_g s_g n_gi <= memory of i,      n_gi >= 0 integral

Its branch and bound (HiGHS, called by scipy) finds a packing, proves that none exists, or reaches the time
limit.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, eye_array, kron

from copter.arrays import Ints
from copter.clock import time_left
from copter.problems.load_balancing.outcome import LoadBalancingError
from copter.problems.load_balancing.replicas import SLACK
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacement

_SECONDS = 10.0
_GAP = 0.1
_INFEASIBLE = 2


def packed(fleet: ShardFleet, last: ShardPlacement, shard: Hashable) -> ShardPlacement:
    """Return a new packing with one server per shard, after no place for a shard was found.

    `last`: shards stay where their largest share is if possible. Branch and bound has 10 seconds, or what is
    left of the round. Raise LoadBalancingError, with the shard, if it finds no packing.
    """
    seconds = min(_SECONDS, time_left())
    found, impossible = _pack(fleet, last, seconds)
    if found is not None:
        return found
    totals = f"shards: total size = {fleet.sizes.sum():g}, total memory = {fleet.memory.sum():g}"
    if impossible:
        why = "no packing on the servers exists (proven by branch and bound)"
    else:
        why = f"found no packing by moving replicas or in {seconds:.3g} s of branch and bound"
    raise LoadBalancingError(f"shard {shard!r}: must fit in the memory of a server: {why}; {totals}")


def _pack(fleet: ShardFleet, last: ShardPlacement, seconds: float) -> tuple[ShardPlacement | None, bool]:
    """Return a placement of each shard on one server, found in `seconds`, and whether none exists."""
    k, n = fleet.loads.size, fleet.memory.size
    home = np.full(k, -1)
    order = np.argsort(last.share, kind="stable")
    home[last.shard[order]] = last.server[order]
    sizes, group = np.unique(fleet.sizes / fleet.unit_size, return_inverse=True)
    g = sizes.size
    there = home >= 0
    old = np.bincount(group[there] * n + home[there], minlength=g * n)
    alike, on = kron(eye_array(g), np.ones((1, n))), kron(sizes[None, :], eye_array(n))
    rows = block_array([[alike, None], [on, None], [eye_array(g * n), -eye_array(g * n)]], format="csr")
    counts = np.bincount(group, minlength=g).astype(float)
    lower = np.concatenate((counts, np.full(n + g * n, -np.inf)))
    upper = np.concatenate((counts, fleet.memory / fleet.unit_size, old))
    found = milp(
        np.concatenate((np.zeros(g * n), np.repeat(sizes, n))),
        integrality=np.repeat([1, 0], g * n),
        bounds=Bounds(0.0, np.inf),
        constraints=LinearConstraint(rows, lower, upper),
        options={"time_limit": seconds, "mip_rel_gap": _GAP},
    )
    if found.x is None:
        return None, found.status == _INFEASIBLE
    server = _assign(np.round(found.x[: g * n]).astype(np.int64).reshape(g, n), group, home)
    used = np.bincount(server, fleet.sizes, n)
    if (used > fleet.memory * (1 + SLACK)).any():
        return None, False
    return ShardPlacement(np.arange(k), server, np.ones(k)), False


def _assign(counts: Ints, group: Ints, home: Ints) -> Ints:
    """Return the server of each shard: its present one while that takes shards of its size, or another."""
    left, server = counts.copy(), np.full(group.size, -1)
    for shard in np.flatnonzero(home >= 0):
        if left[group[shard], home[shard]] > 0:
            server[shard] = home[shard]
            left[group[shard], home[shard]] -= 1
    for size in range(left.shape[0]):
        waiting = np.flatnonzero((group == size) & (server < 0))
        server[waiting] = np.repeat(np.arange(left.shape[1]), left[size])
    return server
