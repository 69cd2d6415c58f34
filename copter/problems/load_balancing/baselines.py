"""Methods of balancing without the program of :mod:`.balancer`: POP-k, branch and bound, and a heuristic.

POP-k (:class:`ShardPop`) splits servers and shards into k parts at random, and solves each part exactly and
separately.  The split is made once and kept, because a new one would move every shard.  Each part balances
its servers around its own mean, which causes the overall imbalance.  Large clients are split: a shard, or a
piece of one, with more load than a server's mean is halved until it has less.  The halves go to parts at
random, and remain pieces in later rounds.  A piece counts its own part of the load (POP's code counts the
whole load in each part).

Source: Narayanan et al., "Solving large-scale granular resource allocation problems efficiently with POP"
(SOSP 2021); section 5.2.1 of the thesis.

The exact problem (:func:`solve_exact`) is that of :mod:`.balancer` with shares R, replicas X and the
constraint R <= X, by HiGHS' branch and bound.

The heuristic of E-Store (:func:`greedy`) moves whole shards.  While the load of the most loaded server is
above L (1 + tolerance), its hottest shard whose move keeps the least loaded server within L (1 + tolerance),
and within its memory, goes to that server.  A server without such a shard keeps its shards, because shards
are never split.

Source: Taft et al., "E-Store" (VLDB 2014), as in the code of POP (Narayanan et al., SOSP 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_matrix

from copter.arrays import Floats, Ints
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacement
from copter.solvers.base import Stopwatch
from copter.solvers.milp import MilpAnswer, MilpEffort, run_milp
from copter.store.compiled import CompiledProgram

_LEAST_SHARE = 1e-9
_LEAST_EXACT_SHARE = 1e-7


@dataclass(frozen=True)
class Parts:
    """Results of the parts of a round.

    `answers`: one for each part. `unanswered`: number of parts without a placement in time. Such parts keep
    their last placements. If a server's memory would be exceeded otherwise, all parts keep them.
    """

    placement: ShardPlacement
    answers: list[Exact]
    unanswered: int


class _Place(NamedTuple):
    """Indices of a part's shards and servers among all."""

    shards: Ints
    servers: Ints
    weight: Floats
    before: ShardPlacement

    def carried(self, exact: Exact) -> tuple[Ints, Ints, Floats]:
        """Return the answer's shards, servers and shares; without an answer, the last ones."""
        found = self.before if exact.placement is None else exact.placement
        return self.shards[found.shard], self.servers[found.server], found.share * self.weight[found.shard]


class ShardPop:
    """Split of servers and shards into parts, with pieces of large shards.

    `fleet`: servers and shards, which stay the same; loads may change. `parts`: at most the number of
    servers.
    """

    def __init__(self, fleet: ShardFleet, parts: int, seed: int) -> None:
        k, n = fleet.loads.size, fleet.memory.size
        if not 1 <= parts <= n:
            raise ValueError(f"parts = {parts}: must be from 1 to {n}, the number of servers")
        self._rng = np.random.default_rng(seed)
        self.parts = parts
        self._part_of_server = self._rng.permutation(np.arange(n) % parts)
        self._shard = np.arange(k)
        self._weight = np.ones(k)
        self._part = self._rng.permutation(np.arange(k) % parts)

    def solve(
        self,
        fleet: ShardFleet,
        last: ShardPlacement,
        *,
        mip_gap: float,
        time_limit: float | None = None,
    ) -> Parts:
        """Solve each part.

        `fleet`: the shards and servers of the split, with present loads. `mip_gap`: relative gap at which
        each part stops. `time_limit`: seconds for each part, since parts could run in parallel.
        """
        self._split(fleet)
        n = fleet.memory.size
        solve = partial(solve_exact, mip_gap=mip_gap, time_limit=time_limit, threads=1)
        places: list[_Place] = []
        parts: list[tuple[ShardFleet, ShardPlacement]] = []
        for part in range(self.parts):
            servers = np.flatnonzero(self._part_of_server == part)
            shards, weight = self._shards_of(part)
            if not shards.size:
                continue
            position = np.full(n, -1)
            position[servers] = np.arange(servers.size)
            index = np.full(fleet.loads.size, -1)
            index[shards] = np.arange(shards.size)
            here = (index[last.shard] >= 0) & (position[last.server] >= 0)
            before = ShardPlacement(index[last.shard[here]], position[last.server[here]], last.share[here])
            own = ShardFleet(
                fleet.loads[shards] * weight, fleet.sizes[shards], fleet.memory[servers], fleet.tolerance
            )
            places.append(_Place(shards, servers, weight, before))
            parts.append((own, before))
        answers = [solve(*part) for part in parts]
        unanswered = sum(exact.placement is None for exact in answers)
        carried = [place.carried(exact) for place, exact in zip(places, answers, strict=True)]
        placement = _joined(fleet, last, carried)
        used = np.bincount(placement.server, fleet.sizes[placement.shard], n)
        if unanswered and (used > fleet.memory * (1 + 1e-9)).any():
            placement = last  # shards of a part without an answer take memory that other parts use
        return Parts(placement, answers, unanswered)

    def _split(self, fleet: ShardFleet) -> None:
        while True:
            large = np.flatnonzero(fleet.loads[self._shard] * self._weight > fleet.mean * (1 + 1e-9))
            if not large.size or self.parts == 1:
                return
            self._weight[large] /= 2.0
            self._shard = np.append(self._shard, self._shard[large])
            self._weight = np.append(self._weight, self._weight[large])
            self._part = np.append(self._part, self._rng.integers(self.parts, size=large.size))

    def _shards_of(self, part: int) -> tuple[Ints, Floats]:
        """Return the shards with a piece in a part, and the size of the pieces."""
        mine = self._part == part
        shards = np.unique(self._shard[mine])
        return shards, np.bincount(self._shard[mine], self._weight[mine])[shards]


def _joined(
    fleet: ShardFleet, last: ShardPlacement, carried: list[tuple[Ints, Ints, Floats]]
) -> ShardPlacement:
    """Return one placement from those of the parts; a shard that no part serves is kept in place."""
    k, n = fleet.loads.size, fleet.memory.size
    shard, server, share = (np.concatenate(arrays) for arrays in zip(*carried, strict=True))
    served = np.bincount(shard, share, k) > _LEAST_SHARE
    left = ~served[last.shard]
    keys = np.concatenate((shard * n + server, last.keys(n)[left]))
    keys, where = np.unique(keys, return_inverse=True)
    share = np.bincount(where, np.concatenate((share, last.share[left])))
    total = np.bincount(keys // n, share, k)
    return ShardPlacement(keys // n, keys % n, share / total[keys // n])


@dataclass(frozen=True)
class Exact:
    """Answer of branch and bound.

    `placement`: None if branch and bound found none in time. `bound`: lower bound on the cost.
    """

    placement: ShardPlacement | None
    bound: float
    found: MilpAnswer
    effort: MilpEffort


def solve_exact(
    fleet: ShardFleet,
    last: ShardPlacement,
    *,
    mip_gap: float = 1e-4,
    time_limit: float | None = None,
    threads: int | None = None,
) -> Exact:
    """Return the placement of least cost by branch and bound."""
    watch = Stopwatch()
    program = _formulate(fleet, last)
    found, effort = run_milp(
        program, program.integrality, mip_gap=mip_gap, time_limit=time_limit, threads=threads, watch=watch
    )
    placement = None if found.x is None else _read(fleet, found.x)
    return Exact(placement, max(found.bound * fleet.unit_size, 0.0), found, effort)


def _formulate(fleet: ShardFleet, last: ShardPlacement) -> CompiledProgram:
    """Return the model: columns R by shard, then server, then X; loads and sizes in units of their means."""
    k, n = fleet.loads.size, fleet.memory.size
    loads, sizes = fleet.loads / (fleet.mean or 1.0), fleet.sizes / fleet.unit_size
    pairs = np.arange(k * n)
    shard, server = pairs // n, pairs % n
    costs = sizes[shard]
    costs[last.keys(n)] = 0.0
    load_row, memory_row, link_row = k + server, k + n + server, k + 2 * n + pairs
    ones = np.ones(k * n)
    row = np.concatenate((shard, load_row, link_row, memory_row, link_row))
    column = np.concatenate((pairs, pairs, pairs, pairs + k * n, pairs + k * n))
    value = np.concatenate((ones, loads[shard], ones, sizes[shard], -ones))
    rows = k + 2 * n + k * n
    matrix = csc_matrix((value, (row, column)), (rows, 2 * k * n))
    lower, upper = fleet.inner_band if fleet.mean > 0 else (0.0, math.inf)
    row_lower = np.concatenate((np.ones(k), np.full(n, lower), np.full(n + k * n, -math.inf)))
    memory = fleet.memory / fleet.unit_size
    row_upper = np.concatenate((np.ones(k), np.full(n, upper), memory, np.zeros(k * n)))
    return CompiledProgram(
        c=np.concatenate((np.zeros(k * n), costs)),
        lower=np.zeros(2 * k * n),
        upper=np.ones(2 * k * n),
        A=matrix,
        row_lower=row_lower,
        row_upper=row_upper,
        integrality=np.repeat([False, True], k * n),
    )


def _read(fleet: ShardFleet, x: Floats) -> ShardPlacement:
    """Return the placement of an answer: its shares, without those below the zero tolerance."""
    k, n = fleet.loads.size, fleet.memory.size
    share = x[: k * n] * (x[k * n :] > 0.5)
    keys = np.flatnonzero(share > _LEAST_EXACT_SHARE)
    shard, amount = keys // n, share[keys]
    return ShardPlacement(shard, keys % n, amount / np.bincount(shard, amount, k)[shard])


def greedy(fleet: ShardFleet, last: ShardPlacement) -> ShardPlacement:
    """Return the placement after the heuristic's moves.

    It has one replica of each placed shard; other shards have none.

    `last`: last placement; each shard begins on the server with its largest share. A shard without a replica
    goes to the least loaded server that has memory for it.
    """
    k, n = fleet.loads.size, fleet.memory.size
    limit = fleet.mean * (1.0 + fleet.tolerance)
    server = np.full(k, -1)
    order = np.argsort(last.share, kind="stable")
    server[last.shard[order]] = last.server[order]
    placed = server >= 0
    load = np.bincount(server[placed], fleet.loads[placed], n)
    room = fleet.memory - np.bincount(server[placed], fleet.sizes[placed], n)
    for j in np.flatnonzero(~placed)[np.argsort(-fleet.loads[~placed], kind="stable")]:
        fits = np.flatnonzero(room >= fleet.sizes[j])
        if fits.size:
            server[j] = fits[load[fits].argmin()]
            load[server[j]] += fleet.loads[j]
            room[server[j]] -= fleet.sizes[j]
    stuck = np.zeros(n, bool)
    while not stuck.all():
        most = int(np.where(stuck, -np.inf, load).argmax())
        if load[most] <= limit:
            break
        least = int(load.argmin())
        mine = np.flatnonzero(server == most)
        fits = (load[least] + fleet.loads[mine] <= limit) & (fleet.sizes[mine] <= room[least])
        if not fits.any() or least == most:
            stuck[most] = True
            continue
        j = mine[fits][fleet.loads[mine[fits]].argmax()]
        server[j] = least
        load[most] -= fleet.loads[j]
        load[least] += fleet.loads[j]
        room[most] += fleet.sizes[j]
        room[least] -= fleet.sizes[j]
    served = np.flatnonzero(server >= 0)
    return ShardPlacement(served, server[served], np.ones(served.size))
