"""The service: rounds, and seeing to it that what was decided is what runs.

Two things go on side by side in one event loop.  *Rounds* ask the policy in a thread, while jobs run and
report; events that come meanwhile are written at once and become true when the answer is there.  The *tick*
asks the backend what became of the runs and compares, for each job, where it is to run with where it runs: a
run in the wrong place is told to end, one that does not end in time is killed, a job without a run is started
as soon as its GPUs are free.  Nothing is remembered but the state itself, so the same comparison mends
whatever happened: a crash, a lost node, a service that was killed between two steps.

    submit -> journal -> round -> Decided -> tick: Told, wait, Launched -> backend -> reports, Ended -> ...

A job ends once: an exit code of 0 of its present run, whatever former runs do.  A run is in the journal
before it is started, and is never started twice (:mod:`.backends.base`).
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import logging
import math
import os
import secrets
import shutil
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from copter.durable.files import lock_file
from copter.errors import CopterError, choices
from copter.live.backends.base import Backend, BackendError, Run, RunRefusedError, RunState, Scalable
from copter.live.cluster import LiveCluster, ReportedSpeeds
from copter.live.events import (
    Closed,
    Decided,
    Drained,
    Ended,
    Ending,
    Event,
    JobEvent,
    Launched,
    NodesChanged,
    Noted,
    Opened,
    Reported,
    Submitted,
    Told,
)
from copter.live.files import ClusterFile, JobFile
from copter.live.folder import JOBS, TOKEN, first_content, make_folder, open_private
from copter.live.jobs import LARGEST_FACTOR, ActiveRun, LiveJob
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.metrics import ServiceMetrics
from copter.live.past import Past
from copter.live.training.plan import Orders, Pace, Plan, Report
from copter.live.untrusted import UntrustedFileError, blamed_on
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.rounds import Rounds, can_run

log = logging.getLogger("copter.live")

TICK_SECONDS = 0.5
"""Between two looks at the backend."""
SHORTEST_GAP = 0.2
"""Seconds between two rounds of a policy that is asked at events."""
HANGING_SECONDS = 60.0
"""Without a tick that ended, after which the backend is said to hang."""
AGAIN_SECONDS = 5.0
"""After which a policy that is asked at events is asked again, if it raised an error."""
MOST_LOSSES = 20
"""Runs in a row that may be lost before a job is given up."""
T = TypeVar("T")


class RefusedError(CopterError, ValueError):
    """The service does not do what it was asked for: the request is wrong.

    Attributes
    ----------
    status : int
        As HTTP says it.
    """

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


@dataclass
class _Watched:
    """A run, and what is remembered of it only for as long as the service lives.

    Attributes
    ----------
    waited : float
        Seconds at which it was last seen to wait for its nodes.
    told : bool
        The backend has taken the notice to end.
    killed : str
        Why it is killed; empty if it is not.
    """

    run: Run
    waited: float = -math.inf
    told: bool = False
    killed: str = ""


class Service:
    """A policy in charge of a live cluster.

    Parameters
    ----------
    folder : Path
        Journal, token, and a folder for each job; made if it is not there (:mod:`.folder`).
    cluster : ClusterFile
    backend : Backend
    policy, settings : str, mapping
        Name of a policy, and its settings.
    url : str
        Where jobs report to.
    round_seconds : float, optional
        In place of the policy's own.
    soon_seconds : float, optional
        A round also begins when something happened and so long has passed since the last one.
    clock : callable, optional
        Seconds since the epoch; by default the system's at the start, and steady from then on.

    Attributes
    ----------
    token : str
        That clients must show.
    state : LiveCluster

    Raises
    ------
    CopterError
        Another service has the folder.
    """

    def __init__(
        self,
        folder: Path,
        cluster: ClusterFile,
        backend: Backend,
        policy: str = "sia",
        *,
        settings: Mapping[str, Any] | None = None,
        url: str = "",
        round_seconds: float | None = None,
        soon_seconds: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._profiles = builtin_goodput_profiles() if cluster.pace is not None else {}
        for one in cluster.gpus:
            for application, profile in self._profiles.items():
                if one.type not in profile.models:
                    there = ", ".join(profile.models)
                    raise CopterError(
                        f"pace: {application} was not measured on {one.type!r}; only on: {there}"
                    )
        make_folder(folder)
        self.folder, self.file, self.backend, self.url = folder.resolve(), cluster, backend, url
        os.close(open_private(folder / "lock"))
        self._lock = lock_file(folder / "lock", f"{folder}: another service has this folder")
        self.token = first_content(folder / TOKEN, lambda: secrets.token_urlsafe(24))
        self.journal = LiveJournal(folder / JOURNAL)
        self._clock = clock or steady_clock()
        self.began = float(first_content(folder / "began", lambda: repr(self._clock())))
        self._policy, self._settings, self._round_seconds = policy, dict(settings or {}), round_seconds
        self.state = LiveCluster(cluster, "adaptive")
        self._soon = soon_seconds
        self._deciding = False
        self._deferred: list[Event] = []
        self._wake = asyncio.Event()
        self._threads = ThreadPoolExecutor(1, "backend")
        self._solver = ThreadPoolExecutor(1, "policy")
        self.silent = self.troubled = ""
        self._ticks_begun = self._ticks_ended = 0
        self._ticked, self._ticked_at = asyncio.Event(), time.monotonic()
        self._watched: dict[tuple[str, int], _Watched] = {}
        self._kept: deque[str] = deque()
        self._scaled: dict[str, int] = {}
        self._numbered = cluster.pace is None and not backend.picks_devices
        self.past = Past()
        self.metrics = ServiceMetrics()
        self.counts = {"completed": 0, "failed": 0, "cancelled": 0}
        self._recover()
        self._opened = self.now()
        self._open()

    def _open(self) -> None:
        """Begin with a fresh policy."""
        made = make_policy(self._policy, **self._settings)
        self.rounds = make_rounds(made, self.state, self._round_seconds)
        opened = Opened(
            time=self.now(),
            policy=self._policy,
            settings=self._settings,
            kind=made.kind,
            round_seconds=self._round_seconds,
            cluster=self.file.model_dump(mode="json"),
        )
        self._write(opened)

    # ---- state -----------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the service first began; never before what was last true."""
        return max(self._clock() - self.began, self.state.timer.time)

    def _recover(self) -> None:
        """Take in what the journal says."""
        timer, rounds = self.state.timer, (event for _, event in self.journal.events(kind="Decided"))
        asked = next(rounds, None)
        for number, event in self.journal.history():
            while isinstance(asked, Decided) and asked.seen < number:  # what came since then came after it
                timer.contention, timer.weight = asked.contention, asked.weight
                asked = next(rounds, None)
            self._take(event, learn=False)

    def _write(self, *events: Event, durable: bool = True) -> None:
        """Write events, and let them be true: at once, or when the policy has answered."""
        self.journal.add(*events, durable=durable)
        if self._deciding:
            self._deferred += events
        else:
            for event in events:
                self._apply(event)

    def _apply(self, event: Event) -> None:
        """Let an event be true that happens now."""
        self._take(event)
        if isinstance(event, Ended):
            self.metrics.ended(event.outcome)
        if isinstance(event, (Submitted, Closed, NodesChanged, Drained)):
            self._wake.set()

    def _take(self, event: Event, *, learn: bool = True) -> None:
        """Let an event be true, and remember what is shown of the past."""
        if isinstance(event, Ended):
            self.past.ends(event, self.state)
            self._watched.pop((event.job, event.number), None)
        self.state.apply(event, learn=learn)
        self.past.look(event.time, self.state)
        if isinstance(event, Closed):
            self.counts[event.ending] += 1
            self._kept.append(event.job)
        elif isinstance(event, Decided) and not event.error:
            self.past.rounds.append(event)

    def figures(self) -> str:
        """What monitoring reads, in Prometheus' text format."""
        return self.metrics.text(
            self.state, self.counts, silent=bool(self.silent), journal_bytes=self.journal.bytes
        )

    def note(self, text: str, job: str | None = None) -> None:
        """Write down something for people."""
        log.warning("%s%s", f"{job}: " if job else "", text)
        self.journal.add(Noted(time=self.now(), text=text, job=job), durable=False)

    # ---- what users ask for ----------------------------------------------------------------------

    def submit(self, file: JobFile) -> str:
        """Take a job; it is in the journal when this returns.

        Returns
        -------
        str
            Its name.

        Raises
        ------
        RefusedError
            There was a job of this name; too many are there; nothing here can run it.
        """
        name = file.name or self._new_name(file)
        if self.journal.knows(name):
            raise RefusedError(409, f"there is, or was, a job {name!r}: choose another name")
        if len(self.state.jobs) + len(self.pending()) >= self.file.max_jobs:
            raise RefusedError(503, f"{self.file.max_jobs} jobs are there, as many as this service takes")
        unknown = [type for type in file.types if type not in self.state.cluster.names]
        if unknown:
            raise RefusedError(
                422, f"types: no GPU type {unknown[0]!r}; there are: {list(self.state.cluster.names)}"
            )
        for option in file.options:
            if option not in self.backend.job_options:
                there = (
                    choices(option, self.backend.job_options) if self.backend.job_options else "it has none"
                )
                raise RefusedError(422, f"options: backend {self.backend.name!r} has no {option!r}: {there}")
        if self.file.pace is not None and file.elastic and file.application not in self._profiles:
            known = ", ".join(self._profiles)
            raise RefusedError(
                422, f"application: slots are paced, and {file.application!r} has no profile: {known}"
            )
        whole = self.file.cluster()
        job = LiveJob(file, name, self.state.timer, whole, self.rounds.policy.kind)
        if not can_run(self.rounds.policy, job, whole):
            raise RefusedError(
                422, "no configuration of this cluster can run it: see gpus, min_gpus and types"
            )
        if job.submission.reserved and not self._has_room(job, whole):
            raise RefusedError(
                422, "reserved: with those that are there it would not fit on the whole cluster"
            )
        self._write(Submitted(time=self.now(), job=name, file=file.model_dump(mode="json")))
        return name

    def _has_room(self, job: LiveJob, whole: Cluster) -> bool:
        """Whether a job fits beside all others that must have GPUs in every round, the largest first."""
        reserved = [one for one in self.state.jobs.values() if one.submission.reserved]
        free = whole.capacity
        needs = [
            (one.gpus or one.submission.min_gpus or 1, one.file.types or whole.names)
            for one in (*reserved, job)
        ]
        for gpus, types in sorted(needs, key=lambda need: (-need[0], len(need[1]))):
            fits = [type for type in types if free.get(type, 0) >= gpus]
            if not fits:
                return False
            free[max(fits, key=lambda type: free[type])] -= gpus
        return True

    def pending(self) -> list[Submitted]:
        """Jobs that were handed in while the policy is being asked, and not cancelled since."""
        closed = {event.job for event in self._deferred if isinstance(event, Closed)}
        return [event for event in self._deferred if isinstance(event, Submitted) and event.job not in closed]

    def _new_name(self, file: JobFile) -> str:
        base = (
            "".join(c for c in Path(file.command[0]).stem if c.isalnum() or c in "-_")[:40].lstrip("-_")
            or "job"
        )
        return f"{base}-{secrets.token_hex(4)}"

    def cancel(self, name: str) -> None:
        """End a job; its run is killed at the next tick.

        Raises
        ------
        RefusedError
            There is no such job, or it is over.
        """
        self._check_there(name)
        self._write(Closed(time=self.now(), job=name, ending="cancelled", reason="cancelled by its user"))

    def drain(self, type: str, node: int, *, back: bool = False) -> None:
        """Take a node out of use, or give it back.

        Raises
        ------
        RefusedError
            There is no such node.
        """
        if (type, node) not in {(one, number) for one, number, _ in self.state.nodes()}:
            raise RefusedError(404, f"there is no node {node} of type {type!r}")
        self._write(Drained(time=self.now(), type=type, node=node, back=back))

    def _check_there(self, name: str) -> None:
        """Raise if a job is over, or was never handed in."""
        if not self.journal.knows(name):
            raise RefusedError(404, f"there is no job {name!r}")
        deferred = {
            type(event) for event in self._deferred if isinstance(event, JobEvent) and event.job == name
        }
        if Closed in deferred or (name not in self.state.jobs and Submitted not in deferred):
            raise RefusedError(409, f"job {name!r} is over")

    # ---- what jobs say ---------------------------------------------------------------------------

    def run_token(self, job: str, number: int) -> str:
        """That a run must show to report."""
        return hmac.new(self.token.encode(), f"{job}.{number}".encode(), hashlib.sha256).hexdigest()

    def report(self, name: str, number: int, report: Report) -> Orders:
        """Take in what a run says.

        Raises
        ------
        RefusedError
            It is not its job's run any more: it is to end.
        """
        job = self.state.jobs.get(name)
        if job is None or job.run is None or job.run.number != number:
            raise RefusedError(410, f"run {number} of job {name!r} is over")
        now = self.now()
        self._write(Reported(time=now, job=name, number=number, report=report.as_dict()), durable=False)
        held = job.run.configuration
        self.past.hear(now, job, report, predicted=float(job.seen.curve(held)[0]))
        self.metrics.reported()
        batch = None
        if not self._deciding:  # a policy's thread may be fitting the same job
            chosen = job.batch(job.run.place)
            if chosen is not None and chosen != job.run.batch:
                batch = job.run.batch = chosen
        stop = not math.isnan(job.run.told)
        return Orders(self.file.lease_seconds, stop, batch)

    # ---- rounds ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled."""
        rounds = asyncio.create_task(self._all_rounds())
        try:
            while True:
                if rounds.done():
                    rounds.result()
                began = time.monotonic()
                await self.tick()
                if not self._deciding:
                    self.past.sample(self.now(), self.state)
                await asyncio.sleep(max(TICK_SECONDS - (time.monotonic() - began), 0.02))
        finally:
            rounds.cancel()

    def close(self) -> None:
        """Let go of everything; jobs go on.

        What was acknowledged is on disk before a policy or a backend that is still busy is waited for.
        """
        self.journal.close()
        self._solver.shutdown()
        self._threads.shutdown()
        self.backend.close()
        os.close(self._lock)

    async def _all_rounds(self) -> None:
        step = self.rounds.round_seconds
        while True:
            begin = self.now()
            if self.state.jobs:
                wakes = await self.round()
                await self._a_whole_tick()
            else:
                wakes = math.inf
            if step is not None:
                await self._until(begin, begin + step)
            else:
                self._wake_at(wakes)
                await self._wake.wait()
                await asyncio.sleep(SHORTEST_GAP)
                self._wake.clear()

    async def _a_whole_tick(self) -> None:
        """Wait until what was decided was looked at: a policy slower than its rounds is asked no sooner."""
        begun = self._ticks_begun
        while self._ticks_begun == begun or self._ticks_ended < self._ticks_begun:
            self._ticked.clear()
            await self._ticked.wait()

    def _wake_at(self, time: float) -> None:
        if math.isfinite(time):
            loop = asyncio.get_running_loop()
            loop.call_later(max(time - self.now(), 0.0), self._wake.set)

    async def _until(self, begin: float, end: float) -> None:
        """Wait for the next round, or, if that is wanted, until something happens."""
        while (now := self.now()) < end:
            if self._soon is None:
                await asyncio.sleep(end - now)
                continue
            try:
                await asyncio.wait_for(self._wake.wait(), end - now)
            except TimeoutError:
                continue
            if self.now() >= begin + self._soon:
                self._wake.clear()
                return
            await asyncio.sleep(begin + self._soon - self.now())

    async def round(self) -> float:
        """Ask the policy, and write down what it answers; returns when it wants to be asked again."""
        loop, began = asyncio.get_running_loop(), time.perf_counter()
        self.state.timer.time = asked = self.now()
        now = self.rounds.look()
        seen = self.journal.last
        self._deciding = True
        decision, error = None, ""
        try:
            decision = await loop.run_in_executor(self._solver, self.rounds.decide, now)
        except Exception as raised:  # whatever a policy raises; everybody keeps what he has
            log.exception("round %d", now.index)
            error = f"{type(raised).__name__}: {raised}"
        finally:
            self._deciding = False
            deferred, self._deferred = self._deferred, []
            for event in deferred:
                self._apply(event)
        self.troubled = error
        if decision is None:
            timer = self.state.timer
            self._write(
                Decided(
                    time=self.now(),
                    seen=seen,
                    asked=asked,
                    places={},
                    contention=timer.contention,
                    weight=timer.weight,
                    error=error,
                )
            )
            self.note(f"round {now.index}: {error}; a fresh policy takes over")
            self._open()  # what the one that raised knows, nobody knows
            return self.now() + AGAIN_SECONDS
        self.rounds.carry_out(decision)
        places, self.state.changes = self.state.changes, {}
        decided = Decided(
            time=self.now(),
            seen=seen,
            asked=asked,
            places=places,
            figures={key: float(value) for key, value in decision.figures.items() if math.isfinite(value)},
            policy_seconds=decision.policy_seconds,
            seconds=time.perf_counter() - began,
            sizes=self._allowed(now.sizes),
            contention=self.state.timer.contention,
            weight=self.state.timer.weight,
        )
        self._write(decided)
        self.metrics.decided(decided)
        step = self.rounds.round_seconds
        if step is not None and decided.seconds > step:
            self.note(f"round {now.index}: the answer came {decided.seconds - step:.2f} s late")
        return min(now.wakes, default=math.inf)

    def _allowed(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Numbers of nodes that a policy may have."""
        if not isinstance(self.backend, Scalable):
            return {}
        limits = {one.type: one.max_nodes or one.nodes for one in self.file.gpus}
        return {type: min(nodes, limits[type]) for type, nodes in sizes.items()}

    # ---- the tick --------------------------------------------------------------------------------

    async def _ask(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call the backend, in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    async def tick(self) -> None:
        """Look at the backend once, and do what is to be done."""
        self._ticks_begun += 1
        try:
            await self._scale()
            await self._look_at_nodes()
            await self._look_at_runs()
            await self._launch()
            await self._prune()
        except (BackendError, OSError, sqlite3.Error) as error:
            if self.silent != str(error):
                self.note(f"the backend does not answer: {error}")
            self.silent = str(error)
        else:
            if self.silent:
                self.note("the backend answers again")
            self.silent = ""
        finally:
            self._ticks_ended, self._ticked_at = self._ticks_begun, time.monotonic()
            self._ticked.set()

    @property
    def trouble(self) -> str:
        """Why the service does not do what it is there for; empty if it does."""
        if self.silent:
            return f"the backend does not answer: {self.silent}"
        if time.monotonic() - self._ticked_at > HANGING_SECONDS:
            return f"the backend has not answered for {HANGING_SECONDS:g} s"
        return f"the policy has no answer: {self.troubled}" if self.troubled else ""

    async def _scale(self) -> None:
        """Have the nodes that the policy asks for, where the backend can add some."""
        if not isinstance(self.backend, Scalable):
            return
        for one in self.file.gpus:
            nodes = sum(type == one.type for type, _, _ in self.state.nodes())
            if self._scaled.get(one.type, one.nodes) != nodes:
                hosts = [one.host(node) for node in range(nodes)]
                await self._ask(self.backend.set_hosts, one.type, hosts)
                self._scaled[one.type] = nodes

    async def _look_at_nodes(self) -> None:
        """Nodes that began to work, or ceased to."""
        reasons = await self._ask(self.backend.down)
        if self._deciding:
            return
        hosts = {self.state.host(type, node): (type, node) for type, node, _ in self.state.nodes()}
        down = tuple(sorted((*hosts[host], why) for host, why in reasons.items() if host in hosts))
        if {one[:2] for one in down} != set(self.state.failed):
            self._write(NodesChanged(time=self.now(), down=down))

    def _busy(self) -> set[str]:
        """Jobs of which something is written that is not true yet."""
        return {event.job for event in self._deferred if isinstance(event, JobEvent)}

    async def _look_at_runs(self) -> None:
        """Runs that ended, and those that are to."""
        asked = [(job, self._watch(job)) for job in self.state.running()]
        if not asked:
            return
        states = await self._ask(self.backend.states, [watched.run for _, watched in asked])
        for job, watched in asked:
            run, state = watched.run, states[watched.run.id]
            if state.waiting:
                watched.waited = self.now()
            active = job.run  # as it is now: other calls were waited for in between
            if active is None or active.number != run.number or job.name in self._busy():
                continue
            if state.outcome is not None:
                self._end(job, active, state)
                continue
            try:
                await self._end_if_wanted(job, active, watched)
            except UntrustedFileError as error:  # of this run's folder, and of no other
                watched.killed = watched.killed or str(error)
                await self._ask(self.backend.kill, run)

    async def _end_if_wanted(self, job: LiveJob, active: ActiveRun, watched: _Watched) -> None:
        """Kill a run that is to be killed, and tell one to end that is to run elsewhere."""
        run, why = watched.run, self._why_to_kill(job, active, watched)
        if why:
            if not watched.killed:
                watched.killed = why
                self.note(f"run {run.number} is killed: {why}", job.name)
            await self._ask(self.backend.kill, run)
        elif job.target != active.place and not watched.told:
            if math.isnan(active.told):
                self._write(Told(time=self.now(), job=job.name, number=run.number))
            await self._ask(self.backend.stop, run)
            watched.told = True  # otherwise it is told again

    def _why_to_kill(self, job: LiveJob, run: ActiveRun, watched: _Watched) -> str:
        """Why a run is to be killed; empty if it is not."""
        if self.state.jobs.get(job.name) is not job:
            return "its job is over"
        now = self.now()
        if now - run.told > self.file.grace_seconds:
            return f"it did not end within {self.file.grace_seconds:g} s of the notice"
        # Before it began, and while nobody listened, it could say nothing.
        heard = max(run.heard, self._opened, watched.waited)
        if job.file.elastic and now - heard > job.file.silence_seconds:
            return f"it said nothing for {job.file.silence_seconds:g} s"
        return ""

    def _end(self, job: LiveJob, run: ActiveRun, state: RunState) -> None:
        """A run ended: its job is complete, is given up, or is to be started again."""
        assert state.outcome is not None
        outcome, reason, killed = state.outcome, state.reason, self._watch(job).killed
        if killed and outcome in ("lost", "failed"):
            outcome, reason = "failed", killed
        ended = Ended(time=self.now(), job=job.name, number=run.number, outcome=outcome, reason=reason)
        if self.state.jobs.get(job.name) is not job:
            self._finish(ended)
        elif outcome == "completed":
            self._finish(ended, "completed")
        else:
            failures, losses = self.state.after(job, ended)
            if failures > job.file.retries:
                self._finish(ended, "failed", reason)
            elif losses > MOST_LOSSES:
                self._finish(ended, "failed", f"{losses} runs in a row came no further; the last: {reason}")
            else:
                self._finish(ended)

    def _finish(self, ended: Ended, ending: Ending | None = None, reason: str = "") -> None:
        """Write that a run ended and, with it, that its job is over."""
        if ending is None:
            self._write(ended)
        else:
            self._write(ended, Closed(time=ended.time, job=ended.job, ending=ending, reason=reason))

    async def _prune(self) -> None:
        """Remove the folders of jobs that have been over for long."""
        while len(self._kept) > self.file.keep_jobs and self._kept[0] not in self.state.leftover:
            gone = self._kept.popleft()
            self.past.forget(gone)
            await self._ask(_remove, self.folder / JOBS / gone)

    async def _launch(self) -> None:
        """Start jobs whose GPUs are free."""
        if self._deciding:
            return
        now, free, launched = self.now(), self.state.free(), list[tuple[LiveJob, Launched]]()
        for job in self.state.jobs.values():
            target = job.target
            if target is None or job.run is not None or now < job.retry_at:
                continue
            type, nodes = target
            if any(len(free.get((type, node), ())) < gpus for node, gpus in nodes):
                continue
            devices = []
            for node, gpus in nodes:
                there = free[type, node]
                devices.append(tuple(there[:gpus]))
                del there[:gpus]
            event = Launched(
                time=now,
                job=job.name,
                number=job.runs + 1,
                place=target,
                hosts=tuple(self.state.host(type, node) for node, _ in nodes),
                devices=tuple(devices),
            )
            launched.append((job, event))
        if not launched:
            return
        self._write(*(event for _, event in launched))
        for job, event in launched:
            await self._start(job, event)

    async def _start(self, job: LiveJob, event: Launched) -> None:
        """Have a run started that is in the journal."""
        active = job.run
        if active is None or active.number != event.number:
            return
        try:
            run = self._watch(job).run
            if job.file.elastic:
                active.batch = job.batch(event.place)
                run = replace(run, training=self._plan(job, active).as_dict())
            await self._ask(_begin, self.backend, run)
        except UntrustedFileError as error:
            if job.run is active and job.name not in self._busy():
                self._end(job, active, RunState("failed", f"cannot be started: {error}"))
        except BackendError as error:
            if not isinstance(error, RunRefusedError):
                # It is lost, if the backend does not know of it when it is asked.
                self.note(f"run {event.number} was not started: {error}", job.name)
                return
            self._give_up(job, active, str(error))
        except Exception as error:  # of this job, not of the service
            log.exception("job %s", job.name)
            self._give_up(job, active, f"cannot be started: {type(error).__name__}: {error}")

    def _give_up(self, job: LiveJob, run: ActiveRun, reason: str) -> None:
        """A run was not started, and none of its job ever will be."""
        there = self.state.jobs.get(job.name) is job and job.name not in self._busy()
        ended = Ended(time=self.now(), job=job.name, number=run.number, outcome="failed", reason=reason)
        self._finish(ended, "failed" if there else None, reason)

    def _watch(self, job: LiveJob) -> _Watched:
        """What is remembered of a job's present run."""
        active, file = job.run, job.file
        assert active is not None
        key = job.name, active.number
        if key not in self._watched:
            type, nodes = active.place
            home = self.folder / JOBS / job.name
            run = Run(
                job=job.name,
                number=active.number,
                command=file.command,
                directory=file.directory or str(home / "work"),
                folder=home / "runs" / str(active.number),
                type=type,
                hosts=active.hosts,
                gpus=tuple(gpus for _, gpus in nodes),
                devices=self._numbers(active) if self._numbered else (),
                once=not file.elastic,
                environment=file.environment,
                options=file.options,
            )
            self._watched[key] = _Watched(run)
        return self._watched[key]

    def _numbers(self, run: ActiveRun) -> tuple[tuple[int, ...], ...]:
        """GPUs of a run by their numbers on this machine, where all nodes of the file are."""
        first, at = dict[tuple[str, int], int](), 0
        for type, node, gpus in self.state.nodes():
            first[type, node], at = at, at + gpus
        type, nodes = run.place
        pairs = zip(nodes, run.devices, strict=True)
        return tuple(tuple(first.get((type, node), 0) + gpu for gpu in gpus) for (node, _), gpus in pairs)

    def _plan(self, job: LiveJob, run: ActiveRun) -> Plan:
        """What the processes of an elastic job are told."""
        file, type = job.file, run.place[0]
        assert file.work is not None and file.batch_size is not None and run.batch is not None
        pace = None
        if self.file.pace is not None:
            profile = self._profiles[file.application]
            pace = Pace(tuple(profile.models[type].parameters), self.file.pace.speed)
        return Plan(
            url=f"{self.url}/v1/runs/{job.name}/{run.number}",
            token=self.run_token(job.name, run.number),
            folder=str(self.folder / JOBS / job.name / "checkpoints"),
            number=run.number,
            work=file.work,
            initial_batch=file.batch_size,
            max_batch=file.max_batch_size or file.batch_size * LARGEST_FACTOR,
            batch=run.batch,
            rule=file.rule,
            checkpoint_seconds=file.checkpoint_seconds,
            report_seconds=min(file.report_seconds, self.file.lease_seconds / 3.0),
            lease_seconds=self.file.lease_seconds,
            pace=pace,
        )


def make_rounds(policy: Policy, state: LiveCluster, round_seconds: float | None) -> Rounds[LiveJob]:
    """Rounds of a policy on a live cluster, or on a recorded one.

    Parameters
    ----------
    round_seconds : float, optional
        In place of the policy's own.
    """
    return Rounds(
        policy, state, round_seconds=round_seconds, placer=placer_for(policy), estimator=ReportedSpeeds()
    )


def _begin(backend: Backend, run: Run) -> None:
    """Write a run's file, and start it; a folder that is there already is none that an agent begins in."""
    try:
        run.folder.parents[2].mkdir(mode=0o700, exist_ok=True)  # that of all jobs
        with blamed_on(run.folder):
            if os.path.lexists(run.folder):
                raise FileExistsError(errno.EEXIST, "is there already", str(run.folder))
            run.folder.mkdir(parents=True)
        if run.folder.is_relative_to(Path(run.directory).parent):  # the job's own
            with blamed_on(Path(run.directory)):
                Path(run.directory).mkdir(parents=True, exist_ok=True)
        run.write()
        backend.start(run)
    except UntrustedFileError:
        raise
    except OSError as error:
        raise BackendError(f"run {run.id}: {error}") from error


def _remove(folder: Path) -> None:
    """Remove a job's folder; what cannot be removed stays."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        log.warning("%s: is nested too deeply to be removed", folder)


def steady_clock() -> Callable[[], float]:
    """A clock that is right now, and goes on whatever is done to the system's."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset
