"""Rounds on several processes or machines: each *region* is a Ray actor with a part of the servers.

Submitted tasks are assigned to the regions in turn; all tasks of a group go to one region.  A round consists
of one round of every region at the same time.  Then tasks that fit nowhere in their region, except those of
groups, go to a region that has room for their kind, and that region plays another round.

Let S_r be the servers of region r, d_k the number of waiting tasks of kind k in all regions, and phi_s the
value of the best pattern of server s.  For any prices v, the value of the round is at most

    D(v) = sum_k d_k v_k + sum_r sum_{s in S_r} phi_s(w - v),

as in :mod:`copter.problems.placement.rounds.relaxation`.  Each region evaluates its term with the free
capacity before the round, at the same prices as all other regions: the mean of the regions' prices, and the
prices of each region.  So the bound is for all servers together, and the gap includes the loss from splitting
them.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Flags, Floats, Ints
from copter.extras import extra
from copter.parallel import limit_threads
from copter.problems.placement.occupancy import Fleet
from copter.problems.placement.place import Place, PlacementError, check
from copter.problems.placement.rounds.groups import TaskGroup
from copter.problems.placement.rounds.mixes import best_mixes
from copter.problems.placement.rounds.relaxation import Found, settled
from copter.problems.placement.rounds.rounds import GAP, PlacementRounds, Round, open_servers, worth_of
from copter.problems.placement.rounds.running import checked_kinds
from copter.problems.placement.servers import Servers
from copter.problems.placement.tasks import TaskKind, Tasks
from copter.ray.session import Session, check_room
from copter.solution import Solution

with extra("ray"):
    import ray
    from ray.exceptions import RayActorError


class _Region(PlacementRounds):
    """Rounds of the servers of one region, with methods for the other regions; the object of an actor."""

    def __init__(
        self, servers: Servers, kinds: Sequence[TaskKind], values: ArrayLike, gap: float, threads: int
    ) -> None:
        limit_threads(threads)
        super().__init__(servers, kinds, values=values, gap=gap)
        self._before = self.running.free.copy(), self.running.usable.copy()

    def _best(self, demand: Ints, servers: Ints) -> tuple[Found, float, int, Solution | None]:
        self._before = self.running.free.copy(), self.running.usable.copy()
        return super()._best(demand, servers)

    def waits(self) -> Ints:
        """Return the number of waiting tasks of each kind; (kinds,)."""
        return self.running.waiting.copy()

    def price(self) -> Floats:
        """Return the price of each kind in the last round."""
        return self._price

    def ceilings(self, prices: Sequence[Floats], demand: Ints) -> list[float]:
        """Return upper bounds on the value of tasks minus prices, with the capacity before the last round.

        `prices` (kinds,). `demand` (kinds,): tasks that waited in all regions. The result has an entry for
        each vector of prices.
        """
        free, usable = self._before
        demand = demand.copy()  # arrays from Ray's shared memory are read-only
        servers = open_servers(free, self.running.fleet, usable, demand)
        mixes = (
            best_mixes(free, self.running.fleet, servers, self.values - price, demand) for price in prices
        )
        return [float(its.bound.sum()) for its in mixes]

    def room(self) -> Flags:
        """Return whether one more task of each kind fits anywhere; (kinds,)."""
        demand = np.ones(self.values.size, np.int64)
        self._open(demand)
        return demand > 0

    def give(self, kinds: Sequence[int]) -> list[tuple[Hashable, int]]:
        """Remove waiting tasks of some kinds, except those of groups; return their ids and kinds."""
        running, given = self.running, []
        for kind in kinds:
            slots = np.array(running.waiting_of(kind), np.int64)
            ids = running.ids(slots[~running.grouped(slots)])
            running.finish(ids)
            given += [(id, kind) for id in ids]
        return given

    def place_of(self, id: Hashable) -> Place | None:
        """Return the place of a task; None while it waits."""
        return self.running.place_of(id)

    def runs(self) -> int:
        """Return the number of running tasks."""
        return len(self.running) - int(self.running.waiting.sum())

    def memory(self) -> int:
        """Return the largest memory of the process, in bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Regions:
    """Placement of tasks on servers round by round, with the servers divided among Ray actors.

    Use it as a context manager, or call :meth:`close`.

    `servers`: all free. Region r of R has every R-th server, beginning with number r. `regions`: number of
    actors, each with one processor. `values`, `gap`: as in :class:`PlacementRounds`; each region ends its
    round at this gap. `address`: address of a Ray cluster; default: the cluster of this process, or a new one
    on this machine.
    """

    def __init__(
        self,
        servers: Servers,
        kinds: Sequence[TaskKind],
        *,
        regions: int = 2,
        values: ArrayLike | None = None,
        gap: float = GAP,
        address: str | None = None,
    ) -> None:
        check(servers, kinds)
        if not 0.0 < gap < 1.0:
            raise PlacementError(f"gap = {gap}: must be above 0 and below 1")
        if not 1 <= regions <= len(servers):
            raise PlacementError(f"regions = {regions}: must be from 1 to {len(servers)}, one a server")
        self.servers, self.kinds = servers, tuple(kinds)
        fleet = Fleet.of(servers, Tasks(self.kinds, np.empty(0, np.int64)))
        self.values = worth_of(servers, fleet, values)
        self._number = {name: number for number, name in enumerate(servers.names)}
        self._region: dict[Hashable, int] = {}
        self._of_group: dict[Hashable, int] = {}
        self._next = 0
        self._session = Session.join(address, regions)
        try:
            check_room(regions, {"CPU": 1.0}, ("Regions", "regions"))
        except BaseException:
            self._session.leave()
            raise
        make: Any = ray.remote(_Region).options(num_cpus=1).remote
        self._actors: list[Any] = [
            make(_part(servers, first, regions), self.kinds, self.values, gap, 1) for first in range(regions)
        ]

    def __enter__(self) -> Regions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the actors; their tasks are lost."""
        if self._actors:
            for actor in self._actors:
                ray.kill(actor)
            self._actors = []
            self._session.leave()

    def __len__(self) -> int:
        return len(self._region)

    @property
    def regions(self) -> int:
        """Number of regions."""
        return len(self._actors)

    # ---- changes between rounds -------------------------------------------------------------------------

    def submit(self, ids: Sequence[Hashable], kinds: ArrayLike, group: TaskGroup | None = None) -> None:
        """Add tasks that wait for the next round; if any is invalid, add none."""
        ids, kind = self._new("submit", ids, kinds)
        if group is None:
            region = (self._next + np.arange(len(ids))) % self.regions
            self._next = (self._next + len(ids)) % self.regions
            self._submit(ids, region, kind)
        else:
            group.check(len(self.servers))
            first = self._of_group.get(group.group, self._next)
            own: Any = group  # a dataclass
            if group.zones is not None:
                own = replace(own, zones=group.zones[first :: self.regions])
            self._ask([self._actors[first].submit.remote(ids, kind, own)])
            self._of_group[group.group] = first
            self._next = (first + 1) % self.regions
            region = np.full(len(ids), first)
        self._region.update(zip(ids, region.tolist(), strict=True))

    def adopt(self, ids: Sequence[Hashable], kinds: ArrayLike, servers: ArrayLike, gpus: ArrayLike) -> None:
        """Add tasks that run already; if any of a region is invalid, add none of that region."""
        ids, kind = self._new("adopt", ids, kinds)
        server, bits = (np.asarray(each, np.int64) for each in (servers, gpus))
        if server.shape != (len(ids),) or bits.shape != (len(ids),):
            raise PlacementError(
                f"adopt: shapes of servers {server.shape} and gpus {bits.shape}: must be ({len(ids)},)"
            )
        region = server % self.regions
        asked = self._parts("adopt", ids, region, kind, server // self.regions, bits)
        wrong: Exception | None = None
        for number, answer in asked.items():
            try:
                self._ask([answer])
            except PlacementError as error:
                wrong = error
            else:
                its = np.flatnonzero(region == number)
                self._region.update(dict.fromkeys((ids[one] for one in its.tolist()), number))
        if wrong is not None:
            raise wrong

    def finish(self, ids: Iterable[Hashable]) -> None:
        """Remove running or waiting tasks; if any is unknown, remove none."""
        ids = list(ids)
        unknown = [id for id in ids if id not in self._region]
        if unknown:
            raise PlacementError(f"finish: no task {unknown[0]!r}")
        if len(set(ids)) < len(ids):
            raise PlacementError("finish: ids: must be different")
        self._tell("finish", ids, np.array([self._region[id] for id in ids], np.int64))
        for id in ids:
            del self._region[id]

    def fail(self, servers: Iterable[str]) -> list[Hashable]:
        """Remove servers at once; return the tasks that ran there, which wait again."""
        return [id for ids in self._of_servers("fail", servers) for id in ids]

    def drain(self, servers: Iterable[str]) -> None:
        """Stop placing tasks on some servers; running tasks continue."""
        self._of_servers("drain", servers)

    def restore(self, servers: Iterable[str]) -> None:
        """Use servers again that failed or were drained."""
        self._of_servers("restore", servers)

    def place_of(self, id: Hashable) -> Place | None:
        """Return the place of a task; None while it waits."""
        if id not in self._region:
            raise PlacementError(f"place_of: no task {id!r}")
        number = self._region[id]
        place = self._ask([self._actors[number].place_of.remote(id)])[0]
        return None if place is None else self._here(number, place)

    def memory(self) -> list[int]:
        """Return the largest memory of each actor, in bytes."""
        return self._each("memory")

    def runs(self) -> int:
        """Return the number of running tasks."""
        return sum(self._each("runs"))

    # ---- rounds -----------------------------------------------------------------------------------------

    def round(self, moves: int = 0, price: float = 0.0) -> Round:
        """Place waiting tasks; see :meth:`PlacementRounds.round`.

        `moves` is divided evenly among the regions.  A task moves within its region.
        """
        begun = time.perf_counter()
        if moves < 0 or not price >= 0.0:
            what = f"moves = {moves}" if moves < 0 else f"price = {price}"
            raise PlacementError(f"{what}: must not be negative")
        waits = np.array(self._each("waits"))
        demand = waits.sum(axis=0)
        parts = [moves // self.regions + (number < moves % self.regions) for number in range(self.regions)]
        rounds = dict(
            enumerate(
                self._ask([a.round.remote(its, price) for a, its in zip(self._actors, parts, strict=True)])
            )
        )
        bound = self._bound(waits)
        done = [(number, its) for number, its in rounds.items()]
        done += self._exchange()
        value = sum(its.value for _, its in done)
        return Round(
            placed={
                id: self._here(number, place) for number, its in done for id, place in its.placed.items()
            },
            moved={id: self._here(number, place) for number, its in done for id, place in its.moved.items()},
            waiting=int(np.sum(self._each("waits"))),
            value=value,
            bound=max(min(bound, float(demand @ self.values)), value),
            gained=sum(its.gained for _, its in done),
            solves=sum(its.solves for _, its in done),
            seconds=time.perf_counter() - begun,
        )

    def _bound(self, waits: Ints) -> float:
        """Return an upper bound on the value of the waiting tasks; `waits` has the shape (regions, kinds)."""
        demand, prices = waits.sum(axis=0), np.array(self._each("price"))
        mean = prices.mean(axis=0)
        # Weight the prices of a kind by the numbers of its waiting tasks.
        known = np.divide((waits * prices).sum(axis=0), demand, out=mean, where=demand > 0)
        at = [settled(self.values, price) for price in (known, *prices)]
        tops = np.sum(self._each("ceilings", at, demand), axis=0)
        return min(float(demand @ price) + float(top) for price, top in zip(at, tops, strict=True))

    def _exchange(self) -> list[tuple[int, Round]]:
        """Send tasks without a group that fit nowhere in their region to regions with room; place them."""
        waits, room = np.array(self._each("waits")), np.array(self._each("room"))
        to = np.where(room.any(axis=0), room.argmax(axis=0), -1)
        received = set()
        for number, actor in enumerate(self._actors):
            kinds = np.flatnonzero((waits[number] > 0) & ~room[number] & (to >= 0))
            if not kinds.size:
                continue
            given = self._ask([actor.give.remote(kinds.tolist())])[0]
            ids, kind = [id for id, _ in given], np.array([its for _, its in given], np.int64)
            try:
                self._submit(ids, to[kind], kind)
            except BaseException:  # the tasks wait again where they were
                self._submit(ids, np.full(len(ids), number), kind)
                raise
            self._region.update(zip(ids, to[kind].tolist(), strict=True))
            received |= set(to[kind].tolist())
        there = sorted(received)
        return list(zip(there, self._ask([self._actors[its].round.remote() for its in there]), strict=True))

    # ---- actors -----------------------------------------------------------------------------------------

    def _new(self, what: str, ids: Sequence[Hashable], kinds: ArrayLike) -> tuple[list[Hashable], Ints]:
        """Return ids that must be new, and their checked kinds."""
        ids = list(ids)
        kind = checked_kinds(what, ids, kinds, len(self.kinds))
        taken = next((id for id in ids if id in self._region), None)
        if taken is not None or len(set(ids)) < len(ids):
            why = "ids: must be different" if taken is None else f"task {taken!r} exists already"
            raise PlacementError(f"{what}: {why}")
        return ids, kind

    def _parts(self, method: str, ids: list[Hashable], region: Ints, *arrays: Ints) -> dict[int, Any]:
        """Call a method of each region with its tasks; return references to the results."""
        asked = {}
        for number, actor in enumerate(self._actors):
            its = np.flatnonzero(region == number)
            if its.size:
                own = [ids[one] for one in its.tolist()]
                asked[number] = getattr(actor, method).remote(own, *(array[its] for array in arrays))
        return asked

    def _submit(self, ids: list[Hashable], region: Ints, kind: Ints) -> None:
        """Give tasks to regions; if a region fails, the others give their tasks back."""
        asked = self._parts("submit", ids, region, kind)
        wrong: BaseException | None = None
        taken = []
        for number, answer in asked.items():
            try:
                self._ask([answer])
                taken.append(number)
            except PlacementError as error:
                wrong = error
        if wrong is not None:
            its = np.flatnonzero(np.isin(region, taken))
            self._tell("finish", [ids[one] for one in its.tolist()], region[its])
            raise wrong

    def _tell(self, method: str, ids: list[Hashable], region: Ints, *arrays: Ints) -> None:
        self._ask(list(self._parts(method, ids, region, *arrays).values()))

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        """Return the results of a method of all regions."""
        return self._ask([getattr(actor, method).remote(*arguments) for actor in self._actors])

    def _ask(self, references: list[Any]) -> list[Any]:
        """Return the results of calls of actors."""
        try:
            answers: list[Any] = ray.get(references)
        except RayActorError as error:
            raise PlacementError(
                f"the process of a region ended, and the places of its tasks are lost: {error}"
            ) from error
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        return answers

    def _of_servers(self, what: str, servers: Iterable[str]) -> list[Any]:
        """Call a method of the regions that have the given servers."""
        names = list(servers)
        unknown = next((name for name in names if name not in self._number), None)
        if unknown is not None:
            raise PlacementError(f"{what}: no server {unknown!r}")
        own: list[list[str]] = [[] for _ in self._actors]
        for name in names:
            own[self._number[name] % self.regions].append(name)
        return self._ask(
            [getattr(a, what).remote(its) for a, its in zip(self._actors, own, strict=True) if its]
        )

    def _here(self, region: int, place: Place) -> Place:
        """Return a place in a region with the number of the server among all servers."""
        return Place(place.server * self.regions + region, place.gpus)


def _part(servers: Servers, first: int, regions: int) -> Servers:
    """Return every `regions`-th server, beginning with number `first`."""
    its = slice(first, None, regions)
    return Servers(
        servers.names[its],
        servers.cpu[its],
        servers.memory[its],
        servers.gpus[its],
        servers.model[its],
        servers.models,
    )
