"""Solution of the residual MILP: by dynamic programming if it has the right form, otherwise by HiGHS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock
from copter.models.highs import HighsEngine, check
from copter.solution import Status
from copter.solvers.apart import ProcessDied, call_apart
from copter.solvers.exact.multichoice import choose
from copter.solvers.milp import MilpAnswer, read_answer

if TYPE_CHECKING:
    from copter.models.linear_program import LinearProgram
    from copter.solvers.exact.rest import ResidualMilp

_OPTIONS = {
    "presolve": "off",  # it takes longer than the solve, unless most of the program is left
    "mip_rel_gap": 0.0,
    # a row that is exceeded within a tolerance saves its price, which can be more than the wanted gap
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
}
_AGREE, _SMALL = 1e-6, 1e-3
"""Relative difference up to which two objectives agree, and the assumed size of a column whose value is 0."""
_RESERVE, _START = 0.02, 1.0
"""Seconds before the deadline at which HiGHS stops, and seconds for starting a process and for its answer."""


def branch_and_bound(
    rest: ResidualMilp,
    clock: Clock,
    start: NDArray[np.float64] | None,
    gap: float = 0.0,
    *,
    whole: bool = False,
    isolated: bool = False,
) -> MilpAnswer:
    """Minimise the objective of the residual MILP, from a feasible point `start` (n,) or None.

    `gap`: absolute gap, in the units of `rest`, at which the search may end. `whole`: True if the residual
    MILP is most of the program, so that presolve pays off. `isolated`: True to run HiGHS in a separate
    process; if that process crashes, the answer has no point and its reason names the crash. Bound and x are
    in the units of `rest`; x is rounded where integrality is required. Raise Interrupted if HiGHS did not end
    in time or the solve was cancelled.
    """
    lp = rest.lp
    if not lp.c.size:  # HiGHS returns no solution of an empty model
        if (lp.row_lower <= 0.0).all() and (lp.row_upper >= 0.0).all():
            return MilpAnswer(lp.c, Status.OPTIMAL, "nothing is left", lp.offset, 0.0, 0)
        return MilpAnswer(None, Status.INFEASIBLE, "nothing is left", math.inf, math.inf, 0)
    known = math.inf if start is None else float(lp.c @ start) + lp.offset
    if (chosen := choose(rest, known)) is not None:
        x, bound = chosen
        x = start if x is None else x
        if x is None:
            return MilpAnswer(
                None, Status.INFEASIBLE, "no combination of columns fits", math.inf, math.inf, 0
            )
        return MilpAnswer(x, Status.OPTIMAL, "dynamic programming", min(bound, known), 0.0, 0)
    if not isolated:
        return _by_highs(lp, clock, start, gap, whole)
    try:
        return call_apart(_within, clock.left(_START), lp, start, gap, whole, clock=clock, reserve=_RESERVE)
    except ProcessDied as died:
        return MilpAnswer(None, Status.NUMERICAL_ERROR, str(died), -math.inf, math.inf, 0)


def _within(seconds: float, lp: LinearProgram, *others: Any) -> MilpAnswer:
    """Run branch and bound for a number of seconds; entry point of the separate process."""
    return _by_highs(lp, Clock(seconds if seconds < math.inf else None), *others)


def _by_highs(
    lp: LinearProgram, clock: Clock, start: NDArray[np.float64] | None, gap: float, whole: bool
) -> MilpAnswer:
    if not whole:
        return _run(lp, clock, start, gap)
    found = _run(lp, clock, start, gap, presolve="on")
    return confirmed(found, lambda x: _run(lp, clock, start if x is None else x, gap), lp.c, lp.offset)


def confirmed(
    found: MilpAnswer,
    again: Callable[[NDArray[np.float64] | None], MilpAnswer],
    c: NDArray[np.float64],
    offset: float = 0.0,
) -> MilpAnswer:
    """Check the result of a run with presolve by a run without presolve.

    HiGHS' presolve has lost optima of integer programs without any sign in the result. `again` runs HiGHS
    without presolve, from a point or None. Bounds belong to the costs c and `offset`. If the runs agree,
    return the better point and the smaller bound. If the second run was stopped, return the better point with
    the status and the bound of the second run. If the runs contradict each other, return the status
    ``unproved``.
    """
    if found.status not in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED):
        return found
    other = again(found.x)
    nodes = found.nodes + other.nodes
    best = min((each.x for each in (found, other) if each.x is not None), key=lambda x: c @ x, default=None)
    if other.status in (Status.DEADLINE, Status.ITERATION_LIMIT):
        why = f"{other.reason}; the run without presolve did not finish, so presolve is not confirmed"
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


def _run(
    lp: LinearProgram, clock: Clock, start: NDArray[np.float64] | None, gap: float, **options: Any
) -> MilpAnswer:
    highs = HighsEngine.loaded(
        lp, 1, kinds=lp.integral.astype(np.int32), mip_abs_gap=gap, **_OPTIONS | options
    )
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        check(highs.setSolution(solution), "the best allocation so far")
    highs.run_until(clock, _RESERVE)
    found = read_answer(highs, whole=bool(lp.integral.any()))
    if highs.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:  # proves neither
        return replace(found, x=None, status=Status.NUMERICAL_ERROR, bound=-math.inf)
    if found.status is Status.INFEASIBLE:
        return replace(found, bound=math.inf)
    if found.x is None:
        return found
    x = np.clip(found.x, lp.lower, lp.upper)
    return replace(found, x=np.where(lp.integral, np.rint(x), x))
