"""Defragmentation: a running task moves to a server where it leaves fewer fragments.

F_s is the free capacity of server s in fragments, a mean over the types of tasks that arrived, as in FGD
(:mod:`copter.problems.placement.fragments`).  A move of task t from s to r changes the sum of F by

    F_s(without t) - F_s  +  F_r(with t) - F_r.

Moves are made one after another, the one with the largest decrease first, until no move decreases the sum by
a thousandth of a GPU.  After each move only s and r are evaluated again.  No task moves twice, and tasks of
groups stay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.problems.placement.fragments import Types, fragments
from copter.problems.placement.occupancy import Fleet, Free, fits, take, tightest
from copter.problems.placement.rounds.running import Running
from copter.problems.placement.servers import MILLI
from copter.problems.placement.tasks import Tasks

_LEAST = 1.0
"""Least decrease of fragments by a move, in thousandths of a GPU."""


class _Moving(NamedTuple):
    """Tasks that may move, and the effects of moves.

    `slot`, `kind`, `server`, `gpus` (t,): of each task. `stays` (t,): the task has moved. `without` (t,):
    change of its server's F without the task. `with_one` (kinds, n): change of a server's F with one more
    task of a kind; infinite if it does not fit. `on` (kinds, n): bit set of the GPUs that it would get.
    `left` (m,): work array, free capacity of each GPU.
    """

    slot: Ints
    kind: Ints
    server: Ints
    gpus: Ints
    stays: Flags
    without: Floats
    with_one: Floats
    on: Ints
    left: Ints


def gather(running: Running, came: Ints, moves: int) -> list[int]:
    """Move running tasks, and return the slots of those that moved.

    `came` (kinds,): number of arrivals of each kind so far, whose frequencies are those of the expected
    tasks. `moves`: largest number of moves.
    """
    slot = running.on(np.ones(len(running.servers), np.bool_))
    slot = slot[~running.grouped(slot)]
    if not slot.size or not moves:
        return []
    kind = running.kinds_of(slot)
    server, gpus = running.places_of(slot)
    shape = came.size, len(running.servers)
    moving = _Moving(
        slot,
        kind,
        server.copy(),
        gpus.copy(),
        np.zeros(slot.size, np.bool_),
        np.empty(slot.size),
        np.full(shape, np.inf),
        np.zeros(shape, np.int64),
        np.empty(running.free.gpus.shape[1], np.int64),
    )
    types = Types.of(Tasks(running.kinds, np.repeat(np.arange(came.size), came)), running.servers)
    there = np.unique(kind)
    free = running.free.copy()
    every = np.arange(len(running.servers))
    _look(free, running.fleet, running.usable, types, there, every, moving, np.arange(slot.size))
    # Order tasks by server.  Tasks that moved are not evaluated any more, so the order need not be updated.
    order = np.argsort(server, kind="stable")
    begins = np.searchsorted(server[order], np.arange(len(running.servers) + 1))
    moved: list[int] = []
    while len(moved) < moves:
        to = moving.with_one.argmin(axis=1)
        more = moving.with_one[np.arange(to.size), to]
        change = moving.without + more[kind]
        change[moving.stays | (to[kind] == moving.server)] = np.inf
        best = int(change.argmin())
        if change[best] > -_LEAST:
            break
        old, new = int(moving.server[best]), int(to[kind[best]])
        moving.gpus[best] = moving.on[kind[best], new]
        moving.server[best] = new
        moving.stays[best] = True
        moved.append(int(slot[best]))
        running.start(slot[best : best + 1], np.array([new]), moving.gpus[best : best + 1])
        for array, now in zip(free, running.free, strict=True):
            array[[old, new]] = now[[old, new]]
        tasks = np.concatenate([order[begins[its] : begins[its + 1]] for its in (old, new)])
        tasks = tasks[~moving.stays[tasks]]
        _look(free, running.fleet, running.usable, types, there, np.array([old, new]), moving, tasks)
    return moved


@kernel
def _look(
    free: Free,
    fleet: Fleet,
    usable: Flags,
    types: Types,
    kinds: Ints,
    servers: Ints,
    moving: _Moving,
    tasks: Ints,
) -> None:
    """Compute changes of F of some servers with one more task of each kind, and without some tasks."""
    for server in servers:
        _left(free, server, moving.left)
        now = fragments(free.cpu[server], moving.left, fleet.model[server], types)
        for kind in kinds:
            moving.with_one[kind, server] = np.inf
            if usable[server] and fits(free, fleet, kind, server):
                _with_one(free, fleet, types, kind, server, now, moving)
    for task in tasks:
        server = moving.server[task]
        _left(free, server, moving.left)
        now = fragments(free.cpu[server], moving.left, fleet.model[server], types)
        take(free, fleet, moving.kind[task], server, moving.gpus[task], -1)
        _left(free, server, moving.left)
        moving.without[task] = fragments(free.cpu[server], moving.left, fleet.model[server], types) - now
        take(free, fleet, moving.kind[task], server, moving.gpus[task], 1)


@kernel(inner=True)
def _left(free: Free, server: int, left: Ints) -> None:
    for gpu in range(left.size):
        left[gpu] = free.gpus[server, gpu]


@kernel(inner=True)
def _with_one(
    free: Free, fleet: Fleet, types: Types, kind: int, server: int, now: float, moving: _Moving
) -> None:
    """Compute the change of F with one more task of a kind on a server; a share goes to the best GPU."""
    milli, cpu, model = fleet.milli[kind], free.cpu[server] - fleet.cpu[kind], fleet.model[server]
    if fleet.gpus[kind] != 1 or milli == MILLI:
        gpus = tightest(free.gpus[server], milli, fleet.gpus[kind])
        for gpu in range(moving.left.size):
            moving.left[gpu] = free.gpus[server, gpu] - milli * ((gpus >> gpu) & 1)
        moving.with_one[kind, server] = fragments(cpu, moving.left, model, types) - now
        moving.on[kind, server] = gpus
        return
    _left(free, server, moving.left)
    for gpu in range(moving.left.size):
        if free.gpus[server, gpu] >= milli:
            moving.left[gpu] -= milli
            change = fragments(cpu, moving.left, model, types) - now
            moving.left[gpu] += milli
            if change < moving.with_one[kind, server]:
                moving.with_one[kind, server], moving.on[kind, server] = change, 1 << gpu
