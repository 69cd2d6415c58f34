"""Policies that score every server on which a task fits, and take the best; ties are broken by name.

Fragmentation gradient descent (FGD) chooses the server on which a task increases F least, where F is the
server's mean fragments (:mod:`copter.problems.placement.fragments`):

    score = int(100 sigmoid((F_before - F_after) / 1000)).

If the task requests a share of a GPU, the score is that of the best GPU.

Best fit takes the server with least capacity left after the task, as a mean over CPU and GPUs.  Dot product
takes the server with the least scalar product of free and requested capacity.  GPU packing prefers shares on
GPUs in use, then free GPUs of servers in use, then free servers.  GPU clustering prefers servers whose tasks
all have the task's number of GPUs.

Source: Weng et al. (ATC 2023), sections 4 and 6.1, and the scores of the simulator that they publish.  The
scores are integers as in the simulator, because their ties influence the result as much as the formula.
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
"""Largest score; scores are integers."""


class _Scored(PlacementPolicy):
    """Policies with stored scores; the score of a server for a kind is updated if the server has changed.

    `scores`, `gpus` (kinds, n): score, -1 where a task does not fit; bit set of GPUs that the task would get.
    """

    def __init__(self, servers: Servers, known: Tasks, seed: int = 0) -> None:
        super().__init__(servers, known, seed)
        shape = len(known.kinds), len(servers)
        self.scores, self.gpus = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
        self._changes: list[int] = []  # servers in the order of their changes
        self._seen = [-1] * len(known.kinds)
        self._all = np.arange(len(servers))

    def place(self, kind: int) -> Place | None:
        """Place a task of a kind; return None if it fits nowhere."""
        place = super().place(kind)
        if place is not None:
            self._changes.append(place.server)
        return place

    def leave(self, kind: int, place: Place) -> None:
        """Free the capacity of a task."""
        super().leave(kind, place)
        self._changes.append(place.server)

    def choose(self, kind: int) -> Place | None:
        """Return the place with the best score."""
        seen, self._seen[kind] = self._seen[kind], len(self._changes)
        changed = self._all if seen < 0 else np.unique(np.array(self._changes[seen:], np.int64))
        if changed.size:
            self.score(kind, changed)
        return self.best(kind)

    def best(self, kind: int) -> Place | None:
        """Return the first place with the best score; None if a task of the kind fits nowhere."""
        server = int(self.scores[kind].argmax())
        if self.scores[kind, server] < 0:
            return None
        return Place(server, int(self.gpus[kind, server]))

    def score(self, kind: int, servers: Ints) -> None:
        """Compute the scores of some servers for a kind."""
        _fit(self.free, self.fleet, kind, servers, self.scores[kind], self.gpus[kind])
        fit = servers[self.scores[kind, servers] >= 0]
        if fit.size:
            self.scores[kind, fit] = self.value(kind, fit)

    @abstractmethod
    def value(self, kind: int, servers: Ints) -> Ints:
        """Return the scores, 0 or more, of some servers on which a task of a kind fits."""


class Random(_Scored):
    """A random server on which a task fits, and a random GPU with enough capacity."""

    def value(self, kind: int, servers: Ints) -> Ints:
        """Return equal scores."""
        return np.zeros(servers.size, np.int64)

    def best(self, kind: int) -> Place | None:
        """Return a random place."""
        fit = np.flatnonzero(self.scores[kind] >= 0)
        if not fit.size:
            return None
        server = int(fit[self.rng.integers(fit.size)])
        if self.fleet.gpus[kind] != 1:
            return Place(server, int(self.gpus[kind, server]))
        enough = np.flatnonzero(self.free.gpus[server] >= self.fleet.milli[kind])
        return Place(server, 1 << int(enough[self.rng.integers(enough.size)]))


class BestFit(_Scored):
    """Least capacity left: the mean of CPU and GPUs, each relative to the largest server."""

    def value(self, kind: int, servers: Ints) -> Ints:
        """Return scores by the capacity that would be left."""
        asked = self.fleet.gpus[kind] * self.fleet.milli[kind]
        cpu = (self.free.cpu[servers] - self.fleet.cpu[kind]) / self.most.cpu
        gpu = (self.free.gpus[servers].sum(axis=1) - asked) / self.most.gpus
        return ((1.0 - 0.5 * cpu - 0.5 * gpu) * _BEST).astype(np.int64)


class DotProduct(_Scored):
    """Least scalar product of free and requested CPU and GPUs."""

    def value(self, kind: int, servers: Ints) -> Ints:
        """Return scores by the scalar product."""
        most, asked = self.most, self.fleet.gpus[kind] * self.fleet.milli[kind]
        cpu = self.free.cpu[servers] / most.cpu * (self.fleet.cpu[kind] / most.cpu)
        gpu = self.free.gpus[servers].sum(axis=1) / most.gpus * (asked / most.gpus)
        return ((1.0 - 0.5 * cpu - 0.5 * gpu) * _BEST).astype(np.int64)


class GpuPacking(_Scored):
    """Shares on GPUs in use first, then free GPUs of servers in use, then free servers."""

    def value(self, kind: int, servers: Ints) -> Ints:
        """Return scores by the number of GPUs that a task would begin to use."""
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
    """Servers whose tasks all have the task's number of GPUs come first."""

    def __init__(self, servers: Servers, known: Tasks, seed: int = 0) -> None:
        super().__init__(servers, known, seed)
        names = sorted({kind.group for kind in known.kinds if kind.gpus})
        self._group = [names.index(kind.group) if kind.gpus else -1 for kind in known.kinds]
        self._tasks = np.zeros((len(servers), max(len(names), 1)), np.int64)  # by server and group

    def place(self, kind: int) -> Place | None:
        """Place a task of a kind; return None if it fits nowhere."""
        place = super().place(kind)
        if place is not None and self._group[kind] >= 0:
            self._tasks[place.server, self._group[kind]] += 1
        return place

    def leave(self, kind: int, place: Place) -> None:
        """Free the capacity of a task."""
        super().leave(kind, place)
        if self._group[kind] >= 0:
            self._tasks[place.server, self._group[kind]] -= 1

    def value(self, kind: int, servers: Ints) -> Ints:
        """Return scores by the groups of tasks on a server, then by its capacity in use."""
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
        """Return each server's score: the fragments that a task adds; a share of a GPU is on the best one."""
        scores = np.empty(servers.size, np.int64)
        _score_fragments(
            self.free, self.fleet, self._types, kind, servers, self._left, scores, self.gpus[kind]
        )
        return scores


@kernel
def _fit(free: Free, fleet: Fleet, kind: int, servers: Ints, scores: Ints, gpus: Ints) -> None:
    """Set the score to 0 where a task fits, else to -1, and set the GPUs that the task would get."""
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
