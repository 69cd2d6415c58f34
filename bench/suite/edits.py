"""Edits alone as a course: 1% of the requests replaced in place, against scipy building the matrix again.

`copter` edits its program (:class:`copter.bench.updates.Replacing`); `scipy-coo` and `scipy-csc` build the
CSR of all requests from triplets, the usual way, and from column pointers, the fastest there is, out of
arrays that are concatenated already, on no clock.  There is nothing to solve: a round is an edit.  `gap` is
the largest difference, relative, between a row's sum in the matrix and what the requests add up to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.bench.course import Course, Play, method_round
from copter.bench.settings import Record
from copter.bench.updates import CHURN, N_RESOURCES, WIDTH, Replacing, scipy_builders
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.bench.settings import SolverSettings

EDITORS = ("copter", "scipy-coo", "scipy-csc")


@dataclass(frozen=True)
class Edits(Course):
    """Rounds of edits of a program of so many columns.

    Attributes
    ----------
    columns : int
        Rounded to whole requests of 1,000.
    """

    columns: int
    rounds: int = 12
    seed: int = 0

    def small(self) -> Edits:
        """Return a few rounds of a small program."""
        return replace(self, columns=20 * WIDTH, rounds=3)

    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds with one of :data:`EDITORS`."""
        return Play(self._records(settings.name))

    def _records(self, name: str) -> Iterator[Record]:
        rng = np.random.default_rng(self.seed)
        requests = max(1, round(self.columns / WIDTH))
        rows, values = rng.integers(0, N_RESOURCES, WIDTH), rng.integers(1, 65, WIDTH).astype(float)
        sums = np.concatenate((requests * np.bincount(rows, values, N_RESOURCES), np.full(requests, WIDTH)))
        edit, matrix = _editor(name, requests, rows, values, rng)
        for number in range(self.rounds):
            seconds = edit()
            there = matrix()
            off = np.abs(there @ np.ones(there.shape[1]) - sums) / sums
            size = {"n_variables": there.shape[1], "n_rows": there.shape[0], "nnz": there.nnz}
            yield method_round(name, number, t_edit=seconds, t_solve=0.0, gap=float(off.max()), **size)


def _editor(
    name: str, requests: int, rows: NDArray[np.int64], values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[Callable[[], float], Callable[[], Any]]:
    """What makes an edit and returns its seconds, and what reads the matrix that there is then."""
    if name == "copter":
        replacing = Replacing(requests, max(1, round(CHURN * requests)), rows, values, rng)
        return replacing.replace, lambda: compile_program(replacing.program).A
    from_triplets, from_pointers, _ = scipy_builders(requests, rows, values)
    build = from_triplets if name == "scipy-coo" else from_pointers
    built: list[Any] = []

    def edit() -> float:
        built.clear()
        begin = perf_counter()
        built.append(build())
        return perf_counter() - begin

    return edit, lambda: built[0]
