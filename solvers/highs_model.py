"""HiGHS by arrays: make an instance, pass a model, read an answer.

HiGHS (Huangfu and Hall 2018, highs.dev) is driven through highspy without a Python loop: models go in as flat
arrays.  Row duals come out with the opposite sign of our prices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.errors import SolverError
from copter.solution import Status
from copter.solvers.base import Stopwatch

if TYPE_CHECKING:
    from copter.compiled import CompiledProgram

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


def engine(threads: int | None, **options: Any) -> highspy.Highs:
    """A silent HiGHS instance with the given options."""
    highs = highspy.Highs()
    own = {} if threads is None else {"threads": threads}
    for name, value in ({"output_flag": False} | own | options).items():
        set_option(highs, name, value)
    return highs


def run(highs: highspy.Highs) -> float:
    """Run HiGHS; returns the seconds it took."""
    # All instances of a process share one pool of threads; one that wants another size needs a fresh one.
    highspy.Highs.resetGlobalScheduler(True)
    watch = Stopwatch()
    status = highs.run()
    seconds = watch()
    check(status, "run")
    return seconds


def set_option(highs: highspy.Highs, name: str, value: Any) -> None:
    """Set an option of HiGHS, which must know it."""
    check(highs.setOptionValue(name, value), f"option {name} = {value!r}")


def check(status: highspy.HighsStatus, what: str) -> None:
    """Raise SolverError if HiGHS refused something."""
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS refused: {what}")


def pass_model(highs: highspy.Highs, compiled: CompiledProgram, *, integral: bool = False) -> None:
    """Give HiGHS the whole program; its integrality only if wanted."""
    matrix = compiled.A
    n, m = compiled.c.size, compiled.row_lower.size
    kinds = compiled.integrality.astype(np.int32) if integral else np.zeros(n, np.int32)
    status = highs.passModel(
        n,
        m,
        matrix.nnz,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        compiled.c,
        compiled.lower,
        compiled.upper,
        compiled.row_lower,
        compiled.row_upper,
        matrix.indptr,
        matrix.indices,
        matrix.data,
        kinds,
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
    """Columns, moved into their bounds, and row duals of the last run; None for what there is not."""
    solution = highs.getSolution()
    x = np.clip(solution.col_value, lower, upper) if solution.value_valid else None
    dual = np.array(solution.row_dual) if solution.dual_valid else None
    return x, dual
