"""The history of a service for its page: a bounded part of its journal."""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import NamedTuple

from copter.live.cluster import LiveCluster
from copter.live.events import Decided, Ended
from copter.live.jobs import ActiveRun, LiveJob
from copter.live.journal import KEPT_ROUNDS
from copter.live.training.plan import TrainingReport

_KEPT_SPANS = 2000
"""Number of ended runs to keep, and of outages."""
_KEPT_REPORTS = 60
"""Number of reports to keep for each job."""
_KEPT_GOODPUTS = 2000
_SAMPLE_SECONDS = 5.0
"""Seconds between two samples of the whole cluster's goodput."""
_MEASURED_REPORTS = 5
"""Number of last reports of a run that determine its measured goodput."""


class Span(NamedTuple):
    """A run and its place."""

    job: str
    number: int
    type: str
    nodes: tuple[tuple[int, int], ...]
    devices: tuple[tuple[int, ...], ...]
    began: float
    ended: float | None
    outcome: str | None


def span_of(job: LiveJob, run: ActiveRun, ended: float | None = None, outcome: str | None = None) -> Span:
    """Return a run as it is shown; `ended` and `outcome` are None while it has not ended."""
    return Span(job.name, run.number, *run.place, run.devices, run.launched, ended, outcome)


class _Outage(NamedTuple):
    """An interval in which a node was not in use; it lasts until now if `ended` is None."""

    type: str
    node: int
    reason: str
    began: float
    ended: float | None


class _Goodput(NamedTuple):
    """Goodput of all running elastic jobs in initial batches per second, as predicted and as reported."""

    time: float
    predicted: float
    measured: float


class _Heard(NamedTuple):
    """A report of a job, and the goodput predicted at that time, in initial batches per second."""

    time: float
    progress: float
    predicted: float
    batch_size: int


class Past:
    """History of a service: rounds, ended runs (`spans`), reports by job (`heard`) and goodputs.

    `outcomes` counts the ended runs by outcome.
    """

    def __init__(self) -> None:
        self.rounds: deque[Decided] = deque(maxlen=KEPT_ROUNDS)
        self.spans: deque[Span] = deque(maxlen=_KEPT_SPANS)
        self.heard: dict[str, deque[_Heard]] = {}
        self.outcomes = Counter[str]()
        self.goodputs: deque[_Goodput] = deque(maxlen=_KEPT_GOODPUTS)
        self._outages: deque[_Outage] = deque(maxlen=_KEPT_SPANS)
        self._unusable: dict[tuple[str, int], _Outage] = {}

    def ends(self, event: Ended, job: LiveJob) -> None:
        """Keep the place of a run that is about to end."""
        run = job.run
        if run is not None and run.number == event.number:
            self.outcomes[event.outcome] += 1
            self.spans.append(span_of(job, run, event.time, event.outcome))

    def look(self, time: float, state: LiveCluster) -> None:
        """After an event, record which nodes are not in use."""
        unusable = state.unusable
        for node in [one for one in self._unusable if one not in unusable]:
            self._outages.append(self._unusable.pop(node)._replace(ended=time))
        for node, why in unusable.items():
            self._unusable.setdefault(node, _Outage(*node, why, time, None))

    def outages(self) -> list[_Outage]:
        """Return the intervals in which nodes were not in use; those that have ended come first."""
        return [*self._outages, *self._unusable.values()]

    def hear(self, time: float, job: LiveJob, report: TrainingReport, predicted: float) -> None:
        """Record a report."""
        heard = self.heard.setdefault(job.name, deque(maxlen=_KEPT_REPORTS))
        heard.append(_Heard(time, report.progress, predicted, report.batch_size))

    def drop(self, job: str) -> None:
        """Drop what is kept of a job."""
        self.heard.pop(job, None)

    def sample(self, time: float, state: LiveCluster) -> None:
        """Record the goodput of the whole cluster if the last sample is old."""
        if not self.goodputs or time >= self.goodputs[-1].time + _SAMPLE_SECONDS:
            self.goodputs.append(self.goodput(time, state))

    def goodput(self, time: float, state: LiveCluster) -> _Goodput:
        """Return the goodput of the whole cluster."""
        running = [job for job in state.jobs.values() if job.file.elastic and job.status == "running"]
        predicted = sum(job.predicted_goodput() for job in running)
        measured = [self.measured(job) for job in running]
        return _Goodput(time, predicted, sum(one for one in measured if not math.isnan(one)))

    def measured(self, job: LiveJob) -> float:
        """Return the progress per second over the present run's last reports; NaN with fewer than two.

        Only reports with the last batch size are used, if there are two of them.
        """
        if job.run is None:
            return math.nan
        heard = [one for one in self.heard.get(job.name, ()) if one.time > job.run.launched]
        heard = heard[-_MEASURED_REPORTS:]
        alike = [one for one in heard if one.batch_size == heard[-1].batch_size]
        used = alike if len(alike) > 1 else heard[-2:]
        if len(used) < 2 or used[-1].time <= used[0].time:
            return math.nan
        return (used[-1].progress - used[0].progress) / (used[-1].time - used[0].time)
