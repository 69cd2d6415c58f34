"""Gavel's mechanism, which turns shares of time into rounds, and the rounds of policies of rigid jobs.

A rigid job runs with all of its GPUs, of one type and on the fewest nodes that have them, or not at all.  A
policy gives each job the share x_jt of time for which it should run on GPUs of type t.  In every round, pairs
(job, type) are ranked by the ratio of this share to the share of the type's time that the job has had since
the last reset.  The pairs with the highest ratios are used, as far as they fit.  Of pairs with equal ratios,
the one with the larger deficit comes first: the time that the job was owed at resets.  A policy that ignores
types gives each job one share of time on any type.  Its jobs go to the type with free GPUs on which they
complete first, including restarts.  Idle GPUs go to any job that fits.  New shares are computed when jobs
arrive or leave, but at most once in ``reset_seconds``.  A job that arrived since the last computation has no
share, and runs only on GPUs that no other job uses.

Source: Gavel's scheduling mechanism (Narayanan et al., OSDI 2020, section 5), which Shockwave's authors keep
for all baselines; constants are those of their public code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState, PolicyError, pinned
from copter.problems.cluster.workload import Kind

RESET_SECONDS = 1000.0
"""Least time between two computations of shares in seconds."""
_NEVER_RAN = 1e9
_NO_SHARE = 1e-9
ROUND_SECONDS = 360.0
"""Length of a round for policies of rigid jobs (thesis section 3.4, default parameters)."""


@dataclass(frozen=True, eq=False)
class RigidRound:
    """The n jobs that can run on some type, in order of arrival, and the T types.

    `time`, `seconds`: start of the round, and its length. `gpus`: GPUs of each job. `speed`: progress per
    second on each type; 0 if the job cannot run on it.
    """

    time: float
    seconds: float
    cluster: Cluster
    jobs: tuple[Job, ...]
    gpus: Ints
    speed: Floats

    @property
    def names(self) -> list[str]:
        """Names of the jobs."""
        return [job.name for job in self.jobs]

    @cached_property
    def capacity(self) -> Ints:
        """GPUs of each type, shape (T,)."""
        return np.array([type.gpus for type in self.cluster.types], np.int64)

    @cached_property
    def age(self) -> Floats:
        """Seconds since the submission of each job, shape (n,)."""
        return np.array([self.time - job.submitted for job in self.jobs])

    @cached_property
    def left(self) -> Floats:
        """Remaining progress of each job, shape (n,)."""
        return np.array([max(job.work - job.progress, 0.0) for job in self.jobs])

    @cached_property
    def mean_speed(self) -> Floats:
        """Mean speed of each job over the types that can run it, weighted by their GPUs, shape (n,)."""
        weights = np.where(self.speed > 0, self.capacity, 0).astype(np.float64)
        weights /= weights.sum(axis=1, keepdims=True)
        return (weights * self.speed).sum(axis=1)

    @cached_property
    def relative_speed(self) -> Floats:
        """Speed relative to the speed on the job's fastest type, shape (n, T)."""
        return self.speed / self.speed.max(axis=1, keepdims=True)

    @cached_property
    def seconds_left(self) -> Floats:
        """Remaining run time at the present speed on each type, shape (n, T); infinite if it cannot run."""
        out = np.full(self.speed.shape, np.inf)
        return np.divide(self.left[:, None], self.speed, out=out, where=self.speed > 0)

    @cached_property
    def mean_seconds_left(self) -> Floats:
        """Remaining run time at the present mean speed, shape (n,), for policies that ignore types."""
        return self.left / self.mean_speed

    @cached_property
    def steps_per_second(self) -> Floats:
        """Throughput in training steps on each type, shape (n, T)."""
        steps = np.array([job.seen.steps(min(job.level, job.seen.n_levels - 1)) for job in self.jobs])
        return steps[:, None] * self.speed

    def configuration(self, job: int, type: int) -> Configuration:
        """Return the configuration of a job on a type."""
        return self.cluster.packed(self.cluster.names[type], int(self.gpus[job]))

    def type_of(self, job: int) -> int | None:
        """Return the position of the type that a job holds."""
        held = self.jobs[job].allocation
        return None if held is None else self.cluster.names.index(held.type)

    def preferences(self, job: int) -> list[int]:
        """Return the types that can run a job, by its time of completion on them, including restarts."""
        held, speed, left = self.type_of(job), self.speed[job].tolist(), float(self.left[job])
        restart = self.jobs[job].seen.restart_seconds
        seconds = {t: left / v + restart * (t != held) for t, v in enumerate(speed) if v > 0}
        return sorted(seconds, key=seconds.__getitem__)

    def pack(self, candidates: Iterable[tuple[int, Sequence[int]]]) -> dict[int, int]:
        """Place candidates in order as far as they fit; a candidate that does not fit is skipped.

        Running jobs that must not be preempted come first, with the GPUs that they hold.

        `candidates`: positions of jobs, with the types to try; a job that occurs twice is placed once.
        """
        there = self.cluster.capacity
        kept = pinned(self.jobs, there)
        free = [there[name] for name in self.cluster.names]
        placed = {
            job: self.cluster.names.index(kept[name].type)
            for job, name in enumerate(self.names)
            if name in kept
        }
        for job, types in candidates:
            if job in placed:
                continue
            need = int(self.gpus[job])
            chosen = next((t for t in types if free[t] >= need), None)
            if chosen is not None:
                free[chosen] -= need
                placed[job] = chosen
        return placed

    def allocation(self, placed: dict[int, int]) -> dict[str, Configuration]:
        """Return the configurations by name of the job, from the result of :meth:`pack`."""
        return {self.jobs[job].name: self.configuration(job, type) for job, type in placed.items()}


def look(now: ClusterState) -> RigidRound:
    """Return the round for a policy of rigid jobs, without jobs that no type can run now."""
    cluster = now.cluster
    jobs: list[Job] = []
    speed: list[list[float]] = []
    for job in now.jobs.values():
        count = job.gpus
        if count is None:
            raise PolicyError(f"job {job.name!r}: kind = {job.kind}: must be rigid for this policy")
        row = [
            job.speed(cluster.packed(type.name, count)) if count <= type.gpus else 0.0
            for type in cluster.types
        ]
        if max(row) > 0:
            jobs.append(job)
            speed.append(row)
    return RigidRound(
        now.time,
        now.seconds,
        cluster,
        tuple(jobs),
        np.array([job.gpus for job in jobs], np.int64),
        np.array(speed, np.float64).reshape(len(jobs), len(cluster.types)),
    )


class Mechanism(ABC):
    """A policy of rigid jobs that computes shares of time: a subclass has a name, and :meth:`shares`."""

    name: str
    kind: Kind = "rigid"

    def __init__(self, *, round_seconds: float = ROUND_SECONDS, reset_seconds: float = RESET_SECONDS) -> None:
        self.round_seconds: float | None = round_seconds
        self.reset_seconds = reset_seconds
        self._shares: dict[str, Floats] = {}
        self._width = 1
        self._known: list[str] = []
        self._changed = True
        self._reset_at: float | None = None
        self._had: dict[str, Floats] = {}
        self._deficits: dict[str, Floats] = {}
        self._total: Floats = np.zeros(1)
        self._last: dict[str, tuple[int, float]] = {}

    @abstractmethod
    def shares(self, now: RigidRound) -> Floats:
        """Return the shares of time in [0, 1], one for each type or one for any type, after changes of jobs.

        `now`: has at least one job.
        """

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the configurations of the jobs that run in a round."""
        here = look(now)
        self._account(here)
        self._changed |= here.names != self._known
        self._known = here.names
        if not here.jobs:
            self._last = {}
            return {}
        due = self._reset_at is None or now.time - self._reset_at >= self.reset_seconds
        if self._changed and due:
            self._reset(here)
        placed = here.pack(self._ranked(here))
        self._last = {
            here.jobs[job].name: (type if self._width > 1 else 0, here.jobs[job].run_seconds)
            for job, type in placed.items()
        }
        return here.allocation(placed)

    def _account(self, now: RigidRound) -> None:
        """Record the time of the jobs of the last round, and start records of new jobs."""
        ran = {job.name: job.run_seconds for job in now.jobs}
        for name, (at, before) in self._last.items():
            if name in ran:
                self._had[name][at] += ran[name] - before
                self._total[at] += ran[name] - before
            else:
                # The job completed within the round, on average in the middle.
                self._total[at] += now.seconds / 2.0
        for name in [name for name in self._had if name not in ran]:
            del self._had[name], self._deficits[name]
        for name in ran:
            if name not in self._had:
                self._had[name] = np.full(self._width, now.seconds / 2.0)
                self._deficits[name] = np.zeros(self._width)

    def _reset(self, now: RigidRound) -> None:
        elapsed = now.time - (self._reset_at or 0.0)
        start = now.seconds / 2.0
        for name, had in self._had.items():
            owed = self._shares[name] * elapsed if name in self._shares else 0.0
            self._deficits[name] = self._deficits[name] + owed - (had - start)
        shares = self.shares(now)
        self._width = shares.shape[1]
        self._shares = dict(zip(now.names, shares, strict=True))
        for name in self._had:
            self._had[name] = np.full(self._width, start)
            self._deficits[name] = np.broadcast_to(self._deficits[name], self._width).copy()
        self._total = np.sum(list(self._had.values()), axis=0)
        self._reset_at = now.time
        self._changed = False

    def _ranked(self, now: RigidRound) -> list[tuple[int, list[int]]]:
        """Return the jobs, with the types to try, by priority."""
        none = np.zeros(self._width)
        share = np.array([self._shares.get(name, none) for name in now.names])
        deficit = np.array([self._deficits[name] for name in now.names])
        had = np.array([self._had[name] for name in now.names])
        fraction = np.divide(had, self._total, out=np.zeros_like(had), where=self._total > 0)
        priority = np.divide(share, fraction, out=share * _NEVER_RAN, where=fraction > 0)
        priority[share <= _NO_SHARE] = 0.0
        typed = self._width > 1
        speed = now.relative_speed if typed else np.ones_like(share)
        pairs = np.argwhere(speed > 0)
        at = tuple(pairs.T)
        order = np.lexsort((-speed[at], -share[at], -deficit[at], -priority[at]))
        ranked = pairs[order].tolist()
        return [(job, [type] if typed else now.preferences(job)) for job, type in ranked]
