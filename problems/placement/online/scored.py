"""Policies that score every server on which a task fits, and take the best; ties go to the first by name.

Fragmentation gradient descent (FGD): a task goes where it adds least to F, a server's mean fragments
(:mod:`copter.problems.placement.fragments`):

    score = int(100 sigmoid((F_before - F_after) / 1000)),

on the GPU, if it asks for a share, that scores best.

Best fit: least left, as a mean over CPU and GPUs.  Dot product: least product of what is free and what is
asked.  GPU packing: shares on GPUs in use, then GPUs of servers in use, then free servers.  GPU clustering:
servers that have tasks with as many GPUs, and only those.

Source: Weng et al. (ATC 2023), sections 4 and 6.1, and the scores of the simulator that they publish: their
integers decide as much as the formula does, by their ties.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from copter.arrays import Ints
from copter.compile.kernels import kernel
from copter.problems.placement.fragments import Types, fragments
from copter.problems.placement.occupancy import Fleet, Free, fits, tightest
from copter.problems.placement.online.policy import PlacementPolicy
from copter.problems.placement.place import Place
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import Tasks

_BEST = 100
"""Scores are whole numbers up to this."""


class _Scored(PlacementPolicy):
    """Scores of all servers for all kinds, kept: a server is scored anew for a kind if it has changed since.

    `scores`, `gpus` (kinds, n): score, -1 where a task does not fit; bits of the GPUs that it would have.
    """

    def __init__(self, servers: Servers, known: Tasks, seed: int = 0) -> None:
        super().__init__(servers, known, seed)
        shape = len(known.kinds), len(servers)
        self.scores, self.gpus = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
        self._changes: list[int] = []  # servers, in order
        self._seen = [-1] * len(known.kinds)
        self._all = np.arange(len(servers))

    def place(self, kind: int) -> Place | None:
        """Place a task of a kind; None if it fits nowhere."""
        place = super().place(kind)
        if place is not None:
            self._changes.append(place.server)
        return place

    def leave(self, kind: int, place: Place) -> None:
        """Give back what a task had."""
        super().leave(kind, place)
        self._changes.append(place.server)

    def choose(self, kind: int) -> Place | None:
        """Return the server that scores best."""
        seen, self._seen[kind] = self._seen[kind], len(self._changes)
        changed = self._all if seen < 0 else np.unique(np.array(self._changes[seen:], np.int64))
        if changed.size:
            self.score(kind, changed)
        return self.best(kind)

    def best(self, kind: int) -> Place | None:
        """Return the first of those that score best, if any does."""
        server = int(self.scores[kind].argmax())
        if self.scores[kind, server] < 0:
            return None
        return Place(server, int(self.gpus[kind, server]))

    def score(self, kind: int, servers: Ints) -> None:
        """Score some servers for a kind."""
        _fit(self.free, self.fleet, kind, servers, self.scores[kind], self.gpus[kind])
        fit = servers[self.scores[kind, servers] >= 0]
        if fit.size:
            self.scores[kind, fit] = self.value(kind, fit)

    @abstractmethod
    def value(self, kind: int, servers: Ints) -> Ints:
        """Return the scores, 0 or more, of some servers on which a task of a kind fits."""


class Random(_Scored):
    """Any server on which a task fits, and any of its GPUs that has enough."""

    def value(self, kind: int, servers: Ints) -> Ints:
        """All are as good."""
        return np.zeros(servers.size, np.int64)

    def best(self, kind: int) -> Place | None:
        """Return one of them."""
        fit = np.flatnonzero(self.scores[kind] >= 0)
        if not fit.size:
            return None
        server = int(fit[self.rng.integers(fit.size)])
        if self.fleet.gpus[kind] != 1:
            return Place(server, int(self.gpus[kind, server]))
        enough = np.flatnonzero(self.free.gpus[server] >= self.fleet.milli[kind])
        return Place(server, 1 << int(enough[self.rng.integers(enough.size)]))


class BestFit(_Scored):
    """Least left: half of it CPU, half GPUs, each over the most that a server has."""

    def value(self, kind: int, servers: Ints) -> Ints:
        """Score by what would be left."""
        asked = self.fleet.gpus[kind] * self.fleet.milli[kind]
        cpu = (self.free.cpu[servers] - self.fleet.cpu[kind]) / self.most.cpu
        gpu = (self.free.gpus[servers].sum(axis=1) - asked) / self.most.gpus
        return ((1.0 - 0.5 * cpu - 0.5 * gpu) * _BEST).astype(np.int64)


class DotProduct(_Scored):
    """Least product of what is free and what is asked, over CPU and GPUs."""

    def value(self, kind: int, servers: Ints) -> Ints:
        """Score by the product."""
        most, asked = self.most, self.fleet.gpus[kind] * self.fleet.milli[kind]
        cpu = self.free.cpu[servers] / most.cpu * (self.fleet.cpu[kind] / most.cpu)
        gpu = self.free.gpus[servers].sum(axis=1) / most.gpus * (asked / most.gpus)
        return ((1.0 - 0.5 * cpu - 0.5 * gpu) * _BEST).astype(np.int64)


class GpuPacking(_Scored):
    """Shares on GPUs in use before free GPUs of servers in use, those before free servers."""

    def value(self, kind: int, servers: Ints) -> Ints:
        """Score by the GPUs that would be begun."""
        if self.fleet.gpus[kind] == 0:
            return np.zeros(servers.size, np.int64)
        left = self.free.gpus[servers]
        taken = (self.gpus[kind, servers, None] >> np.arange(left.shape[1])) & 1
        whole = (left == MILLI).sum(axis=1)
        begun = (taken * (left == MILLI)).sum(axis=1)
        in_use = (taken * (left * 100 // MILLI)).sum(axis=1) // 10
        free_server = np.maximum(_BEST // 3 - whole, whole)
        free_gpus = np.maximum(_BEST // 2 - begun, _BEST // 3)
        shared = np.maximum(_BEST - in_use, _BEST // 2)
        return np.where(whole == self.servers.gpus[servers], free_server, np.where(begun, free_gpus, shared))


class GpuClustering(_Scored):
    """Tasks with as many GPUs beside each other."""

    def __init__(self, servers: Servers, known: Tasks, seed: int = 0) -> None:
        super().__init__(servers, known, seed)
        names = sorted({kind.group for kind in known.kinds if kind.gpus})
        self._group = [names.index(kind.group) if kind.gpus else -1 for kind in known.kinds]
        self._tasks = np.zeros((len(servers), max(len(names), 1)), np.int64)  # of each group on each server

    def place(self, kind: int) -> Place | None:
        """Place a task of a kind; None if it fits nowhere."""
        place = super().place(kind)
        if place is not None and self._group[kind] >= 0:
            self._tasks[place.server, self._group[kind]] += 1
        return place

    def leave(self, kind: int, place: Place) -> None:
        """Give back what a task had."""
        super().leave(kind, place)
        if self._group[kind] >= 0:
            self._tasks[place.server, self._group[kind]] -= 1

    def value(self, kind: int, servers: Ints) -> Ints:
        """Score by the groups there, then by what is in use."""
        if self._group[kind] < 0:
            return np.zeros(servers.size, np.int64)
        there = self._tasks[servers] > 0
        groups, mine = there.sum(axis=1), there[:, self._group[kind]]
        step = np.where(mine, np.where(groups == 1, 3, 2), np.where(groups == 0, 1, 0))
        used = (self.most.gpus - self.free.gpus[servers].sum(axis=1)) * (_BEST // 4) // self.most.gpus
        return step * (_BEST // 4) + used


class Fgd(_Scored):
    """Fragmentation gradient descent."""

    def __init__(self, servers: Servers, known: Tasks, seed: int = 0) -> None:
        super().__init__(servers, known, seed)
        self._types = Types.of(known, servers)
        self._left = np.empty(self.free.gpus.shape[1], np.int64)

    def value(self, kind: int, servers: Ints) -> Ints:
        """Score by the fragments that a task adds, on the GPU that is best."""
        scores = np.empty(servers.size, np.int64)
        _score_fragments(
            self.free, self.fleet, self._types, kind, servers, self._left, scores, self.gpus[kind]
        )
        return scores


@kernel
def _fit(free: Free, fleet: Fleet, kind: int, servers: Ints, scores: Ints, gpus: Ints) -> None:
    """Score 0 where a task fits, -1 elsewhere; and the GPUs that it would have."""
    for server in servers:
        scores[server] = -1
        if fits(free, fleet, kind, server):
            scores[server] = 0
            gpus[server] = tightest(free.gpus[server], fleet.milli[kind], fleet.gpus[kind])


@kernel(inner=True)
def _better(before: float, after: float) -> int:
    return int(_BEST / (1.0 + math.exp((after - before) / 1000.0)))


@kernel
def _score_fragments(
    free: Free, fleet: Fleet, types: Types, kind: int, servers: Ints, left: Ints, scores: Ints, gpus: Ints
) -> None:
    milli = fleet.milli[kind]
    share = fleet.gpus[kind] == 1 and milli < MILLI
    for place in range(servers.size):
        server = servers[place]
        model, cpu = fleet.model[server], free.cpu[server] - fleet.cpu[kind]
        for gpu in range(left.size):
            left[gpu] = free.gpus[server, gpu]
        before = fragments(free.cpu[server], left, model, types)
        if not share:
            for gpu in range(left.size):
                left[gpu] -= milli * ((gpus[server] >> gpu) & 1)
            scores[place] = _better(before, fragments(cpu, left, model, types))
            continue
        scores[place] = -1
        for gpu in range(left.size):
            here, repeated = left[gpu], False
            for other in range(gpu):
                repeated = repeated or left[other] == here
            if here >= milli and not repeated:
                left[gpu] -= milli
                score = _better(before, fragments(cpu, left, model, types))
                left[gpu] = here
                if score > scores[place]:
                    scores[place], gpus[server] = score, 1 << gpu
