"""HiGHS model of a program that is kept between rounds, with its basis, and a basis near a given point.

The differences between two rounds are read from the store's revisions (:mod:`copter.store.changes`).  HiGHS
keeps the basis: entries of deleted rows and columns are removed, new columns are nonbasic, and new rows are
basic. If the basis became singular, the next factorization replaces columns by slacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, check_for
from copter.clock import check as check_clock
from copter.models.highs import STRATEGIES, HighsEngine
from copter.store.allocation import SparseX, dense_to_sparse
from copter.store.changes import Changes, FlatModel
from copter.store.compiled import compile_program
from copter.store.reading import upper_bounds

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_NEARLY = 1e-6
"""Distance from a bound, as a share of the bound, up to which a value counts as at the bound."""


def simplex_options(tolerance: float, strategy: str) -> dict[str, Any]:
    """Return options of HiGHS' simplex for a key of ``STRATEGIES``; the smallest tolerance is 1e-10."""
    feasibility = float(np.clip(tolerance, 1e-10, 1e-7))
    return {
        "solver": "simplex",
        "simplex_strategy": STRATEGIES[strategy],
        "primal_feasibility_tolerance": feasibility,
        "dual_feasibility_tolerance": feasibility,
    }


class KeptModel:
    """HiGHS model that is updated with the edits of a program.

    Attributes
    ----------
    program : ContinualProgram
        Program of the model.
    flat : FlatModel
        Order of the model's columns and rows.
    highs : HighsEngine
        HiGHS with the model and its basis.
    seconds : float
        Time for making the model.
    """

    def __init__(self, program: ContinualProgram, threads: int | None, options: dict[str, Any]) -> None:
        self.program = program
        clock = Clock()
        compiled = compile_program(program)
        self.flat = FlatModel(program)
        check_for(clock())  # HiGHS' copy of the model takes about as long, and cannot be interrupted
        self.highs = HighsEngine.loaded(compiled, threads, **options)
        self.seconds = clock()

    def push(self) -> Changes:
        """Apply all edits since the last call to the model, and return them.

        After an exception the model must not be used again. Raise SolverError if HiGHS rejects a number.
        """
        changes = self.flat.changes()
        check_clock()
        self.highs.push(changes)
        return changes

    def point(self) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return the allocation and the prices (row slots,) of the last run; None without a finite point."""
        values, prices = self.highs.point()
        if values is None or prices is None or not (np.isfinite(values).all() and np.isfinite(prices).all()):
            return None
        flat = self.flat
        x = dense_to_sparse(flat.slot, flat.size, np.clip(values, 0.0, flat.upper()))
        at = np.flatnonzero(flat.owner >= 0)
        y = np.zeros(flat.store.rows.size)
        y[flat.owner[at]] = prices[at]
        return x, y


def basis_near(program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> highspy.HighsBasis:
    """Return a basis near an allocation and prices (row slots,), for a new model of the program.

    Columns strictly between their bounds, rows without a price, and sum rows that are not tight become basic.
    HiGHS repairs the basis if it has too many entries or too few.
    """
    store, table, slots = program.store, program.store.requests, program.request_slots
    sizes = table.n_columns[slots]
    start = np.zeros(table.size, np.int64)
    start[slots] = np.cumsum(sizes) - sizes
    value = np.zeros(int(sizes.sum()))
    value[start[x.slot] + x.column] = x.value
    total = table.total[slots]
    summed = total < np.inf
    upper, most = upper_bounds(store, slots), np.repeat(total, sizes)
    upper[upper >= most] = np.inf  # the sum row is then at least as tight
    room = np.minimum(upper, most)
    near = _NEARLY * np.where(np.isfinite(room), room, 1.0)
    kind = highspy.HighsBasisStatus
    columns = np.where(value >= upper - near, int(kind.kUpper), int(kind.kBasic))
    columns[value <= near] = int(kind.kLower)
    owner = np.repeat(np.arange(slots.size), sizes)
    tight = np.bincount(owner, value, slots.size) >= total * (1 - _NEARLY)
    tight &= np.bincount(owner, columns == int(kind.kBasic), slots.size) > 0
    sums = np.where(tight, int(kind.kUpper), int(kind.kBasic))[summed]
    price = y[program.resource_slots]
    rows = np.full(price.size, int(kind.kBasic))
    weighty = _NEARLY * float(abs(price).max(initial=0.0))
    rows[price > weighty], rows[price < -weighty] = int(kind.kUpper), int(kind.kLower)
    basis = highspy.HighsBasis()
    known = [kind(each) for each in range(3)]
    basis.col_status = [known[each] for each in columns.tolist()]
    basis.row_status = [known[each] for each in np.concatenate((rows, sums)).tolist()]
    basis.valid = basis.alien = True  # alien: HiGHS checks and repairs the basis
    return basis
