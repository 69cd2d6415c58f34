"""The simulator: jobs arrive, get GPUs from a policy, progress, pay for changes, and complete.

A policy with rounds is asked at every multiple of ``round_seconds`` at which there are jobs.  Jobs that
arrive or lose a node between two rounds wait for the next round, and the GPUs of jobs that complete are idle
until then.  A policy without rounds (``round_seconds`` is None) is asked when a job arrives or completes,
when nodes change, or at a time that it requested.

At each such time, the simulator proceeds in this order: nodes change, jobs arrive, the estimator is updated,
the policy decides, the placer finds nodes, changes are charged, and time passes until the next call.  Jobs
complete at their exact times.

A simulation begins at time 0 with an empty cluster, or from a given present (:mod:`.present`).

Simulations with equal arguments give equal results, bit by bit.  All random numbers are drawn in advance
(workloads, failures) or from a seed of the policy or the estimator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush

from copter.errors import CopterError
from copter.problems.cluster.jobs import Timer, batch_choice, job_kind, job_profile
from copter.problems.cluster.nodes import NodeChange, NodeEvents, NodeFailure
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import (
    Allocation,
    ClusterState,
    Estimator,
    Placement,
    Policy,
    WarmsUp,
    counts_of,
)
from copter.problems.cluster.results import ClusterRecord, JobRecord, Segment, record_of
from copter.problems.cluster.rounds import ClusterRounds, can_run
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.simulation.present import Present, PresentJob
from copter.problems.cluster.simulation.resize import CheckpointRestart, Resize
from copter.problems.cluster.workload import Scenario

_MAX_IDLE = 10_000
"""Number of consecutive calls, without running jobs or further events, that are reported as starvation."""


class StarvationError(CopterError, RuntimeError):
    """A policy gives no GPUs to the remaining jobs although there will be no further event."""


class Simulator:
    """Simulation of a cluster under a policy.

    Parameters
    ----------
    scenario : Scenario
        Cluster, jobs and profiles.
    policy : Policy
        A new policy.
    round_seconds : float, optional
        Length of a round, which replaces the policy's own; only for a policy with rounds.
    placer : SiaPlacer, optional
        Finds nodes.  Without a placer, GPUs are only counted.
    resize : Resize, optional
        Cost of changes; default: :class:`copter.problems.cluster.simulation.resize.CheckpointRestart`.
    estimator : Estimator, optional
        Knowledge of the policy about profiles.  Without an estimator, the policy knows the true profiles.
    events : iterable of NodeChange or NodeFailure
        Changes and failures of nodes; failures need a placer.
    max_hours : float, optional
        Simulated time at which the simulation stops, even if jobs are incomplete.
    present : Present, optional
        State from which the simulation begins; default: an empty cluster at time 0.  The scenario must have
        the jobs of this state and the jobs that arrive later.  Its cluster has the working nodes only.

    Attributes
    ----------
    rejected : tuple of str
        Names of jobs that no configuration of the cluster can run; these jobs never enter.  A job that holds
        GPUs in `present` is not rejected.
    records : list of ClusterRecord
        Calls of the policy, in order.
    segments : list of Segment
        Intervals in which jobs held GPUs, in order of their ends.

    Raises
    ------
    ValueError
        If an argument is invalid, or a job has no profile or the name of another job.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        *,
        round_seconds: float | None = None,
        placer: SiaPlacer | None = None,
        resize: Resize | None = None,
        estimator: Estimator | None = None,
        events: Iterable[NodeChange | NodeFailure] = (),
        max_hours: float | None = None,
        present: Present | None = None,
    ) -> None:
        for name, value in (("round_seconds", round_seconds), ("max_hours", max_hours)):
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} = {value}: must be positive and finite")
        if isinstance(policy, WarmsUp):  # so that the time of the first round has no imports
            policy.warm_up()
        self.scenario, self.policy = scenario, policy
        self.cluster = scenario.cluster.copy()
        self.timer, self.jobs = Timer(), dict[str, SimulatedJob]()
        self.max_seconds = math.inf if max_hours is None else max_hours * 3600.0
        self.records: list[ClusterRecord] = []
        self.segments: list[Segment] = []
        self._rounds = ClusterRounds(
            policy, self, round_seconds=round_seconds, placer=placer, estimator=estimator
        )
        self.round_seconds = self._rounds.round_seconds
        self._resize = resize or CheckpointRestart()
        listed = list(events)
        if placer is None and any(isinstance(one, NodeFailure) for one in listed):
            raise ValueError("placer = None: must be given if nodes fail")
        self._nodes = NodeEvents(self.cluster, listed, None if present is None else present.down)
        self._done: dict[str, JobRecord] = {}
        self._heap: list[tuple[float, int, SimulatedJob]] = []
        self._pushed = 0
        self._order: dict[str, int] = {}
        self._arrived: list[SimulatedJob] = []
        self._left: list[SimulatedJob] = []
        self._wake = math.inf
        self._idle = 0
        self._after: dict[str, tuple[SimulatedJob, set[str]]] = {}
        self._first_call = 0.0
        self._waiting = self._admissible({} if present is None else present.jobs)
        if present is not None:
            self._begin(present, placed=placer is not None)
        self._waiting.reverse()

    def _begin(self, present: Present, *, placed: bool) -> None:
        """Begin from a given present: its jobs enter now, and all other jobs wait."""
        present.check(self.cluster, placed=placed)
        for name in (*present.jobs, *present.after):
            if name not in self._order:
                raise ValueError(f"present: job {name!r}: must be in the scenario")
        if self._nodes.next_time < present.time:
            raise ValueError(f"events: one is at {self._nodes.next_time:g} s: must not be before the present")
        self.timer.time = present.time
        self._first_call = present.time if present.asks is None else present.asks
        there = {job.name: job for job in self._waiting}
        for name, state in present.jobs.items():
            job = there.pop(name, None)
            if job is not None:
                job.resume(state)
                self.jobs[name] = job
                self._arrived.append(job)
                self._expect(job)
        for name, others in present.after.items():
            job = there.pop(name, None) if others else None
            if job is not None:
                self._after[name] = job, set(others)
        self._waiting = list(there.values())

    def _admissible(self, present: Mapping[str, PresentJob]) -> list[SimulatedJob]:
        """Return the jobs that the cluster can run, or that hold GPUs already, in order of submission."""
        jobs: list[SimulatedJob] = []
        rejected: list[SimulatedJob] = []
        for submission in sorted(self.scenario.jobs, key=lambda job: job.time):
            if submission.application not in self.scenario.profiles:
                what = f"application {submission.application!r} has no profile"
                raise ValueError(f"job {submission.name!r}: {what}")
            kind = job_kind(submission, self.policy.kind)
            application = self.scenario.profiles[submission.application]
            job = SimulatedJob(submission, job_profile(submission, application, kind), kind, self.timer)
            if submission.name in self._order:
                raise ValueError(f"job {submission.name!r}: must have a name of its own")
            self._order[submission.name] = len(self._order)
            holds = submission.name in present and present[submission.name].held is not None
            (jobs if holds or can_run(self.policy, job, self.cluster) else rejected).append(job)
        self.rejected = tuple(job.name for job in rejected)
        return jobs

    # ---- time ------------------------------------------------------------------------------------

    def run(self) -> Iterator[ClusterRecord]:
        """Simulate, and yield the record of each call of the policy.

        Raises
        ------
        PolicyError
            If the policy gave GPUs that do not exist, or gave GPUs to a job that has ended or cannot use
            them.
        StarvationError
            If the policy gives no GPUs to the remaining jobs.
        """
        if self._first_call > self.timer.time:
            self._play_until(self._first_call)
        while self._waiting or self.jobs:
            time = self.timer.time
            if not self.jobs:
                time = max(time, self._grid(self._waiting[-1].submitted))
            if time >= self.max_seconds:
                self._stop(time)
                return
            self.timer.time = time
            self._roll_back(self._nodes.play(time), time)
            self._admit(time)
            record = self._ask(time)
            self.records.append(record)
            yield record

    def play(self) -> Simulator:
        """Simulate to the end, see :meth:`run`.

        Returns
        -------
        Simulator
            The simulator itself.
        """
        for _ in self.run():
            pass
        return self

    def _stop(self, time: float) -> None:
        """Record the GPUs of incomplete jobs."""
        self.timer.time = time
        for job in self.jobs.values():
            if job.allocation is not None:
                self._close(job, time)
                job.settle(time)

    def _grid(self, time: float) -> float:
        """Return the first time of a call of the policy that is not before a time."""
        step = self.round_seconds
        if step is None:
            return time
        found = math.ceil(time / step) * step
        return found if found >= time else found + step  # the quotient may have been rounded down

    def _admit(self, time: float) -> None:
        while self._waiting and self._waiting[-1].submitted <= time:
            job = self._waiting.pop()
            job.enter()
            self.jobs[job.name] = job
            self._arrived.append(job)

    def _ask(self, time: float) -> ClusterRecord:
        """Ask the policy, carry out its decision, and let time pass until the next call."""
        rounds, there, jobs = self._rounds, self.cluster.capacity, len(self.jobs)
        demand = sum(job.gpus or 1 for job in self.jobs.values())
        now = rounds.look()
        decision = rounds.decide(now)
        changes = rounds.carry_out(decision)
        self._wake = min(now.wakes, default=math.inf)
        completed, until = self._pass_time(time, bool(changes.running))
        return ClusterRecord(
            index=now.index,
            time=time,
            seconds=until - time,
            jobs=jobs,
            running=changes.running,
            arrived=len(now.arrived),
            completed=completed,
            gpus=changes.gpus,
            there=there,
            demand=demand,
            starts=changes.starts,
            restarts=changes.restarts,
            evicted=len(decision.placed.evicted),
            moved=len(decision.placed.moved),
            policy_seconds=decision.policy_seconds,
            figures=decision.figures,
        )

    def _pass_time(self, time: float, running: bool) -> tuple[int, float]:
        """Play until the next call of the policy; return the number of completions and the call's time."""
        until = self._next_ask(time)
        more = bool(self._waiting) or math.isfinite(self._nodes.next_time)
        self._idle = 0 if running or more else self._idle + 1
        if self._idle > _MAX_IDLE or not math.isfinite(until):
            left = ", ".join(list(self.jobs)[:5])
            who = f"policy {self.policy.name!r} at {time:g} s"
            raise StarvationError(f"{who} gives no GPUs to the remaining jobs: {left}")
        until = min(until, max(self.max_seconds, time))
        if self.round_seconds is None:
            self.timer.crowd(self.timer.present, until - time)
        return self._play_until(until), until

    def _play_until(self, until: float) -> int:
        """Let time pass without a call of the policy; return the number of completions."""
        completed = 0
        while True:  # completions, and failures of nodes between two rounds
            failure, finish = self._nodes.next_time, self._next_finish()
            if min(failure, finish) > until:
                break
            if finish <= failure:
                self._complete(heappop(self._heap)[2], finish)
                completed += 1
            elif failure < until:
                self.timer.time = failure
                self._roll_back(self._nodes.play(failure), failure)
                self._vacate(failure)
            else:
                break
        self.timer.time = until
        return completed

    def _next_ask(self, time: float) -> float:
        if self.round_seconds is not None:
            return time + self.round_seconds
        arrival = self._waiting[-1].submitted if self._waiting else math.inf
        return min(arrival, self._nodes.next_time, self._next_finish(), self._wake)

    def _next_finish(self) -> float:
        """Return the time of the next completion if no allocation changes; drop outdated entries."""
        heap = self._heap
        while heap and heap[0][2].finish_at != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else math.inf

    def _complete(self, job: SimulatedJob, time: float) -> None:
        self._take(job, time)
        del self.jobs[job.name]
        self._done[job.name] = record_of(job, time)
        self._left.append(job)
        for name, (waits, others) in list(self._after.items()):
            others.discard(job.name)
            if not others:
                del self._after[name]
                self._waiting.append(waits)
                self._waiting.sort(key=lambda one: one.submitted, reverse=True)

    # ---- nodes -----------------------------------------------------------------------------------

    def _roll_back(self, failed: list[tuple[str, int]], time: float) -> None:
        """Set jobs on failed nodes back to their last checkpoints."""
        for type, node in failed:
            for job in self.jobs.values():
                held = job.allocation
                if held is not None and held.type == type and node in dict(job.place or ()):
                    self._take(job, time)
                    job.roll_back(job.profile.checkpoint(job.progress))

    def _vacate(self, time: float) -> None:
        """Stop jobs on nodes that left between two rounds; without a placer, the jobs that arrived last."""
        free = self.cluster.capacity
        working = {type: self._nodes.working(type) for type in free}
        for job in self.jobs.values():
            held = job.allocation
            if held is None:
                continue
            free[held.type] -= held.gpus
            there = free[held.type] >= 0 if job.place is None else working[held.type] >= {*dict(job.place)}
            if not there:
                free[held.type] += held.gpus
                self._take(job, time)

    # ---- methods for ClusterRounds ---------------------------------------------------------------

    @property
    def down(self) -> Mapping[str, frozenset[int]]:
        """Failed nodes of each type."""
        return self._nodes.down

    def news(self) -> tuple[tuple[SimulatedJob, ...], tuple[SimulatedJob, ...]]:
        """Return the jobs that arrived, and that completed, since the last call."""
        arrived, left = tuple(self._arrived), tuple(self._left)
        self._arrived, self._left = [], []
        return arrived, left

    def start(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> None:
        """Give GPUs to a job that has none."""
        self._give(job, new, now)

    def resize(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> None:
        """Give a job other GPUs."""
        self._give(job, new, now)

    def stop(self, job: SimulatedJob, now: ClusterState) -> None:
        """Take away all GPUs of a job."""
        self._take(job, now.time)

    def _give(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> None:
        cost = self._resize.seconds(job, new, now)
        if math.isnan(job.started) and self._rounds.estimator is not None:
            cost += self._rounds.estimator.profiling_seconds(job)
        if job.allocation is not None:
            self._close(job, now.time)
        place = new.nodes if isinstance(new, Placement) else None
        job.give(now.time, counts_of(new), place, cost)
        self._expect(job)

    def _take(self, job: SimulatedJob, time: float) -> None:
        """Take away the GPUs of a job."""
        self._close(job, time)
        job.give(time, None)

    def _expect(self, job: SimulatedJob) -> None:
        """Record the time at which a job completes if its allocation does not change."""
        heappush(self._heap, (job.finish_at, self._pushed, job))
        self._pushed += 1

    def _close(self, job: SimulatedJob, time: float) -> None:
        """Record the GPUs that a job held until now."""
        held = job.allocation
        assert held is not None
        if time > job.since:
            waited = min(max(job.restart_until - job.since, 0.0), time - job.since)
            progress = job.progress_at(time)
            batch = batch_choice(job.profile, held, progress) or ()
            what = (held.type, held.gpus, held.nodes, job.place, waited, progress, *batch)
            self.segments.append(Segment(job.name, job.since, time, *what))

    # ---- results ---------------------------------------------------------------------------------

    def present(self) -> Present:
        """Return the present state, from which another simulation can begin.

        Between two records of :meth:`run`, this is the state at the time of the next call of the policy,
        before nodes change and jobs arrive.
        """
        jobs = {name: job.present() for name, job in self.jobs.items()}
        after = {name: frozenset(others) for name, (_, others) in self._after.items()}
        return Present(self.timer.time, jobs, after=after, down=dict(self.down))

    @property
    def completed(self) -> int:
        """Number of completed jobs."""
        return len(self._done)

    @property
    def admitted(self) -> int:
        """Number of jobs that can run on this cluster, whether they have arrived or not."""
        return len(self._done) + len(self.jobs) + len(self._waiting)

    def job_results(self) -> list[JobRecord]:
        """Return the record of each job that entered, in order of submission."""
        known = self._done | {name: record_of(job, math.nan) for name, job in self.jobs.items()}
        return [known[name] for name in self._order if name in known]
