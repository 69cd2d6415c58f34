"""Rounds of placement: waiting tasks are placed together, by the dual prices of a program that is kept.

Running tasks stay where they are.  The program, its prices v_k of kinds and its bound D(v) are those of
:mod:`copter.problems.placement.rounds.relaxation`.

A round has these steps:

1. Servers choose one after another, in ascending order of free capacity, the pattern with the largest value
   minus 0.9 times the last round's prices v_k.  If D proves that the result is within the gap, the round
   ends.
2. Otherwise the program is solved and rounded, and patterns with a positive reduced value are added.  The
   rounding gives servers their patterns, without tasks of kinds that are exhausted.  Then servers choose
   patterns of the remaining tasks as in step 1.
3. Tasks of a kind are interchangeable, except those of groups
   (:mod:`copter.problems.placement.rounds.groups`).  Each place goes to the task that has waited longest
   among those that may run there.

The search for patterns uses prices halfway between the prices with the best bound so far and the program's
prices, because the latter oscillate while the program lacks columns. The best placement found is used. Only
servers on which a waiting task fits take part in a round, so its time depends on their number, not on that of
all servers.

Sources: column generation over patterns, Gilmore and Gomory (1961); placement by prices, Nnorom, Boyd and
Levis, "CvxCluster" (2026); smoothing of prices, Wentges (1997).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Flags, Floats, Ints
from copter.clock import over
from copter.compile.kernels import kernel
from copter.errors import NotOptimalError
from copter.problems.placement.occupancy import Fleet, Free, Most, fits, tightest_on, tightest_server
from copter.problems.placement.place import Place, PlacementError
from copter.problems.placement.rounds.groups import TaskGroup
from copter.problems.placement.rounds.mixes import best_mixes
from copter.problems.placement.rounds.relaxation import Found, PatternRelaxation
from copter.problems.placement.rounds.running import Running
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import TaskKind
from copter.rounds.events import EventDomain, event
from copter.rounds.record import Move
from copter.solution import Solution, Status
from copter.solvers.base import Solver
from copter.solvers.generation import MissingColumns, generations

GAP = 0.005
"""Default of the largest relative gap of a round."""
_ITERATIONS = 20
"""Largest number of solves of a round."""
_SHARES = (0.5, 1.0)
"""Steps towards the program's prices; the second step is used if no pattern is missing at the first."""
_DISCOUNT = 0.9
"""Share of a kind's price that is subtracted from its value while servers choose."""


@dataclass(frozen=True)
class Round:
    """Result of a round.

    Attributes
    ----------
    placed : mapping of task id to Place
        Places of tasks that waited.
    moved : mapping of task id to Place
        New places of tasks that ran elsewhere.
    waiting : int
        Number of tasks that still wait.
    value : float
        Value of the placed tasks.
    bound : float
        Upper bound on the value of any placement of the waiting tasks while running tasks stay.
    solves : int
        Number of solves of the program; 0 if step 1 was sufficient.
    seconds : float
        Time of the round.
    moves : tuple of Move
        Tasks that start or move, with their former and new places.
    solution : Solution, optional
        Last solution of the program (:mod:`copter.problems.placement.rounds.relaxation`). Its resources are
        the kinds of tasks, its requests the classes of equal servers, and its columns the known patterns.
        None if no program was solved.
    prices : (kinds,) ndarray, optional
        Prices of the kinds of tasks, with which the next round begins.
    """

    placed: dict[Hashable, Place]
    moved: dict[Hashable, Place]
    waiting: int
    value: float
    bound: float
    solves: int
    seconds: float
    moves: tuple[Move, ...] = ()
    solution: Solution | None = field(default=None, compare=False, repr=False)
    prices: Floats | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"solution": None}  # it contains the state of the program at that time

    @property
    def gap(self) -> float:
        """Relative gap between value and bound; 0 if nothing could be placed."""
        return max(0.0, 1.0 - self.value / self.bound) if self.bound > 0.0 else 0.0

    @property
    def objective(self) -> float:
        """Value of the placed tasks, which is maximised; answers of every domain have this attribute."""
        return self.value


class PlacementRounds(EventDomain):
    """Placement of tasks on servers, round by round: a domain of :class:`copter.Rounds`.

    Parameters
    ----------
    servers : Servers
        The servers, all free.
    kinds : sequence of TaskKind
        Kinds of tasks, by their requests; tasks refer to a kind by its index.
    values : (kinds,) array_like, optional
        Value of a task of each kind, > 0.  Default: the largest share that it takes of a server's mean CPU,
        memory or GPUs.
    gap : float
        Largest relative gap.  A round ends when its gap is proved, when no pattern has a positive reduced
        value, or after a limit of solves; :attr:`Round.gap` is the gap that was reached.
    moves : int
        Largest number of tasks that a round moves off drained servers.

    Raises
    ------
    PlacementError
        If values are not finite and positive, or not one for each kind; `gap` is not between 0 and 1; `moves`
        is negative; there are no servers, two have the same name, or a capacity or request is out of
        its range.
    """

    program = None

    def __init__(
        self,
        servers: Servers,
        kinds: Sequence[TaskKind],
        *,
        values: ArrayLike | None = None,
        gap: float = GAP,
        moves: int = 0,
    ) -> None:
        if not 0.0 < gap < 1.0:
            raise PlacementError(f"gap = {gap}: must be above 0 and below 1")
        self.running = Running(servers, kinds)
        self.gap = gap
        self.limit_moves(moves)
        self.values = worth_of(servers, self.running.fleet, values)
        self._most = Most.of(servers)
        self._price = self.values.copy()
        self._relaxation = PatternRelaxation(self.running.fleet, self.values)

    # ---- changes between rounds -------------------------------------------------------------------------

    @event
    def limit_moves(self, moves: int) -> None:
        """Set the largest number of tasks that a round moves off drained servers."""
        if not isinstance(moves, int | np.integer) or moves < 0:
            raise PlacementError(f"moves = {moves!r}: must be an integer of at least 0")
        self.moves = moves

    @event
    def submit(self, ids: Sequence[Hashable], kinds: ArrayLike, group: TaskGroup | None = None) -> None:
        """Add tasks that wait for the next round; see :meth:`Running.submit`."""
        self.running.submit(ids, kinds, group)

    @event
    def adopt(self, ids: Sequence[Hashable], kinds: ArrayLike, servers: ArrayLike, gpus: ArrayLike) -> None:
        """Add tasks that run already; see :meth:`Running.adopt`."""
        self.running.adopt(ids, kinds, servers, gpus)

    @event
    def finish(self, ids: Iterable[Hashable]) -> None:
        """Remove running or waiting tasks; see :meth:`Running.finish`."""
        self.running.finish(ids)

    @event
    def fail(self, servers: Iterable[str]) -> list[Hashable]:
        """Remove servers at once; return the tasks that ran there, which wait again.

        Raises
        ------
        PlacementError
            If there is no such server; nothing has changed then.
        """
        gone = self._mask(servers, "fail")
        slots = self.running.on(gone)
        self.running.usable[gone] = False
        self.running.stop(slots)
        return self.running.ids(slots)

    @event
    def drain(self, servers: Iterable[str]) -> None:
        """Stop placing tasks on some servers; rounds move running tasks away, within their limit of moves.

        Raises
        ------
        PlacementError
            If there is no such server; nothing has changed then.
        """
        self.running.usable[self._mask(servers, "drain")] = False

    @event
    def restore(self, servers: Iterable[str]) -> None:
        """Use servers again that failed or were drained.

        Raises
        ------
        PlacementError
            If there is no such server; nothing has changed then.
        """
        self.running.usable[self._mask(servers, "restore")] = True

    def _mask(self, servers: Iterable[str], what: str) -> Flags:
        mask = np.zeros(len(self.running.servers), np.bool_)
        mask[self.running.numbers(servers, what)] = True
        return mask

    # ---- rounds -----------------------------------------------------------------------------------------

    def place(self, id: Hashable, kind: int, group: TaskGroup | None = None) -> Place | None:
        """Place a single task at once by best fit; if it fits nowhere, return None, and the task waits.

        Raises
        ------
        PlacementError
            If there is already a task with this id, or no such kind.
        """
        self.running.submit([id], kind, group)
        return self._start_alone(int(self.running.slots([id])[0]))

    def _start_alone(self, slot: int) -> Place | None:
        """Start or move a task by best fit; return None if it fits nowhere."""
        running, slots = self.running, np.array([slot])
        kind = int(running.kinds_of(slots)[0])
        server = int(
            tightest_server(running.free, running.fleet, running.servers_for(slot), kind, self._most)
        )
        if server < 0:
            return None
        gpus = int(tightest_on(running.free, running.fleet, kind, server))
        running.start(slots, np.array([server]), np.array([gpus]))
        return Place(server, gpus)

    @property
    def solver(self) -> Solver:
        """Solver of the placement's program."""
        return self._relaxation.solver

    def solve(self, solver: Solver) -> Round:  # noqa: ARG002 - the placement has its own
        """Return the best result of a round within the clock's time (:mod:`copter.clock`), without changes.

        The result moves tasks off drained servers, and places waiting tasks, as many as there is time for.
        """
        begun, price = time.perf_counter(), self._price
        with self.running.trial():
            try:
                moved = self._leave_drained(self.moves)
                demand = self.running.waiting.copy()
                servers = self._open(demand)
                found, bound, solves, solution = self._best(demand, servers)
                placed = self._start(found)
                value = float(self.values[self.running.kinds_of(self.running.slots(placed))].sum())
                done = Round(
                    placed=placed,
                    moved=moved,
                    waiting=int(self.running.waiting.sum()),
                    value=value,
                    bound=max(bound, value),
                    solves=solves,
                    seconds=time.perf_counter() - begun,
                    solution=solution,
                    prices=self._price,
                )
            finally:
                self._price = price
        places = [*done.placed.items(), *done.moved.items()]
        return replace(done, moves=tuple(Move(id, self.running.place_of(id), place) for id, place in places))

    def round(self, solution: Round) -> Round:
        """Return the result of :meth:`solve`, which is integral."""
        return solution

    def fallback(self) -> Round:
        """Return a result that places no task."""
        return Round({}, {}, int(self.running.waiting.sum()), 0.0, math.inf, 0, 0.0)

    def figures(self, answer: Round) -> dict[str, float]:
        """Return the figures of an answer for reports."""
        return {"placed": len(answer.placed), "moved": len(answer.moved), "waiting": answer.waiting}

    def violations(self, answer: Round) -> Iterator[str]:
        """Yield servers and GPUs whose tasks exceed their capacity, counted task by task."""
        tasks, servers = self.running, self.running.servers
        cpu, memory = [0] * len(servers), [0] * len(servers)
        gpus: dict[tuple[int, int], int] = {}
        for id in tasks.all_ids():
            place = answer.placed.get(id) or answer.moved.get(id) or tasks.place_of(id)
            if place is None:
                continue
            kind = tasks.kinds[tasks.kind_of(id)]
            cpu[place.server] += kind.cpu
            memory[place.server] += kind.memory
            used = [gpu for gpu in range(64) if place.gpus >> gpu & 1]
            if len(used) != kind.gpus:
                yield f"task {id!r}: {len(used)} GPUs: must be {kind.gpus}"
            for gpu in used:
                gpus[place.server, gpu] = gpus.get((place.server, gpu), 0) + kind.milli
        for server, name in enumerate(servers.names):
            if cpu[server] > servers.cpu[server] or memory[server] > servers.memory[server]:
                yield f"server {name!r}: tasks exceed its CPU or memory"
        for (server, gpu), milli in gpus.items():
            if milli > MILLI or gpu >= servers.gpus[server]:
                yield f"GPU {gpu} of server {servers.names[server]!r}: tasks exceed its capacity"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random arrivals and ends of tasks, and failures, drains and restores of servers."""
        tasks = self.running
        ids, names = tasks.all_ids(), list(tasks.servers.names)
        new = [f"task {int(rng.integers(1 << 40))}" for _ in range(int(rng.integers(0, 6)))]
        if new and len(ids) < 60:
            yield "submit", new, rng.integers(0, len(tasks.kinds), len(new))
        if ids and rng.random() < 0.6:
            yield "finish", [ids[k] for k in rng.choice(len(ids), min(3, len(ids)), replace=False).tolist()]
        if rng.random() < 0.2:
            yield "limit_moves", int(rng.integers(0, 6))
        if rng.random() < 0.3:
            yield (
                str(rng.choice(["fail", "drain", "restore", "restore"])),
                [names[int(rng.integers(len(names)))]],
            )

    def accept(self, done: Round) -> None:
        """Start and move the tasks of a result."""
        self._price = self._price if done.prices is None else done.prices
        places = done.placed | done.moved
        servers, gpus = np.array(list(places.values()), np.int64).reshape(-1, 2).T
        self.running.start(self.running.slots(places), servers, gpus)

    def _start(self, found: Found) -> dict[Hashable, Place]:
        """Start tasks at places; a task whose group forbids a place is placed elsewhere if possible."""
        running = self.running
        placed, there = self._start_at(found)
        for kind, many in Counter(found.kinds[~there].tolist()).items():
            for slot in running.waiting_of(kind)[:many]:
                if over():
                    break
                place = self._start_alone(slot)
                if place is not None:
                    placed[running.ids(np.array([slot]))[0]] = place
        if not there.all():  # fill places that no task of a group may take with other tasks
            demand = running.waiting_alone()
            rest = self._filled(self.running.free, demand, self._open(demand), self._gain)
            placed |= self._start_at(rest)[0]
        return placed

    def _start_at(self, found: Found) -> tuple[dict[Hashable, Place], Flags]:
        """Start tasks at places; return the places by id, and which places were used."""
        slots = self.running.longest(found.kinds, found.servers)
        there = slots >= 0
        chosen = Found(*(array[there] for array in found))
        self.running.start(slots[there], chosen.servers, chosen.gpus)
        return self._places(slots[there], chosen), there

    def _places(self, slots: Ints, found: Found) -> dict[Hashable, Place]:
        """Return places by id."""
        places = map(Place, found.servers.tolist(), found.gpus.tolist())
        return dict(zip(self.running.ids(slots), places, strict=True))

    def _leave_drained(self, moves: int) -> dict[Hashable, Place]:
        """Move tasks off drained servers: as many as the limit allows, if they fit elsewhere."""
        running = self.running
        if not moves or running.usable.all():
            return {}
        slots = running.on(~running.usable)
        apart = running.grouped(slots)
        moved: dict[Hashable, Place] = {}
        for slot in slots[apart].tolist():
            if not over():
                moved |= self._leave_with_group(slot, moves - len(moved))
        slots, moves = slots[~apart], moves - len(moved)
        slots = slots[np.argsort(running.kinds_of(slots), kind="stable")]
        demand = np.bincount(running.kinds_of(slots), minlength=self.values.size)
        servers = self._open(demand)
        found = Found(*(array[:moves] for array in self._filled(running.free, demand, servers, self.values)))
        found = Found(*(array[np.argsort(found.kinds, kind="stable")] for array in found))
        # Within a kind, the tasks take the places in order.
        begins = np.searchsorted(running.kinds_of(slots), found.kinds)
        slots = slots[begins + np.arange(begins.size) - np.searchsorted(found.kinds, found.kinds)]
        running.start(slots, found.servers, found.gpus)
        return moved | self._places(slots, found)

    def _leave_with_group(self, slot: int, moves: int) -> dict[Hashable, Place]:
        """Move a task of a group off a drained server, alone or with the tasks that must be near it."""
        running, alone = self.running, np.array([slot])
        server = int(running.places_of(alone)[0][0])
        if moves < 1 or running.usable[server]:  # it has moved together with another task
            return {}
        place = self._start_alone(slot)
        if place is not None:
            return {running.ids(alone)[0]: place}
        slots = running.together(slot)
        if not 1 < slots.size <= moves or not self._start_together(slots):
            return {}
        ids = running.ids(slots)
        return {id: place for id in ids if (place := running.place_of(id)) is not None}

    def _start_together(self, slots: Ints) -> bool:
        """Move tasks of a group to where all of them fit, by best fit of the first; False if nowhere."""
        running, before = self.running, self.running.places_of(slots)
        first, kind = slots[:1], int(running.kinds_of(slots[:1])[0])
        running.stop(slots)
        allowed = running.servers_for(int(first[0]))
        while allowed.any():
            server = int(tightest_server(running.free, running.fleet, allowed, kind, self._most))
            if server < 0:
                break
            allowed[server] = False
            gpus = int(tightest_on(running.free, running.fleet, kind, server))
            running.start(first, np.array([server]), np.array([gpus]))
            done = 1
            while done < slots.size and self._start_alone(int(slots[done])) is not None:
                done += 1
            if done == slots.size:
                return True
            running.stop(slots[:done])
        running.start(slots, *before)
        return False

    def _open(self, demand: Ints) -> Ints:
        """Return servers on which a task of a demand fits, fullest first; set other kinds' demand to 0."""
        running = self.running
        fits_one, somewhere = np.zeros(len(running.servers), np.bool_), np.zeros(demand.size, np.bool_)
        _fits_one(running.free, running.fleet, np.flatnonzero(demand), running.usable, fits_one, somewhere)
        demand[~somewhere] = 0
        servers = np.flatnonzero(fits_one)
        cpu, gpus = running.free.cpu[servers], running.free.gpus[servers].sum(axis=1)
        return servers[np.argsort(cpu / self._most.cpu + gpus / self._most.gpus, kind="stable")]

    def _best(self, demand: Ints, servers: Ints) -> tuple[Found, float, int, Solution | None]:
        """Return a placement, a bound, the number of solves of the program, and its last solution."""
        enough = 1.0 / (1.0 - self.gap)
        best = self._filled(self.running.free, demand, servers, self._gain)
        value, bound, solves = self._worth(best), float(demand @ self.values), 0
        if bound <= enough * value or over():
            return best, bound, solves, None
        relaxation = self._relaxation
        relaxation.begin(self.running.free, demand, servers, self._price)
        bound = min(bound, relaxation.improve(self._price, enough * value)[1])
        if bound <= enough * value or over():
            return best, bound, solves, None
        relaxation.extend()
        relaxation.offer(best)
        low, last = bound, None

        def price(solution: Solution) -> MissingColumns:
            nonlocal best, value, low
            found = self._rounded(demand, servers, solution)
            if self._worth(found) > value:
                best, value = found, self._worth(found)
            known = self._price
            there = np.where(demand > 0, relaxation.prices(solution), known)
            for share in _SHARES:
                price = known + share * (there - known)
                added, its = relaxation.improve(price, enough * value)
                if its < low:
                    self._price, low = price, its
                if added:
                    break
            return MissingColumns(added, max(0.0, solution.bound + low))

        try:
            for generation in generations(relaxation.program, relaxation.solver, price):
                solves, bound, last = solves + 1, min(bound, -generation.bound), generation.solution
                if bound <= enough * value or solves == _ITERATIONS or over():
                    break
                relaxation.extend()
        except NotOptimalError as error:
            if error.solution.status is not Status.DEADLINE:
                raise
            last = error.solution
        return best, bound, solves, last

    @property
    def _gain(self) -> Floats:
        """Gain of a task of each kind while servers choose."""
        return self.values - _DISCOUNT * np.minimum(self._price, self.values)

    def _worth(self, found: Found) -> float:
        return float(self.values[found.kinds].sum())

    def _filled(self, free: Free, demand: Ints, servers: Ints, gain: Floats) -> Found:
        """Return the placement in which servers choose one after another."""
        mixes = best_mixes(free, self.running.fleet, servers, gain, demand, together=True)
        return Found.of(mixes, servers)

    def _rounded(self, demand: Ints, servers: Ints, solution: Solution) -> Found:
        """Return a rounded solution, in which servers then choose from the remaining tasks."""
        free, left = self.running.free.copy(), demand.copy()
        found = self._relaxation.rounded(solution, free, left)
        return found.and_(self._filled(free, left, servers, self._gain))


def worth_of(servers: Servers, fleet: Fleet, values: ArrayLike | None) -> Floats:
    """Return the value of a task of each kind: as given, or the task's largest share of a mean server."""
    if values is None:
        takes = np.array([fleet.cpu, fleet.memory, fleet.gpus * fleet.milli], np.float64)
        means = np.array([servers.cpu.mean(), servers.memory.mean(), servers.milli / len(servers)])
        return np.maximum((takes / np.maximum(means, 1.0)[:, None]).max(axis=0), 1e-6)
    given = np.array(values, np.float64)
    if given.shape != fleet.cpu.shape:
        raise PlacementError(f"values of shape {given.shape}: must be ({fleet.cpu.size},), one for each kind")
    good = np.isfinite(given) & (given > 0.0)
    if not good.all():
        raise PlacementError(f"values: {given[~good][0]}: must be positive and finite")
    return given


@kernel
def _fits_one(free: Free, fleet: Fleet, kinds: Ints, usable: Flags, servers: Flags, somewhere: Flags) -> None:
    """Mark the servers on which a task of some kinds fits, and the kinds that fit on any server."""
    for server in range(free.cpu.size):
        if not usable[server]:
            continue
        for kind in kinds:
            if (not servers[server] or not somewhere[kind]) and fits(free, fleet, kind, server):
                servers[server] = somewhere[kind] = True
