"""Placements of a round by HiGHS: the best one, and the relaxation in which tasks are fractional."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, sparse

from copter.problems.placement import PlacementRounds


def _pairs(rounds: PlacementRounds) -> tuple[Any, Any]:
    """Pairs of a server and a kind that waits and fits there: servers, kinds."""
    running = rounds.running
    free, fleet = running.free, running.fleet
    there = (fleet.cpu[:, None] <= free.cpu) & (fleet.memory[:, None] <= free.memory)
    enough = (free.gpus[None] >= fleet.milli[:, None, None]).sum(axis=2) >= fleet.gpus[:, None]
    there &= (fleet.gpus[:, None] == 0) | (enough & fleet.allowed[:, fleet.model])
    kinds, servers = np.nonzero(there & running.usable & (running.waiting[:, None] > 0))
    return servers, kinds


def _rows(index: Any, values: Any, columns: Any, shape: tuple[int, int]) -> Any:
    return sparse.csr_array((np.asarray(values, float), (index, columns)), shape=shape)


def single_task_bound(rounds: PlacementRounds) -> float:
    """Largest value of fractional tasks, with the GPUs of a server as one."""
    running = rounds.running
    free, fleet = running.free, running.fleet
    at, kind = _pairs(rounds)
    shape, each = (free.cpu.size, at.size), np.arange(at.size)
    rows = [
        (_rows(at, fleet.cpu[kind], each, shape), free.cpu),
        (_rows(at, fleet.memory[kind], each, shape), free.memory),
        (_rows(at, (fleet.gpus * fleet.milli)[kind], each, shape), free.gpus.sum(axis=1)),
        (_rows(kind, np.ones(at.size), each, (running.waiting.size, at.size)), running.waiting),
    ]
    matrix, limit = sparse.vstack([row for row, _ in rows]), np.concatenate([most for _, most in rows])
    return -float(optimize.linprog(-rounds.values[kind], matrix, limit).fun)


def best_placement(rounds: PlacementRounds) -> float:
    """Largest value of a placement, with variables for each GPU; kinds have no shares of several GPUs."""
    running = rounds.running
    free, fleet = running.free, running.fleet
    at, kind = _pairs(rounds)
    n, m = free.gpus.shape
    one = fleet.gpus[kind] == 1
    # Columns: pairs without a single GPU, pairs with one for each GPU, GPUs that are whole.
    by_gpu, gpu = np.nonzero(free.gpus[at[one]] >= fleet.milli[kind[one]][:, None])
    at = np.concatenate([at[~one], at[one][by_gpu]])
    gpu = np.concatenate([np.full(np.count_nonzero(~one), -1), gpu])
    kind = np.concatenate([kind[~one], kind[one][by_gpu]])
    whole, whole_gpu = np.nonzero(free.gpus == 1000)
    k, z = at.size, whole.size
    each, more, on = np.arange(k), k + np.arange(z), gpu >= 0
    several = ~on & (fleet.gpus[kind] > 0)
    rows = [
        (_rows(at, fleet.cpu[kind], each, (n, k + z)), free.cpu),
        (_rows(at, fleet.memory[kind], each, (n, k + z)), free.memory),
        (
            _rows(
                np.concatenate([at[on] * m + gpu[on], whole * m + whole_gpu]),
                np.concatenate([fleet.milli[kind[on]], np.full(z, 1000)]),
                np.concatenate([each[on], more]),
                (n * m, k + z),
            ),
            free.gpus.ravel(),
        ),
        (
            _rows(
                np.concatenate([at[several], whole]),
                np.concatenate([fleet.gpus[kind[several]], np.full(z, -1)]),
                np.concatenate([each[several], more]),
                (n, k + z),
            ),
            np.zeros(n),
        ),
        (_rows(kind, np.ones(k), each, (running.waiting.size, k + z)), running.waiting),
    ]
    answer = optimize.milp(
        -np.concatenate([rounds.values[kind], np.zeros(z)]),
        integrality=np.ones(k + z),
        bounds=optimize.Bounds(0, np.concatenate([np.full(k, np.inf), np.ones(z)])),
        constraints=[optimize.LinearConstraint(matrix, -np.inf, limit) for matrix, limit in rows],
        options={"mip_rel_gap": 1e-6},
    )
    return -float(answer.fun)
