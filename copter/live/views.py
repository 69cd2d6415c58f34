"""Jobs, nodes and usage by owner as plain dictionaries, for HTTP and the page.

The functions are coroutines, because only the event loop may read the state.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, islice
from typing import Annotated, Any, TypeAlias

from copter.extras import extra
from copter.live import ENDINGS
from copter.live.admission import known_job
from copter.live.events import Ended, Launched, Told
from copter.live.files import NAME
from copter.live.jobs import LiveJob
from copter.live.service import Service

with extra("live"):
    from fastapi import Depends, Path, Query, Request


def _service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


OfService: TypeAlias = Annotated[Service, Depends(_service_of)]
JobName: TypeAlias = Annotated[str, Path(pattern=NAME)]


async def jobs_view(
    service: OfService, ended: bool = False, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000
) -> list[dict[str, Any]]:
    """List the jobs in order of submission; with `ended`, then the ended jobs, the latest first."""
    state = service.record.state
    past = reversed(state.ended.values()) if ended else ()
    return [_job(job) for job in islice(chain(state.jobs.values(), past), limit)]


_AS_THEY_ARE = ("name", "status", "owner", "submitted", "restarts", "runs", "exit_code")
_NOT_YET = {"told": None, "ended": None, "outcome": None, "exit_code": None, "reason": ""}


def _job(job: LiveJob) -> dict[str, Any]:
    held, report, end = job.allocation, job.report, job.closed
    done = end is not None and end.ending == "completed"
    waits = f"after {', '.join(sorted(job.waits_for))}" if job.waits_for else ""
    return {name: getattr(job, name) for name in _AS_THEY_ARE} | {
        "application": job.submission.application,
        "kind": job.file.kind,
        "started": _finite(job.started),
        "finished": None if end is None else end.time,
        "type": None if job.target is None else job.target[0],
        "gpus": 0 if held is None else held.gpus,
        "nodes": [] if job.place is None else [node for node, _ in job.place],
        "progress": 1.0 if done else job.progress / job.work,
        "goodput": _finite(job.predicted_goodput()),
        "batch_size": None if report is None else report.batch_size,
        "failures": job.failed_runs,
        "gpu_seconds": job.gpu_seconds if end is None else job.ended_gpu_seconds,
        "reason": waits if end is None else end.reason,
    }


async def job_view(service: OfService, name: JobName) -> dict[str, Any]:
    """Return the view of a job with its runs; raise RefusedError if there is no such job."""
    job = known_job(service.record, name)
    runs: dict[int, dict[str, Any]] = {}
    for kind in ("Launched", "Told", "Ended"):  # the reports of a job may be many
        for _, event in service.record.journal.events(kind=kind, job=name):
            if isinstance(event, Launched):
                type, nodes = event.place
                runs[event.number] = {
                    "number": event.number,
                    "type": type,
                    "nodes": [list(one) for one in nodes],
                    "began": event.time,
                } | _NOT_YET
            elif isinstance(event, Told):
                runs[event.number]["told"] = event.time
            elif isinstance(event, Ended):
                own = {"outcome": event.outcome, "reason": event.reason, "exit_code": event.exit_code}
                runs[event.number] |= own | {"ended": event.time}
    return _job(job) | {
        "run_seconds": job.run_seconds,
        "used_seconds": job.used_seconds,
        "restart_seconds": job.profile.restart_seconds,
        "noise": _finite(job.noise),
        "file": job.file.model_dump(mode="json"),
        "all_runs": list(runs.values()),
    }


async def cluster_view(service: OfService) -> dict[str, Any]:
    """Return the nodes, statistics, the last round, and the last notes since the start of the service."""
    record, state, last = service.record, service.record.state, service.record.state.last_round
    nodes = [
        {
            "type": type,
            "node": node,
            "host": state.host(type, node),
            "gpus": gpus,
            "unusable": state.unusable.get((type, node), ""),
            "drained": (type, node) in state.drained,
        }
        for type, node, gpus in state.file.all_nodes
    ]
    return {
        "time": record.now(),
        "began": record.began,
        "policy": service.rounds.policy.name,
        "backend": service.backend.name,
        "round_seconds": service.rounds.round_seconds,
        "silent": service.launcher.silent,
        "jobs": len(state.jobs),
        "over": state.endings(),
        "statuses": Counter(job.status for job in state.jobs.values()),
        "given": state.given(),
        "nodes": nodes,
        "round": None
        if last is None
        else {"seconds": last.seconds, "gap": last.figures.get("gap"), "changes": len(last.places)},
        "notes": [{"time": one.time, "job": one.job, "text": one.text} for one in record.notes],
    }


async def usage_view(service: OfService) -> list[dict[str, Any]]:
    """Return each owner's numbers of ended jobs, by ending, and the GPU seconds of the ended runs."""
    state = service.record.state
    owners = sorted({owner for owner, _ in state.over} | set(state.gpu_seconds))
    return [
        {"owner": owner, "gpu_seconds": state.gpu_seconds[owner]}
        | {ending: state.over[owner, ending] for ending in ENDINGS}
        for owner in owners
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
