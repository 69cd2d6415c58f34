"""The events of a live cluster, from which the state of the service follows.

An event is in the journal before it is acted upon, so a service that is killed at any moment knows, when it
is started again, all that it had acknowledged and all that it had begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from copter.problems.cluster.workload import Kind

Ending: TypeAlias = Literal["completed", "failed", "cancelled"]
Place: TypeAlias = tuple[str, tuple[tuple[int, int], ...]]
"""GPU type; node and GPUs on it."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened at a time, in seconds since the service first began."""

    time: float

    def as_dict(self) -> dict[str, Any]:
        """Return the fields without the time."""
        fields = asdict(self)
        del fields["time"]
        return fields


@dataclass(frozen=True, kw_only=True)
class JobEvent(Event):
    """Something that happened to a job."""

    job: str


@dataclass(frozen=True, kw_only=True)
class Opened(Event):
    """The service began, for the first time or again: with a fresh policy.

    Attributes
    ----------
    policy, settings, kind : str, mapping, Kind
        Its name, its settings, and what it adapts at most.
    cluster : mapping
        The cluster's file.
    """

    policy: str
    settings: Mapping[str, Any]
    kind: Kind
    round_seconds: float | None
    cluster: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Submitted(JobEvent):
    """A job was handed in; `file` are the fields of its :class:`.files.JobFile`."""

    file: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Decided(Event):
    """The policy answered.

    Attributes
    ----------
    seen : int
        Number of the last event that it knew of.
    asked : float
        When it was asked.
    places : mapping of str to Place or None
        Jobs that have something else from now on.
    figures : mapping of str to float
        The policy's.
    policy_seconds, seconds : float
        That the policy took; and the whole round, until its answer was in the journal.
    sizes : mapping of str to int
        Nodes that the policy asks for.
    contention, weight : float
        As :class:`~copter.problems.cluster.jobs.Timer` had counted them when it was asked.
    error : str
        Why it has no answer; all jobs keep what they have.
    """

    seen: int
    asked: float
    places: Mapping[str, Place | None]
    figures: Mapping[str, float] = field(default_factory=dict)
    policy_seconds: float = 0.0
    seconds: float = 0.0
    sizes: Mapping[str, int] = field(default_factory=dict)
    contention: float = 0.0
    weight: float = 0.0
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Launched(JobEvent):
    """A run is about to be started.

    Attributes
    ----------
    hosts : tuple of str
        Names of its nodes.
    devices : tuple of tuple of int
        Its GPUs by their numbers on each node.
    """

    number: int
    place: Place
    hosts: tuple[str, ...]
    devices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Told(JobEvent):
    """A run is told to write a checkpoint and end."""

    number: int


@dataclass(frozen=True, kw_only=True)
class Ended(JobEvent):
    """A run ended."""

    number: int
    outcome: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Reported(JobEvent):
    """A run said how far it is; `report` are the fields of a :class:`.training.plan.Report`."""

    number: int
    report: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Closed(JobEvent):
    """A job is over."""

    ending: Ending
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class NodesChanged(Event):
    """The nodes that do not work are now these: type, number and reason."""

    down: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class Drained(Event):
    """A node is taken out of use, or (`back`) given back."""

    type: str
    node: int
    back: bool = False


@dataclass(frozen=True, kw_only=True)
class Noted(Event):
    """A remark for people, such as that an answer came late."""

    text: str
    job: str | None = None


KINDS: dict[str, type[Event]] = {
    cls.__name__: cls
    for cls in (
        Opened, Submitted, Decided, Launched, Told, Ended, Reported, Closed, NodesChanged, Drained, Noted,
    )
}  # fmt: skip


def made(kind: str, time: float, fields: Mapping[str, Any]) -> Event:
    """Make the event of a row of the journal."""
    return KINDS[kind](time=time, **fields)
