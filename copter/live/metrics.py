"""Metrics of a service for monitoring, in Prometheus' text format.

The number of series is bounded: labels are statuses, GPU types, outcomes and names of tokens, and no job has
its own series.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from copter.extras import extra

with extra("live"):
    from prometheus_client import Histogram, Metric, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from copter.live.record import ServiceRecord

_SECONDS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_STATUSES = ("queued", "starting", "running", "stopping")


class ServiceMetrics:
    """Metrics of a service; `rounds` are observed since its start, all other metrics follow from its record.

    ================================== ========= =======================================================
    copter_live_jobs                   gauge     jobs that have not ended, by ``status``
    copter_live_jobs_over_total        counter   jobs that have ended, by ``ending``
    copter_live_gpu_seconds_total      counter   GPUs of ended runs times their seconds, by ``owner``
    copter_live_gpus                   gauge     GPUs in use by ``type`` and ``state``: there, given, busy
    copter_live_nodes_unusable         gauge     nodes that do not work or are drained, by ``type``
    copter_live_round_seconds          histogram seconds from a call of the policy to its written decision
    copter_live_round_gap              gauge     certified gap of the last round's program, if it has one
    copter_live_goodput                gauge     predicted, of all running jobs, in initial batches per second
    copter_live_runs_ended_total       counter   runs that ended, by ``outcome``
    copter_live_backend_silent         gauge     1 while the backend does not answer
    copter_live_journal_bytes          gauge     size of the journal
    ================================== ========= =======================================================
    """

    def __init__(self) -> None:
        self.rounds = Histogram(
            "copter_live_round_seconds", "Seconds of a round", buckets=_SECONDS, registry=None
        )

    def text(self, record: ServiceRecord, *, silent: bool) -> str:
        """Return all metrics at this moment."""
        now: Any = SimpleNamespace(collect=lambda: (*self.rounds.collect(), *_families(record, silent)))
        return generate_latest(now).decode()


def _families(record: ServiceRecord, silent: bool) -> Iterator[Metric]:
    state, last = record.state, record.state.last_round
    statuses = Counts[str](job.status for job in state.jobs.values())
    yield _gauge("jobs", "Jobs that have not ended", {(one,): statuses[one] for one in _STATUSES}, "status")
    yield _counter("jobs_over", "Jobs that have ended", state.endings(), "ending")
    yield _counter("gpu_seconds", "GPUs of ended runs times their seconds", state.gpu_seconds, "owner")
    yield _counter("runs_ended", "Runs that ended", state.outcomes, "outcome")
    busy = Counts[str]()
    for job in state.running():
        assert job.run is not None
        busy[job.run.place[0]] += sum(gpus for _, gpus in job.run.place[1])
    there, out = state.cluster.capacity, Counts(type for type, _ in state.unusable)
    counts = (("there", there), ("given", state.given()), ("busy", busy))
    gpus: dict[tuple[str, ...], int] = {
        (type, what): count.get(type, 0) for type in there for what, count in counts
    }
    yield _gauge("gpus", "GPUs", gpus, "type", "state")
    yield _gauge("nodes_unusable", "Nodes not in use", {(type,): out[type] for type in there}, "type")
    if last is not None and "gap" in last.figures:
        yield _gauge("round_gap", "Certified gap of the last round", {(): last.figures["gap"]})
    goodput = sum(
        job.predicted_goodput() for job in state.jobs.values() if job.file.elastic and job.status == "running"
    )
    yield _gauge("goodput", "Predicted goodput of all running jobs", {(): goodput})
    yield _gauge("backend_silent", "1 if the backend does not answer", {(): silent})
    yield _gauge("journal_bytes", "Bytes of the journal", {(): record.journal.bytes})


def _family(make: Any, name: str, text: str, values: Mapping[Any, float], *labels: str) -> Any:
    """Return a metric with its values by a label, or by a tuple of labels."""
    family = make(f"copter_live_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric((key,) if isinstance(key, str) else key, value)
    return family


_gauge, _counter = partial(_family, GaugeMetricFamily), partial(_family, CounterMetricFamily)
