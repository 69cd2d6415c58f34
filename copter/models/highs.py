"""Interface to HiGHS: pass a program as arrays, run it until a deadline, and read the result.

HiGHS (Huangfu and Hall 2018, highs.dev) is called through highspy. HiGHS' row duals have the opposite sign of
copter's prices; the functions of this module return copter's sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock
from copter.errors import SolverError
from copter.models.general_lp import GeneralLP
from copter.native import run_apart
from copter.status import Status

if TYPE_CHECKING:
    from copter.proof.rigorous import LinearProgram
    from copter.store.changes import Changes

_DROPPED, _LEAST_ENTRY = 1e-9, 1e-12
"""HiGHS drops entries up to the first by default, and below the second, the smallest value of its option."""
_GRACE = 0.02
"""Seconds by which a run may exceed its limit before it is abandoned."""
_SMALL, _AT_ONCE = 50_000, 0.02
"""Columns and rows of a model with a basis that first runs in the present thread, and these seconds."""
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
    threads, so that its next run would crash with SIGSEGV.
    """
    highspy.Highs.resetGlobalScheduler(True)
    try:
        yield
    finally:
        highspy.Highs.resetGlobalScheduler(True)


class HighsEngine(highspy.Highs):
    """HiGHS without output, which runs in threads of its own.

    `iterations_before`: iterations of a first part of the last run.
    """

    iterations_before = 0

    def enableCallbacks(self) -> None:  # noqa: D102
        # highspy's constructor calls this method, in which HiGHS would print its banner.
        set_option(self, "output_flag", False)
        super().enableCallbacks()

    def run(self) -> highspy.HighsStatus:
        """Run HiGHS in threads of its own."""
        with _own_threads():
            return super().run()


# ---- input -------------------------------------------------------------------------------------------------


def engine(threads: int | None, /, **options: Any) -> HighsEngine:
    """Make a HiGHS instance without output, with the given options."""
    highs = HighsEngine()
    own: dict[str, Any] = {} if threads is None else {"threads": threads}
    for name, value in (own | options).items():
        set_option(highs, name, value)
    return highs


def load(
    lp: LinearProgram, threads: int | None, /, *, kinds: NDArray[np.int32] | None = None, **options: Any
) -> HighsEngine:
    """Make a HiGHS instance with the given options, and pass a program to it (:func:`pass_model`)."""
    highs = engine(threads, **options)
    pass_model(highs, lp, kinds)
    return highs


def set_option(highs: highspy.Highs, name: str, value: bool | int | float | str) -> None:
    """Set an option of HiGHS; raise SolverError if it is unknown or the value is invalid."""
    check(highs.setOptionValue(name, value), f"option {name} = {value!r}")


def keep_small(highs: highspy.Highs, entries: NDArray[np.float64]) -> None:
    """Let HiGHS keep small entries if there are some, unless the user has set what it drops.

    Without small entries HiGHS' default stays, because its path depends on it.
    """
    size = abs(entries)
    name = "small_matrix_value"
    if ((size > 0.0) & (size <= _DROPPED)).any() and highs.getOptionValue(name)[1] == _DROPPED:
        set_option(highs, name, _LEAST_ENTRY)


def check(status: highspy.HighsStatus, what: str) -> None:
    """Raise a SolverError about `what` if HiGHS returned an error."""
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS rejected: {what}")


def pass_model(highs: HighsEngine, lp: LinearProgram, kinds: NDArray[np.int32] | None = None) -> None:
    """Pass a whole program, to be minimised, to HiGHS, in its own numbers.

    `kinds` (n,) has the kinds of the columns, with the numbers of HiGHS and scipy; all continuous by default.
    Raise SolverError if HiGHS rejects the program.
    """
    matrix = lp.A
    m, n = matrix.shape
    keep_small(highs, matrix.data)
    status = highs.passModel(
        n,
        m,
        matrix.nnz,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        lp.offset if isinstance(lp, GeneralLP) else 0.0,
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


def apply_changes(highs: highspy.Highs, changes: Changes) -> None:
    """Apply changes to a model, which keeps its basis; raise SolverError if HiGHS rejects one.

    HiGHS removes the basis entries of deleted columns and rows; new columns are nonbasic, new rows basic.
    """
    it, rows, new = changes, changes.new_rows, changes.new_columns
    n, k = new.costs.size, it.bound_columns.size
    zero = np.zeros(max(n, k))
    keep_small(highs, rows.values)
    keep_small(highs, new.values)
    if it.deleted_columns.size:
        check(highs.deleteCols(it.deleted_columns.size, it.deleted_columns), "deleting columns")
    if it.deleted_rows.size:
        check(highs.deleteRows(it.deleted_rows.size, it.deleted_rows), "deleting rows")
    if it.cost_columns.size:
        check(highs.changeColsCost(it.cost_columns.size, it.cost_columns, it.costs), "costs")
    if k:
        check(highs.changeColsBounds(k, it.bound_columns, zero[:k], it.upper), "bounds of columns")
    if it.side_rows.size:
        sides = it.row_lower, it.row_upper
        check(highs.changeRowsBounds(it.side_rows.size, it.side_rows, *sides), "bounds of rows")
    if rows.lower.size:
        entries = rows.values.size, rows.starts, rows.columns, rows.values
        check(highs.addRows(rows.lower.size, rows.lower, rows.upper, *entries), "adding rows")
    if n:
        entries = new.values.size, new.starts, new.rows, new.values
        check(highs.addCols(n, new.costs, zero[:n], new.upper, *entries), "adding columns")


# ---- runs --------------------------------------------------------------------------------------------------


def run(highs: highspy.Highs) -> float:
    """Run HiGHS; return the time of the run in seconds. After a failed run, :func:`status_of` says so."""
    watch = Clock()
    highs.run()
    return watch()


def run_until(highs: HighsEngine, clock: Clock, reserve: float = 0.0, *, hot: bool = False) -> float:
    """Run HiGHS until ``reserve`` seconds before the deadline; return the time of the run in seconds.

    `hot`: the model has a basis, so that HiGHS does not presolve. If it is small, it first runs in this
    thread for a moment, because starting a thread may take longer than the run. Raise Interrupted if HiGHS
    exceeded its time limit or the solve was cancelled. The engine must not be used afterwards.
    """
    seconds, highs.iterations_before = 0.0, 0
    if hot and _AT_ONCE < clock.left(reserve) and highs.getNumCol() + highs.getNumRow() <= _SMALL:
        limit_time(highs, _AT_ONCE)
        seconds = run(highs)
        if highs.getModelStatus() != highspy.HighsModelStatus.kTimeLimit:
            return seconds
        highs.iterations_before = iterations_of(highs)[0]
    limit_time(highs, clock.left(reserve))
    # Simplex and branch and bound read this option while they run, so that setting it to 0 ends them.
    return seconds + run_apart(
        lambda: run(highs),
        clock,
        reserve=reserve - _GRACE,
        stop=lambda: highs.setOptionValue("time_limit", 0.0),
    )


def limit_time(highs: highspy.Highs, left: float) -> None:
    """Limit the next run to some seconds; HiGHS compares the limit with the time of all its runs together."""
    set_option(highs, "time_limit", highs.getRunTime() + left if left < math.inf else highspy.kHighsInf)


# ---- output ------------------------------------------------------------------------------------------------


def status_of(highs: highspy.Highs) -> tuple[Status, str]:
    """Return the status of the last run, and HiGHS' name for it."""
    model_status = highs.getModelStatus()
    word = f"HiGHS: {highs.modelStatusToString(model_status)}"
    return _MODEL_STATUS.get(model_status, Status.NUMERICAL_ERROR), word


def point_of(highs: highspy.Highs) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return values of the columns and prices of the rows after the last run, None if missing."""
    solution = highs.getSolution()
    known = solution.value_valid or not highs.getNumCol()  # for an empty model HiGHS returns no values
    x = np.array(solution.col_value) if known else None
    return x, -np.array(solution.row_dual) if solution.dual_valid else None


def ray_of(highs: highspy.Highs, status: Status) -> NDArray[np.float64] | None:
    """Return prices (m,) that prove infeasibility, or the direction (n,) of an unbounded program, or None."""
    if status is Status.INFEASIBLE:
        _, known, prices = highs.getDualRay()
        return -np.array(prices) if known else None
    if status is Status.UNBOUNDED:
        _, known, direction = highs.getPrimalRay()
        return np.array(direction) if known else None
    return None


def iterations_of(highs: highspy.Highs) -> tuple[int, int]:
    """Return the iterations of the last run, and those of its crossover."""
    info = highs.getInfo()
    counts = info.simplex_iteration_count, info.ipm_iteration_count, info.pdlp_iteration_count
    before = highs.iterations_before if isinstance(highs, HighsEngine) else 0
    return before + sum(max(0, int(count)) for count in counts), max(0, int(info.crossover_iteration_count))
