"""Time of edits: a change of 1% of the requests in place, against building the CSR matrix with scipy.

The program has the form of Sia's: requests of 1,000 columns, each column in one of seven resource rows and in
its request's sum row.  Three kinds of edit are timed. Each is one call of a bulk edit method, or two if
requests leave and arrive:

- `edit_seconds`: 1% of the requests leave and the same number arrive, with shared columns;
- `cost_edit_seconds`: 1% get a new scale and a new override, as when a job's restart factor changes;
- `own_edit_seconds`: 1% leave and the same number arrive with their own columns, given as a sparse matrix.

scipy builds the CSR from concatenated arrays: `csr_rebuild_seconds` from triplets (row, column, value), the
usual way; `csr_from_csc_seconds` from column pointers, the fastest way.  Every edit is compared with both:
`rebuild_over_edit`, `rebuild_over_edit_costs` and `rebuild_over_edit_own` are the seconds from triplets over
those of the edit, and `csc_over_edit`, `csc_over_edit_costs` and `csc_over_edit_own` those from column
pointers.

Times of scipy are the best of a few repetitions and times of edits are medians, which favours scipy.  The
quartiles of edits are in `edit_seconds_quartiles` and so on.

As a course for the suite (:class:`Edits`), a round is an edit of 1% of the requests without a solve: `copter`
edits its program, `scipy-coo` and `scipy-csc` build the CSR of all requests.  `gap` is then the largest
relative difference between a row's sum in the matrix and the sum over the requests.

Two comparisons are not of equal work.  A request with shared columns passes no coefficients; one with its own
columns passes as many as scipy gets for it. A change of costs changes no coefficient, so the matrix need not
be built again for it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array

from copter.bench.course import Course, Play, method_round
from copter.bench.settings import Record, SolverSettings
from copter.program.program import ContinualProgram, SharedColumns
from copter.store.compiled import compile_program

_WIDTH = 1000
_N_RESOURCES = 7
_CHURN = 0.01
RATIOS = tuple(f"{b}_over_{e}" for b in ("rebuild", "csc") for e in ("edit", "edit_costs", "edit_own"))
"""Names of the ratios in a record."""
_REPEATS = 51
"""Number of timed edits of a kind, so large that a busy machine does not affect their median."""


def measure_updates(
    sizes: Sequence[int], seed: int, on_size: Callable[[int], None] | None = None
) -> list[dict[str, Any]]:
    """Return one record for each size.

    `sizes`: numbers of columns, rounded to whole requests of 1,000 and measured in ascending order. `on_size`
    is called with each size before it is measured.
    """
    _measure_size(_WIDTH * 4, np.random.default_rng(seed))  # compiles the store's kernels
    records = []
    for size in sorted(sizes):
        if on_size is not None:
            on_size(size)
        records.append(_measure_size(size, np.random.default_rng(seed)))
    return records


def _measure_size(size: int, rng: np.random.Generator) -> dict[str, Any]:
    n_requests = max(1, round(size / _WIDTH))
    rows = rng.integers(0, _N_RESOURCES, _WIDTH)
    values = rng.integers(1, 65, _WIDTH).astype(float)
    edits = max(1, round(_CHURN * n_requests))
    t_csr, t_csc, csr_nnz = _time_scipy(n_requests, rows, values)
    bench = _Replacing(n_requests, edits, rows, values, rng)
    t_replace, replace_quartiles = _timed(bench.replace)
    t_costs, costs_quartiles = _timed(bench.change_costs)
    t_own, own_quartiles = _timed(bench.replace_own)
    return {
        "n_variables": bench.program.n_variables,
        "n_rows": bench.program.n_rows,
        "nnz": csr_nnz,
        "requests": n_requests,
        "edits": edits,
        "churn": edits / n_requests,
        "edit_seconds": t_replace,
        "cost_edit_seconds": t_costs,
        "own_edit_seconds": t_own,
        "edit_seconds_quartiles": replace_quartiles,
        "cost_edit_seconds_quartiles": costs_quartiles,
        "own_edit_seconds_quartiles": own_quartiles,
        "seconds_per_edit": t_replace / edits,
        "csr_rebuild_seconds": t_csr,
        "csr_from_csc_seconds": t_csc,
        **{
            f"{build}_over_{edit}": t_build / edit_seconds
            for build, t_build in (("rebuild", t_csr), ("csc", t_csc))
            for edit, edit_seconds in (("edit", t_replace), ("edit_costs", t_costs), ("edit_own", t_own))
        },
    }


class _Replacing:
    """A program of a given size, and edits that keep its size; new data is drawn outside the timed part."""

    def __init__(
        self, n_requests: int, edits: int, rows: np.ndarray, values: np.ndarray, rng: np.random.Generator
    ):
        self.rng, self.edits = rng, edits
        self.program = program = ContinualProgram()
        for resource in range(_N_RESOURCES):
            program.add_resource(resource, upper=float(n_requests))
        usage: dict[Hashable, Any] = {
            resource: (np.flatnonzero(rows == resource), values[rows == resource])
            for resource in range(_N_RESOURCES)
        }
        self.template: SharedColumns = program.share_columns(usage, _WIDTH)
        self.present = list(range(n_requests))
        self.next_id = n_requests
        costs = rng.random(n_requests * _WIDTH)
        program.add_requests(
            self.present, costs, np.full(n_requests, _WIDTH), self.template, totals=np.ones(n_requests)
        )
        block = csc_array((values, rows, np.arange(_WIDTH + 1)), shape=(_N_RESOURCES, _WIDTH))
        self.matrix = csc_array(
            (
                np.tile(block.data, edits),
                np.tile(block.indices, edits),
                np.arange(edits * _WIDTH + 1),
            ),
            shape=(_N_RESOURCES, edits * _WIDTH),
        )

    def replace(self) -> float:
        """Replace requests by others with shared columns; return the seconds."""
        return self._replace(self.template)

    def replace_own(self) -> float:
        """Replace requests by others with their own columns; return the seconds."""
        return self._replace(self.matrix)

    def _replace(self, usage: Any) -> float:
        leaving = self._pick()
        arriving = list(range(self.next_id, self.next_id + self.edits))
        costs = self.rng.random(self.edits * _WIDTH)
        sizes, totals = np.full(self.edits, _WIDTH), np.ones(self.edits)
        begin = perf_counter()
        self.program.remove_requests(leaving)
        self.program.add_requests(arriving, costs, sizes, usage, totals=totals)
        elapsed = perf_counter() - begin
        gone = set(leaving)
        self.present = [id for id in self.present if id not in gone] + arriving
        self.next_id += self.edits
        return elapsed

    def change_costs(self) -> float:
        """Give requests a new scale and a new override; return the seconds."""
        ids = self._pick()
        scales = self.rng.random(self.edits) + 0.5
        overrides = (
            np.ones(self.edits, int),
            self.rng.integers(0, _WIDTH, self.edits),
            self.rng.random(self.edits),
        )
        begin = perf_counter()
        self.program.update_requests(ids, scales=scales, overrides=overrides)
        return perf_counter() - begin

    def _pick(self) -> list[int]:
        where = self.rng.choice(len(self.present), self.edits, replace=False)
        return [self.present[index] for index in where]


def _scipy_builders(
    n_requests: int, rows: np.ndarray, values: np.ndarray
) -> tuple[Callable[[], csr_array], Callable[[], csr_array], int]:
    """Return builders of the program's CSR from triplets and from column pointers, and its nonzero count.

    `rows`, `values` (WIDTH,): resource and coefficient of each column of a request; its other entry is 1, in
    its sum row.
    """
    n = n_requests * _WIDTH
    row = np.empty((n, 2), np.int32)
    row[:, 0] = np.tile(rows, n_requests)
    row[:, 1] = _N_RESOURCES + np.repeat(np.arange(n_requests), _WIDTH)
    value = np.ones((n, 2))
    value[:, 0] = np.tile(values, n_requests)
    column = np.repeat(np.arange(n, dtype=np.int32), 2)
    pointer = np.arange(0, 2 * n + 1, 2, dtype=np.int32)
    flat_row, flat_value = row.ravel(), value.ravel()
    shape = (_N_RESOURCES + n_requests, n)
    return (
        lambda: coo_array((flat_value, (flat_row, column)), shape=shape).tocsr(),
        lambda: csc_array((flat_value, flat_row, pointer), shape=shape).tocsr(),
        flat_value.size,
    )


def _time_scipy(n_requests: int, rows: np.ndarray, values: np.ndarray) -> tuple[float, float, int]:
    from_triplets, from_pointers, nnz = _scipy_builders(n_requests, rows, values)
    repeats = 3 if n_requests * _WIDTH <= 2_000_000 else 1
    return _best(from_triplets, repeats), _best(from_pointers, repeats), nnz


def _best(build: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        build()
        times.append(perf_counter() - begin)
    return min(times)


def _timed(edit: Callable[[], float]) -> tuple[float, list[float]]:
    """Return the median and the quartiles of the seconds of an edit."""
    edit()
    lower, middle, upper = statistics.quantiles((edit() for _ in range(_REPEATS)), method="inclusive")
    return middle, [lower, upper]


EDITORS = ("copter", "scipy-coo", "scipy-csc")


@dataclass(frozen=True)
class Edits(Course):
    """Rounds of edits of a program of `columns` columns, rounded to whole requests of 1,000."""

    columns: int
    rounds: int = 12
    seed: int = 0

    def small(self) -> Edits:
        """Return a few rounds of a small program."""
        return replace(self, columns=20 * _WIDTH, rounds=3)

    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds with one of :data:`EDITORS`."""
        return Play(self._records(settings.name))

    def _records(self, name: str) -> Iterator[Record]:
        rng = np.random.default_rng(self.seed)
        requests = max(1, round(self.columns / _WIDTH))
        rows, values = rng.integers(0, _N_RESOURCES, _WIDTH), rng.integers(1, 65, _WIDTH).astype(float)
        sums = np.concatenate((requests * np.bincount(rows, values, _N_RESOURCES), np.full(requests, _WIDTH)))
        edit, matrix = _editor(name, requests, rows, values, rng)
        for number in range(self.rounds):
            edit()  # reading the matrix has cleared the caches, which does not happen in real rounds
            seconds = edit()
            there = matrix()
            off = np.abs(there @ np.ones(there.shape[1]) - sums) / sums
            size = {"n_variables": there.shape[1], "n_rows": there.shape[0], "nnz": there.nnz}
            yield method_round(
                name, number, edit_seconds=seconds, solve_seconds=0.0, gap=float(off.max()), **size
            )


def _editor(
    name: str, requests: int, rows: NDArray[np.int64], values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[Callable[[], float], Callable[[], Any]]:
    """Return a function that makes an edit and returns its seconds, and one that reads the matrix."""
    if name == "copter":
        replacing = _Replacing(requests, max(1, round(_CHURN * requests)), rows, values, rng)
        return replacing.replace, lambda: compile_program(replacing.program).A
    from_triplets, from_pointers, _ = _scipy_builders(requests, rows, values)
    build = from_triplets if name == "scipy-coo" else from_pointers
    built: list[Any] = []

    def edit() -> float:
        built.clear()
        begin = perf_counter()
        built.append(build())
        return perf_counter() - begin

    return edit, lambda: built[0]
