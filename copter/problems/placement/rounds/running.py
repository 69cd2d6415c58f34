"""Waiting and running tasks by their ids, and the free capacity of servers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Flags, Ints
from copter.compile.kernels import kernel
from copter.problems.placement.occupancy import Fleet, Free, take
from copter.problems.placement.place import Place, PlacementError, check
from copter.problems.placement.rounds.groups import Closeness, TaskGroup, Together
from copter.problems.placement.servers import Servers
from copter.problems.placement.tasks import TaskKind, Tasks

_WAITS = -1
"""Server number of a waiting task."""
_NOBODY = -1


class Running:
    """Tasks that run on servers, and tasks that wait.

    `servers`: all free at first. `kinds`: kinds of tasks; tasks refer to a kind by its index. `usable` (n,):
    servers that neither failed nor are drained. `waiting` (kinds,): number of waiting tasks of each kind.
    """

    def __init__(self, servers: Servers, kinds: Sequence[TaskKind]) -> None:
        check(servers, kinds)
        self.servers, self.kinds = servers, tuple(kinds)
        tasks = Tasks(self.kinds, np.empty(0, np.int64))
        self.free, self.fleet = Free.of(servers), Fleet.of(servers, tasks)
        self.usable = np.ones(len(servers), np.bool_)
        self.waiting = np.zeros(len(kinds), np.int64)
        self._number: dict[str, int] = {name: number for number, name in enumerate(servers.names)}
        self._slot: dict[Hashable, int] = {}
        self._id: list[Hashable] = []
        self._unused: list[int] = []
        self._queue: list[dict[int, None]] = [{} for _ in kinds]
        self._kind, self._server, self._gpus = (np.empty(0, np.int64) for _ in range(3))
        self._group: dict[int, TaskGroup] = {}
        self._closeness = Closeness()
        self._before: dict[int, tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self._slot)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._slot

    # ---- tasks ------------------------------------------------------------------------------------------

    def submit(self, ids: Sequence[Hashable], kinds: ArrayLike, group: TaskGroup | None = None) -> None:
        """Add tasks that wait; if any task is invalid, add none.

        `kinds`: index of each task's kind. `group`: constraint of these tasks.
        """
        ids = list(ids)
        kind = checked_kinds("submit", ids, kinds, len(self.kinds))
        taken = [id for id in ids if id in self._slot]
        if taken or len(set(ids)) < len(ids):
            what = f"task {taken[0]!r} exists already" if taken else "ids: must be different"
            raise PlacementError(f"submit: {what}")
        if group is not None:
            group.check(len(self.servers))
        slots = self._new_slots(ids)
        if group is not None:
            self._group |= dict.fromkeys(slots.tolist(), group)
        self._kind[slots], self._server[slots], self._gpus[slots] = kind, _WAITS, 0
        for slot, its in zip(slots.tolist(), kind.tolist(), strict=True):
            self._queue[its][slot] = None
        np.add.at(self.waiting, kind, 1)

    def adopt(self, ids: Sequence[Hashable], kinds: ArrayLike, servers: ArrayLike, gpus: ArrayLike) -> None:
        """Add tasks that run already; if any task is invalid, add none.

        `kinds`, `servers`, `gpus`: kind, server and bit set of GPUs of each task.
        """
        ids = list(ids)
        kind = checked_kinds("adopt", ids, kinds, len(self.kinds))
        server, bits = (np.array(each, np.int64) for each in (servers, gpus))
        if server.shape != (len(ids),) or bits.shape != (len(ids),):
            raise PlacementError(
                f"adopt: shapes of servers {server.shape} and gpus {bits.shape}: must be ({len(ids)},)"
            )
        if server.size and not 0 <= int(server.min()) <= int(server.max()) < len(self.servers):
            wrong = int(server[(server < 0) | (server >= len(self.servers))][0])
            raise PlacementError(f"adopt: server = {wrong}: must be in [0, {len(self.servers)})")
        wrong = _wrong(self.free.copy(), self.fleet, kind, server, bits)
        if wrong >= 0:
            name = self.servers.names[server[wrong]]
            where = f"server {name!r} {_in_words(int(bits[wrong]))}"
            raise PlacementError(f"adopt: task {ids[wrong]!r}: does not fit on {where}")
        self.submit(ids, kind)
        self.start(self.slots(ids), server, bits)

    def finish(self, ids: Iterable[Hashable]) -> None:
        """Remove running or waiting tasks; if any id is unknown or occurs twice, remove none."""
        ids = list(ids)
        slots = self._slots(ids, "finish")
        self._leave(slots)
        for slot in slots.tolist():
            if self._server[slot] == _WAITS:
                del self._queue[self._kind[slot]][slot]
            del self._slot[self._id[slot]]
            self._id[slot] = None
            self._group.pop(slot, None)
        there = self._server[slots] == _WAITS
        np.subtract.at(self.waiting, self._kind[slots[there]], 1)
        self._server[slots] = _WAITS
        self._kind[slots] = _NOBODY
        self._unused.extend(slots.tolist())

    def all_ids(self) -> list[Hashable]:
        """Return the ids of all tasks, running or waiting."""
        return list(self._slot)

    def place_of(self, id: Hashable) -> Place | None:
        """Return the place of a task; None while it waits."""
        slot = int(self._slots([id], "place_of")[0])
        server = int(self._server[slot])
        return None if server == _WAITS else Place(server, int(self._gpus[slot]))

    def kind_of(self, id: Hashable) -> int:
        """Return the index of a task's kind."""
        return int(self._kind[self._slots([id], "kind_of")[0]])

    def on(self, servers: Flags) -> Ints:
        """Return the slots of the tasks that run on some servers, ascending. `servers` (n,)."""
        runs = np.flatnonzero(self._server >= 0)
        return runs[servers[self._server[runs]]]

    def slots(self, ids: Iterable[Hashable]) -> Ints:
        """Return the slots of tasks by id."""
        return np.array([self._slot[id] for id in ids], np.int64)

    def places_of(self, slots: Ints) -> tuple[Ints, Ints]:
        """Return the servers of tasks by slot, and the bit sets of their GPUs."""
        return self._server[slots], self._gpus[slots]

    def ids(self, slots: Ints) -> list[Hashable]:
        """Return the ids of tasks by slot."""
        return [self._id[slot] for slot in slots.tolist()]

    def waiting_of(self, kind: int) -> list[int]:
        """Return the slots of the waiting tasks of a kind, in the order of their queue."""
        return list(self._queue[kind])

    def kinds_of(self, slots: Ints) -> Ints:
        """Return the kinds of tasks by slot."""
        return self._kind[slots]

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Allow starts and moves of tasks in the context, and undo them at its end or at an error."""
        queues, self._before = [queue.copy() for queue in self._queue], {}
        try:
            yield
        finally:
            before, self._before = self._before, None
            slots = np.array(list(before), np.int64)
            self._leave(slots)
            places = np.array(list(before.values()), np.int64).reshape(-1, 2)
            self._server[slots], self._gpus[slots] = places[:, 0], places[:, 1]
            self._enter(slots[places[:, 0] >= 0])
            self._queue = queues
            self.waiting[:] = [len(queue) for queue in queues]

    # ---- places -----------------------------------------------------------------------------------------

    def waiting_alone(self) -> Ints:
        """Return the number of waiting tasks of each kind without a group; (kinds,)."""
        waits = [self._kind[slot] for slot in self._group if self._server[slot] == _WAITS]
        return self.waiting - np.bincount(np.array(waits, np.int64), minlength=self.waiting.size)

    def longest(self, kinds: Ints, servers: Ints) -> Ints:
        """Return for each place the slot of the allowed task that has waited longest.

        `kinds`, `servers` (t,): kind and server of each place; there are at most as many places for a kind as
        tasks of the kind wait. Result: (t,), -1 for a place that the groups of all tasks forbid.
        """
        slots = np.empty(kinds.size, np.int64)
        order = np.argsort(kinds, kind="stable")
        in_groups = {int(self._kind[slot]) for slot in self._group if self._server[slot] == _WAITS}
        for kind, many in enumerate(np.bincount(kinds, minlength=len(self.kinds)).tolist()):
            its, order = order[:many], order[many:]
            if kind in in_groups:
                slots[its] = self._allowed(kind, servers[its])
            else:
                slots[its] = list(islice(self._queue[kind], many))
        self._note_all(slots, servers, -1)
        return slots

    def _allowed(self, kind: int, servers: Ints) -> list[int]:
        """Return the slot of a task of a kind that its group allows on each server; -1 if there is none.

        The chosen tasks count for the constraints of their groups' other tasks.
        """
        left, chosen = dict(self._queue[kind]), []
        for server in servers.tolist():
            slot = next((slot for slot in left if self.allows(slot, server)), -1)
            chosen.append(slot)
            if slot >= 0:
                del left[slot]
                self._note(slot, server, 1)
        return chosen

    def allows(self, slot: int, server: int) -> bool:
        """Return whether the constraint of a task's group allows it on a server."""
        group = self._group.get(slot)
        return group is None or self._closeness.allows(group, server)

    def servers_for(self, slot: int) -> Flags:
        """Return the usable servers that the constraint of a task's group allows; (n,)."""
        group, server = self._group.get(slot), int(self._server[slot])
        if group is None:
            return self.usable
        if server != _WAITS:  # the task itself does not count
            self._closeness.count(group, server, -1)
        servers = self._closeness.servers(group, self.usable)
        if server != _WAITS:
            self._closeness.count(group, server, 1)
        return servers

    def together(self, slot: int) -> Ints:
        """Return the slots of the running tasks of a task's affinity group; none without such a group."""
        group = self._group[slot]
        if not isinstance(group, Together):
            return np.empty(0, np.int64)
        others = ((each, its) for each, its in self._group.items() if isinstance(its, Together))
        slots = np.array([each for each, its in others if its.group == group.group], np.int64)
        return slots[self._server[slots] >= 0]

    def grouped(self, slots: Ints) -> Flags:
        """Return a flag for each task: whether it has a group; (t,)."""
        return np.array([slot in self._group for slot in slots.tolist()], np.bool_)

    def _note_all(self, slots: Ints, servers: Ints, change: int) -> None:
        if self._group:
            for slot, server in zip(slots.tolist(), servers.tolist(), strict=True):
                self._note(slot, server, change)

    def _note(self, slot: int, server: int, change: int) -> None:
        group = self._group.get(slot)
        if group is not None:
            self._closeness.count(group, server, change)

    def start(self, slots: Ints, servers: Ints, gpus: Ints) -> None:
        """Start waiting tasks, or move running tasks.

        `slots`, `servers`, `gpus` (t,): slot, server and bit set of GPUs of each task; all must fit together.
        """
        self._leave(slots)
        self._remember(slots)
        for slot in slots[self._server[slots] == _WAITS].tolist():
            kind = self._kind[slot]
            del self._queue[kind][slot]
            self.waiting[kind] -= 1
        self._server[slots], self._gpus[slots] = servers, gpus
        self._enter(slots)

    def stop(self, slots: Ints) -> None:
        """Return running tasks to the front of the queues of their kinds."""
        self._leave(slots)
        self._remember(slots)
        self._server[slots] = _WAITS
        kinds = self._kind[slots]
        np.add.at(self.waiting, kinds, 1)
        for kind in np.unique(kinds).tolist():
            first = dict.fromkeys(slots[kinds == kind].tolist())
            self._queue[kind] = first | self._queue[kind]

    def _remember(self, slots: Ints) -> None:
        """Record the places of tasks for the end of a trial."""
        if self._before is not None:
            places = zip(
                slots.tolist(), self._server[slots].tolist(), self._gpus[slots].tolist(), strict=True
            )
            for slot, *place in places:
                self._before.setdefault(slot, (place[0], place[1]))

    def numbers(self, servers: Iterable[str], what: str) -> Ints:
        """Return the indices of servers by name."""
        numbers = []
        for name in servers:
            if name not in self._number:
                raise PlacementError(f"{what}: no server {name!r}")
            numbers.append(self._number[name])
        return np.array(numbers, np.int64)

    def _leave(self, slots: Ints) -> None:
        """Free the capacity of those tasks that run."""
        runs = slots[self._server[slots] >= 0]
        self._note_all(runs, self._server[runs], -1)
        _take_all(self.free, self.fleet, self._kind[runs], self._server[runs], self._gpus[runs], -1)

    def _enter(self, slots: Ints) -> None:
        """Take the capacity of running tasks."""
        servers, gpus = self.places_of(slots)
        self._note_all(slots, servers, 1)
        _take_all(self.free, self.fleet, self._kind[slots], servers, gpus, 1)

    def _slots(self, ids: Sequence[Hashable], what: str) -> Ints:
        unknown = [id for id in ids if id not in self._slot]
        if unknown:
            raise PlacementError(f"{what}: no task {unknown[0]!r}")
        slots = np.array([self._slot[id] for id in ids], np.int64)
        if np.unique(slots).size < slots.size:
            raise PlacementError(f"{what}: ids: must be different")
        return slots

    def _new_slots(self, ids: list[Hashable]) -> Ints:
        """Return slots for new tasks."""
        again = [self._unused.pop() for _ in range(min(len(ids), len(self._unused)))]
        begin = len(self._id)
        slots = again + list(range(begin, begin + len(ids) - len(again)))
        self._id.extend([None] * (len(ids) - len(again)))
        if len(self._id) > self._kind.size:
            more = max(len(self._id), 2 * self._kind.size) - self._kind.size
            new = np.full(more, _WAITS, np.int64)
            self._kind, self._server, self._gpus = (
                np.concatenate([old, new]) for old in (self._kind, self._server, self._gpus)
            )
        for id, slot in zip(ids, slots, strict=True):
            self._id[slot] = id
            self._slot[id] = slot
        return np.array(slots, np.int64)


def checked_kinds(what: str, ids: Sequence[Hashable], kinds: ArrayLike, number: int) -> Ints:
    """Return the kind of each task, checked; `what` is for messages, `number` the number of kinds."""
    given = np.asarray(kinds)
    if given.size and given.dtype.kind not in "iu":
        raise PlacementError(f"{what}: kinds of type {given.dtype}: must be integers")
    if given.ndim and given.shape != (len(ids),):
        raise PlacementError(f"{what}: kinds of shape {given.shape}: must be ({len(ids)},)")
    kind = np.broadcast_to(given.astype(np.int64), len(ids))
    if kind.size and not 0 <= int(kind.min()) <= int(kind.max()) < number:
        wrong = int(kind[(kind < 0) | (kind >= number)][0])
        raise PlacementError(f"{what}: kind = {wrong}: must be in [0, {number})")
    return kind


@kernel
def _take_all(free: Free, fleet: Fleet, kinds: Ints, servers: Ints, gpus: Ints, sign: int) -> None:
    for task in range(kinds.size):
        take(free, fleet, kinds[task], servers[task], gpus[task], sign)


def _in_words(gpus: int) -> str:
    """Return the GPUs of a bit set as text, such as "on GPUs 0 and 2"."""
    numbers = [str(gpu) for gpu in range(64) if gpus >> gpu & 1]
    if len(numbers) < 2:
        return f"on GPU {numbers[0]}" if numbers else "without GPUs"
    return f"on GPUs {', '.join(numbers[:-1])} and {numbers[-1]}"


@kernel
def _wrong(free: Free, fleet: Fleet, kinds: Ints, servers: Ints, gpus: Ints) -> int:
    """Return the first task that does not fit on its server with all earlier tasks; -1 if all fit."""
    for task in range(kinds.size):
        kind, server, many = kinds[task], servers[task], 0
        if fleet.gpus[kind] and not fleet.allowed[kind, fleet.model[server]]:
            return task
        take(free, fleet, kind, server, gpus[task], 1)
        if free.cpu[server] < 0 or free.memory[server] < 0:
            return task
        for gpu in range(free.gpus.shape[1]):
            many += (gpus[task] >> gpu) & 1
            if free.gpus[server, gpu] < 0:
                return task
        beyond = free.gpus.shape[1] < 63 and gpus[task] >> free.gpus.shape[1] != 0
        if many != fleet.gpus[kind] or beyond:
            return task
    return -1
