"""What places tasks as they come, and policies by name from the entry-point group ``copter.placement``.

A package declares what it has, and `copter run placement --policy` knows it::

    [project.entry-points."copter.placement"]
    my-policy = "my_package.my_policy:MyPolicy"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from copter.errors import CopterError, choices
from copter.installed import installed
from copter.kernels import kernel
from copter.problems.placement.occupancy import Fleet, Free, Most, take
from copter.problems.placement.servers import MILLI, MOST, MOST_GPUS, Servers
from copter.problems.placement.tasks import Kind, Tasks

GROUP = "copter.placement"


class PlacementError(CopterError, ValueError):
    """Something cannot be: a policy, servers, kinds of tasks, or what is asked of them."""


class Place(NamedTuple):
    """Where a task runs.

    Attributes
    ----------
    server : int
        Index in order of names.
    gpus : int
        Bits of its GPUs.
    """

    server: int
    gpus: int


class Policy(ABC):
    """Places each task when it comes, moves none, and knows only what tasks are like on average.

    Parameters
    ----------
    servers : Servers
        All free.
    known : Tasks
        What is known of the tasks that come: kinds and how frequent they are.  Arrivals are of these kinds.
    seed : int
        Of what a policy draws.
    """

    def __init__(self, servers: Servers, known: Tasks, seed: int = 0) -> None:
        check(servers, known.kinds)
        self.servers, self.known, self.most = servers, known, Most.of(servers)
        self.rng = np.random.default_rng(seed)
        self.free, self.fleet = Free.of(servers), Fleet.of(servers, known)

    def place(self, kind: int) -> Place | None:
        """Place a task of a kind; None if it fits nowhere.

        A policy places whatever fits, and takes what the task has.

        Raises
        ------
        PlacementError
            There is no such kind.
        """
        if not 0 <= kind < len(self.known.kinds):
            raise PlacementError(f"place: no kind {kind}: there are {len(self.known.kinds)}, from 0 on")
        place = self.choose(kind)
        if place is not None:
            _take(self.free, self.fleet, kind, place.server, place.gpus, 1)
        return place

    def leave(self, kind: int, place: Place) -> None:
        """Give back what a task had."""
        give_back(self.free, self.fleet, kind, place)

    @abstractmethod
    def choose(self, kind: int) -> Place | None:
        """Return where a task of a kind goes, if it fits anywhere."""


def check(servers: Servers, kinds: Sequence[Kind]) -> None:
    """Look whether servers and kinds can be.

    Raises
    ------
    PlacementError
        Names the server or the kind, and what is wrong with it.
    """
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


def give_back(free: Free, fleet: Fleet, kind: int, place: Place) -> None:
    """Give back what a task of a kind had at its place."""
    _take(free, fleet, kind, place.server, place.gpus, -1)


def policy_names() -> list[str]:
    """Names of all policies that are installed."""
    return list(installed(GROUP))


def make_policy(name: str, servers: Servers, known: Tasks, seed: int = 0) -> Policy:
    """Make a policy for servers that are free.

    Raises
    ------
    PlacementError
        There is no such policy.
    """
    there = installed(GROUP)
    if name not in there:
        raise PlacementError(f"no policy {name!r}: {choices(name, there)}")
    policy: Policy = there[name].load()(servers, known, seed)
    return policy


@kernel
def _take(free: Free, fleet: Fleet, kind: int, server: int, gpus: int, sign: int) -> None:
    take(free, fleet, kind, server, gpus, sign)
