"""Values of whole rounds for the jobs of a plan, and bounds on all plans by prices.

With n rounds, job j has value value_jn and remaining run time left_jn.  A plan's objective is the sum of the
values minus a weight times H, the lower bound on the makespan.  Take prices mu of a GPU in a round and alpha
of the rows of H, with sum alpha = weight.  Every job then has its own best count, and the sum over the jobs
of the values of these counts, net of prices, bounds every plan (Lagrange).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar

from copter.arrays import Floats, Ints

_PRICE_STEPS, _PRICE_ACCURACY = 200, 1e-9
"""Limits of the search for the best price: steps, of which it takes about 30; relative accuracy."""


@dataclass(frozen=True)
class PlanProblem:
    """Tables of the values of a plan.

    `value`: value of n rounds for each job, finite and nondecreasing in n. `remaining`: remaining run time
    after n rounds, nonincreasing in n. `gpus`: GPUs of each job. `capacity`: GPUs of a round.
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
                f"value {self.value.shape}, remaining {self.remaining.shape}: must be (N, T + 1) each, T >= 1"
            )
        if self.gpus.shape != self.value.shape[:1] or (self.gpus < 1).any():
            raise ValueError("gpus: must be one number for each job, at least 1")

    @property
    def rounds(self) -> int:
        """Number of rounds, T."""
        return self.value.shape[1] - 1

    @cached_property
    def most(self) -> Ints:
        """Number of useful rounds of each job; 0 for a job that does not fit on the GPUs."""
        useful = (self.remaining[:, :-1] > 0) & (self.gpus <= self.capacity)[:, None]
        return useful.sum(axis=1)

    def objective(self, counts: Ints) -> float:
        """Return the objective of a plan, of which the largest is sought."""
        rows = np.arange(len(counts))
        value = float(self.value[rows, counts].sum())
        return value - self.makespan_weight * self.makespan(self.remaining[rows, counts])

    def size(self, counts: Ints) -> float:
        """Return the magnitude of the terms of a plan's objective, which may cancel."""
        rows = np.arange(len(counts))
        value = float(abs(self.value[rows, counts]).sum())
        return value + self.makespan_weight * self.makespan(self.remaining[rows, counts])

    def makespan(self, left: Floats) -> float:
        """Return H for the remaining run times of the jobs."""
        if not left.size:
            return 0.0
        return max(float(np.dot(self.gpus, left)) / self.capacity, float(left.max()))

    def net(self, mu: float, work: float, jobs: Floats) -> Floats:
        """Return the (N, T + 1) values of n rounds net of prices; minus infinity for useless rounds."""
        price = (jobs + work * self.gpus / self.capacity)[:, None] * self.remaining
        net = self.value - price - mu * self.gpus[:, None] * np.arange(self.rounds + 1)
        return np.where(np.arange(self.rounds + 1) <= self.most[:, None], net, -np.inf)


def best_price(problem: PlanProblem, mu: float, work: float, jobs: Floats) -> tuple[float, float]:
    """Return the price of a GPU in a round that gives the least bound, and this bound.

    The bound is convex in the price. `mu`: first price of the search. `work`, `jobs` (N,): fixed prices of
    the rows of H, where work + sum(jobs) = makespan_weight.
    """
    # A row for each number of rounds, because maxima over rows are fast.
    value = np.ascontiguousarray(problem.net(0.0, work, jobs).T)
    used = np.arange(problem.rounds + 1)[:, None] * problem.gpus
    total = problem.capacity * problem.rounds

    def bound(price: float) -> float:
        return float((value - price * used).max(axis=0).sum()) + price * total

    best = min((bound(price), price) for price in (mu, 0.0))[::-1]
    if not len(problem.gpus):
        return best
    steepest = float((gains(problem, work, jobs) / problem.gpus[:, None]).max())
    if not steepest > 0:
        return best  # no job has a gain from a round at any price
    high = max(2.0 * mu, 1e-6 * steepest)
    while bound(2.0 * high) < bound(high):
        high *= 2.0
    high *= 2.0
    found = minimize_scalar(
        bound,
        bounds=(0.0, high),
        method="bounded",
        options={"xatol": _PRICE_ACCURACY * high, "maxiter": _PRICE_STEPS},
    )
    return min(best, (float(found.x), float(found.fun)), key=lambda pair: pair[1])


def normal_prices(
    problem: PlanProblem, prices: tuple[float, float, Floats] | None
) -> tuple[float, float, Floats]:
    """Return the prices of a relaxation, not negative, and scaled so that those of H sum to its weight."""
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
    """Return the value (N, T) of each next round, less its price at the prices `work` and `jobs` (N,)."""
    price = (jobs + work * problem.gpus / problem.capacity)[:, None]
    return np.diff(problem.value, axis=1) - price * np.diff(problem.remaining, axis=1)
