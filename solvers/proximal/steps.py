"""Proximal-point steps on a working set: the step length, the inner solver, and what failures mean.

A step that the inner solver brings to its tolerance moves the centre and lengthens sigma; one that it does
not shortens sigma.  Where prices run away the rows cannot be met by the columns of the set: the least
violation of them is a Farkas ray of the program, or says which columns are missing.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock
from copter.parallel import dot
from copter.proof.rays import farkas_ray, primal_ray
from copter.solution import Ray
from copter.solvers.inner.convex_descent import ConvexDescent
from copter.solvers.inner.convex_newton import ConvexNewton
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.descent import CoordinateDescent
from copter.solvers.inner.log_descent import LogDescent
from copter.solvers.inner.log_newton import LogNewton, fits
from copter.solvers.inner.newton import SemismoothNewton
from copter.solvers.inner.working_set import InnerResult, RowTest, WorkingSet, runaway_price
from copter.store.allocation import SparseX
from copter.terms.batch import TermBatch

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

log = logging.getLogger("copter")

_GROWTH = 5.0
COLD_SIGMA, WARM_SIGMA = 10.0, 600.0
"""First step lengths, as multiples of what a column typically gets over what it typically costs: without
prices, and with those of the last round or of a sample."""
_SIGMA_RANGE = (1e-6, 1e12)
_INNER_LIMIT = 25
_FAILURES = 3
_MERELY_LONG, _NEARLY_THERE, _LONG_STEPS = 0.1, 0.01, 8
"""A step that left at most this share of its residual is merely long, no sign that rows cannot be met; with
so little left it goes on, once, at the same length."""
_STALLED, _STALLS, _CLOSER = 0.7, 3, 0.1
"""Where so many converged steps do not lessen the gap to this share, the inner tolerance holds it up."""
_INNER_SHARE = 0.01
_INEXACT, _INEXACT_STEPS = 0.1, 20
"""A step that leaves rows off by so much less than it moved is good enough to go on from, so many times."""
_SHARPER, _SHARPER_STEPS = 1e-3, 4
"""Reduced costs of columns without bounds make a bound that is none: a few more steps mostly end that."""
_RAY_GAP = 1e-3
_MOST_PIECE = 0.25
"""Of a deadline: what is kept for one more piece of work at most."""


class InnerSolver(Protocol):
    """What solves the subproblem of one step."""

    def solve(
        self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float, closeness: float, limit: int
    ) -> InnerResult:
        """Solve it from prices ``y``, rows to a share ``closeness`` of their sizes, in ``limit`` steps."""

    def least_violation(self, centre: NDArray[np.float64], limit: int) -> InnerResult:
        """Prices proportional to the least violation of the rows that the columns can reach."""


@dataclass
class Budget:
    """Time and iterations that a solve may use, and has used."""

    tolerance: float
    clock: Clock
    iteration_limit: int
    threads: int | None
    reserve: float = 0.0
    """Seconds that are kept for the pass which certifies what the steps find."""
    iterations: int = 0
    asked: float = 0.0
    over: bool = False

    def late(self) -> bool:
        """Whether it is time to certify what there is, or the solve was cancelled.

        Work goes on in pieces between which this is asked: the next one may take as long as the last.
        """
        now = self.clock()
        piece, self.asked = now - self.asked, now
        piece = min(piece, _MOST_PIECE * self.clock.deadline)
        self.over = self.over or self.clock.over(self.reserve + piece)
        return self.over

    def spent(self) -> bool:
        """Whether the iteration limit is reached."""
        return self.iterations >= self.iteration_limit


@dataclass(frozen=True)
class StepsResult:
    """Where the steps ended.

    Attributes
    ----------
    x, y : allocation and prices of row slots
    sigma : step length to go on with
    ray : proof that the program is infeasible or unbounded, if one was found
    violation : prices of the least violation of the rows, if the columns of the set cannot meet them
    """

    x: SparseX
    y: NDArray[np.float64]
    sigma: float
    ray: Ray | None
    violation: NDArray[np.float64] | None


def run_steps(
    program: ContinualProgram,
    working: WorkingSet,
    inner: Literal["cd", "newton"],
    budget: Budget,
    x: SparseX,
    y: NDArray[np.float64],
    *,
    first: float = COLD_SIGMA,
    sigma: float = 0.0,
    goal: float,
    least: float = 0.0,
) -> StepsResult:
    """Proximal-point steps from (x, y) until the set's own gap and dual residual are at most ``goal``.

    Parameters
    ----------
    first : float
        First step length, in multiples as :data:`COLD_SIGMA`.
    sigma : float
        First step length, to go on with that of an earlier call.
    goal : float
    least : float
        The gap is relative to the size of the objective, but not to less than this.
    """
    centre = working.values_at(x)
    reached, ray, violation, failures, long_steps = centre, None, None, 0, 0
    closeness, unit = _INNER_SHARE * budget.tolerance, 1.0
    loosest, last_gap, stalls = closeness, math.inf, 0
    solver: InnerSolver
    measured: WorkingSet | WorkingTerms = working
    if program.store.terms:
        batch = TermBatch.of(program.store)
        slopes, unit, cost = WorkingTerms(working, batch).reference(centre)
        working = working.with_cost_unit(cost)
        measured = terms = WorkingTerms(working, batch)
        slopes = slopes / cost
        if inner == "cd" and terms.logs:
            solver = LogDescent(working, terms, budget.late, slopes)
        elif inner == "cd":
            solver = ConvexDescent(working, terms, budget.late)
        else:
            method = LogNewton if fits(working, terms) else ConvexNewton
            solver = method(working, terms, budget.late, budget.threads, slopes)
    elif inner == "cd":
        solver = CoordinateDescent(working, budget.late)
    else:
        solver = SemismoothNewton(working, budget.late, budget.threads)
    free = not (working.cost.any() or program.store.terms)  # any point that meets the rows is optimal
    prices, least = working.scaled_prices(y), least / working.cost_scale
    sound, looked = prices, False
    sigma, inexact, sharper = sigma or first * unit, 0, 0
    while not budget.spent():
        limit = min(_INNER_LIMIT, budget.iteration_limit - budget.iterations)
        result = solver.solve(prices, centre, sigma, closeness, limit)
        budget.iterations += max(1, result.iterations)
        if result.converged and free:
            result = result._replace(y=np.zeros_like(result.y))
        size, loss, dual = measured.gap(result.x, result.y)
        gap = abs(loss) / max(size, least, math.ulp(0.0))
        move, reached = result.x - centre, result.x
        log.debug(
            "    sigma %.1e: %d steps, %s, gap %.1e, dual %.1e, move %.1e",
            sigma,
            result.iterations,
            "converged" if result.converged else "not converged",
            gap,
            dual,
            math.sqrt(dot(move, move)),
        )
        if result.converged:
            centre, prices, violation, failures, long_steps = result.x, result.y, None, 0, 0
            sound, looked = prices, False
            ray = primal_ray(program, working.sparse(move)) if gap > _RAY_GAP else None
            close = max(gap, dual) <= goal
            sharper += close
            if ray is not None or not move.any() or budget.late():
                break
            if close and (dual <= _SHARPER * budget.tolerance or sharper > _SHARPER_STEPS):
                break
            stalls = stalls + 1 if max(gap, dual) > _STALLED * last_gap else 0
            last_gap = max(gap, dual)
            if stalls == _STALLS:
                if closeness < _CLOSER**2 * loosest:
                    break
                stalls, closeness = 0, _CLOSER * closeness
            if 2 * result.iterations <= _INNER_LIMIT:
                sigma = min(sigma * _GROWTH, _SIGMA_RANGE[1] * unit)
            continue
        if inexact < _INEXACT_STEPS and result.residual <= _INEXACT * math.sqrt(dot(move, move)):
            centre, prices, inexact = result.x, result.y, inexact + 1
            continue
        if result.left <= _MERELY_LONG:
            long_steps += 1
        else:
            failures += 1
        if budget.late() or failures > _FAILURES or long_steps > _LONG_STEPS:
            break
        if failures == _FAILURES and not looked:
            looked = True
            elastic = solver.least_violation(result.x, max(1, budget.iteration_limit - budget.iterations))
            budget.iterations += elastic.iterations
            if RowTest(working).worst(elastic.y, elastic.x, closeness) > 1.0:  # else the rows can be met
                violation = elastic.y * working.row_scale
                ray = farkas_ray(program, violation, budget.threads)
                if ray is not None:
                    break
        if result.left > _NEARLY_THERE or long_steps % 2 == 0:
            sigma = max(sigma / _GROWTH, _SIGMA_RANGE[0] * unit)
        if abs(result.y).max(initial=0.0) <= runaway_price(working):
            prices = result.y
    prices = prices if violation is None else sound  # they went where the columns that lack should be
    return StepsResult(working.sparse(reached), working.prices(prices), sigma, ray, violation)
