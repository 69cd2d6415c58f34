"""The simulator: jobs arrive, a policy shares out GPUs, jobs progress, pay for changes, and complete.

A policy with rounds is asked at every multiple of ``round_seconds`` at which there are jobs; jobs that come,
complete or lose a node in between wait for the next round.  A policy that is asked at events
(``round_seconds`` None) is asked whenever a job arrives or completes, nodes change, or a time has come that
it named.  Either way, a time is played in this order: nodes change, jobs arrive, the estimator learns, the
policy answers, the placer finds nodes, changes are paid for, and time passes until the next one.  Jobs
complete at their exact times.

The same arguments give the same results bit by bit: all that is random is drawn before (workloads, failures)
or from a seed of the policy's or the estimator's own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from time import perf_counter
from typing import get_args

from copter.errors import CopterError
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.nodes import NodeChange, NodeEvents, NodeFailure
from copter.problems.cluster.policy import (
    Allocation,
    ClusterState,
    Estimator,
    Placement,
    Policy,
    PolicyError,
    counts_of,
)
from copter.problems.cluster.simulation.jobs import JobState, Timer, batch_choice, job_kind, job_profile
from copter.problems.cluster.simulation.placement import Placed, Placer
from copter.problems.cluster.simulation.resize import CheckpointRestart, Interference, Resize
from copter.problems.cluster.simulation.results import JobRecord, RoundRecord, Segment, record_of
from copter.problems.cluster.workload import Kind, Scenario

MAX_IDLE = 10_000
"""Times in a row at which jobs are there, nothing runs and nothing is to come: the policy starves them."""


class StarvationError(CopterError, RuntimeError):
    """A policy gives jobs nothing although nothing else is to come."""


class Simulator:
    """Simulation of a cluster under a policy.

    Parameters
    ----------
    policy : Policy
        A fresh one.
    round_seconds : float, optional
        In place of the policy's own; only for a policy with rounds.
    placer : Placer, optional
        Without one GPUs are counted, not placed.
    resize : Resize, optional
        By default :class:`.parts.CheckpointRestart`.
    estimator : Estimator, optional
        Without one the policy sees the truth.
    interference : Interference, optional
        Needs a placer.
    events : iterable of NodeChange or NodeFailure
        Failures need a placer.
    max_hours : float, optional
        Stop at this simulated time, complete or not.

    Attributes
    ----------
    rejected : tuple of str
        Jobs that no configuration of the cluster can run: they never enter.
    segments : list of Segment
        In order of their ends.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        *,
        round_seconds: float | None = None,
        placer: Placer | None = None,
        resize: Resize | None = None,
        estimator: Estimator | None = None,
        interference: Interference | None = None,
        events: Iterable[NodeChange | NodeFailure] = (),
        max_hours: float | None = None,
    ) -> None:
        for name, value in (("round_seconds", round_seconds), ("max_hours", max_hours)):
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} = {value}: must be positive and finite")
        check_policy(policy)
        if round_seconds is not None and policy.round_seconds is None:
            raise ValueError(f"round_seconds = {round_seconds}: policy {policy.name!r} is asked at events")
        self.scenario, self.policy = scenario, policy
        self.round_seconds = policy.round_seconds if round_seconds is None else float(round_seconds)
        self.cluster = scenario.cluster.copy()
        self.max_seconds = math.inf if max_hours is None else max_hours * 3600.0
        self.records: list[RoundRecord] = []
        self.segments: list[Segment] = []
        self._placer, self._resize = placer, resize or CheckpointRestart()
        self._estimator, self._interference = estimator, interference
        listed = list(events)
        if placer is None and (interference or any(isinstance(one, NodeFailure) for one in listed)):
            raise ValueError("interference and failures of nodes need a placer")
        self._nodes = NodeEvents(self.cluster, listed)
        self._timer = Timer()
        self._live: dict[str, JobState] = {}
        self._done: dict[str, JobRecord] = {}
        self._heap: list[tuple[float, int, JobState]] = []
        self._pushed = 0
        self._order: dict[str, int] = {}
        self._arrived: list[JobState] = []
        self._left: list[JobState] = []
        self._wake = math.inf
        self._idle = 0
        self._waiting = self._admissible()
        self._waiting.reverse()

    def _admissible(self) -> list[JobState]:
        """Jobs in order of submission, without those that nothing here can run."""
        jobs: list[JobState] = []
        rejected: list[JobState] = []
        for submission in sorted(self.scenario.jobs, key=lambda job: job.time):
            if submission.application not in self.scenario.profiles:
                what = f"application {submission.application!r} has no profile"
                raise ValueError(f"job {submission.name!r}: {what}")
            kind = job_kind(submission, self.policy.kind)
            profile = job_profile(submission, self.scenario.profiles[submission.application], kind)
            job = JobState(submission, profile, kind, self._timer)
            if submission.name in self._order:
                raise ValueError(f"two jobs are called {submission.name!r}")
            self._order[submission.name] = len(self._order)
            (jobs if self._can_run(job) else rejected).append(job)
        self.rejected = tuple(job.name for job in rejected)
        return jobs

    def _can_run(self, job: JobState) -> bool:
        admits = getattr(self.policy, "admits", None)
        if admits is not None and not admits(job, self.cluster):
            return False
        if job.gpus is not None:
            return any(
                job.profile.curve(self.cluster.packed(type.name, job.gpus))[0] > 0
                for type in self.cluster.types
                if job.gpus <= type.gpus
            )
        columns, _ = job.profile.row(self.cluster.configurations, 0)
        return bool(columns.size)

    # ---- time ------------------------------------------------------------------------------------

    def run(self) -> Iterator[RoundRecord]:
        """Simulate, giving the record of each time the policy was asked, as it ends.

        Raises
        ------
        PolicyError
            The policy gave GPUs that are not there, or gave them to a job that is not there or cannot use
            them.
        StarvationError
            It gives the jobs that are left nothing.
        """
        while self._waiting or self._live:
            time = self._timer.time
            if not self._live:
                time = max(time, self._grid(self._waiting[-1].submitted))
            if time >= self.max_seconds:
                self._stop(time)
                return
            self._timer.time = time
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
            Itself.
        """
        for _ in self.run():
            pass
        return self

    def _stop(self, time: float) -> None:
        """Write down what jobs hold that are not complete."""
        self._timer.time = time
        for job in self._live.values():
            if job.allocation is not None:
                self._close(job, time)
                job.settle(time)

    def _grid(self, time: float) -> float:
        """First time not before this one at which the policy is asked."""
        step = self.round_seconds
        if step is None:
            return time
        found = math.ceil(time / step) * step
        return found if found >= time else found + step  # the quotient may have been rounded down

    def _admit(self, time: float) -> None:
        while self._waiting and self._waiting[-1].submitted <= time:
            job = self._waiting.pop()
            job.enter()
            self._live[job.name] = job
            self._arrived.append(job)

    def _ask(self, time: float) -> RoundRecord:
        """Ask the policy, take over its answer, and let time pass until it is asked again."""
        crowd = len(self._live) / max(self.cluster.gpus, 1)
        self._timer.crowd(crowd, 0.0 if self.round_seconds is None else 1.0)
        seconds = math.inf if self.round_seconds is None else self.round_seconds
        now = ClusterState(
            time=time,
            index=len(self.records),
            seconds=seconds,
            cluster=self.cluster,
            jobs=self._live,
            arrived=tuple(self._arrived),
            left=tuple(self._left),
            down=self._nodes.down,
        )
        arrived, there = len(self._arrived), self.cluster.capacity
        demand = sum(job.gpus or 1 for job in self._live.values())
        self._arrived, self._left = [], []
        if self._estimator is not None:
            self._estimator.observe(now)
        begin = perf_counter()
        wanted = self.policy.schedule(now)
        policy_seconds = perf_counter() - begin
        check_answer(self.policy.name, wanted, now)
        placed = self._place(wanted)
        starts, restarts = self._take_over(placed, now)
        running = [job for job in self._live.values() if job.allocation is not None]
        used = Counter({type: 0 for type in there})
        for job in running:
            assert job.allocation is not None
            used[job.allocation.type] += job.allocation.gpus
        jobs = len(self._live)
        self._wake = min(now.wakes, default=math.inf)
        completed, until = self._pass_time(time, bool(running))
        for type, nodes in now.sizes.items():
            self.cluster.set_nodes(type, nodes)
        return RoundRecord(
            index=now.index,
            time=time,
            seconds=until - time,
            jobs=jobs,
            running=len(running),
            arrived=arrived,
            completed=completed,
            gpus=dict(used),
            there=there,
            demand=demand,
            starts=starts,
            restarts=restarts,
            evicted=len(placed.evicted),
            moved=len(placed.moved),
            policy_seconds=policy_seconds,
            figures=dict(getattr(self.policy, "figures", {})),
        )

    def _pass_time(self, time: float, running: bool) -> tuple[int, float]:
        """Play until the policy is asked again; returns how many jobs completed, and when that is."""
        until = self._next_ask(time)
        more = bool(self._waiting) or math.isfinite(self._nodes.next_time)
        self._idle = 0 if running or more else self._idle + 1
        if self._idle > MAX_IDLE or not math.isfinite(until):
            left = ", ".join(list(self._live)[:5])
            who = f"policy {self.policy.name!r} at {time:g} s"
            raise StarvationError(f"{who} gives nothing to the jobs that are left: {left}")
        until = min(until, max(self.max_seconds, time))
        if self.round_seconds is None:
            self._timer.crowd(self._timer.present, until - time)
        completed = 0
        while True:  # completions, and failures of nodes between two rounds
            failure, finish = self._nodes.next_time, self._next_finish()
            if min(failure, finish) > until:
                break
            if finish <= failure:
                self._complete(heappop(self._heap)[2], finish)
                completed += 1
                self._interfere(finish)
            elif failure < until:
                self._timer.time = failure
                self._roll_back(self._nodes.play(failure), failure)
                self._vacate(failure)
                self._interfere(failure)
            else:
                break
        self._timer.time = until
        return completed, until

    def _next_ask(self, time: float) -> float:
        if self.round_seconds is not None:
            return time + self.round_seconds
        arrival = self._waiting[-1].submitted if self._waiting else math.inf
        return min(arrival, self._nodes.next_time, self._next_finish(), self._wake)

    def _next_finish(self) -> float:
        """Time of the next completion if nothing changes; drops entries that are no longer true."""
        heap = self._heap
        while heap and heap[0][2].finish_at != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else math.inf

    def _complete(self, job: JobState, time: float) -> None:
        self._take(job, time)
        del self._live[job.name]
        self._done[job.name] = record_of(job, time)
        self._left.append(job)

    # ---- nodes -----------------------------------------------------------------------------------

    def _roll_back(self, failed: list[tuple[str, int]], time: float) -> None:
        """Jobs on nodes that failed go back to their last checkpoint."""
        for type, node in failed:
            for job in self._live.values():
                held = job.allocation
                if held is not None and held.type == type and node in dict(job.place or ()):
                    self._take(job, time)
                    job.roll_back(job.profile.checkpoint(job.progress))

    def _vacate(self, time: float) -> None:
        """Jobs on nodes that went away between two rounds stop; the last ones if GPUs are only counted."""
        free = self.cluster.capacity
        working = {type: self._nodes.working(type) for type in free}
        for job in self._live.values():
            held = job.allocation
            if held is None:
                continue
            free[held.type] -= held.gpus
            there = free[held.type] >= 0 if job.place is None else working[held.type] >= {*dict(job.place)}
            if not there:
                free[held.type] += held.gpus
                self._take(job, time)

    def _take(self, job: JobState, time: float) -> None:
        """Take away what a job holds."""
        self._close(job, time)
        job.give(time, None)

    # ---- allocations -----------------------------------------------------------------------------

    def _place(self, wanted: Mapping[str, Allocation]) -> Placed:
        if self._placer is None:
            return Placed({name: counts_of(allocation) for name, allocation in wanted.items()})
        held = {
            name: Placement(job.allocation.type, job.place)
            for name, job in self._live.items()
            if job.allocation is not None and job.place is not None
        }
        fixed = [name for name in held if not self._live[name].submission.preemptible]
        return self._placer.place(self.cluster, self._nodes.down, held, wanted, fixed)

    def _take_over(self, placed: Placed, now: ClusterState) -> tuple[int, int]:
        """Give every job what was found for it; returns how many started, and how many restarted."""
        starts = restarts = 0
        for name, job in self._live.items():
            new = placed.places.get(name)
            if new is None:
                if job.allocation is not None:
                    self._take(job, now.time)
                continue
            counts = counts_of(new)
            place = new.nodes if isinstance(new, Placement) else None
            if counts == job.allocation and place == job.place:
                continue
            cost, overlap = self._resize.seconds(job, new, now), self._resize.overlap(job, new, now)
            if math.isnan(job.started):
                starts += 1
                cost += 0.0 if self._estimator is None else self._estimator.profiling_seconds(job)
            else:
                restarts += 1
            if job.allocation is not None:
                self._close(job, now.time)
            job.give(now.time, counts, place, cost, overlap)
            self._expect(job)
        self._interfere(now.time)
        return starts, restarts

    def _interfere(self, time: float) -> None:
        if self._interference is None:
            return
        factors = self._interference.factors(self._live)
        for name, job in self._live.items():
            factor = factors.get(name, 1.0)
            if job.slowdown != factor:
                job.slow_down(time, factor)
                self._expect(job)

    def _expect(self, job: JobState) -> None:
        """Note when a job completes if nothing changes."""
        heappush(self._heap, (job.finish_at, self._pushed, job))
        self._pushed += 1

    def _close(self, job: JobState, time: float) -> None:
        """Write down what a job held until now."""
        held = job.allocation
        assert held is not None
        if time > job.since:
            waited = min(max(job.restart_until - job.since, 0.0), time - job.since)
            progress = job.progress_at(time)
            batch = batch_choice(job.profile, held, progress) or ()
            what = (held.type, held.gpus, held.nodes, job.place, waited, progress, *batch)
            self.segments.append(Segment(job.name, job.since, time, *what))

    # ---- results ---------------------------------------------------------------------------------

    @property
    def completed(self) -> int:
        """Number of jobs complete so far."""
        return len(self._done)

    @property
    def admitted(self) -> int:
        """Number of jobs that can run on this cluster, arrived or not."""
        return len(self._done) + len(self._live) + len(self._waiting)

    def job_results(self) -> list[JobRecord]:
        """What became of each job that entered, in order of submission."""
        known = self._done | {name: record_of(job, math.nan) for name, job in self._live.items()}
        return [known[name] for name in self._order if name in known]


def check_policy(policy: Policy) -> None:
    """Raise if something is missing of a policy.

    Raises
    ------
    PolicyError
        Names the attribute.
    """
    who = f"policy {getattr(policy, 'name', type(policy).__name__)!r}"
    for name in ("name", "kind", "round_seconds", "schedule"):
        if not hasattr(policy, name):
            raise PolicyError(f"{who} has no {name}: see the protocol Policy")
    if policy.kind not in get_args(Kind):
        raise PolicyError(f"{who}: kind = {policy.kind!r}: must be one of {get_args(Kind)}")
    seconds = policy.round_seconds
    if seconds is not None and not 0 < seconds < math.inf:
        raise PolicyError(f"{who}: round_seconds = {seconds}: must be positive, or None for events")


def check_answer(policy: str, wanted: Mapping[str, Allocation], now: ClusterState) -> None:
    """Raise if the answer of a policy cannot be carried out.

    Parameters
    ----------
    policy : str
        Its name.
    wanted : mapping of str to Configuration or Placement
        Its answer.

    Raises
    ------
    PolicyError
        Names the job or the GPU type.
    """
    who = f"policy {policy!r} at {now.time:g} s"
    capacity = now.cluster.capacity
    sizes = {type.name: type.gpus_per_node for type in now.cluster.types}
    used: Counter[str] = Counter()
    for name, allocation in wanted.items():
        job = now.jobs.get(name)
        if job is None:
            raise PolicyError(f"{who}: there is no job {name!r}")
        if not isinstance(allocation, Configuration | Placement):
            raise PolicyError(f"{who}: job {name!r}: {allocation!r} is no Configuration and no Placement")
        one = counts_of(allocation)
        if one.type not in capacity:
            raise PolicyError(f"{who}: job {name!r}: no GPU type {one.type!r}")
        if not 1 <= one.nodes <= one.gpus <= one.nodes * sizes[one.type]:
            raise PolicyError(f"{who}: job {name!r}: {one.gpus} GPUs do not go on {one.nodes} nodes")
        if job.gpus is not None and one.gpus != job.gpus:
            raise PolicyError(f"{who}: job {name!r} is rigid: {one.gpus} GPUs, it needs {job.gpus}")
        if one != job.allocation and not job.profile.curve(one).any():
            raise PolicyError(f"{who}: job {name!r} cannot run on {one}")
        used[one.type] += one.gpus
    for type, gpus in used.items():
        if gpus > capacity[type]:
            raise PolicyError(f"{who}: {gpus} GPUs of type {type!r} given, of {capacity[type]}")
