"""Rounds that cost what changed: a solve that looks at open requests only, the closed ones kept in sums.

    open      what was edited, what is fractional or tied, and some that are near their expiry, for these hold
              the prices
    certify   (x, y) of the open requests and the sums of the closed ones: a proof for the whole program, at
              prices at which nobody's expiry has come
    step      proximal-point steps on the open requests, in what the closed ones leave of the rows
    move      the prices; who expires is priced anew, and opened if something else is the best now

until the certificate is within the tolerance and nobody was opened.  Then what has a single best allocation
is closed.  What this cannot decide, :mod:`copter.solvers.proximal.loop` does with all columns.

See :mod:`copter.solvers.proximal.closed` and :mod:`copter.proof.margins` for why this is exact.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.proof.certificate import Certificate, GapSize, measured_certificate, right_signs
from copter.proof.pricing import price
from copter.solution import CHURN_THRESHOLD, Kept, Solution, Start, Status, Timings, make_solution
from copter.solvers.blas import one_blas_thread
from copter.solvers.inner.gather import Held, gather, union
from copter.solvers.memory import LastX, LastY
from copter.solvers.proximal.closed import Closed, joined
from copter.solvers.proximal.state import Budget, State
from copter.solvers.proximal.steps import Aim, run_steps
from copter.store.allocation import SparseX, changes, merged
from copter.store.excerpt import excerpt

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram
    from copter.proof.pricing import Pricing
    from copter.solvers.proximal.run import Options
    from copter.store.store import ConstraintStore

log = logging.getLogger("copter")


class _Excerpt:
    """Some requests of a program, as steps take a program."""

    def __init__(self, program: ContinualProgram, slots: NDArray[np.int64]) -> None:
        self.program, self.slots = program, slots
        self.store: ConstraintStore = excerpt(program.store, slots)

    def local(self, x: SparseX) -> SparseX:
        """An allocation of these requests, by their slots here."""
        return x._replace(slot=np.searchsorted(self.slots, x.slot))

    def outer(self, x: SparseX) -> SparseX:
        """An allocation by slots here, by those of the program."""
        return x._replace(slot=self.slots[x.slot])


@dataclass(frozen=True)
class _Point:
    """Allocation of the open requests, prices, and what these prove for the whole program."""

    x: SparseX
    y: NDArray[np.float64]
    pricing: Pricing
    certificate: Certificate


class _Undecided(Exception):
    """The open requests alone do not decide it."""


def worth_closing(program: ContinualProgram, state: State, options: Options) -> bool:
    """Whether rounds like the one that begins would cost less if requests were closed after it."""
    tuning, store = options.tuning.lazy, program.store
    if store.terms or not store.executor.local or not options.warm_start or options.inner == "cd":
        return False
    if len(program) < tuning.requests_from or store.n_variables < tuning.columns_from:
        return False
    return store.touched - state.touched <= tuning.most_touched * len(program)


def close_all(program: ContinualProgram, state: State) -> State:
    """The state with all requests closed that have a single best allocation at its prices."""
    assert state.x is not None and state.y is not None
    y = state.y.y
    closed = Closed(program, state.x, y)
    x = state.x.x
    slots = closed.opened()
    closed.close(slots, x)
    log.debug("%d of %d requests are closed", closed.requests, len(program))
    closed.settle(LastX.of(program, x.where(np.isin(x.slot, closed.opened()))))
    return State(None, state.y, state.slack, None, None, state.touched, closed)


def solve_open(
    program: ContinualProgram, state: State, options: Options, clock: Clock
) -> tuple[Solution, State] | None:
    """Solve a program by its open requests; None if all must be looked at."""
    closed = state.closed
    if closed is None or not closed.usable or closed.program is not program or not options.warm_start:
        return None
    assert state.y is not None
    tuning = options.tuning.lazy
    if program.store.terms or closed.opened().size > tuning.most_open * len(program):
        closed.drop()
        return None
    budget = Budget(options.tolerance, clock, options.iteration_limit, options.threads, options.tuning.most_piece)
    try:
        with one_blas_thread(program.store.rows.size):
            y = right_signs(program.store, state.y.surviving())
            point = _solve(program, closed, y, state.slack, options, budget)
    except _Undecided as why:
        log.debug("all columns are looked at: %s", why)
        closed.drop()
        return None
    return _answer(program, closed, state, options, budget, point)


def _solve(
    program: ContinualProgram, closed: Closed, y: NDArray[np.float64], given: float, options: Options, budget: Budget
) -> _Point:
    tuning = options.tuning.lazy
    closed.reprice(closed.move(y))
    touched = closed.touched
    closed.open(closed.nearest(min(tuning.nearest, tuning.nearest_least + tuning.nearest_each * touched)))
    x = joined(closed.known).surviving()
    known = len(closed.known)
    for turn in range(tuning.turns):
        for part in closed.known[known:]:
            x = merged(x, part.surviving())
        known = len(closed.known)
        some = _Excerpt(program, closed.opened())
        slack = given if given > 0.0 and turn < tuning.screened_turns else math.inf
        point = _certified(some, x, y, slack, closed, options, budget)
        proof = point.certificate
        met = proof.relative.primal <= options.tuning.steps.feasible * options.tolerance
        if proof.within(options.tolerance) and met:
            return point
        if budget.late() or budget.spent():
            raise _Undecided("time or iterations are over")
        if turn and some.slots.size > tuning.most_open * len(program):
            raise _Undecided("most requests are open")
        x, y = _stepped(some, point, closed, options, budget)
        expired = closed.move(y)
        opened = closed.reprice(expired)
        log.debug("    %d expired, %d opened", expired.size, opened.size)
        if not opened.size and not met:
            closed.open(closed.nearest(tuning.nearest * 4 ** turn))
    raise _Undecided("too many turns")


def _certified(
    some: _Excerpt,
    x: SparseX,
    y: NDArray[np.float64],
    slack: float,
    closed: Closed,
    options: Options,
    budget: Budget,
) -> _Point:
    """What an allocation of the open requests and prices prove for all."""
    budget.begin_pass()
    pricing = price(some.store, y, slack=slack, threads=1)
    if pricing.request_bound == math.inf or pricing.dual > 0.0 or pricing.doubtful:
        raise _Undecided("a request has no best allocation")
    proof, _ = measured_certificate(some.store, some.local(x), y, pricing, threads=1, rest=closed.rest())
    if proof.size_is is GapSize.STAKE:
        raise _Undecided("the gap is relative to the stakes of all requests")
    budget.end_pass()
    log.debug(
        "%6d iterations, %8d open of %d requests, objective %.9g, primal %.1e, gap %.1e, %.4f s",
        budget.iterations,
        some.slots.size,
        len(some.program),
        proof.objective,
        proof.relative.primal,
        proof.relative.gap,
        budget.clock(),
    )
    if options.callback is not None:
        options.callback(budget.iterations, proof)
    return _Point(x, y, pricing, proof)


def _stepped(
    some: _Excerpt, point: _Point, closed: Closed, options: Options, budget: Budget
) -> tuple[SparseX, NDArray[np.float64]]:
    """Steps on the open requests, in what the closed ones leave of the rows."""
    tuning, store, rows = options.tuning, some.store, some.store.rows
    held = Held(closed.rest().activity, rows.alive[: rows.size])
    x = some.local(point.x)
    columns = union(point.pricing.slot, point.pricing.column, x.slot, x.column)
    working = gather(store, *columns, held, tuning=tuning.working_set)
    aim = Aim(tuning.goal_share * options.tolerance, tuning.lazy.sigma, 0.0, point.certificate.size)
    found = run_steps(some, working, "newton", budget, x, point.y, aim, tuning)
    if found.ray is not None or found.violation is not None:
        raise _Undecided("the open requests cannot meet the rows")
    return some.outer(found.x), found.y


def _answer(
    program: ContinualProgram, closed: Closed, state: State, options: Options, budget: Budget, point: _Point
) -> tuple[Solution, State]:
    """The solution of a point, and the state after it, with all closed that can be."""
    before, x = joined(closed.known).marked(), point.x
    changed, entries = changes(*before, *x, CHURN_THRESHOLD)
    entries += closed.nonzeros
    closed.close(closed.opened(), x)
    slots = closed.opened()
    rest = x.where(np.isin(x.slot, slots))
    closed.settle(LastX.of(program, rest))
    solution = make_solution(
        program,
        Kept(closed.version(rest, slots), changed / entries if entries else 0.0),
        point.y,
        status=Status.OPTIMAL,
        reason="residuals and gap are within the tolerance; closed requests were not looked at",
        iterations=budget.iterations,
        timings=Timings(solve=budget.clock()),
        warm=Start(True, "last round's x and prices"),
        certificate=point.certificate,
        details={"open_requests": float(slots.size)},
    )
    left = State(None, LastY.of(program, point.y), state.slack, None, None, program.store.touched, closed)
    return solution, left
