"""One solve of the proximal-point solver: where it begins, and its loop over columns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.errors import CopterError
from copter.kernels import compile_seconds
from copter.proof.certificate import Certificate, GapSize
from copter.proof.pricing import Pricing
from copter.proof.rays import farkas_ray, primal_ray
from copter.proof.units import announce_stakes
from copter.solution import UNKNOWN, Ray, Solution, Status, Timings, make_solution
from copter.solvers.inner.gather import announce_lightest, gather
from copter.solvers.memory import churn_base
from copter.solvers.proximal.answer import Answer
from copter.solvers.proximal.budget import Budget
from copter.solvers.proximal.closed import revalued
from copter.solvers.proximal.finish import HandOver
from copter.solvers.proximal.partial import PartialSteps
from copter.solvers.proximal.rational import solve_in_rationals
from copter.solvers.proximal.sample import Sampled, sampled_prices
from copter.solvers.proximal.screening import ColumnSet, Screening
from copter.solvers.proximal.start import State, begin
from copter.solvers.proximal.steps import Aim, StepsResult, run_steps
from copter.store.allocation import NOTHING, SparseX, dense_to_sparse

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.inner.working_set import WorkingSet
    from copter.solvers.proximal.inner import Method
    from copter.solvers.proximal.tuning import ProximalTuning
    from copter.store.edit import Starts

log = logging.getLogger("copter")


@dataclass(frozen=True)
class Options:
    """How a program is solved; see :class:`copter.solvers.proximal.solver.ProximalPoint`."""

    tolerance: float
    inner: Literal["auto", "cd", "newton"]
    iteration_limit: int
    warm_start: bool
    hand_over: bool
    callback: Callable[[int, Certificate], None] | None
    threads: int | None
    tuning: ProximalTuning


class Run:
    """One solve: rounds of steps on some columns, and passes over all that certify and find more columns.

    Parameters
    ----------
    state : State, optional
        What the solver kept of its last round.

    Attributes
    ----------
    best : Answer or None
        The best answer so far; after :meth:`solve` the one that was returned.
    slack : float
        Of screening, for the next round.
    """

    def __init__(
        self,
        options: Options,
        program: ContinualProgram,
        clock: Clock,
        starts: Starts,
        state: State | None,
    ) -> None:
        self.options, self.program, self.store, self.clock = options, program, program.store, clock
        self.tuning = tuning = options.tuning
        self.budget = Budget(
            options.tolerance, clock, options.iteration_limit, options.threads, tuning.most_piece
        )
        self.best: Answer | None = None
        self._compiled, self._state = compile_seconds(), None if starts else state
        self._mend = program.mend  # None once it failed
        self.screening = Screening(self.store, options.threads, tuning)
        self.hand_over = HandOver(program, self.budget, tuning.hand_over, options.hand_over)
        self._exact = False  # whether rational numbers were tried
        self._churn_base = churn_base(None if state is None else state.answer, program)
        self.beginning = begin(program, starts, state, warm=options.warm_start)
        self.screening.slack = self.beginning.slack

    @property
    def slack(self) -> float:
        """How much more than the best a column may cost that a pass collects."""
        return self.screening.slack

    def solve(self) -> Solution:
        """Solve until the clock is over: then the best answer is that of the best pass that was completed."""
        try:
            return self._unchanged() or self._rounds()
        except Interrupted:
            return self._over()

    def _unchanged(self) -> Solution | None:
        """Last round's answer, if the program was not edited since and it is good enough."""
        state = self._state
        if not self.beginning.warm or state is None or state.proof is None:
            return None
        clock, last = state.proof
        if clock != self.store.clock or not last.certificate.within(self.budget.tolerance):
            return None
        if self.options.callback is not None:
            self.options.callback(0, last.certificate)
        return self._solution(Status.OPTIMAL, "nothing changed since the last answer, which is optimal", last)

    def _rounds(self) -> Solution:
        """First prices and a first pass; steps on some requests where there are many; then on columns."""
        begin = self.beginning
        announce_lightest(self.store)
        announce_stakes(self.store)
        now, flow, known = None, None, begin.warm
        priced = bool(begin.y.any()) or bool(self.store.terms)
        if priced or begin.warm:  # whatever the deadline, a warm answer is at least what there was
            here = begin.warm and self.store.parts == 1  # elsewhere somebody may hang
            with self.clock.patient() if here else nullcontext():
                now = self._look(begin.centre, begin.y)
        if not priced:
            sampled = self._sampled(begin.centre, begin.y)
            flow, known = sampled.flow, known or sampled.y is not begin.y
            if now is None or sampled.y is not begin.y:
                now = self._look(begin.centre, sampled.y)
        assert now is not None
        first = self.tuning.steps.warm_sigma if known else self.tuning.steps.cold_sigma
        done = self._done_at_once(now)
        if done is None and self._by_parts(now.pricing):
            now, done = self._partial_rounds(now, flow)
            first = self.tuning.partial.first_sigma  # what is left is little
        return self._column_rounds(now, first) if done is None else done

    def _done_at_once(self, now: Answer) -> Solution | None:
        """What a first pass may show already."""
        if now.pricing.request_bound == np.inf:
            ray = farkas_ray(self.program, np.zeros_like(now.y), self.options.threads)
            reason = "the bounds and the sum row of a request leave no allocation of finite cost"
            return self._solution(Status.INFEASIBLE, reason, now, ray)
        met = now.certificate.relative.primal <= self.tuning.steps.feasible * self.budget.tolerance
        if self.beginning.warm and met:
            return self._optimal(now, "the point of the warm start is optimal")
        return None

    def _optimal(self, now: Answer, reason: str) -> Solution | None:
        """The solution if an answer is optimal, at prices next to its own if need be; else None."""
        tolerance = self.budget.tolerance
        if now.certificate.nearly(tolerance):
            now = now.proved(self.store, self.options.threads)
            self._keep(now)
        if not now.certificate.within(tolerance):
            return None
        primal = now.certificate.relative.primal
        if primal > self.tuning.steps.feasible * tolerance and self.hand_over.can():
            return None  # no point next to it meets the rows: what they are off by may be what decides
        if primal > 0.0:  # more than rounding: of a tiny program it can be known whether rows can be met
            exactly = self._in_rationals()
            if exactly is not None:
                return exactly
        if self.hand_over.gave_up and primal > self.tuning.hand_over.met:
            return None
        return self._solution(Status.OPTIMAL, reason, now)

    def _by_parts(self, pricing: Pricing) -> bool:
        """Whether there are so many columns or requests, and rows, that at first only some requests move."""
        tuning = self.tuning.partial
        if len(self.program.resource_slots) < tuning.rows_from:
            return False
        many = pricing.slot.size > tuning.columns_from or len(self.program) > tuning.requests_from
        return many and self.options.inner != "cd" and not self.store.terms

    def _partial_rounds(
        self, now: Answer, flow: NDArray[np.float64] | None
    ) -> tuple[Answer, Solution | None]:
        """Rounds in which only some of the requests move, until that is the end or leads no further."""
        partial = PartialSteps(self.program, self.budget, self.tuning, flow)
        if self.beginning.warm:
            now, done = self._revalued(now)
            if done is not None:
                return now, done
            # changes that move prices far show in those of a sample, and cheaply
            worth = now.certificate.near_gap <= self.tuning.partial.hopeless
            start = (now.x, now.y) if worth else (NOTHING, np.zeros_like(now.y))
            there = self._look(now.x, self._sampled(*start).y)
            log.debug(
                "sample bound %.8g, before %.8g, objective %.8g",
                there.certificate.near_bound,
                now.certificate.near_bound,
                now.certificate.objective,
            )
            now = there if there.certificate.near_bound > now.certificate.near_bound else now
        while not self.budget.spent():
            moved = partial.step(now)
            if moved is None:
                break
            last, now = now, self._look(moved.x, moved.y, moved.columns)
            if (
                now.certificate.near_bound < last.certificate.near_bound
            ):  # what moves is too little to know the prices
                now = self._at_prices_of(last, now.x)
            done = self._done(self._mended(now))
            if done is not None:
                return now, done
            if self._mend is None:
                partial.meet_rows()
        return now, None

    def _revalued(self, now: Answer) -> tuple[Answer, Solution | None]:
        """The answer with new prices for rows that were closed or opened; the solution if that is it."""
        y = revalued(self.store, now)
        if y is now.y:
            return now, None
        there = self._look(now.x, y)
        if there.certificate.near_bound <= now.certificate.near_bound:
            return now, None
        return there, self._done(self._mended(there))

    def _mended(self, now: Answer) -> Answer:
        """What the program itself makes of an answer, if that is better; else the answer."""
        if self._mend is None:
            return now
        try:
            x = self._mend(self.program, now.x, now.y)
            fault = x.fault(self.store.requests.n_columns[: self.store.requests.size])
            if fault:
                raise CopterError(f"it returned no allocation: {fault}")
        except Interrupted:
            raise
        except CopterError as error:
            log.warning("the program's mend is left out of this solve: %s", error)
            self._mend = None
            return now
        there = Answer.of(self.store, x, now.y, now.pricing, self.options.threads)
        self._keep(there)
        relative = there.certificate.relative
        log.debug("   mended: gap %.1e, primal %.1e", relative.gap, relative.primal)
        return there if there.better_than(now) else now

    def _at_prices_of(self, last: Answer, x: SparseX) -> Answer:
        """Certify an allocation with the prices, and the pass, of an earlier answer."""
        now = Answer.of(self.store, x, last.y, last.pricing, self.options.threads)
        self._keep(now)
        proof = now.certificate
        log.debug(
            "   gap with the last prices %.1e primal %.1e bound %.8g",
            proof.relative.gap,
            proof.relative.primal,
            proof.bound,
        )
        return now

    def _column_rounds(self, now: Answer, first: float) -> Solution:
        """Steps on a set of columns, and passes that price in what it lacks, until that is the end."""
        columns = ColumnSet(self.screening, now.pricing, now.x)
        sigma, idle = 0.0, 0
        while not self.budget.spent():
            working = gather(self.store, columns.slot, columns.column, tuning=self.tuning.working_set)
            steps = self.hand_over.finish(working, idle, now.certificate.size)
            by_highs = steps is not None
            if steps is None:
                steps = self._steps(working, now, first, sigma, idle)
            before = now.worth if self.best is None else self.best.worth
            now = self._look(steps.x, steps.y, working.column.size)
            done = self._done(now, steps.ray, ", by HiGHS" if by_highs else "")
            if done is None and (by_highs or self.hand_over.gave_up):
                done = self._in_rationals()
            if done is not None:
                return done
            # steps were short for want of the columns that would lessen a violation
            sigma = steps.sigma if steps.violation is None else 0.0
            grown = columns.extend(now.pricing, now.x, steps.violation)
            idle = 0 if grown or now.worth < 0.5 * before else idle + 1
            if idle == self.tuning.idle_rounds:
                return self._stuck()
        return self._solution(Status.ITERATION_LIMIT, "iteration limit reached", self.best)

    def _steps(self, working: WorkingSet, now: Answer, first: float, sigma: float, idle: int) -> StepsResult:
        """Proximal-point steps from an answer, no closer than the columns that are left out allow."""
        tuning, size = self.tuning, now.certificate.size
        descend = self.options.inner == "auto" and idle >= tuning.switch_rounds
        goal = tuning.goal_share * self.budget.tolerance
        whole = working.column.size == self.store.n_variables
        if not (whole or self.store.terms):  # columns that are left out ask for other prices anyway
            goal = max(goal, tuning.gap_share * min(now.certificate.near_gap, 1.0))
        method: Method = "cd" if descend else self._method()
        proof = now.certificate
        floored = whole or proof.size_is is not GapSize.OBJECTIVE
        aim = Aim(goal, first, sigma, size if floored else 0.0)
        return run_steps(self.program, working, method, self.budget, now.x, now.y, aim, tuning)

    def _method(self) -> Method:
        """The inner solver to begin with."""
        return "cd" if self.options.inner == "cd" else "newton"

    def _sampled(self, x: SparseX, y: NDArray[np.float64]) -> Sampled:
        return sampled_prices(self.program, x, y, self._method(), self.budget, self.tuning)

    def _look(self, x: SparseX, y: NDArray[np.float64], columns: int = 0) -> Answer:
        """Price all columns at y and certify (x, y), which steps on so many columns have found."""
        begin = self.clock()
        self.store.expect(x.slot, x.column)
        now = Answer.of(self.store, x, y, self.screening.price(y), self.options.threads)
        proof = now.certificate
        self.budget.reserve = self.clock() - begin
        self._keep(now)
        log.debug(
            "%6d iterations, %8d of %d columns, objective %.9g, primal %.1e, dual %.1e, gap %.1e, %.3f s",
            self.budget.iterations,
            columns,
            self.store.n_variables,
            proof.objective,
            proof.relative.primal,
            proof.relative.dual,
            proof.relative.gap,
            self.clock(),
        )
        if self.options.callback is not None:
            self.options.callback(self.budget.iterations, proof)
        return now

    def _keep(self, now: Answer) -> None:
        """Keep an answer for the end, if it is the best so far."""
        if self.best is None or now.better_than(self.best):
            self.best = now

    def _done(self, now: Answer, ray: Ray | None = None, how: str = "") -> Solution | None:
        """The solution if an answer is optimal, a ray was found or it is late; else None."""
        done = self._optimal(now, f"residuals and gap are within the tolerance{how}")
        if done is not None:
            return done
        if ray is not None and ray.kind == "infeasible":
            return self._solution(
                Status.INFEASIBLE, f"a ray proves it (value {ray.value:.3g})", self.best, ray
            )
        if ray is not None:
            return self._without_optimum(now, ray)
        return self._over() if self.budget.late() else None

    def _without_optimum(self, now: Answer, ray: Ray) -> Solution | None:
        """Unbounded by a ray if there is a feasible point, infeasible if a ray proves that, or unproved."""
        if now.certificate.relative.primal <= self.budget.tolerance:
            return self._solution(Status.UNBOUNDED, f"a ray proves it (value {ray.value:.3g})", now, ray)
        from copter.solvers.baselines.highs_rays import rows_can_be_met  # only claims pay for HiGHS

        feasible, why = rows_can_be_met(self.program, self.clock)
        if feasible:
            return self._solution(Status.UNBOUNDED, f"a ray proves it (value {ray.value:.3g})", now, ray)
        if why is not None:
            reason = f"a ray proves it (value {why.value:.3g})"
            return self._solution(Status.INFEASIBLE, reason, self.best, why)
        reason = "a ray proves that there is no optimum, but no feasible point was found"
        return self._solution(Status.UNPROVED, reason, self.best)

    def _in_rationals(self) -> Solution | None:
        """What a simplex in rational numbers says of a tiny program."""
        store = self.store
        if self._exact or not self.options.hand_over or store.terms:
            return None
        self._exact = True
        found = solve_in_rationals(self.program, self.clock)
        if found is None:
            return None
        why, slots = "a simplex in rational numbers proves it", self.program.request_slots
        x, ray = (
            dense_to_sparse(slots, store.requests.n_columns[slots], each) for each in (found.x, found.ray)
        )
        y = np.zeros(store.rows.size)
        y[self.program.resource_slots] = found.y
        if found.status == "infeasible":
            proof = farkas_ray(self.program, y, self.options.threads)
            return None if proof is None else self._solution(Status.INFEASIBLE, why, self.best, proof)
        now = Answer.of(store, x, y, self.screening.price(y), self.options.threads).bounded(found.bound)
        if found.status == "optimal":
            return self._optimal(now, why)
        proof = primal_ray(self.program, ray)
        if proof is None or now.certificate.relative.primal > self.budget.tolerance:
            return None
        return self._solution(Status.UNBOUNDED, why, now, proof)

    def _stuck(self) -> Solution:
        exactly = self._in_rationals()
        if exactly is not None:
            return exactly
        worth = np.inf if self.best is None else self.best.worth
        reason = f"no optimum was proved: no progress beyond a residual of {worth:.1e}"
        return self._solution(Status.UNPROVED, reason, self.best)

    def _over(self) -> Solution:
        status = Status.CANCELLED if self.clock.cancelled else Status.DEADLINE
        reason, compiling = self.clock.why(), compile_seconds() - self._compiled
        if compiling > 0.1 * self.clock():
            reason += f"; {compiling:.1f} s of it went into compiling: solver.rehearse() does that before"
        return self._solution(status, reason, self.best)

    def _solution(self, status: Status, reason: str, best: Answer | None, ray: Ray | None = None) -> Solution:
        """The solution that an answer is."""
        self.best = best
        x = None
        if best is not None and status not in (Status.INFEASIBLE, Status.UNBOUNDED):
            # zeros that break rows are where a cold solve begins, no allocation
            some = best.x.slot.size > 0 or best.certificate.relative.primal <= self.budget.tolerance
            x = best.x if some else None
        handed = self.hand_over.successes
        return make_solution(
            self.program,
            x,
            self.beginning.y if best is None else best.y,
            status=status,
            reason=reason,
            iterations=self.budget.iterations,
            timings=Timings(solve=self.clock()),
            warm=self.beginning.how,
            last=self._churn_base,
            certificate=UNKNOWN if best is None else best.certificate,
            ray=ray,
            details={"hand_overs": float(handed)} if handed else {},
            pricing=None if best is None else best.pricing,
        )
