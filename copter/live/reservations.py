"""Reservations: nodes that for some time run only the jobs that ask for them.

To policies, the nodes of an active reservation are GPU types of their own: those of the type ``a100`` in the
reservation ``team`` are ``a100@team``.  Jobs of the reservation can run on these types only, and other jobs
on the other types only.  So a policy and its placer need not know of reservations.  Events, backends and
users see the type ``a100``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from copter.live.events import ReservationBegan, ReservationEnded, Reserved

MOST_SECONDS = 100 * 365.25 * 86400.0
"""Longest time from now to the end of a reservation, in seconds: 100 years."""
ReservationEvent: TypeAlias = Reserved | ReservationBegan | ReservationEnded


@dataclass(frozen=True)
class Reservation:
    """Nodes that only some jobs may use from `begin` until `end`, in seconds since the service first began.

    Attributes
    ----------
    nodes : tuple of (str, int)
        Type and number of each node.
    tenants : tuple of str or None
        Tenants whose jobs may ask for the reservation; None for all.  If it is empty, no job may: the nodes
        are free for maintenance.
    author : str
        Name of the token with which the reservation was made.
    status : {"planned", "active", "over"}
    """

    name: str
    nodes: tuple[tuple[str, int], ...]
    begin: float
    end: float
    tenants: tuple[str, ...] | None
    author: str
    status: Literal["planned", "active", "over"] = "planned"


def reservation_after(reservations: Mapping[str, Reservation], event: ReservationEvent) -> Reservation:
    """Return the reservation that an event makes or changes, as it is after the event.

    Raises
    ------
    ValueError
        If the reservation of the event was not made before.
    """
    if isinstance(event, Reserved):
        nodes = tuple((type, node) for type, node in event.nodes)
        tenants = None if event.tenants is None else tuple(event.tenants)
        return Reservation(event.name, nodes, event.begin, event.end, tenants, event.author)
    if event.name not in reservations:
        raise ValueError(f"reservation {event.name!r} was not made before")
    return replace(
        reservations[event.name], status="active" if isinstance(event, ReservationBegan) else "over"
    )


def present(reservations: Mapping[str, Reservation]) -> list[Reservation]:
    """Return the reservations that are planned or active."""
    return [one for one in reservations.values() if one.status != "over"]


def due(reservations: Mapping[str, Reservation], now: float) -> list[ReservationBegan | ReservationEnded]:
    """Return the events of the reservations that end or begin by the time `now`; ends come first."""
    there = present(reservations)
    return [
        *(ReservationEnded(time=now, name=one.name) for one in there if one.end <= now),
        *(
            ReservationBegan(time=now, name=one.name)
            for one in there
            if one.status == "planned" and one.begin <= now < one.end
        ),
    ]


def node_names(nodes: Iterable[tuple[str, int]]) -> str:
    """Return the names of nodes, for users."""
    return ", ".join(f"{type}-{node}" for type, node in nodes)


def policy_type(type: str, reservation: str | None) -> str:
    """Return the name by which policies know the GPUs of a type that are in a reservation, or in none."""
    return type if reservation is None else f"{type}@{reservation}"  # a type has no @ in its name


def real_type(type: str) -> str:
    """Return the GPU type of a type that policies know."""
    return type.partition("@")[0]


def by_real_type(gpus: Mapping[str, int]) -> Counter[str]:
    """Return numbers of GPUs by their real types, from those by the types that policies know."""
    counts: Counter[str] = Counter()
    for type, count in gpus.items():
        counts[real_type(type)] += count
    return counts
