"""Engines of a solve: :func:`solve` asks them in order until one has an answer.

    active requests   a round with few changes reads the active requests only
                      (:mod:`copter.solvers.proximal.incremental`)
    nothing           the last solution, if nothing was edited since
    small simplex     a small program from the last allocation (:mod:`copter.solvers.inner.small_simplex`),
                      for a solver with ``engine="fastest"``
    fastest           the proximal-point method (:mod:`copter.solvers.proximal.loop`), or HiGHS' simplex if
                      that was faster in earlier rounds (:mod:`copter.solvers.proximal.fastest`)

An engine gets the context of the solve, and returns the solution with the state for the next solve, or None.
Every point is certified in the same way, and :func:`copter.solvers.proximal.accept.accept` decides whether it
is optimal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from copter.clock import Interrupted
from copter.solution import UNKNOWN, Solution, Status, Timings, make_solution
from copter.solvers.blas import one_blas_thread
from copter.solvers.inner.gather import gather
from copter.solvers.inner.small_simplex import solve_small, suits
from copter.solvers.proximal.accept import accept, accept_first, accept_unchanged, out_of_time
from copter.solvers.proximal.fastest import by_fastest
from copter.solvers.proximal.full_pass import FullPass
from copter.solvers.proximal.incremental import IndexCache, by_active_requests, make_inactive
from copter.solvers.proximal.loop import by_steps
from copter.solvers.proximal.run import Answer, End, Engine, SolveContext, SolveOptions
from copter.solvers.proximal.state import State
from copter.store.slabs import every_column

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.fastest import EngineTimes
    from copter.store.edit import Starts

_EXACT = 0.1
"""Violation that simplex permits, as a share of the accepted violation."""
_ROUNDING = 1e-13
"""Least violation that simplex permits, in the units of a working set: some hundred rounding errors."""


def solve(
    program: ContinualProgram,
    state: State,
    options: SolveOptions,
    clock: Clock,
    starts: Starts,
    cache: IndexCache | None = None,
    times: EngineTimes | None = None,
) -> Answer:
    """Solve a program from the state of the last solve, until it is solved or the clock has run out.

    The given state is not changed. `starts`: initial values given with edits, by request slot. `cache` saves
    time if it was also given to the last solve; the solution does not depend on it. `times`: times of the
    engines in earlier rounds; None to use no simplex. Return the solution of the best completed pass, and the
    state for the next solve. The state is the given one if no pass was completed.
    """
    run = SolveContext(program, state, options, clock, starts, cache or IndexCache(), times)
    with one_blas_thread(program.store.rows.size):
        try:
            for engine in ENGINES:
                answer = engine(run)
                if answer is not None:
                    return answer
        except Interrupted:
            pass
        return _answer(run, out_of_time(run))


def _by_nothing(run: SolveContext) -> Answer | None:
    """Return the last solution if nothing was edited since."""
    end = None if run.starts else accept_unchanged(run)
    return None if end is None else _answer(run, end)


def _by_small_simplex(run: SolveContext) -> Answer | None:
    """Return the optimum of a small program by simplex, or the last allocation if it is within the tolerance.

    If the last solve did not change the allocation, it is first certified at the last prices. Otherwise it is
    certified at the prices of the simplex.
    """
    store, tuning, begin = run.program.store, run.options.tuning, run.begin
    small = run.simplex_can and suits(store.rows.size, len(run.program), store.n_variables)
    if run.times is None or not small or run.budget.clock.over():
        return None
    if begin.how.warm and not run.state.moved:
        end = accept_first(run, run.certify(begin.x, begin.y))
        if end is not None:
            return _answer(run, end)
    slots = store.live_requests()
    columns = every_column(slots, store.requests.n_columns[slots])
    working = gather(store, *columns, tuning=tuning.working_set)
    near = working.values_at(begin.x), working.scaled_prices(begin.y)
    feasible = _EXACT * tuning.steps.feasible * run.budget.tolerance
    found = solve_small(working, *near, max(feasible, _ROUNDING))
    if found is None:
        return None
    run.simplex_iterations += found.pivots
    y, (size, loss) = working.prices(found.y), working.gap(near[0], found.y)
    points = [working.sparse(found.x)]
    if begin.how.warm and abs(loss) <= run.budget.tolerance * size:
        points.insert(0, begin.x)
    for x in points:
        end = accept(run, run.certify(x, y, working.column.size))
        if end is not None and end.status is Status.OPTIMAL:
            run.engine = Engine.SMALL
            return _answer(run, end)
    return None


def _by_fastest(run: SolveContext) -> Answer:
    """Return the answer of the engine that was fastest in earlier rounds, or of the proximal-point method."""
    if run.times is None or run.starts or run.why is FullPass.START_GIVEN:
        return _answer(run, by_steps(run))  # HiGHS begins from its last basis, not from a start
    return _answer(run, by_fastest(run, run.times))


ENGINES: tuple[Callable[[SolveContext], Answer | None], ...] = (
    by_active_requests,
    _by_nothing,
    _by_small_simplex,
    _by_fastest,
)
"""The engines in the order in which they are asked; the last one always has an answer."""


def _answer(run: SolveContext, end: End) -> Answer:
    """Return the solution at an end, and the state for the next solve; not for rounds by active requests."""
    if end.best is None:
        return _solution(run, end), run.given
    moved = end.best.x is not run.begin.x
    left = run.state.after(run.program, end.best, run.screening.slack, moved=moved)
    why = run.stay_active
    if why is None and end.status is not Status.OPTIMAL:
        why = FullPass.NOT_OPTIMAL
    elif why is None and not run.begin.how.warm:
        why = FullPass.COLD_START
    elif why is None and run.engine is not Engine.PROXIMAL:
        why = FullPass.BY_SIMPLEX
    return _solution(run, end), make_inactive(run, left) if why is None else left.without(why)


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
