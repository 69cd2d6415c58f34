"""Arrays of jobs that are kept from event to event, so that policies with many events process only changes.

As in AFS, the policies share GPUs of one type.  In a cluster of several types, each job is bound at its
arrival to the type with the fewest jobs per GPU among those that can run it.  Each type is shared separately.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Floats, Ints
from copter.problems.afs.allocation import Curves, steps
from copter.problems.cluster.cluster import Cluster, Configuration, Configurations
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState, pinned

_ROW = np.dtype(
    [
        ("there", "?"),
        ("type", "i8"),
        ("work", "f8"),
        ("done", "f8"),
        ("ran", "f8"),
        ("units", "i8"),
        ("rank", "f8"),
        ("runs", "?"),
        ("reserved", "?"),
        ("begin", "i8"),
        ("first", "i8"),
        ("top", "i8"),
        ("request", "i8"),
        ("request_speed", "f8"),
    ]
)
_NO_TYPE = -1


@dataclass(frozen=True, eq=False)
class GpuPool:
    """GPUs of one type to share, and the n jobs bound to the type that may be preempted, by arrival.

    `gpus`: GPUs to share. `rows`: a copy of the jobs' rows, with the fields `work` (remaining progress),
    `done` (progress so far), `ran` (seconds), `units` (for the policy; 0 at first), `rank` (uniform in
    [0, 1), drawn at the arrival), `runs` and `reserved` (bool), `request` (GPUs that the user requested) and
    `request_speed` (progress per second with the requested GPUs). `slots`: indices of the rows in the roster.
    """

    gpus: int
    rows: NDArray[Any]
    slots: Ints
    curves: Curves

    @property
    def size(self) -> int:
        """Number of jobs."""
        return int(self.slots.size)

    @property
    def crowded(self) -> bool:
        """True if there are more jobs than can run at once."""
        return bool(self.curves.first.sum() > self.gpus)

    def order(self, *keys: NDArray[Any]) -> Ints:
        """Return the jobs in order of the keys, reserved jobs first; ties are in order of arrival."""
        return np.lexsort((*keys[::-1], ~self.rows["reserved"]))

    def step(self, jobs: Ints, count: Ints) -> Ints:
        """Return the GPUs from a count to the next permitted one for some jobs; 0 at a job's best count."""
        curves = self.curves
        return steps(curves.unit, curves.begin[jobs], curves.top[jobs], count)

    def speed(self, count: Ints) -> Floats:
        """Return the progress per second of each job with a number of GPUs."""
        return self.curves.speed[self.curves.begin + count]


class Roster:
    """The jobs of a simulation.

    `rng`: source of the ranks. `watch`: quantities of running jobs that are updated at every event: progress
    (`done` and `work`), or the seconds that a job ran (`ran`). Other quantities keep their values at the
    arrival.
    """

    def __init__(self, rng: np.random.Generator, watch: Collection[str]) -> None:
        self._watch = frozenset(watch)
        self.rows = np.zeros(64, _ROW)
        self._rng = rng
        self._size = 0
        self._jobs: list[Job] = []
        self._seen: list[object] = []
        self._levels: list[int] = []
        self._slots: dict[str, int] = {}
        self._held: dict[str, Configuration] = {}
        self._packed: dict[tuple[str, int], Configuration] = {}
        self._known: Configurations | None = None
        self._curves: dict[tuple[object, ...], tuple[int, int, int]] = {}
        self._speed = np.zeros(1024)
        self._unit = np.zeros(1024, bool)
        self._used = 0

    # ---- events ----------------------------------------------------------------------------------

    def update(self, now: ClusterState) -> None:
        """Process the changes since the last event."""
        cluster = now.cluster
        for job in now.left:
            slot = self._slots.pop(job.name)
            self.rows["there"][slot] = False
            self._held.pop(job.name, None)
        self._compact()
        if self._known is not cluster.configurations:
            self._known = cluster.configurations
            self._curves, self._packed, self._used = {}, {}, 0
            for slot in self._slots.values():
                self._bind(slot, cluster)
        for job in now.arrived:
            self._add(job, cluster)
        held = [self._slots[name] for name in self._held]
        jobs = [self._jobs[slot] for slot in held]
        if "done" in self._watch:
            done = np.array([job.progress for job in jobs])
            self.rows["done"][held] = done
            self.rows["work"][held] = np.array([job.work for job in jobs]) - done
        if "ran" in self._watch:
            self.rows["ran"][held] = [job.run_seconds for job in jobs]
        self.rows["runs"][held] = [job.allocation is not None for job in jobs]
        stale = [slot for slot, job in zip(held, jobs, strict=True) if self._levels[slot] != job.level]
        seen = [job.seen for job in self._jobs]
        if seen != self._seen:
            pairs = zip(seen, self._seen, strict=True)
            stale += [slot for slot, (new, old) in enumerate(pairs) if new is not old]
        for slot in stale:
            if self.rows["there"][slot]:
                self._describe(slot, cluster)

    def _add(self, job: Job, cluster: Cluster) -> None:
        if self._size == self.rows.size:
            self.rows = np.concatenate((self.rows, np.zeros(self.rows.size, _ROW)))
        slot = self._size
        self._size += 1
        self._jobs.append(job)
        self._seen.append(job.seen)
        self._levels.append(job.level)
        self._slots[job.name] = slot
        row = self.rows[slot]
        row["there"], row["rank"] = True, self._rng.random()
        row["work"], row["done"], row["ran"] = job.work - job.progress, job.progress, job.run_seconds
        row["units"], row["runs"], row["reserved"] = 0, False, job.submission.reserved
        self._bind(slot, cluster)

    def _compact(self) -> None:
        """Remove the rows of completed jobs if there are many."""
        if self._size < 64 or len(self._slots) * 2 > self._size:
            return
        keep = np.flatnonzero(self.rows["there"][: self._size])
        self.rows[: keep.size] = self.rows[keep]
        self._jobs = [self._jobs[slot] for slot in keep.tolist()]
        self._seen = [self._seen[slot] for slot in keep.tolist()]
        self._levels = [self._levels[slot] for slot in keep.tolist()]
        self._slots = {job.name: slot for slot, job in enumerate(self._jobs)}
        self._size = keep.size

    def _bind(self, slot: int, cluster: Cluster) -> None:
        """Bind a job to the type of its GPUs, or to the type with the fewest jobs per GPU that can run it."""
        job, rows = self._jobs[slot], self.rows[: self._size]
        rows["type"][slot] = _NO_TYPE
        held = None if job.allocation is None else job.allocation.type
        bound = np.bincount(rows["type"][rows["there"] & (rows["type"] >= 0)], minlength=len(cluster.names))
        load = [
            (type.name != held, bound[position] / type.gpus, position)
            for position, type in enumerate(cluster.types)
            if type.gpus and self._curve(job, cluster, position) is not None
        ]
        if load:
            rows["type"][slot] = min(load)[-1]
            self._describe(slot, cluster)

    # ---- curves ----------------------------------------------------------------------------------

    def _describe(self, slot: int, cluster: Cluster) -> None:
        """Set the curve of a job from its present state."""
        job, row = self._jobs[slot], self.rows[slot]
        self._seen[slot], self._levels[slot] = job.seen, job.level
        if row["type"] == _NO_TYPE:
            return
        position = int(row["type"])
        curve = self._curve(job, cluster, position)
        if curve is None:
            row["type"] = _NO_TYPE
            return
        row["begin"], row["first"], row["top"] = curve
        request = job.gpus or job.submission.tuned_gpus or int(row["first"])
        speed = job.speed(cluster.packed(cluster.names[position], request))
        if speed <= 0:  # the request is impossible; use the nearest count
            request = int(np.clip(request, row["first"], row["top"]))
            speed = self._speed[row["begin"] + request]
        row["request"], row["request_speed"] = request, speed

    def _curve(self, job: Job, cluster: Cluster, position: int) -> tuple[int, int, int] | None:
        """Return begin, first and top of a job's curve on a type; None if the type cannot run it."""
        level = min(job.level, job.seen.n_levels - 1)
        key = (job.seen, level, position, job.gpus)
        if key not in self._curves:
            type = cluster.types[position]
            if job.gpus is not None:
                single = cluster.packed(type.name, job.gpus)
                speeds = np.array([job.speed(single) if job.gpus <= type.gpus else 0.0])
                counts = np.array([job.gpus])
            else:
                columns, speeds = job.row(cluster.configurations)
                here = cluster.configurations.type_index[columns] == position
                counts, speeds = cluster.configurations.gpus[columns[here]], speeds[here]
                speeds = speeds / job.seen.calibration
            better = speeds > np.concatenate(([0.0], np.maximum.accumulate(speeds)))[:-1]
            if not better.any():
                return None
            self._curves[key] = self._append(counts[better], speeds[better])
        return self._curves[key]

    def _append(self, counts: Ints, speeds: Floats) -> tuple[int, int, int]:
        first, top, begin = int(counts[0]), int(counts[-1]), self._used
        while self._speed.size < begin + top + 1:
            self._speed = np.concatenate((self._speed, np.zeros_like(self._speed)))
            self._unit = np.concatenate((self._unit, np.zeros_like(self._unit)))
        grid = np.arange(top + 1)
        self._speed[begin : begin + top + 1] = np.where(grid < first, 0.0, np.interp(grid, counts, speeds))
        self._unit[begin : begin + top + 1] = np.isin(grid, counts)
        self._used = begin + top + 1
        return begin, first, top

    # ---- pools -----------------------------------------------------------------------------------

    def pools(self, now: ClusterState) -> tuple[list[tuple[str, GpuPool]], dict[str, Configuration]]:
        """Return the GPUs to share by type, and the configurations of jobs that must not be preempted."""
        free = now.cluster.capacity
        kept = pinned((self._jobs[self._slots[name]] for name in self._held), free)
        rows = self.rows[: self._size]
        there = rows["there"].copy()
        there[[self._slots[name] for name in kept]] = False
        listed = []
        for position, type in enumerate(now.cluster.names):
            slots = np.flatnonzero(there & (rows["type"] == position))
            part = rows[slots]
            curves = Curves(self._speed, self._unit, part["begin"], part["first"], part["top"])
            listed.append((type, GpuPool(free[type], part, slots, curves)))
        return listed, kept

    def give(self, cluster: Cluster, type: str, pool: GpuPool, count: Ints) -> dict[str, Configuration]:
        """Return the configurations of the jobs of a pool that get GPUs."""
        given: dict[str, Configuration] = {}
        got = np.flatnonzero(count)
        for slot, gpus in zip(pool.slots[got].tolist(), count[got].tolist(), strict=True):
            if (type, gpus) not in self._packed:
                self._packed[type, gpus] = cluster.packed(type, gpus)
            given[self._jobs[slot].name] = self._packed[type, gpus]
        return given

    def remember(self, given: dict[str, Configuration]) -> None:
        """Store the configurations until the next event."""
        lost = [name for name in self._held if name not in given]
        for name in lost:
            self.rows["runs"][self._slots[name]] = False
        self._held = dict(given)
