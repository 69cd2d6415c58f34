"""A partition as the world of a policy, whose decision is the place of each job.

The jobs of the world are the partition's jobs that copter may start or that have GPUs.  If other jobs, for
example of another partition, have GPUs of a node, the world has one job for these GPUs that no policy can
move.  A rigid job on a node that is down or drained is left out, and so is its node.

Between two rounds, this module remembers only data that may be lost: the places that were decided and are not
reached yet, and the state of the policy.  After a restart, the world is made again from Slurm.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

from copter.live.cluster import ReportedSpeeds
from copter.live.events import Place
from copter.live.files import JobFile, JobFileError
from copter.live.jobs import LiveJob
from copter.live.rounds import look_at
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.policy import Allocation, ClusterState, Placement
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.rounds import ClusterRounds, Decision
from copter.problems.cluster.workload import Kind
from copter.slurm.declared import declared, is_flexible
from copter.slurm.read import Mark, SlurmJob, SlurmNode, Snapshot
from copter.slurm.reports import Reports

_log = logging.getLogger("copter.slurm")


class Standing(Enum):
    """State of a job with respect to copter; the value is a sentence for users."""

    QUEUED = "copter may start it"
    STARTING = "it was released, and Slurm has not started it"
    RUNNING = "it has its nodes"
    MOVING = "it was requeued, and its processes end"
    LEAVING = "its processes end"
    HELD = "it is held, and not by copter"
    WAITING = "it waits for a time or for other jobs"


SHOWN = (Standing.QUEUED, Standing.STARTING, Standing.RUNNING, Standing.MOVING)
"""Standings of the jobs that a policy sees."""


def standing(job: SlurmJob, now: float) -> Standing:
    """Return the state of a job with respect to copter, at a time in seconds since the epoch."""
    if job.state == "COMPLETING":
        return Standing.MOVING if job.held and job.mark is Mark.PLACED else Standing.LEAVING
    if job.state != "PENDING":
        return Standing.RUNNING
    if not job.held:
        return Standing.STARTING
    if job.reason != "JobHeldUser" or job.mark is Mark.STARTED:
        return Standing.HELD
    if job.dependency or (job.eligible > now and not job.restarts):
        return Standing.WAITING
    return Standing.QUEUED


class World:
    """Jobs and nodes of a partition, as :class:`copter.problems.cluster.rounds.World`.

    `kind`: kind of jobs that the policy schedules.  `hosts` has the names of the nodes of each type; a node's
    number for the policy is its position among them.
    """

    def __init__(self, nodes: Iterable[SlurmNode], epoch: float, kind: Kind) -> None:
        self.hosts, self._kind = _by_type(nodes), kind
        self.timer, self.epoch = Timer(), epoch
        self.cluster = self.whole
        self.jobs: dict[str, LiveJob] = {}
        self.down: Mapping[str, frozenset[int]] = {}
        self._number = {
            host: (type, at) for (type, _), hosts in self.hosts.items() for at, host in enumerate(hosts)
        }
        self._arrived: list[LiveJob] = []
        self._left: list[LiveJob] = []
        self._reports = Reports()

    def place(self, hosts: Iterable[tuple[str, int]]) -> Place | None:
        """Return hosts with GPUs as a place; None if one is down or unknown, or if their types differ."""
        known = [(self._number.get(host), gpus) for host, gpus in hosts if gpus]
        types = {None if where is None else where[0] for where, _ in known}
        if len(types) != 1 or None in types:
            return None
        nodes = sorted((where[1], gpus) for where, gpus in known if where is not None)
        (type,) = types
        assert type is not None
        return None if any(at in self.down.get(type, ()) for at, _ in nodes) else (type, tuple(nodes))

    def types(self, gpu_type: str) -> tuple[str, ...]:
        """Return the policy's names of a type of GPU; all names if `gpu_type` is empty."""
        names = [name for name, _ in self.hosts]
        return tuple(name for name in names if not gpu_type or name.partition(":")[0] == gpu_type)

    def host(self, type: str, node: int) -> str:
        """Return the name of a node."""
        return next(hosts[node] for (name, _), hosts in self.hosts.items() if name == type)

    @property
    def whole(self) -> Cluster:
        """All nodes, including those that get no jobs."""
        return Cluster(GpuType(type, gpus, len(hosts)) for (type, gpus), hosts in self.hosts.items())

    def target(self, key: str) -> tuple[tuple[str, int], ...]:
        """Return the target nodes of a job, with the GPUs on each of them; empty without a target."""
        job = self.jobs.get(key)
        if job is None or job.target is None:
            return ()
        type, nodes = job.target
        return tuple((self.host(type, at), gpus) for at, gpus in nodes)

    # ---- Slurm's present state ---------------------------------------------------------------------

    def update(self, seen: Snapshot) -> None:
        """Adapt the world to a snapshot; keep the places that were decided and are not reached yet."""
        self.timer.time = max(self.timer.time, seen.time - self.epoch)
        self._use_nodes(seen.nodes)
        shown = set[str]()
        for job in seen.jobs:
            if job.gpus and standing(job, seen.time) in SHOWN and self._update_job(job, seen):
                shown.add(job.key)
        taken = defaultdict(int, seen.others)
        for job in seen.jobs:
            for host, gpus in () if job.key in shown else job.hosts:
                taken[host] += gpus
        for host, gpus in taken.items():
            place = self.place([(host, gpus)])
            if place is not None:
                shown.add(self._take(host, gpus, place))
        for name in [name for name in self.jobs if name not in shown]:
            self._remove(name)

    def _use_nodes(self, nodes: Iterable[SlurmNode]) -> None:
        down: dict[str, set[int]] = {}
        for node in nodes:
            if node.down:
                type, at = self._number[node.host]
                down.setdefault(type, set()).add(at)
        self.down = {type: frozenset(numbers) for type, numbers in down.items()}
        counts = {one.name: one.nodes for one in self.cluster.types}
        for (type, _), hosts in self.hosts.items():
            working = len(hosts) - len(self.down.get(type, ()))
            if counts[type] != working:
                self.cluster.set_nodes(type, working)

    def _update_job(self, job: SlurmJob, seen: Snapshot) -> bool:
        """Add or change a job; return False if the policy is not to see it."""
        now, has = standing(job, seen.time), bool(job.hosts)
        per_host = job.gpus // max(len(job.pinned), 1)
        hosts = job.hosts if has else [(host, per_host) for host in job.pinned]
        fixed = now in (Standing.RUNNING, Standing.STARTING) and not is_flexible(job)
        place = self.place(hosts) if now is not Standing.QUEUED else None
        if fixed and place is None:
            return False
        types = self.types(job.gpu_type)
        try:
            file = declared(job, types)
        except JobFileError:  # `copter why` shows the error
            return False
        if not types:
            return False
        there = self.jobs.get(job.key)
        if there is None or there.file != file:
            self._remove(job.key)
            there = self._add(job.key, file, job.submitted - self.epoch)
        if fixed or (place is not None and there.target is None and now is not Standing.MOVING):
            self._give(there, place, job.began - self.epoch)
        elif there.target is not None and self.place(self.target(job.key)) is None:
            there.give(None)
        running = now is Standing.RUNNING and place is not None
        if running and there.run is None:
            assert place is not None
            with self._at(job.began - self.epoch):
                there.launch(job.restarts + 1, place, tuple(host for host, _ in job.hosts), ())
        elif not running and there.run is not None:
            there.tell()  # its restart is measured from now on
            there.end_run()
        if running and file.elastic and (report := self._reports.next(job)) is not None:
            there.hear(report, learn=False)  # the speed is fitted before the policy is asked
        return True

    def _give(self, job: LiveJob, place: Place | None, since: float) -> None:
        """Give a job a place that it has had since a time."""
        if job.target == place:
            return
        with self._at(max(since, job.submitted)):
            job.give(place)

    @contextmanager
    def _at(self, time: float) -> Iterator[None]:
        """Return a context in which the timer of the jobs shows an earlier time."""
        now, self.timer.time = self.timer.time, min(max(time, 0.0), self.timer.time)
        try:
            yield
        finally:
            self.timer.time = now

    def _take(self, host: str, gpus: int, place: Place) -> str:
        """Represent the GPUs of a node that other jobs have by a job that keeps them; return its name."""
        name = f"others-{place[0]}-{place[1][0][0]}"
        there = self.jobs.get(name)
        if there is None or there.gpus != gpus:
            self._remove(name)
            file = JobFile(command=("others",), gpus=gpus, types=(place[0],), preemptible=False)
            there = self._add(name, file, self.timer.time)
        self._give(there, place, self.timer.time)
        return name

    def _add(self, name: str, file: JobFile, time: float) -> LiveJob:
        with self._at(time):
            job = self.jobs[name] = LiveJob(file, name, self.timer, self.cluster, self._kind)
        self._arrived.append(job)
        return job

    def _remove(self, name: str) -> None:
        job = self.jobs.pop(name, None)
        if job is None:
            return
        job.give(None)
        if job in self._arrived:
            self._arrived.remove(job)
        else:
            self._left.append(job)

    # ---- what a policy does -------------------------------------------------------------------------

    def news(self) -> tuple[tuple[LiveJob, ...], tuple[LiveJob, ...]]:
        """Return the jobs that arrived and those that left since the last call."""
        arrived, left = tuple(self._arrived), tuple(self._left)
        self._arrived, self._left = [], []
        return arrived, left

    def start(self, job: LiveJob, new: Allocation, now: ClusterState) -> None:
        """Record that a job gets its first GPUs."""
        self.resize(job, new, now)

    def resize(self, job: LiveJob, new: Allocation, now: ClusterState) -> None:
        """Record that a job gets other GPUs."""
        assert isinstance(new, Placement)
        job.give((new.type, new.nodes))

    def stop(self, job: LiveJob, now: ClusterState) -> None:
        """Record that a job loses its GPUs."""
        job.give(None)


class Decider:
    """A policy and its world; both are made again when the nodes of the partition change.

    Raises
    ------
    ValueError
        If there is no such policy, or a setting is invalid.
    """

    def __init__(self, policy: str, settings: Mapping[str, Any], round_seconds: float | None) -> None:
        self._name, self._settings, self._given_seconds = policy, dict(settings), round_seconds
        self.policy = make_policy(policy, **self._settings)
        self.world: World | None = None
        self._rounds: ClusterRounds[LiveJob] | None = None

    @property
    def round_seconds(self) -> float | None:
        """Length of a round; None for a policy that is asked at events."""
        seconds = self.policy.round_seconds
        return seconds if self._given_seconds is None or seconds is None else self._given_seconds

    def look(self, seen: Snapshot) -> Callable[[], Decision]:
        """Show a snapshot to the policy; return the call that asks it, which may be made in a thread."""
        if self.world is None or self.world.hosts != _by_type(seen.nodes):
            if self.world is not None:
                self.forget()
            epoch = min([seen.time, *(job.submitted for job in seen.jobs)])
            self.world = World(seen.nodes, epoch, self.policy.kind)
            self._rounds = ClusterRounds(
                self.policy,
                self.world,
                round_seconds=self._given_seconds,
                placer=placer_for(self.policy),
                estimator=ReportedSpeeds(),
            )
        rounds = self._rounds
        assert rounds is not None
        self.world.update(seen)
        now = look_at(rounds)
        return lambda: rounds.decide(now)

    def use(self, decision: Decision) -> None:
        """Use the places of a decision as the targets of the world's jobs."""
        assert self._rounds is not None
        self._rounds.carry_out(decision)

    def forget(self) -> None:
        """Make a new policy before the next round, for example because the present one has failed."""
        self.policy = make_policy(self._name, **self._settings)
        self.world = self._rounds = None


def _by_type(nodes: Iterable[SlurmNode]) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the hosts by name of the type and number of GPUs; each number of a type has its own name."""
    there = sorted(nodes, key=lambda node: node.host)
    sizes = defaultdict[str, set[int]](set)
    for node in there:
        sizes[node.type].add(node.gpus)
    hosts = defaultdict[tuple[str, int], list[str]](list)
    for node in there:
        name = node.type or "gpu"
        hosts[name if len(sizes[node.type]) == 1 else f"{name}:{node.gpus}", node.gpus].append(node.host)
    return {key: tuple(names) for key, names in sorted(hosts.items())}
