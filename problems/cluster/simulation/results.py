"""What comes out of a simulation: records of rounds, of jobs, and of who held what when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from copter.problems.cluster.simulation.jobs import JobState


@dataclass(frozen=True)
class RoundRecord:
    """A time at which the policy was asked.

    Attributes
    ----------
    time : float
        Seconds.
    seconds : float
        Until it is asked again.
    jobs, running : int
        Jobs that are there, and that have GPUs from now on.
    arrived, completed : int
        Jobs that entered, and that completed before the next record.
    gpus : mapping of str to int
        GPUs given, by type.
    there : mapping of str to int
        GPUs of the cluster, by type.
    demand : int
        GPUs that the jobs ask for: a rigid job its count, another one at least one.
    starts, restarts : int
        Jobs that got GPUs for the first time, and that got others than before or got some again.
    evicted, moved : int
        Jobs that the placer found no nodes for, and that it moved.
    policy_seconds : float
        Time that the policy took.
    figures : mapping of str to number
        The policy's own, such as the gap of its program.
    """

    index: int
    time: float
    seconds: float
    jobs: int
    running: int
    arrived: int
    completed: int
    gpus: Mapping[str, int]
    there: Mapping[str, int]
    demand: int
    starts: int
    restarts: int
    evicted: int
    moved: int
    policy_seconds: float
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRecord:
    """What became of a job; times in seconds, NaN for what did not happen.

    Attributes
    ----------
    gpus : int
        That it asks for: of a rigid job its count, of another one that it was tuned for, 0 if none.
    run_seconds : float
        In which it ran, restarts not counted.
    gpu_seconds : float
        GPUs held times seconds, restarts included.
    restarts : int
        Changes of allocation after the first start.
    contention : float
        Mean of jobs over GPUs over the rounds that it was there.
    """

    name: str
    application: str
    category: str
    tenant: str
    kind: str
    gpus: int
    submitted: float
    started: float
    finished: float
    jct: float
    run_seconds: float
    gpu_seconds: float
    restarts: int
    contention: float


@dataclass(frozen=True)
class Segment:
    """A time in which a job held the same GPUs.

    Attributes
    ----------
    begin, end : float
        Seconds.
    place : tuple of (int, int) or None
        Node and GPUs on it, where the simulator places.
    restart_seconds : float
        Of it without progress.
    progress : float
        Of the job at its end.
    batch_size, local_batch, accumulation, learning_rate_factor : optional
        How the job trained at its end (:class:`.throughput.BatchChoice`), where its profile knows.
    """

    job: str
    begin: float
    end: float
    type: str
    gpus: int
    nodes: int
    place: tuple[tuple[int, int], ...] | None
    restart_seconds: float
    progress: float
    batch_size: int | None = None
    local_batch: int | None = None
    accumulation: int | None = None
    learning_rate_factor: float | None = None


def record_of(job: JobState, finished: float) -> JobRecord:
    """What became of a job.

    Parameters
    ----------
    finished : float
        Seconds at which it completed, NaN if it did not.
    """
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
