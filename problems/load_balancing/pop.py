"""POP-k: servers and shards split into k parts at random, each part solved exactly and by itself.

The split is made once and kept: a new one would move every shard.  Each part balances its servers around its
own mean, which is where the imbalance of all comes from.  Large clients are split: a shard, or a piece of
one, with more load than a server's mean is halved until it has not; the halves go to parts at random and
stay pieces from then on.  A piece counts its own part of the load (POP's code counts all of it in each part).

Source: Narayanan et al., "Solving large-scale granular resource allocation problems efficiently with POP"
(SOSP 2021); section 5.2.1 of the thesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.problems.load_balancing.milp import Exact, solve_exact
from copter.problems.load_balancing.spread import Fleet, Placement
from copter.spreading.tasks import Here, Spread, Task

_LEAST_SHARE = 1e-9


@dataclass(frozen=True)
class Parts:
    """What the parts of a round came to.

    Attributes
    ----------
    answers : list of Exact
        One a part.
    unanswered : int
        Parts without a placement (in time, or at all): theirs stayed as it was, or all did if that exceeded
        the memory of a server.
    seconds : float
        Until all answers were here.
    """

    placement: Placement
    answers: list[Exact]
    unanswered: int
    seconds: float


class _Place(NamedTuple):
    """Where the shards and servers of a part are in all."""

    shards: NDArray[np.int64]
    servers: NDArray[np.int64]
    weight: NDArray[np.float64]
    before: Placement

    def carried(self, exact: Exact) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Shards, servers and shares of the part's answer; without one those of before."""
        found = self.before if exact.placement is None else exact.placement
        return self.shards[found.shard], self.servers[found.server], found.share * self.weight[found.shard]


class Pop:
    """The split, and its pieces.

    Parameters
    ----------
    fleet : Fleet
        Its shards and servers stay the same ones; their loads may change.
    parts : int
        At most the number of servers.
    spread : Spread, optional
        Where parts are solved; here, one after the other, if not given.
    """

    def __init__(self, fleet: Fleet, parts: int, seed: int, spread: Spread | None = None) -> None:
        k, n = fleet.loads.size, fleet.memory.size
        if not 1 <= parts <= n:
            raise ValueError(f"{parts} parts of {n} servers: there must be between 1 and {n}")
        self._rng = np.random.default_rng(seed)
        self.parts = parts
        self._spread = spread or Here()
        self._part_of_server = self._rng.permutation(np.arange(n) % parts)
        self._shard = np.arange(k)
        self._weight = np.ones(k)
        self._part = self._rng.permutation(np.arange(k) % parts)

    def solve(
        self,
        fleet: Fleet,
        last: Placement,
        *,
        mip_gap: float,
        deadline: float | None = None,
        threads: int | None = 1,
    ) -> Parts:
        """Solve each part.

        Parameters
        ----------
        fleet : Fleet
            The shards and servers that were split, with the loads of now.
        mip_gap : float
            Relative gap at which each part stops.
        deadline : float, optional
            Seconds of each part: they could run side by side.
        threads : int, optional
            Of each part.
        """
        self._split(fleet)
        n = fleet.memory.size
        solve = partial(solve_exact, mip_gap=mip_gap, deadline=deadline, threads=threads)
        places: list[_Place] = []
        tasks: list[Task] = []
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
            before = Placement(index[last.shard[here]], position[last.server[here]], last.share[here])
            own = Fleet(
                fleet.loads[shards] * weight, fleet.sizes[shards], fleet.memory[servers], fleet.tolerance
            )
            places.append(_Place(shards, servers, weight, before))
            tasks.append(Task(f"part {part}", solve, (own, before)))
        begin = perf_counter()
        answers: list[Exact] = [ended.result() for ended in self._spread.each(tasks)]
        seconds = perf_counter() - begin
        unanswered = sum(exact.placement is None for exact in answers)
        carried = [place.carried(exact) for place, exact in zip(places, answers, strict=True)]
        placement = _joined(fleet, last, carried)
        used = np.bincount(placement.server, fleet.sizes[placement.shard], n)
        if unanswered and (used > fleet.memory * (1 + 1e-9)).any():
            placement = last  # shards of a part without an answer are in the way of other parts'
        return Parts(placement, answers, unanswered, seconds)

    def _split(self, fleet: Fleet) -> None:
        while True:
            large = np.flatnonzero(fleet.loads[self._shard] * self._weight > fleet.mean * (1 + 1e-9))
            if not large.size or self.parts == 1:
                return
            self._weight[large] /= 2.0
            self._shard = np.append(self._shard, self._shard[large])
            self._weight = np.append(self._weight, self._weight[large])
            self._part = np.append(self._part, self._rng.integers(self.parts, size=large.size))

    def _shards_of(self, part: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Shards with a piece in a part, and how much of each."""
        mine = self._part == part
        shards = np.unique(self._shard[mine])
        return shards, np.bincount(self._shard[mine], self._weight[mine])[shards]


def _joined(
    fleet: Fleet,
    last: Placement,
    carried: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]],
) -> Placement:
    """One placement of all parts'; a shard that nobody serves stays where it was."""
    k, n = fleet.loads.size, fleet.memory.size
    shard, server, share = (np.concatenate(arrays) for arrays in zip(*carried, strict=True))
    served = np.bincount(shard, share, k) > _LEAST_SHARE
    left = ~served[last.shard]
    keys = np.concatenate((shard * n + server, last.keys(n)[left]))
    keys, where = np.unique(keys, return_inverse=True)
    share = np.bincount(where, np.concatenate((share, last.share[left])))
    total = np.bincount(keys // n, share, k)
    return Placement(keys // n, keys % n, share / total[keys // n])
