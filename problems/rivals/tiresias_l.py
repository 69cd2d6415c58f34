"""Tiresias-L asked at events: :mod:`.tiresias` without rounds, for traces of months.

A job begins in the first queue and falls to the next when its attained service, GPUs times seconds, reaches
that queue's limit; that is an event.  Earlier queues go first, and within one the job that entered it
first; what does not fit is passed over.

Source: Gu et al., Tiresias (NSDI 2019), discretised two-dimensional LAS; AFS compares with it (section 5.1)
and names no limits: those of :mod:`.tiresias` are used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from copter.problems.afs.allocation import first_shares
from copter.problems.afs.elastic import SharePolicy
from copter.problems.afs.roster import Pool
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind
from copter.problems.rivals.tiresias import LIMITS

_ROUNDING = 1e-6


class TiresiasL(SharePolicy):
    """The policy.

    Parameters
    ----------
    limits : sequence of float
        GPU-seconds at which a job leaves each queue but the last, ascending.
    seed : int
        Nothing is drawn.
    """

    name = "tiresias-l"
    watch = ("ran",)
    kind: Kind = "rigid"

    def __init__(self, *, limits: Sequence[float] = LIMITS, seed: int = 0) -> None:
        super().__init__(seed=seed)
        if not limits or list(limits) != sorted(set(limits)):
            raise ValueError(f"limits = {limits}: must be ascending")
        self._limits = np.array([*limits, np.inf])

    def shares(self, pool: Pool, now: ClusterState) -> NDArray[np.int64]:  # noqa: D102
        rows = pool.rows
        service = rows["ran"] * rows["request"] + _ROUNDING
        queue = np.searchsorted(self._limits, service, side="right")
        fell = queue > rows["units"]
        entered = np.where(fell, now.time, rows["since"])
        self.roster.rows["units"][pool.slots] = queue
        self.roster.rows["since"][pool.slots] = entered
        count, _ = first_shares(rows["request"], pool.order(queue, entered), pool.gpus)
        falls = (self._limits[queue] - service) / rows["request"]
        next_fall = falls[count > 0].min(initial=np.inf)
        if np.isfinite(next_fall):
            now.wake(now.time + float(next_fall) + _ROUNDING)
        return count
