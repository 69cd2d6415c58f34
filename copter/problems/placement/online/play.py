"""Tasks that arrive one by one and stay: the share of allocated GPUs by the demand so far.

A task that fits nowhere when it arrives still counts in the demand, and is not tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.placement.online.policy import PlacementPolicy
from copter.problems.placement.place import Place, PlacementError

DEMANDS = tuple(range(10, 131, 10))
"""Demands, in percent of the cluster's GPUs, at which the allocation is recorded."""


@dataclass(frozen=True, eq=False)
class PlayedTasks:
    """Outcome of tasks that arrived.

    Attributes
    ----------
    kinds : (k,) ndarray
        Kind of each task.
    places : list of Place or None
        Place of each task; None if it found no place.
    demand, allocated : (k,) ndarray
        After each arrival: GPUs requested so far, and GPUs allocated, in percent of the cluster's GPUs.
    """

    kinds: Ints
    places: Sequence[Place | None]
    demand: Floats
    allocated: Floats

    def allocated_at(self, demand: float) -> float:
        """Return the percentage of allocated GPUs at a demand in percent; NaN if it was not reached."""
        at = int(np.searchsorted(self.demand, demand))
        return float(self.allocated[at]) if at < self.demand.size else float("nan")

    def failures(self, groups: Sequence[str], demand: float) -> dict[str, float]:
        """Return the percentage of tasks without a place by group, among arrivals up to a demand.

        Parameters
        ----------
        groups : sequence of str
            Group of each kind.
        demand : float
            Demand in percent of the cluster's GPUs.
        """
        came: dict[str, list[bool]] = {}
        for kind, place in zip(self.kinds[self.demand <= demand], self.places, strict=False):
            came.setdefault(groups[kind], []).append(place is None)
        return {group: 100.0 * sum(failed) / len(failed) for group, failed in sorted(came.items())}


def play(policy: PlacementPolicy, arrivals: Ints) -> PlayedTasks:
    """Play arriving tasks, each of which the policy places at once.

    Parameters
    ----------
    policy : PlacementPolicy
        A new policy.
    arrivals : (k,) ndarray
        Kinds of the tasks, in order of arrival.

    Raises
    ------
    PlacementError
        If no server has GPUs, by which demand is measured.
    """
    if not policy.servers.milli:
        raise PlacementError("servers: must have GPUs, by which demand is measured")
    places = [policy.place(int(kind)) for kind in arrivals]
    worth = policy.known.asked.worth[arrivals]
    placed = np.array([place is not None for place in places])
    percent = 100.0 / float(policy.servers.milli)
    demand, allocated = (np.cumsum(worth), np.cumsum(worth * placed))
    return PlayedTasks(
        arrivals, places, demand.astype(np.float64) * percent, allocated.astype(np.float64) * percent
    )
