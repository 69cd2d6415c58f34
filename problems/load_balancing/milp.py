"""The exact problem, shares R and replicas X, by HiGHS' branch and bound: a baseline.

The formulation is that of :mod:`copter.problems.load_balancing.balancer`, constraint R <= X and all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from copter.problems.load_balancing.spread import Fleet, Placement
from copter.solvers.base import Stopwatch
from copter.solvers.milp import Effort, MilpAnswer, run_milp
from copter.store.compiled import CompiledProgram

_LEAST_SHARE = 1e-7


@dataclass(frozen=True)
class Exact:
    """Answer of branch and bound.

    Attributes
    ----------
    placement : Placement or None
        None if it found none in time.
    bound : float
        Lower bound on the cost.
    """

    placement: Placement | None
    bound: float
    found: MilpAnswer
    effort: Effort


def solve_exact(
    fleet: Fleet,
    last: Placement,
    *,
    mip_gap: float = 1e-4,
    deadline: float | None = None,
    threads: int | None = None,
) -> Exact:
    """Placement of least cost.

    Parameters
    ----------
    mip_gap : float
        Relative gap at which it stops.
    deadline : float, optional
        Seconds, of making the model and solving it.
    """
    watch = Stopwatch()
    program = formulate(fleet, last)
    found, effort = run_milp(
        program, program.integrality, mip_gap=mip_gap, deadline=deadline, threads=threads, watch=watch
    )
    placement = None if found.x is None else read(fleet, found.x)
    return Exact(placement, max(found.bound * fleet.unit_size, 0.0), found, effort)


def formulate(fleet: Fleet, last: Placement) -> CompiledProgram:
    """Columns R, server after server within a shard, then X; loads and sizes in units of their means."""
    k, n = fleet.loads.size, fleet.memory.size
    loads, sizes = fleet.loads / (fleet.mean or 1.0), fleet.sizes / fleet.unit_size
    pairs = np.arange(k * n)
    shard, server = pairs // n, pairs % n
    costs = sizes[shard]
    costs[last.keys(n)] = 0.0
    load_row, memory_row, link_row = k + server, k + n + server, k + 2 * n + pairs
    ones = np.ones(k * n)
    row = np.concatenate((shard, load_row, link_row, memory_row, link_row))
    column = np.concatenate((pairs, pairs, pairs, pairs + k * n, pairs + k * n))
    value = np.concatenate((ones, loads[shard], ones, sizes[shard], -ones))
    rows = k + 2 * n + k * n
    matrix = csc_matrix((value, (row, column)), (rows, 2 * k * n))
    lower, upper = fleet.inner_band if fleet.mean > 0 else (0.0, math.inf)
    row_lower = np.concatenate((np.ones(k), np.full(n, lower), np.full(n + k * n, -math.inf)))
    memory = fleet.memory / fleet.unit_size
    row_upper = np.concatenate((np.ones(k), np.full(n, upper), memory, np.zeros(k * n)))
    return CompiledProgram(
        c=np.concatenate((np.zeros(k * n), costs)),
        lower=np.zeros(2 * k * n),
        upper=np.ones(2 * k * n),
        A=matrix,
        row_lower=row_lower,
        row_upper=row_upper,
        integrality=np.repeat([False, True], k * n),
        request_ids=list(range(k)),
        column_start=np.arange(k + 1) * n,
        resource_ids=[],
        sum_row=np.arange(k),
    )


def read(fleet: Fleet, x: NDArray[np.float64]) -> Placement:
    """Placement of an answer: its shares, without dust."""
    k, n = fleet.loads.size, fleet.memory.size
    share = x[: k * n] * (x[k * n :] > 0.5)
    keys = np.flatnonzero(share > _LEAST_SHARE)
    shard, amount = keys // n, share[keys]
    return Placement(shard, keys % n, amount / np.bincount(shard, amount, k)[shard])
