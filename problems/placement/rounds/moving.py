"""Room for tasks that fit nowhere: running tasks move to other servers.

A waiting task of kind k is placed on server s if enough tasks there can move.  The least valuable tasks whose
kinds fit elsewhere are removed until k fits; then those that are not needed are put back.  Servers with the
fewest moves are tried first, and kinds in descending order of value.  The moves are made if w_k is at least
their price.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.clock import over
from copter.compile.kernels import kernel
from copter.problems.placement.occupancy import Fleet, Free, Most, fits, take, tightest_on, tightest_server
from copter.problems.placement.rounds.running import Running

_MOST_MOVES = 4
"""Largest number of moves for one waiting task."""


class _Moved(NamedTuple):
    """Result of moves.

    `placed`, `moved`: slots of tasks that waited, and of running tasks that moved.
    """

    placed: list[int]
    moved: list[int]


class _Tasks(NamedTuple):
    """Running tasks by server, in ascending order of value on each server."""

    begins: Ints
    slot: Ints
    kind: Ints
    gpus: Ints

    @classmethod
    def of(cls, running: Running, values: Floats) -> _Tasks:
        slot = running.on(np.ones(len(running.servers), np.bool_))
        kind, server, gpus = running.kinds_of(slot), *running.places_of(slot)
        order = np.lexsort((slot, values[kind], server))
        begins = np.searchsorted(server[order], np.arange(len(running.servers) + 1))
        return cls(begins, slot[order], kind[order], gpus[order])


def make_room(running: Running, values: Floats, most: Most, moves: int, price: float) -> _Moved:
    """Place waiting tasks on servers from which running tasks can move.

    `values` (kinds,): value of a task of each kind. `moves`: largest number of moves; a task moves at most
    once. `price`: price of a move.
    """
    done = _Moved([], [])
    tasks = _Tasks.of(running, values)
    stays = np.zeros(tasks.slot.size, np.bool_)
    kinds, away = np.flatnonzero(running.waiting), np.empty(_MOST_MOVES, np.int64)
    for kind in kinds[np.argsort(-values[kinds], kind="stable")]:
        if over():
            break
        room = _room(running, most)
        count = np.zeros(len(running.servers), np.int64)
        limit = min(_MOST_MOVES, int(values[kind] / price * (1.0 + 1e-9)) if price > 0.0 else _MOST_MOVES)
        _counts(running.free, running.fleet, running.usable, kind, tasks, room, stays, limit, away, count)
        servers = np.flatnonzero(count)
        for server in servers[np.argsort(count[servers], kind="stable")].tolist():
            left = moves - len(done.moved)
            if not running.waiting[kind] or not left or over():
                break
            _one(running, most, int(kind), server, tasks, stays, min(limit, left), done)
    return done


def _one(
    running: Running,
    most: Most,
    kind: int,
    server: int,
    tasks: _Tasks,
    stays: Flags,
    limit: int,
    done: _Moved,
) -> None:
    """Place a task of a kind on a server if enough running tasks find another server."""
    slot = next((slot for slot in running.waiting_of(kind) if running.allows(slot, server)), -1)
    away = np.empty(_MOST_MOVES, np.int64)
    room = _room(running, most)
    many = _away(running.free, running.fleet, kind, server, tasks, room, stays, limit, away)
    if slot < 0 or many < 0:
        return
    before = []
    for one in away[:many]:
        its = tasks.slot[one : one + 1]
        usable = running.servers_for(int(its[0])).copy()
        usable[server] = False
        to = int(tightest_server(running.free, running.fleet, usable, int(tasks.kind[one]), most))
        if to < 0:
            break
        before.append((its, *running.places_of(its)))
        running.start(its, *_at(running, int(tasks.kind[one]), to))
    # Tasks of the group with which it must be together may have moved.
    if len(before) < many or not running.allows(slot, server):
        for old in before:
            running.start(*old)
        return
    stays[away[:many]] = True
    done.moved.extend(tasks.slot[away[:many]].tolist())
    running.start(np.array([slot]), *_at(running, kind, server))
    done.placed.append(slot)


def _at(running: Running, kind: int, server: int) -> tuple[Ints, Ints]:
    """Return a server, and the GPUs that a task gets there."""
    gpus = tightest_on(running.free, running.fleet, kind, server)
    return np.array([server]), np.array([gpus], np.int64)


def _room(running: Running, most: Most) -> Ints:
    """Return for each kind the usable server by best fit; -1 if a task fits nowhere."""
    rooms = np.empty(running.waiting.size, np.int64)
    _rooms(running.free, running.fleet, running.usable, most, rooms)
    return rooms


@kernel
def _rooms(free: Free, fleet: Fleet, usable: Flags, most: Most, rooms: Ints) -> None:
    for kind in range(rooms.size):
        rooms[kind] = tightest_server(free, fleet, usable, kind, most)


@kernel
def _counts(
    free: Free,
    fleet: Fleet,
    usable: Flags,
    kind: int,
    tasks: _Tasks,
    room: Ints,
    stays: Flags,
    limit: int,
    away: Ints,
    count: Ints,
) -> None:
    """Count the moves for one task of a kind, on each server where this is possible."""
    for server in range(free.cpu.size):
        if usable[server]:
            count[server] = max(_away(free, fleet, kind, server, tasks, room, stays, limit, away), 0)


@kernel
def _away(
    free: Free,
    fleet: Fleet,
    kind: int,
    server: int,
    tasks: _Tasks,
    room: Ints,
    stays: Flags,
    limit: int,
    away: Ints,
) -> int:
    """Choose tasks of a server that make room for one of a kind; return their number, or -1."""
    if fleet.gpus[kind] and not fleet.allowed[kind, fleet.model[server]]:
        return -1
    begin, end, many = tasks.begins[server], tasks.begins[server + 1], 0
    wanted = _emptiest(free, fleet, kind, server)
    for one in range(begin, end):
        if many == limit or fits(free, fleet, kind, server):
            break
        its = tasks.kind[one]
        elsewhere = room[its] >= 0 and room[its] != server
        if not stays[one] and elsewhere and _helps(free, fleet, kind, server, wanted, its, tasks.gpus[one]):
            take(free, fleet, its, server, tasks.gpus[one], -1)
            away[many] = one
            many += 1
    enough = fits(free, fleet, kind, server)
    # Put back tasks that need not move, the most valuable first; then restore the free capacity.
    kept = many
    for at in range(many - 1, -1, -1):
        one = away[at]
        take(free, fleet, tasks.kind[one], server, tasks.gpus[one], 1)
        if enough and fits(free, fleet, kind, server):
            kept -= 1
            away[at] = away[kept]
            away[kept] = one
        else:
            take(free, fleet, tasks.kind[one], server, tasks.gpus[one], -1)
    for at in range(kept):
        take(free, fleet, tasks.kind[away[at]], server, tasks.gpus[away[at]], 1)
    return kept if enough else -1


@kernel(inner=True)
def _emptiest(free: Free, fleet: Fleet, kind: int, server: int) -> int:
    """Return the bit set of GPUs with most free capacity, as many as a task of a kind has."""
    wanted = 0
    for _ in range(fleet.gpus[kind]):
        best = -1
        for gpu in range(free.gpus.shape[1]):
            if not (wanted >> gpu) & 1 and (best < 0 or free.gpus[server, gpu] > free.gpus[server, best]):
                best = gpu
        if best >= 0:
            wanted |= 1 << best
    return wanted


@kernel(inner=True)
def _helps(free: Free, fleet: Fleet, kind: int, server: int, wanted: int, its: int, gpus: int) -> bool:
    """Return whether moving a task helps: it has CPU, memory or a wanted GPU that is short."""
    for gpu in range(free.gpus.shape[1]):
        if ((wanted & gpus) >> gpu) & 1 and free.gpus[server, gpu] < fleet.milli[kind]:
            return True
    cpu = free.cpu[server] < fleet.cpu[kind] and fleet.cpu[its] > 0
    return cpu or (free.memory[server] < fleet.memory[kind] and fleet.memory[its] > 0)
