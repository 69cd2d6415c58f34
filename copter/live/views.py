"""Jobs, nodes, rounds and events as plain dictionaries, for HTTP and the page."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, islice
from typing import Annotated, Any, TypeAlias

from copter.extras import extra
from copter.live import ENDINGS
from copter.live.admission import RefusedError
from copter.live.events import (
    Begun,
    Closed,
    Drained,
    Ended,
    Event,
    Launched,
    NodesChanged,
    Noted,
    Opened,
    Submitted,
    Told,
)
from copter.live.files import NAME
from copter.live.jobs import LiveJob
from copter.live.past import span_of
from copter.live.record import ServiceRecord
from copter.live.service import Service
from copter.problems.cluster.policy import Placement

with extra("live"):
    from fastapi import Depends, Path, Query, Request


def _service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _record_of(request: Request) -> ServiceRecord:
    return _service_of(request).record


OfService: TypeAlias = Annotated[Service, Depends(_service_of)]
OfRecord: TypeAlias = Annotated[ServiceRecord, Depends(_record_of)]
JobName: TypeAlias = Annotated[str, Path(pattern=NAME)]
Since: TypeAlias = Annotated[float | None, Query(ge=0, le=1e15, allow_inf_nan=False)]
"""Time in seconds since the service first began, at and before which entries are left out."""


def jobs_view(
    record: OfRecord, ended: bool = False, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000
) -> list[dict[str, Any]]:
    """List the jobs in order of submission; with `ended`, then the ended jobs, the latest first."""
    past = reversed(record.state.ended.values()) if ended else ()
    return [_job(record, job) for job in islice(chain(record.state.jobs.values(), past), limit)]


def _job(record: ServiceRecord, job: LiveJob) -> dict[str, Any]:
    held, report, end = job.allocation, job.report, job.closed
    done = end is not None and end.ending == "completed"
    waits = f"after {', '.join(sorted(job.waits_for))}" if job.waits_for else ""
    return {
        "name": job.name,
        "status": job.status,
        "application": job.submission.application,
        "kind": job.file.kind,
        "owner": job.owner,
        "submitted": job.submitted,
        "started": _finite(job.started),
        "finished": None if end is None else end.time,
        "type": None if job.target is None else job.target[0],
        "gpus": 0 if held is None else held.gpus,
        "nodes": [] if job.place is None else [node for node, _ in job.place],
        "progress": 1.0 if done else job.progress / job.work,
        "goodput": _finite(job.predicted_goodput()),
        "measured": _finite(record.past.measured(job)),
        "batch_size": None if report is None else report.batch_size,
        "figure": None if report is None else report.figure,
        "restarts": job.restarts,
        "runs": job.runs,
        "failures": job.failed_runs,
        "exit_code": job.exit_code,
        "gpu_seconds": job.gpu_seconds if end is None else job.ended_gpu_seconds,
        "reason": waits if end is None else end.reason,
    }


def job_view(record: OfRecord, name: JobName) -> dict[str, Any]:
    """Return the view of a job with its runs and reports; raises RefusedError if there is no such job."""
    job = record.state.find(name)
    if job is None:
        raise RefusedError(404, f"there is no job {name!r}")
    learned = {} if job.learned is None else job.learned.fitted
    runs: dict[int, dict[str, Any]] = {}
    for kind in ("Launched", "Told", "Ended"):  # the reports of a job may be many
        for _, event in record.journal.events(kind=kind, job=name):
            if isinstance(event, Launched):
                type, nodes = event.place
                runs[event.number] = {
                    "number": event.number,
                    "type": type,
                    "nodes": [list(one) for one in nodes],
                    "began": event.time,
                    "told": None,
                    "ended": None,
                    "outcome": None,
                    "exit_code": None,
                    "reason": "",
                }
            elif isinstance(event, Told):
                runs[event.number]["told"] = event.time
            elif isinstance(event, Ended):
                own = {"outcome": event.outcome, "reason": event.reason, "exit_code": event.exit_code}
                runs[event.number] |= own | {"ended": event.time}
    return _job(record, job) | {
        "run_seconds": job.run_seconds,
        "used_seconds": job.used_seconds(record.now()),
        "restart_seconds": job.profile.restart_seconds,
        "noise": _finite(job.noise),
        "throughput": {type: dict(parameters._asdict()) for type, parameters in learned.items()},
        "heard": [list(one) for one in record.past.heard.get(name, ())],
        "file": job.file.model_dump(mode="json"),
        "all_runs": list(runs.values()),
    }


def cluster_view(service: OfService, since: Since = None) -> dict[str, Any]:
    """Return nodes, runs and statistics, and the part of the history after the time `since`."""
    record, state, since = service.record, service.record.state, -math.inf if since is None else since
    nodes = [
        {
            "type": type,
            "node": node,
            "host": state.host(type, node),
            "gpus": gpus,
            "unusable": state.unusable.get((type, node), ""),
            "drained": (type, node) in state.drained,
        }
        for type, node, gpus in state.nodes()
    ]
    goodput = record.past.goodput(record.now(), record.state)
    return {
        "time": record.now(),
        "began": record.began,
        "policy": service.rounds.policy.name,
        "backend": service.backend.name,
        "round_seconds": service.rounds.round_seconds,
        "silent": service.launcher.silent,
        "jobs": len(state.jobs),
        "over": record.endings(),
        "queued": sum(job.status == "queued" for job in state.jobs.values()),
        "statuses": Counter(job.status for job in state.jobs.values()),
        "given": state.given(),
        "goodput": {
            "predicted": goodput.predicted,
            "measured": goodput.measured,
            "history": [list(one) for one in record.past.goodputs if one.time > since],
        },
        "nodes": nodes,
        "outages": [one._asdict() for one in record.past.outages() if one.ended is None or one.ended > since],
        "runs": [span_of(job, job.run)._asdict() for job in state.running() if job.run is not None],
        "spans": [span._asdict() for span in record.past.spans if (span.ended or 0.0) > since],
    }


def usage_view(record: OfRecord) -> list[dict[str, Any]]:
    """Return the ended jobs of each owner by ending, and the GPU seconds of the owner's ended runs."""
    owners = sorted({owner for owner, _ in record.over} | set(record.gpu_seconds))
    return [
        {"owner": owner, "gpu_seconds": record.gpu_seconds[owner]}
        | {ending: record.over[owner, ending] for ending in ENDINGS}
        for owner in owners
    ]


def rounds_view(
    record: OfRecord, limit: Annotated[int, Query(ge=1, le=2000)] = 200, since: Since = None
) -> list[dict[str, Any]]:
    """Return those of the last `limit` rounds that began after the time `since`."""
    return [
        {
            "time": one.asked,
            "seconds": one.seconds,
            "policy_seconds": one.policy_seconds,
            "gap": _finite(one.figures.get("gap", math.nan)),
            "changes": len(one.places),
            "figures": dict(one.figures),
        }
        for one in list(record.past.rounds)[-limit:]
        if since is None or one.asked > since
    ]


def events_view(
    record: OfRecord,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> list[dict[str, Any]]:
    """Return up to `limit` events after number `after`, without reports and rounds.

    They are the first ones after this number, or the last ones of all if `after` is 0.
    """
    return [_event(number, event) for number, event in record.journal.told(after, limit)]


def _event(number: int, event: Event) -> dict[str, Any]:
    return {
        "number": number,
        "time": event.time,
        "what": type(event).__name__,
        "job": getattr(event, "job", None),
        "author": getattr(event, "author", ""),
        "text": sentence(event),
        "trouble": isinstance(event, Noted)
        or (isinstance(event, Ended) and event.outcome in ("failed", "lost"))
        or (isinstance(event, Closed) and event.ending == "failed"),
    }


def sentence(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each kind of event
    """Return what an event says, for users; without the job and the author of the request."""
    match event:
        case Opened():
            rounds = "" if event.round_seconds is None else f", with a round every {event.round_seconds:g} s"
            return f"the policy {event.policy!r} begins{rounds}"
        case Submitted():
            return "the job was submitted"
        case Launched():
            configuration, hosts = Placement(*event.place).configuration, ", ".join(event.hosts)
            gpus = f"{configuration.gpus} GPU{'s' if configuration.gpus != 1 else ''}"
            return f"run {event.number} is started on {gpus} of type {configuration.type}: {hosts}"
        case Begun():
            return f"run {event.number} has begun; its time counts from now on"
        case Told():
            return f"run {event.number} was told to write a checkpoint and end"
        case Ended():
            return _with_reason(f"run {event.number} {_OUTCOMES[event.outcome]}", event.reason)
        case Closed():
            return _with_reason(f"the job {_ENDINGS[event.ending]}", event.reason)
        case NodesChanged():
            down = ", ".join(f"{type}-{node} ({why})" for type, node, why in event.down)
            return f"these nodes do not work: {down}" if down else "no node fails any more"
        case Drained():
            node = f"node {event.type}-{event.node}"
            return f"{node} is in use again" if event.back else f"{node} was taken out of use"
        case Noted():
            return event.text
    return ""  # reports and rounds, which are not listed


_OUTCOMES = {"completed": "completed", "stopped": "was stopped", "failed": "failed", "lost": "was lost"}
_ENDINGS = {"completed": "is completed", "failed": "has failed", "cancelled": "was cancelled"}


def _with_reason(said: str, reason: str) -> str:
    return f"{said}: {reason}" if reason else said


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
