"""HiGHS' branch and bound on rows and columns, for everybody who calls it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.models.highs import load, point_of, run, set_option, status_of
from copter.solution import Status
from copter.solvers.base import Stopwatch

if TYPE_CHECKING:
    from copter.proof.rigorous import LinearProgram

_AGREE, _SMALL = 1e-6, 1e-3
"""Relative difference of two runs that agree, and the size of a column whose value is 0."""
_LEAST_TIME = 0.01
"""Seconds that a run has at least: HiGHS takes a limit of 0 for one that it need not keep."""


@dataclass(frozen=True)
class MilpAnswer:
    """What branch and bound found.

    `x` (n,): the best point, within HiGHS' tolerances of the bounds, the rows and whole numbers; None if
    there is none. `bound`: on every objective; minus infinity if not known. `gap`: relative; infinite without
    a point.
    """

    x: NDArray[np.float64] | None
    status: Status
    reason: str
    bound: float
    gap: float
    nodes: int


@dataclass(frozen=True)
class MilpEffort:
    """Size of a mixed-integer program, and the seconds to build the model and to solve it."""

    columns: int
    rows: int
    nnz: int
    build_seconds: float
    seconds: float


def read_answer(highs: highspy.Highs, *, whole: bool = True) -> MilpAnswer:
    """Return what the last run found.

    A point that HiGHS was stopped at counts only if it is feasible. `whole`: whether any column is not
    continuous; otherwise simplex reports no bound and gap.
    """
    info, (x, _), (status, reason) = highs.getInfo(), point_of(highs), status_of(highs)
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


def confirmed(
    found: MilpAnswer,
    again: Callable[[NDArray[np.float64] | None], MilpAnswer],
    c: NDArray[np.float64],
    offset: float = 0.0,
) -> MilpAnswer:
    """Check the answer of a run with presolve by a run without it.

    HiGHS' presolve has lost optima of integer programs, and nothing in its answer shows that. `again` runs
    HiGHS without presolve, from a point or None; bounds belong to costs c and `offset`. Return the better
    point of both runs and the smaller bound if they agree or the second was stopped, "unproved" if they
    contradict each other.
    """
    if found.status not in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED):
        return found
    other = again(found.x)
    nodes = found.nodes + other.nodes
    best = min((each.x for each in (found, other) if each.x is not None), key=lambda x: c @ x, default=None)
    if other.status in (Status.DEADLINE, Status.ITERATION_LIMIT):
        why = f"{other.reason}; no run without presolve has confirmed what presolve led to"
        return replace(other, x=best, reason=why, nodes=nodes)
    agree = found.status is other.status
    if agree and best is not None:
        cost = float(c @ best) + offset
        room = _AGREE * (float(abs(c * best).sum()) + _SMALL * float(abs(c).max(initial=0.0)))
        agree = max(found.bound, other.bound) <= cost + room
    if agree:
        return replace(found, x=best, bound=min(found.bound, other.bound), nodes=nodes)
    why = f"{found.reason} with presolve and {other.reason} without it, which contradict each other"
    return MilpAnswer(best, Status.UNPROVED, why, -math.inf, math.inf, nodes)


def run_milp(
    program: LinearProgram,
    integrality: NDArray[np.bool_],
    *,
    mip_gap: float,
    deadline: float | None = None,
    threads: int | None = None,
    watch: Stopwatch | None = None,
) -> tuple[MilpAnswer, MilpEffort]:
    """Minimise the cost under rows and bounds, with whole numbers in some columns; return x whole and within
    its bounds.

    `mip_gap`: relative gap at which it stops. `deadline`: seconds to build the model and solve it. `watch`:
    started when the build began, if that was before this call. Raise SolverError if HiGHS refuses the model.
    """
    watch = Stopwatch() if watch is None else watch
    highs = load(program, threads, kinds=integrality.astype(np.int32), mip_rel_gap=mip_gap)
    built = watch()
    if deadline is not None:
        set_option(highs, "time_limit", max(deadline - built, _LEAST_TIME))
    seconds = run(highs)
    found = read_answer(highs, whole=bool(integrality.any()))
    if found.x is not None:
        x = np.clip(found.x, program.lower, program.upper)
        found = replace(found, x=np.where(integrality, np.rint(x), x))
    return found, MilpEffort(program.c.size, program.row_lower.size, int(program.A.nnz), built, seconds)
