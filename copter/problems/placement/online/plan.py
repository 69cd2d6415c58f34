"""Plans by column generation: the pattern of tasks that each server should have.

Servers with equal free capacity and GPU model form a *class* c of n_c servers.  A *pattern* p is a set of
tasks that fits on a server of a class, with a_kp tasks of each kind k.  With d_k expected tasks of kind k and
the value w_k of one such task,

    maximise    sum_p (sum_k w_k a_kp) y_p
    subject to  sum over the patterns of c of y_p <= n_c    every class, price u_c
                sum_p a_kp y_p <= d_k                       every kind, price v_k
                y >= 0.

There are too many patterns to list.  Patterns with a positive reduced value, sum_k (w_k - v_k) a_kp > u_c,
are added, and the program, which is kept, is solved again with a warm start.  The search is a heuristic: it
fills a server with kinds in random orders, by the ratio of w_k - v_k to a random weighted mean of the
requested CPU, memory and GPUs.  So the result is a plan, but not a bound: the random orders may miss patterns
with a positive reduced value.

Then servers get patterns: each pattern goes to as many servers as the integral part of y_p says, and the
remaining servers get the patterns with the largest fractional parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.problems.placement.occupancy import Fleet, Free, tightest
from copter.problems.placement.servers import MILLI
from copter.program.program import ContinualProgram
from copter.solvers.registry import repeatable_solver

_TRIES = 300
"""Number of fillings of a server for each class and iteration."""
_FEW = 20
"""Number of fillings for each step of the first plan."""
_MOST_TASKS = 256
"""Largest number of tasks of a pattern."""
_KEPT = 12
"""Largest number of patterns that are added for each class and iteration."""
_ITERATIONS = 40
"""Largest number of solves."""
_ENOUGH = 2e-5
"""The search stops if new patterns promise less than this share of the plan's value."""
_TOLERANCE = 1e-4
"""Tolerance of the solver."""
_NOISE = (0.0, 0.3, 1.0)


class _Pattern(NamedTuple):
    """A set of tasks for a server of a class.

    `group`: index of the class. `kinds` (s,): kind of each task. `gpus` (s,): bit set of the GPUs of each
    task.
    """

    group: int
    kinds: Ints
    gpus: Ints


def _classes(free: Free, fleet: Fleet) -> list[Ints]:
    """Return the servers of each class, which have the same free CPU, memory and GPUs, and the same model."""
    state = np.column_stack([free.cpu, free.memory, fleet.model, free.gpus])
    _, group = np.unique(state, axis=0, return_inverse=True)
    return np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])


class ReservationPlanner:
    """A plan for servers in their present state, which is improved while patterns are found.

    `free`: free capacity, which must not change before the plan is complete. `demand` (kinds,): expected
    tasks of each kind. `worth` (kinds,): value of a task of each kind. `value`: value of the plan with
    fractional patterns.
    """

    def __init__(
        self, free: Free, fleet: Fleet, demand: Floats, worth: Floats, rng: np.random.Generator
    ) -> None:
        self._free, self._fleet, self._demand, self._worth, self._rng = free, fleet, demand, worth, rng
        self._members = _classes(free, fleet)
        self.patterns: list[_Pattern] = []
        self.value = 0.0
        self._known: set[tuple[int, bytes]] = set()
        self._unit = int(np.gcd.reduce(np.append(fleet.milli, MILLI)))
        self._most = np.ceil(demand).astype(np.int64)
        self._solver = repeatable_solver("copter", tolerance=_TOLERANCE)
        self._program = ContinualProgram()
        sizes = [float(members.size) for members in self._members]
        self._program.add_resources([("class", group) for group in range(len(sizes))], upper=sizes)
        self._program.add_resources([("kind", kind) for kind in range(demand.size)], upper=demand)

    def improve(self) -> Floats:
        """Add patterns until new ones add little value; return the number of servers for each pattern."""
        self._begin()
        if not self.patterns:
            return np.zeros(0)
        shares, *prices = self._solve()
        for _ in range(_ITERATIONS - 1):
            promised = self._search(*prices)
            shares, *prices = self._solve()
            if promised <= _ENOUGH * self.value:
                break
        return shares

    def _solve(self) -> tuple[Floats, Floats, Floats]:
        """Return the number of servers for each pattern, and the dual prices of classes and kinds."""
        solution = self._solver.solve(self._program)
        self.value = -solution.objective
        x, price = solution.x, solution.price
        assert x is not None  # the program is feasible, because a plan without patterns is
        return (
            np.array([x[number][0] for number in range(len(self.patterns))]),
            np.array([price["class", group] for group in range(len(self._members))]),
            np.array([price["kind", kind] for kind in range(self._demand.size)]),
        )

    def _begin(self) -> None:
        """Add the patterns of a greedy plan, which fills class after class from the remaining demand."""
        left = self._most.copy()
        for group in self._rng.permutation(len(self._members)):
            free = self._members[group].size
            while free:
                attempts = self._filled(int(group), self._worth, 0.0, left, _FEW)
                if attempts is None:
                    break
                best = int(_sums(attempts, self._worth).argmax())
                tasks, gpus = attempts.mix(best)
                counts = np.bincount(tasks, minlength=left.size)
                there = np.flatnonzero(counts)
                if not there.size:
                    break
                times = min(free, int((left[there] // counts[there]).min()))
                left -= times * counts
                free -= times
                self._add(int(group), tasks, gpus)

    def _search(self, of_group: Floats, of_kind: Floats) -> float:
        """Add the best patterns found at some prices; return a bound on the value that they add."""
        promised, gain = 0.0, self._worth - of_kind
        for group, members in enumerate(self._members):
            price = float(of_group[group])
            attempts = self._filled(group, gain, price, self._most, _TRIES)
            if attempts is None:
                continue
            added = _sums(attempts, gain) - price
            best, taken = np.argsort(-added), 0
            for one in best:
                if added[one] <= 1e-6 * max(1.0, price) or taken == _KEPT:
                    break
                taken += self._add(group, *attempts.mix(one))
            promised += max(float(added[best[0]]), 0.0) * members.size
        return promised

    def _filled(self, group: int, gain: Floats, price: float, most: Ints, tries: int) -> _Attempts | None:
        """Fill a server of a class with kinds of positive gain, at most `most` of each; None if none fits."""
        free, fleet, server = self._free, self._fleet, int(self._members[group][0])
        fit = fleet.allowed[:, fleet.model[server]] | (fleet.gpus == 0)
        kinds = np.flatnonzero(fit & (gain > 1e-9) & (most > 0))
        if not kinds.size:
            return None
        scratch = _Scratch.of(self._unit, free.gpus.shape[1], kinds.size)
        attempts = self._attempts(server, kinds, gain[kinds], price, tries)
        _fill_all(free, fleet, server, self._unit, kinds, most, attempts, scratch)
        return attempts

    def _attempts(self, server: int, kinds: Ints, gain: Floats, price: float, tries: int) -> _Attempts:
        """Draw random fillings of a server with some kinds."""
        free, fleet, rng = self._free, self._fleet, self._rng
        sizes = np.array([free.cpu[server], free.memory[server], free.gpus[server].sum()], float)
        asked = np.column_stack([fleet.cpu, fleet.memory, fleet.gpus * fleet.milli])[kinds]
        shares = asked / np.maximum(sizes, 1.0)
        weights = rng.exponential(size=(tries, 3)) ** 2
        noise = rng.choice(_NOISE, size=(tries, 1)) * rng.standard_normal((tries, kinds.size))
        orders = np.argsort(-(np.log(gain) - np.log(weights @ shares.T + 1e-9) + noise), axis=1)
        # The value of a server, of which random shares are assigned to its CPU and memory.
        worth = max(price, float(sizes[2]))
        parts = worth * rng.exponential(size=(tries, 2, 2)) * rng.choice((0.1, 0.5, 1.0), size=(tries, 2, 1))
        nets = (
            gain * np.exp(rng.choice((0.0, 0.1), size=(tries, 1, 1)) * noise[:, None])
            - parts @ shares[:, :2].T
        )
        nets[:, :, fleet.gpus[kinds] != 1] = -1.0
        return _Attempts(
            orders,
            nets,
            rng.integers(-1, free.gpus.shape[1] + 1, tries),
            rng.random(tries) < 0.5,
            np.empty((tries, _MOST_TASKS), np.int64),
            np.empty((tries, _MOST_TASKS), np.int64),
            np.zeros(tries, np.int64),
        )

    def _add(self, group: int, kinds: Ints, gpus: Ints) -> int:
        """Add a pattern if it is new; return 1 if it is new, otherwise 0."""
        counts = np.bincount(kinds, minlength=self._demand.size)
        key = group, counts.astype(np.int16).tobytes()
        if key in self._known:
            return 0
        self._known.add(key)
        usage = {("class", group): [1.0]}
        usage |= {("kind", int(kind)): [float(counts[kind])] for kind in np.flatnonzero(counts)}
        # the bound is twice the number of servers, so that the row of the class has the price, not the bound
        worth, most = float(counts @ self._worth), 2.0 * self._members[group].size
        self._program.add_request(len(self.patterns), [-worth], usage=usage, upper=most)
        self.patterns.append(_Pattern(group, kinds.copy(), gpus.copy()))
        return 1

    def assign(self, shares: Floats) -> dict[int, _Pattern]:
        """Return the pattern of each server that gets a pattern."""
        given: dict[int, _Pattern] = {}
        of_group: list[list[int]] = [[] for _ in self._members]
        for number, pattern in enumerate(self.patterns):
            if shares[number] > 1e-6:
                of_group[pattern.group].append(number)
        for members, numbers in zip(self._members, of_group, strict=True):
            if not numbers:
                continue
            parts = shares[numbers]
            whole = np.floor(parts + 1e-4).astype(np.int64)
            rest = parts - whole
            for _ in range(int(min(members.size - whole.sum(), np.ceil(rest.sum() - 1e-4)))):
                most = int(rest.argmax())
                whole[most] += 1
                rest[most] -= 1.0
            chosen = [number for number, many in zip(numbers, whole, strict=True) for _ in range(many)]
            given |= {
                int(server): self.patterns[number] for server, number in zip(members, chosen, strict=False)
            }
        return given


class _Attempts(NamedTuple):
    """Fillings of a server: their parameters and results.

    `orders` (t, kinds): order in which kinds are tried at the end of a filling. `nets` (t, 2, kinds): gain of
    a task minus the value of its CPU and memory, for the first GPUs and for the other GPUs. `split` (t,):
    number of first GPUs; -1 if no GPU is filled separately. `several` (t,): whether tasks with several GPUs
    come before all others.
    `tasks`, `gpus` (t, MOST_TASKS): kinds of the tasks and their GPUs. `sizes` (t,): number of tasks.
    """

    orders: Ints
    nets: Floats
    split: Ints
    several: Flags
    tasks: Ints
    gpus: Ints
    sizes: Ints

    def mix(self, one: int) -> tuple[Ints, Ints]:
        """Return the kinds and GPUs of the tasks of an attempt."""
        size = self.sizes[one]
        return self.tasks[one, :size], self.gpus[one, :size]


class _Scratch(NamedTuple):
    """Work arrays of a filling.

    `left` (m,): free capacity of each GPU. `room` (2,): free CPU and memory. `counts` (kinds,): tasks of each
    kind so far. `best`, `item` (2, units + 1): for a GPU with a number of free units, the largest gain of its
    tasks and the kind of one of these tasks, or -1.
    """

    left: Ints
    room: Ints
    counts: Ints
    best: Floats
    item: Ints

    @classmethod
    def of(cls, unit: int, gpus: int, kinds: int) -> _Scratch:
        units = MILLI // unit + 1
        return cls(
            np.empty(gpus, np.int64),
            np.empty(2, np.int64),
            np.empty(kinds, np.int64),
            np.empty((2, units)),
            np.empty((2, units), np.int64),
        )


def _sums(attempts: _Attempts, gain: Floats) -> Floats:
    """Return the total gain of the tasks of each attempt."""
    there = np.arange(attempts.tasks.shape[1]) < attempts.sizes[:, None]
    total: Floats = np.where(there, gain[np.where(there, attempts.tasks, 0)], 0.0).sum(axis=1)
    return total


@kernel
def _fill_all(
    free: Free,
    fleet: Fleet,
    server: int,
    unit: int,
    kinds: Ints,
    most: Ints,
    attempts: _Attempts,
    scratch: _Scratch,
) -> None:
    """Fill a server by each of some attempts."""
    for one in range(attempts.split.size):
        scratch.room[0], scratch.room[1] = free.cpu[server], free.memory[server]
        for gpu in range(scratch.left.size):
            scratch.left[gpu] = free.gpus[server, gpu]
        scratch.counts[:] = 0
        if attempts.several[one]:
            _fill_in_order(fleet, kinds, most, attempts, one, scratch, 2)
        if attempts.split[one] >= 0:
            _knapsack(attempts.nets[one], kinds, fleet.milli, unit, scratch)
            _fill_gpus(fleet, unit, kinds, most, attempts, one, scratch)
        _fill_in_order(fleet, kinds, most, attempts, one, scratch, 0)


@kernel(inner=True)
def _fill_in_order(
    fleet: Fleet, kinds: Ints, most: Ints, attempts: _Attempts, one: int, scratch: _Scratch, least: int
) -> None:
    """Add tasks with at least `least` GPUs, as many of each kind as fit, in the attempt's order."""
    for place in range(kinds.size):
        at = attempts.orders[one, place]
        kind = kinds[at]
        while fleet.gpus[kind] >= least and _has_room(fleet, kinds, at, most, attempts, one, scratch):
            gpus = tightest(scratch.left, fleet.milli[kind], fleet.gpus[kind])
            if gpus < 0:
                break
            _add_task(fleet, kinds, at, gpus, attempts, one, scratch)


@kernel(inner=True)
def _fill_gpus(
    fleet: Fleet, unit: int, kinds: Ints, most: Ints, attempts: _Attempts, one: int, scratch: _Scratch
) -> None:
    """Fill one GPU after another with the tasks of largest gain, as far as they fit."""
    for gpu in range(scratch.left.size):
        which = 0 if gpu < attempts.split[one] else 1
        units = scratch.left[gpu] // unit
        while units > 0:
            at = scratch.item[which, units]
            if at < 0:
                break
            if _has_room(fleet, kinds, at, most, attempts, one, scratch):
                _add_task(fleet, kinds, at, 1 << gpu, attempts, one, scratch)
                units = min(units - fleet.milli[kinds[at]] // unit, scratch.left[gpu] // unit)
            else:
                units -= 1


@kernel(inner=True)
def _has_room(
    fleet: Fleet, kinds: Ints, at: int, most: Ints, attempts: _Attempts, one: int, scratch: _Scratch
) -> bool:
    """Return whether one more task of a kind is allowed, and the task's CPU and memory fit."""
    kind = kinds[at]
    wanted = attempts.sizes[one] < attempts.tasks.shape[1] and scratch.counts[at] < most[kind]
    return wanted and fleet.cpu[kind] <= scratch.room[0] and fleet.memory[kind] <= scratch.room[1]


@kernel(inner=True)
def _add_task(
    fleet: Fleet, kinds: Ints, at: int, gpus: int, attempts: _Attempts, one: int, scratch: _Scratch
) -> None:
    kind, size = kinds[at], attempts.sizes[one]
    attempts.tasks[one, size], attempts.gpus[one, size] = kind, gpus
    attempts.sizes[one] += 1
    scratch.counts[at] += 1
    scratch.room[0] -= fleet.cpu[kind]
    scratch.room[1] -= fleet.memory[kind]
    for gpu in range(scratch.left.size):
        scratch.left[gpu] -= fleet.milli[kind] * ((gpus >> gpu) & 1)


@kernel(inner=True)
def _knapsack(nets: Floats, kinds: Ints, milli: Ints, unit: int, scratch: _Scratch) -> None:
    """Solve the unbounded knapsack of one GPU, for each number of free units and each row of `nets`."""
    best, item = scratch.best, scratch.item
    for which in range(2):
        best[which, 0], item[which, 0] = 0.0, -1
        for units in range(1, best.shape[1]):
            best[which, units], item[which, units] = best[which, units - 1], item[which, units - 1]
            for at in range(kinds.size):
                rest = units - milli[kinds[at]] // unit
                if (
                    nets[which, at] > 0.0
                    and rest >= 0
                    and best[which, rest] + nets[which, at] > best[which, units]
                ):
                    best[which, units], item[which, units] = best[which, rest] + nets[which, at], at
