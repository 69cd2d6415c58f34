"""The authors' protocol: tasks arrive until their demand is 1.3 times the cluster's GPUs.

The list is shuffled, and each of its tasks arrives once; then tasks are drawn from it with replacement.  If
the list itself requests more than 1.3 times the GPUs, random tasks of the list are dropped.  In the sum that
is compared with 1.3 times the GPUs, a task of the list counts with all its GPUs, but a drawn task counts with
its share of one GPU only.

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
"""Final demand relative to the GPUs of the cluster."""


def arrivals(tasks: Tasks, servers: Servers, seed: int) -> Ints:
    """Return the kinds of the tasks in the order of their arrival."""
    asked, target = tasks.asked, _INFLATION * servers.milli
    if not servers.milli:
        raise PlacementError("servers: must have GPUs, by which demand is measured")
    if not asked.worth[tasks.kind].any():
        raise PlacementError("tasks: must request GPUs, by which demand is measured")
    rng = np.random.default_rng(seed)
    order = tasks.kind[rng.permutation(len(tasks))]
    total = int(asked.worth[order].sum())
    if total > target:
        # The order is random already, so drop tasks at the end.
        there = np.cumsum(asked.worth[order]) <= target
        return order[: int(np.argmin(there))]
    drawn: list[int] = []
    while total < target:
        kind = int(tasks.kind[rng.integers(len(tasks))])
        drawn.append(kind)
        total += int(asked.milli[kind])
    return np.concatenate([order, np.array(drawn, np.int64)])
