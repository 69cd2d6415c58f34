"""Messages between the service and a run: the plan at its start, its reports, and the orders in return.

The plan is the ``training`` field of ``run.json``.  Every ``report_seconds`` a run's first process posts a
report as JSON to ``url``, with the run's own token (``Authorization: Bearer TOKEN``).  The response has
orders. A report that fails is not repeated, because the next report includes its contents.  A job without a
response for ``lease_seconds`` writes a checkpoint and ends, because the service may have given its GPUs away.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any, NamedTuple, Self


class Batch(NamedTuple):
    """Batch of a job: see :class:`copter.problems.cluster.profiles.throughput.BatchChoice`."""

    local_batch: int
    accumulation: int
    learning_rate_factor: float


@dataclass(frozen=True)
class TrainingPlan:
    """Data for a run at its start.

    Attributes
    ----------
    url, token : str
        Address for reports (if it is empty, no reports are sent), and the run's own token.
    folder : str
        Folder of the job's checkpoints, the same for all of its runs.
    number : int
        Number of the run; the checkpoints of a later run replace those of an earlier one.
    work : float
        Number of steps at the initial batch size until the job is complete.
    initial_batch : int
        Examples of the user's initial batch, over all processes.
    batch : Batch
        The first batch.
    rule : {"adascale", "square-root"}
        Rule by which the learning rate depends on the batch size.
    checkpoint_seconds : float
        Largest age of a checkpoint, in seconds.
    report_seconds : float
        Seconds between two reports.
    lease_seconds : float
        Seconds for which a run continues without a response.
    """

    url: str
    token: str
    folder: str
    number: int
    work: float
    initial_batch: int
    batch: Batch
    rule: str = "adascale"
    checkpoint_seconds: float = 60.0
    report_seconds: float = 30.0
    lease_seconds: float = 600.0

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Return a plan from its fields in ``run.json``."""
        return cls(**fields | {"batch": Batch(*fields["batch"])})


@dataclass(frozen=True)
class ProcessPlace:
    """Position of a process in its run, from the environment that the agent set."""

    plan: TrainingPlan
    job: str
    type: str
    gpus: tuple[int, ...]
    folder: str
    rank: int
    ranks: int
    local_rank: int
    node: int

    @classmethod
    def here(cls) -> Self | None:
        """Return the place of this process; None if it was not started by copter."""
        path = os.environ.get("COPTER_RUN_FILE")
        if path is None:
            return None
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        numbers = (int(os.environ[f"COPTER_{name}"]) for name in ("RANK", "RANKS", "LOCAL_RANK", "NODE"))
        plan = TrainingPlan.from_dict(run["training"])
        return cls(plan, run["job"], run["type"], tuple(run["gpus"]), run["folder"], *numbers)


@dataclass(frozen=True)
class StepTimes:
    """Steps since the last report with `local_batch` examples on each GPU in one pass, and their number.

    `log_seconds` is the mean logarithm of the seconds of a step without accumulation, that is, of the last
    pass of a step, in which the processes synchronise.
    """

    local_batch: int
    count: int
    log_seconds: float


@dataclass(frozen=True)
class TrainingReport:
    """Report of a run.

    Attributes
    ----------
    progress, steps : float, int
        Progress of the whole job, in steps at the initial batch size, and the number of its steps.
    running_seconds : float
        Time since this run's first step began.
    times : tuple of StepTimes
        Times of the steps since the last successful report.
    squared_norm, variance : float or None
        mu^2 and sigma^2 of the gradient at the initial batch size; None if unknown.
    batch_size : int
        Number of examples of the last step, over all processes.
    saved_progress : float
        Progress at the last checkpoint.
    """

    progress: float
    steps: int
    running_seconds: float
    times: tuple[StepTimes, ...]
    squared_norm: float | None
    variance: float | None
    batch_size: int
    saved_progress: float


@dataclass(frozen=True)
class Orders:
    """Response to a report: the new lease, whether to stop, and a new batch or None to keep the present one.

    A run that is ordered to stop has lost its GPUs.
    """

    lease_seconds: float
    stop: bool = False
    batch: Batch | None = None

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Return the orders of a response; raise ValueError, TypeError or KeyError if they are invalid."""
        if (batch := fields["batch"]) is not None:
            local_batch, accumulation, factor = batch = Batch(*batch)
            if local_batch < 1 or accumulation < 0 or not 0 < factor < math.inf:
                raise ValueError(f"{batch}: local_batch must be at least 1, and the factor positive")
        return cls(float(fields["lease_seconds"]), bool(fields["stop"]), batch)
