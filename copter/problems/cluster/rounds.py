"""Rounds of a policy: the policy is asked about a cluster, and its decision is carried out.

The same code runs in the simulator and on a live cluster.  A cluster is a :class:`World`: a clock, nodes,
jobs that report their progress, and the methods start, resize and stop.  :class:`ClusterRounds` reads the
world's state, updates the estimator, asks the policy, checks the decision, calls the placer, and applies the
changes to the world.  A policy cannot distinguish worlds.

Deciding does not change the world.  A live cluster continues during the decision, and decisions for jobs that
ended in that time are ignored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, Protocol, TypeVar, get_args

from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job, Timer
from copter.problems.cluster.placement import Placed, SiaPlacer
from copter.problems.cluster.policy import (
    Allocation,
    ClusterState,
    Estimator,
    Placement,
    Policy,
    PolicyError,
    counts_of,
)
from copter.problems.cluster.workload import Kind

_AnyJob = TypeVar("_AnyJob", bound=Job)


class World(Protocol[_AnyJob]):
    """A cluster with jobs, simulated, live or recorded."""

    @property
    def timer(self) -> Timer:
        """Clock in seconds since the start."""

    @property
    def cluster(self) -> Cluster:
        """Nodes that work."""

    @property
    def jobs(self) -> dict[str, _AnyJob]:
        """All present jobs, in order of arrival."""

    @property
    def down(self) -> Mapping[str, frozenset[int]]:
        """Failed nodes of each type."""

    def news(self) -> tuple[tuple[_AnyJob, ...], tuple[_AnyJob, ...]]:
        """Return the jobs that arrived, and that left, since the last call."""

    def start(self, job: _AnyJob, new: Allocation, now: ClusterState) -> None:
        """Give GPUs to a job that has none."""

    def resize(self, job: _AnyJob, new: Allocation, now: ClusterState) -> None:
        """Give a job other GPUs, or the same number on other nodes."""

    def stop(self, job: _AnyJob, now: ClusterState) -> None:
        """Take away all GPUs of a job."""


@dataclass(frozen=True)
class Decision:
    """Decision of a round.

    `now`: input of the policy. `placed`: the place of every job that gets GPUs. `policy_seconds`: running
    time of the policy. `figures`: the policy's statistics, such as the gap of its program.
    """

    now: ClusterState
    placed: Placed
    policy_seconds: float
    figures: Mapping[str, float]


@dataclass(frozen=True)
class _Changes:
    """Changes by a decision.

    `starts`, `restarts`: jobs that got GPUs for the first time; jobs that got other GPUs than before, or GPUs
    again. `gpus`: GPUs in use, by type. `running`: jobs that have GPUs.
    """

    starts: int
    restarts: int
    gpus: dict[str, int]
    running: int


class ClusterRounds(Generic[_AnyJob]):
    """A policy that schedules a world.

    `policy`: a new policy. `round_seconds`: replaces the policy's own; only for a policy with rounds.
    `placer`: without a placer, GPUs are counted, not placed. `estimator`: without an estimator, the policy
    knows the jobs' true profiles. `index`: number of calls of the policy so far.
    """

    def __init__(
        self,
        policy: Policy,
        world: World[_AnyJob],
        *,
        round_seconds: float | None = None,
        placer: SiaPlacer | None = None,
        estimator: Estimator | None = None,
    ) -> None:
        _check_policy(policy)
        if round_seconds is not None and policy.round_seconds is None:
            raise ValueError(f"round_seconds = {round_seconds}: must be None for policy {policy.name!r}")
        self.policy, self.world, self.placer, self.estimator = policy, world, placer, estimator
        self.round_seconds = policy.round_seconds if round_seconds is None else float(round_seconds)
        self.index = 0

    def look(self) -> ClusterState:
        """Return the input of the policy."""
        world, timer = self.world, self.world.timer
        crowd = len(world.jobs) / max(world.cluster.gpus, 1)
        timer.crowd(crowd, 0.0 if self.round_seconds is None else 1.0)
        arrived, left = world.news()
        now = ClusterState(
            time=timer.time,
            index=self.index,
            seconds=math.inf if self.round_seconds is None else self.round_seconds,
            cluster=world.cluster,
            jobs=world.jobs,
            arrived=arrived,
            left=left,
            down=world.down,
        )
        self.index += 1
        return now

    def decide(self, now: ClusterState) -> Decision:
        """Ask the policy, and find nodes for its decision."""
        if self.estimator is not None:
            self.estimator.observe(now)
        begin = perf_counter()
        wanted = self.policy.schedule(now)
        seconds = perf_counter() - begin
        _check_answer(self.policy.name, wanted, now)
        return Decision(now, self._place(wanted, now), seconds, dict(getattr(self.policy, "figures", {})))

    def _place(self, wanted: Mapping[str, Allocation], now: ClusterState) -> Placed:
        if self.placer is None:
            return Placed({name: counts_of(allocation) for name, allocation in wanted.items()})
        held = {
            name: Placement(job.allocation.type, job.place)
            for name, job in now.jobs.items()
            if job.allocation is not None and job.place is not None
        }
        fixed = [name for name in held if not now.jobs[name].submission.preemptible]
        return self.placer.place(now.cluster, now.down, held, wanted, fixed)

    def carry_out(self, decision: Decision) -> _Changes:
        """Start, resize and stop the jobs of the world that a decision changes."""
        world, places, now = self.world, decision.placed.places, decision.now
        starts = restarts = running = 0
        used = Counter({type: 0 for type in world.cluster.capacity})
        for name, job in list(world.jobs.items()):
            new = places.get(name)
            if new is None:
                if job.allocation is not None:
                    world.stop(job, now)
                continue
            counts = counts_of(new)
            place = new.nodes if isinstance(new, Placement) else None
            if counts != job.allocation or place != job.place:
                first = math.isnan(job.started)
                starts, restarts = starts + first, restarts + (not first)
                if job.allocation is None:
                    world.start(job, new, now)
                else:
                    world.resize(job, new, now)
            running += 1
            used[counts.type] += counts.gpus
        return _Changes(starts, restarts, dict(used), running)


def can_run(policy: Policy, job: Job, cluster: Cluster) -> bool:
    """Return whether a policy can ever give a job GPUs of a cluster that can run it."""
    admits = getattr(policy, "admits", None)
    return (admits is None or admits(job, cluster)) and fits(job, cluster)


def fits(job: Job, cluster: Cluster) -> bool:
    """Return whether a cluster can run a job, whatever the policy."""
    if job.gpus is not None:
        return any(
            job.profile.curve(cluster.packed(type.name, job.gpus))[0] > 0
            for type in cluster.types
            if job.gpus <= type.gpus
        )
    columns, _ = job.profile.row(cluster.configurations, 0)
    return bool(columns.size)


def _check_policy(policy: Policy) -> None:
    """Raise PolicyError if a policy lacks an attribute, or an attribute is invalid."""
    who = f"policy {getattr(policy, 'name', type(policy).__name__)!r}"
    for name in ("name", "kind", "round_seconds", "schedule"):
        if not hasattr(policy, name):
            raise PolicyError(f"{who} has no {name}: see the protocol Policy")
    if policy.kind not in get_args(Kind):
        raise PolicyError(f"{who}: kind = {policy.kind!r}: must be one of {get_args(Kind)}")
    seconds = policy.round_seconds
    if seconds is not None and not 0 < seconds < math.inf:
        raise PolicyError(f"{who}: round_seconds = {seconds}: must be positive, or None for events")


def _check_answer(policy: str, wanted: Mapping[str, Allocation], now: ClusterState) -> None:
    """Raise PolicyError if the decision of a policy cannot be carried out."""
    who = f"policy {policy!r} at {now.time:g} s"
    capacity = now.cluster.capacity
    sizes = {type.name: type.gpus_per_node for type in now.cluster.types}
    used: Counter[str] = Counter()
    for name, allocation in wanted.items():
        job = now.jobs.get(name)
        if job is None:
            raise PolicyError(f"{who}: there is no job {name!r}")
        if not isinstance(allocation, Configuration | Placement):
            raise PolicyError(f"{who}: job {name!r}: {allocation!r}: must be a Configuration or a Placement")
        one = counts_of(allocation)
        if one.type not in capacity:
            raise PolicyError(f"{who}: job {name!r}: no GPU type {one.type!r}")
        if not 1 <= one.nodes <= one.gpus <= one.nodes * sizes[one.type]:
            raise PolicyError(f"{who}: job {name!r}: {one.gpus} GPUs do not fit on {one.nodes} nodes")
        if job.gpus is not None and one.gpus != job.gpus:
            raise PolicyError(f"{who}: job {name!r} is rigid: {one.gpus} GPUs: must be {job.gpus}")
        if one != job.allocation and not job.profile.curve(one).any():
            raise PolicyError(f"{who}: job {name!r} cannot run on {one}")
        used[one.type] += one.gpus
    for type, gpus in used.items():
        if gpus > capacity[type]:
            raise PolicyError(f"{who}: {gpus} GPUs of type {type!r}: must be at most {capacity[type]}")
