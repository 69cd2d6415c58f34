"""Solution of Shockwave's relaxation by cvxpy and Clarabel, a baseline of the lines `shockwave-*`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy import sparse

from copter.arrays import Floats
from copter.errors import SolverError
from copter.extras import extra

_CLARABEL_ATTEMPTS: tuple[dict[str, Any], ...] = (
    {"equilibrate_enable": False},
    {},
    {"max_step_fraction": 0.95, "linesearch_backtrack_step": 0.5, "min_switch_step_length": 0.01},
)
"""Settings of Clarabel, tried in order, because its first steps may stall on logarithms near their poles."""


def by_clarabel(window: Any) -> tuple[Floats, float, float, Floats, float]:
    """Return the rounds of each job, the prices mu, alpha_0 and alpha_j, and the seconds to make the model.

    `window`: a :class:`copter.problems.shockwave.Window` with jobs of positive weight that have segments.
    """
    with extra("cvxpy"):
        import cvxpy as cp  # slow to import

    begin = time.perf_counter()
    count, segments = len(window), len(window.segment_rounds)
    owner = np.repeat(np.arange(count), np.diff(window.segment_start))
    # Each quantity is scaled by its own range: segments are shares, and utilities, run times and weights are
    # divided by the largest.  Without scaling, Clarabel fails on some windows.
    share, h = cp.Variable(segments, nonneg=True), cp.Variable()
    top = window.relaxed_utility(window.most_rounds)
    gain = sparse.csr_array(
        (window.segment_gain * window.segment_rounds / top[owner], (owner, np.arange(segments))),
        (count, segments),
    )
    rounds_of = sparse.csr_array((window.segment_rounds, (owner, np.arange(segments))), (count, segments))
    seconds = max(float(window.remaining.max()), window.round_seconds)
    heaviest = float(window.weights.max())
    left = (window.remaining - window.round_seconds * (rounds_of @ share)) / seconds
    gpu_rounds = window.gpus @ rounds_of / (window.capacity * window.rounds)
    capacity = gpu_rounds @ share <= 1.0
    each = h >= left
    work = h >= window.gpus @ left / window.capacity
    valued = np.flatnonzero((window.weights > 0) & (np.diff(window.segment_start) > 0))
    utility = (window.base / top)[valued] + gain[valued] @ share
    welfare = cp.sum(cp.multiply(window.weights[valued] / heaviest, cp.log(utility)))
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
    return (
        rounds,
        float(capacity.dual_value) * factor / (window.capacity * window.rounds),
        float(work.dual_value) * factor / seconds,
        np.asarray(each.dual_value, float) * factor / seconds,
        model,
    )
