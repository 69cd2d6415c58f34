"""Interface to HiGHS: pass a program as arrays, run it until a deadline, and read the result.

HiGHS (Huangfu and Hall 2018, highs.dev) is called through highspy. HiGHS' row duals have the opposite sign of
copter's prices; the functions of this module return copter's sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock
from copter.errors import SolverError
from copter.models.linear_program import LinearProgram
from copter.native import run_apart
from copter.status import Status

if TYPE_CHECKING:
    from copter.proof.rigorous import LPArrays
    from copter.store.changes import Changes

_DROPPED, LEAST_ENTRY = 1e-9, 1e-12
"""HiGHS drops entries up to the first value by default; its option for this can be as small as the second."""
_FAR = 1e5
"""Entries that are larger than 1 by more than this factor, or smaller, can make HiGHS' presolve lose the
optimum: it makes entries that it then drops."""
_GRACE = 0.02
"""Seconds by which a run may exceed its limit before it is abandoned."""
_SMALL, _AT_ONCE = 50_000, 2_500_000
"""A model with a basis and at most the first number of columns and rows first runs in the present thread,
because starting a thread may take longer than the run. The second number limits this run: it is the largest
product of the iterations and the number of columns and rows. A thread that can be interrupted then continues.
The limit counts iterations and not seconds, so that the path does not depend on the speed of the machine.
"""
STRATEGIES = {"choose": 0, "dual": 1, "primal": 4}
"""HiGHS' number of each simplex strategy."""
_ITERATIONS = "simplex_iteration_limit"
_MODEL_STATUS = {
    highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
    highspy.HighsModelStatus.kModelEmpty: Status.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
    highspy.HighsModelStatus.kUnboundedOrInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kTimeLimit: Status.DEADLINE,
    highspy.HighsModelStatus.kIterationLimit: Status.ITERATION_LIMIT,
    highspy.HighsModelStatus.kSolutionLimit: Status.ITERATION_LIMIT,  # a limit of nodes, too
}


@contextmanager
def _own_threads() -> Iterator[None]:
    """Give HiGHS new threads, and end them afterwards.

    HiGHS keeps the threads of a run for the next run of the same Python thread, and rejects that run if it
    needs another number of threads. A forked process inherits the memory of these threads but not the
    threads, so its next run would crash with SIGSEGV.
    """
    highspy.Highs.resetGlobalScheduler(True)
    try:
        yield
    finally:
        highspy.Highs.resetGlobalScheduler(True)


def check(status: highspy.HighsStatus, what: str) -> None:
    """Raise a SolverError about `what` if HiGHS returned an error."""
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS rejected: {what}")


def far_from_1(entries: NDArray[np.float64]) -> bool:
    """Return whether an entry other than 0 is above 1e5, or below 1e-5, in absolute value."""
    size = abs(entries)
    return bool(((size > _FAR) | ((size > 0.0) & (size < 1.0 / _FAR))).any())


class HighsEngine(highspy.Highs):
    """HiGHS without output, which runs in threads of its own.

    Parameters
    ----------
    threads : int, optional
        Number of threads; None for HiGHS' default.
    **options
        Options of HiGHS.

    Attributes
    ----------
    iterations_before : int
        Iterations of the first part of the last run (:meth:`run_hot`); 0 if it had one part.

    Raises
    ------
    SolverError
        If an option is unknown or its value is invalid.
    """

    iterations_before = _last_hot = 0

    def __init__(self, threads: int | None = None, /, **options: Any) -> None:
        super().__init__()
        own: dict[str, Any] = {} if threads is None else {"threads": threads}
        for name, value in (own | options).items():
            self.set_option(name, value)

    @classmethod
    def loaded(
        cls,
        lp: LPArrays,
        threads: int | None,
        /,
        *,
        kinds: NDArray[np.int32] | None = None,
        **options: Any,
    ) -> Self:
        """Make an instance with the given options, and pass a program to it (:meth:`pass_model`)."""
        highs = cls(threads, **options)
        highs.pass_model(lp, kinds)
        return highs

    def enableCallbacks(self) -> None:  # noqa: D102
        # highspy's constructor calls this method, in which HiGHS would print its banner.
        self.set_option("output_flag", False)
        super().enableCallbacks()

    def set_option(self, name: str, value: bool | int | float | str) -> None:
        """Set an option of HiGHS; raise SolverError if it is unknown or the value is invalid."""
        check(self.setOptionValue(name, value), f"option {name} = {value!r}")

    # ---- input -----------------------------------------------------------------------------------

    def pass_model(self, lp: LPArrays, kinds: NDArray[np.int32] | None = None) -> None:
        """Pass a whole program, to be minimised, in its own numbers.

        For branch and bound, the limit below which HiGHS drops entries stays HiGHS' default if the program
        has no such entries. `kinds` (n,) has the kinds of the columns, with the numbers of HiGHS and scipy;
        all continuous by default. Raise SolverError if HiGHS rejects the program.
        """
        matrix = lp.A
        m, n = matrix.shape
        if kinds is None or (abs(matrix.data[matrix.data != 0.0]) <= _DROPPED).any():
            self.keep_small(matrix.data)
        status = self.passModel(
            n,
            m,
            matrix.nnz,
            int(highspy.MatrixFormat.kColwise),
            int(highspy.ObjSense.kMinimize),
            lp.offset if isinstance(lp, LinearProgram) else 0.0,
            lp.c,
            lp.lower,
            lp.upper,
            lp.row_lower,
            lp.row_upper,
            matrix.indptr.astype(np.int32, copy=False),
            matrix.indices.astype(np.int32, copy=False),
            matrix.data,
            np.zeros(n, np.int32) if kinds is None else kinds,
        )
        check(status, "the model")

    def keep_small(self, entries: NDArray[np.float64]) -> None:
        """Let HiGHS keep small entries if some entries are far from 1, unless the user has set a limit.

        Without entries far from 1, HiGHS' default stays, because the path of HiGHS depends on it.
        """
        name = "small_matrix_value"
        if far_from_1(entries) and self.getOptionValue(name)[1] == _DROPPED:
            self.set_option(name, LEAST_ENTRY)

    def push(self, changes: Changes) -> None:
        """Apply changes to the model, which keeps its basis; raise SolverError if HiGHS rejects one.

        HiGHS removes the basis entries of deleted columns and rows; new columns are nonbasic, new rows basic.
        """
        it, rows, new = changes, changes.new_rows, changes.new_columns
        n, k = new.costs.size, it.bound_columns.size
        zero = np.zeros(max(n, k))
        self.keep_small(rows.values)
        self.keep_small(new.values)
        if it.deleted_columns.size:
            check(self.deleteCols(it.deleted_columns.size, it.deleted_columns), "deleting columns")
        if it.deleted_rows.size:
            check(self.deleteRows(it.deleted_rows.size, it.deleted_rows), "deleting rows")
        self.change_costs(it.cost_columns, it.costs)
        self.change_bounds(it.bound_columns, zero[:k], it.upper)
        self.change_sides(it.side_rows, it.row_lower, it.row_upper)
        if rows.lower.size:
            entries = rows.values.size, rows.starts, rows.columns, rows.values
            check(self.addRows(rows.lower.size, rows.lower, rows.upper, *entries), "adding rows")
        if n:
            entries = new.values.size, new.starts, new.rows, new.values
            check(self.addCols(n, new.costs, zero[:n], new.upper, *entries), "adding columns")

    def change_costs(self, columns: NDArray[np.int32], costs: NDArray[np.float64]) -> None:
        """Set the costs of some columns."""
        if columns.size:
            check(self.changeColsCost(columns.size, columns, costs), "costs")

    def change_bounds(
        self, columns: NDArray[np.int32], lower: NDArray[np.float64], upper: NDArray[np.float64]
    ) -> None:
        """Set the bounds of some columns."""
        if columns.size:
            check(self.changeColsBounds(columns.size, columns, lower, upper), "bounds of columns")

    def change_sides(
        self, rows: NDArray[np.int32], lower: NDArray[np.float64], upper: NDArray[np.float64]
    ) -> None:
        """Set the bounds of some rows."""
        if rows.size:
            check(self.changeRowsBounds(rows.size, rows, lower, upper), "bounds of rows")

    # ---- runs ------------------------------------------------------------------------------------

    def run(self) -> highspy.HighsStatus:
        """Run HiGHS in threads of its own. After a failed run, :meth:`outcome` says so."""
        with _own_threads():
            return super().run()

    def timed(self) -> float:
        """Run HiGHS; return the time of the run in seconds."""
        watch = Clock()
        self.run()
        return watch()

    def run_hot(self, clock: Clock, reserve: float = 0.0, most: int = highspy.kHighsIInf) -> float:
        """Run HiGHS from a basis as :meth:`run_until` does, with at most `most` iterations of simplex.

        HiGHS does not presolve when it has a basis, so a run of a small model is short.
        """
        seconds, size = 0.0, max(1, self.getNumCol() + self.getNumRow())
        at_once = min(most, _AT_ONCE // size if size <= _SMALL else 0)
        if self._last_hot > at_once:  # this run will be long, too, and its second part would factorise again
            at_once = 0
        self.iterations_before = 0
        if at_once:
            self.set_option(_ITERATIONS, at_once)
            self.limit_time(clock.left(reserve))
            seconds = self.timed()
        if not at_once or (at_once < most and self.outcome()[0] is Status.ITERATION_LIMIT):
            before = self.iterations()[0] if at_once else 0
            self.set_option(_ITERATIONS, most)
            seconds += self.run_until(clock, reserve)
            self.iterations_before = before
        self.set_option(_ITERATIONS, highspy.kHighsIInf)
        self._last_hot = self.iterations()[0]
        return seconds

    def run_until(self, clock: Clock, reserve: float = 0.0) -> float:
        """Run HiGHS until ``reserve`` seconds before the deadline; return the time of the run in seconds.

        Raise Interrupted if HiGHS exceeded its time limit or the solve was cancelled. After this error, the
        engine must not be used again.
        """
        self.iterations_before = 0
        self.limit_time(clock.left(reserve))
        # Simplex and branch and bound read this option while they run, so that setting it to 0 ends them.
        return run_apart(
            self.timed,
            clock,
            reserve=reserve - _GRACE,
            stop=lambda: self.setOptionValue("time_limit", 0.0),
        )

    def limit_time(self, left: float) -> None:
        """Limit the next run to some seconds; HiGHS compares the limit with the time of all its runs."""
        self.set_option("time_limit", self.getRunTime() + left if left < math.inf else highspy.kHighsInf)

    # ---- output ----------------------------------------------------------------------------------

    def outcome(self) -> tuple[Status, str]:
        """Return the status of the last run, and HiGHS' name for it."""
        status = self.getModelStatus()
        word = f"HiGHS: {self.modelStatusToString(status)}"
        return _MODEL_STATUS.get(status, Status.NUMERICAL_ERROR), word

    def point(self) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return values of the columns and prices of the rows after the last run, None if missing."""
        solution = self.getSolution()
        known = solution.value_valid or not self.getNumCol()  # for an empty model HiGHS returns no values
        x = np.fromiter(solution.col_value, np.float64) if known else None  # faster than np.array for lists
        return x, -np.fromiter(solution.row_dual, np.float64) if solution.dual_valid else None

    def ray(self, status: Status) -> NDArray[np.float64] | None:
        """Return prices (m,) that prove infeasibility, or the direction (n,) of an unbounded program."""
        if status is Status.INFEASIBLE:
            _, known, prices = self.getDualRay()
            return -np.array(prices) if known else None
        if status is Status.UNBOUNDED:
            _, known, direction = self.getPrimalRay()
            return np.array(direction) if known else None
        return None

    def iterations(self) -> tuple[int, int]:
        """Return the iterations of the last run, and those of its crossover."""
        info = self.getInfo()
        counts = info.simplex_iteration_count, info.ipm_iteration_count, info.pdlp_iteration_count
        own = self.iterations_before + sum(max(0, int(count)) for count in counts)
        return own, max(0, int(info.crossover_iteration_count))
