"""Scipy's `milp`: whole numbers by branch and bound, the answer checked for what it must keep.

What HiGHS finds is rounded and judged exactly (:mod:`copter.proof.whole`); where it does not hold, or where
the numbers are too far apart for HiGHS' tolerances, small programs are solved once more by
:mod:`copter.solvers.exact.certain`, and of large ones nothing is said to be proved.

Large programs of the shape of an allocation go by prices first, which fix most columns: whole numbers only,
every column in a row that is a sum of a block, and few other rows.  Then the relaxation is near the integral
optimum, and :mod:`copter.solvers.exact.solver` proves in seconds what branch and bound on everything takes
minutes for: 77 s against 0.6 s on 75,419 columns and 257 rows (a round of ``copter bench sia --gpus 2048
--jobs 250 --exact``).  Where it does not end at the gap that is wanted, HiGHS is given everything as if
nothing had been tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.clock import Clock
from copter.errors import SolverError
from copter.models.formulation import MOSTLY_SUMS
from copter.models.general_lp import GeneralLP, checked, crossed_column
from copter.models.highs import load, run, status_of
from copter.models.model import Model
from copter.solution import Status
from copter.solvers.apart import ProcessDied, call_apart
from copter.solvers.exact.certain import MOST_COLUMNS, MOST_NODES, completed, settle
from copter.solvers.exact.model import DOUBTFUL, WILD, keeps, wild
from copter.solvers.exact.solver import ExactSolver
from copter.solvers.general.proof import violation
from copter.solvers.general.scipy_arguments import (
    bounds_of_columns,
    costs,
    kinds_of_columns,
    rows_of_constraints,
    scipy_status,
)
from copter.solvers.general.scipy_options import MILP, highs_options
from copter.solvers.milp import MilpAnswer, read_answer

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

_KEPT = 1e-5
"""Violation of a row, relative to its size, and distance from a whole number that an answer may have."""
_STRAY = 1e-3
"""A column that is nearly 0 is judged as if it were this share of a typical one, as HiGHS has it."""
_INTEGER, _SEMI_INTEGER = 1, 3
_BY_PRICES = frozenset({"mip_rel_gap", "time_limit"})
"""Options that are not HiGHS' alone: with any other it is HiGHS that is asked for."""
_GAP = 1e-4
"""HiGHS' default of the relative gap."""
_ROUNDING = 1e-9
"""Of a bound of HiGHS'."""
_DOUBTS = 150
"""Nodes for looking again at an answer that is likely to hold."""
_SHARE = 0.5
"""Of a time limit, that prices are given."""
_SECONDS = 60.0
"""That they may take without one: HiGHS' own way is to follow where it is hard."""
_LEAST_COLUMNS = 20_000
"""Smaller programs are no trouble for branch and bound on everything."""
_COLUMNS_A_ROW = 500
"""Columns for each row that couples blocks, at least, for prices to fix most of them."""
_SHARPER, _LEAST_GAP = 0.1, 1e-9
"""Of the gap, what prices aim at, for sizes differ; and the least."""


def milp(
    c: ArrayLike,
    *,
    integrality: ArrayLike | None = None,
    bounds: Any = None,
    constraints: Any = None,
    options: Mapping[str, Any] | None = None,
    isolated: bool = False,
) -> OptimizeResult:
    """Minimise c'x subject to linear constraints, bounds and integrality, as scipy's ``milp`` does.

    Parameters
    ----------
    c : (n,) array_like
    integrality : array_like, optional
        For all columns or for each: 0 continuous, 1 integer, 2 semi-continuous, 3 semi-integer.
    bounds : scipy.optimize.Bounds, or the arguments of one, optional
        Default: every column at least 0.
    constraints : scipy.optimize.LinearConstraint, or the arguments of one, or a sequence of these, optional
    options : mapping, optional
        ``disp, presolve, time_limit, node_limit, mip_rel_gap``; others are options of HiGHS, with a warning.
        One that HiGHS does not know or take is left out, with a warning.
    isolated : bool
        In a process of its own, for services: HiGHS can die, and then takes only that process with it.  The
        answer says so (status 4).  It takes a second or so to start.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x, fun, status, success, message, mip_node_count, mip_dual_bound, mip_gap``, None where there is
        no x.  Unlike scipy's, the status tells infeasible (2) from unbounded (3) where presolve does not, and
        a limit of nodes is 1, a limit.

    Raises
    ------
    EditError
        A ValueError: what scipy refuses, and a bound or coefficient that cannot be.
    """
    from scipy.optimize import OptimizeResult

    cost = costs(c)
    kinds = kinds_of_columns(integrality, cost.size)
    lower, upper = bounds_of_columns(bounds, cost.size)
    A, low, high = rows_of_constraints(constraints, cost.size)
    lp = GeneralLP(cost, A, low, high, lower, upper, 0.0, kinds == _INTEGER)
    settings = highs_options(options, MILP, RuntimeWarning)
    try:
        answer = (call_apart if isolated else _call)(branch_and_bound, lp, kinds, settings)
    except ProcessDied as died:
        answer = IntegerAnswer(Status.NUMERICAL_ERROR, str(died))
    code, message = scipy_status(answer.status, answer.reason)
    return OptimizeResult(
        status=code, message=message, success=code == 0, x=answer.x, fun=answer.objective, **answer.figures()
    )


def _call(function: Callable[..., IntegerAnswer], *arguments: Any) -> IntegerAnswer:
    return function(*arguments)


@dataclass(frozen=True)
class IntegerAnswer:
    """What branch and bound found.

    Attributes
    ----------
    x : (n,) ndarray, optional
        None where no point is known; then the rest is None too.
    objective, bound, gap : float, optional
        c'x, what it cannot fall below, and their relative difference.
    """

    status: Status
    reason: str
    x: NDArray[np.float64] | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    nodes: int | None = None

    def figures(self) -> dict[str, float | None]:
        """What scipy has of the search, by scipy's names."""
        return {"mip_node_count": self.nodes, "mip_dual_bound": self.bound, "mip_gap": self.gap}


def branch_and_bound(
    lp: GeneralLP, kinds: NDArray[np.int32], settings: Mapping[str, Any] | None = None
) -> IntegerAnswer:
    """A program with columns of several kinds through HiGHS; the point is checked.

    Parameters
    ----------
    lp : GeneralLP
        ``integral`` where the kind is 1.
    kinds : (n,) ndarray
        0 continuous, 1 integer, 2 semi-continuous, 3 semi-integer.
    settings : mapping, optional
        Options of HiGHS; ``presolve`` may be True or False.

    Raises
    ------
    EditError
        A bound or coefficient cannot be.
    SolverError
        HiGHS refused an option.
    """
    empty = crossed_column(lp)
    if empty is not None:
        return IntegerAnswer(Status.INFEASIBLE, f"the bounds of column {empty} leave no value")
    lp, settings = checked(lp), dict(settings or {})
    limit, gap = settings.get("time_limit"), settings.get("mip_rel_gap", _GAP)
    clock, whole = Clock(limit), bool(kinds.any()) and bool((kinds <= _INTEGER).all())
    if _BY_PRICES.issuperset(settings):
        priced = by_prices(lp, gap, None if limit is None else _SHARE * limit)
        if priced is not None and priced.x is not None and not _violation(lp, kinds, priced.x):
            return priced
        if limit is not None:
            settings["time_limit"] = max(clock.left(), _SHARE * limit)
    try:
        highs = _run(lp, kinds, settings)
    except SolverError as error:
        if not whole:
            raise
        none = MilpAnswer(None, Status.NUMERICAL_ERROR, str(error), -np.inf, np.inf, 0)
        return _judged(lp, none, gap, clock)
    found = read_answer(highs, whole=bool(kinds.any()))
    if highs.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        without = status_of(_run(replace(lp, c=np.zeros(lp.c.size)), kinds, settings))[0]
        found = replace(found, status=Status.UNBOUNDED if without is Status.OPTIMAL else without)
    if whole:
        return _judged(lp, found, gap, clock)
    status, reason, x = found.status, found.reason, found.x
    if status in (Status.INFEASIBLE, Status.UNBOUNDED) or x is None:
        return IntegerAnswer(status, reason)
    why = _violation(lp, kinds, x)
    if why and status is not Status.OPTIMAL:
        return IntegerAnswer(status, reason)
    if why:
        status, reason = Status.NUMERICAL_ERROR, f"{reason}, but {why}"
    objective = float(lp.c @ x)
    if not kinds.any():  # simplex proved it
        return IntegerAnswer(status, reason, x, objective, objective, 0.0, 0)
    return IntegerAnswer(status, reason, x, objective, found.bound, found.gap, found.nodes)


def by_prices(lp: GeneralLP, gap: float, seconds: float | None = None) -> IntegerAnswer | None:
    """A point within a gap of the optimum, if the program has the shape of an allocation and it is found.

    Parameters
    ----------
    lp : GeneralLP
        Checked.
    seconds : float, optional
        Time limit; a minute by default.
    """
    if lp.c.size < _LEAST_COLUMNS or not lp.integral.all():
        return None
    model = Model(lp, share=MOSTLY_SUMS, build=False)
    coupling = lp.row_lower.size - model.n_sums
    if not model.n_sums or coupling * _COLUMNS_A_ROW > lp.c.size or model.n_sums < len(model.program):
        return None
    solver = ExactSolver(
        integer_gap=max(_SHARPER * gap, _LEAST_GAP), deadline=_SECONDS if seconds is None else seconds
    )
    solution = solver.solve(model.program)
    proof = solution.integer
    if proof is None or not solution.found or not np.isfinite(proof.bound):
        return None
    x = np.rint(model.invert(solution).x)
    bound = float(lp.c @ x) - max(solution.objective - proof.bound, 0.0)
    answer = _with_bound(lp, Status.OPTIMAL, proof.reason, x, bound, proof.nodes)
    return answer if answer.gap is not None and answer.gap <= max(gap, _LEAST_GAP) else None


def _judged(lp: GeneralLP, found: MilpAnswer, gap: float, clock: Clock) -> IntegerAnswer:
    """HiGHS' answer to a program of whole numbers, as far as exact arithmetic confirms it."""
    status, reason, x = found.status, found.reason, None
    if found.x is not None:
        x = np.clip(np.where(lp.integral, np.rint(found.x), found.x), lp.lower, lp.upper)
        x = x if keeps(lp, x) else completed(lp, x)
    small, proved = lp.c.size <= MOST_COLUMNS, status in (Status.OPTIMAL, Status.INFEASIBLE)
    if not proved and not (small and status is Status.NUMERICAL_ERROR):
        return _with_bound(lp, status, reason, x, found.bound, found.nodes)
    # without a point that keeps all rows, or with numbers that far apart, nothing is proved by HiGHS' word
    taken = proved and (x is None) == (found.x is None) and not wild(lp, WILD)
    if taken and not (small and wild(lp, DOUBTFUL)):
        return _with_bound(lp, status, reason, x, found.bound, found.nodes)
    if small:
        most_nodes = _DOUBTS if taken else MOST_NODES
        settled = settle(lp, x, relative=gap, clock=clock, most_nodes=most_nodes)
        nodes = found.nodes + settled.nodes
        if settled.complete:
            status = Status.INFEASIBLE if settled.x is None else Status.OPTIMAL
            reason = "branch and bound in exact arithmetic"
            return _with_bound(lp, status, reason, settled.x, settled.bound, nodes)
        if taken and not settled.cost < found.bound - _ROUNDING * abs(found.bound):  # nothing against it
            best = x if settled.x is None else settled.x
            return _with_bound(lp, status, reason, best, found.bound, nodes)
        reason = f"{reason}, which exact arithmetic did not confirm"
        return _with_bound(lp, Status.UNPROVED, reason, settled.x, settled.bound, nodes)
    why = "numbers too far apart for its tolerances" if x is not None else "its point does not keep all rows"
    return _with_bound(lp, Status.UNPROVED, f"{reason}: {why}", x, -np.inf, found.nodes)


def _with_bound(
    lp: GeneralLP, status: Status, reason: str, x: NDArray[np.float64] | None, bound: float, nodes: int
) -> IntegerAnswer:
    if x is None:
        return IntegerAnswer(status, reason)
    objective = float(lp.c @ x)
    apart = max(objective - bound, 0.0)
    gap = apart / abs(objective) if objective else (0.0 if apart == 0.0 else np.inf)
    return IntegerAnswer(status, reason, x, objective, min(bound, objective), gap, nodes)


def _run(lp: GeneralLP, kinds: NDArray[np.int32], settings: Mapping[str, Any]) -> highspy.Highs:
    switch = settings.get("presolve", "choose")
    presolve = {True: "on", False: "off"}.get(switch, switch)
    highs = load(lp, None, kinds=kinds, **{**settings, "presolve": presolve})
    run(highs)
    return highs


def _violation(lp: GeneralLP, kinds: NDArray[np.int32], x: NDArray[np.float64]) -> str:
    """What an answer does not keep, in words; empty if it keeps all."""
    whole = (kinds == _INTEGER) | (kinds == _SEMI_INTEGER)
    broken = float(abs(x - np.rint(x))[whole].max(initial=0.0))
    if broken > _KEPT:
        return f"a column is {broken:.1e} from a whole number"
    off = (kinds > _INTEGER) & (x == 0)  # semi-continuous: 0, or within the bounds
    box = replace(lp, lower=np.where(off, 0.0, lp.lower), upper=np.where(off, 0.0, lp.upper))
    primal = violation(box, x, _STRAY)
    return f"a row or bound is violated by {primal:.1e} of its size" if primal > _KEPT else ""
