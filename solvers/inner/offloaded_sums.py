"""Sums over a working set whose chunks are offloaded to the processes that have the columns.

The caller sends prices and the step length; the pieces return value, activity and two norms. The arrays x,
flags and sample of the present step remain at the pieces.  If a process is lost, its arrays are recomputed
from the centre, the prices and the sample, with bitwise equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.solvers.inner.newton_kernels import hessian_diagonal, hessian_times, project_blocks
from copter.solvers.inner.sums import Flags, Projection, Sample, Sums, added, cut_sample, distance
from copter.solvers.inner.tuning import NewtonTuning
from copter.solvers.inner.working_set import WorkingSet
from copter.store.executor import Executor, Offloaded


@dataclass(eq=False)
class _There(Projection):
    """Projection with its number at the pieces, and |x - z|^2."""

    number: int
    moved: float


def sums_over(working: WorkingSet, executor: Executor, threads: int | None, tuning: NewtonTuning) -> Sums:
    """Return sums over a working set, in threads of this process, or offloaded if that is faster."""
    sums = Sums(working, threads)
    if executor.local or working.column.size < tuning.offload_columns or sums.bounds.size <= 2:
        return sums
    pieces = executor.offload(pieces_of(working, sums.bounds))
    return sums if pieces is None else OffloadedSums(working, pieces, threads)


def pieces_of(working: WorkingSet, bounds: NDArray[np.int64]) -> list[_Piece]:
    """Return the chunks of a working set as pieces; `bounds` (chunks + 1,) are those of :class:`Sums`."""
    w, none, size = working, np.empty(0), working.lower_row
    pieces = []
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        first = w.first[begin : end + 1]
        a, b = int(first[0]), int(first[-1])
        pointer = w.pointer[a : b + 1]
        c, d = int(pointer[0]), int(pointer[-1])
        piece = replace(
            w,
            slot=w.slot[begin:end],
            relation=w.relation[begin:end],
            total=w.total[begin:end],
            first=first - a,
        )
        # arrays that no sum uses are not sent; arrays of one value a row only carry the number of rows
        piece = replace(piece, block=none.astype(np.int64), column=none.astype(np.int64))
        piece = replace(piece, upper_row=size, row_scale=size, column_scale=none)
        piece = replace(piece, cost=w.cost[a:b], upper=w.upper[a:b], pointer=pointer - c)
        pieces.append(_Piece(replace(piece, row=w.row[c:d], value=w.value[c:d])))
    return pieces


@dataclass(eq=False)
class _Piece:
    """A chunk of a working set as a set of its own, with data of the present step.

    `centre`, `of`: z, and the caller's number for it. `points`: (x, free, tight) by the number of a
    projection. `sample`: the last sample of its blocks.
    """

    working: WorkingSet
    centre: NDArray[np.float64] | None = None
    of: int = -1
    points: dict[int, tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]] = field(
        default_factory=dict
    )
    sample: tuple[int, Sample] | None = None


class OffloadedSums(Sums):
    """Sums over a working set whose chunks, from :func:`pieces_of`, are offloaded.

    A piece may lose its data with its process. Then it returns None, gets all data again, and repeats the
    call. `threads`: for sums in this process.
    """

    def __init__(self, working: WorkingSet, pieces: Offloaded, threads: int | None = None) -> None:
        super().__init__(working, threads)
        self._pieces = pieces
        self._ends = working.first[self.bounds]
        self._numbers = count()
        self._kept: WeakValueDictionary[int, _There] = WeakValueDictionary()
        self._of = self._source = self._known = -1
        """Numbers of the centre, of the projection that is the centre (or -1), and of the pieces' centre."""
        self._last: tuple[_There, NDArray[np.float64]] | None = None
        self._sample: tuple[_There, Sample] | None = None
        self._buffers = np.zeros(working.column.size, np.bool_), np.zeros(working.slot.size, np.bool_)

    def begin(self, centre: NDArray[np.float64], sigma: float) -> None:
        """Begin a step; the centre is not sent to the pieces if it is their last x."""
        if centre is not self.centre:
            self._of = next(self._numbers)
            known = self._last is not None and centre is self._last[1]
            self._source = self._last[0].number if known and self._last is not None else -1
        super().begin(centre, sigma)

    def project(self, y: NDArray[np.float64]) -> Projection:
        """Minimise over x at prices `y`."""
        number = next(self._numbers)
        parts = self._projected(number, y, new=self._source < 0 and self._known != self._of)
        there = _There(y, *self._added(parts), number, sum(part[3] for part in parts))
        self._kept[number] = there
        return there

    def _projected(self, number: int, y: NDArray[np.float64], new: bool) -> list[Any]:
        """Return the results of the pieces, after sending the centre to pieces without it."""
        place = self._of, self._source, tuple(self._kept)
        parts: list[Any] = [None] if new else self._pieces.each(_project, number, y, self.sigma, *place)
        while any(part is None for part in parts):
            centres = [(self.centre[a:b],) for a, b in zip(self._ends[:-1], self._ends[1:], strict=True)]
            parts = self._pieces.each(_project, number, y, self.sigma, *place, own=centres)
        self._known = self._of
        return parts

    def _ask(
        self, task: Callable[..., Any], at: Projection, *common: Any, own: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return the pieces' data of a projection; pieces without it compute the projection again."""
        assert isinstance(at, _There)
        parts = self._pieces.each(task, at.number, *common, own=own)
        while any(part is None for part in parts):
            self._projected(at.number, at.y, new=True)
            if self._sample is not None and self._sample[0] is at:
                self._pieces.each(
                    _diagonal, at.number, own=cut_sample(self._sample[1], self.bounds, own=True)
                )
            parts = self._pieces.each(task, at.number, *common, own=own)
        return parts

    def x(self, at: Projection) -> NDArray[np.float64]:
        """Return the minimiser, (columns,)."""
        assert isinstance(at, _There)
        x = np.concatenate(self._ask(_values, at))
        self._last = at, x
        return x

    def moved(self, at: Projection) -> float:
        """Return |x - z|^2."""
        assert isinstance(at, _There)
        return at.moved

    def flags(self, at: Projection, blocks: NDArray[np.int64]) -> Flags:
        """Return flags that are valid at least for the given blocks, which are in ascending order."""
        free, tight = self._buffers
        places = np.searchsorted(blocks, self.bounds)
        own = [
            (blocks[a:b] - begin,) for a, b, begin in zip(places[:-1], places[1:], self.bounds, strict=False)
        ]
        parts = self._ask(_flags, at, own=own)
        columns, rows = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        _put_flags(self.working.first, blocks, columns, rows, free, tight)
        return free, tight

    def diagonal(self, at: Projection, sample: Sample) -> NDArray[np.float64]:
        """Return the diagonal of :meth:`Sums.diagonal`; the pieces store the sample."""
        assert isinstance(at, _There)
        self._sample = at, sample
        return added(self._ask(_diagonal, at, own=cut_sample(sample, self.bounds, own=True)))

    def times(self, at: Projection, sample: Sample, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return H d, from the sample of the last diagonal."""
        return added(self._ask(_times, at, d))


# ---- functions that run at a piece; they return None if the piece does not have the data --------------


def _project(
    piece: _Piece,
    number: int,
    y: NDArray[np.float64],
    sigma: float,
    of: int,
    source: int,
    kept: tuple[int, ...],
    centre: NDArray[np.float64] | None = None,
) -> tuple[float, NDArray[np.float64], float, float] | None:
    """Return (value, activity, x'x, |x - z|^2) at prices y; delete earlier points not in `kept`."""
    points = piece.points
    if centre is not None:
        piece.centre, piece.of = centre, of
    elif piece.of != of:
        if source not in points:
            return None
        piece.centre, piece.of = points[source][0], of
    assert piece.centre is not None
    w = piece.working
    x = np.empty(w.cost.size)
    free, tight = np.empty(w.cost.size, np.bool_), np.empty(w.slot.size, np.bool_)
    sums = project_blocks(w, w.cost, y, piece.centre, sigma, 0, w.slot.size, x, free, tight)
    piece.points = {key: points[key] for key in kept if key in points} | {number: (x, free, tight)}
    return (*sums, distance(x, piece.centre))


def _values(piece: _Piece, number: int) -> NDArray[np.float64] | None:
    """Return x."""
    return piece.points[number][0] if number in piece.points else None


def _flags(piece: _Piece, number: int, blocks: NDArray[np.int64]) -> Flags | None:
    """Return the flags of some blocks, concatenated."""
    if number not in piece.points:
        return None
    _, free, tight = piece.points[number]
    return _take_flags(piece.working.first, blocks, free), tight[blocks]


def _diagonal(
    piece: _Piece, number: int, blocks: NDArray[np.int64], stands_for: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the diagonal from a sample, and store the sample."""
    if number not in piece.points:
        return None
    piece.sample = number, (blocks, stands_for)
    _, free, tight = piece.points[number]
    diagonal: NDArray[np.float64] = hessian_diagonal(piece.working, free, tight, blocks, stands_for)
    return diagonal


def _times(piece: _Piece, number: int, d: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return H d from the stored sample."""
    if number not in piece.points or not piece.sample or piece.sample[0] != number:
        return None
    _, free, tight = piece.points[number]
    product: NDArray[np.float64] = hessian_times(piece.working, free, tight, d, *piece.sample[1])
    return product


@kernel(allocates=True)
def _take_flags(first, blocks, free):  # type: ignore[no-untyped-def]
    """Return the flags of the columns of some blocks, concatenated."""
    size = 0
    for b in blocks:
        size += first[b + 1] - first[b]
    taken, n = np.empty(size, np.bool_), 0
    for b in blocks:
        for j in range(first[b], first[b + 1]):
            taken[n] = free[j]
            n += 1
    return taken


@kernel
def _put_flags(first, blocks, taken, tightness, free, tight):  # type: ignore[no-untyped-def]
    """Write flags of :func:`_take_flags`, and those of the sum rows, to the arrays of the whole set."""
    n = 0
    for i in range(blocks.size):
        tight[blocks[i]] = tightness[i]
        for j in range(first[blocks[i]], first[blocks[i] + 1]):
            free[j] = taken[n]
            n += 1
