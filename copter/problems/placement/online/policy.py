"""Policies that place tasks on arrival, by name from the entry-point group ``copter.placement``.

An installed package declares its policies, which `copter run placement --policy` then accepts::

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
    """A policy that places each task when it arrives and moves none; it knows only the frequencies of kinds.

    Parameters
    ----------
    servers : Servers
        The servers, all free.
    known : Tasks
        Kinds of the tasks and their frequencies.  Arriving tasks are of these kinds.
    seed : int
        Seed of the policy's random draws.
    """

    def __init__(self, servers: Servers, known: Tasks, seed: int = 0) -> None:
        check(servers, known.kinds)
        self.servers, self.known, self.most = servers, known, Most.of(servers)
        self.rng = np.random.default_rng(seed)
        self.free, self.fleet = Free.of(servers), Fleet.of(servers, known)

    def place(self, kind: int) -> Place | None:
        """Place a task of a kind and take its capacity; return None if it fits nowhere.

        A policy must place every task that fits.

        Raises
        ------
        PlacementError
            If there is no such kind.
        """
        if not 0 <= kind < len(self.known.kinds):
            raise PlacementError(f"place: kind = {kind}: must be in [0, {len(self.known.kinds)})")
        place = self.choose(kind)
        if place is not None:
            take_place(self.free, self.fleet, kind, place)
        return place

    def leave(self, kind: int, place: Place) -> None:
        """Free the capacity of a task."""
        give_back(self.free, self.fleet, kind, place)

    @abstractmethod
    def choose(self, kind: int) -> Place | None:
        """Return a place for a task of a kind; None only if it fits nowhere."""


def policy_names() -> list[str]:
    """Return the names of all installed policies."""
    return list(installed(_GROUP))


def make_policy(name: str, servers: Servers, known: Tasks, seed: int = 0) -> PlacementPolicy:
    """Make a policy for free servers.

    Parameters
    ----------
    name : str
        Name of an installed policy.
    servers, known, seed
        As in :class:`PlacementPolicy`.

    Raises
    ------
    PlacementError
        If there is no such policy.
    """
    there = installed(_GROUP)
    if name not in there:
        raise PlacementError(f"unknown policy {name!r}: {choices(name, there)}")
    policy: PlacementPolicy = there[name].load()(servers, known, seed)
    return policy
