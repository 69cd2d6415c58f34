"""Least violation of rows that a working set cannot satisfy, by either inner solver.

At a minimiser x of dist(A x, [l, u])^2 / 2 over the boxes and sum rows, y = A x - Proj(A x) is a Farkas ray
if it is not 0. Proximal-point steps with zero costs and growing length converge to such a minimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.solvers.inner.working_set import InnerResult, WorkingSet

if TYPE_CHECKING:
    from copter.solvers.inner.tuning import ElasticTuning


_Step: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64], float, int], InnerResult]
"""A step towards the least violation: from prices and a centre, with a length, in at most some iterations.

The result has violations as prices.
"""


def costless(working: WorkingSet) -> WorkingSet:
    """Return the set with zero costs."""
    return replace(working, cost=np.zeros_like(working.cost))


def least_violation(
    step: _Step,
    centre: NDArray[np.float64],
    rows: int,
    limit: int,
    stop: Callable[[], bool],
    tuning: ElasticTuning,
) -> InnerResult:
    """Return scaled prices proportional to the least violation, and a nearly optimal allocation.

    `limit`: largest number of iterations. `stop` is called after every step; if it returns True, the search
    ends.
    """
    y, sigma, iterations, done = np.zeros(rows), 1.0, 0, False
    for _ in range(tuning.steps):
        result = step(y, centre, sigma, limit - iterations)
        iterations += max(1, result.iterations)
        change, size = np.linalg.norm(result.y - y), np.linalg.norm(y)
        # longer steps would not be more accurate than rounding errors
        done = bool(change < tuning.change * size or (change == 0.0 and size == 0.0))
        y, centre = result.y, result.x
        sigma *= tuning.growth
        if done or iterations >= limit or stop():
            break
    return InnerResult(centre, y, done, iterations)
