r"""Themis: first the jobs that are furthest behind by finish-time fairness, rigid or with elastic shares.

Source: Themis (Mahajan et al., NSDI 2020).
"""

from __future__ import annotations

import math

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.afs.policies import SharePolicy, raise_by_gain
from copter.problems.afs.roster import GpuPool
from copter.problems.cluster.policy import ClusterState
from copter.problems.policies.mechanism import RESET_SECONDS, ROUND_SECONDS, Mechanism, RigidRound

_FILTER = 1.0
"""Filter in the runs of Shockwave's authors."""
_BISECTIONS = 60
_LEAST_SECONDS = 1e-9


_LEASE_SECONDS = 1200.0
_PHASES = 10
"""Leases end at multiples of a tenth of their length, which limits the auctions in the time of a lease."""
_ROUNDING = 1e-6


class Themis(Mechanism):
    """Shares with the least worst finish-time fairness among the jobs that are furthest behind.

        minimise  rho    s.t.    x_j >= R_j / (rho E_j - t_j),    sum_j g_j x_j <= M

    with g_j the GPUs of job j, t_j its age, R_j its remaining run time at the mean of the present speeds over
    the types, and E_j its finish time on 1/n of the cluster.  Only the ``filter`` share of the jobs that are
    furthest behind is included. The solution is found by bisection.

    Source: Themis (Mahajan et al., NSDI 2020) as in Shockwave, section 8.2 and the authors' public code; the
    filter is that of Shockwave's section 2.1.

    `filter`: share of the jobs that get any time, in (0, 1].
    """

    name = "themis"

    def __init__(
        self,
        filter: float = _FILTER,
        *,
        round_seconds: float = ROUND_SECONDS,
        reset_seconds: float = RESET_SECONDS,
    ) -> None:
        super().__init__(round_seconds=round_seconds, reset_seconds=reset_seconds)
        self.filter = checked_filter(filter)
        self._isolated: dict[str, float] = {}
        self._ran: dict[str, tuple[float, float]] = {}

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102 - see Mechanism
        count, gpus = len(now.jobs), now.cluster.gpus
        alone = np.minimum(1.0, gpus / count / now.gpus)
        left, age = now.mean_seconds_left, now.age
        finish = self._alone_so_far(now, alone) + left / alone
        behind = (age + left) / np.maximum(finish, _LEAST_SECONDS)
        chosen = np.argsort(-behind, kind="stable")[: math.ceil(self.filter * count)]

        def needed(rho: float) -> Floats | None:
            slack = rho * finish[chosen] - age[chosen]
            if (slack < left[chosen]).any():
                return None
            result = np.divide(left[chosen], slack, out=np.ones(chosen.size), where=slack > 0)
            return result if float(result @ now.gpus[chosen]) <= gpus else None

        low, high = 0.0, float(behind[chosen].max()) + 1.0
        while needed(high) is None:
            low, high = high, 2.0 * high
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if needed(middle) is not None else (middle, high)
        shares = np.zeros((count, 1))
        shares[chosen, 0] = needed(high)
        return shares

    def _alone_so_far(self, now: RigidRound, alone: Floats) -> Floats:
        """Return the time on 1/n of the cluster for the run time so far, shape (n,)."""
        isolated: dict[str, float] = {}
        for job in now.jobs:
            before, share = self._ran.get(job.name, (0.0, 1.0))
            isolated[job.name] = self._isolated.get(job.name, 0.0) + (job.run_seconds - before) / share
        self._isolated = isolated
        ran = (job.run_seconds for job in now.jobs)
        self._ran = dict(zip(now.names, zip(ran, alone.tolist(), strict=True), strict=True))
        return np.array(list(isolated.values()))


def checked_filter(filter: float) -> float:
    """Return a share of the jobs in (0, 1]; raise an error for another value."""
    if not 0 < filter <= 1:
        raise ValueError(f"filter = {filter}: must be in (0, 1]")
    return filter


class ThemisElastic(SharePolicy):
    r"""Themis with elastic shares: leases of GPUs, auctioned among the jobs that are furthest behind.

    The delay of a job is measured by its finish-time fairness, the progress with a fair share over its own
    progress,

    .. math:: \rho_j = \frac{a_j \, p_j(\bar r_j) / \bar n_j}{w_j}

    with a_j its age, w_j its progress, p_j its speed at its best count, and n_j the mean number of jobs since
    it arrived.  So its fair share is an n-th of the time on as many GPUs as it can use.  A lease lasts 20
    minutes.  When leases end, or GPUs are free in between, the share 1 - f of the jobs without a lease that
    are furthest behind bids.  GPUs are given one unit at a time to the bidder whose value 1 / rho at the end
    of the lease grows most in proportion.  This maximises the product of the values (the partial allocation
    without its hidden payments, which would leave GPUs idle on purpose).  GPUs that bidders cannot use go to
    other jobs at random.

    Themis' own f = 0.8 is for jobs that can use no more GPUs than they request.  Here, few bidders would take
    all GPUs up to their best counts, even if the last GPUs give little.  So by default all jobs bid (f = 0),
    which is the stronger baseline.

    Source: Themis (Mahajan et al., NSDI 2020), sections 3 and 4; as an elastic policy without job lengths it
    is AFS's baseline (AFS, sections 5.1 and 6, footnote 13).

    `filter`: share of the jobs that may not bid, in [0, 1). `seed`: seed of the random order of other jobs.
    """

    name = "themis-e"
    watch = ("done",)

    def __init__(self, *, lease_seconds: float = _LEASE_SECONDS, filter: float = 0.0, seed: int = 0) -> None:
        super().__init__(seed=seed)
        if not lease_seconds > 0 or not 0 <= filter < 1:
            wrong = f"lease_seconds = {lease_seconds}, filter = {filter}"
            raise ValueError(f"{wrong}: must be positive, and in [0, 1)")
        self.lease_seconds, self.filter = float(lease_seconds), float(filter)
        self._time = self._job_seconds = 0.0
        self._jobs = 0

    def shares(self, pool: GpuPool, now: ClusterState) -> Ints:  # noqa: D102
        self._job_seconds += self._jobs * (now.time - self._time)
        self._time, self._jobs = now.time, len(now.jobs)
        rows, mine = pool.rows, self.roster.rows
        new = np.isnan(rows["mark"])
        mark = np.where(new, self._job_seconds, rows["mark"])
        mine["mark"][pool.slots] = mark
        leased = rows["runs"] & (rows["since"] > now.time + _ROUNDING)
        count = np.where(leased, rows["units"], 0)
        free = pool.gpus - int(count.sum())
        if free < 0:
            count[:], leased[:], free = 0, False, pool.gpus
        if free > 0:
            age = now.time - rows["arrived"]
            others = np.where(age > 0, (self._job_seconds - mark) / np.maximum(age, 1e-9), self._jobs)
            fair = pool.speed(pool.curves.top) / np.maximum(others, 1.0)
            rho = (age + 1e-9) * fair / np.maximum(rows["done"], 1e-12)
            asked = int(np.ceil((1.0 - self.filter) * np.count_nonzero(~leased)))
            bidders = pool.order(leased, -rho)[:asked]
            base = rows["done"] + 1e-12

            def value(jobs: Ints, speed: Floats, more: Floats) -> Floats:
                ahead = base[jobs] + self.lease_seconds * more
                return np.log(ahead / (base[jobs] + self.lease_seconds * speed))

            free = raise_by_gain(pool, bidders, count, free, value)
            rest = self.rng.permutation(pool.size)
            _hand_out(pool, count, rest[np.argsort(count[rest] > 0, kind="stable")], free)
        mine["units"][pool.slots] = count
        step = self.lease_seconds / _PHASES
        ends = step * np.ceil((now.time + self.lease_seconds) / step - _ROUNDING)
        ends = np.where(leased, rows["since"], ends)
        mine["since"][pool.slots] = ends
        if (count < pool.curves.top).any():
            now.wake(float(ends[count > 0].min(initial=np.inf)))
        return count


def _hand_out(pool: GpuPool, count: Ints, order: Ints, free: int) -> None:
    """Raise counts by one unit in turn, while there are GPUs."""
    while free > 0:
        step = pool.step(order, count[order])
        order, step = order[(step > 0) & (step <= free)], step[(step > 0) & (step <= free)]
        within = np.cumsum(step) <= free
        if not within.any():
            break
        count[order[within]] += step[within]
        free -= int(step[within].sum())
