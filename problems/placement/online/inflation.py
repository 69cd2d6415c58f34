"""The authors' protocol: tasks arrive until they would fill the cluster's GPUs 1.3 times.

The list is shuffled, so that each of its tasks comes once; then tasks are drawn from it with replacement.  A
list that asks for more than that already loses tasks at random.  The sum that is compared with 1.3 times the
GPUs has all GPUs of the tasks of the list, but one GPU's share of each task that is drawn.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent" (ATC 2023), section 6.1, and the simulator that they publish.
"""

from __future__ import annotations

import numpy as np

from copter.arrays import Ints
from copter.problems.placement.place import PlacementError
from copter.problems.placement.servers import Servers
from copter.problems.placement.tasks import Tasks

_INFLATION = 1.3
"""Demand at the end over the GPUs of the cluster."""


def arrivals(tasks: Tasks, servers: Servers, seed: int) -> Ints:
    """Kinds of the tasks in the order in which they come."""
    asked, target = tasks.asked, _INFLATION * servers.milli
    if not servers.milli:
        raise PlacementError("no server has GPUs: there is nothing that demand could be measured by")
    if not asked.worth[tasks.kind].any():
        raise PlacementError("no task asks for GPUs: demand never gets to a multiple of the cluster's")
    rng = np.random.default_rng(seed)
    order = tasks.kind[rng.permutation(len(tasks))]
    total = int(asked.worth[order].sum())
    if total > target:
        # In random order already: those at the end go.
        there = np.cumsum(asked.worth[order]) <= target
        return order[: int(np.argmin(there))]
    drawn: list[int] = []
    while total < target:
        kind = int(tasks.kind[rng.integers(len(tasks))])
        drawn.append(kind)
        total += int(asked.milli[kind])
    return np.concatenate([order, np.array(drawn, np.int64)])
