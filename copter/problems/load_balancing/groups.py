"""GroupBalancer: groups of equal shards on servers, as the number of shards of each group on each server.

Shards of a group have the same load and size, so a group is one object with a count.  Shards are not split or
replicated.  With loads l_g and sizes s_g, n_gi shards of group g on server i, and the band of
:class:`.shim.ShardFleet`, a round moves shards:

    minimise    the total size of the moved shards
    subject to  lower <= load of server i <= upper,  total size on server i <= memory of server i

The size of a moved shard is the same for every target, so the relaxation only decides which load z_gi leaves
server i.  A server must lose its load e_i above the band, and need not lose more than its load f_i above the
lower end of the band.  Servers below the band together lack a load D, which must leave other servers.  A
whole shard with a larger load than e_i covers no more than e_i, so it counts with the load
h_gi = min(l_g, e_i), or with l_g if e_i is 0:

    minimise    sum_gi (s_g / h_gi) z_gi
    subject to  sum_g z_gi + k_i = f_i,   0 <= k_i <= f_i - e_i,   0 <= z_gi <= h_gi n_gi
                sum_gi (l_g / h_gi) z_gi >= D

So a server is a request, and a group on it is a column; k_i is the load above the lower end that it keeps.
The program has a single row.  Shards without a server reduce D by their load.  Their sizes are part of the
cost and of the bound.  The relaxation omits memory, as in :mod:`.balancer`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array, csr_array, hstack, vstack

from copter.arrays import Floats, Ints
from copter.problems.load_balancing.balancer import TOLERANCE
from copter.problems.load_balancing.base import Balancer
from copter.problems.load_balancing.groups_shim import limits, spread
from copter.problems.load_balancing.outcome import BalancingRound, LoadBalancingError
from copter.problems.load_balancing.replicas import SLACK
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacement, ShardPlacementError
from copter.program.program import ContinualProgram
from copter.rounds.events import event
from copter.rounds.record import Move
from copter.solution import Solution, check_found

_LACKING = "lacking"
"""Id of the program's row."""
_LEAST_LOAD = 1e-9
"""Least load e_i that is not 0, relative to the mean of a server."""
_MOST = 100_000_000
"""Largest number of shards of a group, because shards that move are listed one by one."""


class GroupBalancer(Balancer):
    """Groups of equal shards, servers with memory, and the placement of the last round.

    A GroupBalancer is a domain of :class:`copter.Rounds`. The time of a round depends on the number of pairs
    of a group and a server with shards of this group, and on the number of shards that move times the number
    of servers, but not on the number of shards that stay.

    Parameters
    ----------
    tolerance : float
        The most loaded server may have 1 + 2 tolerance times the load of the least loaded one.

    Attributes
    ----------
    program : ContinualProgram
        Program that is solved.
    number : int
        Number of rounds so far.

    Examples
    --------
    >>> from copter.problems.load_balancing import GroupBalancer
    >>> balancer = GroupBalancer()
    >>> for server in ("a", "b"):
    ...     balancer.add_server(server, memory=100)
    >>> balancer.add_group("users", 100, load=3.0, on={"a": 60, "b": 40})
    >>> balancer.add_group("orders", 50, load=2.0, on={"a": 25, "b": 25})
    >>> done = balancer.play()
    >>> done.movements, done.in_band, balancer.shards("users")
    (7, True, {'a': 53, 'b': 47})
    """

    what = "group"

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        super().__init__(tolerance)
        self.program = ContinualProgram()
        self.program.add_resource(_LACKING, lower=0.0, upper=math.inf)
        self._servers: list[Hashable] = []
        self._there = csr_array((0, 0), dtype=np.int64)  # number of shards by server and group
        self._numbers = np.empty(0, np.int64)  # number of shards by group
        self._gain = np.empty(0)  # h_gi of each column of the program; 1 for k_i
        self._prepared: tuple[object, ...] | None = None  # state that the program has

    @property
    def groups(self) -> list[Hashable]:
        """Ids of the groups."""
        return list(self._names)

    @property
    def numbers(self) -> Ints:
        """Number of shards of each group (k,)."""
        return self._numbers

    @property
    def waiting(self) -> Ints:
        """Number of shards without a server of each group (k,)."""
        return self._numbers - self._there.sum(axis=0)

    def fleet(self) -> ShardFleet:
        """Return groups and servers, with the load of all shards of a group and the size of one."""
        return ShardFleet(self.numbers * self._loads, self._sizes, self._memory, self.tolerance)

    def used(self, placement: ShardPlacement) -> Floats:
        """Return the memory that a placement uses of each server."""
        held = placement.share * (self.numbers * self._sizes)[placement.shard]
        return np.bincount(placement.server, held, len(self._servers)).astype(np.float64)

    def shards(self, group: Hashable) -> dict[Hashable, int]:
        """Return the number of a group's shards by server in the last round.

        Raises
        ------
        LoadBalancingError
            There is no such group.
        """
        mine = self._there[:, [self._index(group)]].tocoo()
        return {self._servers[i]: n for i, n in zip(mine.row.tolist(), mine.data.tolist(), strict=True)}

    # ---- events ----------------------------------------------------------------------------------

    @event
    def add_server(self, server: Hashable, memory: float) -> None:
        """Add a server.

        Parameters
        ----------
        memory : float
            Memory in the unit of the shards' sizes.

        Raises
        ------
        LoadBalancingError
            The server exists already, or the memory is negative or not finite.
        """
        self._memory = np.append(self._memory, self._new_memory(server, memory))
        self._there = vstack((self._there, csr_array((1, len(self._names)), dtype=np.int64)), format="csr")
        self._servers.append(server)

    @event
    def remove_server(self, server: Hashable) -> None:
        """Remove a server; the next round places its shards.

        Raises
        ------
        LoadBalancingError
            There is no such server.
        """
        gone = self._servers.index(self._known_server(server))
        keep = np.arange(len(self._servers)) != gone
        self._there, self._memory = self._there[keep], self._memory[keep]
        del self._servers[gone]

    @event
    def add_group(
        self,
        group: Hashable,
        number: int,
        load: float,
        size: float = 1.0,
        on: Mapping[Hashable, int] | None = None,
    ) -> None:
        """Add a group.

        Parameters
        ----------
        number : int
            Number of its shards, at least 1.
        load, size : float
            Load of a shard in any unit, and its size in the unit of the servers' memory.
        on : mapping of server to int, optional
            Shards that are already on servers. The next round places the others.

        Raises
        ------
        LoadBalancingError
            The group exists already, a server does not, or a number is invalid.
        """
        self.add_groups([group], number, load, size, [on or {}])

    @event
    def add_groups(
        self,
        groups: Sequence[Hashable],
        numbers: ArrayLike,
        loads: ArrayLike,
        sizes: ArrayLike = 1.0,
        on: Iterable[Mapping[Hashable, int]] | None = None,
    ) -> None:
        """Add several groups, or none of them if one is invalid.

        Parameters
        ----------
        numbers, loads, sizes : float or (k,) array_like
            As in :meth:`add_group`.
        on : iterable of k mappings, optional
            As in :meth:`add_group`.

        Raises
        ------
        LoadBalancingError
            An argument is invalid; the error names the group, the server or the argument.
        """
        groups = list(groups)
        k, place = len(groups), {server: i for i, server in enumerate(self._servers)}
        self._check_new(groups)
        numbers, loads, sizes = (
            self._amounts(field, given, groups)
            for field, given in (("number", numbers), ("load", loads), ("size", sizes))
        )
        maps: list[Mapping[Hashable, int]] = [{}] * k if on is None else [own or {} for own in on]
        if len(maps) != k:
            raise LoadBalancingError(f"on: length = {len(maps)}: must be {k}")
        for group, own in zip(groups, maps, strict=True):
            if not isinstance(own, Mapping):
                raise LoadBalancingError(f"group {group!r}: on = {own!r}: must have numbers by server")
        for name in {name for own in maps for name in own} - set(place):
            self._known_server(name)
        server = np.array([place[name] for own in maps for name in own], np.int64)
        owner = np.repeat(np.arange(k), [len(own) for own in maps])
        counts = [count for own in maps for count in own.values()]
        there = self._amounts("number on a server", counts, [groups[q] for q in owner.tolist()])
        bad = (np.floor(numbers) != numbers) | (numbers < 1) | (numbers > _MOST)
        bad |= np.bincount(owner, there, k) > numbers
        bad[owner[np.floor(there) != there]] = True
        if bad.any():
            worst = int(bad.argmax())
            why = f"must be whole, at most {_MOST:,}, and at least the number on servers"
            raise LoadBalancingError(
                f"group {groups[worst]!r}: number = {numbers[worst]:g}, on = {maps[worst]!r}: {why}"
            )
        used = self._there @ self._sizes + np.bincount(server, there * sizes[owner], len(place))
        over = used - self._memory * (1.0 + SLACK)
        if over.max(initial=0.0) > 0.0:
            worst = int(over.argmax())
            why = f"shards use {used[worst]:g}: must be at most {self._memory[worst]:g}"
            raise LoadBalancingError(f"server {self._servers[worst]!r}: {why}")
        new = csr_array((there.astype(np.int64), (server, owner)), shape=(len(self._servers), k))
        self._there = hstack((self._there, new), format="csr")
        self._there.eliminate_zeros()
        self._numbers = np.append(self._numbers, numbers.astype(np.int64))
        self._append(groups, loads, sizes)

    @event
    def remove_group(self, group: Hashable) -> None:
        """Remove a group with its shards.

        Raises
        ------
        LoadBalancingError
            There is no such group.
        """
        keep = np.arange(len(self._names)) != self._delete(group)
        self._there, self._numbers = self._there[:, keep], self._numbers[keep]

    # ---- a round ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Turn all events since the last call into edits of the program.

        Raises
        ------
        LoadBalancingError
            There is no server or no group.
        """
        self.check()
        state = self._there, self._numbers, self._loads, self.tolerance
        if self._prepared is not None and all(map(is_, state, self._prepared)):
            return
        fleet, there = self.fleet(), self._there
        lower, upper = limits(fleet)
        load_on = there @ self._loads
        totals, excess = np.maximum(load_on - lower, 0.0), np.maximum(load_on - upper, 0.0)
        lacking = float(np.maximum(lower - load_on, 0.0).sum() - self.waiting @ self._loads)
        width = np.diff(there.indptr)
        load, most = self._loads[there.indices], np.repeat(np.where(excess > 0.0, excess, np.inf), width)
        gain = np.minimum(load, np.maximum(most, _LEAST_LOAD * fleet.mean))
        gain = np.where(gain > 0.0, gain, 1.0)
        keep = there.indptr[:-1]
        self._gain = np.insert(gain, keep, 1.0)
        edit: dict[str, Any] = {
            "costs": np.insert(self._sizes[there.indices] / gain, keep, 0.0),
            "sizes": width + 1,
            "usage": csc_array(np.insert(load / gain, keep, 0.0)[None, :]),
            "upper": np.insert(there.data * gain * (load > 0.0), keep, totals - excess),
            "totals": totals,
        }
        if [*self.program.request_ids] == self._servers:
            self.program.update_requests(self._servers, **edit)
        else:
            self.program.remove_requests(self.program.request_ids)
            self.program.add_requests(self._servers, relation="==", **edit)
        self.program.update_resource(_LACKING, lower=max(0.0, lacking))
        self._prepared = state

    def round(self, solution: Solution) -> BalancingRound:
        """Return the answer from rounding a solution of :attr:`program`; change nothing.

        Raises
        ------
        NoAllocationError
            The solution has no allocation.
        LoadBalancingError
            No server has the memory for a shard; the error names its group.
        """
        check_found(solution)
        x, table = solution.nonzeros, self.program.store.requests
        slots, width = self.program.request_slots, np.diff(self._there.indptr) + 1
        first = np.zeros(table.size, np.int64)
        first[slots] = np.cumsum(width) - width
        shards = np.zeros(self._gain.size)
        shards[first[x.slot] + x.column] = x.value
        shards = np.delete(shards / self._gain, first[slots])
        return self._answer(shards, max(0.0, solution.bound) + float(self.waiting @ self._sizes), solution)

    def fallback(self) -> BalancingRound:
        """Return the last placement, in which shards without a server get one; change nothing.

        Raises
        ------
        LoadBalancingError
            No server has the memory for a shard; the error names its group.
        """
        return self._answer(None, math.nan, None)

    def accept(self, done: BalancingRound) -> None:
        """Replace the last placement by that of an answer."""
        placement = done.placement
        count = np.rint(placement.share * self.numbers[placement.shard]).astype(np.int64)
        where = placement.server, placement.shard
        self._there = csr_array((count, where), shape=self._there.shape)
        self.number += 1

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random changes of loads, and occasionally a group or server that is added or removed."""
        count, name = len(self._names), f"{self.number}-{int(rng.integers(1 << 30))}"
        some = rng.integers(count, size=3)
        yield "set_loads", {self._names[k]: float(rng.uniform(0, 20)) for k in some}
        match int(rng.integers(6)):
            case 0:
                yield "add_group", name, int(rng.integers(1, 30)), float(rng.uniform(0, 20))
            case 1 if count > 12:
                yield "remove_group", self._names[some[0]]
            case 2 if len(self._servers) < 10:
                yield "add_server", name, 400.0
            case 3 if len(self._servers) > 5:
                yield "remove_server", self._servers[0]

    # ---- inside ----------------------------------------------------------------------------------

    def _answer(self, leaving: Floats | None, bound: float, solution: Solution | None) -> BalancingRound:
        """Return the answer in which about `leaving` shards leave their servers; None: no shard leaves."""
        self.check()
        try:
            after = spread(self.fleet(), self._there, self.waiting, self._loads, leaving)
        except ShardPlacementError as error:
            name, size = self._names[error.shard], self._sizes[error.shard]
            why = f"size = {size:g}: no server has the memory for one more shard"
            raise LoadBalancingError(f"group {name!r}: {why}") from None
        change, there = (after - self._there).tocoo(), after.tocsc()
        more, size = np.maximum(change.data, 0), self._sizes[change.col]
        group = np.repeat(np.arange(len(self._names)), np.diff(there.indptr))
        flows = zip(change.row.tolist(), change.col.tolist(), (change.data * size).tolist(), strict=True)
        ends = ((self._names[g], self._servers[i], flow) for i, g, flow in flows)
        return self.answer(
            ShardPlacement(group, there.indices.astype(np.int64), there.data / self.numbers[group]),
            float(more @ size),
            bound,
            movements=int(more.sum()),
            replicas=int(self.numbers.sum()),
            solution=solution,
            moves=tuple(
                Move(name, None, server, flow) if flow > 0 else Move(name, server, None, -flow)
                for name, server, flow in ends
            ),
        )
