"""The least violation of rows that the columns of a working set cannot meet, by either inner solver.

At a minimiser x of dist(A x, [l, u])^2 / 2 over the boxes and sum rows, y = A x - Proj(A x) is a Farkas ray
if it is not 0.  It is reached by proximal-point steps with zero costs that become longer each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from copter.solvers.inner.working_set import InnerResult, WorkingSet

if TYPE_CHECKING:
    from copter.solvers.inner.tuning import ElasticTuning


class _ElasticStep(Protocol):
    """One proximal-point step towards the least violation."""

    def __call__(
        self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float, limit: int
    ) -> InnerResult:
        """Take it from prices ``y``, in at most ``limit`` iterations; its prices are the violations."""


def costless(working: WorkingSet) -> WorkingSet:
    """The set without costs."""
    return replace(working, cost=np.zeros_like(working.cost))


def least_violation(
    step: _ElasticStep,
    centre: NDArray[np.float64],
    rows: int,
    limit: int,
    stop: Callable[[], bool],
    tuning: ElasticTuning,
) -> InnerResult:
    """Return scaled prices proportional to the least violation, and an allocation nearly as good, from a
    centre.

    `limit`: on iterations. `stop` is asked after every step whether to give up.
    """
    y, sigma, iterations, done = np.zeros(rows), 1.0, 0, False
    for _ in range(tuning.steps):
        result = step(y, centre, sigma, limit - iterations)
        iterations += max(1, result.iterations)
        change, size = np.linalg.norm(result.y - y), np.linalg.norm(y)
        # longer steps would only meet round-off
        done = bool(change < tuning.change * size or (change == 0.0 and size == 0.0))
        y, centre = result.y, result.x
        sigma *= tuning.growth
        if done or iterations >= limit or stop():
            break
    return InnerResult(centre, y, done, iterations)
