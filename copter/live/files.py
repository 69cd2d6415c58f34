"""The two files that users write: a job (``job.toml``) and a cluster (``cluster.toml``).

Both are validated strictly.  For an unknown field, a value of another type or a value out of range, an error
names the field, and the file has no effect.  A job is submitted over HTTP with the same fields as JSON.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from copter.errors import CopterError
from copter.extras import extra
from copter.live.backends.base import LOG_BYTES
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.workload import JobSubmission, Kind

with extra("live"):
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

LONGEST_NAME = 63
"""Largest number of characters of a job's name."""
NAME = rf"^[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}$"
"""Pattern of job names, which become names of folders and of processes of backends."""
WORD = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$"
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""Types of pydantic's errors about an unknown field."""
_LONGEST = 4096
_MOST_PASSES = 1000
"""Largest number of passes in which one GPU may process a batch."""
Name = Annotated[str, Field(pattern=NAME)]
_Word = Annotated[str, Field(pattern=WORD)]
_Text = Annotated[str, Field(max_length=_LONGEST, pattern=r"^[^\x00]*$")]
"""A text for the operating system, which ends texts at a zero byte."""
_Positive = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]


class JobFileError(CopterError, ValueError):
    """A file of a job or a cluster cannot be read, or has an invalid field; the message names the field."""


class Strict(BaseModel):
    """A model that rejects unknown fields and values of other types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class JobFile(Strict):
    """A job as its user submits it.

    An elastic job trains with :mod:`copter.live.training`, so it can be stopped and continue on other GPUs.
    A rigid job may run any command.  The page "Running jobs" of the documentation describes the fields.
    """

    command: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=256, strict=False)]
    name: Name | None = None
    directory: _Text | None = None
    environment: Annotated[dict[Name, _Text], Field(max_length=256)] = {}
    kind: Kind = "rigid"
    gpus: _Count | None = None
    types: Annotated[tuple[_Word, ...], Field(max_length=64, strict=False)] = ()
    preemptible: bool | None = None
    application: _Word = "job"
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    work: _Positive | None = None
    seconds: _Positive = 3600.0
    batch_size: _Count | None = None
    max_batch_size: _Count | None = None
    max_local_batch: _Count | dict[_Word, _Count] | None = None
    min_gpus: _Count | None = None
    max_gpus: _Count | None = None
    tuned_gpus: _Count | None = None
    rule: Literal["adascale", "square-root"] = "adascale"
    checkpoint_seconds: Annotated[float, Field(ge=0.1, le=86400)] = 60.0
    restart_seconds: Annotated[float, Field(ge=0, le=86400)] = 10.0
    report_seconds: Annotated[float, Field(ge=0.05, le=3600)] = 30.0
    silence_seconds: Annotated[float, Field(gt=0, le=864000)] = 600.0
    after: Annotated[tuple[Name, ...], Field(max_length=1000, strict=False)] = ()
    time_limit_seconds: Annotated[float | None, Field(gt=0, le=1e9)] = None
    retries: Annotated[int, Field(ge=0, le=1000)] = 3

    @model_validator(mode="after")
    def _belongs(self) -> Self:
        if not self.command[0]:
            raise ValueError("command: must begin with the name of a program")
        if self.directory is not None and (
            not os.path.isabs(self.directory) or ".." in Path(self.directory).parts
        ):
            raise ValueError(f"directory = {self.directory!r}: must be absolute, without ..")
        if any(name.startswith("COPTER_") for name in self.environment):
            raise ValueError("environment: names that begin with COPTER_ are reserved for the service")
        if self.kind == "rigid":
            wrong = [name for name in _ELASTIC if getattr(self, name) is not None]
            if wrong:
                raise ValueError(f"{wrong[0]}: not for a rigid job; set kind, or use gpus")
            return self
        if self.gpus is not None:
            raise ValueError("gpus: only for a rigid job; use min_gpus, max_gpus and tuned_gpus")
        if self.work is None or self.batch_size is None:
            raise ValueError("work and batch_size: an elastic job needs both")
        if self.max_batch_size is not None and self.max_batch_size < self.batch_size:
            raise ValueError(f"max_batch_size = {self.max_batch_size}: must be at least batch_size")
        fits = self.max_local_batch
        least = min(fits.values(), default=None) if isinstance(fits, dict) else fits
        if least is not None and (self.max_batch_size or self.batch_size) > _MOST_PASSES * least:
            raise ValueError(
                f"max_local_batch = {least}: the largest batch must take at most {_MOST_PASSES} passes"
            )
        if self.silence_seconds < 3 * self.report_seconds:
            raise ValueError(
                f"silence_seconds = {self.silence_seconds:g}: must be at least 3 times report_seconds"
            )
        if self.min_gpus is not None and self.max_gpus is not None and self.min_gpus > self.max_gpus:
            raise ValueError(f"min_gpus = {self.min_gpus}: must be at most max_gpus")
        return self

    @property
    def elastic(self) -> bool:
        """True if the job trains with :mod:`copter.live.training`."""
        return self.kind != "rigid"

    def submission(self, name: str, time: float) -> JobSubmission:
        """Return the job as a submission for policies."""
        preemptible = self.elastic if self.preemptible is None else self.preemptible
        same: dict[str, Any] = {field: getattr(self, field) for field in _SUBMITTED}
        gpus = None if self.elastic else self.gpus or 1
        return JobSubmission(name, time, category="", gpus=gpus, preemptible=preemptible, **same)


_LIMITS = ("min_gpus", "max_gpus", "tuned_gpus")
_SUBMITTED = ("application", "kind", "priority", "batch_size", "max_batch_size", *_LIMITS)
"""Fields that a submission for policies also has."""
_ELASTIC = ("work", "batch_size", "max_batch_size", "max_local_batch", *_LIMITS)
"""Fields of elastic jobs only."""


class GpuNodes(Strict):
    """Nodes with one type of GPU."""

    type: _Word
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    nodes: Annotated[int, Field(ge=1, le=100_000)] = 1
    hosts: Annotated[tuple[_Word, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _counts(self) -> Self:
        names = len(set(self.hosts))
        if self.hosts and not len(self.hosts) == names == self.nodes:
            raise ValueError(f"hosts: {names} names: must be one for each of {self.nodes} nodes")
        return self

    def host(self, node: int) -> str:
        """Return the name of a node."""
        return self.hosts[node] if self.hosts else f"{self.type}-{node}"


class ClusterFile(Strict):
    """Nodes of a cluster, and settings of its service; the page "Running jobs" describes the fields."""

    gpus: Annotated[tuple[GpuNodes, ...], Field(min_length=1, max_length=64, strict=False)]
    options: dict[_Word, Any] = {}
    grace_seconds: Annotated[float, Field(gt=0, le=86400)] = 60.0
    lease_seconds: Annotated[float, Field(ge=1, le=864000)] = 600.0
    decision_seconds: Annotated[float | None, Field(gt=0, le=864000)] = None
    keep_jobs: Annotated[int, Field(ge=0, le=10_000_000)] = 1000
    log_bytes: Annotated[int, Field(ge=10_000, le=10**15)] = LOG_BYTES
    max_jobs: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [one.type for one in self.gpus]
        for what, listed in (("type", names), ("host", self.hosts)):
            twice = min((one for one, times in Counter(listed).items() if times > 1), default=None)
            if twice is not None:
                raise ValueError(f"gpus: {what} {twice!r}: must occur once")
        return self

    @property
    def all_nodes(self) -> list[tuple[str, int, int]]:
        """Type, number and number of GPUs of every node."""
        return [(one.type, node, one.gpus_per_node) for one in self.gpus for node in range(one.nodes)]

    @property
    def hosts(self) -> list[str]:
        """Names of all nodes."""
        return [one.host(node) for one in self.gpus for node in range(one.nodes)]

    def first_gpu(self, type: str, node: int) -> int:
        """Return the number of a node's first GPU if all nodes are on one machine, in their order."""
        before = takewhile(lambda one: one[:2] != (type, node), self.all_nodes)
        return sum(gpus for _, _, gpus in before)

    def cluster(self) -> Cluster:
        """Return the nodes as a cluster for policies."""
        return Cluster(GpuType(one.type, one.gpus_per_node, one.nodes) for one in self.gpus)


Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: str | Path, model: type[Model]) -> Model:
    """Read a file of a job or a cluster.

    Raises
    ------
    JobFileError
        If the file cannot be read, is not TOML, or has an invalid field; the message names the field.
    """
    try:
        with open(path, "rb") as file:
            fields = tomllib.load(file)
    except OSError as error:
        raise JobFileError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also a number with too many digits
        raise JobFileError(f"{path}: must be a TOML file: {error}") from None
    return checked(fields, model, str(path))


def checked(fields: Any, model: type[Model], where: str) -> Model:
    """Return the model of some fields; an error message names the field and the source `where`."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise JobFileError(f"{where}: {describe(error.errors())}") from None


def describe(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return one line that names the invalid fields and the reasons.

    An error of a list is left out if an item of it has an error, because invalid items count as missing.
    """
    said, there = [], list(errors)
    inside = {one["loc"][:end] for one in there for end in range(1, len(one["loc"]))}
    for one in islice((one for one in there if one["loc"] not in inside), 5):
        field = ".".join(str(part) for part in one["loc"] if part not in ("body", "query", "path"))
        text = str(one["msg"]).removeprefix("Value error, ")
        text = "there is no such field" if one["type"] in UNKNOWN else text
        said.append(f"{field}: {text}" if field else text)
    return "; ".join(said)
