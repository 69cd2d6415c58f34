"""What comes out of a simulation: records of rounds, of jobs, and of who held what when.

A field that is a column of a run folder's file says what it is in its annotation (:func:`columns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, get_type_hints

from copter.problems.cluster.jobs import Job


@dataclass(frozen=True)
class ClusterRecord:
    """A time at which the policy was asked. `figures`: the policy's own, such as the gap of its program."""

    index: Annotated[int, "times that the policy was asked before"]
    time: Annotated[float, "seconds"]
    seconds: Annotated[float, "until it is asked again"]
    jobs: Annotated[int, "jobs that are there"]
    running: Annotated[int, "jobs that have GPUs"]
    arrived: Annotated[int, "jobs that entered"]
    completed: Annotated[int, "jobs that completed before the next row"]
    gpus: Annotated[Mapping[str, int], "GPUs given"]
    there: Annotated[Mapping[str, int], "GPUs of the cluster"]
    demand: Annotated[int, "GPUs that the jobs ask for: a rigid job its count, another one at least one"]
    starts: Annotated[int, "jobs that got GPUs for the first time"]
    restarts: Annotated[int, "jobs that got other GPUs than before, or some again"]
    evicted: Annotated[int, "jobs that no nodes were found for"]
    moved: Annotated[int, "jobs that changed nodes and nothing else"]
    policy_seconds: Annotated[float, "seconds that the policy took"]
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRecord:
    """What became of a job; times in seconds, NaN for what did not happen."""

    name: Annotated[str, "name of the job"]
    application: Annotated[str, "its profile"]
    category: Annotated[str, "sort of job, in the trace's own words"]
    tenant: Annotated[str, "its virtual cluster or user, where the trace names one"]
    kind: Annotated[str, "what the policy adapts of it: adaptive, strong-scaling or rigid"]
    gpus: Annotated[int, "GPUs that it asks for; 0 if it does not say"]
    submitted: Annotated[float, "seconds of its submission"]
    started: Annotated[float, "seconds at which it first got GPUs; nan if never"]
    finished: Annotated[float, "seconds at which it completed; nan if it did not"]
    jct: Annotated[float, "finished - submitted"]
    run_seconds: Annotated[float, "seconds in which it ran, restarts not counted"]
    gpu_seconds: Annotated[float, "GPUs held times seconds, restarts included"]
    restarts: Annotated[int, "changes of allocation after the first start"]
    contention: Annotated[float, "mean of jobs over GPUs while it was there"]


@dataclass(frozen=True)
class Segment:
    """A time in which a job held the same GPUs."""

    job: Annotated[str, "name of the job"]
    begin: Annotated[float, "seconds from which on it held these GPUs"]
    end: Annotated[float, "seconds until which it did"]
    type: Annotated[str, "of the GPUs"]
    gpus: Annotated[int, "how many"]
    nodes: Annotated[int, "on how many nodes"]
    place: Annotated[
        tuple[tuple[int, int], ...] | None,
        "node:GPUs, separated by spaces; empty where GPUs are only counted",
    ]
    restart_seconds: Annotated[float, "of it without progress"]
    progress: Annotated[float, "of the job at the end, before what a failure takes back"]
    batch_size: Annotated[
        int | None, "examples of the batch with which it trained at the end; empty where its profile has none"
    ] = None
    local_batch: Annotated[int | None, "of it on each GPU in one pass"] = None
    accumulation: Annotated[int | None, "passes beyond the first in a step"] = None
    learning_rate_factor: Annotated[float | None, "on the learning rate of the initial batch size"] = None


def record_of(job: Job, finished: float) -> JobRecord:
    """Outcome of a job. `finished`: seconds at which it completed, NaN if it did not."""
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
    """What the fields of a record are that are columns of a file, by name."""
    hints = get_type_hints(record, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}
