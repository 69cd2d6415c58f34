"""Relaxation of program (11) with its certified bound; cvxpy is the reference solver.

The relaxation over real rounds y_j = sum of the job's segments z_q:

    maximise  1/(N M) sum_j w_j log(base_j + sum_q gain_q z_q)  -  lambda/Z_0 h
    h >= R_j - D y_j  for all j,    h >= sum_j g_j (R_j - D y_j) / M,    sum_j g_j y_j <= M T,
    0 <= z_q <= rounds_q

Its bound is independent of the solver.  Take prices mu >= 0 of a GPU in a round, and alpha_0, alpha_j >= 0 of
the rows of h, with alpha_0 + sum alpha_j = lambda/Z_0.  The sum of the best values of single jobs is a bound
on all jobs together,

    mu M T - sum_j beta_j R_j + sum_j max_y { w_j log UTIL_j(y) / (N M) + (beta_j D - mu g_j) y },
    beta_j = alpha_j + alpha_0 g_j / M,

and each maximum is over a concave function of one variable, and found exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from copter.arrays import Floats
from copter.errors import SolverError
from copter.extras import extra
from copter.problems.shockwave.window import Window
from copter.solution import Solution

_CLARABEL_ATTEMPTS: tuple[dict[str, Any], ...] = (
    {"equilibrate_enable": False},
    {},
    {"max_step_fraction": 0.95, "linesearch_backtrack_step": 0.5, "min_switch_step_length": 0.01},
)
"""Settings of Clarabel: first steps may stall on logarithms near their poles; one of these works."""


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


def solve_relaxation(window: Window) -> Relaxation:
    """Solve with cvxpy and Clarabel."""
    with extra("cvxpy"):
        import cvxpy as cp  # Slow to import, and only this reference needs it.

    begin = time.perf_counter()
    count, segments = len(window), len(window.segment_rounds)
    valued = np.flatnonzero((window.weights > 0) & (np.diff(window.segment_start) > 0))
    if not segments or not (valued.size or window.makespan_weight > 0):
        # The objective is constant: any use of the GPUs is optimal.
        used = float(window.gpus @ window.most_rounds)
        rounds = window.most_rounds * min(1.0, window.capacity * window.rounds / max(used, 1.0))
        return answer(window, rounds, 0.0, 0.0, np.zeros(count), begin)
    owner = np.repeat(np.arange(count), np.diff(window.segment_start))
    # Everything is scaled by its own range: shares of segments, utilities over the largest, run times over
    # the longest, weights over the largest.  Without scaling, Clarabel fails on some windows.
    share, h = cp.Variable(segments, nonneg=True), cp.Variable()
    top = window.relaxed_utility(window.most_rounds)
    gain = sparse.csr_array(
        (window.segment_gain * window.segment_rounds / top[owner], (owner, np.arange(segments))),
        (count, segments),
    )
    rounds_of = sparse.csr_array((window.segment_rounds, (owner, np.arange(segments))), (count, segments))
    seconds = max(float(window.remaining.max()), window.round_seconds)
    heaviest = float(window.weights.max()) if valued.size else 1.0
    left = (window.remaining - window.round_seconds * (rounds_of @ share)) / seconds
    gpu_rounds = window.gpus @ rounds_of / (window.capacity * window.rounds)
    capacity = gpu_rounds @ share <= 1.0
    each = h >= left
    work = h >= window.gpus @ left / window.capacity
    utility = (window.base / top)[valued] + gain[valued] @ share
    welfare = cp.sum(cp.multiply(window.weights[valued] / heaviest, cp.log(utility))) if valued.size else 0.0
    factor = window.scale * heaviest
    kappa = window.makespan_weight * seconds / factor
    problem = cp.Problem(cp.Maximize(welfare - kappa * h), [share <= 1.0, capacity, each, work])
    made, model = time.perf_counter() - begin, 0.0
    for options in _CLARABEL_ATTEMPTS:
        try:
            started = time.perf_counter()
            problem.solve(solver=cp.CLARABEL, **options)
            model = made + time.perf_counter() - started - float(problem.solver_stats.solve_time or 0.0)
            break
        except cp.SolverError:
            continue
    if share.value is None:
        raise SolverError(f"relaxation of {count} jobs: Clarabel failed with all its settings")
    rounds = rounds_of @ np.clip(share.value, 0.0, 1.0)
    rounds *= min(1.0, window.capacity * window.rounds / max(float(window.gpus @ rounds), 1e-300))
    certified = answer(
        window,
        rounds,
        float(capacity.dual_value) * factor / (window.capacity * window.rounds),
        float(work.dual_value) * factor / seconds,
        np.asarray(each.dual_value, float) * factor / seconds,
        begin,
    )
    return replace(certified, model_seconds=model)


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
    """Return a bound on the relaxation for feasible prices.

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
