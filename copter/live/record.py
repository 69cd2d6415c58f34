"""The journal of a service and the state that follows from it; only this module changes them.

An event is in the journal before it is applied to the state.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from copter.live import ENDINGS
from copter.live.cluster import LiveCluster
from copter.live.events import (
    Closed,
    Decided,
    Drained,
    Ended,
    Event,
    JobEvent,
    NodesChanged,
    Noted,
    Opened,
    Reported,
    Submitted,
    Told,
)
from copter.live.files import ClusterFile
from copter.live.journal import LiveJournal
from copter.live.metrics import ServiceMetrics

_log = logging.getLogger("copter.live")

_CHANGES = (Submitted, Closed, NodesChanged, Drained)
"""Events after which a policy may decide differently."""
_KEPT_NOTES = 100
_NOTED_SECONDS = 1.0
"""If the clock was set back by at least this many seconds, there is a note."""


class ServiceRecord:
    """The journal of a service and its state, with metrics for monitoring.

    `clock` returns seconds since the epoch; the service first began when it returned `began`.  If the clock
    was set back while no service ran, times continue from the last event, and then grow with `clock`.

    `changed` is set when a job arrives or ends or a node changes.  `changes` counts these events, and rounds
    that changed places.  `notes` has the last notes since the start of the service.
    `trouble` is the reason why the journal could not be written at the last attempt; empty if it could.
    """

    def __init__(self, journal: LiveJournal, cluster: ClusterFile, clock: Callable[[], float]) -> None:
        self.journal, self.clock, self.began = journal, clock, clock()
        self.state = LiveCluster(cluster, "adaptive")
        self.metrics, self.notes = ServiceMetrics(), deque[Noted](maxlen=_KEPT_NOTES)
        self.trouble = ""
        self.changed, self.changes = asyncio.Event(), 0
        self._offset = 0.0
        self._recover()

    def now(self) -> float:
        """Return the seconds since the service first began, to which the timer of the state is set.

        The result is never less than the time of the last event.
        """
        timer = self.state.timer
        timer.time = max(self.clock() - self.began + self._offset, timer.time)
        return timer.time

    def write(self, *events: Event, durable: bool = True) -> None:
        """Write events to the journal and apply them.

        If a job ends without being completed, the events that cancel its dependents are written as well.
        Raises sqlite3.Error if the events cannot be written, for example because the disk is full.  Then they
        have no effect.
        """
        events = (*events, *self._cancelled_with(events))
        with self._writing():
            self.journal.add(*events, durable=durable)
        if durable:
            self.trouble = ""
        for event in events:
            self._apply(event)

    def _cancelled_with(self, events: Iterable[Event]) -> list[Closed]:
        """Return the cancellations of the jobs that wait for jobs which some events end."""
        causes = [event for event in events if isinstance(event, Closed) and event.ending != "completed"]
        closed, found = {event.job for event in events if isinstance(event, Closed)}, []
        for cause in causes:  # the list grows
            for job in self.state.dependents.get(cause.job, ()):
                if job not in closed:
                    closed.add(job)
                    reason = f"it was to start after {cause.job!r}, which {ENDINGS[cause.ending]}"
                    found.append(replace(cause, job=job, ending="cancelled", reason=reason))
                    causes.append(found[-1])
        return found

    def note(self, text: str, job: str | None = None) -> None:
        """Write a remark for users to the journal and the log."""
        _log.warning("%s%s", f"{job}: " if job else "", text)
        self.notes.append(Noted(time=self.now(), text=text, job=job))
        self.journal.add(self.notes[-1], durable=False)

    def try_again(self) -> None:
        """If the journal could not be written, write the events that wait in memory, with a note."""
        if not self.trouble:
            return
        note = Noted(time=self.now(), text=f"the journal is written again; before: {self.trouble}")
        with suppress(sqlite3.Error):
            self.write(note)
            _log.warning("the journal is written again")
            self.changed.set()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Keep the reason if the journal cannot be written, and log it the first time."""
        try:
            yield
        except sqlite3.Error as error:
            if not self.trouble:
                _log.error("the journal cannot be written: %s", error)
            self.trouble = f"the journal cannot be written: {error}"
            raise

    def oldest(self, keep: int) -> str | None:
        """Return the job that ended first; None if at most `keep` jobs have ended, or if its run goes on."""
        first = next(iter(self.state.ended), None) if len(self.state.ended) > keep else None
        return None if first in self.state.leftover else first

    def drop_oldest(self) -> None:
        """Drop the job that ended first; it still counts in the sums of jobs and GPU seconds by owner."""
        name, job = next(iter(self.state.ended.items()))
        assert job.closed is not None
        with self._writing():
            self.journal.drop(name, job.owner, job.closed.ending, job.ended_gpu_seconds)
        del self.state.ended[name]

    def _recover(self) -> None:
        """Recover the state from the journal; times continue from the last event if the clock is behind."""
        self.journal.check()
        for number, event in self.journal.history():
            with self.journal.applying(number, event):
                self._check_order(number, event)
                self._apply(event, learn=False)
                if isinstance(event, Opened):
                    self.began = event.began
        for owner, ending, jobs, gpu_seconds in self.journal.dropped():
            self.state.over[owner, ending] += jobs
            self.state.gpu_seconds[owner] += gpu_seconds
        self.state.timer.time = max(self.state.timer.time, self.journal.last_time())
        behind = self.state.timer.time - (self.clock() - self.began)
        self._offset = max(behind, 0.0)
        if behind > _NOTED_SECONDS:
            self.note(
                f"the clock was set back by at least {behind:.0f} s while the service was down; "
                "times continue from the last event"
            )

    def _check_order(self, number: int, event: Event) -> None:
        """Raise ValueError if an event comes before the event that it needs."""
        if number == 1 and not isinstance(event, Opened):
            raise ValueError("must be the start of a service")
        if not isinstance(event, JobEvent) or isinstance(event, Submitted):
            return
        job = self.state.find(event.job)
        if job is None:
            raise ValueError(f"job {event.job!r} was not submitted before")
        if isinstance(event, Told | Ended | Reported) and event.number > job.runs:
            raise ValueError(f"run {event.number} of job {event.job!r} was not launched before")

    def _apply(self, event: Event, *, learn: bool = True) -> None:
        """Apply an event to the state; see :meth:`LiveCluster.apply` for `learn`."""
        self.state.apply(event, learn=learn)
        if isinstance(event, _CHANGES):
            self.changed.set()
        self.changes += isinstance(event, _CHANGES) or (isinstance(event, Decided) and bool(event.places))
