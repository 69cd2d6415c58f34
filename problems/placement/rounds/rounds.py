"""Rounds of placement: tasks that wait are placed together, by the prices of a program that is kept from
round to round.

Tasks that run stay where they are.  The program, its prices v_k of kinds and its bound D(v) are those of
:mod:`copter.problems.placement.rounds.relaxation`.

A round is:

1. Servers choose, fullest first, the mix that is worth most when 0.9 v_k of last round is taken off each
   task.  If D says that this is good enough, that is all.
2. Else the program is solved and rounded, and mixes are added as long as prices say that they are missing.
   To round it, servers get their mixes without the tasks that there are no more of; then they choose among
   what is left, as before.
3. Tasks of a kind are alike but for those of groups (:mod:`copter.problems.placement.rounds.groups`):
   each place goes to the task that has waited longest of those that may run there.

Prices go half of the way from those with the best bound so far to the program's, which jump while it lacks
columns.  The best placement counts.  Only servers on which something that waits fits have a part in a round:
it costs what is open, not what there is.

Source: column generation over patterns, Gilmore and Gomory (1961); prices that place tasks, Nnorom, Boyd and
Levis, "CvxCluster" (2026); prices between, Wentges (1997).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Flags, Floats, Ints
from copter.clock import Clock, current, over, running
from copter.compile.kernels import kernel
from copter.errors import NotOptimalError
from copter.problems.placement.occupancy import Fleet, Free, Most, fits, tightest_on, tightest_server
from copter.problems.placement.place import Place, PlacementError
from copter.problems.placement.rounds.baselines import Waiting
from copter.problems.placement.rounds.gathering import gather
from copter.problems.placement.rounds.groups import TaskGroup
from copter.problems.placement.rounds.mixes import fill
from copter.problems.placement.rounds.moving import make_room
from copter.problems.placement.rounds.relaxation import Found, PatternRelaxation
from copter.problems.placement.rounds.running import Running
from copter.problems.placement.servers import Servers
from copter.problems.placement.tasks import TaskKind
from copter.rounds.record import Move
from copter.rounds.rounds import Rounds as PlayedRounds
from copter.solution import Solution
from copter.solvers.base import Solver
from copter.solvers.generation import MissingColumns, generations

GAP = 0.005
"""Of its bound a round may be short by so much."""
_ITERATIONS = 20
"""Solves of a round at most."""
_SHARES = (0.5, 1.0)
"""Of the way to the program's prices: the second if nothing is missing at the first."""
_DISCOUNT = 0.9
"""Share of a kind's price that its tasks are worth less while servers choose."""


@dataclass(frozen=True)
class Round:
    """What came of a round.

    Attributes
    ----------
    placed : mapping of task id to Place
        Tasks that waited and run now.
    moved : mapping of task id to Place
        Tasks that ran elsewhere.
    waiting : int
        Tasks that wait still.
    value : float
        What the tasks are worth that were placed beside those that run.
    bound : float
        No placement of the tasks that waited is worth more, with those that run where they are.
    gained : float
        What the tasks are worth that were placed where others have moved away; not in `value`.
    solves : int
        Of the program; 0 if servers that chose by last round's prices were good enough.
    moves : tuple of Move
        Tasks that start or move, from which place to which.
    """

    placed: dict[Hashable, Place]
    moved: dict[Hashable, Place]
    waiting: int
    value: float
    bound: float
    gained: float
    solves: int
    seconds: float
    moves: tuple[Move, ...] = ()

    @property
    def gap(self) -> float:
        """Share of the bound that the value is short by at most; 0 if nothing could be placed."""
        return max(0.0, 1.0 - self.value / self.bound) if self.bound > 0.0 else 0.0

    @property
    def objective(self) -> float:
        """Its value, to be maximised, by the name that all answers have."""
        return self.value


class PlacementRounds:
    """Places tasks on servers, round by round.

    Parameters
    ----------
    servers : Servers
        All free.
    kinds : sequence of TaskKind
        What tasks ask for; tasks name them by index.
    values : (kinds,) array_like, optional
        What a task of each kind is worth, > 0.  By default the largest share that it takes of what a server
        has on average of CPU, memory or GPUs.
    gap : float
        A round ends when it is proved that its value is within this share of the best there is, or when no
        mix is missing any more, or after so many solves: :attr:`Round.gap` says how far it came.

    Raises
    ------
    PlacementError
        Values are not finite and positive, or not one for each kind; `gap` is not between 0 and 1; there are
        no servers, one is there twice, or what one has, or a kind asks for, cannot be.
    """

    def __init__(
        self,
        servers: Servers,
        kinds: Sequence[TaskKind],
        *,
        values: ArrayLike | None = None,
        gap: float = GAP,
    ) -> None:
        if not 0.0 < gap < 1.0:
            raise PlacementError(f"gap = {gap}: must be above 0 and below 1")
        self.running = Running(servers, kinds)
        self.gap = gap
        self.values = worth_of(servers, self.running.fleet, values)
        self._most = Most.of(servers)
        self._came = np.zeros(len(self.running.kinds), np.int64)
        self._price = self.values.copy()
        self._relaxation = PatternRelaxation(self.running.fleet, self.values)

    # ---- what changes between rounds --------------------------------------------------------------------

    def submit(self, ids: Sequence[Hashable], kinds: ArrayLike, group: TaskGroup | None = None) -> None:
        """Add tasks that wait for the next round; see :meth:`Running.submit`."""
        self.running.submit(ids, kinds, group)
        self._count(kinds, len(ids))

    def adopt(self, ids: Sequence[Hashable], kinds: ArrayLike, servers: ArrayLike, gpus: ArrayLike) -> None:
        """Add tasks that run already; see :meth:`Running.adopt`."""
        self.running.adopt(ids, kinds, servers, gpus)
        self._count(kinds, len(ids))

    def _count(self, kinds: ArrayLike, many: int) -> None:
        """Note that tasks have come."""
        np.add.at(self._came, np.broadcast_to(np.asarray(kinds, np.int64), many), 1)

    def finish(self, ids: Iterable[Hashable]) -> None:
        """Remove tasks, whether they run or wait; see :meth:`Running.finish`."""
        self.running.finish(ids)

    def fail(self, servers: Iterable[str]) -> list[Hashable]:
        """Take servers away at once; return the tasks that ran there, which wait again.

        Raises
        ------
        PlacementError
            There is no such server; nothing has changed.
        """
        gone = self._mask(servers, "fail")
        slots = self.running.on(gone)
        self.running.usable[gone] = False
        self.running.stop(slots)
        return self.running.ids(slots)

    def drain(self, servers: Iterable[str]) -> None:
        """Let no more tasks begin on servers; rounds move those that run there, as many as they may.

        Raises
        ------
        PlacementError
            There is no such server; nothing has changed.
        """
        self.running.usable[self._mask(servers, "drain")] = False

    def restore(self, servers: Iterable[str]) -> None:
        """Take servers back that failed or were drained.

        Raises
        ------
        PlacementError
            There is no such server; nothing has changed.
        """
        self.running.usable[self._mask(servers, "restore")] = True

    def _mask(self, servers: Iterable[str], what: str) -> Flags:
        mask = np.zeros(len(self.running.servers), np.bool_)
        mask[self.running.numbers(servers, what)] = True
        return mask

    # ---- rounds -----------------------------------------------------------------------------------------

    def place(self, id: Hashable, kind: int, group: TaskGroup | None = None) -> Place | None:
        """Place a task that comes alone, at once, where least is left; if it fits nowhere it waits.

        Raises
        ------
        PlacementError
            The id is taken, or there is no such kind.
        """
        self.running.submit([id], kind, group)
        self._count(kind, 1)
        return self._start_alone(int(self.running.slots([id])[0]))

    def _start_alone(self, slot: int) -> Place | None:
        """Start or move a task where least is left; None if it fits nowhere."""
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

    def round(self, moves: int = 0, price: float = 0.0, *, deadline: float | None = None) -> Round:
        """Play a round (:class:`copter.Rounds`): place tasks that wait, after those that must leave a server.

        Parameters
        ----------
        moves : int
            Tasks that may be moved at most: first those on drained servers, then such as make room for tasks
            that fit nowhere (:mod:`copter.problems.placement.rounds.moving`).
        price : float
            Of a move that makes room, in what tasks are worth.
        deadline : float, optional
            Seconds of the round, which places the tasks that it found a place for by then, maybe none.

        Raises
        ------
        PlacementError
            `moves` or `price` is negative.
        """
        domain = PlacementDomain(self, moves, price)
        done: Round = PlayedRounds(domain, self.solver, deadline=deadline).play().answer
        return done

    @property
    def solver(self) -> Solver:
        """The solver of its program."""
        return self._relaxation.solver

    def find(self, moves: int, price: float) -> Round:
        """Return what a round comes to, as good as there is time for (:mod:`copter.clock`); change nothing.

        `moves`, `price`: of :meth:`round`.
        """
        begun = time.perf_counter()
        with self.running.trial():
            moved = self._leave_drained(moves)
            demand = self.running.waiting.copy()
            servers = self._open(demand)
            found, bound, solves = self._best(demand, servers)
            placed = self._start(found)
            value = self._worth_of(placed)
            more: dict[Hashable, Place] = {}
            if moves > len(moved) and self.running.waiting.any() and not over():
                room = make_room(self.running, self.values, self._most, moves - len(moved), price)
                more = self._by_id(room.placed)
                again = self._by_id(room.moved)  # some were placed a moment ago
                placed |= {id: again.pop(id) for id in placed if id in again}
                moved |= again
            done = Round(
                placed=placed | more,
                moved=moved,
                waiting=int(self.running.waiting.sum()),
                value=value,
                bound=max(bound, value),
                gained=self._worth_of(more),
                solves=solves,
                seconds=time.perf_counter() - begun,
            )
        places = [*done.placed.items(), *done.moved.items()]
        return replace(done, moves=tuple(Move(id, self.running.place_of(id), place) for id, place in places))

    def keep(self) -> Round:
        """Return a round that places no task."""
        return Round({}, {}, int(self.running.waiting.sum()), 0.0, math.inf, 0.0, 0, 0.0)

    def accept(self, done: Round) -> None:
        """Start and move the tasks of a round."""
        places = done.placed | done.moved
        servers, gpus = np.array(list(places.values()), np.int64).reshape(-1, 2).T
        self.running.start(self.running.slots(places), servers, gpus)

    def gather(self, moves: int) -> dict[Hashable, Place]:
        """Move tasks so that what is free is in fewer fragments (see `gathering.py`).

        Parameters
        ----------
        moves : int
            Tasks that may be moved at most; tasks of groups are not.

        Returns
        -------
        mapping of task id to Place
            Those that moved.

        Raises
        ------
        PlacementError
            `moves` is negative.
        """
        if moves < 0:
            raise PlacementError(f"moves = {moves}: must not be negative")
        return self._by_id(gather(self.running, self._came, moves))

    def waiting(self) -> Waiting:
        """What a round would be about now, for what else places tasks.

        Returns
        -------
        Waiting
            With arrays of its own.
        """
        demand = self.running.waiting.copy()
        servers = self._open(demand)
        return Waiting(self.running.free.copy(), self.running.fleet, demand, self.values, servers)

    def _start(self, found: Found) -> dict[Hashable, Place]:
        """Start tasks at places; one that may not run there, beside its group, runs elsewhere if it can."""
        running = self.running
        placed, there = self._start_at(found)
        for kind, many in Counter(found.kinds[~there].tolist()).items():
            for slot in running.waiting_of(kind)[:many]:
                if over():
                    break
                place = self._start_alone(slot)
                if place is not None:
                    placed[running.ids(np.array([slot]))[0]] = place
        if not there.all():  # what no task of a group could have is for the others
            demand = running.waiting_alone()
            rest = self._filled(demand, self._open(demand), self._gain)
            placed |= self._start_at(rest)[0]
        return placed

    def _start_at(self, found: Found) -> tuple[dict[Hashable, Place], Flags]:
        """Start tasks at places, and return which places got one."""
        slots = self.running.longest(found.kinds, found.servers)
        there = slots >= 0
        chosen = Found(*(array[there] for array in found))
        self.running.start(slots[there], chosen.servers, chosen.gpus)
        return self._places(slots[there], chosen), there

    def _worth_of(self, ids: Iterable[Hashable]) -> float:
        return float(self.values[self.running.kinds_of(self.running.slots(ids))].sum())

    def _by_id(self, slots: list[int]) -> dict[Hashable, Place]:
        """Where tasks run, by id."""
        its = np.array(slots, np.int64)
        servers, gpus = self.running.places_of(its)
        return self._places(its, Found(self.running.kinds_of(its), servers, gpus))

    def _places(self, slots: Ints, found: Found) -> dict[Hashable, Place]:
        """Places by id."""
        places = map(Place, found.servers.tolist(), found.gpus.tolist())
        return dict(zip(self.running.ids(slots), places, strict=True))

    def _leave_drained(self, moves: int) -> dict[Hashable, Place]:
        """Move tasks off servers that take none, as many as may be moved and fit elsewhere."""
        running = self.running
        if not moves or running.usable.all():
            return {}
        slots = running.on(~running.usable)
        apart = running.grouped(slots)
        moved: dict[Hashable, Place] = {}
        for slot in slots[apart].tolist():
            place = self._start_alone(slot) if len(moved) < moves and not over() else None
            if place is not None:
                moved[running.ids(np.array([slot]))[0]] = place
        slots, moves = slots[~apart], moves - len(moved)
        slots = slots[np.argsort(running.kinds_of(slots), kind="stable")]
        demand = np.bincount(running.kinds_of(slots), minlength=self.values.size)
        servers = self._open(demand)
        found = Found(*(array[:moves] for array in self._filled(demand, servers, self.values)))
        found = Found(*(array[np.argsort(found.kinds, kind="stable")] for array in found))
        # The tasks of a kind in their order, each at the next place for its kind.
        begins = np.searchsorted(running.kinds_of(slots), found.kinds)
        slots = slots[begins + np.arange(begins.size) - np.searchsorted(found.kinds, found.kinds)]
        running.start(slots, found.servers, found.gpus)
        return moved | self._places(slots, found)

    def _open(self, demand: Ints) -> Ints:
        """Servers on which something of a demand fits, fullest first; what fits nowhere is taken off it."""
        running = self.running
        servers = open_servers(running.free, running.fleet, running.usable, demand)
        cpu, gpus = running.free.cpu[servers], running.free.gpus[servers].sum(axis=1)
        return servers[np.argsort(cpu / self._most.cpu + gpus / self._most.gpus, kind="stable")]

    def _best(self, demand: Ints, servers: Ints) -> tuple[Found, float, int]:
        """Return a placement, a bound, and how often the program was solved."""
        enough = 1.0 / (1.0 - self.gap)
        best = self._filled(demand, servers, self._gain)
        value, bound, solves = self._worth(best), float(demand @ self.values), 0
        if not servers.size:
            return best, 0.0, solves
        if bound <= enough * value or over():
            return best, bound, solves
        relaxation = self._relaxation
        relaxation.begin(self.running.free, demand, servers, self._price)
        bound = min(bound, relaxation.improve(self._price, enough * value)[1])
        if bound <= enough * value or over():
            return best, bound, solves
        relaxation.offer(best)
        low = bound

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
                solves, bound = solves + 1, min(bound, -generation.bound)
                if bound <= enough * value or solves == _ITERATIONS or over():
                    break
        except NotOptimalError:
            if not over():
                raise
        return best, bound, solves

    @property
    def _gain(self) -> Floats:
        """What a task of each kind adds while servers choose."""
        return self.values - _DISCOUNT * np.minimum(self._price, self.values)

    def _worth(self, found: Found) -> float:
        return float(self.values[found.kinds].sum())

    def _filled(self, demand: Ints, servers: Ints, gain: Floats) -> Found:
        """Let servers choose."""
        running = self.running
        return Found.of(fill(running.free.copy(), running.fleet, servers, gain, demand.copy()), servers)

    def _rounded(self, demand: Ints, servers: Ints, solution: Solution) -> Found:
        """Give servers the mixes of a solution, and let them choose among what is left."""
        free, left = self.running.free.copy(), demand.copy()
        found = self._relaxation.rounded(solution, free, left)
        return found.and_(Found.of(fill(free, self.running.fleet, servers, self._gain, left), servers))


def worth_of(servers: Servers, fleet: Fleet, values: ArrayLike | None) -> Floats:
    """Value of a task of each kind: as given, or the largest share that it takes of a server's mean."""
    if values is None:
        takes = np.array([fleet.cpu, fleet.memory, fleet.gpus * fleet.milli], np.float64)
        means = np.array([servers.cpu.mean(), servers.memory.mean(), servers.milli / len(servers)])
        return np.maximum((takes / np.maximum(means, 1.0)[:, None]).max(axis=0), 1e-6)
    given = np.array(values, np.float64)
    if given.shape != fleet.cpu.shape:
        raise PlacementError(f"values: {given.shape} for {fleet.cpu.size} kinds")
    good = np.isfinite(given) & (given > 0.0)
    if not good.all():
        raise PlacementError(f"values: {given[~good][0]} is not above 0 and finite")
    return given


def open_servers(free: Free, fleet: Fleet, usable: Flags, demand: Ints) -> Ints:
    """Servers on which something of a demand fits, ascending; what fits nowhere is taken off it."""
    fits_one, somewhere = np.zeros(usable.size, np.bool_), np.zeros(demand.size, np.bool_)
    _fits_one(free, fleet, np.flatnonzero(demand), usable, fits_one, somewhere)
    demand[~somewhere] = 0
    return np.flatnonzero(fits_one)


@kernel
def _fits_one(free: Free, fleet: Fleet, kinds: Ints, usable: Flags, servers: Flags, somewhere: Flags) -> None:
    """Mark the servers on which a task of any of some kinds fits, and the kinds that fit on any server."""
    for server in range(free.cpu.size):
        if not usable[server]:
            continue
        for kind in kinds:
            if (not servers[server] or not somewhere[kind]) and fits(free, fleet, kind, server):
                servers[server] = somewhere[kind] = True


EVENTS = ("submit", "adopt", "finish", "fail", "drain", "restore")
"""Methods of the placement's rounds that are events: an event is a tuple of the name and its arguments."""


class PlacementDomain:
    """The rounds of a placement.

    `placement`: taken with its present state; its methods may still be called between rounds. `moves`,
    `price`: of :meth:`PlacementRounds.round`.
    """

    program = None

    def __init__(self, placement: PlacementRounds, moves: int = 0, price: float = 0.0) -> None:
        if moves < 0 or not price >= 0.0:
            what = f"moves = {moves}" if moves < 0 else f"price = {price}"
            raise PlacementError(f"{what}: must not be negative")
        self.placement, self.moves, self.price = placement, moves, price

    def apply(self, event: tuple[Any, ...]) -> None:
        """Make an event: a name of :data:`EVENTS`, and the arguments of that method."""
        name, *arguments = event
        if name not in EVENTS:
            raise PlacementError(f"event {name!r}: there are {', '.join(EVENTS)}")
        owner = self.placement if hasattr(self.placement, name) else self.placement.running
        getattr(owner, name)(*arguments)

    def solve(self, solver: Solver, deadline: float | None) -> Round:  # noqa: ARG002 - it keeps one
        """Return what is found by the deadline."""
        with running(Clock(deadline, parent=current())):
            return self.placement.find(self.moves, self.price)

    def round(self, solution: Round, deadline: float | None) -> Round:  # noqa: ARG002 - nothing to do
        """Return what was found: it is of whole tasks."""
        return solution

    def fallback(self, deadline: float | None) -> Round:  # noqa: ARG002 - nothing to do
        """Return a round that places no task."""
        return self.placement.keep()

    def accept(self, answer: Round) -> None:
        """Start and move tasks."""
        self.placement.accept(answer)

    def figures(self, answer: Round) -> dict[str, float]:
        """Return what a report shows."""
        return {"placed": len(answer.placed), "moved": len(answer.moved), "waiting": answer.waiting}
