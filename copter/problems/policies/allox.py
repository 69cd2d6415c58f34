"""AlloX: minimal average completion time, by matching jobs with places in the queues of GPUs.

A job at the k-th place from the end of a GPU's queue adds k times its run time on that type to the sum of
completion times, so the best schedule is an assignment of minimal cost

    c_j(t, k) = k R_jt + t_j

with R_jt the remaining run time on type t at the present speed, and t_j the job's age.  Only the oldest
waiting jobs are assigned: a share ``filter`` of all waiting jobs, but at least as many as there are queues.
The first job of a queue gets the type of that queue, and a job on one GPU keeps its type until it completes.

Source: AlloX (Le et al., EuroSys 2020), section 4, for jobs on one GPU.  Jobs on more GPUs are treated as in
Shockwave's authors' public code, as if they had the queue of one GPU.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from copter.arrays import Floats, Ints
from copter.problems.policies.mechanism import RESET_SECONDS, ROUND_SECONDS, Mechanism, RigidRound
from copter.problems.policies.themis import checked_filter

_FILTER = 0.2
"""Filter in the runs of Shockwave's authors."""


class AlloX(Mechanism):
    """Policy that gives time to the first jobs of the queues.

    `filter`: share of the waiting jobs that are matched, in (0, 1]; these are the oldest jobs.
    """

    name = "allox"

    def __init__(
        self,
        filter: float = _FILTER,
        *,
        round_seconds: float = ROUND_SECONDS,
        reset_seconds: float = RESET_SECONDS,
    ) -> None:
        super().__init__(round_seconds=round_seconds, reset_seconds=reset_seconds)
        self.filter = checked_filter(filter)
        self._leads: dict[str, int] = {}

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102 - see Mechanism
        leads = [self._leads.get(name) for name in now.names]
        queues = now.capacity.copy()
        waiting: list[int] = []
        for job, type in enumerate(leads):
            if type is not None and now.gpus[job] == 1 and now.speed[job, type] > 0 and queues[type] > 0:
                queues[type] -= 1
            else:
                waiting.append(job)
        waiting = waiting[: max(int(self.filter * len(waiting)), int(queues.sum()))]
        heads = queue_heads(now.seconds_left[waiting], now.age[waiting], queues)
        for job, type in zip(waiting, heads.tolist(), strict=True):
            leads[job] = type if type >= 0 else leads[job]
        self._leads = {name: type for name, type in zip(now.names, leads, strict=True) if type is not None}
        shares = np.zeros(now.speed.shape)
        for job, type in enumerate(leads):
            if type is not None:
                shares[job, type] = 1.0 / now.gpus[job]
        return shares


def queue_heads(seconds: Floats, age: Floats, queues: Ints) -> Ints:
    """Return the queue of each job that is first in a queue in the best matching.

    The best matching has the least sum of completion times. The result is the type of the queue, -1 for all
    other jobs.

    `seconds`: remaining run time on each type; infinite if a job cannot run on it. `age`: seconds since the
    submission. `queues`: number of free GPUs of each type, each with a queue.
    """
    heads = np.full(age.size, -1)
    usable = (queues > 0)[None, :] & np.isfinite(seconds)
    able = np.flatnonzero(usable.any(axis=1))
    if not able.size:
        return heads
    slots = _slots(able.size, queues)
    type, _, place = slots
    run = seconds[np.ix_(able, type)]
    # An impossible pair costs more than all possible pairs together, so only a job without a possible place
    # gets one.
    cost = run * place + age[able, None]
    finite = np.isfinite(cost)
    cost[~finite] = 2.0 * able.size * float(cost[finite].max()) + 1.0
    rows, columns = linear_sum_assignment(cost)
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if finite[row, column]:
            queue, at = (int(type[column]), int(slots[1, column])), int(place[column])
            if queue not in first or at > first[queue][0]:
                first[queue] = at, int(able[row])
    for (kind, _), (_, job) in first.items():
        heads[job] = kind
    return heads


def _slots(count: int, queues: Ints) -> Ints:
    """Return the places that the best matching of a number of jobs can use.

    Queues of one type are interchangeable.  So at most `count` queues of a type are useful, and their lengths
    need not differ by more than one.

    The result has, for each place, its type, its queue within the type, and its position from the end.
    """
    own = np.minimum(queues, count)
    most = -(-count // np.maximum(own, 1))
    columns = [
        (np.full(own[type], type), np.arange(own[type]), np.full(own[type], place))
        for place in range(1, count + 1)
        for type in np.flatnonzero((own > 0) & (place <= most)).tolist()
    ]
    return np.concatenate(columns, axis=1)
