"""The journal of a service, and the state that follows from it: the only place where either is changed.

An event is in the journal before it is applied to the state.  A policy reads the state in a thread of its
own; events that come meanwhile are in the journal at once and are applied when the policy has answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    Submitted,
)
from copter.live.files import ClusterFile
from copter.live.journal import LiveJournal
from copter.live.metrics import ServiceMetrics
from copter.live.past import Past

_log = logging.getLogger("copter.live")


class ServiceRecord:
    """A journal, the state that its events make, and what the page and monitoring show of them.

    `clock` returns seconds since the epoch; the service first began when it returned `began`.  `over` counts
    the jobs that are over, by how they ended.  While a policy is `deciding`, events wait.  `changed` is set
    when a job arrives or ends, or a node changes.
    """

    def __init__(
        self, journal: LiveJournal, cluster: ClusterFile, clock: Callable[[], float], began: float
    ) -> None:
        self.journal, self.clock, self.began = journal, clock, began
        self.state = LiveCluster(cluster, "adaptive")
        self.past, self.metrics = Past(), ServiceMetrics()
        self.over = {"completed": 0, "failed": 0, "cancelled": 0}
        self.deciding = False
        self.changed = asyncio.Event()
        self._waiting: list[Event] = []
        self._kept: deque[str] = deque()
        self._recover()

    def now(self) -> float:
        """Return the seconds since the service first began; never less than the time of the last event."""
        return max(self.clock() - self.began, self.state.timer.time)

    def write(self, *events: Event, durable: bool = True) -> None:
        """Write events to the journal and apply them: at once, or when the policy has answered."""
        self.journal.add(*events, durable=durable)
        if self.deciding:
            self._waiting += events
        else:
            for event in events:
                self._apply(event)

    def note(self, text: str, job: str | None = None) -> None:
        """Write a remark for people to the journal and the log."""
        _log.warning("%s%s", f"{job}: " if job else "", text)
        self.journal.add(Noted(time=self.now(), text=text, job=job), durable=False)

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Let events wait, and apply them at the end."""
        self.deciding = True
        try:
            yield
        finally:
            self.deciding = False
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                self._apply(event)

    def pending(self) -> list[Submitted]:
        """Return the jobs whose submission waits, without those that were cancelled since."""
        closed = {event.job for event in self._waiting if isinstance(event, Closed)}
        return [event for event in self._waiting if isinstance(event, Submitted) and event.job not in closed]

    def busy(self) -> set[str]:
        """Return the jobs of which an event waits."""
        return {event.job for event in self._waiting if isinstance(event, JobEvent)}

    def is_over(self, job: str) -> bool:
        """Return whether a job that was submitted once is over."""
        waiting = {type(event) for event in self._waiting if isinstance(event, JobEvent) and event.job == job}
        return Closed in waiting or (job not in self.state.jobs and Submitted not in waiting)

    def expired(self, keep: int) -> str | None:
        """Return the job that has been over for longest, and forget it; None if no more than `keep` are over.

        A job whose run has not ended is kept, and all that ended after it.
        """
        if len(self._kept) <= keep or self._kept[0] in self.state.leftover:
            return None
        gone = self._kept.popleft()
        self.past.forget(gone)
        return gone

    def _recover(self) -> None:
        timer, rounds = self.state.timer, (event for _, event in self.journal.events(kind="Decided"))
        asked = next(rounds, None)
        for number, event in self.journal.history():
            while isinstance(asked, Decided) and asked.seen < number:  # the timer as of that round
                timer.contention, timer.weight = asked.contention, asked.weight
                asked = next(rounds, None)
            self._take(event, learn=False)

    def _apply(self, event: Event) -> None:
        self._take(event)
        if isinstance(event, Ended):
            self.metrics.ended(event.outcome)
        if isinstance(event, (Submitted, Closed, NodesChanged, Drained)):
            self.changed.set()

    def _take(self, event: Event, *, learn: bool = True) -> None:
        """Apply an event of now or of the journal, and keep what is shown of the past."""
        if isinstance(event, Ended):
            self.past.ends(event, self.state)
        self.state.apply(event, learn=learn)
        self.past.look(event.time, self.state)
        if isinstance(event, Closed):
            self.over[event.ending] += 1
            self._kept.append(event.job)
        elif isinstance(event, Decided) and not event.error:
            self.past.rounds.append(event)
