"""The two files that people write: a job (``job.toml``) and a cluster (``cluster.toml``).

Both are read strictly: a field that is not known, of another type, or out of its range is an error that names
it, and nothing has happened.  A job is handed in over HTTP with the same fields as JSON.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from copter.errors import CopterError
from copter.extras import extra
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.workload import JobSubmission, Kind

with extra("live"):
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
"""Names of jobs: they name folders, and processes of backends."""
WORD = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$"
_LONGEST = 4096
_MOST_PASSES = 1000
"""Largest number of passes of a batch on one GPU."""
Name = Annotated[str, Field(pattern=NAME)]
_Word = Annotated[str, Field(pattern=WORD)]
_Text = Annotated[str, Field(max_length=_LONGEST)]
_Positive = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]


class JobFileError(CopterError, ValueError):
    """A file of a job or a cluster, or what it says, is wrong; says in which field."""


class Strict(BaseModel):
    """A model of which nothing unknown is taken, and no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class JobFile(Strict):
    """A job as its user hands it in.

    An elastic job trains with :mod:`copter.live.training`: it can be stopped and go on with other GPUs.  A
    rigid one is any command.
    """

    command: Annotated[
        tuple[_Text, ...],
        Field(min_length=1, max_length=256, strict=False, description="Program, arguments."),
    ]
    name: Annotated[Name | None, Field(description="Made up if it is not given.")] = None
    directory: Annotated[
        _Text | None, Field(description="In which the command runs; absolute. The job's folder if not given.")
    ] = None
    environment: Annotated[dict[Name, _Text], Field(max_length=256)] = {}
    kind: Annotated[Kind, Field(description="What may be adapted: batch size and GPUs, GPUs, nothing.")] = (
        "rigid"
    )
    gpus: Annotated[_Count | None, Field(description="Of a rigid job; 1 if not given.")] = None
    types: Annotated[
        tuple[_Word, ...],
        Field(max_length=64, strict=False, description="GPU types that run it; all if empty."),
    ] = ()
    preemptible: Annotated[
        bool | None, Field(description="May lose its GPUs; not for rigid jobs if not given.")
    ] = None
    reserved: Annotated[bool, Field(description="Is given GPUs in every round.")] = False
    application: Annotated[
        _Word, Field(description="Which kind of training it is; slots are paced by its measured profile.")
    ] = "job"
    tenant: Annotated[str, Field(max_length=63, pattern=r"^[^\x00-\x1f]*$")] = ""
    work: Annotated[
        _Positive | None,
        Field(description="Steps at the initial batch size until an elastic job is trained."),
    ] = None
    seconds: Annotated[
        _Positive, Field(description="How long a rigid job is thought to take; for policies only.")
    ] = 3600.0
    batch_size: Annotated[_Count | None, Field(description="The user's own; the one to begin with.")] = None
    max_batch_size: _Count | None = None
    max_local_batch: Annotated[
        _Count | dict[_Word, _Count] | None,
        Field(
            description="Examples that fit on one GPU; or on one of each type, the largest batch on others."
        ),
    ] = None
    min_gpus: _Count | None = None
    max_gpus: _Count | None = None
    tuned_gpus: Annotated[_Count | None, Field(description="What a policy that adapts nothing gives.")] = None
    rule: Literal["adascale", "square-root"] = "adascale"
    checkpoint_seconds: Annotated[
        float, Field(ge=0.1, le=86400, description="A checkpoint is never older.")
    ] = 60.0
    restart_seconds: Annotated[
        float, Field(ge=0, le=86400, description="A restart is thought to take this, until it is measured.")
    ] = 10.0
    report_seconds: Annotated[float, Field(ge=0.05, le=3600)] = 30.0
    silence_seconds: Annotated[
        float, Field(gt=0, le=864000, description="An elastic job that says nothing for so long has failed.")
    ] = 600.0
    retries: Annotated[int, Field(ge=0, le=1000, description="Failures in a row before it is given up.")] = 3
    options: Annotated[
        dict[Name, _Text], Field(max_length=32, description="For the backend: account, partition, time.")
    ] = {}

    @field_validator("command", "environment", "directory", "options")
    @classmethod
    def _no_zeros(cls, value: Any) -> Any:
        texts = [value] if isinstance(value, str) else list(value or ())
        texts += list(value.values()) if isinstance(value, dict) else []
        if any("\0" in text for text in texts):
            raise ValueError("holds a zero byte")
        return value

    @model_validator(mode="after")
    def _belongs(self) -> Self:
        if not self.command[0]:
            raise ValueError("command: the program has no name")
        if self.directory is not None and (
            not os.path.isabs(self.directory) or ".." in Path(self.directory).parts
        ):
            raise ValueError(f"directory = {self.directory!r}: must be absolute, without ..")
        if any(name.startswith("COPTER_") for name in self.environment):
            raise ValueError("environment: names with COPTER_ are the service's own")
        if self.kind == "rigid":
            wrong = [name for name in _ELASTIC if getattr(self, name) is not None]
            if wrong:
                raise ValueError(f"{wrong[0]}: a rigid job has none; set kind, or gpus")
            return self
        if self.gpus is not None:
            raise ValueError("gpus: only a rigid job has it; see min_gpus, max_gpus and tuned_gpus")
        if self.work is None or self.batch_size is None:
            raise ValueError("work and batch_size: an elastic job needs both")
        if self.max_batch_size is not None and self.max_batch_size < self.batch_size:
            raise ValueError(f"max_batch_size = {self.max_batch_size}: is below batch_size")
        fits = self.max_local_batch
        least = min(fits.values(), default=None) if isinstance(fits, dict) else fits
        if least is not None and (self.max_batch_size or self.batch_size) > _MOST_PASSES * least:
            raise ValueError(
                f"max_local_batch = {least}: the largest batch would take over {_MOST_PASSES} passes"
            )
        if self.silence_seconds < 3 * self.report_seconds:
            raise ValueError(f"silence_seconds = {self.silence_seconds:g}: is below 3 times report_seconds")
        if self.min_gpus is not None and self.max_gpus is not None and self.min_gpus > self.max_gpus:
            raise ValueError(f"min_gpus = {self.min_gpus}: is above max_gpus")
        return self

    @property
    def elastic(self) -> bool:
        """Whether it trains with :mod:`copter.live.training`."""
        return self.kind != "rigid"

    def submission(self, name: str, time: float) -> JobSubmission:
        """The job as policies know it."""
        preemptible = self.elastic if self.preemptible is None else self.preemptible
        return JobSubmission(
            name,
            time,
            "",
            self.application,
            self.kind,
            None if self.elastic else self.gpus or 1,
            preemptible,
            self.reserved,
            self.batch_size,
            self.tuned_gpus,
            self.min_gpus,
            self.max_gpus,
            self.max_batch_size,
            self.tenant,
        )


_ELASTIC = ("work", "batch_size", "max_batch_size", "max_local_batch", "min_gpus", "max_gpus", "tuned_gpus")


class GpuNodes(Strict):
    """Nodes of one kind of GPU."""

    type: _Word
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    nodes: Annotated[int, Field(ge=1, le=100_000)] = 1
    hosts: Annotated[
        tuple[_Word, ...],
        Field(strict=False, description="Names that the backend knows; TYPE-0, ... if empty."),
    ] = ()
    max_nodes: Annotated[
        int | None, Field(ge=1, le=100_000, description="To which a policy may add nodes.")
    ] = None

    @model_validator(mode="after")
    def _counts(self) -> Self:
        most = self.max_nodes or self.nodes
        if most < self.nodes:
            raise ValueError(f"max_nodes = {most}: is below nodes = {self.nodes}")
        if self.hosts and (len(self.hosts) != most or len(set(self.hosts)) != most):
            raise ValueError(f"hosts: {len(set(self.hosts))} names for {most} nodes")
        return self

    def host(self, node: int) -> str:
        """Name of a node."""
        return self.hosts[node] if self.hosts else f"{self.type}-{node}"


class PaceFile(Strict):
    """Slots that stand for GPUs: see :mod:`copter.live.training.pacing`."""

    speed: Annotated[float, Field(gt=0, le=1e6, description="Times quicker than measured.")] = 1.0


class ClusterFile(Strict):
    """A cluster: which GPUs there are, and how its service behaves."""

    gpus: Annotated[tuple[GpuNodes, ...], Field(min_length=1, max_length=64, strict=False)]
    pace: PaceFile | None = None
    options: Annotated[dict[_Word, Any], Field(description="Of the backend.")] = {}
    grace_seconds: Annotated[
        float, Field(gt=0, le=86400, description="From the notice to stop until processes are killed.")
    ] = 60.0
    lease_seconds: Annotated[
        float, Field(ge=1, le=864000, description="How long a job goes on that nobody answers.")
    ] = 600.0
    keep_jobs: Annotated[
        int,
        Field(ge=0, le=10_000_000, description="Jobs that are over whose folders are kept, the last ones."),
    ] = 1000
    max_jobs: Annotated[
        int, Field(ge=1, le=1_000_000, description="That are not over; more are refused.")
    ] = 10_000

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [one.type for one in self.gpus]
        hosts = [one.host(node) for one in self.gpus for node in range(one.max_nodes or one.nodes)]
        for what, listed in (("type", names), ("host", hosts)):
            twice = (
                {one for one in listed if listed.count(one) > 1} if len(set(listed)) < len(listed) else None
            )
            if twice:
                raise ValueError(f"gpus: two have the {what} {sorted(twice)[0]!r}")
        return self

    def cluster(self) -> Cluster:
        """The nodes, as policies see them."""
        return Cluster(GpuType(one.type, one.gpus_per_node, one.nodes) for one in self.gpus)


Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: str | Path, model: type[Model]) -> Model:
    """Read a file of a job or a cluster.

    Raises
    ------
    JobFileError
        The file cannot be read, is no TOML, or has an invalid field, which the error names.
    """
    try:
        with open(path, "rb") as file:
            fields = tomllib.load(file)
    except OSError as error:
        raise JobFileError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise JobFileError(f"{path}: is no TOML: {error}") from None
    return checked(fields, model, str(path))


def checked(fields: Any, model: type[Model], where: str) -> Model:
    """Return the model of some fields; an error names the field and `where` it is from."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise JobFileError(f"{where}: {describe(error.errors())}") from None


def describe(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return in one line which fields are wrong, and why."""
    said = []
    for one in islice(errors, 5):
        field = ".".join(str(part) for part in one["loc"] if part not in ("body", "query", "path"))
        text = str(one["msg"]).removeprefix("Value error, ")
        text = "there is no such field" if one["type"] == "extra_forbidden" else text
        said.append(f"{field}: {text}" if field else text)
    return "; ".join(said)
