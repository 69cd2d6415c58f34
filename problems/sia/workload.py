"""Job submissions, and the reader of workload files.

A workload file is CSV with the columns ``name, time, category, application``: the format of the authors' PAI
workloads (times in seconds since the start, sampled from Alibaba's PAI trace over 24 hours).  The columns
``kind, gpus, preemptible, reserved`` may follow, for jobs that Sia adapts only in part (thesis section
3.3.4).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO, TypeAlias, cast, get_args

from copter.errors import CopterError

Kind: TypeAlias = Literal["adaptive", "strong-scaling", "rigid"]
REQUIRED = ("name", "time", "category", "application")
OPTIONAL = ("kind", "gpus", "preemptible", "reserved")


class WorkloadError(CopterError, ValueError):
    """A workload file that cannot be used; names the file, the line and the field."""

    def __init__(self, path: str | Path, line: int, field: str, why: str) -> None:
        self.path, self.line, self.field = Path(path), line, field
        super().__init__(f"{path}, line {line}, {field}: {why}")


_DIGITS = 9


@dataclass(frozen=True)
class JobSubmission:
    """A job as its user hands it in.

    Attributes
    ----------
    name : str
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
    """

    name: str
    time: float
    category: str
    application: str
    kind: Kind = "adaptive"
    gpus: int | None = None
    preemptible: bool = True
    reserved: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time) and self.time >= 0):
            raise ValueError(f"job {self.name!r}: time = {self.time}: must be finite and not negative")
        if self.kind not in get_args(Kind):
            raise ValueError(f"job {self.name!r}: kind = {self.kind!r}: must be one of {get_args(Kind)}")
        if (self.kind == "rigid") != (self.gpus is not None):
            raise ValueError(f"job {self.name!r}: gpus = {self.gpus}: a rigid job needs it, no other has it")
        if self.gpus is not None and self.gpus < 1:
            raise ValueError(f"job {self.name!r}: gpus = {self.gpus}: must be at least 1")


def read_workload(path: str | Path, applications: Collection[str] | None = None) -> list[JobSubmission]:
    """Jobs of a workload file, by time of submission.

    Parameters
    ----------
    path : path
    applications : collection of str, optional
        Known applications; another one in the file is an error.

    Raises
    ------
    WorkloadError
        A missing column or value, a time that is negative, NaN or no number, an unknown application, a
        duplicate name; names the file, the line and the field.
    """
    jobs: list[JobSubmission] = []
    seen: dict[str, int] = {}
    with open(path, newline="", encoding="utf-8") as file:
        for line, row in _rows(path, file):
            job = _submission(path, line, row)
            if job.name in seen:
                raise WorkloadError(path, line, "name", f"{job.name!r} is also on line {seen[job.name]}")
            if applications is not None and job.application not in applications:
                known = ", ".join(sorted(applications))
                why = f"{job.application!r} has no profile; there are: {known}"
                raise WorkloadError(path, line, "application", why)
            seen[job.name] = line
            jobs.append(job)
    return sorted(jobs, key=lambda job: job.time)


def _rows(path: str | Path, file: TextIO) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Number of the line and fields of each row."""
    reader = csv.DictReader(file)
    try:
        missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
        if missing:
            raise WorkloadError(path, 1, missing[0], f"no such column; the file has {reader.fieldnames}")
        for row in reader:
            yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise WorkloadError(path, reader.line_num + 1, "row", f"not a CSV of text: {error}") from None


def write_workload(path: str | Path, jobs: Iterable[JobSubmission]) -> None:
    """Write jobs as a file that :func:`read_workload` reads back as they are."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(REQUIRED + OPTIONAL)
        for job in jobs:
            gpus = "" if job.gpus is None else job.gpus
            flags = (str(job.preemptible).lower(), str(job.reserved).lower())
            writer.writerow((job.name, job.time, job.category, job.application, job.kind, gpus, *flags))


def _submission(path: str | Path, line: int, row: dict[str, str | None]) -> JobSubmission:
    for field in REQUIRED:
        if not row[field]:
            raise WorkloadError(path, line, field, "is empty")
    try:
        time = float(row["time"] or "")
    except ValueError:
        raise WorkloadError(path, line, "time", f"{row['time']!r} is not a number of seconds") from None
    if not (math.isfinite(time) and time >= 0):
        raise WorkloadError(path, line, "time", f"{time} must be finite and not negative")
    gpus = row.get("gpus") or None
    if gpus is not None and not (gpus.isdecimal() and len(gpus) <= _DIGITS):
        raise WorkloadError(path, line, "gpus", f"{gpus!r} is not a number of GPUs")
    kind = row.get("kind") or "adaptive"
    if kind not in get_args(Kind):
        raise WorkloadError(path, line, "kind", f"{kind!r} is none of {', '.join(get_args(Kind))}")
    preemptible = _flag(path, line, "preemptible", row.get("preemptible"), default=True)
    reserved = _flag(path, line, "reserved", row.get("reserved"), default=False)
    texts = [cast(str, row[field]) for field in ("name", "category", "application")]
    count = int(gpus) if gpus else None
    try:
        return JobSubmission(
            texts[0], time, texts[1], texts[2], cast(Kind, kind), count, preemptible, reserved
        )
    except ValueError as error:
        raise WorkloadError(path, line, "gpus", str(error)) from None


def _flag(path: str | Path, line: int, field: str, text: str | None, *, default: bool) -> bool:
    if not text:
        return default
    if text.lower() not in ("true", "false", "1", "0"):
        raise WorkloadError(path, line, field, f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1")
