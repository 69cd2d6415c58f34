"""What a service remembers of the past for its page: a bounded part of what its journal has."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

from copter.live.cluster import LiveCluster
from copter.live.events import Decided, Ended
from copter.live.jobs import LiveJob
from copter.live.training.plan import Report

KEPT_ROUNDS = 2000
KEPT_SPANS = 2000
"""Runs that ended; outages, too."""
KEPT_REPORTS = 60
"""Of each job."""
KEPT_GOODPUTS = 2000
SAMPLE_SECONDS = 5.0
"""Between two samples of the whole cluster's goodput."""
MEASURED_REPORTS = 5
"""Of a job's present run, the last ones: what its goodput is measured by."""


class Span(NamedTuple):
    """A run that ended, and where it was."""

    job: str
    number: int
    type: str
    nodes: tuple[tuple[int, int], ...]
    devices: tuple[tuple[int, ...], ...]
    began: float
    ended: float
    outcome: str


class Outage(NamedTuple):
    """When a node was not in use, and why; until now if `ended` is None."""

    type: str
    node: int
    reason: str
    began: float
    ended: float | None


class Goodput(NamedTuple):
    """Of all elastic jobs that run: initial batches a second, as predicted and as they report it."""

    time: float
    predicted: float
    measured: float


class Heard(NamedTuple):
    """What a job reported, and the goodput that was predicted of it then: initial batches a second."""

    time: float
    progress: float
    predicted: float
    batch_size: int


class Past:
    """The past of a service.

    Attributes
    ----------
    rounds : deque of Decided
    spans : deque of Span
    heard : dict of str to deque of Heard
        By job; until its folder goes.
    over : dict of str to dict
        Jobs that are over, as they are shown: they do not change any more.
    goodputs : deque of Goodput
    """

    def __init__(self) -> None:
        self.rounds: deque[Decided] = deque(maxlen=KEPT_ROUNDS)
        self.spans: deque[Span] = deque(maxlen=KEPT_SPANS)
        self.heard: dict[str, deque[Heard]] = {}
        self.over: dict[str, dict[str, Any]] = {}
        self.goodputs: deque[Goodput] = deque(maxlen=KEPT_GOODPUTS)
        self._outages: deque[Outage] = deque(maxlen=KEPT_SPANS)
        self._unusable: dict[tuple[str, int], Outage] = {}

    def ends(self, event: Ended, state: LiveCluster) -> None:
        """A run is about to end: remember where it was."""
        job = state.jobs.get(event.job) or state.leftover.get(event.job)
        if job is not None and job.run is not None and job.run.number == event.number:
            run = job.run
            self.spans.append(
                Span(job.name, event.number, *run.place, run.devices, run.launched, event.time, event.outcome)
            )

    def look(self, time: float, state: LiveCluster) -> None:
        """Something has happened: remember which nodes are not in use."""
        unusable = state.unusable
        for node in [one for one in self._unusable if one not in unusable]:
            self._outages.append(self._unusable.pop(node)._replace(ended=time))
        for node, why in unusable.items():
            self._unusable.setdefault(node, Outage(*node, why, time, None))

    def outages(self) -> list[Outage]:
        """When nodes were not in use: first what is past, then what is."""
        return [*self._outages, *self._unusable.values()]

    def hear(self, time: float, job: LiveJob, report: Report, predicted: float) -> None:
        """A job reports."""
        heard = self.heard.setdefault(job.name, deque(maxlen=KEPT_REPORTS))
        heard.append(Heard(time, report.progress, predicted, report.batch_size))

    def forget(self, job: str) -> None:
        """The folder of a job goes."""
        self.heard.pop(job, None)

    def sample(self, time: float, state: LiveCluster) -> None:
        """Remember the goodput of the whole cluster, now and then."""
        if not self.goodputs or time >= self.goodputs[-1].time + SAMPLE_SECONDS:
            self.goodputs.append(self.goodput(time, state))

    def goodput(self, time: float, state: LiveCluster) -> Goodput:
        """Of the whole cluster, now."""
        running = [job for job in state.jobs.values() if job.file.elastic and job.status == "running"]
        predicted = sum(job.predicted_goodput() for job in running)
        measured = [self.measured(job) for job in running]
        return Goodput(time, predicted, sum(one for one in measured if not math.isnan(one)))

    def measured(self, job: LiveJob) -> float:
        """Progress a second by the last reports of its present run; NaN before there are two.

        They are of one batch size, as soon as two are.
        """
        if job.run is None:
            return math.nan
        heard = [one for one in self.heard.get(job.name, ()) if one.time > job.run.launched]
        heard = heard[-MEASURED_REPORTS:]
        alike = [one for one in heard if one.batch_size == heard[-1].batch_size]
        used = alike if len(alike) > 1 else heard[-2:]
        if len(used) < 2 or used[-1].time <= used[0].time:
            return math.nan
        return (used[-1].progress - used[0].progress) / (used[-1].time - used[0].time)
