"""Rounds with few changes: a solve reads the active requests only, and represents all others by sums.

    activate  edited requests, and some requests near their thresholds, because these determine the prices;
              requests between their columns and tied requests are active already
    certify   (x, y) of the active requests and the sums of the inactive ones: a certificate of the whole
              program, valid at prices at which no inactive request has passed its threshold
    step      proximal-point steps on the active requests, with the capacities that the inactive ones leave
    move      the prices; requests that pass their thresholds are priced again, and become active if another
              allocation is optimal now

These steps are repeated until the certificate is within the tolerance and no request became active. Then each
request with a single optimal allocation becomes inactive. If there are fixed requests, each keeps its
allocation at a known loss: the prices stay, and only the active requests change to satisfy the rows, as long
as the loss is within the tolerance. If a round cannot be solved in this way,
:mod:`copter.solvers.proximal.engines` tries the other engines, and
:class:`copter.solvers.proximal.full_pass.FullPass` gives the reason.

The proof is in :mod:`copter.solvers.proximal.inactive` and :mod:`copter.proof.margins`.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Interrupted
from copter.compile.kernels import kernel
from copter.proof.certificate import GapDenominator, measured_certificate, right_signs
from copter.proof.pricing import price
from copter.solution import CHURN_THRESHOLD, Kept, Start, Timings, make_solution
from copter.solvers.inner.gather import LeftOut, gather, union
from copter.solvers.memory import LastX, LastY, joined
from copter.solvers.proximal.accept import accept, out_of_time
from copter.solvers.proximal.full_pass import FullPass
from copter.solvers.proximal.inactive import Block, InactiveSet, KeptValues, find
from copter.solvers.proximal.inactive_index import ROUNDING, InactiveIndex
from copter.solvers.proximal.state import Iterate, State, with_starts
from copter.solvers.proximal.steps import Aim, on_rows, run_steps
from copter.store.allocation import SparseX, changes, distinct, merged, replaced, row_activity
from copter.store.local import in_this_process
from copter.store.subproblem import subproblem
from copter.store.view import cap_of

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.pricing import Pricing
    from copter.solvers.inner.working_set import WorkingSet
    from copter.solvers.proximal.run import Answer, SolveContext, SolveOptions
    from copter.solvers.proximal.tuning import LazyTuning
    from copter.store.store import ConstraintStore

log = logging.getLogger("copter")


class IndexCache:
    """Cache of the index between rounds; solutions do not depend on it.

    A copy of the cache is empty, because two solvers cannot use one index.
    """

    def __init__(self) -> None:
        self._index: InactiveIndex | None = None

    def __reduce__(self) -> tuple[type[IndexCache], tuple[()]]:
        return IndexCache, ()

    def take(self, program: ContinualProgram, inactive: InactiveSet) -> InactiveIndex:
        """Return the index of a set, from the cache if it is there, and empty the cache."""
        index, self._index = self._index, None
        if index is not None and index.inactive is inactive and index.program is program:
            return index
        return InactiveIndex(inactive, program)

    def keep(self, index: InactiveIndex) -> None:
        """Store the index of a finished round."""
        self._index = index


class _Subproblem:
    """Some requests of a program, in the form that the steps need."""

    def __init__(self, program: ContinualProgram, slots: NDArray[np.int64]) -> None:
        self.program, self.slots = program, slots
        self.store: ConstraintStore = subproblem(in_this_process(program.store), slots)

    def local(self, x: SparseX) -> SparseX:
        """Convert an allocation of these requests to the subproblem's slots."""
        return x._replace(slot=np.searchsorted(self.slots, x.slot))

    def outer(self, x: SparseX) -> SparseX:
        """Convert an allocation from the subproblem's slots to the program's."""
        return x._replace(slot=self.slots[x.slot])


class _Undecided(Exception):
    """Raised if the active requests alone cannot decide the round."""

    def __init__(self, why: FullPass) -> None:
        super().__init__(why.sentence)
        self.why = why


def is_large(program: ContinualProgram, tuning: LazyTuning) -> bool:
    """Return whether a program has enough requests for inactive ones to save time."""
    return len(program) >= tuning.requests_from and program.store.n_variables >= tuning.columns_from


def can_hold(program: ContinualProgram, options: SolveOptions) -> bool:
    """Return whether projections keep columns at their bounds, so that requests can become inactive.

    The return value must not depend on where the requests are stored, because it affects the solution.
    """
    tuning = options.tuning.lazy
    plain = options.warm_start and options.inner != "cd" and not program.store.terms
    return plain and is_large(program, tuning)


def why_none(program: ContinualProgram, state: State, options: SolveOptions) -> FullPass | None:
    """Return the reason why no request may become inactive in this solve; None if requests may."""
    tuning, store = options.tuning.lazy, program.store
    if store.terms:
        return FullPass.CONVEX_TERMS
    if not store.executor.local:
        return FullPass.REMOTE_COLUMNS
    if not options.warm_start or options.inner == "cd":
        return FullPass.SWITCHED_OFF
    if not is_large(program, tuning):
        return FullPass.SMALL_PROGRAM
    if state.wait:
        return FullPass.WAITING
    if state.revision is None:
        return FullPass.COLD_START
    return None if few_edits(program, state, options) else FullPass.MANY_EDITS


def few_edits(program: ContinualProgram, state: State, options: SolveOptions) -> bool:
    """Return whether so few requests were edited since the last solve that the others may become inactive."""
    return _edited(program, state, options.tuning.lazy.most_touched, options)


def _edited(program: ContinualProgram, state: State, most: float, options: SolveOptions) -> bool:
    """Return whether at most this share of the requests was edited since the last solve."""
    edited = None if state.revision is None else program.store.edited_since(state.revision)
    return edited is not None and edited.size <= max(options.tuning.lazy.few_edits, most * len(program))


def _many_rows(program: ContinualProgram, tuning: LazyTuning) -> float:
    """Return the number of rows, as a multiple of that of a program with few rows; at least 1."""
    return max(1.0, len(program.resource_slots) / tuning.rows)


def _own_in_many_rows(program: ContinualProgram, tuning: LazyTuning) -> bool:
    """Return whether most requests have columns of their own, and there are many rows."""
    return _many_rows(program, tuning) > 1.0 and 2 * program.store.usages.in_use > len(program)


def make_inactive(run: SolveContext, state: State) -> State:
    """Return the state after an optimum, with all possible requests inactive if there is time.

    No request becomes inactive if too many would stay active.
    """
    assert state.x is not None and state.y is not None and state.proof is not None
    program, options = run.program, run.options
    best, tuning = state.proof[1], options.tuning.lazy
    if run.budget.clock.left() < tuning.seconds_each * len(program):
        return state.without(FullPass.NO_TIME)
    store, x = program.store, state.x.x
    slots = store.live_requests()
    nothing = InactiveSet.nothing(store.clock, state.y.y.copy(), slots)
    index = InactiveIndex(nothing, program)
    index.begin(state.x, np.empty(0, np.int64), options.threads)
    fields, most = {"gap": 0.0}, tuning.most_open * len(program)
    try:
        some = slots if index.tied(slots, tuning.sample) * len(program) <= most else slots[:0]
        index.include(some)
        block = index.at_vertices(some, x)[0]
    except Interrupted:
        return state.without(FullPass.NO_TIME)
    if slots.size - block.size > most and run.may_fix:
        index.fixed, fields["gap"] = True, best.certificate.relative.gap
        index.note_violations(best.measures.local, best.measures.squares)
        block = index.as_they_are(slots, x, best.measures.loss[slots])
    log.debug("%d of %d requests are inactive", block.size, len(program))
    if slots.size - block.size > most:
        return state.without(FullPass.MANY_ACTIVE)
    inactive = index.commit(block, **fields)
    run.cache.keep(index)
    left = LastX.of(program, x.where(find(inactive.active, x.slot) >= 0))
    return State(left, state.y, state.slack, revision=store.clock, inactive=inactive, misses=state.misses)


def by_active_requests(run: SolveContext) -> Answer | None:
    """Return the answer by the active requests; None, with `run` prepared, if all columns must be read."""
    clock = run.budget.clock
    begin, found = clock(), _solved(run)
    if not isinstance(found, FullPass):
        if run.times is not None:
            run.times.solved_few(run.program, clock() - begin)
        return found
    run.why, run.state, run.budget = found, run.state.whole(), run.options.budget(clock)
    run.holds = can_hold(run.program, run.options)
    run.stay_active = why_none(run.program, run.state, run.options)
    tuning = run.options.tuning.lazy
    run.may_fix = _own_in_many_rows(run.program, tuning) and _edited(
        run.program, run.state, tuning.most_frozen, run.options
    )
    return None


def _solved(run: SolveContext) -> Answer | FullPass:
    """Return the answer by the active requests, or the reason for which all columns must be read."""
    program, state, options = run.program, run.state, run.options
    inactive, tuning, store = state.inactive, options.tuning.lazy, program.store
    if inactive is None:
        return state.full_pass
    assert state.x is not None and state.y is not None
    if state.x.program is not program:
        return FullPass.FIRST_ROUND
    if not options.warm_start or options.inner == "cd":
        return FullPass.SWITCHED_OFF
    if store.terms:
        return FullPass.CONVEX_TERMS
    edited = store.edited_since(inactive.revision)
    if edited is None or 4 * edited.size > max(64, len(program)):
        return FullPass.MANY_EDITS
    if not np.array_equal(store.rows.generation[: state.y.generations.size], state.y.generations):
        return FullPass.ROWS_REUSED
    index = run.cache.take(program, inactive)
    index.begin(state.x, edited, options.threads)
    if index.active().size > tuning.most_open * len(program):
        return FullPass.MANY_ACTIVE
    try:
        this = _Round(run, index)
        found = _answer(this, this.solve(right_signs(store, state.y.surviving())))
    except Interrupted:
        return FullPass.INTERRUPTED
    except _Undecided as undecided:
        log.debug("all columns are read: %s", undecided)
        return undecided.why
    run.cache.keep(index)
    return found


class _Round:
    """Data of one solve by active requests."""

    def __init__(self, run: SolveContext, index: InactiveIndex) -> None:
        self.run, self.index = run, index
        self.program, self.options, self.budget = run.program, run.options, run.budget
        self.slack = run.state.slack if run.state.slack > 0.0 else math.inf
        self.gap, self.gap_each = index.inactive.gap, index.inactive.gap_each
        self.failures, self.pause = index.inactive.failures, index.inactive.pause
        tuning, size = run.options.tuning.lazy, len(run.program)
        self.many = _many_rows(run.program, tuning)
        many = min(tuning.nearest * self.many, 0.5 * tuning.most_open * size)
        self.nearest = max(tuning.nearest, int(many))
        self._some: _Subproblem | None = None

    def solve(self, y: NDArray[np.float64]) -> Iterate:
        """Return a point within the tolerance, starting from the last prices y (row slots,)."""
        tuning, index, given = self.options.tuning.lazy, self.index, self.given()
        edited = index.edited
        if given.size:
            index.activate(given)
            edited = distinct(np.concatenate((edited, given)))
        if index.fixed:
            return self.at_last_prices(y, edited, given)
        point, crowded = self.begin(y, edited)
        known = len(index.known)
        for turn in range(tuning.turns):
            if self.enough(point) and (turn or not crowded):
                return point
            if self.budget.late():
                return point
            if self.budget.spent() or self.budget.iterations > tuning.iterations:
                raise _Undecided(FullPass.TOO_MUCH_WORK)
            if turn == tuning.screened_turns:
                self.slack = math.inf
            x, y = self.step(point)
            passed = index.move(y, tuning.most_expired * self.many * self.subproblem().slots.size)
            opened = 0
            if passed is None:  # too few active requests determine the prices
                log.debug("    the prices would change too much")
                x, y = point.x, point.y
            else:
                opened = index.reprice(passed).size
                log.debug("    %d passed their thresholds, %d became active", passed.size, opened)
                if not opened:
                    point = self.certify(x, y)
                    if self.enough(point):
                        return point
            if not opened:
                index.activate(index.nearest(self.nearest * 2**turn))
            for part in index.known[known:]:
                x = merged(x, part.surviving())
            known = len(index.known)
            point = self.certify(x, y)
        raise _Undecided(FullPass.TOO_MUCH_WORK)

    def given(self) -> NDArray[np.int64]:
        """Return the ascending slots of the requests that have a given initial allocation."""
        sizes = self.program.store.requests.n_columns
        return np.array([slot for slot in sorted(self.run.starts) if sizes[slot]], np.int64)

    def begin(self, y: NDArray[np.float64], edited: NDArray[np.int64]) -> tuple[Iterate, bool]:
        """Return the point at the last prices, and whether enough requests are active to need steps."""
        tuning, index = self.options.tuning.lazy, self.index
        passed = index.move(y, tuning.most_open * len(self.program))
        if passed is None:
            raise _Undecided(FullPass.PRICES_MOVED)
        index.reprice(passed)
        rows = self.rows_edited()
        if not edited.size and not passed.size and not rows.size:
            point = self.certify(joined(index.known).surviving(), y)
            if self.enough(point):
                return point, False  # nothing changed, so the last solution still holds
        between = index.active().size - edited.size
        crowded = between > tuning.between + 2 * edited.size + 3 * len(self.program.resource_slots)
        more = max(0, tuning.nearest_least - between) + tuning.nearest_each * edited.size
        more, moving = min(self.nearest, more), self.moving(rows, y)
        if moving > tuning.most_open * len(self.program):
            raise _Undecided(FullPass.CAPACITIES_MOVED)
        crowded |= moving > between
        index.activate(index.nearest(more + int(moving)))
        x = joined(index.known).surviving()
        x = replaced(x, edited, index.best(edited)[1])
        x = with_starts(x, self.run.starts, self.program.store.requests.n_columns)
        return self.certify(x, y) if crowded else self.first(x, y, edited.size), crowded

    def rows_edited(self) -> NDArray[np.int64]:
        """Return the slots of the rows that were edited since the last round, (k,) ndarray."""
        rows = self.program.store.rows
        return np.flatnonzero(
            rows.alive[: rows.size] & (rows.stamp[: rows.size] > self.index.inactive.revision)
        )

    def moving(self, edited: NDArray[np.int64], y: NDArray[np.float64]) -> float:
        """Estimate how many inactive requests must become active for rows whose bounds were edited.

        For each row: the number of typical requests that use as much of the row as its violation, or as its
        slack if it has a price, times ``tuning.moving``.
        """
        if not edited.size:
            return 0.0
        index, rows, rest = self.index, self.program.store.rows, self.index.rest()
        x = joined(index.known).surviving()
        some = self.subproblem()
        used = (rest.activity + row_activity(some.store, some.local(x)))[edited]
        lower, upper, y = rows.lower[edited], rows.upper[edited], y[edited]
        off = np.maximum(used - upper, lower - used)
        left = np.where(y > 0.0, upper - used, np.where(y < 0.0, used - lower, 0.0))
        each = rest.weight[edited] / max(index.requests, 1)
        needed = np.maximum(off, left)
        needed = np.where(needed > 0.0, needed / np.where(each > 0.0, each, np.inf), 0.0)
        return self.options.tuning.lazy.moving * float(needed.sum())

    def at_last_prices(
        self, y: NDArray[np.float64], edited: NDArray[np.int64], given: NDArray[np.int64]
    ) -> Iterate:
        """Return the point in which only active requests have changed, at the last prices."""
        index, options = self.index, self.options
        if not np.array_equal(index.y, y):
            raise _Undecided(FullPass.PRICES_MOVED)
        if self.gap + self.gap_each * edited.size > options.tolerance:
            raise _Undecided(FullPass.TOO_LOSSY)
        x = joined(index.known).surviving()
        point = self.certify(with_starts(x, self.run.starts, self.program.store.requests.n_columns), y)
        little = options.tuning.lazy.little_lost * options.tolerance * point.certificate.gap_denominator
        active = index.active()
        poor = active[(point.measures.loss > little) & (find(given, active) < 0)]
        if poor.size:
            point = self.certify(replaced(point.x, poor, index.best(poor)[1]), y)
        if not self.met(point):
            point = self.on_rows(point.x, y, point.pricing, full=False)
        self.expect(point, edited.size)
        if not self.enough(point) and not self.budget.late():
            raise _Undecided(FullPass.TOO_LOSSY)
        return point

    def on_rows(self, x: SparseX, y: NDArray[np.float64], pricing: Pricing, *, full: bool) -> Iterate:
        """Return the nearest point to x that satisfies the rows; if `full`, priced rows are equalities."""
        some, tuning = self.subproblem(), self.options.tuning
        working = self.working(some, x, pricing)
        hold = tuning.lazy.hold
        here = on_rows(working, some.local(x), y, hold, self.budget, tuning, full=full)
        return self.certify(self.at_bounds(some.outer(here)), y, pricing)

    def at_bounds(self, x: SparseX) -> SparseX:
        """Return x with values within a rounding error of a bound set to the bound."""
        return x._replace(value=_at_bounds(self.index.view, *x))

    def expect(self, point: Iterate, edited: int) -> None:
        """Update the expected increase of the gap for each edited request, if prices do not change."""
        more = max(point.certificate.relative.gap - self.gap, 0.0) / max(edited, 1)
        self.gap_each = 0.5 * (self.gap_each + more)

    def subproblem(self) -> _Subproblem:
        """Return the subproblem of the active requests."""
        slots = self.index.active()
        if self._some is None or self._some.slots is not slots:
            if slots.size > self.options.tuning.lazy.most_open * len(self.program):
                raise _Undecided(FullPass.MANY_ACTIVE)
            self._some = _Subproblem(self.program, slots)
        return self._some

    def met(self, point: Iterate) -> bool:
        """Return whether a point satisfies the rows closely enough."""
        options = self.options
        return point.certificate.relative.primal <= options.tuning.steps.feasible * options.tolerance

    def enough(self, point: Iterate) -> bool:
        """Return whether a point is within the tolerance and satisfies the rows."""
        return point.certificate.within(self.options.tolerance) and self.met(point)

    def price(self, some: _Subproblem, y: NDArray[np.float64]) -> Pricing:
        """Price the active requests."""
        pricing = price(some.store, y, slack=self.slack, threads=1)
        if pricing.request_bound == math.inf:
            raise _Undecided(FullPass.NO_BEST)
        return pricing

    def working(self, some: _Subproblem, x: SparseX, pricing: Pricing) -> WorkingSet:
        """Return the active requests as a working set, with the capacities that the others leave."""
        rows, x = some.store.rows, some.local(x)
        held = LeftOut(self.index.rest().activity, rows.alive[: rows.size])
        columns = union(pricing.slot, pricing.column, x.slot, x.column)
        return gather(some.store, *columns, held, tuning=self.options.tuning.working_set)

    def first(self, x: SparseX, y: NDArray[np.float64], edited: int) -> Iterate:
        """Return the point at the last prices; projected onto the rows if that is expected to suffice."""
        if self.pause or self.gap + self.gap_each * edited > self.options.tolerance:
            self.pause = max(0, self.pause - 1)
            return self.certify(x, y)
        point = self.on_rows(x, y, self.price(self.subproblem(), y), full=True)
        if self.enough(point):
            self.failures = 0
            self.expect(point, edited)
        else:
            self.failures += 1
            self.pause = min(2**self.failures, self.options.tuning.lazy.longest_pause) - 2
        return point

    def certify(self, x: SparseX, y: NDArray[np.float64], pricing: Pricing | None = None) -> Iterate:
        """Return the certificate of the whole program for the active requests' allocation and prices."""
        some, rest = self.subproblem(), self.index.rest()
        self.budget.begin_pass()
        pricing = pricing or self.price(some, y)
        proof, found = measured_certificate(some.store, some.local(x), y, pricing, threads=1, rest=rest)
        if proof.gap_denominator_kind is GapDenominator.COST_RANGE:
            raise _Undecided(FullPass.NO_COST_RANGE)
        self.run.certified(proof, some.slots.size, len(self.program), "requests")
        return Iterate(x, y, pricing, proof, found)

    def step(self, point: Iterate) -> tuple[SparseX, NDArray[np.float64]]:
        """Take proximal-point steps on the active requests."""
        options, some = self.options, self.subproblem()
        tuning = options.tuning
        working = self.working(some, point.x, point.pricing)
        sigma = max(tuning.lazy.sigma, len(self.program) / max(1, len(self.program.resource_slots)))
        aim = Aim(tuning.goal_share * options.tolerance, sigma, 0.0, point.certificate.gap_denominator)
        x = some.local(point.x)
        found = run_steps(some.store, working, "newton", self.budget, x, point.y, aim, tuning, hold=True)
        if found.violation is not None:
            raise _Undecided(FullPass.ROWS_NOT_MET)
        return self.at_bounds(some.outer(found.x)), found.y

    def leave(self, point: Iterate) -> tuple[Iterate, Block]:
        """Return the point, with exact values of vertices, and the requests that become inactive."""
        index, active = self.index, self.index.active()
        if index.fixed:
            index.note_violations(point.measures.local, point.measures.squares)
            return point, index.as_they_are(active, point.x, point.measures.loss)
        block, exact = index.at_vertices(active, point.x)
        if not exact:
            snapped = self.certify(replaced(point.x, block.slots, block.x()), point.y, point.pricing)
            if self.enough(point) and not self.enough(snapped):  # the rounding error was decisive
                return point, Block.active(active[:0])
            point = snapped
        return point, block


@kernel(allocates=True)
def _at_bounds(view, slot, column, value):  # type: ignore[no-untyped-def]
    """Return the values, with those within a rounding error of a column's bound or total set to it."""
    exact = value.copy()
    for k in range(slot.size):
        q = slot[k]
        cap = min(cap_of(view, q, column[k]), view.total[q])
        if cap < np.inf and abs(value[k] - cap) <= ROUNDING * cap:
            exact[k] = cap
    return exact


def _answer(this: _Round, point: Iterate) -> Answer:
    """Return the solution of a point, and the state after it, with all possible requests inactive."""
    run, program, index = this.run, this.program, this.index
    store, before = program.store, joined(index.known).marked()
    with run.budget.clock.patient():  # the point is an answer already
        point, block = this.leave(point)
    x, others = point.x, index.nonzeros
    changed, entries = changes(*before, *x, CHURN_THRESHOLD)
    entries += others
    gap = point.certificate.relative.gap
    numbers = {"gap": gap, "gap_each": this.gap_each, "failures": this.failures, "pause": this.pause}
    inactive = index.commit(block, rounds=index.inactive.rounds + 1, **numbers)
    rest = x.where(find(inactive.active, x.slot) >= 0)
    values = KeptValues(
        inactive, rest, store.requests.n_columns[inactive.active], index.nonzeros + rest.value.size
    )
    end = accept(run, point) or out_of_time(run)
    solution = make_solution(
        program,
        Kept(values, changed / entries if entries else 0.0),
        point.y,
        status=end.status,
        reason=end.reason,
        iterations=run.budget.iterations,
        timings=Timings(solve=run.budget.clock()),
        warm=Start(True, "last round's x and prices"),
        certificate=point.certificate,
        details={"open_requests": float(inactive.active.size)},
    )
    y, left = LastY.of(program, point.y), LastX.of(program, rest)
    misses, slack = run.state.misses, run.state.slack
    return solution, State(left, y, slack, revision=store.clock, inactive=inactive, misses=misses)
