"""What whole rounds are worth to the jobs of a plan, and bounds on all plans by prices.

n rounds are worth value_jn to job j and leave it a run time left_jn; a plan's objective is the sum of the
values less a weight times H, the lower bound on the makespan.  At prices mu of a GPU's round and alpha of the
rows of H, sum alpha = weight, every job has its own best count: the sum of what those are worth bounds every
plan (Lagrange).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from copter.arrays import Floats, Ints

_PRICE_STEPS, _PRICE_ACCURACY = 200, 1e-9
"""Limits of the search for the best price, which takes some 30 steps; accuracy over the largest price."""


@dataclass(frozen=True)
class PlanProblem:
    """What a plan is worth.

    `value`: the value of n rounds to each job, finite; never falls with n. `remaining`: run time that is left
    after n rounds; never grows with n. `gpus`, `capacity`: GPUs of each job, and of a round.
    `makespan_weight`: factor on H, >= 0.
    """

    value: Floats
    remaining: Floats
    gpus: Ints
    capacity: int
    makespan_weight: float

    def __post_init__(self) -> None:
        if self.value.shape != self.remaining.shape or self.value.ndim != 2 or self.value.shape[1] < 2:
            raise ValueError(
                f"value is {self.value.shape}, remaining {self.remaining.shape}: (N, T + 1) each"
            )
        if self.gpus.shape != self.value.shape[:1] or (self.gpus < 1).any():
            raise ValueError("gpus: one for each job, at least 1")

    @property
    def rounds(self) -> int:
        """T."""
        return self.value.shape[1] - 1

    @property
    def most(self) -> Ints:
        """Rounds that a job has a use for; none for a job that does not fit on the GPUs."""
        useful = (self.remaining[:, :-1] > 0) & (self.gpus <= self.capacity)[:, None]
        return useful.sum(axis=1)

    def objective(self, counts: Ints) -> float:
        """Return the objective of a plan, to be maximised."""
        rows = np.arange(len(counts))
        value = float(self.value[rows, counts].sum())
        return value - self.makespan_weight * self.makespan(self.remaining[rows, counts])

    def size(self, counts: Ints) -> float:
        """Return what the objective of a plan is made up of: its terms' magnitudes, which may cancel."""
        rows = np.arange(len(counts))
        value = float(abs(self.value[rows, counts]).sum())
        return value + self.makespan_weight * self.makespan(self.remaining[rows, counts])

    def makespan(self, left: Floats) -> float:
        """H for the run time that is left of each job."""
        if not left.size:
            return 0.0
        return max(float(np.dot(self.gpus, left)) / self.capacity, float(left.max()))

    def bound(self, mu: float, work: float, jobs: Floats) -> float:
        """Bound on every plan, by any prices with work + sum(jobs) = makespan_weight."""
        best = self.net(mu, work, jobs).max(axis=1)
        return float(best.sum()) + mu * self.capacity * self.rounds

    def net(self, mu: float, work: float, jobs: Floats) -> Floats:
        """(N, T + 1) worth of n rounds to each job at prices, minus infinity where it has no use for them."""
        price = (jobs + work * self.gpus / self.capacity)[:, None] * self.remaining
        net = self.value - price - mu * self.gpus[:, None] * np.arange(self.rounds + 1)
        return np.where(np.arange(self.rounds + 1) <= self.most[:, None], net, -np.inf)


def best_price(problem: PlanProblem, mu: float, work: float, jobs: Floats) -> tuple[float, float]:
    """Return the price of a GPU's round with the best bound, which is convex in it, and that bound.

    `mu`: price to begin with. `work`, `jobs` (N,): prices of the rows of H, which stay.
    """
    best = min((problem.bound(price, work, jobs), price) for price in (mu, 0.0))[::-1]
    if not len(problem.gpus):
        return best
    steepest = float((gains(problem, work, jobs) / problem.gpus[:, None]).max())
    if not steepest > 0:
        return best  # nobody would pay for a round
    high = max(2.0 * mu, 1e-6 * steepest)
    while problem.bound(2.0 * high, work, jobs) < problem.bound(high, work, jobs):
        high *= 2.0
    high *= 2.0
    found = minimize_scalar(
        problem.bound,
        args=(work, jobs),
        bounds=(0.0, high),
        method="bounded",
        options={"xatol": _PRICE_ACCURACY * high, "maxiter": _PRICE_STEPS},
    )
    return min(best, (float(found.x), float(found.fun)), key=lambda pair: pair[1])


def normal_prices(
    problem: PlanProblem, prices: tuple[float, float, Floats] | None
) -> tuple[float, float, Floats]:
    """Return the prices that :meth:`PlanProblem.bound` takes, from those of a relaxation."""
    count = len(problem.gpus)
    if prices is None:
        return 0.0, problem.makespan_weight, np.zeros(count)
    mu, work, jobs = prices
    mu, work, jobs = max(mu, 0.0), max(work, 0.0), np.maximum(jobs, 0.0)
    total = work + float(jobs.sum())
    if total <= 0:
        return mu, problem.makespan_weight, np.zeros(count)
    return mu, work * problem.makespan_weight / total, jobs * problem.makespan_weight / total


def gains(problem: PlanProblem, work: float, jobs: Floats) -> Floats:
    """(N, T) worth of each further round at the prices of H. `work`, `jobs` (N,)."""
    price = (jobs + work * problem.gpus / problem.capacity)[:, None]
    return np.diff(problem.value, axis=1) - price * np.diff(problem.remaining, axis=1)
