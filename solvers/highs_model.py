"""HiGHS by arrays: make an instance, pass a model, read an answer.

HiGHS (Huangfu and Hall 2018, highs.dev) is driven through highspy without a Python loop: models go in as flat
arrays.  Row duals come out with the opposite sign of our prices.  A model whose numbers HiGHS would drop or
refuse goes in in other units (:mod:`copter.solvers.highs_units`), and what comes out is in the program's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.errors import SolverError
from copter.solution import Status
from copter.solvers.base import Stopwatch
from copter.solvers.highs_units import KEPT, LEAST, Units, units_for
from copter.solvers.native import run_apart

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.solvers.highs_units import Rows as Rows

_GRACE = 0.02
"""Seconds by which a run may miss its limit before it is given up."""
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


class Engine(highspy.Highs):
    """HiGHS whose points, prices, rays and objectives are in the units of the program that it was given.

    What presolve leaves, and what is given to ``postsolve``, is in HiGHS' units; a basis is the same in all.

    Attributes
    ----------
    units : Units, optional
        None if HiGHS has the program's own.
    """

    units: Units | None = None

    def getSolution(self) -> highspy.HighsSolution:  # noqa: D102
        solution = super().getSolution()
        return solution if self.units is None else _converted(solution, self.units)

    def setSolution(self, *given: Any) -> highspy.HighsStatus:  # noqa: D102
        if self.units is not None:
            row, column, cost = self.units
            given = (_converted(given[0], Units(1 / row, 1 / column, 1 / cost)),)
        return super().setSolution(*given)

    def getDualRay(self) -> tuple[Any, bool, NDArray[np.float64]]:  # noqa: D102
        status, known, ray = super().getDualRay()
        return status, known, ray if self.units is None or not known else np.asarray(ray) * self.units.row

    def getPrimalRay(self) -> tuple[Any, bool, NDArray[np.float64]]:  # noqa: D102
        status, known, ray = super().getPrimalRay()
        return status, known, ray if self.units is None or not known else np.asarray(ray) * self.units.column

    def getInfo(self) -> highspy.HighsInfo:  # noqa: D102
        info = super().getInfo()
        if self.units is not None:
            info.objective_function_value /= self.units.cost
            info.mip_dual_bound /= self.units.cost
        return info


def _converted(given: highspy.HighsSolution, units: Units) -> highspy.HighsSolution:
    """A solution in HiGHS' units in those of the program."""
    row, column, cost = units
    solution = highspy.HighsSolution()
    solution.value_valid, solution.dual_valid = given.value_valid, given.dual_valid
    for name, factor in (
        ("col_value", column),
        ("row_value", 1 / row),
        ("col_dual", 1 / (column * cost)),
        ("row_dual", row / cost),
    ):
        values = np.array(getattr(given, name))
        setattr(solution, name, (values * factor).tolist() if values.size else [])
    return solution


def engine(threads: int | None, /, **options: Any) -> Engine:
    """A silent HiGHS instance with the given options."""
    highs = Engine()
    own = {} if threads is None else {"threads": threads}
    for name, value in ({"output_flag": False} | own | options).items():
        set_option(highs, name, value)
    return highs


def run(highs: highspy.Highs) -> float:
    """Run HiGHS; returns the seconds it took."""
    # All runs of a thread share one pool of threads; one that wants another size needs a fresh one.
    highspy.Highs.resetGlobalScheduler(True)
    watch = Stopwatch()
    status = highs.run()
    seconds = watch()
    check(status, "run")
    return seconds


def run_until(highs: highspy.Highs, clock: Clock, reserve: float = 0.0) -> float:
    """Run HiGHS until ``reserve`` seconds before the clock is over; returns the seconds it took.

    Parameters
    ----------
    reserve : float
        Seconds.

    Raises
    ------
    Interrupted
        It was given up, and is lost: HiGHS did not keep its time limit, or the solve was cancelled.
    """
    # HiGHS holds the limit against the time of all runs of an instance together.
    left = clock.left(reserve)
    set_option(highs, "time_limit", highs.getRunTime() + left if left < math.inf else highspy.kHighsInf)
    # What simplex and branch and bound read of the limit is this very number: they end when they next look.
    return run_apart(
        lambda: run(highs),
        clock,
        reserve=reserve - _GRACE,
        stop=lambda: highs.setOptionValue("time_limit", 0.0),
    )


def set_option(highs: highspy.Highs, name: str, value: Any) -> None:
    """Set an option of HiGHS, which must know it.

    Parameters
    ----------
    value : bool, int, float or str

    Raises
    ------
    SolverError
        HiGHS does not know it, or the value is none for it.
    """
    check(highs.setOptionValue(name, value), f"option {name} = {value!r}")


def check(status: highspy.HighsStatus, what: str) -> None:
    """Raise SolverError if HiGHS refused something.

    Parameters
    ----------
    what : str
        For the message.

    Raises
    ------
    SolverError
        The status is an error.
    """
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS refused: {what}")


def pass_model(
    highs: Engine, program: Rows, kinds: NDArray[np.int32] | None = None, offset: float = 0.0
) -> None:
    """Give HiGHS a whole program, in units in which its numbers fit.

    Parameters
    ----------
    kinds : (n,) int32 ndarray, optional
        Kind of each column, as HiGHS and scipy number them; all are continuous by default.
    offset : float
        Constant of the objective.

    Raises
    ------
    SolverError
        HiGHS refuses it; an entry that fits into HiGHS in no units is named.
    """
    matrix = program.A
    m, n = matrix.shape
    c, data = program.c, matrix.data
    columns, rows = (program.lower, program.upper), (program.row_lower, program.row_upper)
    highs.units = units = units_for(program, kinds)
    if matrix.nnz and abs(matrix.data).min() < KEPT:
        set_option(highs, "small_matrix_value", LEAST)
    if units is not None:
        c, offset = c * units.column * units.cost, offset * units.cost
        entry_column = np.repeat(units.column, np.diff(matrix.indptr))
        data = data * units.row[matrix.indices] * entry_column
        columns = program.lower / units.column, program.upper / units.column
        rows = program.row_lower * units.row, program.row_upper * units.row
        set_option(highs, "infinite_bound", highspy.kHighsInf)  # 1e20 is a number like others in these units
    status = highs.passModel(
        n,
        m,
        matrix.nnz,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        offset,
        c,
        *columns,
        *rows,
        matrix.indptr.astype(np.int32, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        data,
        np.zeros(n, np.int32) if kinds is None else kinds,
    )
    check(status, "the model")


def status_of(highs: highspy.Highs) -> tuple[Status, str]:
    """Status of the last run, and HiGHS' own word for it."""
    model_status = highs.getModelStatus()
    word = f"HiGHS: {highs.modelStatusToString(model_status)}"
    return _MODEL_STATUS.get(model_status, Status.NUMERICAL_ERROR), word


def answer(
    highs: highspy.Highs, lower: NDArray[np.float64] | float, upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Columns, moved into their bounds, and row duals of the last run; None for what there is not.

    Parameters
    ----------
    lower : (n,) ndarray or float
    upper : (n,) ndarray

    Returns
    -------
    (n,) ndarray or None, (m,) ndarray or None
        The duals in HiGHS' sign.
    """
    solution = highs.getSolution()
    known = solution.value_valid or not upper.size  # of an empty model HiGHS knows nothing
    x = np.clip(solution.col_value, lower, upper) if known else None
    dual = np.array(solution.row_dual) if solution.dual_valid else None
    return x, dual
