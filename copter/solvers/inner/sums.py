"""Sums over the blocks of a working set for Newton's method, in threads.

At prices y the sums over the blocks are their parts of psi and of A x.  The set is divided into chunks that
depend on its sizes only. Each chunk is summed separately, and the chunks' sums are added in order.  So the
result is bitwise equal for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.parallel import chunk_bounds, dot, run_chunks
from copter.solvers.inner.newton_kernels import project_blocks
from copter.solvers.inner.working_set import WorkingSet


@dataclass(eq=False)
class Projection:
    """Inner minimiser x (columns,) at prices y (rows,), with its sums.

    `value`: psi without the cost of the row bounds. `activity` (rows,): A x. `square`: x'x. `free`
    (columns,), `tight` (blocks,): masks of the free columns and of the blocks with a tight sum row.
    """

    y: NDArray[np.float64]
    value: float
    activity: NDArray[np.float64]
    square: float
    x: NDArray[np.float64]
    free: NDArray[np.bool_]
    tight: NDArray[np.bool_]


class Sums:
    """Sums over a working set in at most `threads` threads of this process, by default one a processor.

    `bounds` (chunks + 1,): first block of each chunk, and the end. `centre`, `centre_square`: z and z'z of
    the present step.
    """

    def __init__(self, working: WorkingSet, threads: int | None = None) -> None:
        self.working, self.threads = working, threads
        weights = np.diff(working.pointer[working.first]) + np.diff(working.first)
        self.bounds = chunk_bounds(weights)
        self.centre, self.sigma, self.centre_square = np.empty(0), 1.0, 0.0

    def begin(self, centre: NDArray[np.float64], sigma: float) -> None:
        """Begin a step of length `sigma` from centre z (columns,), which must not be changed later.

        Earlier projections become invalid.
        """
        if centre is not self.centre:
            self.centre, self.centre_square = centre, dot(centre, centre)
        self.sigma = sigma

    def project(self, y: NDArray[np.float64]) -> Projection:
        """Minimise over x at prices `y`."""
        w, bounds = self.working, self.bounds
        x = np.empty(w.column.size)
        free, tight = np.empty(w.column.size, np.bool_), np.empty(w.slot.size, np.bool_)
        place = self.centre, self.sigma
        parts = run_chunks(
            lambda k: project_blocks(w, w.cost, y, *place, bounds[k], bounds[k + 1], x, free, tight),
            bounds.size - 1,
            self.threads,
        )
        return Projection(y, *self._added(parts), x, free, tight)

    def _added(self, parts: Sequence[tuple[Any, ...]]) -> tuple[float, NDArray[np.float64], float]:
        """Return the sums of value, activity and x'x over the chunks."""
        value, activity = 0.5 * self.centre_square / self.sigma, np.zeros(self.working.lower_row.size)
        square = 0.0
        for part in parts:
            value += part[0]
            activity += part[1]
            square += part[2]
        return value, activity, square

    def moved(self, at: Projection) -> float:
        """Return |x - z|^2."""
        ends = self.working.first[self.bounds]
        moves = (at.x[a:b] - self.centre[a:b] for a, b in pairwise(ends))
        return sum(dot(move, move) for move in moves)
