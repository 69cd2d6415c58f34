"""The journal of a service and the state that follows from it; both are changed only here.

An event is in the journal before it is applied to the state.  A policy reads the state in its own thread.
Events that arrive in the meantime are written to the journal at once, and applied when the policy has
returned.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace

from copter.live.cluster import LiveCluster
from copter.live.events import (
    Begun,
    Closed,
    Decided,
    Drained,
    Ended,
    Ending,
    Event,
    JobEvent,
    NodesChanged,
    Noted,
    Reported,
    Submitted,
    Told,
)
from copter.live.files import ClusterFile
from copter.live.journal import LiveJournal
from copter.live.metrics import ServiceMetrics
from copter.live.past import Past

_log = logging.getLogger("copter.live")


HOW: Mapping[Ending, str] = {"completed": "completed", "failed": "failed", "cancelled": "was cancelled"}
"""Words for the endings of jobs."""
_CHANGES = (Submitted, Closed, NodesChanged, Drained)
"""Events after which a policy may decide otherwise."""
_NOTED_SECONDS = 1.0
"""Least number of seconds by which the clock was set back for a note."""


class ServiceRecord:
    """The journal of a service, its state, and the history and metrics for the page and monitoring.

    `clock` returns seconds since the epoch; the service first began when it returned `began`.  If the clock
    was set back while no service ran, times continue from the last event, and then grow with `clock`.

    `over` counts the ended jobs by owner and ending, and `gpu_seconds` has the GPUs of the runs that have
    ended times their seconds, by owner; both include the jobs that were dropped.  While a policy is
    `deciding`, events wait.  `changed` is set when a job arrives or ends or a node changes.  `changes` counts
    these events, and rounds that changed places.  `trouble` is the reason why the journal could not be
    written at the last attempt; empty if it could.
    """

    def __init__(
        self, journal: LiveJournal, cluster: ClusterFile, clock: Callable[[], float], began: float
    ) -> None:
        self.journal, self.clock, self.began = journal, clock, began
        self.state = LiveCluster(cluster, "adaptive")
        self.past, self.metrics = Past(), ServiceMetrics()
        self.over = Counter[tuple[str, str]]()
        self.gpu_seconds = defaultdict[str, float](float)
        self.deciding, self.trouble = False, ""
        self.changed, self.changes = asyncio.Event(), 0
        self._waiting: list[Event] = []
        self._waiting_kinds: dict[str, set[type[Event]]] = {}
        self._kept: deque[str] = deque()
        self._offset = 0.0
        self._recover()
        self._continue_times()

    def now(self) -> float:
        """Return the seconds since the service first began; never less than the time of the last event."""
        return max(self.clock() - self.began + self._offset, self.state.timer.time)

    def write(self, *events: Event, durable: bool = True) -> None:
        """Write events to the journal and apply them at once, or after the policy has returned.

        If a job ends otherwise than completed, the events that cancel its dependents are written with it.
        Raises sqlite3.Error if they cannot be written, because the disk is full for example.  Then they have
        no effect.
        """
        events = (*events, *self._cancelled_with(events))
        try:
            self.journal.add(*events, durable=durable)
        except sqlite3.Error as error:
            self._cannot_write(error)
            raise
        if durable:
            self.trouble = ""
        if self.deciding:
            self._defer(events)
        else:
            for event in events:
                self._apply(event)

    def _defer(self, events: Iterable[Event]) -> None:
        """Let events wait until the policy has returned."""
        for event in events:
            self._waiting.append(event)
            if isinstance(event, JobEvent):
                self._waiting_kinds.setdefault(event.job, set()).add(type(event))

    def _cancelled_with(self, events: Iterable[Event]) -> list[Closed]:
        """Return the ends of the jobs that were to start after jobs that end in some events."""
        causes = [event for event in events if isinstance(event, Closed) and event.ending != "completed"]
        if not causes:
            return []
        pending: dict[str, list[str]] = {}
        for event in self.pending():
            for cause in event.file["after"]:
                pending.setdefault(cause, []).append(event.job)
        closed = self.closing() | {event.job for event in events if isinstance(event, Closed)}
        found = []
        for cause in causes:  # the list grows
            for job in (*self.state.dependents.get(cause.job, ()), *pending.get(cause.job, ())):
                if job in closed:
                    continue
                closed.add(job)
                reason = f"it was to start after {cause.job!r}, which {HOW[cause.ending]}"
                found.append(replace(cause, job=job, ending="cancelled", reason=reason))
                causes.append(found[-1])
        return found

    def note(self, text: str, job: str | None = None) -> None:
        """Write a remark for users to the journal and the log."""
        _log.warning("%s%s", f"{job}: " if job else "", text)
        self.journal.add(Noted(time=self.now(), text=text, job=job), durable=False)

    def try_again(self) -> None:
        """If the journal could not be written, write what waits in memory, with a note."""
        if not self.trouble:
            return
        note = Noted(time=self.now(), text=f"the journal is written again; before: {self.trouble}")
        try:
            self.journal.add(note)
        except sqlite3.Error as error:
            self._cannot_write(error)
        else:
            _log.warning("the journal is written again")
            self.trouble = ""
            self.changed.set()

    def _cannot_write(self, error: sqlite3.Error) -> None:
        if not self.trouble:
            _log.error("the journal cannot be written: %s", error)
        self.trouble = f"the journal cannot be written: {error}"

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Defer the application of events to the end of the context."""
        self.deciding = True
        try:
            yield
        finally:
            self.deciding = False
            waiting, self._waiting = self._waiting, []
            self._waiting_kinds = {}
            for event in waiting:
                self._apply(event)

    def pending(self) -> list[Submitted]:
        """Return the submissions that wait, without jobs that were cancelled in the meantime."""
        closed = self.closing()
        return [event for event in self._waiting if isinstance(event, Submitted) and event.job not in closed]

    def closing(self) -> set[str]:
        """Return the jobs whose end waits."""
        return {job for job, kinds in self._waiting_kinds.items() if Closed in kinds}

    def waiting_of(self, job: str) -> Set[type[Event]]:
        """Return the kinds of the waiting events of a job."""
        return self._waiting_kinds.get(job, frozenset())

    def ending_of(self, job: str) -> Closed | None:
        """Return the waiting event of the end of a job; None without one."""
        if Closed not in self.waiting_of(job):
            return None
        return next(event for event in self._waiting if isinstance(event, Closed) and event.job == job)

    @property
    def drained(self) -> set[tuple[str, int]]:
        """Type and number of the nodes that a user has taken out of use, also if the event of that waits."""
        drained = set(self.state.drained)
        for event in self._waiting:
            if isinstance(event, Drained):
                (drained.discard if event.back else drained.add)((event.type, event.node))
        return drained

    def leaving(self) -> set[tuple[str, int]]:
        """Return type and number of the nodes that waiting events take out of use."""
        return {
            (event.type, event.node)
            for event in self._waiting
            if isinstance(event, Drained) and not event.back
        }

    def busy(self) -> Set[str]:
        """Return the names of the jobs that have a waiting event."""
        return self._waiting_kinds.keys()

    def is_over(self, job: str) -> bool:
        """Return whether a job that was once submitted has ended."""
        waiting = self.waiting_of(job)
        return Closed in waiting or (job not in self.state.jobs and Submitted not in waiting)

    def ending(self, job: str) -> Ending:
        """Return how a job ended."""
        ending = self.journal.ending(job)
        assert ending is not None
        return ending

    def oldest(self, keep: int) -> str | None:
        """Return the job that ended first; None if at most `keep` jobs have ended, or its run has not."""
        return self._kept[0] if len(self._kept) > keep and self._kept[0] not in self.state.leftover else None

    def drop_oldest(self) -> None:
        """Drop the events of the job that ended first; its number and GPU seconds stay as sums by owner."""
        gone = self._kept[0]
        try:
            self.journal.drop(gone)
        except sqlite3.Error as error:
            self._cannot_write(error)
            raise
        self._kept.popleft()
        self.past.drop(gone)

    def endings(self) -> dict[str, int]:
        """Return the number of ended jobs by their ending."""
        counts: dict[str, int] = dict.fromkeys(HOW, 0)
        for (_, ending), jobs in self.over.items():
            counts[ending] = counts.get(ending, 0) + jobs
        return counts

    def _recover(self) -> None:
        """Recover the state from the journal, without reading the events of each job that has ended."""
        journal, state, timer = self.journal, self.state, self.state.timer
        journal.check()
        for number, event in journal.history(journal.unfinished()):
            with journal.applying(number, event):
                self._check_order(event)
                if isinstance(event, Submitted):  # only a submission reads these sums
                    timer.contention, timer.weight = journal.crowd(number) or (0.0, 0.0)
                state.apply(event, learn=False)
                self.past.look(event.time, state)
        for live in state.eligible.values():
            for name in live.file.after:  # the events of these jobs were not read
                closed = journal.last_of("Closed", name)
                if closed is not None:  # otherwise it was dropped, long after its end
                    live.eligible_since = max(live.eligible_since, closed.time)
        timer.time = max(timer.time, journal.last_time())
        timer.contention, timer.weight = journal.crowd(journal.last + 1) or (0.0, 0.0)
        for owner, ending, jobs, gpu_seconds in journal.dropped():
            self.over[owner, ending] += jobs
            self.gpu_seconds[owner] += gpu_seconds
        for owner, gpu_seconds in journal.gpu_seconds().items():
            self.gpu_seconds[owner] += gpu_seconds
        for job, owner, ending in journal.endings():
            self.over[owner, ending] += 1
            self._kept.append(job)
        self.past.recover(journal)

    def _check_order(self, event: Event) -> None:
        """Raise ValueError if an event of a job comes before the event that it needs."""
        if not isinstance(event, JobEvent) or isinstance(event, Submitted):
            return
        job = self.state.jobs.get(event.job) or self.state.leftover.get(event.job)
        if job is None:
            raise ValueError(f"job {event.job!r} was not submitted before")
        elif isinstance(event, Begun | Told | Ended | Reported) and event.number > job.runs:
            raise ValueError(f"run {event.number} of job {event.job!r} was not launched before")

    def _continue_times(self) -> None:
        """Make times continue from the last event if the clock is behind it."""
        behind = max(self.state.timer.time, self.journal.last_time()) - (self.clock() - self.began)
        if behind > 0:
            self._offset = behind
        if behind > _NOTED_SECONDS:
            self.note(
                f"the clock was set back by at least {behind:.0f} s while the service was down; "
                "times continue from the last event"
            )

    def _apply(self, event: Event) -> None:
        owner = self._owner(event)
        if isinstance(event, Ended):
            self.past.ends(event, self.state)
            self.gpu_seconds[owner] += event.gpu_seconds
        self.state.apply(event)
        self.past.look(event.time, self.state)
        if isinstance(event, Closed):
            self.over[owner, event.ending] += 1
            self._kept.append(event.job)
        elif isinstance(event, Decided) and not event.error:
            self.past.rounds.append(event)
        if isinstance(event, Ended):
            self.metrics.ended(event.outcome)
        if isinstance(event, _CHANGES):
            self.changed.set()
            self.changes += 1
        elif isinstance(event, Decided) and event.places:
            self.changes += 1

    def _owner(self, event: Event) -> str:
        """Return the owner of the job of an event that is about to be applied; empty without such a job."""
        if not isinstance(event, Ended | Closed):
            return ""
        job = self.state.jobs.get(event.job) or self.state.leftover.get(event.job)
        return "" if job is None else job.owner
