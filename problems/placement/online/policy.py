"""Policies that place tasks as they come, found by name from the entry-point group ``copter.placement``.

A package declares what it has, and `copter run placement --policy` knows it::

    [project.entry-points."copter.placement"]
    my-policy = "my_package.my_policy:MyPolicy"
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from copter.errors import choices
from copter.installed import installed
from copter.problems.placement.occupancy import Fleet, Free, Most
from copter.problems.placement.place import Place, PlacementError, check, give_back, take_place
from copter.problems.placement.servers import Servers
from copter.problems.placement.tasks import Tasks

_GROUP = "copter.placement"


class PlacementPolicy(ABC):
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
            take_place(self.free, self.fleet, kind, place)
        return place

    def leave(self, kind: int, place: Place) -> None:
        """Give back what a task had."""
        give_back(self.free, self.fleet, kind, place)

    @abstractmethod
    def choose(self, kind: int) -> Place | None:
        """Return where a task of a kind goes, if it fits anywhere."""


def policy_names() -> list[str]:
    """Names of all policies that are installed."""
    return list(installed(_GROUP))


def make_policy(name: str, servers: Servers, known: Tasks, seed: int = 0) -> PlacementPolicy:
    """Make a policy for servers that are free.

    Raises
    ------
    PlacementError
        There is no such policy.
    """
    there = installed(_GROUP)
    if name not in there:
        raise PlacementError(f"no policy {name!r}: {choices(name, there)}")
    policy: PlacementPolicy = there[name].load()(servers, known, seed)
    return policy
