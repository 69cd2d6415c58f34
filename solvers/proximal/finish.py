"""The last resort for a working set on which the steps stall: HiGHS' simplex, in the units of the set.

Proximal-point steps need ever longer sigma where optima are nearly degenerate, or where figures of many
magnitudes meet, and their Newton systems lose the digits that are asked for.  A simplex on the columns of the
set does not mind; it is cold, and only ever sees what the passes over the store have left, in units in which
typical figures are near 1.  What it finds is certified as any other answer is, and columns that it lacks are
added by the next pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Interrupted
from copter.errors import SolverError
from copter.proof.rays import farkas_ray, primal_ray
from copter.solution import Status
from copter.solvers.inner.working_set import WorkingSet
from copter.solvers.proximal.steps import Budget, StepsResult
from copter.store.store import EXACTLY, NO_TOTAL

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_TOLERANCE = 1e-10
"""The least that HiGHS takes: rows are judged in their own scale, which may be much less than 1."""
_LEAST = 1e-12
WAYS: tuple[dict[str, str | int], ...] = (
    {"solver": "simplex", "presolve": "choose", "simplex_strategy": 1},
    {"solver": "simplex", "presolve": "choose", "simplex_strategy": 1},
    {"solver": "simplex", "presolve": "off", "simplex_strategy": 4},
    {"solver": "ipm", "presolve": "choose"},
)
"""Options of one attempt after another: dual simplex, then primal without presolve, then interior point."""


def finish(
    program: ContinualProgram, working: WorkingSet, budget: Budget, attempt: int, size: float
) -> StepsResult | None:
    """Optimum, least violation or ray of a working set by HiGHS; None if that has no answer in time.

    Each ``attempt`` goes another way.  In every second one the ``size`` of the objective is the unit of cost:
    reduced costs then hold relative to it.
    """
    import highspy  # only programs that stall pay for it
    from scipy.sparse import csc_array, vstack

    from copter.solvers.highs_model import engine, run_until, status_of

    blocks, n = working.slot.size, working.column.size
    summed = (working.relation != NO_TOTAL) & (working.total > 0)
    closed = (working.relation != NO_TOTAL) & (working.total <= 0)
    unit = np.where(summed, working.total, 1.0)[working.block]  # sum rows of 1
    upper = np.where(closed[working.block], 0.0, working.upper / unit)
    shape = (working.lower_row.size, n)
    matrix = csc_array((working.value, working.row.astype(np.int32), working.pointer), shape=shape)
    sums = csc_array(
        (np.ones(n), working.block.astype(np.int32), np.arange(n + 1)), shape=(blocks, n)
    ).tocsr()[summed]
    sharp = _sharper(working.lower_row, working.upper_row)
    both = vstack([matrix.multiply(unit).multiply(sharp[:, None]), sums]).tocsc()
    low = np.where(working.relation == EXACTLY, 1.0, -np.inf)[summed]
    way, factor = WAYS[attempt % len(WAYS)], 1.0
    if attempt % 2 and size > 0:
        factor = 2.0 ** np.round(np.log2(np.clip(working.cost_scale / size, 1e-9, 1e9)))
    highs = engine(
        budget.threads,
        **way,
        primal_feasibility_tolerance=_TOLERANCE,
        dual_feasibility_tolerance=_TOLERANCE,
        simplex_iteration_limit=max(1, 50 * (n + shape[0] + blocks)),
    )
    highs.passModel(
        n,
        both.shape[0],
        both.nnz,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        working.cost * unit * factor,
        np.zeros(n),
        upper,
        np.concatenate((working.lower_row * sharp, low)),
        np.concatenate((working.upper_row * sharp, np.ones(low.size))),
        both.indptr,
        both.indices,
        both.data,
        np.zeros(n, np.int32),
    )
    try:
        run_until(highs, budget.clock, budget.reserve)
        status = status_of(highs)[0]
        if status in (Status.INFEASIBLE, Status.UNBOUNDED):  # presolve shows no rays
            for name, value in WAYS[0].items():
                highs.setOptionValue(name, value)
            highs.setOptionValue("presolve", "off")
            run_until(highs, budget.clock, budget.reserve)
            status = status_of(highs)[0]
    except (Interrupted, SolverError):  # HiGHS gives up on what is too badly scaled for it
        return None
    budget.iterations += 1
    rows, x, y = shape[0], np.zeros(n), np.zeros(shape[0])
    ray = violation = None
    if status is Status.INFEASIBLE:
        _, found, multipliers = highs.getDualRay()
        if not found:
            return None
        violation = -np.asarray(multipliers)[:rows] * sharp * working.row_scale
        ray = farkas_ray(program, violation, budget.threads)
    elif status is Status.UNBOUNDED:
        _, found, direction = highs.getPrimalRay()
        ray = primal_ray(program, working.sparse(np.asarray(direction) * unit)) if found else None
        if ray is None:
            return None
    elif status is Status.OPTIMAL:
        solution = highs.getSolution()
        x = np.clip(solution.col_value, 0.0, upper) * unit
        y = -np.array(solution.row_dual)[:rows] * sharp / factor
    else:
        return None
    return StepsResult(working.sparse(x), working.prices(y), 0.0, ray, violation)


def _sharper(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factors that bring rows with small bounds to 1, where the tolerance of HiGHS means what it says."""
    low, high = (np.where(np.isfinite(each) & (each != 0), abs(each), np.inf) for each in (lower, upper))
    size = np.clip(np.minimum(low, high), _LEAST, 1.0)
    return np.asarray(2.0 ** -np.round(np.log2(size)), np.float64)
