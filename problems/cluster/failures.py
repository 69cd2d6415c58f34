"""Failures of nodes, drawn before a simulation from their mean time between failures.

A node fails after an exponential time with the given mean, is away for a time of its own, and so on; nodes
are independent.  What a failure does to jobs is in :class:`.parts.NodeFailure`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from copter.problems.cluster.cluster import GpuType
from copter.problems.cluster.parts import NodeFailure


def draw_failures(
    types: Iterable[GpuType],
    hours: float,
    rng: np.random.Generator,
    *,
    mean_hours: float,
    repair_hours: float = 1.0,
) -> list[NodeFailure]:
    """Failures of all nodes over a time.

    Parameters
    ----------
    types : iterable of GpuType
    hours : float
        Failures after it are left out.
    mean_hours : float
        Mean time from the repair of a node to its next failure.
    repair_hours : float
        Mean of the exponential time that a repair takes.

    Returns
    -------
    list of NodeFailure
        By time; a node that is away does not fail.

    Raises
    ------
    ValueError
        A time is not positive, or not finite.
    """
    for name, value in (("hours", hours), ("mean_hours", mean_hours), ("repair_hours", repair_hours)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} = {value}: must be positive and finite")
    failures: list[NodeFailure] = []
    for type in types:
        for node in range(type.nodes):
            time = float(rng.exponential(mean_hours))
            while time < hours:
                away = float(rng.exponential(repair_hours))
                failures.append(NodeFailure(3600.0 * time, type.name, node, 3600.0 * away))
                time += away + float(rng.exponential(mean_hours))
    return sorted(failures, key=lambda one: one.time)
