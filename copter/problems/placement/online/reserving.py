"""copter's policy: it reserves servers for the patterns of a plan, and tasks take the reservations.

An arriving task goes

1. to a reservation of its kind, on the server with the fewest open reservations, so that servers fill up;
2. otherwise to capacity that is neither taken nor reserved, by best fit;
3. otherwise to the place where the displaced reservations have the least value.

So every task that fits is placed, and no task moves.  The last reservation of a kind has the value w_k times
the probability that it is still needed.  Let the kind have r open reservations.  The last one is needed if at
least r tasks of the kind arrive before the demand of the plan is reached.  The number of arrivals is Poisson,
and its tail is approximated by a normal distribution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.problems.placement.occupancy import Fleet, Free, fits, take, tightest, tightest_server
from copter.problems.placement.online.plan import ReservationPlanner
from copter.problems.placement.online.policy import PlacementPolicy
from copter.problems.placement.place import Place, give_back
from copter.problems.placement.servers import Servers
from copter.problems.placement.tasks import Tasks

CPU_WORTH = 20.0
"""Value of a task without GPUs, in thousandths of a GPU: small, but positive."""


class _Reservations(NamedTuple):
    """Reservations, by server.

    `begins` (n + 1,): server s has the reservations begins[s] to begins[s + 1] - 1. `server`, `kind`, `gpus`
    (r,): server, kind and bit set of GPUs of each reservation. `open` (r,): whether the reservation is open.
    `on` (n,): number of open reservations on each server. `of` (kinds,): number of open reservations of each
    kind.
    """

    begins: Ints
    server: Ints
    kind: Ints
    gpus: Ints
    open: Flags
    on: Ints
    of: Ints


class Reserving(PlacementPolicy):
    """A policy with a plan for the demand that fills the cluster, and reservations from this plan.

    `planned`: capacity that is neither taken nor reserved.
    """

    def __init__(self, servers: Servers, known: Tasks, seed: int = 0) -> None:
        super().__init__(servers, known, seed)
        worth = known.asked.worth
        self._worth = np.where(worth > 0, worth, CPU_WORTH).astype(np.float64)
        mean = float(known.frequency @ worth)
        self._demand = known.frequency * (servers.milli / mean if mean else 0.0)
        self._came = np.zeros(len(known.kinds))
        self.planned = self.free.copy()
        self._reserved = self._plan()
        self._gone = np.zeros(self._reserved.kind.size, np.bool_)
        self._all = np.ones(len(servers), np.bool_)

    def _plan(self) -> _Reservations:
        """Make a plan for the demand, and return its reservations."""
        n, kinds = len(self.servers), len(self.known.kinds)
        planner = ReservationPlanner(self.free, self.fleet, self._demand, self._worth, self.rng)
        given = planner.assign(planner.improve())
        begins = np.zeros(n + 1, np.int64)
        for server, pattern in given.items():
            begins[server + 1] = pattern.kinds.size
        begins = np.cumsum(begins)
        kind, gpus = np.empty(begins[-1], np.int64), np.empty(begins[-1], np.int64)
        for server, pattern in given.items():
            kind[begins[server] : begins[server + 1]] = pattern.kinds
            gpus[begins[server] : begins[server + 1]] = pattern.gpus
        reserved = _Reservations(
            begins,
            np.repeat(np.arange(n), np.diff(begins)),
            kind,
            gpus,
            np.ones(kind.size, np.bool_),
            np.diff(begins),
            np.bincount(kind, minlength=kinds),
        )
        _reserve(self.planned, self.fleet, reserved)
        return reserved

    def leave(self, kind: int, place: Place) -> None:
        """Free the capacity of a task; the capacity is not reserved again."""
        super().leave(kind, place)
        give_back(self.planned, self.fleet, kind, place)

    def choose(self, kind: int) -> Place | None:
        """Return the place of a task of a kind, and close the reservations that it takes or displaces."""
        self._came[kind] += 1
        place = _own(self._reserved, kind)
        if place < 0:
            server = tightest_server(self.planned, self.fleet, self._all, kind, self.most)
            if server < 0:
                left = np.maximum(self._demand - self._came, 0.0)
                values = self._worth * _needed(left, self._reserved.of)
                server = _give_up(
                    self._reserved, self.free, self.planned, self.fleet, kind, values, self._gone
                )
                if server < 0:
                    return None
            gpus = int(_place(self.planned, self.fleet, kind, server))
            return Place(int(server), gpus)
        return Place(int(self._reserved.server[place]), int(self._reserved.gpus[place]))


def _needed(left: Floats, reserved: Ints) -> Floats:
    """Return the probability that the last reservation of each kind is needed; `left` tasks are expected."""
    return np.array(
        [
            0.5 * math.erfc((many - 0.5 - expected) / math.sqrt(2.0 * max(expected, 1e-6)))
            for expected, many in zip(left, reserved, strict=True)
        ]
    )


@kernel
def _reserve(planned: Free, fleet: Fleet, reserved: _Reservations) -> None:
    for one in range(reserved.kind.size):
        take(planned, fleet, reserved.kind[one], reserved.server[one], reserved.gpus[one], 1)


@kernel
def _own(reserved: _Reservations, kind: int) -> int:
    """Close a reservation of a kind on the server with the fewest open ones; return it, or -1 if none."""
    best = -1
    if reserved.of[kind] == 0:
        return best
    for one in range(reserved.kind.size):
        if reserved.kind[one] == kind and reserved.open[one]:
            if best < 0 or reserved.on[reserved.server[one]] < reserved.on[reserved.server[best]]:
                best = one
    _close(reserved, best)
    return best


@kernel(inner=True)
def _close(reserved: _Reservations, one: int) -> None:
    reserved.open[one] = False
    reserved.on[reserved.server[one]] -= 1
    reserved.of[reserved.kind[one]] -= 1


@kernel
def _place(planned: Free, fleet: Fleet, kind: int, server: int) -> int:
    """Take a task's capacity from what is neither taken nor reserved; return the bit set of its GPUs."""
    gpus = tightest(planned.gpus[server], fleet.milli[kind], fleet.gpus[kind])
    take(planned, fleet, kind, server, gpus, 1)
    return gpus


@kernel(inner=True)
def _loss(
    reserved: _Reservations,
    planned: Free,
    fleet: Fleet,
    kind: int,
    server: int,
    gpus: int,
    values: Floats,
    gone: Flags,
) -> float:
    """Return the value of the reservations that a task displaces on some GPUs; mark them in `gone`."""
    begin, end = reserved.begins[server], reserved.begins[server + 1]
    cpu, memory, loss = planned.cpu[server], planned.memory[server], 0.0
    for one in range(begin, end):
        gone[one] = False
    for gpu in range(planned.gpus.shape[1]):
        left = planned.gpus[server, gpu]
        for one in range(begin, end):
            if gone[one] and (reserved.gpus[one] >> gpu) & 1:
                left += fleet.milli[reserved.kind[one]]
        while (gpus >> gpu) & 1 and left < fleet.milli[kind]:
            its = _displace(reserved, fleet, server, values, gone, 1 << gpu, False, False)
            loss += values[its]
            left += fleet.milli[its]
            cpu += fleet.cpu[its]
            memory += fleet.memory[its]
    while cpu < fleet.cpu[kind] or memory < fleet.memory[kind]:
        short = cpu < fleet.cpu[kind], memory < fleet.memory[kind]
        its = _displace(reserved, fleet, server, values, gone, 0, short[0], short[1])
        loss += values[its]
        cpu += fleet.cpu[its]
        memory += fleet.memory[its]
    return loss


@kernel(inner=True)
def _displace(
    reserved: _Reservations,
    fleet: Fleet,
    server: int,
    values: Floats,
    gone: Flags,
    gpus: int,
    cpu: bool,
    memory: bool,
) -> int:
    """Mark the least valuable reservation on some GPUs, or with CPU or memory; return its kind."""
    best = -1
    for one in range(reserved.begins[server], reserved.begins[server + 1]):
        its = reserved.kind[one]
        takes = (cpu and fleet.cpu[its] > 0) or (memory and fleet.memory[its] > 0)
        helps = (reserved.gpus[one] & gpus) != 0 or takes
        if helps and reserved.open[one] and not gone[one]:
            if best < 0 or values[its] < values[reserved.kind[best]]:
                best = one
    gone[best] = True
    return reserved.kind[best]


@kernel(inner=True)
def _emptiest(free: Free, planned: Free, fleet: Fleet, kind: int, server: int) -> int:
    """Return the bit set of GPUs for a task with several GPUs: those with the least reserved capacity."""
    gpus = 0
    for _ in range(fleet.gpus[kind]):
        best = -1
        for gpu in range(free.gpus.shape[1]):
            if free.gpus[server, gpu] >= fleet.milli[kind] and not (gpus >> gpu) & 1:
                if best < 0 or planned.gpus[server, gpu] > planned.gpus[server, best]:
                    best = gpu
        gpus |= 1 << best
    return gpus


@kernel
def _give_up(
    reserved: _Reservations, free: Free, planned: Free, fleet: Fleet, kind: int, values: Floats, gone: Flags
) -> int:
    """Close the least valuable reservations that make room for a task; return the server, or -1."""
    best, chosen, least = -1, 0, 0.0
    for server in range(free.cpu.size):
        if not fits(free, fleet, kind, server):
            continue
        if fleet.gpus[kind] == 1:
            for gpu in range(free.gpus.shape[1]):
                if free.gpus[server, gpu] >= fleet.milli[kind]:
                    loss = _loss(reserved, planned, fleet, kind, server, 1 << gpu, values, gone)
                    if best < 0 or loss < least:
                        best, chosen, least = server, 1 << gpu, loss
        else:
            gpus = _emptiest(free, planned, fleet, kind, server)
            loss = _loss(reserved, planned, fleet, kind, server, gpus, values, gone)
            if best < 0 or loss < least:
                best, chosen, least = server, gpus, loss
    if best >= 0:
        _loss(reserved, planned, fleet, kind, best, chosen, values, gone)
        for one in range(reserved.begins[best], reserved.begins[best + 1]):
            if gone[one]:
                _close(reserved, one)
                take(planned, fleet, reserved.kind[one], best, reserved.gpus[one], -1)
    return best
