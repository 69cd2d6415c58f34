"""The place of a task, and checks of servers and kinds of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from copter.compile.kernels import kernel
from copter.errors import CopterError
from copter.problems.placement.occupancy import Fleet, Free, take
from copter.problems.placement.servers import MILLI, MOST, MOST_GPUS, Servers
from copter.problems.placement.tasks import TaskKind


class PlacementError(CopterError, ValueError):
    """An argument is invalid."""


class Place(NamedTuple):
    """Place of a task: `server` is the index of its server in order of names, `gpus` the bit set of GPUs."""

    server: int
    gpus: int


def check(servers: Servers, kinds: Sequence[TaskKind]) -> None:
    """Raise PlacementError if servers or kinds are invalid."""
    if not len(servers):
        raise PlacementError("servers: must not be empty")
    if len(set(servers.names)) < len(servers):
        twice = next(name for name, many in Counter(servers.names).items() if many > 1)
        raise PlacementError(f"servers: {twice!r}: must occur once")
    for what, most in (("cpu", MOST), ("memory", MOST), ("gpus", MOST_GPUS)):
        each = getattr(servers, what)
        if each.shape != (len(servers),):
            raise PlacementError(f"servers: {what} of shape {each.shape}: must be ({len(servers)},)")
        if each.min() < 0 or each.max() > most:
            name = servers.names[int(np.flatnonzero((each < 0) | (each > most))[0])]
            raise PlacementError(f"servers: {what} of {name!r} must be from 0 to {most:,}")
    for number, kind in enumerate(kinds):
        if not (0 <= kind.cpu <= MOST and 0 <= kind.memory <= MOST and kind.gpus >= 0):
            raise PlacementError(f"kind {number}: {kind}: amounts must be from 0 to {MOST:,}")
        if kind.gpus and not 0 < kind.milli <= MILLI:
            raise PlacementError(f"kind {number}: milli = {kind.milli}: must be from 1 to {MILLI}")


def take_place(free: Free, fleet: Fleet, kind: int, place: Place) -> None:
    """Take the capacity of a task of a kind at its place."""
    _take(free, fleet, kind, place.server, place.gpus, 1)


def give_back(free: Free, fleet: Fleet, kind: int, place: Place) -> None:
    """Free the capacity of a task of a kind at its place."""
    _take(free, fleet, kind, place.server, place.gpus, -1)


@kernel
def _take(free: Free, fleet: Fleet, kind: int, server: int, gpus: int, sign: int) -> None:
    take(free, fleet, kind, server, gpus, sign)
