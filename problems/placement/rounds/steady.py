"""A full cluster of any size with arriving and leaving tasks, drawn from lists of servers and tasks.

Servers are drawn from a list with replacement.  Each is filled with tasks, drawn with replacement, until a
number of consecutive tasks do not fit.  More tasks wait.  Before each round a share of the running tasks,
drawn uniformly, leaves, and as many tasks arrive.  So the load stays above the capacity, and a round decides
which tasks get the capacity of those that left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Ints
from copter.compile.kernels import kernel
from copter.problems.placement.occupancy import Fleet, Free, fits, take, tightest
from copter.problems.placement.rounds.rounds import GAP
from copter.problems.placement.servers import Servers
from copter.problems.placement.tasks import Tasks

_LEAVES = 0.01
"""Share of the running tasks that leaves before each round."""
_WAITS = 0.02
"""Initial number of waiting tasks relative to running ones."""
_FAILURES = 60
_MOST_TASKS = 64


def _drawn_servers(servers: Servers, number: int, rng: np.random.Generator) -> Servers:
    """Return `number` servers, each drawn from a list."""
    drawn = rng.integers(len(servers), size=number)
    width = len(str(number - 1))
    return replace(
        servers,
        names=tuple(f"{one:0{width}d}" for one in range(number)),
        cpu=servers.cpu[drawn],
        memory=servers.memory[drawn],
        gpus=servers.gpus[drawn],
        model=servers.model[drawn],
    )


class _Changing(Protocol):
    """Rounds with arriving and leaving tasks."""

    def submit(self, ids: Sequence[Hashable], kinds: ArrayLike) -> None:
        """Add tasks that wait."""

    def adopt(self, ids: Sequence[Hashable], kinds: ArrayLike, servers: ArrayLike, gpus: ArrayLike) -> None:
        """Add tasks that run already."""

    def finish(self, ids: Iterable[Hashable]) -> None:
        """Remove tasks."""


_R = TypeVar("_R", bound=_Changing)


class Steady(Generic[_R]):
    """Rounds on a cluster that stays full.

    `servers`: list from which servers are drawn. `tasks`: list from which tasks are drawn. `number`: number
    of servers. `gap`: relative gap at which a round ends. `make`: makes the rounds: :class:`PlacementRounds`,
    or :class:`copter.problems.placement.regions.Regions`.
    """

    def __init__(
        self,
        servers: Servers,
        tasks: Tasks,
        number: int,
        *,
        gap: float = GAP,
        seed: int = 0,
        make: Callable[..., _R],
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self.tasks, self._next = tasks, 0
        drawn = _drawn_servers(servers, number, self._rng)
        self.rounds: _R = make(drawn, tasks.kinds, gap=gap)
        self._runs = np.arange(self._fill(drawn))
        self._change = max(1, round(_LEAVES * self._runs.size))
        self._come(round(_WAITS * self._runs.size))

    def _fill(self, drawn: Servers) -> int:
        """Fill the servers; return the number of running tasks."""
        draws = self._draw(_MOST_TASKS * len(drawn))
        kinds, servers, gpus = (np.empty(draws.size, np.int64) for _ in range(3))
        fleet = Fleet.of(drawn, self.tasks)
        n = _fill(Free.of(drawn), fleet, draws, kinds, servers, gpus)
        self.rounds.adopt(range(n), kinds[:n], servers[:n], gpus[:n])
        self._next = n
        return n

    def _draw(self, number: int) -> Ints:
        return self.tasks.kind[self._rng.integers(len(self.tasks), size=number)]

    def _come(self, number: int) -> None:
        self.rounds.submit(range(self._next, self._next + number), self._draw(number))
        self._next += number

    def change(self) -> int:
        """Remove random running tasks and submit as many; return their number."""
        leave = self._rng.permutation(self._runs.size)[: self._change]
        self.rounds.finish(self._runs[leave].tolist())
        self._runs = np.delete(self._runs, leave)
        self._come(self._change)
        return self._change

    def placed(self, ids: Iterable[Any]) -> None:
        """Record that tasks run now."""
        self._runs = np.concatenate([self._runs, np.fromiter(ids, np.int64)])


@kernel
def _fill(free: Free, fleet: Fleet, draws: Ints, kinds: Ints, servers: Ints, gpus: Ints) -> int:
    """Place draws on one server after another; return the number of placed tasks."""
    placed = at = 0
    for server in range(free.cpu.size):
        failures = tasks = 0
        while failures < _FAILURES and tasks < _MOST_TASKS:
            kind = draws[at % draws.size]
            at += 1
            if fits(free, fleet, kind, server):
                bits = tightest(free.gpus[server], fleet.milli[kind], fleet.gpus[kind])
                take(free, fleet, kind, server, bits, 1)
                kinds[placed], servers[placed], gpus[placed] = kind, server, bits
                placed, tasks = placed + 1, tasks + 1
            else:
                failures += 1
    return placed
