"""State of the active jobs as parallel arrays with one slot per job, and each job's mode in a round.

A job is free, must have GPUs, or keeps its configuration; :mod:`copter.problems.sia.policy` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Flags, Floats, Ints
from copter.problems.cluster.cluster import Cluster
from copter.problems.sia.interface import InfeasibleRoundError

NONE = -1
"""No configuration, or nothing sent to the program yet."""

FREE, REQUIRED, PINNED = 0, 1, 2
_NO_LIMIT = -1


@overload
def _filled(value: bool) -> Flags: ...  # type: ignore[overload-overlap]
@overload
def _filled(value: int) -> Ints: ...
@overload
def _filled(value: float) -> Floats: ...
def _filled(value: float) -> NDArray[Any]:
    return np.full(64, value)


class JobTable:
    """Arrays with an entry for each slot, grown by doubling; freed slots are used again.

    The class attribute of a name is the initial array of a new table, and the initial value of a new slot.
    """

    active = _filled(False)
    source = _filled(NONE)  # profile and limits on the GPUs
    level = _filled(0)
    levels = _filled(1)  # of the profile
    penalty = _filled(0.0)  # cost of having no GPUs
    submitted = _filled(0.0)
    restart_seconds = _filled(0.0)
    restarts = _filled(0)
    started = _filled(False)
    restart_until = _filled(-np.inf)
    preemptible = _filled(True)
    reserved = _filled(False)
    current = _filled(NONE)  # configuration
    # state of the job's request in the program
    sent_row = _filled(NONE)
    sent_mode = _filled(NONE)
    sent_limit = _filled(NONE)
    sent_current = _filled(NONE)
    sent_penalty = _filled(np.nan)
    column = _filled(NONE)  # column of the current configuration in the request
    column_cost = _filled(0.0)
    request = _filled(NONE)  # slot in the program

    def __init__(self) -> None:
        self.size = 0
        self._free: list[int] = []
        self._new = {name: fill for name, fill in vars(JobTable).items() if isinstance(fill, np.ndarray)}
        for name, fill in self._new.items():
            setattr(self, name, fill.copy())

    def add(self) -> int:
        """Return a slot with all fields at their defaults, marked active."""
        if self._free:
            slot = self._free.pop()
        else:
            slot, self.size = self.size, self.size + 1
            if self.size > self.active.size:
                self._grow()
        for name, fill in self._new.items():
            getattr(self, name)[slot] = fill[0]
        self.active[slot] = True
        return slot

    def remove(self, slot: int) -> None:
        """Free a slot."""
        self.active[slot] = False
        self._free.append(slot)

    def slots(self) -> Ints:
        """Return the slots of the active jobs, ascending."""
        return np.flatnonzero(self.active[: self.size])

    def _grow(self) -> None:
        for name, fill in self._new.items():
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.full(old.size, fill[0]))))


def modes(table: JobTable, slots: Ints, cluster: Cluster, now: float) -> tuple[Ints, Ints]:
    """Return each job's mode (free, must have GPUs, or keeps its configuration), and the released jobs.

    If pinned jobs need nodes that have gone, jobs in a restart are released: they need not keep their
    configurations. The job whose restart ends last is released first.

    `slots` (n,): slots of the jobs. `now`: seconds.
    """
    mode = np.where(table.reserved[slots], REQUIRED, FREE)
    holds = table.current[slots] >= 0
    restarting = holds & (table.restart_until[slots] > now)
    fixed = holds & ~table.preemptible[slots]
    mode[restarting | fixed] = PINNED
    released = [np.empty(0, np.int64)]
    for limit in cluster.limits:
        pinned = np.flatnonzero(mode == PINNED)
        gpus = limit.gpus[table.current[slots[pinned]]]
        over = int(gpus.sum()) - limit.capacity
        if over <= 0:
            continue
        free = pinned[(gpus > 0) & ~fixed[pinned]]
        free = free[np.argsort(-table.restart_until[slots[free]], kind="stable")]
        freed = np.cumsum(limit.gpus[table.current[slots[free]]])
        if not freed.size or freed[-1] < over:
            held = over + limit.capacity - (freed[-1] if freed.size else 0)
            raise InfeasibleRoundError(
                f"GPU type {limit.shown}: {limit.capacity} GPUs, but its non-preemptible jobs hold {held:.0f}"
            )
        free = free[: int(np.searchsorted(freed, over)) + 1]
        mode[free] = np.where(table.reserved[slots[free]], REQUIRED, FREE)
        released.append(slots[free])
    return mode, np.concatenate(released)


def limits(table: JobTable, slots: Ints, cluster: Cluster, scale_up_limit: float | None) -> Ints:
    """Return the most GPUs that each job may have; also for pinned jobs, because they may be released.

    `slots` (n,). `scale_up_limit`: largest factor by which a job's GPUs may grow; None for no limit.
    """
    if scale_up_limit is None:
        return np.full(slots.size, _NO_LIMIT)
    current = table.current[slots]
    held = np.zeros(slots.size)
    held[current >= 0] = cluster.configurations.gpus[current[current >= 0]]
    return (held * scale_up_limit).astype(np.int64)


def losers(table: JobTable, slots: Iterable[int], cluster: Cluster) -> list[int]:
    """Return the slots of the jobs that lose their GPUs in a round without a solution.

    All other jobs keep their GPUs.  If the cluster has fewer GPUs now, free jobs lose theirs before other
    jobs, and later jobs before earlier ones.

    `slots`: slots of the jobs, in order of arrival.
    """
    left = {limit.name: limit.capacity for limit in cluster.limits}
    lost = []
    for slot in sorted(slots, key=lambda slot: bool(table.sent_mode[slot] == FREE)):
        if table.current[slot] < 0:
            continue
        held = {limit.name: int(limit.gpus[table.current[slot]]) for limit in cluster.limits}
        if all(gpus <= left[name] for name, gpus in held.items()):
            left = {name: most - held[name] for name, most in left.items()}
        else:
            lost.append(slot)
    return lost
