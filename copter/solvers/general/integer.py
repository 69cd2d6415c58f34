"""Programs with integral or semi-continuous columns: branch and bound, and an exact check of the answer.

1. A row of integral columns with whole coefficients can only take multiples of their greatest common divisor.
   If none is between its bounds, the program is infeasible.
2. HiGHS solves the program in its own numbers, with presolve. Costs that are all below 1e-3 are multiplied
   by a power of 2, because HiGHS' tolerance of reduced costs is absolute.
3. The integral columns of HiGHS' point are rounded, and the program is solved again for the continuous
   columns with the integral ones fixed. Bounds and integrality of the result hold exactly. The violation of
   each row is computed from the exact sum of its terms. The point is accepted if no row is violated by more
   than 1e-6, or by more than 1e-6 of its size if that is less.
4. If HiGHS reports that there is no point, if no point is accepted, or if the point's objective and HiGHS'
   bound contradict each other, HiGHS solves once more, without presolve, at its smallest tolerances and in at
   most the time of the first run. If there is still a contradiction, the answer is unproved.
5. If an entry is above 1e5 or below 1e-5 in absolute value, HiGHS' presolve can lose the optimum, because it
   drops entries that it makes too small. An optimum of such a program is searched once more with a tolerance
   of integrality of 1e-10 and without this limit, in at most the time of the first run. With these settings
   alone, HiGHS found no point, or a worse one, of some large programs.

HiGHS gets semi-continuous columns as pairs of rows (:mod:`copter.solvers.general.semicontinuous`).

Large programs that are allocations, with integral columns only, are solved by prices first
(:class:`copter.solvers.exact.solver.ExactSolver`): the relaxation's prices fix most columns, and optimality
is proved in seconds where branch and bound on all columns takes minutes. If that does not reach the wanted
gap, HiGHS solves the program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from copter.clock import Clock, Interrupted
from copter.errors import SolverError
from copter.models.highs import LEAST_ENTRY, HighsEngine, far_from_1
from copter.models.highs_lp import HighsLP, LPAnswer
from copter.models.linear_program import LinearProgram
from copter.proof.rigorous import EPS, absolute, exact_reduced_costs, implied_bounds
from copter.solvers.general.semicontinuous import with_indicators, without_indicators
from copter.solvers.milp import MilpAnswer, read_answer
from copter.status import Status

_FEASIBLE = 1e-6
"""Largest violation of a row, in its own units or relative to its size; HiGHS' tolerance of feasibility."""
_AGREE = 1e-6
"""Effect of HiGHS' tolerances on its bound, relative to the absolute terms of the objective."""
_LEAST = 1e-10
"""HiGHS' smallest tolerance."""
_TIGHT_LP = {"primal_feasibility_tolerance": _LEAST, "dual_feasibility_tolerance": _LEAST}
_TIGHT_INTEGERS = {"mip_feasibility_tolerance": _LEAST}
_ALL_ENTRIES = {"small_matrix_value": LEAST_ENTRY}
_SMALL_COST = 1e-3
"""Largest cost below which costs are multiplied by a power of 2."""
_RESERVE, _MOST_RESERVE = 0.02, 0.5
"""Share of the time, and its most seconds, for solving the continuous columns again, if there are some."""
_ENDED = (Status.OPTIMAL, Status.INFEASIBLE)
_EXACT, _WHOLE = 2.0**53, 1e-9
"""Integers below the first are exact; a bound within the second of a whole number counts as that number."""
_LEAST_COLUMNS = 20_000
"""Least number of columns for the search by prices."""
_SHARE, _SECONDS = 0.5, 60.0
"""Share of the time left for the search by prices, and its largest number of seconds."""
_TIGHTER, _LEAST_GAP = 0.1, 1e-9
"""Share of the wanted gap for the search by prices, because gap denominators differ, and the least gap."""


@dataclass(frozen=True, eq=False)
class IntegerAnswer:
    """Answer of branch and bound, as a minimisation.

    Attributes
    ----------
    status, reason : Status, str
        The reason says what was checked.
    x : (n,) ndarray, optional
        Point within its bounds, with whole numbers in the integral columns.
    objective, bound, gap : float, optional
        Objective of the point, bound of the search, and (objective - bound) / |objective|.
    nodes : int, optional
    violation : float
        Largest violation of a row by the point, from exact sums; NaN without a point.
    certified : bool
        True if prices prove the bound, or if a row proves that there is no point. HiGHS' bound is correct up
        to its tolerances only.
    """

    status: Status
    reason: str
    x: NDArray[np.float64] | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    nodes: int | None = None
    violation: float = math.nan
    certified: bool = False

    def figures(self) -> dict[str, float | None]:
        """Return figures of the search by scipy's names; None without a point, as in scipy."""
        nodes = None if self.x is None else self.nodes
        return {"mip_node_count": nodes, "mip_dual_bound": self.bound, "mip_gap": self.gap}


def solve_integer(
    lp: LinearProgram,
    gap: float,
    clock: Clock,
    *,
    options: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> IntegerAnswer:
    """Solve a checked program with integral or semi-continuous columns to a relative gap.

    `options`: options of HiGHS. Raise SolverError if HiGHS rejects one.
    """
    row = impossible_row(lp)
    if row >= 0:
        name = lp.row_names[row] if lp.row_names else row
        why = f"row {name} can only take multiples of a number, of which none is between its bounds"
        return IntegerAnswer(Status.INFEASIBLE, why, certified=True)
    if not options and lp.semi is None:
        priced = by_prices(lp, gap, clock)
        if priced is not None:
            return priced
    far = far_from_1(lp.A.data)
    options = {"mip_rel_gap": gap, "mip_abs_gap": 0.0, **(options or {})}
    begin = clock()
    try:
        falls = _may_fall(lp) and _relaxed(lp, clock).status is Status.UNBOUNDED
        found = (_without_optimum if falls else _searched)(lp, options, clock, threads)
        answer = _judged(lp, found, options["mip_rel_gap"], clock)
        claimed = answer.status is Status.OPTIMAL
        doubtful = (Status.UNPROVED, Status.NUMERICAL_ERROR, Status.INFEASIBLE)
        if not (answer.status in doubtful or (claimed and far)) or clock.over():
            return answer
        again = Clock(max(clock() - begin, 0.1), parent=clock)
        tight = (
            _ALL_ENTRIES | options | _TIGHT_INTEGERS | ({} if claimed else _TIGHT_LP | {"presolve": "off"})
        )
        second = _again(lp, tight, again, clock, threads)
    except Interrupted:
        status = Status.CANCELLED if clock.cancelled else Status.DEADLINE
        return IntegerAnswer(status, clock.why())
    except SolverError as error:
        return IntegerAnswer(Status.NUMERICAL_ERROR, str(error))
    if answer.status is Status.INFEASIBLE and second.x is None:
        return answer
    if claimed and second.status is not Status.OPTIMAL and not _below(second, answer):
        return answer
    if second.status in (*_ENDED, Status.UNBOUNDED):
        return replace(second, nodes=(answer.nodes or 0) + (second.nodes or 0))
    reason = f"{answer.reason}; at smaller tolerances: {second.reason}"
    better = second.x is not None and (answer.x is None or float(lp.c @ second.x) < float(lp.c @ answer.x))
    return replace(second if better else answer, status=Status.UNPROVED, reason=reason)


def _again(
    lp: LinearProgram, options: dict[str, Any], again: Clock, clock: Clock, threads: int | None
) -> IntegerAnswer:
    """Return the answer of a second search; if it does not end in time, the first answer is not lost."""
    try:
        return _judged(lp, _searched(lp, options, again, threads), options["mip_rel_gap"], clock)
    except Interrupted:
        if clock.cancelled:
            raise
        return IntegerAnswer(Status.DEADLINE, again.why())


def _below(other: IntegerAnswer, answer: IntegerAnswer) -> bool:
    """Return whether the point of another answer is below the bound of an answer."""
    if other.objective is None or answer.bound is None:
        return False
    return other.objective < answer.bound - _AGREE * max(1.0, abs(answer.bound))


def impossible_row(lp: LinearProgram) -> int:
    """Return the first row of integral columns with whole coefficients that has no possible value, or -1."""
    A = lp.A
    column = np.repeat(np.arange(lp.c.size), np.diff(A.indptr))
    fits = lp.integral[column] & (A.data == np.rint(A.data)) & (abs(A.data) < _EXACT)
    m = lp.row_lower.size
    divisor = np.zeros(m, np.int64)
    np.gcd.at(divisor, A.indices[fits], A.data[fits].astype(np.int64))
    whole = np.bincount(A.indices, ~fits, m) == 0
    known = (abs(lp.row_lower) < _EXACT) & (abs(lp.row_upper) < _EXACT)
    at = np.flatnonzero(whole & known & (divisor > 0))
    low, high = np.ceil(lp.row_lower[at] - _WHOLE), np.floor(lp.row_upper[at] + _WHOLE)
    none = -(-low.astype(np.int64) // divisor[at]) * divisor[at] > high.astype(np.int64)
    return int(at[none.argmax()]) if none.any() else -1


def _searched(lp: LinearProgram, options: dict[str, Any], clock: Clock, threads: int | None) -> MilpAnswer:
    """Run branch and bound; resolve "infeasible or unbounded"."""
    model, largest = with_indicators(lp), float(abs(lp.c).max(initial=0.0))
    unit = float(2.0 ** -np.round(np.log2(largest))) if 0.0 < largest < _SMALL_COST else 1.0
    scaled = replace(model, c=model.c * unit, offset=model.offset * unit)
    highs = HighsEngine.loaded(scaled, threads, kinds=model.integral.astype(np.int32), **options)
    best: list[tuple[NDArray[np.float64], float]] = []

    def improved(event: Any) -> None:
        best[:] = [(np.array(event.data_out.mip_solution), event.data_out.mip_dual_bound)]

    highs.cbMipImprovingSolution.subscribe(improved)
    left, status = clock.left(), None
    again = left < math.inf and not lp.integral.all()
    try:
        highs.run_until(clock, min(_RESERVE * left, _MOST_RESERVE) if again else 0.0)
        found, status = read_answer(highs), highs.getModelStatus()
    except Interrupted:  # HiGHS did not end in time, and cannot be read
        if not best or clock.cancelled:
            raise
        x, bound = best[0]
        found = MilpAnswer(x, Status.DEADLINE, clock.why(), bound, math.inf, 0)
    found = replace(found, bound=found.bound / unit)
    if status in (highspy.HighsModelStatus.kUnboundedOrInfeasible, highspy.HighsModelStatus.kUnbounded):
        found = _without_optimum(lp, options, clock, threads)
    return found if found.x is None else replace(found, x=without_indicators(lp, found.x))


def _may_fall(lp: LinearProgram) -> bool:
    """Return whether a cost drives a column towards a bound that is missing and that no row implies."""
    falls = ((lp.c > 0) & np.isinf(lp.lower)) | ((lp.c < 0) & np.isinf(lp.upper))
    if not falls.any():
        return False
    lower, upper = implied_bounds(lp)
    return bool((((lp.c > 0) & np.isinf(lower)) | ((lp.c < 0) & np.isinf(upper))).any())


def _relaxed(lp: LinearProgram, clock: Clock) -> LPAnswer:
    """Return the answer for the relaxation, in which semi-continuous columns are 0 or within their bounds."""
    lower, upper = lp.lower, lp.upper
    if lp.semi is not None:
        lower = np.where(lp.semi, np.minimum(lower, 0.0), lower)
        upper = np.where(lp.semi, np.maximum(upper, 0.0), upper)
    continuous = np.zeros(lp.c.size, np.bool_)
    return HighsLP(replace(lp, lower=lower, upper=upper, integral=continuous, semi=None)).solve(1e-6, clock)


def _without_optimum(
    lp: LinearProgram, options: dict[str, Any], clock: Clock, threads: int | None
) -> MilpAnswer:
    """Return INFEASIBLE, or UNBOUNDED if the rows have a point and the objective falls along a ray.

    Branch and bound may not end on a program whose relaxation is unbounded, so it gets no costs.
    """
    bare = _searched(replace(lp, c=np.zeros(lp.c.size)), options, clock, threads)
    if bare.x is None:
        return bare
    if _relaxed(lp, clock).status is Status.UNBOUNDED:
        why = "there is a feasible point, and the objective falls along a ray of the relaxation"
        return replace(bare, x=None, status=Status.UNBOUNDED, reason=why)
    return replace(bare, x=None, status=Status.UNPROVED, reason="infeasible or unbounded: neither is proved")


def _judged(lp: LinearProgram, found: MilpAnswer, gap: float, clock: Clock) -> IntegerAnswer:
    """Return HiGHS' answer with the status that the check of its point allows."""
    status, reason = found.status, found.reason
    if found.x is None:
        return IntegerAnswer(status, reason, nodes=found.nodes)
    x = _completed(lp, found.x, clock)
    if x is None:
        claims = status is Status.OPTIMAL
        why = f"{reason}, but no point with HiGHS' whole numbers satisfies the rows"
        return IntegerAnswer(Status.UNPROVED if claims else status, why, nodes=found.nodes)
    objective, violation = (
        lp.offset + math.fsum((lp.c * x).tolist()),
        float(row_excess(lp, x)[0].max(initial=0.0)),
    )
    room = _AGREE * float(abs(lp.c * x).sum())
    off = objective - found.bound
    if status is Status.OPTIMAL and not -room <= off <= gap * abs(objective) + room:
        why = f"its point has the objective {objective:.10g}, and its bound is {found.bound:.10g}"
        status, reason = Status.UNPROVED, f"{reason}, but {why}"
    bound = min(found.bound, objective)
    relative = _relative(objective - bound, objective)
    checks = f"whole numbers and bounds hold exactly, rows to {violation:.1g}"
    return IntegerAnswer(status, f"{reason}; {checks}", x, objective, bound, relative, found.nodes, violation)


def _relative(apart: float, objective: float) -> float:
    if objective:
        return apart / abs(objective)
    return 0.0 if apart == 0.0 else math.inf


def _completed(lp: LinearProgram, x: NDArray[np.float64], clock: Clock) -> NDArray[np.float64] | None:
    """Return the best point with the whole numbers of x, or None if none satisfies the rows."""
    lower, upper = lp.box_at(x)
    x = np.clip(np.where(lp.integral, np.rint(x), x), lower, upper)
    if not (lp.integral.all() or clock.over()):
        rest, fixed = lp.fixed_at(x)
        found = HighsLP(rest, options=_TIGHT_LP).solve(1e-9, clock)
        if found.certificate is not None:
            fixed[~lp.integral] = found.certificate.x
            if _holds(lp, fixed):
                return fixed
        elif found.status is Status.INFEASIBLE:
            return None
    return x if _holds(lp, x) else None


def _holds(lp: LinearProgram, x: NDArray[np.float64]) -> bool:
    over, size = row_excess(lp, x)
    rounding = (np.bincount(lp.A.indices, minlength=over.size) + 4) * EPS * size
    return bool((over <= _FEASIBLE * np.minimum(1.0, size) + rounding).all())


def row_excess(lp: LinearProgram, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return by how much the exact sum of each row is out of its bounds (m,), and the rows' sizes.

    The size of a row is its largest finite bound or the sum of its absolute terms, if that is more.
    """
    across = csc_array(lp.A.T)
    over = np.zeros(lp.row_lower.size)
    size = absolute(lp.A) @ abs(x)
    near = (np.diff(across.indptr) + 4) * EPS * size
    activity = lp.A @ x
    for bound, sign in ((lp.row_upper, 1.0), (lp.row_lower, -1.0)):
        finite = np.isfinite(bound)
        size = np.maximum(size, np.where(finite, abs(bound), 0.0))
        at = np.flatnonzero(finite & (sign * (activity - np.where(finite, bound, 0.0)) > -near))
        rows = replace(lp, c=np.where(finite, -bound, 0.0), A=across)
        over[at] = np.maximum(over[at], sign * exact_reduced_costs(rows, x, at))
    return over, size


def by_prices(lp: LinearProgram, gap: float, clock: Clock) -> IntegerAnswer | None:
    """Return a point within `gap` of the optimum by the search by prices, or None.

    None means that the program has fewer than 20,000 columns or does not have the form of an allocation, or
    that no such point was found in half of the time left, or in a minute if that is less.
    """
    if lp.c.size < _LEAST_COLUMNS or not lp.integral.all():
        return None
    from copter.solvers.exact.solver import ExactSolver
    from copter.solvers.general.allocation import found_allocation

    allocation = found_allocation(lp)
    if allocation is None or allocation.sums.size < len(allocation.program):
        return None
    seconds = min(_SHARE * clock.left(), _SECONDS)
    solver = ExactSolver(integer_gap=max(_TIGHTER * gap, _LEAST_GAP), time_limit=seconds)
    solution = solver.solve(allocation.program)
    proof = solution.integer
    if proof is None or not solution.found or not np.isfinite(proof.bound):
        return None
    x = np.rint(allocation.point(solution)[0])
    if not _holds(lp, x):
        return None
    objective = lp.offset + math.fsum((lp.c * x).tolist())
    apart = max(solution.objective - proof.bound, 0.0)
    relative = _relative(apart, objective)
    if relative > max(gap, _LEAST_GAP):
        return None
    violation = float(row_excess(lp, x)[0].max(initial=0.0))
    return IntegerAnswer(
        Status.OPTIMAL, proof.reason, x, objective, objective - apart, relative, proof.nodes, violation, True
    )
