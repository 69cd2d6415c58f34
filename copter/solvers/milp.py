"""HiGHS' branch and bound: calls and results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock
from copter.models.highs import HighsEngine
from copter.status import Status

if TYPE_CHECKING:
    from copter.proof.rigorous import LPArrays

_LEAST_TIME = 0.01
"""Smallest time limit in seconds: HiGHS ignores a limit of 0."""


@dataclass(frozen=True)
class MilpAnswer:
    """Result of branch and bound.

    `x` (n,): the best point, feasible within HiGHS' tolerances; None without one. `bound`: lower bound on the
    objective; minus infinity if not known. `gap`: relative; infinite without a point.
    """

    x: NDArray[np.float64] | None
    status: Status
    reason: str
    bound: float
    gap: float
    nodes: int


@dataclass(frozen=True)
class MilpEffort:
    """Size of a mixed-integer program, and the seconds for building the model and for solving it."""

    columns: int
    rows: int
    nnz: int
    build_seconds: float
    seconds: float


def read_answer(highs: HighsEngine, *, whole: bool = True) -> MilpAnswer:
    """Return the result of the last run.

    The point of a stopped run counts only if it is feasible. `whole`: True if some column is not continuous;
    otherwise HiGHS reports no bound and gap.
    """
    info, (x, _), (status, reason) = highs.getInfo(), highs.point(), highs.outcome()
    feasible = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    known = x is not None and (feasible or status is Status.OPTIMAL or not x.size)
    bound, gap = float(info.mip_dual_bound), float(info.mip_gap)
    if not whole:
        proven = known and status is Status.OPTIMAL
        bound, gap = (float(info.objective_function_value), 0.0) if proven else (-math.inf, math.inf)
    return MilpAnswer(
        x if known else None,
        status,
        reason,
        bound,
        gap if known else math.inf,
        max(0, int(info.mip_node_count)),
    )


def run_milp(
    program: LPArrays,
    integrality: NDArray[np.bool_],
    *,
    mip_gap: float,
    time_limit: float | None = None,
    threads: int | None = None,
    watch: Callable[[], float] | None = None,
) -> tuple[MilpAnswer, MilpEffort]:
    """Minimise the cost subject to rows, bounds and integrality; return x rounded and within its bounds.

    `mip_gap`: relative gap at which the solve stops. `time_limit`: seconds for building the model and solving
    it. `watch`: a clock started at the beginning of the build, if that was before this call. Raise
    SolverError if HiGHS rejects the model.
    """
    watch = Clock() if watch is None else watch
    highs = HighsEngine.loaded(program, threads, kinds=integrality.astype(np.int32), mip_rel_gap=mip_gap)
    built = watch()
    if time_limit is not None:
        highs.limit_time(max(time_limit - built, _LEAST_TIME))
    seconds = highs.timed()
    found = read_answer(highs, whole=bool(integrality.any()))
    if found.x is not None:
        x = np.clip(found.x, program.lower, program.upper)
        found = replace(found, x=np.where(integrality, np.rint(x), x))
    return found, MilpEffort(program.c.size, program.row_lower.size, int(program.A.nnz), built, seconds)
