"""Messages between the service and a run: the plan at its start, its reports, and the orders in return.

The plan is the ``training`` field of ``run.json``.  Every ``report_seconds`` a run's first process posts a
report to ``url`` with the run's own token (``Authorization: Bearer TOKEN``), as JSON, and is answered with
orders.  A report that does not get through is left out, because the next one covers it.  A job without an
answer for ``lease_seconds`` writes a checkpoint and ends: the service may have given its GPUs away.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self


class Batch(NamedTuple):
    """How a job trains: see :class:`copter.problems.cluster.profiles.throughput.BatchChoice`."""

    local_batch: int
    accumulation: int
    learning_rate_factor: float

    def check(self) -> None:
        """Raise ValueError for a batch that cannot be trained with."""
        if self.local_batch < 1 or self.accumulation < 0 or not 0 < self.learning_rate_factor < math.inf:
            raise ValueError(f"{self}: a pass has at least one example, and the factor is positive")


@dataclass(frozen=True)
class Pace:
    """A slot that stands for a GPU: steps take as long as measured ones, divided by `speed`.

    `parameters` are the seven of :class:`copter.problems.cluster.profiles.throughput.ThroughputParameters`.
    """

    parameters: tuple[float, ...]
    speed: float


@dataclass(frozen=True)
class TrainingPlan:
    """What a run is told at its start.

    Attributes
    ----------
    url, token : str
        Where reports go (nowhere if empty), and the run's own token.
    folder : str
        Checkpoints of the job, the same for all of its runs.
    number : int
        Number of the run; the checkpoints of a later run replace those of an earlier one.
    work : float
        Steps at the initial batch size until the job is trained.
    initial_batch, max_batch : int
        Examples of the whole batch: the user's own, and the largest.
    batch : Batch
        The first batch.
    rule : {"adascale", "square-root"}
        How the learning rate follows the batch size.
    checkpoint_seconds : float
        Largest age of a checkpoint.
    report_seconds : float
        Time between two reports.
    lease_seconds : float
        How long a run goes on without an answer.
    pace : Pace or None
        None on real GPUs.
    """

    url: str
    token: str
    folder: str
    number: int
    work: float
    initial_batch: int
    max_batch: int
    batch: Batch
    rule: str = "adascale"
    checkpoint_seconds: float = 60.0
    report_seconds: float = 30.0
    lease_seconds: float = 600.0
    pace: Pace | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as they stand in ``run.json``."""
        return asdict(self) | {"batch": self.batch._asdict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Return the plan of a dictionary that :meth:`as_dict` made."""
        pace = fields.get("pace")
        made = {
            "batch": Batch(**fields["batch"]),
            "pace": None if pace is None else Pace(tuple(pace["parameters"]), pace["speed"]),
        }
        return cls(**fields | made)


@dataclass(frozen=True)
class ProcessPlace:
    """Position of a process in its run, by the environment that the agent made."""

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
    """Steps since the last report that were alike: `local_batch` examples on each GPU in one pass.

    `log_seconds` is the mean logarithm of the seconds of a step without accumulation, that is of its last
    pass, which synchronises.
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
        Progress of the whole job in steps at the initial batch size, and its steps.
    running_seconds : float
        Time since this run's first step began.
    times : tuple of StepTimes
        Steps since the last report that got through.
    squared_norm, variance : float or None
        mu^2 and sigma^2 of the gradient at the initial batch size; None while they are not known.
    batch_size : int
        Examples of the last step, of all processes.
    saved_progress : float
        Progress of the last checkpoint.
    figure : float or None
        The training script's own figure, such as its loss.
    """

    progress: float
    steps: int
    running_seconds: float
    times: tuple[StepTimes, ...]
    squared_norm: float | None
    variance: float | None
    batch_size: int
    saved_progress: float
    figure: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as they are posted."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Return the report of a dictionary that :meth:`as_dict` made."""
        return cls(**{**fields, "times": tuple(StepTimes(**one) for one in fields["times"])})


@dataclass(frozen=True)
class Orders:
    """Answer to a report: the lease from now on, whether to stop, and a batch unless it stays.

    A run that is told to stop has no right to its GPUs any more.
    """

    lease_seconds: float
    stop: bool = False
    batch: Batch | None = None

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Return the orders of an answer; raises ValueError, TypeError or KeyError if it has none."""
        if not isinstance(fields, dict):
            raise TypeError(f"orders are fields by their names, not {fields!r}")
        if (batch := fields.get("batch")) is not None:
            batch = Batch(**batch)
            batch.check()
        return cls(float(fields["lease_seconds"]), bool(fields["stop"]), batch)
