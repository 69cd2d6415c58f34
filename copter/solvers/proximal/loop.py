"""Main loop of the proximal-point solver: from a state to a solution and the next state.

A solve computes a sequence of iterates, allocation and prices (x, y), in five steps each:

    price     a pricing pass over all columns at y: a bound, and the columns that could be used near y
    certify   residuals and gap of (x, y), recomputed from the program
    accept    the stopping rules (:mod:`copter.solvers.proximal.accept`)
    restrict  the program to these columns; the others are 0
    step      proximal-point steps on them (:mod:`copter.solvers.proximal.steps`)

If simplex was faster in earlier rounds (:mod:`copter.solvers.proximal.engines`), its optimum is the only
iterate. In a small program (:mod:`copter.solvers.inner.small_simplex`) it follows the warm start.  With many
requests and rows, only some of the requests change in the first steps
(:mod:`copter.solvers.proximal.partial`).
"""

from __future__ import annotations

import logging
import math
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.compile.kernels import compile_seconds
from copter.errors import CopterError
from copter.proof.certificate import GapDenominator
from copter.solution import UNKNOWN, Solution, Status, Timings, make_solution
from copter.solvers.blas import one_blas_thread
from copter.solvers.inner.gather import gather
from copter.solvers.inner.small_simplex import solve_small, suits
from copter.solvers.proximal.accept import accept, accept_first, accept_unchanged, out_of_time, stuck
from copter.solvers.proximal.columns import ColumnSet
from copter.solvers.proximal.engines import Engine, Engines
from copter.solvers.proximal.full_pass import FullPass
from copter.solvers.proximal.incremental import (
    IndexCache,
    can_hold,
    few_edits,
    make_inactive,
    solve_active,
    why_none,
)
from copter.solvers.proximal.partial import PartialSteps
from copter.solvers.proximal.run import End, SolveContext, SolveOptions
from copter.solvers.proximal.starting_prices import (
    Sampled,
    reset_prices,
    sampled_prices,
    violation_prices,
)
from copter.solvers.proximal.state import Iterate, State
from copter.solvers.proximal.steps import Aim, Method, StepsResult, run_steps
from copter.store.allocation import NOTHING, SparseX
from copter.store.slabs import every_column

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.pricing import Pricing
    from copter.solvers.inner.working_set import WorkingSet
    from copter.store.edit import Starts

log = logging.getLogger("copter")
_EXACT = 0.1
"""Violation that simplex permits, as a share of the one that is accepted."""
_ROUNDING = 1e-13
"""Least violation that simplex permits, in the units of a working set: some hundred rounding errors."""
_MOST_LENGTHS = 8
"""Largest number of lengths that are tried for prices along the violations of rows."""


def init() -> State:
    """Return the state before a first solve."""
    return State()


def solve(
    program: ContinualProgram,
    state: State,
    options: SolveOptions,
    clock: Clock,
    starts: Starts,
    cache: IndexCache | None = None,
    engines: Engines | None = None,
) -> tuple[Solution, State]:
    """Solve a program from the state of the last solve, until it is solved or the clock has run out.

    The given state is not changed. `starts`: initial values given with edits, by request slot. `cache` saves
    time if it was also given to the last solve; the solution does not depend on it. `engines`: choice of the
    engine by the times of earlier rounds; None for the proximal-point method. Return the solution of the best
    completed pass, and the state for the next solve. If no pass was completed, it is the given state.
    """
    cache = IndexCache() if cache is None else cache
    begin = clock()
    found = solve_active(program, state, options, clock, starts, cache)
    if not isinstance(found, FullPass):
        if engines is not None:
            engines.solved_few(program, clock() - begin)
        return found
    why = state.full_pass if state.inactive is None else found
    state = state.whole()
    run = SolveContext.of(program, state, options, clock, starts, why)
    run.holds, none = can_hold(program, options), why_none(program, state, options)
    few = none is None or (none is FullPass.WAITING and few_edits(program, state, options))
    small = engines is not None and _is_small(run) and not clock.over()
    if starts or why is FullPass.START_GIVEN:
        engines = None  # HiGHS begins from its last basis, not from a start
    with one_blas_thread(program.store.rows.size):
        try:
            end = None if starts else accept_unchanged(run, state)
            end = end or (_by_small_simplex(run) if small else None) or _solved(run, engines, few)
        except Interrupted:
            end = out_of_time(run)
    if end.best is None:
        return _solution(run, end), state
    left = state.after(program, end.best, run.screening.slack)
    if none is not None:
        left = left.without(none)
    elif end.status is not Status.OPTIMAL:
        left = left.without(FullPass.NOT_OPTIMAL)
    elif not run.begin.how.warm:
        left = left.without(FullPass.COLD_START)
    elif run.engine is not Engine.PROXIMAL:
        left = left.without(FullPass.BY_SIMPLEX)
    else:
        left = make_inactive(program, left, clock, options, cache)
    return _solution(run, end), left


def _solved(run: SolveContext, engines: Engines | None, few: bool) -> End:
    """Solve with the engine that was fastest in earlier rounds, or with the proximal-point method.

    `few`: True if few requests were edited, so that rounds may read active requests only.
    """
    if engines is None:
        return _loop(run)
    clock, engine = run.budget.clock, engines.next(run, few)
    limit = engines.patience(engine)
    while True:
        begin, compiled = clock(), compile_seconds()
        if engine is Engine.PROXIMAL:
            end = _loop_within(run, limit)
        else:
            end = _by_simplex(run, engines, engine)
        if end is not None:
            break
        engines.failed(engine)
        engine, limit = engines.other(engine), math.inf
    run.engine, late = engine, end.status is Status.DEADLINE
    seconds = clock() - begin - (compile_seconds() - compiled)
    if not run.begin.how.warm:
        engines.began(seconds)
    elif late or end.status is Status.OPTIMAL:
        engines.solved(engine, seconds, late=late)
    return end


def _is_small(run: SolveContext) -> bool:
    """Return whether the simplex for small programs solves this one."""
    store, options = run.program.store, run.options
    if options.inner != "auto" or not options.fall_back or store.terms or not store.executor.local:
        return False
    return suits(store.rows.size, len(run.program), store.n_variables)


def _by_small_simplex(run: SolveContext) -> End | None:
    """Return the end at the warm start or by the simplex for small sets; None without a certified optimum."""
    store, begin, tolerance = run.program.store, run.begin, run.budget.tolerance
    if begin.how.warm:  # an allocation that is still within the tolerance does not change
        end = accept_first(run, _certify(run, begin.x, begin.y, price(run, begin.y)))
        if end is not None:
            return end
    slots = store.live_requests()
    columns = every_column(slots, store.requests.n_columns[slots])
    working = gather(store, *columns, tuning=run.options.tuning.working_set)
    near = working.values_at(begin.x), working.scaled_prices(begin.y)
    feasible = _EXACT * run.options.tuning.steps.feasible * tolerance
    found = solve_small(working, *near, max(feasible, _ROUNDING))
    if found is None:
        return None
    run.simplex_iterations += found.pivots
    x, y = working.sparse(found.x), working.prices(found.y)
    end = accept(run, _certify(run, x, y, price(run, y), working.column.size))
    if end is None or end.status is not Status.OPTIMAL:
        return None
    run.engine = Engine.SMALL
    return end


def _by_simplex(run: SolveContext, engines: Engines, engine: Engine) -> End | None:
    """Return the end by a simplex engine; None without a certified optimum within its limit."""
    point = engines.point(run, engine)
    end = None if point is None else accept(run, _certify(run, *point, price(run, point[1])))
    return end if end is not None and end.status is Status.OPTIMAL else None


def _loop_within(run: SolveContext, seconds: float) -> End | None:
    """Return the end of the loop; None if these seconds, which may be infinite, end before the deadline."""
    if seconds == math.inf:
        return _loop(run)
    with run.budget.at_most(seconds):
        end = _loop(run)
    return None if end.status is Status.DEADLINE and not run.budget.clock.over() else end


def _loop(run: SolveContext) -> End:
    """Run the loop: price and certify; accept, or restrict and step."""
    budget, tuning = run.budget, run.options.tuning
    now, flow, first = _first(run)
    end = accept_first(run, now)
    if end is None and _many_requests(run, now.pricing):
        now, end = _request_rounds(run, now, flow)
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
        before, pricing = run.worst, price(run, found.y)
        now = _certify(run, found.x, found.y, pricing, working.column.size)
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
            now = _certify(run, NOTHING, y, price(run, y))
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
            now = _certify(run, begin.x, begin.y, price(run, begin.y))
    if now is not None and priced:
        return now, None, sigma.warm_sigma if warm else sigma.cold_sigma
    sampled = _sampled(run, begin.x, begin.y)
    fresh = sampled.y is not begin.y
    if now is None or fresh:
        now = _certify(run, begin.x, sampled.y, price(run, sampled.y))
    return now, sampled.flow, sigma.warm_sigma if warm or fresh else sigma.cold_sigma


def _request_rounds(
    run: SolveContext, now: Iterate, flow: NDArray[np.float64] | None
) -> tuple[Iterate, End | None]:
    """Take steps in which only some requests change, until the solve ends or they make no progress."""
    partial = PartialSteps(run.program, run.budget, run.options.tuning, flow, run.holds)
    if run.begin.how.warm:
        y = reset_prices(run.program.store, now)
        there = now if y is now.y else _at_prices(run, now, y)
        end = None if there is now else accept(run, _repaired(run, there))
        if end is not None:
            return there, end
        # a sample shows large price changes at low cost
        worth = there.certificate.relative.gap <= run.options.tuning.partial.hopeless
        start = (there.x, there.y) if worth else (NOTHING, np.zeros_like(now.y))
        now = _at_prices(run, there, _sampled(run, *start).y)
        if not now.y.any():
            now = _along_violations(run, now)
    while not run.budget.spent():
        moved = partial.step(now)
        if moved is None:
            break
        last, now = now, _certify(run, moved.x, moved.y, price(run, moved.y), moved.columns)
        if now.certificate.bound < last.certificate.bound:
            now = _recertified(run, last, now.x)  # too few requests changed to determine the prices
        end = accept(run, _repaired(run, now))
        if end is not None:
            return now, end
        if run.repair is None:
            partial.meet_rows()
    return now, None


# ---- the steps ---------------------------------------------------------------------------------------


def price(run: SolveContext, y: NDArray[np.float64]) -> Pricing:
    """Run a pricing pass over all columns at prices y, (row slots,)."""
    run.budget.begin_pass()
    return run.screening.price(y)


def _certify(
    run: SolveContext, x: SparseX, y: NDArray[np.float64], pricing: Pricing, columns: int = 0
) -> Iterate:
    """Certify (x, y), found by steps on `columns` columns, by a pass at y; keep it if it is the best."""
    options, budget, store = run.options, run.budget, run.program.store
    now = Iterate.of(store, x, y, pricing, options.threads)
    proof = now.certificate
    budget.end_pass()
    run.keep(now)
    log.debug(
        "%6d iterations, %8d of %d columns, objective %.9g, primal %.1e, gap %.1e, %.3f s",
        budget.iterations,
        columns,
        store.n_variables,
        proof.objective,
        proof.relative.primal,
        proof.relative.gap,
        budget.clock(),
    )
    if options.callback is not None:
        options.callback(budget.iterations, proof)
    return now


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
    if not (whole or run.program.store.terms):  # columns that are left out will change the prices anyway
        goal = max(goal, tuning.gap_share * min(proof.relative.gap, 1.0))
    descend = options.inner == "auto" and idle >= tuning.switch_rounds
    method = "cd" if descend else _method(options)
    floored = whole or proof.gap_denominator_kind is not GapDenominator.OBJECTIVE
    aim = Aim(goal, first, sigma, proof.gap_denominator if floored else 0.0)
    program = run.program
    at = now.x, now.y
    return run_steps(
        program.store,
        working,
        method,
        run.budget,
        *at,
        aim,
        tuning,
        rays_of=program,
        hold=run.holds and not idle,
    )


# ---- their parts -------------------------------------------------------------------------------------


def _method(options: SolveOptions) -> Method:
    """Return the inner solver to begin with."""
    return "cd" if options.inner == "cd" else "newton"


def _sampled(run: SolveContext, x: SparseX, y: NDArray[np.float64]) -> Sampled:
    """Return prices of a sample of the requests, starting from (x, y)."""
    return sampled_prices(run.program, x, y, _method(run.options), run.budget, run.options.tuning)


def _many_requests(run: SolveContext, pricing: Pricing) -> bool:
    """Return whether the program is large enough, in requests or columns and rows, for partial steps."""
    tuning, program = run.options.tuning.partial, run.program
    if len(program.resource_slots) < tuning.rows_from:
        return False
    many = pricing.slot.size > tuning.columns_from or len(program) > tuning.requests_from
    return many and run.options.inner != "cd" and not program.store.terms


def _at_prices(run: SolveContext, now: Iterate, y: NDArray[np.float64]) -> Iterate:
    """Return the allocation at other prices, if these give a better bound."""
    there = _certify(run, now.x, y, price(run, y))
    log.debug(
        "bound at other prices %.8g, before %.8g, objective %.8g",
        there.certificate.bound,
        now.certificate.bound,
        now.certificate.objective,
    )
    return there if there.certificate.bound > now.certificate.bound else now


def _along_violations(run: SolveContext, now: Iterate) -> Iterate:
    """Return an allocation without prices at prices along its row violations, if these give a better bound.

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
    relative = now.certificate.relative
    log.debug("   certified again: gap %.1e, primal %.1e", relative.gap, relative.primal)
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


def _solution(run: SolveContext, end: End) -> Solution:
    """Return the solution at the end of a solve."""
    best, x = end.best, None
    if best is not None and end.status is not Status.INFEASIBLE:
        # zeros that violate rows are the start of a cold solve, not an allocation
        some = best.x.slot.size > 0 or best.certificate.relative.primal <= run.budget.tolerance
        x = best.x if some else None
    details: dict[str, object] = {"full_pass": run.why, "engine": run.engine}
    if run.fall_back.successes:
        details["highs_fallbacks"] = float(run.fall_back.successes)
    return make_solution(
        run.program,
        x,
        run.begin.y if best is None else best.y,
        status=end.status,
        reason=end.reason,
        iterations=run.budget.iterations + run.simplex_iterations,
        timings=Timings(solve=run.budget.clock()),
        warm=run.begin.how,
        last=run.before,
        certificate=UNKNOWN if best is None else best.certificate,
        ray=end.ray,
        details=details,
        pricing=None if best is None else best.pricing,
    )
