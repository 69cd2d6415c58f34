"""Proximal-point steps on a working set: step lengths, and the interpretation of inner solver failures.

After a step that the inner solver solves to its tolerance, the centre moves and sigma grows; after a failed
step sigma shrinks.  If prices diverge, the columns of the set cannot satisfy the rows. The least violation is
then a Farkas ray of the program, or shows which columns are missing.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.parallel import dot
from copter.proof.rays import farkas_ray
from copter.solution import FarkasRay
from copter.solvers.inner.compiled_newton import CompiledNewton, is_small
from copter.solvers.inner.convex_descent import ConvexDescent
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.descent import CoordinateDescent
from copter.solvers.inner.elastic import costless
from copter.solvers.inner.newton import SemismoothNewton
from copter.solvers.inner.working_set import InnerResult, RowTest, WorkingSet, runaway_price
from copter.store.allocation import SparseX
from copter.terms.batch import TermBatch

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.state import Budget
    from copter.solvers.proximal.tuning import ProximalTuning, StepsTuning
    from copter.store.store import ConstraintStore

log = logging.getLogger("copter")

_CLOSER = 0.1
"""Factor on the rows' tolerance in the projection with held columns, to be well within the tolerance."""
Method: TypeAlias = Literal["auto", "cd", "newton"]
"""Coordinate descent, or, also with "auto", semismooth Newton."""


class InnerSolver(Protocol):
    """A solver of the subproblem of one step."""

    def solve(
        self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float, closeness: float, limit: int
    ) -> InnerResult:
        """Solve the subproblem from prices y (rows,), with centre z (columns,) and step length sigma > 0.

        All arrays are in the set's units. `closeness`: largest violation of a row, as a share of its size.
        `limit`: largest number of steps.
        """

    def least_violation(self, centre: NDArray[np.float64], limit: int) -> InnerResult:
        """Return prices proportional to the least violation of the rows that the columns can reach."""


class Inner(NamedTuple):
    """An inner solver with its working set in the solver's units.

    `measured`: object that computes the gap of the solver's results. `unit`: typical ratio of a column's
    value to its cost; step lengths are multiples of it. `free`: True if every point that satisfies the rows
    is optimal.
    """

    solver: InnerSolver
    working: WorkingSet
    measured: WorkingSet | WorkingTerms
    unit: float
    free: bool


@dataclass(frozen=True)
class StepsResult:
    """Result of the steps: allocation, prices of row slots, and step length for the next steps.

    `ray`: proof that the program is infeasible, if one was found. `violation`: prices of the
    least violation of the rows, if the columns of the set cannot satisfy them. `by_highs`: True if HiGHS
    solved the set (:mod:`copter.solvers.proximal.finish`).
    """

    x: SparseX
    y: NDArray[np.float64]
    sigma: float
    ray: FarkasRay | None
    violation: NDArray[np.float64] | None
    by_highs: bool = False


@dataclass(frozen=True)
class Aim:
    """Start and stopping rule of steps.

    `goal`: gap of the set, as a separate program, at which steps end. `first`: first step
    length as a multiple of the typical ratio of a column's value to its cost. `sigma`: step length of earlier
    steps, used instead, or 0. `least`: least denominator of the gap. `loose`: gap, including
    violations times prices, at which steps end although rows are violated; 0: never.
    """

    goal: float
    first: float
    sigma: float = 0.0
    least: float = 0.0
    loose: float = 0.0


def run_steps(
    store: ConstraintStore,
    working: WorkingSet,
    method: Method,
    budget: Budget,
    x: SparseX,
    y: NDArray[np.float64],
    aim: Aim,
    tuning: ProximalTuning,
    *,
    rays_of: ContinualProgram | None = None,
    project: bool = True,
    hold: bool = False,
) -> StepsResult:
    """Take proximal-point steps from (x, y) until the set's own gap is small enough.

    `y` (row slots,). `rays_of`: the program of the set, to find rays that prove something about it.
    `project`: True to satisfy the rows closely at the end; False if only prices are wanted. `hold`: True to
    keep columns at the bounds at which the prices hold them during the projection, if possible.
    """
    centre = working.values_at(x)
    if store.terms:
        inner = _curved_inner(working, TermBatch.of(store), method, centre, budget, tuning)
    else:
        inner = _linear_inner(working, method, budget, tuning)
    steps = _Steps(rays_of, inner, budget, centre, inner.working.scaled_prices(y), aim, tuning.steps)
    result = steps.run()
    if not project or result.ray is not None or result.violation is not None:
        return result
    at = steps.reached, steps.prices
    most, hold_by = tuning.steps.projections, 1.0 if hold else 0.0
    there = _on_rows(inner.working, *at, budget, tuning, hold_by, most)
    return replace(result, x=inner.working.sparse(there))


def on_rows(
    working: WorkingSet,
    x: SparseX,
    y: NDArray[np.float64],
    sigma: float,
    budget: Budget,
    tuning: ProximalTuning,
    *,
    full: bool,
) -> SparseX:
    """Return the nearest allocation to x that satisfies the rows, if possible with columns kept at bounds.

    Leaving a bound costs the reduced cost at prices y (row slots,), times `sigma`. `full`: True to
    turn rows that have a price into equalities.
    """
    values, prices = working.values_at(x), working.scaled_prices(y)
    if full:
        working = working.with_full_rows(prices)
    most = tuning.lazy.projections
    return working.sparse(_on_rows(working, values, prices, budget, tuning, sigma, most))


def _on_rows(
    working: WorkingSet,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    budget: Budget,
    tuning: ProximalTuning,
    sigma: float,
    most: int,
) -> NDArray[np.float64]:
    """Return the nearest point to x that satisfies the rows much more closely; x if none was found.

    The projection is a step without costs, so its rounding errors are relative to x, not to costs times
    sigma. Columns that prices y hold at a bound stay there if possible.
    """
    closeness = tuning.steps.feasible * budget.tolerance
    for hold in (True, False) if sigma else (False,):
        limit = min(most, budget.iteration_limit - budget.iterations)
        if limit <= 0:
            break
        each = working.holding(x, y, sigma) if hold else costless(working)
        projector = _linear_inner(each, "newton", budget, tuning).solver
        near = _CLOSER * closeness if hold else closeness
        result = projector.solve(np.zeros(working.row_scale.size), x, 1.0, near, limit)
        budget.iterations += result.iterations
        log.debug(
            "    projected in %d steps%s", result.iterations, "" if result.converged else ", not converged"
        )
        if result.converged:
            return result.x
    return x


class _Step(NamedTuple):
    """Result of the inner solver for one subproblem.

    `gap`: relative gap of the set. `rows`: part of the gap from violated rows. `moved`: norm of x minus the
    centre.
    """

    result: InnerResult
    gap: float
    rows: float
    moved: float


class _Closeness:
    """Tolerance of the rows in the inner solver; it is reduced if it prevents progress of the gap."""

    def __init__(self, loosest: float, tuning: StepsTuning) -> None:
        self.value = self._loosest = loosest
        self._tuning = tuning
        self._last, self._stalls = math.inf, 0

    def judge(self, gap: float) -> bool:
        """Update the tolerance after a converged step; return False if the gap stalls at the least one."""
        tuning = self._tuning
        self._stalls = self._stalls + 1 if gap > tuning.stalled * self._last else 0
        self._last = gap
        if self._stalls < tuning.stalls:
            return True
        if self.value < tuning.closer**2 * self._loosest:
            return False
        self._stalls, self.value = 0, tuning.closer * self.value
        return True


class _Failures:
    """Counts of steps that did not converge since the last one that did, by kind."""

    def __init__(self) -> None:
        self.long = self.others = 0
        self.looked = False

    def count(self, left: float, tuning: StepsTuning) -> bool:
        """Count a step by its remaining share of the residual; return whether there were too many."""
        if left <= tuning.merely_long:
            self.long += 1
        else:
            self.others += 1
        return self.others > tuning.failures or self.long > tuning.long_steps

    def suspicious(self, tuning: StepsTuning) -> bool:
        """Return True the first time it should be checked whether the rows can be satisfied at all."""
        look = self.others == tuning.failures and not self.looked
        self.looked = self.looked or look
        return look


class _Steps:
    """Steps on one working set; every step converges, is accurate enough to continue from, or fails."""

    def __init__(
        self,
        program: ContinualProgram | None,
        inner: Inner,
        budget: Budget,
        centre: NDArray[np.float64],
        prices: NDArray[np.float64],
        aim: Aim,
        tuning: StepsTuning,
    ) -> None:
        self.program, self.inner, self.budget, self.tuning = program, inner, budget, tuning
        self.working, self.aim = inner.working, aim
        self.least = aim.least / inner.working.cost_scale
        self.sigma = aim.sigma or aim.first * inner.unit
        self.closeness = _Closeness(tuning.closeness * budget.tolerance, tuning)
        self.failures = _Failures()
        self.centre = self.reached = centre
        self.prices = self.sound = prices
        """Prices at which the next step begins, and those of the last step that converged."""
        self.inexact = 0
        self.last_gap = math.inf
        self.loose = aim.loose if isinstance(inner.solver, SemismoothNewton) else 0.0
        self.enough = tuning.inexact if self.loose else 0.0
        self.ray: FarkasRay | None = None
        self.violation: NDArray[np.float64] | None = None

    def run(self) -> StepsResult:
        """Take steps until one of them ends the loop."""
        done = False
        while not done and self.budget.left() > 0:
            step = self._step()
            if step.result.converged:
                done = self._moved(step)
            elif self._good_enough(step):
                self.centre, self.prices = step.result.x, step.result.y
                done = self._inexact(step)
            else:
                done = self._failed(step.result)
        # if columns are missing, the last prices are only large for lack of them
        prices = self.prices if self.violation is None else self.sound
        working = self.working
        return StepsResult(
            working.sparse(self.reached), working.prices(prices), self.sigma, self.ray, self.violation
        )

    def _step(self) -> _Step:
        """Solve the subproblem at the centre, and compute the gap of the result."""
        limit = min(self.tuning.inner_limit, self.budget.left())
        inner = self.inner
        soon = {"enough": self.enough} if self.enough else {}
        result = inner.solver.solve(self.prices, self.centre, self.sigma, self.closeness.value, limit, **soon)
        self.budget.iterations += max(1, result.iterations)
        if result.converged and inner.free:
            result = result._replace(y=np.zeros_like(result.y))
        size, loss = inner.measured.gap(result.x, result.y)
        if not result.converged:
            loss = abs(loss + result.paid) + result.off
        size = max(size, self.least, math.ulp(0.0))
        gap = abs(loss) / size
        move = result.x - self.centre
        moved = math.sqrt(dot(move, move))
        self.reached = result.x
        log.debug(
            "    sigma %.1e: %d steps, %s, gap %.1e, move %.1e",
            self.sigma,
            result.iterations,
            "converged" if result.converged else "not converged",
            gap,
            moved,
        )
        return _Step(result, gap, result.off / size, moved)

    def _moved(self, step: _Step) -> bool:
        """Continue from a converged step with a larger sigma; return whether the steps are finished."""
        result, tuning = step.result, self.tuning
        self.centre, self.prices, self.sound = result.x, result.y, result.y
        self.violation, self.failures = None, _Failures()
        if step.gap <= self.aim.goal or step.moved == 0.0 or self.budget.late():
            return True
        if not self.closeness.judge(step.gap):
            return True
        if 2 * result.iterations <= tuning.inner_limit:
            self.sigma = min(self.sigma * tuning.growth, tuning.most_sigma * self.inner.unit)
        return False

    def _inexact(self, step: _Step) -> bool:
        """Count an inexact step that was accurate enough; return whether the steps are finished."""
        self.inexact += 1
        if 2.0 * step.rows > step.gap:  # violated rows, not the step length, limit the gap
            self.enough = max(self.tuning.stricter * self.enough, 1e-3 * self.tuning.inexact)
        elif step.result.iterations <= self.tuning.easily or step.gap > self.tuning.stalled * self.last_gap:
            self.sigma = min(self.sigma * self.tuning.growth, self.tuning.most_sigma * self.inner.unit)
        self.last_gap = step.gap
        if step.gap <= self.aim.goal or self.inexact >= self.tuning.inexact_steps:
            self.enough = 0.0  # from now on steps must satisfy the rows
        return step.gap <= self.loose

    def _good_enough(self, step: _Step) -> bool:
        """Return whether an unconverged step violates rows by much less than it moved."""
        tuning = self.tuning
        return self.inexact < tuning.inexact_steps and step.result.residual <= tuning.inexact * step.moved

    def _failed(self, result: InnerResult) -> bool:
        """Shorten the next step; return True if steps make no progress or a ray proves that none can."""
        tuning = self.tuning
        too_many = self.failures.count(result.left, tuning)
        if self.budget.late() or too_many:
            return True
        if self.failures.suspicious(tuning) and self._cannot_be_met(result.x):
            return True
        if result.left > tuning.nearly_there or self.failures.long % 2 == 0:
            self.sigma = max(self.sigma / tuning.growth, tuning.least_sigma * self.inner.unit)
        if abs(result.y).max(initial=0.0) <= runaway_price(self.working):
            self.prices = result.y
        return False

    def _cannot_be_met(self, x: NDArray[np.float64]) -> bool:
        """Return whether the least violation of the rows is a proof of infeasibility; store it if not."""
        elastic = self.inner.solver.least_violation(x, max(1, self.budget.left()))
        self.budget.iterations += elastic.iterations
        if RowTest(self.working).worst(elastic.y, elastic.x, self.closeness.value) <= 1.0:
            return False  # the rows can be met
        self.violation = elastic.y * self.working.row_scale
        if self.program is None:
            return True
        budget = self.budget
        self.ray = farkas_ray(self.program, self.violation, budget.threads, tolerance=budget.tolerance)
        return self.ray is not None


# ---- inner solvers ------------------------------------------------------------------------------------


def _linear_inner(working: WorkingSet, method: Method, budget: Budget, tuning: ProximalTuning) -> Inner:
    """Return the inner solver of a working set without convex terms."""
    solver: InnerSolver
    if method == "cd":
        solver = CoordinateDescent(working, budget.late, tuning.descent)
    elif is_small(working, tuning.newton):
        solver = CompiledNewton(working, budget.late, tuning.newton, budget.threads)
    else:
        solver = SemismoothNewton(working, budget.late, budget.threads, tuning.newton)
    return Inner(solver, working, working, 1.0, not working.cost.any())


def _curved_inner(
    working: WorkingSet,
    batch: TermBatch,
    method: Method,
    centre: NDArray[np.float64],
    budget: Budget,
    tuning: ProximalTuning,
) -> Inner:
    """Return the inner solver of a working set with convex terms, in the typical unit of cost at a centre.

    `working` must contain all columns of the requests with terms.
    """
    slopes, unit, cost = WorkingTerms(working, batch).reference(centre)
    working = working.with_cost_unit(cost)
    terms, slopes = WorkingTerms(working, batch), slopes / cost
    solver: InnerSolver
    if method == "cd":
        solver = ConvexDescent(working, terms, budget.late, slopes, tuning.descent)
    else:
        newton, threads = tuning.newton, budget.threads
        solver = CompiledNewton.of_terms(working, terms, slopes, budget.late, newton, threads)
    return Inner(solver, working, terms, unit, False)
