"""Relaxation of program (11) with its certified bound; cvxpy is the reference solver.

The relaxation over real rounds y_j = sum of the job's segments z_q:

    maximise  1/(N M) sum_j w_j log(base_j + sum_q gain_q z_q)  -  lambda/Z_0 h
    h >= R_j - D y_j  for all j,    h >= sum_j g_j (R_j - D y_j) / M,    sum_j g_j y_j <= M T,
    0 <= z_q <= rounds_q

Its bound does not trust the solver: for prices mu >= 0 of a GPU's round and alpha_0, alpha_j >= 0 of the
rows of h with alpha_0 + sum alpha_j = lambda/Z_0, the best of every job alone is a bound on all of them
together,

    mu M T - sum_j beta_j R_j + sum_j max_y { w_j log UTIL_j(y) / (N M) + (beta_j D - mu g_j) y },
    beta_j = alpha_j + alpha_0 g_j / M,

and each maximum is over a concave function of one variable, found exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from copter.arrays import Floats
from copter.errors import SolverError
from copter.extras import extra
from copter.problems.shockwave.window import Window

_CLARABEL_ATTEMPTS: tuple[dict[str, Any], ...] = (
    {"equilibrate_enable": False},
    {},
    {"max_step_fraction": 0.95, "linesearch_backtrack_step": 0.5, "min_switch_step_length": 0.01},
)
"""Its first steps stall now and then, on logarithms near their poles; of these settings one gets through."""


@dataclass(frozen=True)
class Relaxation:
    """Answer of a relaxation.

    `rounds`: y_j. `objective`: the objective of these rounds, to be maximised. `bound`: no plan has a larger
    objective. `size`: what the objective is made up of; gaps are relative to it. `capacity_price`: mu, of a
    GPU for a round. `work_price`: alpha_0. `job_prices`: alpha_j. `model_seconds`: the seconds of these in
    which a model was made for another solver, or copter's program was edited. `iterations`: the iterations of
    an iterative solver. `warm_started`: whether it began from the answer for the last window.
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


RelaxationSolver = Callable[[Window], Relaxation]


def solve_relaxation(window: Window) -> Relaxation:
    """Solve with cvxpy and Clarabel."""
    with extra("cvxpy"):
        import cvxpy as cp  # Slow to import, and only this reference needs it.

    begin = time.perf_counter()
    count, segments = len(window), len(window.segment_rounds)
    valued = np.flatnonzero((window.weights > 0) & (np.diff(window.segment_start) > 0))
    if not segments or not (valued.size or window.makespan_weight > 0):
        # Nothing is worth anything: any use of the GPUs is as good.
        used = float(window.gpus @ window.most_rounds)
        rounds = window.most_rounds * min(1.0, window.capacity * window.rounds / max(used, 1.0))
        return answer(window, rounds, 0.0, 0.0, np.zeros(count), begin)
    owner = np.repeat(np.arange(count), np.diff(window.segment_start))
    # Everything in units of its own range: shares of segments, utilities over the largest, run times over the
    # longest, weights over the largest; without that Clarabel gives up on some windows.
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
        raise SolverError(f"relaxation of {count} jobs: Clarabel gives up, whatever its settings")
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
    """Return the prices with alpha_0 + sum alpha_j = lambda / Z_0, none negative."""
    mu, work, jobs = max(mu, 0.0), max(work, 0.0), np.maximum(jobs, 0.0)
    total = work + float(jobs.sum())
    if total <= 0:
        return mu, window.makespan_weight, np.zeros(len(window))
    ratio = window.makespan_weight / total
    return mu, work * ratio, jobs * ratio


def answer(window: Window, rounds: Floats, mu: float, work: float, jobs: Floats, begin: float) -> Relaxation:
    """Return the relaxation of some rounds, certified by prices.

    `rounds`: y_j, feasible. `mu`, `work`, `jobs`: prices as :class:`Relaxation` has them; they are scaled to
    what the bound needs. `begin`: when the solve began, by :func:`time.perf_counter`.
    """
    mu, work, jobs = _feasible_prices(window, mu, work, jobs)
    bound = dual_bound(window, mu, work, jobs)
    objective = window.relaxed_objective(rounds)
    seconds = time.perf_counter() - begin
    return Relaxation(rounds, objective, bound, window.size(rounds), mu, work, jobs, seconds)


def dual_bound(window: Window, mu: float, work: float, jobs: Floats) -> float:
    """Bound on the relaxation for any prices that are feasible.

    `mu`, `work`, `jobs`: prices as :class:`Relaxation` has them: none negative, and work + sum(jobs) = lambda
    / Z_0.
    """
    beta = jobs + work * window.gpus / window.capacity
    cost = mu * window.gpus - beta * window.round_seconds
    constant = mu * window.capacity * window.rounds - float(np.dot(beta, window.remaining))
    return constant + float(_best_alone(window, cost).sum())


def _best_alone(window: Window, cost: Floats) -> Floats:
    """Return the largest value of every job alone at so much a round: at ends of segments or inside one."""
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
