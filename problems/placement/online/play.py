"""Tasks that arrive one by one and stay: what share of the GPUs is allocated by the demand that has come.

A task that fits nowhere when it comes has come all the same, and is not tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.placement.online.policy import PlacementPolicy
from copter.problems.placement.place import Place, PlacementError

DEMANDS = tuple(range(10, 131, 10))
"""Demands, in percent of the cluster's GPUs, at which it is looked at what is allocated."""


@dataclass(frozen=True, eq=False)
class PlayedTasks:
    """What became of tasks that arrived.

    Attributes
    ----------
    kinds : (k,) ndarray
        Kind of each task.
    places : list of Place or None
        Where each runs.
    demand, allocated : (k,) ndarray
        After each task: GPUs asked for so far, and GPUs that tasks have; in percent of the cluster's.
    """

    kinds: Ints
    places: Sequence[Place | None]
    demand: Floats
    allocated: Floats

    def allocated_at(self, demand: float) -> float:
        """Percent of the GPUs that is allocated when so much has been asked for; NaN if it never was."""
        at = int(np.searchsorted(self.demand, demand))
        return float(self.allocated[at]) if at < self.demand.size else float("nan")

    def failures(self, groups: Sequence[str], demand: float) -> dict[str, float]:
        """Percent of the tasks of each group that found no place, of those that came up to a demand.

        Parameters
        ----------
        groups : sequence of str
            Group of each kind.
        """
        came: dict[str, list[bool]] = {}
        for kind, place in zip(self.kinds[self.demand <= demand], self.places, strict=False):
            came.setdefault(groups[kind], []).append(place is None)
        return {group: 100.0 * sum(failed) / len(failed) for group, failed in sorted(came.items())}


def play(policy: PlacementPolicy, arrivals: Ints) -> PlayedTasks:
    """Let tasks arrive, each placed when it comes.

    Parameters
    ----------
    arrivals : (k,) ndarray
        Kinds of the tasks.

    Raises
    ------
    PlacementError
        No server has GPUs: there is nothing that demand could be measured by.
    """
    if not policy.servers.milli:
        raise PlacementError("no server has GPUs: there is nothing that demand could be measured by")
    places = [policy.place(int(kind)) for kind in arrivals]
    worth = policy.known.asked.worth[arrivals]
    placed = np.array([place is not None for place in places])
    percent = 100.0 / float(policy.servers.milli)
    demand, allocated = (np.cumsum(worth), np.cumsum(worth * placed))
    return PlayedTasks(
        arrivals, places, demand.astype(np.float64) * percent, allocated.astype(np.float64) * percent
    )
