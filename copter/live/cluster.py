"""The state of a live cluster, which follows from the events of its journal.

Policies decide about the :class:`EligibleJobs` of a live cluster, which are a
:class:`copter.problems.cluster.rounds.World`, like the simulator.  The decisions of a round are collected in
:attr:`LiveCluster.changes`, and become an event before they are applied.

This module reads no clock, file or network, so the same events always produce the same state.  A service
recovers its state from the journal after a restart, and a recorded run can be replayed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from copter.live import ENDINGS
from copter.live.events import (
    Closed,
    Decided,
    Drained,
    Ended,
    Event,
    Launched,
    NodesChanged,
    Opened,
    Place,
    Reported,
    Submitted,
    Told,
)
from copter.live.files import ClusterFile, JobFile
from copter.live.jobs import LiveJob
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.policy import Allocation, ClusterState, Estimator, Placement
from copter.problems.cluster.workload import Kind

_LONG_SECONDS = 600.0
"""Seconds after which a run of a rigid job counts as progress."""
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0
"""Seconds before a job whose run failed is started again; the delay doubles from the first to the second."""


class LiveCluster:
    """A live cluster; `policy_kind` is the largest kind of adaptation that the policy makes.

    Attributes
    ----------
    timer : Timer
        Seconds since the service first began.
    cluster : Cluster
        Nodes that work and are not drained.
    jobs : dict of str to LiveJob
        Jobs that have not ended, in the order of their submission.
    dependents : dict of str to dict of str to None
        For the name of a job, the names of the jobs that start after it.  None of these jobs has ended.
    unusable : dict of (str, int) to str
        Reason why a node is not in use, by type and number.
    failed : dict of (str, int) to str
        Reason why a node does not work, by type and number.
    drained : set of (str, int)
        Nodes that a user has taken out of use.
    ended : dict of str to LiveJob
        Jobs that have ended and are kept, in the order of their ends.
    leftover : dict of str to LiveJob
        Those of the jobs in `ended` whose run has not ended.
    over : Counter of (str, str)
        Number of ended jobs by owner and ending, including jobs that are not kept.
    gpu_seconds : dict of str to float
        GPUs of the runs that have ended times their seconds, by owner, including jobs that are not kept.
    outcomes : Counter of str
        Number of runs that have ended by outcome, of jobs that were kept at the start of the service.
    last_round : Decided or None
        The last decision of the policy without an error.
    changes : dict of str to Place or None
        Decisions of a round that are not an event yet.
    """

    def __init__(self, file: ClusterFile, policy_kind: Kind) -> None:
        self.file, self.policy_kind = file, policy_kind
        self.timer, self._last = Timer(), 0.0
        self.cluster = file.cluster()
        self.jobs: dict[str, LiveJob] = {}
        self.dependents: dict[str, dict[str, None]] = {}
        self.unusable: dict[tuple[str, int], str] = {}
        self.drained: set[tuple[str, int]] = set()
        self.changes: dict[str, Place | None] = {}
        self.failed: dict[tuple[str, int], str] = {}
        self.ended: dict[str, LiveJob] = {}
        self.leftover: dict[str, LiveJob] = {}
        self.over = Counter[tuple[str, str]]()
        self.gpu_seconds = defaultdict[str, float](float)
        self.outcomes = Counter[str]()
        self.last_round: Decided | None = None

    def find(self, name: str) -> LiveJob | None:
        """Return a job that has not ended or is still kept; None for any other name."""
        return self.jobs.get(name) or self.ended.get(name)

    @property
    def eligible(self) -> dict[str, LiveJob]:
        """Jobs that a policy may give GPUs, in the order in which they became eligible."""
        jobs = (job for job in self.jobs.values() if job.eligible)
        return {job.name: job for job in sorted(jobs, key=lambda job: job.eligible_since)}

    # ---- events ----------------------------------------------------------------------------------

    def apply(self, event: Event, *, learn: bool = True) -> None:
        """Apply an event at its own time, so that a replay of the events leads to the same state.

        With `learn`, a job's report is fitted at once; otherwise it is fitted when a new policy is asked.
        """
        self.timer.time = self._last = max(self._last, event.time)
        match event:
            case Opened():
                self._open(event)
            case Submitted():
                self._submit(event)
            case Decided():
                self._decide(event)
            case NodesChanged():
                self.failed = {(type, node): why for type, node, why in event.down}
                self._use_nodes()
            case Drained():
                (self.drained.discard if event.back else self.drained.add)((event.type, event.node))
                self._use_nodes()
            case Closed():
                self._close(event)
            case Launched():
                self.jobs[event.job].launch(event.number, event.place, event.hosts, event.devices)
            case Told() | Ended() | Reported():
                self._of_run(event, learn)

    def _open(self, event: Opened) -> None:
        """Give all jobs to a new policy; the cluster's file may have changed."""
        self.file, self.cluster, self.policy_kind = event.cluster, event.cluster.cluster(), event.kind
        for job in self.jobs.values():
            job.adapt(event.kind, self.cluster)
        self._use_nodes()

    def _close(self, event: Closed) -> None:
        job = self.jobs.pop(event.job, None)
        if job is None:
            return
        job.give(None)
        job.closed, self.ended[job.name] = event, job
        self.over[job.owner, event.ending] += 1
        for name in job.waits_for:
            del self.dependents[name][job.name]
        for name in self.dependents.pop(job.name, ()):
            self.jobs[name].waits_for.remove(job.name)
            self.jobs[name].eligible_since = self.timer.time
        if job.run is not None:
            self.leftover[job.name] = job

    def new_job(self, file: JobFile, name: str) -> LiveJob:
        """Return a job that is submitted now, and is not in the state yet."""
        job = LiveJob(file, name, self.timer, self.cluster, self.policy_kind)
        job.waits_for = {other for other in file.after if other in self.jobs}  # all others have completed
        return job

    def _submit(self, event: Submitted) -> None:
        job = self.new_job(event.file, event.job)
        job.owner, job.index = event.author, event.index
        job.enter(event.contention, event.weight)
        for name in job.waits_for:
            self.dependents.setdefault(name, {})[job.name] = None
        if job.eligible:
            job.eligible_since = self.timer.time
        self.jobs[event.job] = job

    def _decide(self, event: Decided) -> None:
        for name, place in event.places.items():
            if name in self.jobs:
                self.jobs[name].give(place, event)
        if not event.error:
            self.last_round = event
        self.timer.contention, self.timer.weight = event.contention, event.weight
        self._use_nodes()  # takes away places on nodes that were drained in the meantime

    def _of_run(self, event: Told | Ended | Reported, learn: bool) -> None:
        """Apply an event of a run; ignore it unless the run is the present run of its job."""
        job = self.find(event.job)
        if job is None or job.run is None or job.run.number != event.number:
            return
        if isinstance(event, Told):
            job.tell()
        elif isinstance(event, Reported):
            job.hear(event.report, learn=learn)
        else:
            failures, losses = self.after(job, event)
            job.failures, job.losses = failures, losses
            in_a_row = max(failures, losses)
            if in_a_row and math.isnan(job.run.told):
                wait = _FIRST_BACKOFF * 2.0 ** min(in_a_row - 1, 30)
                job.retry_at = event.time + min(wait, _LONGEST_BACKOFF)
            gpu_seconds = (event.time - job.run.launched) * sum(gpus for _, gpus in job.run.place[1])
            job.end_run()
            job.failed_runs += event.outcome == "failed"
            job.exit_code, job.ended_gpu_seconds = event.exit_code, job.ended_gpu_seconds + gpu_seconds
            self.gpu_seconds[job.owner] += gpu_seconds
            self.outcomes[event.outcome] += 1
            self.leftover.pop(job.name, None)

    def after(self, job: LiveJob, event: Ended) -> tuple[int, int]:
        """Return the consecutive failures and losses of a job after `event` has ended its present run.

        The counts restart at 0 after a run that made progress beyond the checkpoint from which it began.  For
        a job without reports, they restart after a long run.  A run that ended because of a stop signal has
        neither failed nor been lost.
        """
        run = job.run
        assert run is not None
        long = not job.file.elastic and event.time - run.launched > _LONG_SECONDS
        further = job.saved_progress > run.saved or long
        failures, losses = (0, 0) if further else (job.failures, job.losses)
        if not math.isnan(run.told):
            return failures, losses
        if event.outcome == "failed":
            return failures + 1, losses
        return failures, losses + (event.outcome == "lost" or not further)

    def _use_nodes(self) -> None:
        """Count the nodes in use, and take away allocations with GPUs that are not on them.

        If a node has fewer GPUs than before, the jobs that were submitted first keep their GPUs.
        """
        there = {(type, node): gpus for type, node, gpus in self.file.all_nodes}
        reasons = {node: why for node, why in self.failed.items() if node in there}
        for node in self.drained & there.keys():
            reasons.setdefault(node, "it is drained")
        self.unusable = reasons
        working = Counter(type for type, node in there if (type, node) not in reasons)
        for known in self.cluster.types:
            if known.nodes != working[known.name]:
                self.cluster.set_nodes(known.name, working[known.name])
        sizes = {one.type: one.gpus_per_node for one in self.file.gpus}
        for job in self.jobs.values():
            target, run = job.target, job.run
            if target is None:
                continue
            name, nodes = target
            devices = run.devices if run is not None and run.place == target else ()
            lacks = any((name, at) in reasons or there.get((name, at), 0) < gpus for at, gpus in nodes)
            if lacks or any(gpu >= sizes[name] for part in devices for gpu in part):
                job.give(None)
                continue
            for at, gpus in nodes:
                there[name, at] -= gpus

    # ---- runs and nodes --------------------------------------------------------------------------

    def host(self, type: str, node: int) -> str:
        """Return the backend's name of a node."""
        return next(one.host(node) for one in self.file.gpus if one.type == type)

    def given(self) -> Counter[str]:
        """Return the number of GPUs that jobs have been given, by type."""
        given: Counter[str] = Counter()
        for job in self.jobs.values():
            if job.allocation is not None:
                given[job.allocation.type] += job.allocation.gpus
        return given

    def endings(self) -> dict[str, int]:
        """Return the number of ended jobs by their ending."""
        return {
            ending: sum(jobs for (_, one), jobs in self.over.items() if one == ending) for ending in ENDINGS
        }

    def running(self) -> list[LiveJob]:
        """Return the jobs with a run that has not ended."""
        return [job for job in (*self.jobs.values(), *self.leftover.values()) if job.run is not None]

    def free(self) -> dict[tuple[str, int], list[int]]:
        """Return the numbers of the GPUs that no run holds, for each node in use."""
        free = {
            (type, node): list(range(gpus))
            for type, node, gpus in self.file.all_nodes
            if (type, node) not in self.unusable
        }
        for job in self.running():
            assert job.run is not None
            name, nodes = job.run.place
            for (node, _), devices in zip(nodes, job.run.devices, strict=True):
                if (name, node) in free:
                    free[name, node] = [gpu for gpu in free[name, node] if gpu not in devices]
        return free


class EligibleJobs:
    """The world of a policy: a live cluster with only those jobs that may get GPUs."""

    def __init__(self, state: LiveCluster) -> None:
        self._state, self._known = state, dict[str, LiveJob]()

    @property
    def timer(self) -> Timer:
        """Seconds since the service first began."""
        return self._state.timer

    @property
    def cluster(self) -> Cluster:
        """Nodes that work and are not drained."""
        return self._state.cluster

    @property
    def jobs(self) -> dict[str, LiveJob]:
        """Jobs that a policy may give GPUs."""
        return self._state.eligible

    @property
    def down(self) -> Mapping[str, frozenset[int]]:
        """Numbers of the nodes of each type that do not work or are drained."""
        unusable = self._state.unusable
        types = dict.fromkeys(type for type, _ in unusable)
        return {type: frozenset(at for one, at in unusable if one == type) for type in types}

    def news(self) -> tuple[tuple[LiveJob, ...], tuple[LiveJob, ...]]:
        """Return the jobs that became eligible, and those that ceased to be eligible, since the last call."""
        before, self._known = self._known, self.jobs
        arrived = tuple(job for name, job in self._known.items() if before.get(name) is not job)
        return arrived, tuple(job for name, job in before.items() if self._known.get(name) is not job)

    def start(self, job: LiveJob, new: Allocation, now: ClusterState) -> None:
        """Record that a job gets GPUs, or other GPUs."""
        assert isinstance(new, Placement), "a live cluster is scheduled with a placer"
        nodes = tuple((int(node), int(gpus)) for node, gpus in new.nodes)  # JSON has no numpy integers
        self._state.changes[job.name] = str(new.type), nodes

    resize = start

    def stop(self, job: LiveJob, now: ClusterState) -> None:
        """Record that a job loses its GPUs."""
        self._state.changes[job.name] = None


class ReportedSpeeds(Estimator):
    """An estimator that gives policies the profiles fitted to the reports of live jobs."""

    def observe(self, now: ClusterState) -> None:
        """Fit reports that are not fitted yet, such as those that the service read from its journal."""
        for job in now.jobs.values():
            assert isinstance(job, LiveJob)
            job.learn()
