"""Free capacity of each server, and tests whether a task fits, as arrays for kernels.

A share of a GPU is on one GPU: a task of 1 x 600 does not fit on two GPUs with 500 free each.  Tasks with
several GPUs take an equal share of each.  Unless a policy chooses the GPUs, a task of one GPU gets the
fullest GPU with enough capacity, and a task of several GPUs gets those with the lowest numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from copter.arrays import Flags, Ints
from copter.compile.kernels import kernel
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import Tasks


class Free(NamedTuple):
    """Free capacity; placing a task reduces it.

    `cpu`, `memory` (n,). `gpus` (n, m): thousandths of each GPU; 0 where a server has no such GPU.
    """

    cpu: Ints
    memory: Ints
    gpus: Ints

    @classmethod
    def of(cls, servers: Servers) -> Free:
        """Return the whole capacity of some servers as free."""
        return cls(servers.cpu.copy(), servers.memory.copy(), servers.free_gpus())

    def copy(self) -> Free:
        """Return a copy."""
        return Free(*(array.copy() for array in self))


class Most(NamedTuple):
    """Largest capacity of a server in thousandths of cores and of GPUs, at least 1."""

    cpu: int
    gpus: int

    @classmethod
    def of(cls, servers: Servers) -> Most:
        """Return the largest capacities of some servers."""
        return cls(max(int(servers.cpu.max()), 1), max(MILLI * int(servers.gpus.max()), 1))


class Fleet(NamedTuple):
    """Kinds of tasks, and the GPU models on which they may run, for kernels.

    `model` (n,): GPU model of each server. `allowed` (kinds, models). `cpu`, `memory`, `gpus`, `milli`
    (kinds,): request of a task of each kind: `gpus` GPUs with `milli` thousandths of each.
    """

    model: Ints
    allowed: Flags
    cpu: Ints
    memory: Ints
    gpus: Ints
    milli: Ints

    @classmethod
    def of(cls, servers: Servers, tasks: Tasks) -> Fleet:
        """Return the fleet of some servers and of all kinds of a list of tasks."""
        return cls(servers.model, tasks.allowed(servers), *tasks.asked)


@kernel(inner=True)
def fits(free: Free, fleet: Fleet, kind: int, server: int) -> bool:
    """Return whether a task of a kind fits on a server."""
    if free.cpu[server] < fleet.cpu[kind] or free.memory[server] < fleet.memory[kind]:
        return False
    wanted = fleet.gpus[kind]
    if wanted == 0:
        return True
    if not fleet.allowed[kind, fleet.model[server]]:
        return False
    for gpu in range(free.gpus.shape[1]):
        if free.gpus[server, gpu] >= fleet.milli[kind]:
            wanted -= 1
            if wanted == 0:
                return True
    return False


@kernel(inner=True)
def take(free: Free, fleet: Fleet, kind: int, server: int, gpus: int, sign: int) -> None:
    """Take a task's capacity on a server, or with sign -1 return it; `gpus` is the bit set of its GPUs."""
    free.cpu[server] -= sign * fleet.cpu[kind]
    free.memory[server] -= sign * fleet.memory[kind]
    for gpu in range(free.gpus.shape[1]):
        if (gpus >> gpu) & 1:
            free.gpus[server, gpu] -= sign * fleet.milli[kind]


@kernel(inner=True)
def tightest(left: Ints, milli: int, count: int) -> int:
    """Return the bit set of GPUs for a task: the fullest GPU that suffices, or the first several ones.

    `left` (m,): free capacity of each GPU of a server. `milli`, `count`: request of each GPU, and number of
    GPUs. The result is -1 if the GPUs do not suffice.
    """
    gpus = 0
    if count == 1:
        best = -1
        for gpu in range(left.size):
            if left[gpu] >= milli and (best < 0 or left[gpu] < left[best]):
                best = gpu
        return 1 << best if best >= 0 else -1
    for gpu in range(left.size):
        if count and left[gpu] >= milli:
            gpus |= 1 << gpu
            count -= 1
    return gpus if count == 0 else -1


@kernel
def tightest_on(free: Free, fleet: Fleet, kind: int, server: int) -> int:
    """Return the bit set of GPUs for a task of a kind on a server, see :func:`tightest`."""
    return tightest(free.gpus[server], fleet.milli[kind], fleet.gpus[kind])


@kernel
def tightest_server(free: Free, fleet: Fleet, usable: Flags, kind: int, most: Most) -> int:
    """Return the server with least CPU and GPU capacity left (best fit); -1 if a task fits nowhere.

    `usable` (n,): servers that may be chosen.
    """
    best, least = -1, 0.0
    for server in range(free.cpu.size):
        if usable[server] and fits(free, fleet, kind, server):
            left = free.cpu[server] / most.cpu
            gpus = 0
            for gpu in range(free.gpus.shape[1]):
                gpus += free.gpus[server, gpu]
            left += gpus / most.gpus
            if best < 0 or left < least:
                best, least = server, left
    return best
