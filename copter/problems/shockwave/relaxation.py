"""Relaxation of program (11) with its certified bound.

The relaxation over real rounds y_j = sum of the job's segments z_q:

    maximise  1/(N M) sum_j w_j log(base_j + sum_q gain_q z_q)  -  lambda/Z_0 h
    h >= R_j - D y_j  for all j,    h >= sum_j g_j (R_j - D y_j) / M,    sum_j g_j y_j <= M T,
    0 <= z_q <= rounds_q

Its bound is independent of the solver.  Take prices mu >= 0 of a GPU in a round, and alpha_0, alpha_j >= 0 of
the rows of h, with alpha_0 + sum alpha_j = lambda/Z_0.  At these prices, the best values of single jobs give
the upper bound

    mu M T - sum_j beta_j R_j + sum_j max_y { w_j log UTIL_j(y) / (N M) + (beta_j D - mu g_j) y },
    beta_j = alpha_j + alpha_0 g_j / M,

where each maximum is that of a concave function of one variable, and is found exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.problems.shockwave.window import Window
from copter.solution import Solution


@dataclass(frozen=True)
class Relaxation:
    """Answer of a relaxation.

    `rounds`: y_j. `objective`: objective of these rounds, maximised. `bound`: upper bound on the objective of
    any plan. `size`: magnitude of the objective's terms, to which gaps are relative. `capacity_price`: mu,
    the price of a GPU in a round. `work_price`: alpha_0. `job_prices`: alpha_j. `model_seconds`: time to make
    the model for another solver or to edit copter's program, included in `seconds`. `iterations`: iterations
    of an iterative solver. `warm_started`: whether the solver started from the answer for the last window.
    `solution`: solution of copter's program (:mod:`.program`); None for other methods and after pickling.
    """

    rounds: Floats
    objective: float
    bound: float
    size: float
    capacity_price: float
    work_price: float
    job_prices: Floats
    seconds: float
    model_seconds: float = 0.0
    iterations: int = 0
    warm_started: bool = False
    solution: Solution | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"solution": None}  # it contains the state of the program at that time


RelaxationSolver = Callable[[Window], Relaxation]


def _feasible_prices(window: Window, mu: float, work: float, jobs: Floats) -> tuple[float, float, Floats]:
    """Return nonnegative prices with alpha_0 + sum alpha_j = lambda / Z_0."""
    mu, work, jobs = max(mu, 0.0), max(work, 0.0), np.maximum(jobs, 0.0)
    total = work + float(jobs.sum())
    if total <= 0:
        return mu, window.makespan_weight, np.zeros(len(window))
    ratio = window.makespan_weight / total
    return mu, work * ratio, jobs * ratio


def answer(window: Window, rounds: Floats, mu: float, work: float, jobs: Floats, begin: float) -> Relaxation:
    """Return the relaxation for given rounds, certified by prices.

    `rounds`: y_j, feasible. `mu`, `work`, `jobs`: prices as in :class:`Relaxation`, which are scaled as the
    bound requires. `begin`: start of the solve, by :func:`time.perf_counter`.
    """
    mu, work, jobs = _feasible_prices(window, mu, work, jobs)
    bound = dual_bound(window, mu, work, jobs)
    objective = window.relaxed_objective(rounds)
    seconds = time.perf_counter() - begin
    return Relaxation(rounds, objective, bound, window.size(rounds), mu, work, jobs, seconds)


def dual_bound(window: Window, mu: float, work: float, jobs: Floats) -> float:
    """Return the upper bound on the relaxation at feasible prices.

    `mu`, `work`, `jobs`: prices as in :class:`Relaxation`, not negative, with work + sum(jobs) = lambda /
    Z_0.
    """
    beta = jobs + work * window.gpus / window.capacity
    cost = mu * window.gpus - beta * window.round_seconds
    constant = mu * window.capacity * window.rounds - float(np.dot(beta, window.remaining))
    return constant + float(_best_alone(window, cost).sum())


def _best_alone(window: Window, cost: Floats) -> Floats:
    """Return the largest value of each job alone at a cost per round: at ends of segments or inside one."""
    weights = window.weights * window.scale
    best = weights * np.log(window.base)
    start, length, gain = window.segment_start, window.segment_rounds, window.segment_gain
    if not length.size:
        return best
    owner = np.repeat(np.arange(len(window)), np.diff(start))
    before = np.cumsum(length) - length
    before -= before[start[:-1].clip(max=len(length) - 1)][owner]
    done = np.cumsum(length * gain) - length * gain
    done -= done[start[:-1].clip(max=len(length) - 1)][owner]
    utility = window.base[owner] + done
    price, weight = cost[owner], weights[owner]
    # d/dy weight log(utility + gain y) = price  at  y = weight / price - utility / gain
    inner = np.where(price > 0, weight / np.where(price > 0, price, 1.0) - utility / gain, length)
    for inside in (inner.clip(0.0, length), length):
        value = weight * np.log(utility + gain * inside) - price * (before + inside)
        np.maximum.at(best, owner, value)
    return best
