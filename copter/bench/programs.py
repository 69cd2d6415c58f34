"""General linear programs as a course: each round solves one program, cold, as `copter solve` does.

The programs come from a folder of MPS and LP files, or are generated: transport, multi-commodity flow on
a ring, staffing by shifts, and blending. The generated programs are sparse, and simplex solves each of them
in seconds.  Every solver gets a :class:`copter.Model`, whose own residuals and bound judge its answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import block_diag, csc_array, eye_array, hstack, kron, random_array, vstack

from copter.bench.course import Course, Play, method_round
from copter.bench.settings import Record
from copter.bench.solvers import HIGHS, ORTOOLS
from copter.models.files import read_model
from copter.models.linear_program import LinearProgram, checked
from copter.solvers.general.model import Model
from copter.status import Status

if TYPE_CHECKING:
    from copter.bench.settings import SolverSettings

LP_SOLVERS = ("copter", *HIGHS[2:], *ORTOOLS[2:])
_MOST_FILES = 40
_ENDINGS = (".mps", ".lp", ".mps.gz", ".lp.gz")


@dataclass(frozen=True)
class Programs(Course):
    """Linear programs, one a round, from a folder or generated; with `small_ones`, small generated ones."""

    folder: Path | None = None
    seed: int = 0
    small_ones: bool = False
    left_out = 0

    @cached_property
    def paths(self) -> list[Path]:
        """Files of the folder with programs, at most 40."""
        if self.folder is None:
            return []
        found = (path for path in self.folder.rglob("*") if path.name.endswith(_ENDINGS))
        return sorted(found)[:_MOST_FILES]

    @property
    def n_rounds(self) -> int:
        """Number of programs."""
        return len(self.paths) or len(_MODELS)

    def small(self) -> Programs:
        """Return a course of generated programs, some so large that copter's solver is imported."""
        return replace(self, folder=None)

    def play(self, settings: SolverSettings) -> Play:
        """Solve each program once."""
        return Play(self._rounds(settings), settings.make().stopping())

    def _programs(self) -> Iterator[tuple[str, LinearProgram]]:
        if self.paths:
            for path in self.paths:
                yield path.stem, checked(read_model(path))
            return
        rng, scale = np.random.default_rng(self.seed), 1 if self.small_ones else 6
        for name, make in _MODELS.items():
            yield name, checked(make(rng, scale))

    def _rounds(self, settings: SolverSettings) -> Iterator[Record]:
        for number, (name, lp) in enumerate(self._programs()):
            solver: Any = settings.make()
            begin = perf_counter()
            found = solver.solve(Model(lp))
            yield _record(settings.name, number, name, lp, found, perf_counter() - begin)


def _record(solver: str, number: int, name: str, lp: LinearProgram, found: Any, seconds: float) -> Record:
    return method_round(
        solver,
        number,
        edit_seconds=0.0,
        solve_seconds=seconds,
        program=name,
        n_variables=lp.A.shape[1],
        n_rows=lp.A.shape[0],
        nnz=lp.A.nnz,
        status=str(found.status),
        missed=not found.found
        and found.status in (Status.DEADLINE, Status.CANCELLED, Status.NUMERICAL_ERROR),
        objective=found.objective,
        bound=found.bound,
        primal_residual=found.primal_residual,
        dual_residual=found.dual_residual,
        gap=found.gap,
    )


def _lp(
    c: np.ndarray, A: csc_array, lower: np.ndarray, upper: np.ndarray, most: float = math.inf
) -> LinearProgram:
    n = c.size
    return LinearProgram(
        c.astype(np.float64),
        csc_array(A),
        lower,
        upper,
        np.zeros(n),
        np.full(n, most),
        0.0,
        np.zeros(n, np.bool_),
    )


def transport(rng: np.random.Generator, scale: int) -> LinearProgram:
    """Return a transport problem: ship goods from plants to customers at the least cost."""
    plants, customers = 10 * scale, 30 * scale
    demand = rng.uniform(1.0, 10.0, customers)
    supply = rng.uniform(0.5, 1.5, plants)
    supply *= 1.2 * demand.sum() / supply.sum()
    out, into = (
        kron(eye_array(plants), np.ones((1, customers))),
        kron(np.ones((1, plants)), eye_array(customers)),
    )
    lower = np.concatenate((np.full(plants, -math.inf), demand))
    upper = np.concatenate((supply, np.full(customers, math.inf)))
    return _lp(rng.uniform(1.0, 20.0, plants * customers), vstack([out, into]), lower, upper)


def commodities(rng: np.random.Generator, scale: int) -> LinearProgram:
    """Return a minimum-cost multi-commodity flow problem on a ring with chords and arc capacities."""
    nodes, kinds = 10 * scale, 4 * scale
    tail = np.concatenate((np.arange(nodes), np.arange(nodes), rng.integers(0, nodes, nodes)))
    head = np.concatenate(
        (np.roll(np.arange(nodes), -1), np.roll(np.arange(nodes), 1), rng.integers(0, nodes, nodes))
    )
    arcs = tail.size
    flow = csc_array(
        (np.repeat([1.0, -1.0], arcs), (np.concatenate((tail, head)), np.tile(np.arange(arcs), 2))),
        (nodes, arcs),
    )
    supply = np.zeros((kinds, nodes))
    source = rng.integers(0, nodes, kinds)
    supply[np.arange(kinds), source] += 1.0
    supply[np.arange(kinds), (source + rng.integers(1, nodes, kinds)) % nodes] -= 1.0
    balance, shared = block_diag([flow] * kinds), hstack([eye_array(arcs)] * kinds)
    lower = np.concatenate((supply.ravel(), np.full(arcs, -math.inf)))
    upper = np.concatenate((supply.ravel(), np.full(arcs, 0.6 * kinds)))
    return _lp(np.tile(rng.uniform(1.0, 3.0, arcs), kinds), vstack([balance, shared]), lower, upper)


def staffing(rng: np.random.Generator, scale: int) -> LinearProgram:
    """Return a staffing problem: cover the demand of every period by shifts of different lengths."""
    periods, shifts = 48 * scale, 400 * scale
    begin, length = rng.integers(0, periods, shifts), rng.integers(4, 13, shifts)
    row = np.concatenate([(b + np.arange(n)) % periods for b, n in zip(begin, length, strict=True)])
    A = csc_array((np.ones(row.size), (row, np.repeat(np.arange(shifts), length))), (periods, shifts))
    demand = 20.0 + 15.0 * np.sin(np.arange(periods) * 2 * np.pi / 48) + rng.uniform(0, 5, periods)
    return _lp(length * rng.uniform(0.8, 1.2, shifts), A, demand, np.full(periods, math.inf), 50.0)


def blending(rng: np.random.Generator, scale: int) -> LinearProgram:
    """Return a blending problem: make products from limited ingredients, with the largest margin."""
    rows, columns = 60 * scale, 200 * scale
    A = random_array((rows, columns), density=4.0 / rows, rng=rng, format="csc")
    return _lp(
        -rng.uniform(0.5, 1.5, columns), A, np.full(rows, -math.inf), rng.uniform(5.0, 20.0, rows), 10.0
    )


_MODELS: dict[str, Callable[[np.random.Generator, int], LinearProgram]] = {
    "transport": transport,
    "commodities": commodities,
    "staffing": staffing,
    "blending": blending,
}
"""Functions that generate programs, by kind."""
