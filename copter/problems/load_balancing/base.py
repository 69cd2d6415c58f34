"""Balancer: base class of the domains of load balancing."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints
from copter.problems.load_balancing.outcome import (
    BalancingRound,
    LoadBalancingError,
    amount,
    imbalance,
    in_band,
)
from copter.problems.load_balancing.replicas import SLACK
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacement
from copter.rounds.events import EventDomain, event


class Balancer(EventDomain):
    """Base class of domains of load balancing: shards, or groups of them, with loads and sizes."""

    what: ClassVar[str] = "shard"
    """Word for what is balanced, in messages."""

    def __init__(self, tolerance: float) -> None:
        self.number = 0
        self.tolerance = tolerance
        self._servers: Collection[Hashable] = ()
        self._names: list[Hashable] = []
        self._place: dict[Hashable, int] = {}
        self._loads, self._sizes, self._memory = np.empty(0), np.empty(0), np.empty(0)

    @property
    def tolerance(self) -> float:
        """Largest deviation of a server's load from the mean, relative to the mean."""
        return self._tolerance

    @tolerance.setter
    def tolerance(self, value: float) -> None:
        if not 0 < value < 1:
            raise LoadBalancingError(f"tolerance = {value!r}: must be between 0 and 1, for example 0.05")
        self._tolerance = float(value)

    @property
    def servers(self) -> list[Hashable]:
        """Ids of the servers."""
        return list(self._servers)

    @property
    def memory(self) -> Floats:
        """Memory of the servers (n,)."""
        return self._memory

    @property
    def numbers(self) -> Ints:
        """Number of shards of each id (k,): 1 for a shard, more for a group."""
        return np.ones(len(self._names), np.int64)

    def fleet(self) -> ShardFleet:
        """Return shards and servers for the shim and the baselines; later events do not affect the result."""
        raise NotImplementedError

    def used(self, placement: ShardPlacement) -> Floats:
        """Return the memory that a placement uses of each server."""
        raise NotImplementedError

    @event
    def set_loads(self, loads: Mapping[Hashable, float] | ArrayLike) -> None:
        """Change the loads of the named shards, or of all shards, in the order in which they were added.

        The load of a group is the load of each of its shards. If an argument is invalid, no load changes.

        Raises
        ------
        LoadBalancingError
            There is no such shard, a load is negative or not finite, or the array has another length.
        """
        fresh = self._loads.copy()
        if isinstance(loads, Mapping):
            where = [self._index(name) for name in loads]
            fresh[where] = self._amounts("load", [*loads.values()], [*loads])
        else:
            fresh[:] = self._amounts("load", np.atleast_1d(loads), self._names)
        self._loads = fresh

    def answer(self, placement: ShardPlacement, cost: float, bound: float, **own: Any) -> BalancingRound:
        """Return a placement as the answer of this round, with the figures that follow from it.

        `own`: the other fields of the answer.
        """
        fleet, used = self.fleet(), self.used(placement)
        ratio, some = imbalance(fleet, placement), fleet.memory > 0
        return BalancingRound(
            number=self.number,
            placement=placement,
            cost=cost,
            imbalance=ratio,
            balanced=ratio <= 2.0 * fleet.tolerance + 1e-9,
            in_band=in_band(fleet, placement),
            memory=float((used[some] / fleet.memory[some]).max(initial=0.0)),
            bound=bound,
            gap=(cost - bound) / max(self.numbers @ self._sizes / self.numbers.sum() or 1.0, cost),
            **own,
        )

    def figures(self, answer: BalancingRound) -> dict[str, float]:
        """Return the figures of a round for reports."""
        return answer.figures

    def violations(self, answer: BalancingRound) -> Iterator[str]:
        """Yield servers whose memory is exceeded, and shards that are not fully served."""
        yield from self._violated(answer.placement)

    def _violated(self, placement: ShardPlacement) -> Iterator[str]:
        fleet, used = self.fleet(), self.used(placement)
        served = np.bincount(placement.shard, placement.share, fleet.loads.size)
        for i in np.flatnonzero(used > fleet.memory * (1.0 + SLACK)).tolist():
            why = f"memory used = {used[i]:g}: must be at most {fleet.memory[i]:g}"
            yield f"server {self.servers[i]!r}: {why}"
        for j in np.flatnonzero(abs(served - 1.0) > 1e-9).tolist():
            yield f"{self.what} {self._names[j]!r}: served = {served[j]:.1%}: must be 100%"

    def check(self) -> None:
        """Raise an error if there is nothing to balance, or the servers cannot hold the shards."""
        if not self._servers or not self._names:
            why = f"needs at least one server and one {self.what}; add them"
            raise LoadBalancingError(f"round: {why}")
        memory, numbers = self.memory * (1 + SLACK), self.numbers
        largest = int(self._sizes.argmax())
        size, needed = float(self._sizes[largest]), float(numbers @ self._sizes)
        if size > memory.max():
            why = f"size = {size:g}: must be at most {memory.max():g}, the largest memory"
            raise LoadBalancingError(f"{self.what} {self._names[largest]!r}: {why}")
        if needed > memory.sum():
            raise LoadBalancingError(
                f"shards: size = {needed:g}: must be at most {memory.sum():g}, all memory"
            )
        most = (memory // size).sum() if size > 0.0 else math.inf
        if (self._sizes == size).all() and numbers.sum() > most:
            why = f"must be at most {most:g}, which fit on the servers"
            raise LoadBalancingError(f"shards: number = {numbers.sum()}: {why}")

    def _known_server(self, server: Hashable) -> Hashable:
        if server not in self._servers:
            raise LoadBalancingError(f"server {server!r}: must exist; add it")
        return server

    def _new_memory(self, server: Hashable, memory: float) -> float:
        """Return the memory of a new server."""
        if not isinstance(server, Hashable):
            raise LoadBalancingError(f"server {server!r}: must be hashable")
        if server in self._servers:
            raise LoadBalancingError(f"server {server!r}: must not exist yet")
        return amount(f"server {server!r}: memory", memory)

    def _index(self, name: Hashable) -> int:
        if name not in self._place:
            raise LoadBalancingError(f"{self.what} {name!r}: must exist; add it")
        return self._place[name]

    def _amounts(self, field: str, given: ArrayLike, names: Sequence[Hashable]) -> Floats:
        """Return finite, nonnegative numbers (k,), one for each name."""
        k = len(names)
        try:
            values = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            several = isinstance(given, Sequence) and not isinstance(given, str)
            for name, value in zip(names, given if several else [given] * k, strict=False):  # type: ignore[arg-type]
                amount(f"{self.what} {name!r}: {field}", value)  # type: ignore[arg-type]
            raise
        if values.shape not in ((), (k,)):
            raise LoadBalancingError(f"{field}: shape = {values.shape}: must be () or ({k},)")
        numbers = np.broadcast_to(values, k)
        bad = ~((numbers >= 0) & np.isfinite(numbers))
        if bad.any():
            worst = int(bad.argmax())
            amount(f"{self.what} {names[worst]!r}: {field}", float(numbers[worst]))
        return numbers

    def _check_new(self, names: Sequence[Hashable]) -> None:
        seen = set[Hashable]()
        for name in names:
            if name in self._place or name in seen:
                raise LoadBalancingError(f"{self.what} {name!r}: must be new, and given once")
            seen.add(name)

    def _append(self, names: Sequence[Hashable], loads: Floats, sizes: Floats) -> None:
        self._place.update(zip(names, range(len(self._names), len(self._names) + len(names)), strict=True))
        self._names.extend(names)
        self._loads, self._sizes = np.append(self._loads, loads), np.append(self._sizes, sizes)

    def _delete(self, name: Hashable) -> int:
        """Delete a shard, and return the number that it had."""
        gone = self._index(name)
        del self._names[gone]
        self._place = dict(zip(self._names, range(len(self._names)), strict=True))
        self._loads, self._sizes = np.delete(self._loads, gone), np.delete(self._sizes, gone)
        return gone
