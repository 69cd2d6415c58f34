"""Submitted jobs, the reader of workload files, and the scenario that a simulation plays.

A workload file is CSV with the columns ``name, time, application`` (times in seconds since the start), as in
the files that the authors of Sia, COpter and Pollux published.  Any of the following columns may be added, in
any order.  An empty field counts as absent:

- ``category``: category of the job, in the file's terms;
- ``kind, gpus, preemptible, reserved``: jobs that Sia adapts only in part (thesis section 3.3.4);
- ``batch_size, tuned_gpus``: sizes for which the job was tuned, for policies that cannot adapt it (thesis
  3.4.3); ``num_replicas`` is another name of ``tuned_gpus``;
- ``min_gpus, max_gpus, max_batch_size``: limits of the user (thesis section 3.3.1);
- ``tenant``: user, group or virtual cluster;
- ``priority``: an integer; jobs with a larger priority come first under policies that know priorities;
- ``deadline``: time in seconds since the start by which the job should complete, for policies that may delay
  it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles.base import Profile
from copter.problems.reading import CsvRow, read_csv

Kind: TypeAlias = Literal["adaptive", "strong-scaling", "rigid"]
_REQUIRED = ("name", "time", "application")
_LIMITS = ("batch_size", "tuned_gpus", "min_gpus", "max_gpus", "max_batch_size")
_OPTIONAL = (
    "category",
    "kind",
    "gpus",
    "preemptible",
    "reserved",
    *_LIMITS,
    "tenant",
    "deadline",
    "priority",
)

_DIGITS = 9


@dataclass(frozen=True)
class JobSubmission:
    """A job as its user submits it.

    Attributes
    ----------
    name : str
        Name of the job.
    time : float
        Time of its submission in seconds since the start of the workload.
    category : str
        Category of the job in the file's terms, for reports only.
    application : str
        Name of the profile.
    kind : {"adaptive", "strong-scaling", "rigid"}
        What policies may adapt: batch size and GPU count, the count only, or neither.
    gpus : int, optional
        GPU count of a rigid job.
    preemptible : bool
        True if the job may lose or change its GPUs once it runs.
    reserved : bool
        True if the job must have GPUs in every round from its submission on.
    batch_size : int, optional
        Batch size of a job that is not adaptive, or the size for which an adaptive job was tuned; default:
        the profile's initial size.
    tuned_gpus : int, optional
        GPU count of a job that is not rigid, under a policy that cannot adapt the count.
    min_gpus, max_gpus, max_batch_size : int, optional
        Limits of the user (thesis section 3.3.1).
    tenant : str
        User, group or virtual cluster, if the trace has it.
    deadline : float, optional
        Time in seconds since the start by which the job should complete; a policy may let the job wait for
        cheaper hours if it can still complete by then.
    priority : int
        Jobs with a larger number come first under policies that know priorities, such as "queue".
    """

    name: str
    time: float
    category: str
    application: str
    kind: Kind = "adaptive"
    gpus: int | None = None
    preemptible: bool = True
    reserved: bool = False
    batch_size: int | None = None
    tuned_gpus: int | None = None
    min_gpus: int | None = None
    max_gpus: int | None = None
    max_batch_size: int | None = None
    tenant: str = ""
    deadline: float | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time) and self.time >= 0):
            raise ValueError(f"job {self.name!r}: time = {self.time}: must be finite and not negative")
        if self.kind not in get_args(Kind):
            raise ValueError(f"job {self.name!r}: kind = {self.kind!r}: must be one of {get_args(Kind)}")
        if (self.kind == "rigid") != (self.gpus is not None):
            raise ValueError(
                f"job {self.name!r}: gpus = {self.gpus}: must be given for rigid jobs and no others"
            )
        for name in ("gpus", *_LIMITS):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"job {self.name!r}: {name} = {value}: must be at least 1")
        if self.deadline is not None and not self.time <= self.deadline < math.inf:
            raise ValueError(f"job {self.name!r}: deadline = {self.deadline}: must not be before its time")
        if self.min_gpus is not None and self.max_gpus is not None and self.min_gpus > self.max_gpus:
            above = f"min_gpus = {self.min_gpus}: must be at most max_gpus = {self.max_gpus}"
            raise ValueError(f"job {self.name!r}: {above}")


def read_workload(path: str | Path, applications: Collection[str] | None = None) -> list[JobSubmission]:
    """Return the jobs of a workload file, by time of submission.

    Parameters
    ----------
    path : path
        CSV file, see the module.
    applications : collection of str, optional
        Known applications; any other application in the file is an error.

    Returns
    -------
    list of JobSubmission

    Raises
    ------
    InputError
        If a column or value is missing or invalid, an application is unknown, or a name occurs twice.  The
        message names the file, the line and the field.
    """
    jobs: list[JobSubmission] = []
    seen: dict[str, int] = {}
    for row in read_csv(path, _REQUIRED):
        job = _submission(row)
        if job.name in seen:
            raise row.error("name", f"{job.name!r}: must be unique; it is also on line {seen[job.name]}")
        if applications is not None and job.application not in applications:
            known = ", ".join(sorted(applications))
            raise row.error("application", f"{job.application!r}: must be one of {known}")
        seen[job.name] = row.line
        jobs.append(job)
    return sorted(jobs, key=lambda job: job.time)


def write_workload(path: str | Path, jobs: Iterable[JobSubmission]) -> None:
    """Write jobs to a file that :func:`read_workload` reads back unchanged."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_REQUIRED + _OPTIONAL)
        for job in jobs:
            flags = (str(job.preemptible).lower(), str(job.reserved).lower())
            counts = ["" if value is None else value for value in (getattr(job, name) for name in _LIMITS)]
            gpus = "" if job.gpus is None else job.gpus
            fixed = (job.name, job.time, job.application, job.category, job.kind, gpus)
            deadline = "" if job.deadline is None else job.deadline
            writer.writerow((*fixed, *flags, *counts, job.tenant, deadline, job.priority or ""))


def _submission(row: CsvRow) -> JobSubmission:
    kind = row.text("kind") or "adaptive"
    if kind not in get_args(Kind):
        raise row.error("kind", f"{kind!r}: must be one of {', '.join(get_args(Kind))}")
    gpus = _count(row, "gpus", "GPUs")
    counts: dict[str, int | None] = {name: _count(row, name, name.replace("_", " ")) for name in _LIMITS}
    replicas = _count(row, "num_replicas", "GPUs")
    if replicas is not None and counts["tuned_gpus"] is not None:
        raise row.error("num_replicas", "must be empty, because the job has tuned_gpus")
    counts["tuned_gpus"] = replicas or counts["tuned_gpus"]
    least, most = counts["min_gpus"], counts["max_gpus"]
    if least is not None and most is not None and least > most:
        raise row.error("min_gpus", f"{least}: must be at most max_gpus = {most}")
    time = row.amount("time")
    deadline = row.amount("deadline") if row.text("deadline") else None
    if deadline is not None and deadline < time:
        raise row.error("deadline", f"{deadline:g}: must not be before the job's time")
    priority = _priority(row)
    preemptible, reserved = row.flag("preemptible", default=True), row.flag("reserved", default=False)
    try:
        return JobSubmission(
            row.text("name"),
            time,
            row.text("category") or "training",
            row.text("application"),
            cast(Kind, kind),
            gpus,
            preemptible,
            reserved,
            tenant=row.text("tenant"),
            deadline=deadline,
            priority=priority,
            **cast(dict[str, Any], counts),
        )
    except ValueError as error:
        raise row.error("gpus", str(error)) from None


def _count(row: CsvRow, name: str, what: str) -> int | None:
    text = row.text(name)
    if not text:
        return None
    if not (text.isdecimal() and len(text) <= _DIGITS):
        raise row.error(name, f"{text[:40]!r}: must be a number of {what}")
    if int(text) < 1:
        raise row.error(name, f"{text}: must be at least 1")
    return int(text)


def _priority(row: CsvRow) -> int:
    text = row.text("priority")
    if not text:
        return 0
    if not (text.removeprefix("-").isdecimal() and len(text) <= _DIGITS):
        raise row.error("priority", f"{text[:40]!r}: must be an integer")
    return int(text)


@dataclass(frozen=True)
class Scenario:
    """A cluster, jobs, and the profile of each application of the jobs."""

    cluster: Cluster
    jobs: list[JobSubmission]
    profiles: Mapping[str, Profile]
