"""Jobs as they are handed in, the reader of workload files, and the scenario that a simulation plays.

A workload file is CSV with the columns ``name, time, application`` (times in seconds since the start), as
the authors of Sia, COpter and Pollux publish theirs.  Any of these may follow, in any order, and an empty
field is one that is not there:

- ``category``: the file's own word for the sort of job;
- ``kind, gpus, preemptible, reserved``: jobs that Sia adapts only in part (thesis section 3.3.4);
- ``batch_size, tuned_gpus``: what the job was tuned for, where a policy cannot adapt it (thesis 3.4.3);
  ``num_replicas`` is another name of the second one;
- ``min_gpus, max_gpus, max_batch_size``: limits of the user (thesis section 3.3.1);
- ``tenant``: user, group or virtual cluster;
- ``deadline``: seconds since the start by which the job is wanted, for policies that let it wait till then.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles.base import Profile
from copter.problems.reading import CsvRow, read_csv

Kind: TypeAlias = Literal["adaptive", "strong-scaling", "rigid"]
_REQUIRED = ("name", "time", "application")
_LIMITS = ("batch_size", "tuned_gpus", "min_gpus", "max_gpus", "max_batch_size")
_OPTIONAL = ("category", "kind", "gpus", "preemptible", "reserved", *_LIMITS, "tenant", "deadline")

_DIGITS = 9


@dataclass(frozen=True)
class JobSubmission:
    """A job as its user hands it in.

    Attributes
    ----------
    time : float
        Seconds since the start of the workload.
    category : str
        The file's own word for the sort of job, for reports only.
    application : str
        Name of the profile.
    kind : {"adaptive", "strong-scaling", "rigid"}
        Which of batch size and GPU count may be adapted: both, the count only, none.
    gpus : int, optional
        GPU count of a rigid job.
    preemptible : bool
        Whether the job may lose or change its GPUs once it runs.
    reserved : bool
        Whether it must be given GPUs in every round from its submission on.
    batch_size : int, optional
        Batch size of a job that is not adaptive, or that an adaptive one was tuned for; the profile's initial
        one by default.
    tuned_gpus : int, optional
        GPU count that a job of another kind asks for where a policy cannot adapt it.
    min_gpus, max_gpus, max_batch_size : int, optional
        Limits of the user (thesis section 3.3.1).
    tenant : str
        User, group or virtual cluster, where the trace names one.
    deadline : float, optional
        Seconds since the start by which the job is wanted; until then it may wait for cheaper hours.
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

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time) and self.time >= 0):
            raise ValueError(f"job {self.name!r}: time = {self.time}: must be finite and not negative")
        if self.kind not in get_args(Kind):
            raise ValueError(f"job {self.name!r}: kind = {self.kind!r}: must be one of {get_args(Kind)}")
        if (self.kind == "rigid") != (self.gpus is not None):
            raise ValueError(f"job {self.name!r}: gpus = {self.gpus}: a rigid job needs it, no other has it")
        for name in ("gpus", *_LIMITS):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"job {self.name!r}: {name} = {value}: must be at least 1")
        if self.deadline is not None and not self.time <= self.deadline < math.inf:
            raise ValueError(f"job {self.name!r}: deadline = {self.deadline}: must not lie before its time")
        if self.min_gpus is not None and self.max_gpus is not None and self.min_gpus > self.max_gpus:
            above = f"min_gpus = {self.min_gpus} is above max_gpus = {self.max_gpus}"
            raise ValueError(f"job {self.name!r}: {above}")


def read_workload(path: str | Path, applications: Collection[str] | None = None) -> list[JobSubmission]:
    """Jobs of a workload file, by time of submission.

    Parameters
    ----------
    applications : collection of str, optional
        Known applications; another one in the file is an error.

    Raises
    ------
    InputError
        A missing column or value, a time that is negative, NaN or no number, an unknown application, a
        duplicate name; names the file, the line and the field.
    """
    jobs: list[JobSubmission] = []
    seen: dict[str, int] = {}
    for row in read_csv(path, _REQUIRED):
        job = _submission(row)
        if job.name in seen:
            raise row.error("name", f"{job.name!r} is also on line {seen[job.name]}")
        if applications is not None and job.application not in applications:
            known = ", ".join(sorted(applications))
            raise row.error("application", f"{job.application!r} has no profile; there are: {known}")
        seen[job.name] = row.line
        jobs.append(job)
    return sorted(jobs, key=lambda job: job.time)


def write_workload(path: str | Path, jobs: Iterable[JobSubmission]) -> None:
    """Write jobs as a file that :func:`read_workload` reads back as they are."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_REQUIRED + _OPTIONAL)
        for job in jobs:
            flags = (str(job.preemptible).lower(), str(job.reserved).lower())
            counts = ["" if value is None else value for value in (getattr(job, name) for name in _LIMITS)]
            gpus = "" if job.gpus is None else job.gpus
            fixed = (job.name, job.time, job.application, job.category, job.kind, gpus)
            deadline = "" if job.deadline is None else job.deadline
            writer.writerow((*fixed, *flags, *counts, job.tenant, deadline))


def _submission(row: CsvRow) -> JobSubmission:
    kind = row.text("kind") or "adaptive"
    if kind not in get_args(Kind):
        raise row.error("kind", f"{kind!r} is none of {', '.join(get_args(Kind))}")
    gpus = _count(row, "gpus", "GPUs")
    counts: dict[str, int | None] = {name: _count(row, name, name.replace("_", " ")) for name in _LIMITS}
    replicas = _count(row, "num_replicas", "GPUs")
    if replicas is not None and counts["tuned_gpus"] is not None:
        raise row.error("num_replicas", "another name of tuned_gpus: a job has one of them")
    counts["tuned_gpus"] = replicas or counts["tuned_gpus"]
    least, most = counts["min_gpus"], counts["max_gpus"]
    if least is not None and most is not None and least > most:
        raise row.error("min_gpus", f"{least} is above max_gpus = {most}")
    time = row.amount("time")
    deadline = row.amount("deadline") if row.text("deadline") else None
    if deadline is not None and deadline < time:
        raise row.error("deadline", f"{deadline:g} lies before the job's time")
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
            **counts,
        )
    except ValueError as error:
        raise row.error("gpus", str(error)) from None


def _count(row: CsvRow, name: str, what: str) -> int | None:
    text = row.text(name)
    if not text:
        return None
    if not (text.isdecimal() and len(text) <= _DIGITS):
        raise row.error(name, f"{text[:40]!r} is not a number of {what}")
    if int(text) < 1:
        raise row.error(name, f"{text} must be at least 1")
    return int(text)


@dataclass(frozen=True)
class Scenario:
    """A cluster, jobs, and the profile of each application that they name."""

    cluster: Cluster
    jobs: list[JobSubmission]
    profiles: Mapping[str, Profile]
