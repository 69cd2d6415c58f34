"""What a run is told, and what it says: the words between the service and the job's side.

The plan stands in the ``training`` field of ``run.json``.  Every ``report_seconds`` a run's first process
posts a report to ``url`` with the run's own token (``Authorization: Bearer TOKEN``), as JSON, and is answered
with orders.  A report that does not get through is left out: the next one says more.  A job whose lease is
over, because nobody has answered it for so long, writes a checkpoint and ends: the service may have given its
GPUs away.
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
        """Refuse a batch that nobody can train with.

        Raises
        ------
        ValueError
            It has no examples, fewer passes than one, or a factor that is not positive.
        """
        if self.local_batch < 1 or self.accumulation < 0 or not 0 < self.learning_rate_factor < math.inf:
            raise ValueError(f"{self}: a pass has at least one example, and the factor is positive")


@dataclass(frozen=True)
class Pace:
    """A slot that stands for a GPU: steps take as long as measured ones of this model on that GPU.

    Attributes
    ----------
    parameters : tuple of float
        The seven of :class:`copter.problems.cluster.profiles.throughput.ThroughputParameters`.
    speed : float
        Steps are so many times quicker than measured.
    """

    parameters: tuple[float, ...]
    speed: float


@dataclass(frozen=True)
class Plan:
    """What a run is told at its start.

    Attributes
    ----------
    url, token : str
        Where reports go, nowhere if it is empty, and the run's own word for it.
    folder : str
        The job's folder of checkpoints, the same for all of its runs.
    number : int
        Of the run: of two that write checkpoints the later one is right.
    work : float
        Steps at the initial batch size until the job is trained.
    initial_batch, max_batch : int
        Examples of the whole batch: the user's own, and the most.
    batch : Batch
        To begin with.
    rule : str
        How the learning rate follows the batch size: "adascale" or "square-root".
    checkpoint_seconds : float
        A checkpoint is never older than this.
    report_seconds : float
        Between two reports.
    lease_seconds : float
        How long a run goes on that nobody answers.
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
        """As it stands in ``run.json``."""
        return asdict(self) | {"batch": self.batch._asdict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The plan of a dictionary that :meth:`as_dict` made."""
        pace = fields.get("pace")
        made = {
            "batch": Batch(**fields["batch"]),
            "pace": None if pace is None else Pace(tuple(pace["parameters"]), pace["speed"]),
        }
        return cls(**fields | made)


@dataclass(frozen=True)
class Place:
    """Which process of which run this is, by the environment that the agent made."""

    plan: Plan
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
        """The place of this process; None if it was not started by copter."""
        path = os.environ.get("COPTER_RUN_FILE")
        if path is None:
            return None
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        numbers = (int(os.environ[f"COPTER_{name}"]) for name in ("RANK", "RANKS", "LOCAL_RANK", "NODE"))
        plan = Plan.from_dict(run["training"])
        return cls(plan, run["job"], run["type"], tuple(run["gpus"]), run["folder"], *numbers)


@dataclass(frozen=True)
class StepTimes:
    """Steps since the last report that were alike.

    Attributes
    ----------
    local_batch, count : int
        Examples on each GPU in one pass; how many steps.
    log_seconds : float
        Mean logarithm of the seconds of a step without accumulation: of its last pass, the one that
        synchronises.
    """

    local_batch: int
    count: int
    log_seconds: float


@dataclass(frozen=True)
class Report:
    """What a run says.

    Attributes
    ----------
    progress : float
        Of the whole job: steps at the initial batch size that its steps were worth.
    steps : int
        Of the whole job.
    running_seconds : float
        Since this run's first step began.
    times : tuple of StepTimes
        Since the last report that got through.
    squared_norm, variance : float or None
        Of the gradient: mu^2 and sigma^2 at the initial batch size; None while they are not known.
    batch_size : int
        Of the last step, whole.
    saved_progress : float
        Of the last checkpoint.
    figure : float or None
        The training script's own, such as its loss.
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
        """As it is posted."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The report of a dictionary that :meth:`as_dict` made."""
        return cls(**{**fields, "times": tuple(StepTimes(**one) for one in fields["times"])})


@dataclass(frozen=True)
class Orders:
    """What a report is answered with.

    Attributes
    ----------
    lease_seconds : float
        From now on, in place of the plan's.
    stop : bool
        Write a checkpoint and end: the run has no right to its GPUs any more.
    batch : Batch or None
        From now on; None for no change.
    """

    lease_seconds: float
    stop: bool = False
    batch: Batch | None = None

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The orders of an answer.

        Raises
        ------
        ValueError, TypeError, KeyError
            It is none.
        """
        if not isinstance(fields, dict):
            raise TypeError(f"orders are fields by their names, not {fields!r}")
        if (batch := fields.get("batch")) is not None:
            batch = Batch(**batch)
            batch.check()
        return cls(float(fields["lease_seconds"]), bool(fields["stop"]), batch)
