"""Sums over the blocks of a working set for Newton's method, in threads of this process or offloaded.

At prices y the sums over the blocks are their parts of psi and of A x. A Newton step needs products with

    H = sum_q A_q P_q A_q'     (:mod:`copter.solvers.inner.newton`, whose Hessian is -sigma H)

and its diagonal.  The arrays x, free columns and tight sum rows are kept with the blocks, for the points that
the caller still uses.  The set is divided into chunks that depend on its sizes only. Each chunk is summed
separately, and the chunks' sums are added in order.  So the result is bitwise equal for any number of
threads, and with offloaded chunks (:mod:`copter.solvers.inner.offloaded_sums`).

If the sample has few blocks, their flags are sent to this process and H is summed in it, because the size of
the sample does not grow with the set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.parallel import chunk_bounds, dot, run_chunks
from copter.solvers.inner.newton_kernels import dense_hessian, hessian_diagonal, hessian_times, project_blocks
from copter.solvers.inner.working_set import WorkingSet

Sample: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Blocks in ascending order, and their sampling weights."""
Flags: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""Masks of the free columns, (columns,), and of the blocks with a tight sum row, (blocks,)."""

_FEW_BLOCKS = 50_000
"""Largest sample that is summed in this process: its flags are smaller than the sums of a piece."""
_BLOCKS_A_CHUNK = 10_000
"""Approximate number of blocks in a chunk of such a sample."""


@dataclass(eq=False)
class Projection:
    """Inner minimiser at prices y (rows,), represented by sums.

    `value`: psi without the cost of the row bounds. `activity` (rows,): A x. `square`: x'x.
    """

    y: NDArray[np.float64]
    value: float
    activity: NDArray[np.float64]
    square: float


@dataclass(eq=False)
class _Here(Projection):
    """Projection whose arrays are in this process."""

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
        return _Here(y, *self._added(parts), x, free, tight)

    def _added(self, parts: Sequence[tuple[Any, ...]]) -> tuple[float, NDArray[np.float64], float]:
        """Return the sums of value, activity and x'x over the chunks."""
        value, activity = 0.5 * self.centre_square / self.sigma, np.zeros(self.working.lower_row.size)
        square = 0.0
        for part in parts:
            value += part[0]
            activity += part[1]
            square += part[2]
        return value, activity, square

    def x(self, at: Projection) -> NDArray[np.float64]:
        """Return the minimiser, (columns,)."""
        assert isinstance(at, _Here)
        return at.x

    def moved(self, at: Projection) -> float:
        """Return |x - z|^2."""
        assert isinstance(at, _Here)
        ends = self.working.first[self.bounds]
        return sum(distance(at.x[a:b], self.centre[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True))

    def flags(self, at: Projection, blocks: NDArray[np.int64]) -> Flags:
        """Return flags that are valid at least for the given blocks, which are in ascending order."""
        assert isinstance(at, _Here)
        return at.free, at.tight

    def diagonal(self, at: Projection, sample: Sample) -> NDArray[np.float64]:
        """Return the diagonal of sum_q A_q diag(F) A_q', an upper bound of H's, from a sample; (rows,)."""
        flags, pieces = self.flags(at, sample[0]), cut_sample(sample, self.bounds)
        return added(self._chunks(lambda k: hessian_diagonal(self.working, *flags, *pieces[k])))

    def times(self, at: Projection, sample: Sample, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return H d, from the sample of the last diagonal."""
        flags, pieces = self.flags(at, sample[0]), cut_sample(sample, self.bounds)
        return added(self._chunks(lambda k: hessian_times(self.working, *flags, d, *pieces[k])))

    def _chunks(self, task: Callable[[int], Any]) -> list[Any]:
        return run_chunks(task, self.bounds.size - 1, self.threads)


class Curvature:
    """H at a point, from a sample of the blocks; `dense` if it is used as a matrix."""

    def __init__(self, sums: Sums, at: Projection, sample: Sample, dense: bool) -> None:
        self._sums, self._at, self._sample = sums, at, sample
        self._flags = sums.flags(at, sample[0]) if dense or sample[0].size <= _FEW_BLOCKS else None

    def diagonal(self) -> NDArray[np.float64]:
        """Return an upper bound of the diagonal of H, (rows,)."""
        if self._flags is None:
            return self._sums.diagonal(self._at, self._sample)
        diagonal: NDArray[np.float64] = hessian_diagonal(self._sums.working, *self._flags, *self._sample)
        return diagonal

    def matrix(self, index: NDArray[np.int64], size: int) -> NDArray[np.float64]:
        """Return H on the rows that `index` numbers (-1: other rows), (size, size)."""
        assert self._flags is not None
        matrix: NDArray[np.float64] = dense_hessian(
            self._sums.working, *self._flags, index, size, *self._sample
        )
        return matrix

    def times(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return H d, (rows,)."""
        sums, flags = self._sums, self._flags
        if flags is None:
            return sums.times(self._at, self._sample, d)
        blocks = self._sample[0].size
        cuts = np.linspace(0, blocks, 2 + blocks // _BLOCKS_A_CHUNK).astype(np.int64)
        pieces = [tuple(part[a:b] for part in self._sample) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
        return added(
            run_chunks(
                lambda k: hessian_times(sums.working, *flags, d, *pieces[k]), len(pieces), sums.threads
            )
        )


def added(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the sum of the chunks' arrays, added in order."""
    total: NDArray[np.float64] = np.sum(parts, axis=0)
    return total


def cut_sample(sample: Sample, bounds: NDArray[np.int64], own: bool = False) -> list[Sample]:
    """Return the sample of each chunk; with `own`, block numbers are relative to their chunk."""
    places = np.searchsorted(sample[0], bounds)
    return [
        (sample[0][a:b] - bounds[k] if own else sample[0][a:b], sample[1][a:b])
        for k, (a, b) in enumerate(zip(places[:-1].tolist(), places[1:].tolist(), strict=True))
    ]


def distance(x: NDArray[np.float64], z: NDArray[np.float64]) -> float:
    """Return |x - z|^2."""
    move = x - z
    return dot(move, move)
