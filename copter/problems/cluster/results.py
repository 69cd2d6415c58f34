"""Records of a simulation: its rounds, its jobs, and the GPUs of each job over time.

The annotation of a field that is a column of a run folder's file is the column's meaning (:func:`columns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, get_type_hints

from copter.problems.cluster.jobs import Job


@dataclass(frozen=True)
class ClusterRecord:
    """A call of the policy; `figures` are the policy's statistics, such as the gap of its program."""

    index: Annotated[int, "number of earlier calls of the policy"]
    time: Annotated[float, "time of the call in seconds"]
    seconds: Annotated[float, "seconds until the next call"]
    jobs: Annotated[int, "jobs in the cluster"]
    running: Annotated[int, "jobs that have GPUs"]
    arrived: Annotated[int, "jobs that arrived"]
    completed: Annotated[int, "jobs that completed before the next row"]
    gpus: Annotated[Mapping[str, int], "GPUs in use"]
    there: Annotated[Mapping[str, int], "GPUs of the cluster"]
    demand: Annotated[int, "GPUs that the jobs request: a rigid job its count, another job at least one"]
    starts: Annotated[int, "jobs that got GPUs for the first time"]
    restarts: Annotated[int, "jobs that got other GPUs than before, or GPUs again"]
    evicted: Annotated[int, "jobs for which no nodes were found"]
    moved: Annotated[int, "jobs that changed only their nodes"]
    policy_seconds: Annotated[float, "running time of the policy in seconds"]
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRecord:
    """Outcome of a job; times in seconds, NaN for events that did not happen."""

    name: Annotated[str, "name of the job"]
    application: Annotated[str, "name of its profile"]
    category: Annotated[str, "category of the job in the trace"]
    tenant: Annotated[str, "virtual cluster or user of the job, if the trace has it"]
    kind: Annotated[str, "what the policy adapts of it: adaptive, strong-scaling or rigid"]
    gpus: Annotated[int, "GPUs that it requests; 0 if unspecified"]
    submitted: Annotated[float, "time of its submission in seconds"]
    started: Annotated[float, "time in seconds at which it first got GPUs; nan if never"]
    finished: Annotated[float, "time in seconds at which it completed; nan if it did not"]
    jct: Annotated[float, "finished - submitted"]
    run_seconds: Annotated[float, "seconds in which it ran, without restarts"]
    gpu_seconds: Annotated[float, "GPUs held times seconds, with restarts"]
    restarts: Annotated[int, "changes of allocation after the first start"]
    contention: Annotated[float, "mean number of jobs over GPUs during its stay"]


@dataclass(frozen=True)
class Segment:
    """An interval in which a job held the same GPUs."""

    job: Annotated[str, "name of the job"]
    begin: Annotated[float, "begin of the interval in seconds"]
    end: Annotated[float, "end of the interval in seconds"]
    type: Annotated[str, "type of the GPUs"]
    gpus: Annotated[int, "number of GPUs"]
    nodes: Annotated[int, "number of nodes"]
    place: Annotated[
        tuple[tuple[int, int], ...] | None,
        "node:GPUs, separated by spaces; empty without a placer",
    ]
    restart_seconds: Annotated[float, "seconds of the interval without progress"]
    progress: Annotated[float, "progress of the job at the end, before a failure takes some back"]
    batch_size: Annotated[
        int | None, "examples of the whole batch at the end; empty if the profile has no batch sizes"
    ] = None
    local_batch: Annotated[int | None, "examples on each GPU in one pass"] = None
    accumulation: Annotated[int | None, "passes beyond the first in a step"] = None
    learning_rate_factor: Annotated[float | None, "factor on the initial learning rate"] = None


def record_of(job: Job, finished: float) -> JobRecord:
    """Return the record of a job; `finished` is the time of its completion in seconds, or NaN."""
    submission = job.submission
    return JobRecord(
        name=job.name,
        application=submission.application,
        category=submission.category,
        tenant=submission.tenant,
        kind=job.kind,
        gpus=job.gpus or submission.gpus or submission.tuned_gpus or 0,
        submitted=job.submitted,
        started=job.started,
        finished=finished,
        jct=finished - job.submitted,
        run_seconds=job.run_seconds,
        gpu_seconds=job.gpu_seconds,
        restarts=job.restarts,
        contention=job.contention,
    )


def columns(record: type) -> dict[str, str]:
    """Return the meanings of the fields of a record that are columns of a file, by name."""
    hints = get_type_hints(record, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}
