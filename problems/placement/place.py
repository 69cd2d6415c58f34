"""The place of a task, and what servers and kinds of tasks may be."""

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
    """Something cannot be: a policy, servers, kinds of tasks, or what is asked of them."""


class Place(NamedTuple):
    """Place of a task. `server`: index in order of names. `gpus`: bits of its GPUs."""

    server: int
    gpus: int


def check(servers: Servers, kinds: Sequence[TaskKind]) -> None:
    """Look whether servers and kinds can be."""
    if not len(servers):
        raise PlacementError("servers: there are none")
    if len(set(servers.names)) < len(servers):
        twice = next(name for name, many in Counter(servers.names).items() if many > 1)
        raise PlacementError(f"servers: {twice!r} is there twice")
    for what, most in (("cpu", MOST), ("memory", MOST), ("gpus", MOST_GPUS)):
        each = getattr(servers, what)
        if each.shape != (len(servers),):
            raise PlacementError(f"servers: {what} has shape {each.shape} for {len(servers)} servers")
        if each.min() < 0 or each.max() > most:
            name = servers.names[int(np.flatnonzero((each < 0) | (each > most))[0])]
            raise PlacementError(f"servers: {what} of {name!r} must be from 0 to {most:,}")
    for number, kind in enumerate(kinds):
        if not (0 <= kind.cpu <= MOST and 0 <= kind.memory <= MOST and kind.gpus >= 0):
            raise PlacementError(f"kind {number}: {kind}: amounts must be from 0 to {MOST:,}")
        if kind.gpus and not 0 < kind.milli <= MILLI:
            raise PlacementError(f"kind {number}: milli = {kind.milli}: must be from 1 to {MILLI}")


def take_place(free: Free, fleet: Fleet, kind: int, place: Place) -> None:
    """Take what a task of a kind has at its place."""
    _take(free, fleet, kind, place.server, place.gpus, 1)


def give_back(free: Free, fleet: Fleet, kind: int, place: Place) -> None:
    """Give back what a task of a kind had at its place."""
    _take(free, fleet, kind, place.server, place.gpus, -1)


@kernel
def _take(free: Free, fleet: Fleet, kind: int, server: int, gpus: int, sign: int) -> None:
    take(free, fleet, kind, server, gpus, sign)
