"""Rounds that cost what changed: a solve that looks at open requests only, the closed ones kept in sums.

    open      what was edited, what is fractional or tied, and some that are near their expiry, for these hold
              the prices
    certify   (x, y) of the open requests and the sums of the closed ones: a proof for the whole program, at
              prices at which nobody's expiry has come
    step      proximal-point steps on the open requests, in what the closed ones leave of the rows
    move      the prices; who expires is priced anew, and opened if something else is the best now

until the certificate is within the tolerance and nobody was opened.  Then what has a single best allocation
is closed.  Where requests are frozen only those that were edited move, to meet the rows at the last prices,
for as long as what that loses is within the tolerance.  What this cannot decide,
:mod:`copter.solvers.proximal.loop` does with all columns.

See :mod:`copter.solvers.proximal.closed` and :mod:`copter.proof.margins` for why this is exact.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Interrupted
from copter.proof.certificate import Certificate, GapSize, measured_certificate, right_signs
from copter.proof.pricing import price
from copter.solution import CHURN_THRESHOLD, Kept, Solution, Start, Status, Timings, make_solution
from copter.solvers.blas import one_blas_thread
from copter.solvers.inner.gather import Held, gather, union
from copter.solvers.memory import LastX, LastY, joined
from copter.solvers.proximal.audit import audit
from copter.solvers.proximal.closed import Closed
from copter.solvers.proximal.state import Budget, State
from copter.solvers.proximal.steps import Aim, on_rows, run_steps
from copter.store.allocation import SparseX, changes, merged, replaced
from copter.store.excerpt import excerpt

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram
    from copter.proof.measure import Measures
    from copter.proof.pricing import Pricing
    from copter.solvers.inner.working_set import WorkingSet
    from copter.solvers.proximal.run import Options
    from copter.solvers.proximal.tuning import LazyTuning
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
    measures: Measures


class _Undecided(Exception):
    """The open requests alone do not decide it."""


def is_large(program: ContinualProgram, tuning: LazyTuning) -> bool:
    """Whether a program has so many requests that a pass over all of them is worth to be saved."""
    return len(program) >= tuning.requests_from and program.store.n_variables >= tuning.columns_from


def can_hold(program: ContinualProgram, options: Options) -> bool:
    """Whether columns are held at their bounds while rows are met, for requests to be closed some day.

    It does not matter where the requests are: answers hang on it.
    """
    tuning = options.tuning.lazy
    plain = options.warm_start and options.inner != "cd" and not program.store.terms
    return plain and is_large(program, tuning) and len(program.resource_slots) <= tuning.rows_for_own


def worth_closing(program: ContinualProgram, state: State, options: Options) -> bool:
    """Whether rounds like the one that begins would cost less if requests were closed after it."""
    tuning, store = options.tuning.lazy, program.store
    if store.terms or not store.executor.local or not options.warm_start or options.inner == "cd":
        return False
    if state.wait or not is_large(program, tuning):
        return False
    most = tuning.most_frozen if _is_network(program, tuning) else tuning.most_touched
    return store.touched - state.touched <= most * len(program)


def _is_network(program: ContinualProgram, tuning: LazyTuning) -> bool:
    """Whether columns are each request's own and rows are many: a price that moves concerns all of them."""
    many = len(program.resource_slots) > tuning.rows_for_own
    return many and 2 * program.store.usages.in_use > len(program)


def close_all(program: ContinualProgram, state: State, clock: Clock, options: Options) -> State:
    """The state with all requests closed that can be, if there is time."""
    assert state.x is not None and state.y is not None and state.proof is not None
    best = state.proof[1]
    if clock.left() < options.tuning.lazy.seconds_each * len(program):
        return state
    if best.pricing.dual > 0.0 or best.pricing.doubtful:  # a request has no best allocation
        return state
    y = state.y.y
    closed = Closed(program, state.x, y)
    x = state.x.x
    slots = closed.opened()
    if _is_network(program, options.tuning.lazy):
        closed.freeze(slots, x, best.measures._replace(loss=best.measures.loss[slots]))
        closed.gap = best.certificate.relative.gap
    else:
        closed.close(slots, x)
    log.debug("%d of %d requests are closed", closed.requests, len(program))
    if closed.opened().size > options.tuning.lazy.most_open * len(program):
        closed.drop()
        return state
    closed.settle(LastX.of(program, x.where(np.isin(x.slot, closed.opened()))))
    return State(None, state.y, state.slack, None, None, state.touched, closed, state.misses)


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
    budget = Budget(
        options.tolerance, clock, options.iteration_limit, options.threads, options.tuning.most_piece
    )
    try:
        with one_blas_thread(program.store.rows.size):
            y = right_signs(program.store, state.y.surviving())
            this = _Round(program, closed, state.slack, options, budget)
            point = this.run(y)
        return _answer(this, state, point)
    except (_Undecided, Interrupted) as why:
        log.debug("all columns are looked at: %s", why)
        closed.drop()
        return None
    except BaseException:
        closed.break_off()
        raise


class _Round:
    """What the parts of one solve share."""

    def __init__(
        self, program: ContinualProgram, closed: Closed, slack: float, options: Options, budget: Budget
    ) -> None:
        self.program, self.closed, self.options, self.budget = program, closed, options, budget
        self.slack = slack if slack > 0.0 else math.inf
        self._some: _Excerpt | None = None

    def run(self, y: NDArray[np.float64]) -> _Point:
        """The point that is good enough, from the last one.

        Parameters
        ----------
        y : (row slots,) ndarray
            Last prices of the rows that there are.
        """
        tuning, closed = self.options.tuning.lazy, self.closed
        if closed.frozen:
            return self.at_last_prices(y)
        expired = closed.move(y)
        assert expired is not None  # there is no limit
        closed.reprice(expired)
        edited = closed.edited()
        between = closed.opened().size - edited.size
        crowded = between > tuning.between + 2 * edited.size
        more = max(0, tuning.nearest_least - between) + tuning.nearest_each * edited.size
        closed.open(closed.nearest(min(tuning.nearest, more)))
        x, known = joined(closed.known).surviving(), len(closed.known)
        x = replaced(x, edited, closed.best(edited)[1])
        point = self.certify(x, y) if crowded else self.first(x, y, edited.size)
        for turn in range(tuning.turns):
            if self.enough(point) and (turn or not crowded):
                return point
            if self.budget.late():
                return point
            if self.budget.spent() or self.budget.iterations > tuning.iterations:
                raise _Undecided("steps on the open requests take too long")
            if turn == tuning.screened_turns:
                self.slack = math.inf
            x, y = self.step(point)
            expired = closed.move(y, tuning.most_expired * self.excerpt().slots.size)
            opened = 0
            if expired is None:  # too few hold the prices
                log.debug("    prices would go too far")
                x, y = point.x, point.y
            else:
                opened = closed.reprice(expired).size
                log.debug("    %d expired, %d opened", expired.size, opened)
                if not opened:
                    point = self.certify(x, y)
                    if self.enough(point):
                        return point
            if not opened:
                closed.open(closed.nearest(tuning.nearest * 2**turn))
            for part in closed.known[known:]:
                x = merged(x, part.surviving())
            known = len(closed.known)
            point = self.certify(x, y)
        raise _Undecided("too many turns")

    def at_last_prices(self, y: NDArray[np.float64]) -> _Point:
        """The point at which only open requests have moved."""
        closed, options = self.closed, self.options
        opened, edited = closed.opened(), closed.edited().size
        if not closed.stays_at(y):
            raise _Undecided("prices cannot stay")
        if closed.gap + closed.gap_each * edited > options.tolerance:
            raise _Undecided("it would lose too much")
        point = self.certify(joined(closed.known).surviving(), y)
        little = options.tuning.lazy.little_lost * options.tolerance * point.certificate.size
        poor = opened[point.measures.loss > little]
        if poor.size:
            point = self.certify(replaced(point.x, poor, closed.best(poor)[1]), y)
        if not self.met(point):
            point = self.on_rows(point.x, y, point.pricing, full=False)
        self.expect(point, edited)
        if not self.enough(point) and not self.budget.late():
            raise _Undecided("the last prices do not do")
        return point

    def on_rows(self, x: SparseX, y: NDArray[np.float64], pricing: Pricing, *, full: bool) -> _Point:
        """The point next to x that meets the rows, those with a price to the full if told."""
        some, tuning = self.excerpt(), self.options.tuning
        working = self.working(some, x, pricing)
        hold = tuning.lazy.hold
        here = on_rows(some.store, working, some.local(x), y, hold, self.budget, tuning, full=full)
        return self.certify(some.outer(here), y, pricing)

    def expect(self, point: _Point, edited: int) -> None:
        """Learn what each edited request adds to the gap if prices stay."""
        closed = self.closed
        more = max(point.certificate.relative.gap - closed.gap, 0.0) / max(edited, 1)
        closed.gap_each = 0.5 * (closed.gap_each + more)

    def excerpt(self) -> _Excerpt:
        """The open requests."""
        slots = self.closed.opened()
        if self._some is None or self._some.slots is not slots:
            if slots.size > self.options.tuning.lazy.most_open * len(self.program):
                raise _Undecided("most requests are open")
            self._some = _Excerpt(self.program, slots)
        return self._some

    def met(self, point: _Point) -> bool:
        """Whether an allocation meets the rows closely enough."""
        options = self.options
        return point.certificate.relative.primal <= options.tuning.steps.feasible * options.tolerance

    def enough(self, point: _Point) -> bool:
        """Whether a point is what is asked for."""
        return point.certificate.within(self.options.tolerance) and self.met(point)

    def price(self, some: _Excerpt, y: NDArray[np.float64]) -> Pricing:
        """A pass over the open requests."""
        pricing = price(some.store, y, slack=self.slack, threads=1)
        if pricing.request_bound == math.inf or pricing.dual > 0.0 or pricing.doubtful:
            raise _Undecided("a request has no best allocation")
        return pricing

    def working(self, some: _Excerpt, x: SparseX, pricing: Pricing) -> WorkingSet:
        """The open requests on what the closed ones leave of the rows."""
        rows, x = some.store.rows, some.local(x)
        held = Held(self.closed.rest().activity, rows.alive[: rows.size])
        columns = union(pricing.slot, pricing.column, x.slot, x.column)
        return gather(some.store, *columns, held, tuning=self.options.tuning.working_set)

    def first(self, x: SparseX, y: NDArray[np.float64], edited: int) -> _Point:
        """The point at the last prices; the rows are met there, if few edits let that be enough."""
        closed = self.closed
        if closed.pause or closed.gap + closed.gap_each * edited > self.options.tolerance:
            closed.pause = max(0, closed.pause - 1)
            return self.certify(x, y)
        point = self.on_rows(x, y, self.price(self.excerpt(), y), full=True)
        if self.enough(point):
            closed.failures = 0
            self.expect(point, edited)
        else:
            closed.failures += 1
            closed.pause = min(2**closed.failures, self.options.tuning.lazy.longest_pause) - 2
        return point

    def certify(self, x: SparseX, y: NDArray[np.float64], pricing: Pricing | None = None) -> _Point:
        """What an allocation of the open requests and prices prove for all."""
        budget, options, some = self.budget, self.options, self.excerpt()
        budget.begin_pass()
        pricing = pricing or self.price(some, y)
        rest = self.closed.rest()
        proof, found = measured_certificate(some.store, some.local(x), y, pricing, threads=1, rest=rest)
        if proof.size_is is GapSize.STAKE:
            raise _Undecided("the gap is relative to the stakes of all requests")
        budget.end_pass()
        log.debug(
            "%6d iterations, %8d open of %d requests, objective %.9g, primal %.1e, gap %.1e, %.4f s",
            budget.iterations,
            some.slots.size,
            len(self.program),
            proof.objective,
            proof.relative.primal,
            proof.relative.gap,
            budget.clock(),
        )
        if options.callback is not None:
            options.callback(budget.iterations, proof)
        return _Point(x, y, pricing, proof, found)

    def step(self, point: _Point) -> tuple[SparseX, NDArray[np.float64]]:
        """Proximal-point steps on the open requests."""
        options, some = self.options, self.excerpt()
        tuning = options.tuning
        working = self.working(some, point.x, point.pricing)
        sigma = max(tuning.lazy.sigma, tuning.lazy.sigma_each * len(self.program))
        aim = Aim(tuning.goal_share * options.tolerance, sigma, 0.0, point.certificate.size)
        x = some.local(point.x)
        found = run_steps(some.store, working, "newton", self.budget, x, point.y, aim, tuning, hold=True)
        if found.violation is not None:
            raise _Undecided("the open requests cannot meet the rows")
        return some.outer(found.x), found.y


def _answer(this: _Round, state: State, point: _Point) -> tuple[Solution, State]:
    """The solution of a point, and the state after it, with all closed that can be."""
    program, closed, x = this.program, this.closed, point.x
    changed, entries = changes(*joined(closed.known).marked(), *x, CHURN_THRESHOLD)
    entries += closed.nonzeros
    closed.gap = point.certificate.relative.gap
    if closed.frozen:
        closed.freeze(closed.opened(), x, point.measures)
    else:
        closed.close(closed.opened(), x)
    slots = closed.opened()
    rest = x.where(np.isin(x.slot, slots))
    closed.settle(LastX.of(program, rest))
    status, reason, clock = Status.OPTIMAL, "residuals and gap are within the tolerance", this.budget.clock
    if not this.enough(point):
        status, reason = Status.CANCELLED if clock.cancelled else Status.DEADLINE, clock.why()
    solution = make_solution(
        program,
        Kept(closed.version(rest, slots), changed / entries if entries else 0.0),
        point.y,
        status=status,
        reason=reason,
        iterations=this.budget.iterations,
        timings=Timings(solve=clock()),
        warm=Start(True, "last round's x and prices"),
        certificate=point.certificate,
        details={"open_requests": float(slots.size)},
    )
    closed.rounds += 1
    every = this.options.audit
    if every and closed.rounds % every == 0:
        proof, threads = point.certificate, this.options.threads
        audit(program, closed, solution.nonzeros, point.y, proof, x.slot.size, threads)
    y, touched = LastY.of(program, point.y), program.store.touched
    return solution, State(None, y, state.slack, None, None, touched, closed, state.misses)
