"""The events of a live cluster, from which the state of the service follows.

An event is written to the journal before it takes effect.  So a service that was killed at any moment and
starts again knows all requests that it acknowledged and all actions that it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from copter.extras import extra
from copter.live.files import ClusterFile, JobFile
from copter.live.training.plan import TrainingReport
from copter.problems.cluster.workload import Kind

with extra("live"):
    from pydantic import ConfigDict, Field, TypeAdapter

Ending: TypeAlias = Literal["completed", "failed", "cancelled"]
Place: TypeAlias = tuple[str, tuple[tuple[int, int], ...]]
"""GPU type, and pairs of a node and the number of GPUs on it."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """A change of the state, with its time in seconds since the service first began."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    time: Annotated[float, Field(allow_inf_nan=False)]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as values of JSON."""
        return dict(_CHECKS[type(self).__name__].dump_python(self, mode="json"))


@dataclass(frozen=True, kw_only=True)
class JobEvent(Event):
    """An event of one job."""

    job: str


@dataclass(frozen=True, kw_only=True)
class Opened(Event):
    """The service began, for the first time or again, with a new policy.

    Attributes
    ----------
    policy, settings, kind : str, mapping, Kind
        Name of the policy, its settings, and the largest kind of adaptation that it makes.
    cluster : ClusterFile
        The cluster's file.
    began : float
        Time at which the service first began, in seconds since the epoch.
    """

    policy: str
    settings: Mapping[str, Any]
    kind: Kind
    round_seconds: float | None
    cluster: ClusterFile
    began: Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class Submitted(JobEvent):
    """A job was submitted.

    Attributes
    ----------
    file : JobFile
        The job as its user submitted it.
    author : str
        Name of the token of the request; the owner of the job.
    index : int or None
        Number of the job in its array, from 0; None for a job without an array.
    contention, weight : float
        Sums of :class:`~copter.problems.cluster.jobs.Timer` at this time.
    """

    file: JobFile
    author: str = "admin"
    index: int | None = None
    contention: float = 0.0
    weight: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Decided(Event):
    """The policy decided.

    Attributes
    ----------
    seen : int
        Number of the last event that the policy has seen.
    asked : float
        Time of the call of the policy.
    places : mapping of str to Place or None
        The new place of each job whose place changes.
    figures : mapping of str to float
        Statistics of the policy.
    policy_seconds, seconds : float
        Running time of the policy, and of the whole round until its decision was in the journal.
    contention, weight : float
        Sums of :class:`~copter.problems.cluster.jobs.Timer` at the time of the call.
    error : str
        Reason why the policy made no decision; then all jobs keep their places.  Empty after a decision.
    """

    seen: int
    asked: float
    places: Mapping[str, Place | None]
    figures: Mapping[str, float] = field(default_factory=dict)
    policy_seconds: float = 0.0
    seconds: float = 0.0
    contention: float = 0.0
    weight: float = 0.0
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Launched(JobEvent):
    """A run is about to be started.

    Attributes
    ----------
    hosts : tuple of str
        Names of the run's nodes.
    devices : tuple of tuple of int
        Numbers of the run's GPUs on each node.
    """

    number: int
    place: Place
    hosts: tuple[str, ...]
    devices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Told(JobEvent):
    """A run was sent the signal to write a checkpoint and end."""

    number: int


@dataclass(frozen=True, kw_only=True)
class Ended(JobEvent):
    """A run ended.

    Attributes
    ----------
    exit_code : int or None
        Exit code of the first process that failed; if none failed, of all processes; None if unknown.
    """

    number: int
    outcome: str
    reason: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reported(JobEvent):
    """A run reported its progress."""

    number: int
    report: TrainingReport


@dataclass(frozen=True, kw_only=True)
class Closed(JobEvent):
    """A job ended; `author` is the name of the token of the request, empty if the service ended the job."""

    ending: Ending
    reason: str = ""
    author: str = ""


@dataclass(frozen=True, kw_only=True)
class NodesChanged(Event):
    """The set of failed nodes changed; `down` lists them all with type, number and reason."""

    down: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class Drained(Event):
    """A node was taken out of use or, with `back`, put back into use."""

    type: str
    node: int
    back: bool = False
    author: str = "admin"


@dataclass(frozen=True, kw_only=True)
class Noted(Event):
    """A remark for users, such as that a decision came late."""

    text: str
    job: str | None = None


KINDS: dict[str, type[Event]] = {
    cls.__name__: cls
    for cls in (
        Opened, Submitted, Decided, Launched, Told, Ended, Reported, Closed, NodesChanged, Drained,
        Noted,
    )
}  # fmt: skip

_CHECKS = {kind: TypeAdapter(cls) for kind, cls in KINDS.items()}


def made(kind: str, fields: Mapping[str, Any]) -> Event:
    """Return an event of the journal; raise ValidationError for other fields than those of its kind."""
    return _CHECKS[kind].validate_python(fields)
