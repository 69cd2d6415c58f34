"""scipy's `milp`: branch and bound with an exact check of the answer.

HiGHS' point is rounded and checked in exact arithmetic (:mod:`copter.proof.whole`).  An answer found after
presolve is compared with a run without presolve, which starts from the point of the first run
(:func:`copter.solvers.milp.confirmed`).  A check can fail in three ways: the point is infeasible, the runs
contradict each other, or the coefficients differ too much for HiGHS' tolerances.  Then
:mod:`copter.solvers.exact.certain` solves a small program again, and the answer to a large one is
``unproved``.  HiGHS gets semi-continuous columns as pairs of rows
(:mod:`copter.solvers.general.semicontinuous`); every check uses the given columns.

Large programs with the form of an allocation are solved by prices first, which fix most columns. This form
has integral columns only, each in a row that is a sum over a block, and few other rows.  Then the relaxation
is near the integral optimum, and :mod:`copter.solvers.exact.solver` proves optimality in seconds where branch
and bound on all columns takes minutes. Example: 0.6 s against 77 s on 75,419 columns and 257 rows (a round of
``copter bench sia --gpus 2048 --jobs 250 --exact``).  If this search does not reach the wanted gap, HiGHS
solves the whole program.
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
from copter.models.highs import check, load, run
from copter.models.model import Model
from copter.solution import Status
from copter.solvers.apart import ProcessDied, call_apart
from copter.solvers.exact.certain import MOST_COLUMNS, MOST_NODES, completed, solve_exactly
from copter.solvers.exact.checks import DOUBTFUL, WILD, keeps, wild
from copter.solvers.exact.solver import ExactSolver
from copter.solvers.general.hybrid import solve_lp
from copter.solvers.general.scipy_arguments import (
    bounds_of_columns,
    columns_of_kinds,
    costs,
    kinds_of_columns,
    rows_of_constraints,
    scipy_status,
)
from copter.solvers.general.scipy_options import MILP, highs_options
from copter.solvers.general.semicontinuous import with_indicators, without_indicators
from copter.solvers.milp import MilpAnswer, confirmed, read_answer

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

_BY_PRICES = frozenset({"mip_rel_gap", "time_limit"})
"""Options that the search by prices supports; with any other option HiGHS solves the program."""
_GAP = 1e-4
"""HiGHS' default of the relative gap."""
_ROUNDING, _TOLERANCE = 1e-9, 1e-6
"""Relative rounding error of HiGHS' bound, and the effect of HiGHS' tolerances on it."""
_DOUBTS = 150
"""Largest number of nodes for checking an answer that is probably right."""
_SHARE = 0.5
"""Share of a time limit for the search by prices."""
_SECONDS = 60.0
"""Seconds for the search by prices without a time limit; HiGHS follows if it fails."""
_LEAST_COLUMNS = 20_000
"""Least number of columns for the search by prices; branch and bound solves smaller programs quickly."""
_COLUMNS_A_ROW = 500
"""Least number of columns per coupling row; with fewer, prices do not fix most columns."""
_TIGHTER, _LEAST_GAP = 0.1, 1e-9
"""Share of the wanted gap for the search by prices, because gap denominators differ, and the least gap."""


def milp(
    c: ArrayLike,
    *,
    integrality: ArrayLike | None = None,
    bounds: Any = None,
    constraints: Any = None,
    options: Mapping[str, Any] | None = None,
    isolated: bool = False,
) -> OptimizeResult:
    """Minimise c'x subject to linear constraints, bounds and integrality; as scipy's ``milp``.

    Parameters
    ----------
    c : (n,) array_like
        Costs.
    integrality : array_like, optional
        One number for all columns, or one for each: 0 continuous, 1 integer, 2 semi-continuous, 3
        semi-integer.
    bounds : scipy.optimize.Bounds, or the arguments of one, optional
        Default: every column is at least 0.
    constraints : scipy.optimize.LinearConstraint, or the arguments of one, or a sequence of these, optional
        Rows of the program.
    options : mapping, optional
        ``disp, presolve, time_limit, node_limit, mip_rel_gap``; others are passed to HiGHS, with a warning.
        An option that HiGHS rejects is ignored, with a warning.
    isolated : bool
        True to solve in a separate process, for services. If HiGHS crashes, only that process ends, and the
        status is 4.  Starting the process takes about one second.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x, fun, status, success, message, mip_node_count, mip_dual_bound, mip_gap``; ``x`` and the figures
        are None without a point.  Unlike in scipy, infeasible (2) and unbounded (3) are distinguished,
        and the node limit has status 1.

    Raises
    ------
    EditError
        A ValueError, if scipy rejects the argument, or if a bound or coefficient is invalid.

    Examples
    --------
    >>> import copter
    >>> result = copter.milp([-5.0, -4.0], integrality=1, constraints=([[6.0, 4.0]], -float("inf"), 23.0))
    >>> result.status, result.x.tolist(), result.fun
    (0, [1.0, 4.0], -21.0)
    """
    from scipy.optimize import OptimizeResult

    cost = costs(c)
    kinds = kinds_of_columns(integrality, cost.size)
    lower, upper = bounds_of_columns(bounds, cost.size)
    A, low, high = rows_of_constraints(constraints, cost.size)
    whole, semi = columns_of_kinds(kinds)
    lp = GeneralLP(cost, A, low, high, lower, upper, 0.0, whole, semi=semi)
    settings = highs_options(options, MILP, RuntimeWarning)
    try:
        answer = (call_apart if isolated else _call)(branch_and_bound, lp, settings)
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
    """Answer of branch and bound: a point x (n,), its objective, a bound and the gap, or None."""

    status: Status
    reason: str
    x: NDArray[np.float64] | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    nodes: int | None = None

    def figures(self) -> dict[str, float | None]:
        """Return figures of the search by scipy's names."""
        return {"mip_node_count": self.nodes, "mip_dual_bound": self.bound, "mip_gap": self.gap}


def branch_and_bound(lp: GeneralLP, settings: Mapping[str, Any] | None = None) -> IntegerAnswer:
    """Solve a program with integral or semi-continuous columns, and check the answer.

    `settings`: options of HiGHS; ``presolve`` may also be True or False. Raise EditError if a bound or
    coefficient is invalid, SolverError if HiGHS rejects an option.
    """
    empty = crossed_column(lp)
    if empty is not None:
        return IntegerAnswer(Status.INFEASIBLE, f"the bounds of column {empty} leave no value")
    lp, settings = checked(lp), dict(settings or {})
    limit, gap = settings.get("time_limit"), settings.get("mip_rel_gap", _GAP)
    if not lp.integral.any() and lp.semi is None:
        return _linear(lp, settings)
    clock = Clock(limit)
    if _BY_PRICES.issuperset(settings) and lp.semi is None:
        priced = by_prices(lp, gap, None if limit is None else _SHARE * limit)
        if priced is not None and priced.x is not None and keeps(lp, priced.x):
            return priced
    return _judged(lp, _searched(lp, settings, clock), gap, clock)


def _linear(lp: GeneralLP, settings: dict[str, Any]) -> IntegerAnswer:
    """Solve a program without integral columns; its own residuals and bound prove the answer."""
    presolve = settings.pop("presolve", True) not in (False, "off")
    deadline = settings.pop("time_limit", None)
    answer = solve_lp(lp, deadline=deadline, presolve=presolve, highs_options=settings, own=False)
    if answer.x is None or answer.status in (Status.INFEASIBLE, Status.UNBOUNDED):
        return IntegerAnswer(answer.status, answer.reason)
    bound = -np.inf if answer.proof is None else answer.proof.bound
    if answer.status is Status.OPTIMAL:
        bound = float(lp.c @ answer.x)
    return _with_bound(lp, answer.status, answer.reason, answer.x, bound, 0)


def _searched(lp: GeneralLP, settings: Mapping[str, Any], clock: Clock) -> MilpAnswer:
    """Return HiGHS' answer, confirmed without presolve, in the columns of the given program."""
    model = with_indicators(lp)
    try:
        found = _run(model, settings, clock)
        if settings.get("presolve", "choose") not in (False, "off"):
            off = {**settings, "presolve": "off"}
            found = confirmed(found, lambda x: _run(model, off, clock, x), model.c)
    except SolverError as error:
        return MilpAnswer(None, Status.NUMERICAL_ERROR, str(error), -np.inf, np.inf, 0)
    return found if found.x is None else replace(found, x=without_indicators(lp, found.x))


def by_prices(lp: GeneralLP, gap: float, seconds: float | None = None) -> IntegerAnswer | None:
    """Return a point within `gap` of the optimum by the search by prices, or None.

    The program must be checked. None means that it does not have the form of an allocation, or that no such
    point was found within `seconds`, by default a minute.
    """
    if lp.c.size < _LEAST_COLUMNS or not lp.integral.all():
        return None
    model = Model(lp, share=MOSTLY_SUMS, build=False)
    coupling = lp.row_lower.size - model.n_sums
    if not model.n_sums or coupling * _COLUMNS_A_ROW > lp.c.size or model.n_sums < len(model.program):
        return None
    solver = ExactSolver(
        integer_gap=max(_TIGHTER * gap, _LEAST_GAP), deadline=_SECONDS if seconds is None else seconds
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
    """Return HiGHS' answer, with the status that exact arithmetic confirms."""
    status, reason, x = found.status, found.reason, found.x
    if status is Status.UNBOUNDED:
        return IntegerAnswer(status, reason)
    if x is not None and not keeps(lp, x):
        x = completed(lp, x)
    small, proved = lp.c.size <= MOST_COLUMNS, status in (Status.OPTIMAL, Status.INFEASIBLE)
    if not proved and not (small and status in (Status.NUMERICAL_ERROR, Status.UNPROVED)):
        return _with_bound(lp, status, reason, x, found.bound, found.nodes)
    # HiGHS' answer proves nothing if no point satisfies all rows, if the point's cost is above the bound, or
    # if the coefficients differ too much.
    taken = proved and (x is None) == (found.x is None) and not wild(lp, WILD)
    taken = taken and (x is None or _is_near(lp, x, found.bound, gap))
    if taken and not (small and wild(lp, DOUBTFUL)):
        return _with_bound(lp, status, reason, x, found.bound, found.nodes)
    if small:
        most_nodes = _DOUBTS if taken else MOST_NODES
        exact = solve_exactly(lp, x, relative=gap, clock=clock, most_nodes=most_nodes)
        nodes = found.nodes + exact.nodes
        if exact.complete:
            status = Status.INFEASIBLE if exact.x is None else Status.OPTIMAL
            reason = "branch and bound in exact arithmetic"
            return _with_bound(lp, status, reason, exact.x, exact.bound, nodes)
        if taken and not exact.cost < found.bound - _ROUNDING * abs(found.bound):  # no contradiction
            best = x if exact.x is None else exact.x
            return _with_bound(lp, status, reason, best, found.bound, nodes)
        reason = f"{reason}, which exact arithmetic did not confirm"
        return _with_bound(lp, Status.UNPROVED, reason, exact.x, exact.bound, nodes)
    why = "coefficients differ too much for its tolerances" if x is not None else "its point violates a row"
    return _with_bound(lp, Status.UNPROVED, f"{reason}: {why}", x, -np.inf, found.nodes)


def _is_near(lp: GeneralLP, x: NDArray[np.float64], bound: float, gap: float) -> bool:
    """Return whether the cost exceeds the bound by no more than the gap plus HiGHS' tolerances."""
    cost = float(lp.c @ x)
    return cost - bound <= gap * abs(cost) + _TOLERANCE * float(abs(lp.c * x).sum())


def _with_bound(
    lp: GeneralLP, status: Status, reason: str, x: NDArray[np.float64] | None, bound: float, nodes: int
) -> IntegerAnswer:
    if x is None:
        return IntegerAnswer(status, reason)
    objective = float(lp.c @ x)
    apart = max(objective - bound, 0.0)
    gap = apart / abs(objective) if objective else (0.0 if apart == 0.0 else np.inf)
    return IntegerAnswer(status, reason, x, objective, min(bound, objective), gap, nodes)


def _run(
    lp: GeneralLP, settings: Mapping[str, Any], clock: Clock, start: NDArray[np.float64] | None = None
) -> MilpAnswer:
    """Run HiGHS in the remaining time; distinguish unbounded from infeasible by a second run if needed."""
    presolve = settings.get("presolve", "choose")
    options = {**settings, "presolve": {True: "on", False: "off"}.get(presolve, presolve)}
    if clock.left() < np.inf:
        options["time_limit"] = clock.left()
    highs = load(lp, None, kinds=lp.integral.astype(np.int32), **options)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        check(highs.setSolution(solution), "the point of the run with presolve")
    run(highs)
    found = read_answer(highs)
    if highs.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        rows = _run(replace(lp, c=np.zeros(lp.c.size)), settings, clock)
        return replace(found, status=Status.UNBOUNDED if rows.status is Status.OPTIMAL else rows.status)
    return found
