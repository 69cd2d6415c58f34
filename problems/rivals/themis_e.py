r"""Themis with elastic shares: leases of GPUs, auctioned among the jobs that are furthest behind.

A job is behind by its finish-time fairness, the progress that a fair share would have made over what it made,

.. math:: \rho_j = \frac{a_j \, p_j(\bar r_j) / \bar n_j}{w_j}

with a_j its age, w_j its progress, p_j at the count with which it is fastest, and n_j the mean number of
jobs since it arrived: it is due an n-th of the time on as many GPUs as it can use.  All leases end
together, every 20 minutes.  Then, and whenever GPUs are free in between, the share 1 - f of the jobs that
are furthest behind bids: GPUs go one unit at a time to the bidder whose value 1 / rho at the end of the
lease grows most in proportion, which maximises the product of the values (the partial allocation without
its hidden payments, so that nothing is left over on purpose).  What bidders cannot use goes to other jobs
at random.

Source: Themis (Mahajan et al., NSDI 2020), sections 3 and 4, f = 0.8 and 20-minute leases; as a
job-length-unaware elastic policy it is AFS's rival (AFS, sections 5.1 and 6, footnote 13).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.afs.elastic import SharePolicy
from copter.problems.afs.roster import Pool
from copter.problems.cluster.policy import ClusterState

LEASE_SECONDS = 1200.0
FILTER = 0.8
_ROUNDING = 1e-6


class ThemisElastic(SharePolicy):
    """The policy.

    Parameters
    ----------
    lease_seconds : float
    filter : float
        Share of the jobs that may not bid, from 0 to below 1.
    seed : int
        Of what goes to other jobs at random.
    """

    name = "themis-e"

    def __init__(
        self, *, lease_seconds: float = LEASE_SECONDS, filter: float = FILTER, seed: int = 0
    ) -> None:
        super().__init__(seed=seed)
        if not lease_seconds > 0 or not 0 <= filter < 1:
            wrong = f"lease_seconds = {lease_seconds}, filter = {filter}"
            raise ValueError(f"{wrong}: must be positive, and from 0 to below 1")
        self.lease_seconds, self.filter = float(lease_seconds), float(filter)
        self._time = self._job_seconds = 0.0
        self._jobs = 0

    def shares(self, pool: Pool, now: ClusterState) -> NDArray[np.int64]:  # noqa: D102
        self._job_seconds += self._jobs * (now.time - self._time)
        self._time, self._jobs = now.time, len(now.jobs)
        rows, mine = pool.rows, self.roster.rows
        lease = np.floor(now.time / self.lease_seconds + _ROUNDING)
        now.wake((lease + 1.0) * self.lease_seconds)
        new = np.isnan(rows["mark"])
        mark = np.where(new, self._job_seconds, rows["mark"])
        mine["mark"][pool.slots] = mark
        count = np.where((rows["since"] == lease) & rows["runs"] & ~new, rows["units"], 0)
        free = pool.gpus - int(count.sum())
        if free < 0:
            count[:], free = 0, pool.gpus
        if free > 0:
            age = now.time - rows["arrived"]
            others = np.where(age > 0, (self._job_seconds - mark) / np.maximum(age, 1e-9), self._jobs)
            fair = pool.speed(pool.curves.top) / np.maximum(others, 1.0)
            rho = (age + 1e-9) * fair / np.maximum(rows["done"], 1e-12)
            bidders = pool.order(count > 0, -rho)[: int(np.ceil((1.0 - self.filter) * pool.size))]
            free = self._auction(pool, count, bidders, free)
            rest = self.rng.permutation(pool.size)
            _hand_out(pool, count, rest[np.argsort(count[rest] > 0, kind="stable")], free)
        mine["units"][pool.slots] = count
        mine["since"][pool.slots] = np.where(count > 0, lease, np.nan)
        return count

    def _auction(self, pool: Pool, count: NDArray[np.int64], bidders: NDArray[np.int64], free: int) -> int:
        """Raise the counts of bidders, the largest gain of log value for a GPU first; returns what is left."""
        open_ = bidders.copy()
        while free > 0 and open_.size:
            step = pool.step(open_, count[open_])
            fits = (step > 0) & (step <= free)
            open_, step = open_[fits], step[fits]
            if not open_.size:
                break
            base = pool.rows["done"][open_] + 1e-12
            begin = pool.curves.begin[open_] + count[open_]
            value = base + self.lease_seconds * pool.curves.speed[begin]
            after = base + self.lease_seconds * pool.curves.speed[begin + step]
            at = int((np.log(after / value) / step).argmax())
            count[open_[at]] += step[at]
            free -= int(step[at])
        return free


def _hand_out(pool: Pool, count: NDArray[np.int64], order: NDArray[np.int64], free: int) -> None:
    """Raise counts by a unit in turn, as long as there are GPUs."""
    while free > 0:
        step = pool.step(order, count[order])
        order, step = order[(step > 0) & (step <= free)], step[(step > 0) & (step <= free)]
        within = np.cumsum(step) <= free
        if not within.any():
            break
        count[order[within]] += step[within]
        free -= int(step[within].sum())
