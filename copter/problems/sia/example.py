"""Example of Sia as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.sia.policy import SiaPolicy


def example() -> SiaPolicy:
    """Return an example with a small cluster: `copter check copter.problems.sia.example:example`."""
    return SiaPolicy(Cluster([GpuType("T4", 4, 4), GpuType("A100", 8, 2)]))
