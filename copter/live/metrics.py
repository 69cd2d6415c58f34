"""Metrics of a service for monitoring, in Prometheus' text format.

The number of series is bounded: labels are statuses, GPU types, outcomes and names of tokens, and no job has
its own series.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from copter.extras import extra

with extra("live"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
    from prometheus_client.core import CounterMetricFamily
    from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from copter.live.cluster import LiveCluster
    from copter.live.events import Decided

_SECONDS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_STATUSES = ("queued", "starting", "running", "stopping")


class ServiceMetrics(Collector):
    """Counters, gauges and histograms of a service.

    ================================== ========= =======================================================
    copter_live_jobs                   gauge     jobs that have not ended, by ``status``
    copter_live_jobs_over_total        counter   jobs that have ended, by ``ending``
    copter_live_gpu_seconds_total      counter   GPUs of ended runs times their seconds, by ``owner``
    copter_live_gpus                   gauge     GPUs in use by ``type`` and ``state``: there, given, busy
    copter_live_nodes_unusable         gauge     nodes that do not work or are drained, by ``type``
    copter_live_rounds_total           counter   rounds
    copter_live_round_seconds          histogram seconds from the call of the policy to its decision in the
    journal
    copter_live_round_gap              gauge     certified gap of the last round's program, if it has one
    copter_live_goodput                gauge     predicted, of all running jobs, in initial batches per second
    copter_live_reports_total          counter   reports of jobs
    copter_live_runs_ended_total       counter   runs that ended, by ``outcome``
    copter_live_backend_silent         gauge     1 while the backend does not answer
    copter_live_journal_bytes          gauge     size of the journal
    ================================== ========= =======================================================
    """

    def __init__(self) -> None:
        at = self._registry = CollectorRegistry()
        self._jobs = Gauge("copter_live_jobs", "Jobs that have not ended", ["status"], registry=at)
        self._over: dict[str, int] = {}
        self._gpu_seconds: dict[str, float] = {}
        at.register(self)
        self._gpus = Gauge("copter_live_gpus", "GPUs", ["type", "state"], registry=at)
        self._unusable = Gauge("copter_live_nodes_unusable", "Nodes not in use", ["type"], registry=at)
        self._rounds = Histogram(
            "copter_live_round_seconds", "Seconds of a round", buckets=_SECONDS, registry=at
        )
        self._asked = Counter("copter_live_rounds", "Rounds", registry=at)
        self._gap = Gauge("copter_live_round_gap", "Certified gap of the last round", registry=at)
        self._goodput = Gauge("copter_live_goodput", "Predicted goodput of all running jobs", registry=at)
        self._reports = Counter("copter_live_reports", "Reports of jobs", registry=at)
        self._ended = Counter("copter_live_runs_ended", "Runs that ended", ["outcome"], registry=at)
        self._silent = Gauge("copter_live_backend_silent", "1 if the backend does not answer", registry=at)
        self._bytes = Gauge("copter_live_journal_bytes", "Bytes of the journal", registry=at)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that the journal counts, for the client library of Prometheus."""
        family = CounterMetricFamily("copter_live_jobs_over", "Jobs that have ended", labels=["ending"])
        for ending, count in self._over.items():
            family.add_metric([ending], count)
        yield family
        family = CounterMetricFamily(
            "copter_live_gpu_seconds", "GPUs of ended runs times their seconds", labels=["owner"]
        )
        for owner, seconds in self._gpu_seconds.items():
            family.add_metric([owner], seconds)
        yield family

    def decided(self, round: Decided) -> None:
        """Count a round."""
        self._asked.inc()
        self._rounds.observe(round.seconds)
        if "gap" in round.figures:
            self._gap.set(round.figures["gap"])

    def reported(self) -> None:
        """Count a report."""
        self._reports.inc()

    def ended(self, outcome: str) -> None:
        """Count a run that ended."""
        self._ended.labels(outcome).inc()

    def text(
        self,
        state: LiveCluster,
        over: Mapping[str, int],
        gpu_seconds: Mapping[str, float],
        *,
        silent: bool,
        journal_bytes: int,
    ) -> str:
        """Return all metrics at this moment.

        `over` counts the ended jobs by their ending, and `gpu_seconds` has those of ended runs by owner.
        """
        statuses = Counts[str](job.status for job in state.jobs.values())
        for status in _STATUSES:
            self._jobs.labels(status).set(statuses[status])
        self._over, self._gpu_seconds = dict(over), dict(gpu_seconds)
        capacity, given = state.cluster.capacity, state.given()
        busy = Counts[str]()
        for job in state.running():
            assert job.run is not None
            busy[job.run.place[0]] += sum(gpus for _, gpus in job.run.place[1])
        for type, gpus in capacity.items():
            for what, count in (("there", gpus), ("given", given[type]), ("busy", busy[type])):
                self._gpus.labels(type, what).set(count)
            self._unusable.labels(type).set(sum(one == type for one, _ in state.unusable))
        running = (job for job in state.jobs.values() if job.file.elastic and job.status == "running")
        self._goodput.set(sum(job.predicted_goodput() for job in running))
        self._silent.set(silent)
        self._bytes.set(journal_bytes)
        return generate_latest(self._registry).decode()
