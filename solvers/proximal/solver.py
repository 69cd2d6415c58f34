"""ProximalPoint: copter's own solver, warm-started and factorization-free.

Proximal-point method for  min c'x  s.t.  x_q in X_q,  l <= A x <= u  (requests may add convex terms to c'x):

    x^{k+1} = argmin { c'x + sum_q (T / t_q) |x_q - x_q^k|^2 / (2 sigma_k) : constraints }

with t_q the total of a request and T a typical one, so that a step moves large and small requests by like
shares (the working set has units in which this is the plain |x - x^k|^2).  For an LP a large enough sigma
reaches, in one step, the projection of x^0 onto the optimal set (Mangasarian and Meyer 1979; Friedlander
and Tseng 2007): of all optima the one that changes least from last round's allocation.  x^0 is that
allocation, padded with zeros for new requests, y^0 its prices.

Three loops, from the outside in:

1. *Columns.*  A pass over the whole store at the current prices (:mod:`copter.proof.pricing`) certifies the
   answer and collects the columns whose price makes them worth looking at; the rest are zero.
2. *Proximal point* on those columns (:mod:`copter.solvers.proximal.steps`): sigma grows while the inner
   solver converges, and shrinks when it does not.
3. *Inner solver*: semismooth Newton on the prices (:mod:`copter.solvers.inner.newton`), or coordinate
   descent on the augmented Lagrangian (:mod:`copter.solvers.inner.descent`).

Source: thesis section 4.3.2; Rockafellar (1976) for the inexact proximal-point method; Li, Sun and Toh,
arXiv 1903.09546.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.proof.certificate import Certificate, certify
from copter.proof.pricing import KEEP_ALL, Pricing, price
from copter.proof.rays import farkas_ray
from copter.solution import UNKNOWN, Ray, Solution, Status, Timings, make_solution
from copter.solvers.base import ClockedSolver, SolverState
from copter.solvers.blas import one_blas_thread
from copter.solvers.inner.working_set import WorkingSet, gather, lightest, typical_slack, union
from copter.solvers.memory import LastX, LastY, churn_base
from copter.solvers.proximal.finish import WAYS, finish
from copter.solvers.proximal.partial import PartialSteps
from copter.solvers.proximal.sampling import Sampler
from copter.solvers.proximal.steps import COLD_SIGMA, WARM_SIGMA, Budget, StepsResult, run_steps
from copter.solvers.settings import Setting, count, function, one_of, switch
from copter.store.allocation import NOTHING, SparseX
from copter.store.store import NO_TOTAL, spread

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

log = logging.getLogger("copter")
Inner: TypeAlias = Literal["auto", "cd", "newton"]
Starts: TypeAlias = dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]

_WANTED = 12
"""Candidate columns of a screened request that a pass should collect, about."""
_MORE_WANTED = 4
"""So many times as many each time that rows cannot be met with the columns that there are."""
_SCREEN_FROM = 20_000
"""Programs of fewer columns are not screened."""
_WIDEST = 6
"""A working set of more than so many times the wanted columns is thinned out."""
_SAMPLE_COLUMNS, _SAMPLED_A_ROW = 40_000, 20
"""Columns in a sample at least, and for each row."""
_LEAST_SAMPLE = 8
_SAMPLE_GOAL = 2e-3
"""Gap of the sample: its prices at a sharper one are those of its own few requests."""
_GOAL_SHARE = 0.3
_IDLE_ROUNDS = 30
_SWITCH_ROUNDS = 4
_HAND_OVER_ROUNDS, _HAND_OVERS, _HAND_OVER_COLUMNS = 6, 40, 500_000
"""After so many rounds without progress HiGHS finishes: so often at most, with more columns each time, and no
sets of more columns than that, which may take it hours."""
_PARTIAL_FROM, _PARTIAL_REQUESTS = 200_000, 10_000
"""With more candidate columns, or more requests, only some of the requests move in a step."""


@dataclass(frozen=True)
class _State:
    """What is kept between rounds.

    ``answer`` is what churn is counted against, ``last`` where to begin; they differ if a start was given.
    """

    answer: LastX | None
    last: LastX
    y: LastY
    slack: float


class ProximalPoint(ClockedSolver):
    """Warm-started, factorization-free proximal-point solver with a certified gap.

    Parameters
    ----------
    name : str
    inner : "auto", "cd" or "newton"
        Inner solver: coordinate descent, semismooth Newton, or Newton with descent where it stalls.
    iteration_limit : int
        Limit on inner iterations over the whole solve.
    warm_start : bool
        Whether to start from the last answer for the same program.
    hand_over : bool
        Whether HiGHS may finish where the method stalls, or has used half of the iteration limit
        (:mod:`copter.solvers.proximal.finish`); how often it did is in ``Solution.details["hand_overs"]``.
    callback : callable, optional
        Called as ``callback(iteration, certificate)`` after every pass over the store, also the first.
    **common
        ``tolerance``: relative primal residual, dual residual and gap at which the answer counts as optimal;
        ``deadline``: seconds after which the best answer so far is returned, with its gap; ``threads`` for
        passes over many columns, on which the answer does not depend.
    """

    inner = Setting(one_of("auto", "cd", "newton"))
    iteration_limit = Setting(count)
    warm_start = Setting(switch)
    hand_over = Setting(switch)
    callback = Setting(function)

    def __init__(
        self,
        name: str = "copter",
        *,
        inner: Inner = "auto",
        iteration_limit: int = 20_000,
        warm_start: bool = True,
        hand_over: bool = True,
        callback: Callable[[int, Certificate], None] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(name, **common)
        self.inner = inner
        self.iteration_limit = iteration_limit
        self.warm_start = warm_start
        self.hand_over = hand_over
        self.callback = callback
        self._state: _State | None = None

    def reset(self) -> None:
        """Forget the last answer."""
        self._state = None

    def start(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Allocation and prices, by slot, that the next solve of ``program`` begins from; None if cold."""
        state = self._state
        if not self.warm_start or state is None or state.last.program is not program:
            return None
        rows, y = program.store.rows, state.y.surviving()
        lost = np.where(y > 0, np.isinf(rows.upper[: y.size]), np.isinf(rows.lower[: y.size]))
        return state.last.surviving(), np.where(lost, 0.0, y)  # no price without the bound that it is of

    def start_from(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> None:
        """Begin the next solve from an allocation and prices (by slot of ``program``) instead of the last."""
        state = self._state
        answer, slack, before = None, np.nan, None
        if state is not None and state.last.program is program:
            answer, slack, before = state.answer, state.slack, state.last
        self._state = _State(answer, LastX.of(program, x, before), LastY.of(program, y), slack)

    def save_state(self, program: ContinualProgram) -> SolverState | None:
        """Last round's allocation, prices and screening slack; None if it was of another program."""
        state = self._state
        if state is None or state.last.program is not program:
            return None
        arrays = state.last.to_arrays("last") | state.y.to_arrays() | {"slack": state.slack}
        if state.answer is None or state.answer is state.last:
            return arrays | {"answered": state.answer is not None}
        return arrays | {"answered": True} | state.answer.to_arrays("answer")

    def load_state(self, program: ContinualProgram, state: SolverState | None) -> None:
        """Begin the next solve where the solver did that saved this state."""
        if state is None:
            self.reset()
            return
        last, slack = LastX.from_arrays(program, state, "last"), state["slack"]
        if not isinstance(slack, float):
            raise ValueError("slack is no number")
        answer = last if state["answered"] else None
        if "answer.slot" in state:
            answer = LastX.from_arrays(program, state, "answer")
        self._state = _State(answer, last, LastY.from_arrays(program, state), slack)

    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Solve the program as it is now, from the last answer if there is one."""
        starts = program.take_starts()
        done = False
        try:
            run = _Run(self, program, clock, starts)
            with one_blas_thread():
                solution = run.solve()
            if run.best is not None:
                before = None if self._state is None else self._state.last
                last = LastX.of(program, run.best.x, before)
                self._state = _State(last, last, LastY.of(program, run.best.y), run.slack)
                done = True
        finally:
            if not done:  # what the starts were given for is still to come
                program.return_starts(starts)
        return solution


@dataclass(frozen=True)
class _Answer:
    """An allocation, prices, the pass at them and their certificate."""

    x: SparseX
    y: NDArray[np.float64]
    pricing: Pricing
    certificate: Certificate

    @property
    def worth(self) -> float:
        """The worst relative residual, each counted as 1 at most, by which answers are compared."""
        relative = self.certificate.relative
        parts = np.array([relative.primal, relative.dual, relative.gap])
        return float(np.where(np.isnan(parts), np.inf, np.minimum(parts, 1.0)).max())

    def better_than(self, other: _Answer) -> bool:
        """Whether its worst residual is smaller, or as large and the others are."""
        mine, others = self.certificate.relative, other.certificate.relative
        total, least = (
            sum(min(part, 1.0) for part in (each.primal, each.dual, each.gap)) for each in (mine, others)
        )
        return (self.worth, total) < (other.worth, least)


class _Run:
    """One solve: the loop over columns."""

    def __init__(
        self, settings: ProximalPoint, program: ContinualProgram, clock: Clock, starts: Starts
    ) -> None:
        self.settings = settings
        self.program = program
        self.store = program.store
        self.clock = clock
        self.budget = Budget(settings.tolerance, clock, settings.iteration_limit, settings.threads)
        self.best: _Answer | None = None
        state = settings._state
        self.churn_base = churn_base(None if state is None else state.answer, program)
        self.slack = np.nan
        self.hand_overs = self.attempts = 0
        self.may_hand_over = settings.hand_over
        self.y = np.zeros(self.store.rows.size)
        self.centre = NOTHING
        self.warm = self._begin(state, starts)

    def _begin(self, state: _State | None, starts: Starts) -> tuple[bool, str]:
        """Take over what still holds of the last round; returns whether that is used, and why (not)."""
        if not self.settings.warm_start:
            return False, "warm start switched off"
        begin = self.settings.start(self.program)
        if begin is not None:
            self.centre, self.y = begin
        self.centre = _with_starts(self.centre, starts, self.store.requests.n_columns)
        if state is None:
            why = "no earlier round"
        elif begin is None:
            why = "the last round was another program"
        else:
            self.slack = state.slack
            was_zero = not (state.y.y.any() or state.last.x.slot.size)
            if was_zero or self.y.any() or self.centre.slot.size:
                return True, "last round's x and prices"
            why = "nothing of the last round is left"
        return (True, "starts that were given") if starts else (False, why)

    def solve(self) -> Solution:
        """Solve until the clock is over: then the best answer is that of the best pass that was completed."""
        try:
            return self._rounds()
        except Interrupted:
            return self._over()

    def _over(self) -> Solution:
        status = Status.CANCELLED if self.clock.cancelled else Status.DEADLINE
        return self._solution(status, self.clock.why(), self.best)

    def _rounds(self) -> Solution:
        budget, settings = self.budget, self.settings
        y = self.y if self.y.any() or self.store.terms else self._sampled_prices(self.y)
        first = WARM_SIGMA if self.warm[0] or y is not self.y else COLD_SIGMA
        now = best = self._look(self.centre, y)
        if now.pricing.request_bound == np.inf:
            ray = farkas_ray(self.program, np.zeros_like(y), settings.threads)
            reason = "the bounds and the sum row of a request leave no allocation of finite cost"
            return self._solution(Status.INFEASIBLE, reason, best, ray)
        if self.warm[0] and now.certificate.within(settings.tolerance):
            return self._solution(Status.OPTIMAL, "the point of the warm start is optimal", best)
        if settings.inner != "cd" and not self.store.terms and self._many(now.pricing):
            done = self._partial(now)
            if isinstance(done, Solution):
                return done
            now = best = done
        slot, column = union(now.pricing.slot, now.pricing.column, now.x.slot, now.x.column)
        slot, column = union(slot, column, *lightest(self.store))
        sigma, idle, misses = 0.0, 0, 0
        while not budget.spent():
            descend = settings.inner == "cd" or (settings.inner == "auto" and idle >= _SWITCH_ROUNDS)
            working = gather(self.store, slot, column)
            goal = _GOAL_SHARE * settings.tolerance
            if not self.store.terms:  # columns that are left out ask for other prices anyway
                goal = max(goal, 1e-3 * min(now.certificate.relative.gap, 1.0))
            finished = self._finished(working, idle, now.certificate.size)
            steps = finished
            if steps is None:
                steps = run_steps(
                    self.program,
                    working,
                    "cd" if descend else "newton",
                    budget,
                    now.x,
                    now.y,
                    first=first,
                    sigma=sigma,
                    goal=goal,
                    least=now.certificate.size if working.column.size == self.store.n_variables else 0.0,
                )
            now, sigma = self._look(steps.x, steps.y, working.column.size), steps.sigma
            improved = now.worth < 0.5 * best.worth
            best = now if now.better_than(best) else best
            if now.certificate.within(settings.tolerance):
                reason = "residuals and gap are within the tolerance" + (", by HiGHS" if finished else "")
                return self._solution(Status.OPTIMAL, reason, now)
            if steps.ray is not None:
                status = Status.INFEASIBLE if steps.ray.kind == "infeasible" else Status.UNBOUNDED
                reason = f"a ray proves it (value {steps.ray.value:.3g})"
                return self._solution(status, reason, best, steps.ray)
            if budget.late():
                return self._over()
            known = slot.size
            if known > self._most_columns() and not misses:
                # prices have come far: begin again with what matters here
                slot, column = union(now.x.slot, now.x.column, *lightest(self.store))
            slot, column = union(slot, column, now.pricing.slot, now.pricing.column)
            if steps.violation is not None:
                missing = self._missing_columns(steps.violation, _WANTED * _MORE_WANTED**misses)
                slot, column = union(slot, column, *missing)
                sigma, misses = 0.0, misses + 1  # steps were short for want of these columns
            idle = 0 if improved or slot.size > known else idle + 1
            if idle == _IDLE_ROUNDS:
                reason = f"no progress beyond a residual of {best.worth:.1e}"
                return self._solution(Status.NUMERICAL_ERROR, reason, self.best)
        return self._solution(Status.ITERATION_LIMIT, "iteration limit reached", self.best)

    def _finished(self, working: WorkingSet, idle: int, size: float) -> StepsResult | None:
        """What HiGHS makes of a set on which steps stall; None if they do not, or it has no answer."""
        stalled = idle >= _HAND_OVER_ROUNDS or 2 * self.budget.iterations > self.budget.iteration_limit
        small = working.column.size <= _HAND_OVER_COLUMNS
        if not (stalled and small and self.may_hand_over) or self.store.terms:
            return None
        for _ in WAYS:
            steps = finish(self.program, working, self.budget, self.attempts, size)
            self.attempts += 1
            log.debug("    handed over to HiGHS: %s", "no answer" if steps is None else "an answer")
            if steps is not None or self.budget.late():
                break
        self.hand_overs += steps is not None
        self.may_hand_over = steps is not None and self.hand_overs < _HAND_OVERS
        return steps

    def _many(self, pricing: Pricing) -> bool:
        return pricing.slot.size > _PARTIAL_FROM or len(self.program) > _PARTIAL_REQUESTS

    def _partial(self, now: _Answer) -> Solution | _Answer:
        """Rounds in which only some of the requests move; an answer if that leads no further."""
        settings, budget = self.settings, self.budget
        partial = PartialSteps(self.program, budget)
        if self.warm[0]:  # changes that move prices far show in those of a sample, and cheaply
            there = self._look(now.x, self._sampled_prices(now.y))
            log.debug(
                "sample bound %.8g, before %.8g, objective %.8g",
                there.certificate.bound,
                now.certificate.bound,
                now.certificate.objective,
            )
            now = there if there.certificate.bound > now.certificate.bound else now
        while not budget.spent():
            moved = partial.step(now.x, now.y, now.pricing, now.certificate.size)
            if moved is None:
                break
            last, now = now, self._look(moved.x, moved.y, moved.columns)
            if now.certificate.bound < last.certificate.bound:  # what moves is too little to know the prices
                proof = certify(self.store, now.x, last.y, last.pricing, threads=settings.threads)
                now = _Answer(now.x, last.y, last.pricing, proof)
                self._keep(now)
                log.debug(
                    "   gap with the last prices %.1e primal %.1e bound %.8g",
                    proof.relative.gap,
                    proof.relative.primal,
                    proof.bound,
                )
            if now.certificate.within(settings.tolerance):
                return self._solution(Status.OPTIMAL, "residuals and gap are within the tolerance", now)
            if budget.late():
                return self._over()
        return now

    def _most_columns(self) -> int:
        """Size from which on the working set is thinned out."""
        n_columns = self.store.requests.n_columns[: self.store.requests.size]
        kept = int(n_columns[n_columns <= KEEP_ALL].sum())
        return kept + _SCREEN_FROM + _WIDEST * _WANTED * int(np.count_nonzero(n_columns > KEEP_ALL))

    def _look(self, x: SparseX, y: NDArray[np.float64], columns: int = 0) -> _Answer:
        """Price all columns at y and certify (x, y), which steps on so many columns have found."""
        begin = self.clock()
        pricing = self._price(y)
        now = _Answer(x, y, pricing, certify(self.store, x, y, pricing, threads=self.settings.threads))
        self.budget.reserve = self.clock() - begin
        self._keep(now)
        self._report(columns, now.certificate)
        return now

    def _keep(self, now: _Answer) -> None:
        """Keep an answer for the end, if it is the best so far."""
        if self.best is None or now.better_than(self.best):
            self.best = now

    def _price(self, y: NDArray[np.float64]) -> Pricing:
        """A pass at prices y; the slack is kept at about a dozen columns a screened request."""
        store, threads = self.store, self.settings.threads
        if store.n_variables <= _SCREEN_FROM or store.terms:
            return price(store, y, slack=np.inf, threads=threads)
        n_columns = store.requests.n_columns[: store.requests.size]
        screened = max(1, int(np.count_nonzero(n_columns > KEEP_ALL)))
        if np.isnan(self.slack):
            self.slack = typical_slack(store, y, _WANTED)
        pricing = price(store, y, slack=self.slack, threads=threads)
        share = np.count_nonzero(n_columns[pricing.slot] > KEEP_ALL) / screened
        if share > 4 * _WANTED:
            slack = typical_slack(store, y, _WANTED)
            if slack < self.slack:  # else they are as many because so many prices are equal
                self.slack = slack
                pricing = price(store, y, slack=slack, threads=threads)
        elif share > 1.5 * _WANTED:
            self.slack *= 0.7
        elif share < 0.6 * _WANTED:
            self.slack *= 1.5
        return pricing

    def _missing_columns(
        self, violation: NDArray[np.float64], wanted: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns that would lessen a violation of the rows which the working set cannot avoid."""
        most = self.store.requests.n_columns[: self.store.requests.size].max(initial=0)
        slack = np.inf
        if wanted < most:
            slack = typical_slack(self.store, violation, wanted, cost_factor=0.0)
        found = price(self.store, violation, slack=slack, cost_factor=0.0, threads=self.settings.threads)
        return found.slot, found.column

    def _sampled_prices(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Prices of a sample of the requests, with all their columns, that stands for all; y if few.

        Without prices a pass finds the columns that would be best if everything were free, and it takes
        many passes to get from them to those that matter.  A request is drawn as likely as its total is
        large, and then stands for others: its total is divided by that likelihood.
        """
        table = self.store.requests
        n_columns, summed = table.n_columns[: table.size], table.relation[: table.size] != NO_TOTAL
        slots, single = np.flatnonzero(summed & (n_columns > 0)), np.flatnonzero(~summed & (n_columns > 0))
        columns = max(_SAMPLE_COLUMNS, _SAMPLED_A_ROW * len(self.program.resource_slots))
        wanted = slots.size * columns // max(1, int(n_columns[slots].sum()))
        least = max(
            _LEAST_SAMPLE, len(self.program.resource_slots)
        )  # fewer cannot know the price of every row
        if not least <= wanted <= slots.size // 4 or int(n_columns[single].sum()) > columns:
            return y
        taken, factor = Sampler(table.total[slots], wanted).draw()
        sample = np.sort(np.concatenate((slots[taken], single)))
        sizes = n_columns[sample]
        stands_for = np.ones(table.size)
        stands_for[slots[taken]] = factor
        column = spread(np.zeros_like(sizes), sizes)
        working = gather(self.store, np.repeat(sample, sizes), column, stands_for=stands_for)
        inner: Literal["cd", "newton"] = "cd" if self.settings.inner == "cd" else "newton"
        return run_steps(self.program, working, inner, self.budget, NOTHING, y, goal=_SAMPLE_GOAL).y

    def _report(self, columns: int, certificate: Certificate) -> None:
        log.debug(
            "%6d iterations, %8d of %d columns, objective %.9g, primal %.1e, dual %.1e, gap %.1e, %.3f s",
            self.budget.iterations,
            columns,
            self.store.n_variables,
            certificate.objective,
            certificate.relative.primal,
            certificate.relative.dual,
            certificate.relative.gap,
            self.clock(),
        )
        if self.settings.callback is not None:
            self.settings.callback(self.budget.iterations, certificate)

    def _solution(
        self, status: Status, reason: str, best: _Answer | None, ray: Ray | None = None
    ) -> Solution:
        self.best = best
        x = None
        if best is not None and status not in (Status.INFEASIBLE, Status.UNBOUNDED):
            # zeros that break rows are where a cold solve begins, no allocation
            some = best.x.slot.size > 0 or best.certificate.relative.primal <= self.settings.tolerance
            x = best.x if some else None
        return make_solution(
            self.program,
            x,
            self.y if best is None else best.y,
            status=status,
            reason=reason,
            iterations=self.budget.iterations,
            timings=Timings(solve=self.clock()),
            warm=self.warm,
            last=self.churn_base,
            certificate=UNKNOWN if best is None else best.certificate,
            ray=ray,
            details={"hand_overs": float(self.hand_overs)} if self.hand_overs else {},
            pricing=None if best is None else best.pricing,
        )


def _with_starts(x: SparseX, starts: Starts, n_columns: NDArray[np.int64]) -> SparseX:
    """x with the starts that were given in place of its values for those requests."""
    fresh = [slot for slot in sorted(starts) if n_columns[slot]]
    if not fresh:
        return x
    keep = ~np.isin(x.slot, fresh)
    slot = np.concatenate([x.slot[keep], *(np.full(starts[s][0].size, s) for s in fresh)])
    column = np.concatenate([x.column[keep], *(starts[s][0] for s in fresh)])
    value = np.concatenate([x.value[keep], *(starts[s][1] for s in fresh)])
    order = np.lexsort((column, slot))
    return SparseX(slot[order], column[order], value[order])
