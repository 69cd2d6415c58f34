"""Proximal-point method: from the start of a solve to its end.

A solve computes a sequence of iterates, allocation and prices (x, y), in five steps each:

    price     a pricing pass over all columns at y: a bound, and the columns that could be used near y
    certify   residuals and gap of (x, y), recomputed from the program
    accept    the stopping rules (:mod:`copter.solvers.proximal.accept`)
    restrict  the program to the columns of the pricing pass; all other columns are 0
    step      proximal-point steps on these columns (:mod:`copter.solvers.proximal.steps`)

With many requests and rows, only some of the requests change in the first steps
(:mod:`copter.solvers.proximal.partial`).
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Interrupted
from copter.errors import CopterError
from copter.proof.certificate import GapDenominator
from copter.solution import Status
from copter.solvers.inner.gather import gather
from copter.solvers.proximal.accept import accept, accept_first, out_of_time, stuck
from copter.solvers.proximal.columns import ColumnSet
from copter.solvers.proximal.partial import PartialSteps
from copter.solvers.proximal.run import End, SolveContext
from copter.solvers.proximal.starting_prices import (
    Sampled,
    reset_prices,
    sampled_prices,
    violation_prices,
)
from copter.solvers.proximal.state import Iterate
from copter.solvers.proximal.steps import Aim, Method, StepsResult, run_steps
from copter.store.allocation import NOTHING, SparseX

if TYPE_CHECKING:
    from copter.proof.pricing import Pricing
    from copter.solvers.inner.working_set import WorkingSet

log = logging.getLogger("copter")
_MOST_LENGTHS = 8
"""Largest number of lengths that are tried for prices along the violations of rows."""


def by_steps(run: SolveContext) -> End:
    """Return the end of the method: price and certify; accept, or restrict and step."""
    budget, tuning = run.budget, run.options.tuning
    now, flow, first = _first(run)
    end = accept_first(run, now)
    if end is None and _many_requests(run, now.pricing):
        start = now
        now, end = _request_rounds(run, now, flow)
        if now is not start:
            first = tuning.partial.first_sigma  # the remaining changes are small
    if end is not None:
        return end
    columns, sigma, idle = ColumnSet(run.screening, now.pricing, now.x), 0.0, 0
    again = run.begin.how.warm  # a warm start that stalls is followed by one cold start
    while not budget.spent():
        if run.begin.how.warm and budget.clock.over(tuning.seconds_a_column * columns.slot.size):
            return out_of_time(run)  # the solution of the warm start is returned
        working = _restrict(run, columns)
        found = _step(run, working, now, first, sigma, idle)
        before = run.worst
        now = run.certify(found.x, found.y, working.column.size)
        end = accept(run, now, found)
        if end is not None:
            return end
        # sigma became short because columns were missing that reduce a violation
        sigma = found.sigma if found.violation is None else 0.0
        grown = columns.extend(now.pricing, now.x, found.violation)
        idle = 0 if grown or now.worst < 0.5 * before else idle + 1
        if idle == 1:  # if sigma is too long for the inner solver, repeating the steps does not help
            first, sigma = tuning.steps.cold_sigma, 0.0
        if idle == tuning.idle_rounds and again:
            y = np.zeros_like(now.y)
            now = run.certify(NOTHING, y)
            columns, sigma = ColumnSet(run.screening, now.pricing, now.x), 0.0
            first, idle, again = tuning.steps.cold_sigma, 0, False
        elif idle == tuning.idle_rounds:
            return stuck(run)
    return End(Status.ITERATION_LIMIT, "iteration limit reached", run.incumbent)


def _first(run: SolveContext) -> tuple[Iterate, NDArray[np.float64] | None, float]:
    """Return the first iterate, A x of a sample if its prices come from one, and the first step length."""
    begin, store, sigma = run.begin, run.program.store, run.options.tuning.steps
    now, warm = None, begin.how.warm
    priced = bool(begin.y.any()) or bool(store.terms)
    if priced or warm:  # even with a short deadline, the answer is at least as good as the warm start
        here = warm and store.executor.local  # a remote process could hang
        with run.budget.clock.patient() if here else nullcontext():
            now = run.certify(begin.x, begin.y)
    if now is not None and priced:
        return now, None, sigma.warm_sigma if warm else sigma.cold_sigma
    sampled = _sampled(run, begin.x)
    fresh = sampled.flow is not None
    if now is None or fresh:
        now = run.certify(begin.x, sampled.y)
    return now, sampled.flow, sigma.warm_sigma if warm or fresh else sigma.cold_sigma


def _request_rounds(
    run: SolveContext, now: Iterate, flow: NDArray[np.float64] | None
) -> tuple[Iterate, End | None]:
    """Take steps in which only some requests change, until the solve ends or they make no progress."""
    partial = PartialSteps(run.program, run.budget, run.options.tuning, flow, run.holds)
    if run.begin.how.warm:
        there = _at_prices(run, now, reset_prices(run.program.store, now))
        end = None if there is now else accept(run, _repaired(run, there))
        if end is not None:
            return there, end
        now = there
        if now.certificate.relative.gap > run.options.tuning.partial.hopeless:
            now = _at_prices(run, now, _sampled(run, NOTHING).y)
        if not now.y.any():
            now = _along_violations(run, now)
    while not run.budget.spent():
        moved = partial.step(now)
        if moved is None:
            break
        last, now = now, run.certify(moved.x, moved.y, moved.columns)
        if now.certificate.bound < last.certificate.bound:
            now = _recertified(run, last, now.x)  # too few requests changed to determine the prices
        end = accept(run, _repaired(run, now))
        if end is not None:
            return now, end
        if run.repair is None:
            partial.meet_rows()
    return now, None


def _restrict(run: SolveContext, columns: ColumnSet) -> WorkingSet:
    """Return the program on some of its columns, in the units of a working set."""
    tuning = run.options.tuning.working_set
    return gather(run.program.store, columns.slot, columns.column, tuning=tuning)


def _step(
    run: SolveContext, working: WorkingSet, now: Iterate, first: float, sigma: float, idle: int
) -> StepsResult:
    """Take steps on a set, to a gap that fits the columns left out; fall back to HiGHS if steps stall.

    `first`, `sigma`: see :class:`Aim`. `idle`: consecutive passes without progress.
    """
    options, tuning, proof = run.options, run.options.tuning, now.certificate
    found = run.fall_back.finish(working, idle, proof.gap_denominator)
    if found is not None:
        return found
    goal = tuning.goal_share * run.budget.tolerance
    whole = working.column.size == run.program.store.n_variables
    if not whole:  # columns that are left out will change the prices anyway
        goal = max(goal, tuning.gap_share * min(proof.relative.gap, 1.0))
    descend = options.inner == "auto" and idle >= tuning.switch_rounds
    floored = whole or proof.gap_denominator_kind is not GapDenominator.OBJECTIVE
    aim = Aim(goal, first, sigma, proof.gap_denominator if floored else 0.0)
    program, hold = run.program, run.holds and not idle
    method: Method = "cd" if descend else options.inner
    return run_steps(
        program.store, working, method, run.budget, now.x, now.y, aim, tuning, rays_of=program, hold=hold
    )


def _sampled(run: SolveContext, x: SparseX) -> Sampled:
    """Return prices of a sample of the requests, starting from x."""
    return sampled_prices(run.program, x, run.options.inner, run.budget, run.options.tuning)


def _many_requests(run: SolveContext, pricing: Pricing) -> bool:
    """Return whether the program is large enough, in requests or columns and rows, for partial steps."""
    tuning, program = run.options.tuning.partial, run.program
    if len(program.resource_slots) < tuning.rows_from:
        return False
    many = pricing.slot.size > tuning.columns_from or len(program) > tuning.requests_from
    return many and run.options.inner != "cd" and not program.store.terms


def _at_prices(run: SolveContext, now: Iterate, y: NDArray[np.float64]) -> Iterate:
    """Return the allocation at other prices, if these are others and give a better bound."""
    there = now if y is now.y else run.certify(now.x, y)
    return there if there.certificate.bound > now.certificate.bound else now


def _along_violations(run: SolveContext, now: Iterate) -> Iterate:
    """Return an iterate at prices along its row violations, if these give a better bound than no prices.

    The bound is a concave function of the prices' length, which is doubled or halved while that helps.
    """
    along = violation_prices(run.program.store, now.measures.activity)
    if not along.any():
        return now
    best, length, factor = _at_prices(run, now, along), 1.0, 2.0
    for _ in range(_MOST_LENGTHS):
        there = _at_prices(run, best, factor * length * along)
        if there is not best:
            best, length = there, factor * length
        elif factor > 1.0 and length == 1.0:
            factor = 0.5
        else:
            break
    return best


def _recertified(run: SolveContext, last: Iterate, x: SparseX) -> Iterate:
    """Certify an allocation at the prices and by the pass of an earlier iterate; keep it if it is best."""
    now = Iterate.of(run.program.store, x, last.y, last.pricing, run.options.threads)
    run.keep(now)
    return now


def _repaired(run: SolveContext, now: Iterate) -> Iterate:
    """Return the iterate repaired by ``program.primal_repair`` if that is better, else the iterate."""
    if run.repair is None:
        return now
    table = run.program.store.requests
    try:
        x = run.repair(run.program, now.x, now.y)
        fault = x.fault(table.n_columns[: table.size])
        if fault:
            raise CopterError(f"the returned allocation is invalid: {fault}")
    except Interrupted:
        raise
    except CopterError as error:
        log.warning("primal_repair failed, and is not used again in this solve: %s", error)
        run.repair = None
        return now
    there = _recertified(run, now, x)
    return there if there.better_than(now) else now
