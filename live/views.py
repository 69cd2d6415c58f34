"""What the service shows: jobs, nodes, rounds and events as plain dictionaries, for HTTP and the page."""

from __future__ import annotations

import math
from typing import Any

from copter.live.cluster import as_place
from copter.live.events import Closed, Decided, Ended, Event, Launched, Reported, Submitted, Told
from copter.live.jobs import LiveJob
from copter.live.service import RefusedError, Service
from copter.problems.cluster.policy import Placement


def jobs_view(service: Service, over: bool, limit: int) -> list[dict[str, Any]]:
    """Jobs that are there, in order of their submission; then those that are over, the last first."""
    jobs = [_live(job) for job in service.state.jobs.values()]
    if over and len(jobs) < limit:
        jobs += [_over(service, event) for event in service.journal.closed(limit - len(jobs))]
    return jobs[:limit]


def _live(job: LiveJob) -> dict[str, Any]:
    held, report = job.allocation, job.report
    return {
        "name": job.name,
        "status": job.status,
        "application": job.submission.application,
        "tenant": job.submission.tenant,
        "kind": job.kind,
        "submitted": job.submitted,
        "started": finite(job.started),
        "finished": None,
        "type": None if held is None else held.type,
        "gpus": 0 if held is None else held.gpus,
        "nodes": [] if job.place is None else [node for node, _ in job.place],
        "progress": job.progress / job.work,
        "goodput": finite(job.predicted_goodput()),
        "batch_size": None if report is None else report.batch_size,
        "figure": None if report is None else report.figure,
        "restarts": job.restarts,
        "runs": job.runs,
        "failures": job.failures,
        "reason": "",
    }


def _over(service: Service, event: Closed) -> dict[str, Any]:
    """A job that is over, by what the journal says of it."""
    view: dict[str, Any] = {
        "name": event.job,
        "status": event.ending,
        "finished": event.time,
        "started": None,
        "type": None,
        "gpus": 0,
        "nodes": [],
        "progress": None,
        "goodput": None,
        "batch_size": None,
        "figure": None,
        "restarts": 0,
        "runs": 0,
        "failures": 0,
        "reason": event.reason,
    }
    changes = 0
    for _, one in service.journal.events(job=event.job):
        if isinstance(one, Submitted):
            view |= {"submitted": one.time, "application": one.file["application"]}
            view |= {"tenant": one.file["tenant"], "kind": one.file["kind"], "work": one.file["work"]}
        elif isinstance(one, Launched):
            view["started"] = one.time if view["started"] is None else view["started"]
            view["runs"], changes = one.number, changes + 1
        elif isinstance(one, Ended):
            view["failures"] += one.outcome == "failed"
        elif isinstance(one, Reported):
            report = one.report
            view |= {"batch_size": report["batch_size"], "figure": report["figure"]}
            view["progress"] = report["progress"] / view["work"] if view["work"] else None
    view["restarts"] = max(changes - 1, 0)
    view.pop("work", None)
    if event.ending == "completed":
        view["progress"] = 1.0
    return view


def job_view(service: Service, name: str) -> dict[str, Any]:
    """A job with its runs, and what is known of it.

    Raises
    ------
    RefusedError
        There is no such job.
    """
    job = service.state.jobs.get(name)
    if job is None:
        closed = [event for _, event in service.journal.events(kind="Closed", job=name)]
        if not closed:
            raise RefusedError(404, f"there is no job {name!r}")
        assert isinstance(closed[0], Closed)
        view = _over(service, closed[0])
    else:
        view = _live(job) | {
            "failures_in_a_row": job.failures,
            "run_seconds": job.run_seconds,
            "gpu_seconds": job.gpu_seconds,
            "restart_seconds": job.profile.restart_seconds,
            "noise": finite(job.noise),
            "throughput": {}
            if job.learned is None
            else {type: dict(parameters._asdict()) for type, parameters in job.learned.fitted.items()},
            "heard": [list(one) for one in service.heard.get(name, ())],
        }
    runs: dict[int, dict[str, Any]] = {}
    for _, event in service.journal.events(job=name):
        if isinstance(event, Submitted):
            view["file"] = event.file
        elif isinstance(event, Launched):
            type, nodes = as_place(event.place)
            runs[event.number] = {
                "number": event.number,
                "type": type,
                "nodes": [list(one) for one in nodes],
                "began": event.time,
                "told": None,
                "ended": None,
                "outcome": None,
                "reason": "",
            }
        elif isinstance(event, Told):
            runs[event.number]["told"] = event.time
        elif isinstance(event, Ended):
            runs[event.number] |= {"ended": event.time, "outcome": event.outcome, "reason": event.reason}
    return view | {"all_runs": list(runs.values())}


def cluster_view(service: Service) -> dict[str, Any]:
    """Nodes, who is on them and was, and figures of the service."""
    state = service.state
    nodes = [
        {
            "type": type,
            "node": node,
            "host": state.host(type, node),
            "gpus": gpus,
            "unusable": state.unusable.get((type, node), ""),
        }
        for type, node, gpus in state.nodes()
    ]
    running = [job for job in state.jobs.values() if job.file.elastic and job.status == "running"]
    return {
        "time": service.now(),
        "began": service.began,
        "policy": service.rounds.policy.name,
        "backend": service.backend.name,
        "round_seconds": service.rounds.round_seconds,
        "silent": service.silent,
        "jobs": len(state.jobs),
        "over": dict(service.counts),
        "queued": sum(job.status == "queued" for job in state.jobs.values()),
        "goodput": {
            "predicted": sum(job.predicted_goodput() for job in running),
            "measured": sum(_measured(service, job) for job in running),
        },
        "nodes": nodes,
        "spans": [span._asdict() for span in service.spans],
    }


def _measured(service: Service, job: LiveJob) -> float:
    """Progress a second between the last two reports."""
    heard = service.heard.get(job.name)
    if heard is None or len(heard) < 2:
        return 0.0
    before, last = heard[-2], heard[-1]
    return (last.progress - before.progress) / (last.time - before.time) if last.time > before.time else 0.0


def rounds_view(service: Service, limit: int) -> list[dict[str, Any]]:
    """The last rounds."""
    return [_round(one) for one in list(service.history)[-limit:]]


def _round(round: Decided) -> dict[str, Any]:
    gap = round.figures.get("gap", math.nan)
    return {
        "time": round.asked,
        "seconds": round.seconds,
        "policy_seconds": round.policy_seconds,
        "gap": finite(gap),
        "changes": len(round.places),
        "figures": dict(round.figures),
    }


def events_view(service: Service, after: int, limit: int) -> list[dict[str, Any]]:
    """What happened, reports and rounds left out."""
    return [_event(number, event) for number, event in service.journal.told(after, limit)]


def _event(number: int, event: Event) -> dict[str, Any]:
    fields = event.as_dict()
    fields.pop("file", None)
    fields.pop("cluster", None)
    who = fields.pop("job", None)
    text = " ".join(f"{key}={_plain(value)}" for key, value in fields.items() if value not in ("", None))
    return {"number": number, "time": event.time, "what": type(event).__name__, "job": who, "text": text}


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[0], str):
        configuration = Placement(*as_place(value)).configuration
        return f"{configuration.gpus}x{configuration.type}"
    return str(value)


def finite(value: float) -> float | None:
    """A number that JSON knows, or None."""
    return value if math.isfinite(value) else None
