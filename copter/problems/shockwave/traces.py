"""Jobs of a shared cluster whose batch size changes while they train, and the reader of the authors' traces.

A trace is a JSON list of jobs.  A job has ``arrival_s``, ``scale_factor`` (its constant number of GPUs),
``mode`` (``static``, ``accordion`` or ``gns``) and ``regimes_bs_nepochs_epochsec``: the batch size, number of
epochs and seconds per epoch of each regime, in order, for a run alone on the job's GPUs.  ``num_epochs`` must
be the sum of the regimes' epochs.

Source: Shockwave, section 5 (a regime is a configuration and its duration; a trajectory is a sequence of
regimes) and section 8.1 (workloads).  The files are ``derived_job_epochs/*.json`` of the authors' repository.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.errors import InputError
from copter.problems.cluster.workload import JobSubmission
from copter.problems.reading import JsonObject, read_json


class Mode(StrEnum):
    """Rule by which a job changes its batch size."""

    STATIC = "static"
    ACCORDION = "accordion"
    GNS = "gns"


@dataclass(frozen=True)
class Regime:
    """Epochs trained with one batch size. `epoch_seconds`: seconds per epoch on the job's GPUs."""

    batch_size: int
    epochs: int
    epoch_seconds: float

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size = {self.batch_size}: must be at least 1")
        if self.epochs < 1:
            raise ValueError(f"epochs = {self.epochs}: must be at least 1")
        if not 0 < self.epoch_seconds < math.inf:
            raise ValueError(f"epoch_seconds = {self.epoch_seconds}: must be finite and positive")


@dataclass(frozen=True)
class RegimeJob:
    """A training job with its real regimes.

    Its :attr:`submission` is the input of the user.  In the simulator, the job's profile is a
    :class:`.workloads.RegimeProfile`.

    `arrival`: seconds. `gpus`: number of GPUs; the job runs on all of them or not at all. `regimes`: the real
    regimes, in order; a scheduler knows only the regimes that have begun. `samples`: samples per epoch.
    """

    name: str
    arrival: float
    gpus: int
    mode: Mode
    regimes: tuple[Regime, ...]
    model: str = ""
    samples: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.arrival < math.inf:
            raise ValueError(f"arrival = {self.arrival}: must be finite and not negative")
        if self.gpus < 1:
            raise ValueError(f"gpus = {self.gpus}: must be at least 1")
        if self.samples < 1:
            raise ValueError(f"samples = {self.samples}: must be at least 1")
        if not self.regimes:
            raise ValueError("regimes: must be at least one")
        if self.mode is Mode.STATIC and len(self.regimes) > 1:
            raise ValueError(f"regimes = {len(self.regimes)}: must be 1 for a static job")

    def __hash__(self) -> int:  # forecasts look up each job in each round; a hash of all regimes is slow
        return hash(self.name)

    @property
    def submission(self) -> JobSubmission:
        """Submission of the user; the job has its own profile, with the name of the job."""
        return JobSubmission(self.name, self.arrival, str(self.mode), self.name, "rigid", self.gpus)

    @cached_property
    def epochs(self) -> int:
        """Total number of epochs."""
        return sum(regime.epochs for regime in self.regimes)

    @cached_property
    def seconds(self) -> float:
        """Run time alone on its GPUs ("exclusive" in the paper)."""
        return float(self.seconds_by_regime[-1])

    @cached_property
    def epochs_by_regime(self) -> Floats:
        """Completed epochs at the start of the job, and at the end of each regime."""
        return np.cumsum([0.0] + [float(regime.epochs) for regime in self.regimes])

    @cached_property
    def seconds_by_regime(self) -> Floats:
        """Seconds of run time at the start of the job, and at the end of each regime."""
        return np.cumsum([0.0] + [regime.epochs * regime.epoch_seconds for regime in self.regimes])


def write_jobs(path: str | Path, jobs: Iterable[RegimeJob]) -> None:
    """Write jobs as a trace for :func:`read_jobs`."""
    entries = [
        {
            "name": job.name,
            "arrival_s": job.arrival,
            "model": job.model,
            "mode": str(job.mode),
            "scale_factor": job.gpus,
            "num_epochs": job.epochs,
            "samples_per_epoch": job.samples,
            "regimes_bs_nepochs_epochsec": [[r.batch_size, r.epochs, r.epoch_seconds] for r in job.regimes],
        }
        for job in jobs
    ]
    Path(path).write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def read_jobs(path: str | Path) -> list[RegimeJob]:
    """Read a trace, in order of arrival.

    A job without a ``name`` is named by its position in the file: ``job-0``, ``job-1`` etc.
    """
    content = read_json(path)
    if not isinstance(content, list):
        raise InputError(path, "file", "must hold a list of jobs")
    jobs = [_job(JsonObject(path, entry, f"job {k}"), k) for k, entry in enumerate(content)]
    check_names(path, jobs)
    return sorted(jobs, key=lambda job: job.arrival)


def check_names(source: str | Path, jobs: Sequence[RegimeJob]) -> None:
    """Raise an error if two jobs have the same name."""
    seen: set[str] = set()
    for job in jobs:
        if job.name in seen:
            raise InputError(source, f"job {job.name!r}", "job names must be unique")
        seen.add(job.name)


def _job(record: JsonObject, k: int) -> RegimeJob:
    mode = record.get("mode", str)
    if mode not in set(Mode):
        raise record.error("mode", f"{mode!r}: must be one of {', '.join(Mode)}")
    name = "regimes_bs_nepochs_epochsec"
    regimes = tuple(
        _regime(record.path, f"{record.where}.{name}[{i}]", regime)
        for i, regime in enumerate(record.get(name, list))
    )
    try:
        job = RegimeJob(
            name=str(record.fields.get("name", f"job-{k}")),
            arrival=record.get("arrival_s", float),
            gpus=record.get("scale_factor", int),
            mode=Mode(mode),
            regimes=regimes,
            model=str(record.fields.get("model", "")),
            samples=record.get("samples_per_epoch", int),
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(record.path, record.where, str(error)) from None
    said = record.get("num_epochs", int)
    if said != job.epochs:
        raise record.error("num_epochs", f"{said}: must be {job.epochs}, the sum of the regimes' epochs")
    return job


def _regime(path: str | Path, where: str, entry: Any) -> Regime:
    if not isinstance(entry, list) or len(entry) != 3:
        raise InputError(path, where, f"{entry!r}: must be [batch size, epochs, seconds per epoch]")
    record = JsonObject(path, dict(zip(("batch size", "epochs", "seconds"), entry, strict=True)), where)
    values = record.get("batch size", int), record.get("epochs", int), record.get("seconds", float)
    try:
        return Regime(*values)
    except ValueError as error:
        raise InputError(path, where, str(error)) from None
