"""ProximalPoint: copter's own solver, warm-started and factorization-free.

Proximal-point method for  min c'x  s.t.  x_q in X_q,  l <= A x <= u :

    x^{k+1} = argmin { c'x + |x - x^k|^2 / (2 sigma_k) : constraints }

For an LP a large enough sigma reaches, in one step, the projection of x^0 onto the optimal set (Mangasarian
and Meyer 1979; Friedlander and Tseng 2007): of all optima the one that changes least from last round's
allocation.  x^0 is that allocation, padded with zeros for new requests, y^0 its prices.

Three loops, from the outside in:

1. *Columns.*  A pass over the whole store at the current prices (:mod:`copter.pricing`) certifies the
   answer and collects the columns whose price makes them worth looking at; the rest are zero.
2. *Proximal point* on those columns: sigma grows while the inner solver converges, and shrinks when it
   does not.
3. *Inner solver*: semismooth Newton on the prices (:mod:`copter.solvers.newton`), or coordinate descent on
   the augmented Lagrangian (:mod:`copter.solvers.descent`).

Source: thesis section 4.3.2; Rockafellar (1976) for the inexact proximal-point method; Li, Sun and Toh,
arXiv 1903.09546.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.certificate import Certificate, SparseX, certify
from copter.pricing import KEEP_ALL, Pricing, dot, price
from copter.rays import farkas_ray, primal_ray
from copter.solution import Ray, Solution, Status, Timings, make_solution
from copter.solvers.base import Solver, Stopwatch
from copter.solvers.descent import CoordinateDescent
from copter.solvers.newton import SemismoothNewton
from copter.solvers.working_set import WorkingSet, gather, lightest, runaway_price, union
from copter.store import spread

if TYPE_CHECKING:
    from copter.program import ContinualProgram
    from copter.store import ConstraintStore

log = logging.getLogger("copter")
Inner: TypeAlias = Literal["auto", "cd", "newton"]
_SIGMA_GROWTH = 5.0
_WANTED = 12
_INNER_LIMIT = 25
_FAILURES = 3
_SAMPLE_COLUMNS = 60_000
_IDLE_ROUNDS = 12


@dataclass
class _State:
    """What is kept between rounds, by slot, with the births that tell whether a slot is still the same."""

    program: object
    x: SparseX
    births: NDArray[np.int64]
    y: NDArray[np.float64]
    row_births: NDArray[np.int64]
    slack: float


class ProximalPoint(Solver):
    """Warm-started, factorization-free proximal-point solver with a certified gap.

    Parameters
    ----------
    name : str
    inner : "auto", "cd" or "newton"
        Inner solver: coordinate descent, semismooth Newton, or Newton with descent where it stalls.
    tolerance : float
        Relative primal residual, dual residual and gap at which the answer counts as optimal.
    deadline : float, optional
        Seconds after which the best answer so far is returned, with its gap.
    iteration_limit : int
        Limit on inner iterations over the whole solve.
    threads : int, optional
        Threads for passes over many columns; the answer does not depend on it.
    warm_start : bool
        Whether to start from the last answer for the same program.
    callback : callable, optional
        Called as ``callback(iteration, certificate)`` after every pass over the store.
    """

    def __init__(
        self,
        name: str = "copter",
        *,
        inner: Inner = "auto",
        tolerance: float = 1e-6,
        deadline: float | None = None,
        iteration_limit: int = 20_000,
        threads: int | None = None,
        warm_start: bool = True,
        callback: Callable[[int, Certificate], None] | None = None,
    ) -> None:
        super().__init__(name)
        if inner not in ("auto", "cd", "newton"):
            raise ValueError(f"inner = {inner!r}: must be 'auto', 'cd' or 'newton'")
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance = {tolerance!r}: must be between 0 and 1")
        self.inner = inner
        self.tolerance = tolerance
        self.deadline = deadline
        self.iteration_limit = iteration_limit
        self.threads = threads
        self.warm_start = warm_start
        self.callback = callback
        self._state: _State | None = None

    def reset(self) -> None:
        """Forget the last answer."""
        self._state = None

    def start_from(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> None:
        """Take an allocation and prices (by slot of ``program``) as if they were the last answer for it."""
        births, row_births = program.store.requests.birth[x.slot], program.store.rows.birth[: y.size].copy()
        slack = np.nan if self._state is None else self._state.slack
        self._state = _State(program, x, births, y, row_births, slack)

    def solve(self, program: ContinualProgram, *, deadline: float | None = None) -> Solution:
        """Solve the program as it is now, from the last answer if there is one."""
        run = _Run(self, program, deadline if deadline is not None else self.deadline)
        solution = run.solve()
        self._state = run.state(solution)
        return solution


class _Run:
    """One solve: the outer loops and what they share."""

    def __init__(self, settings: ProximalPoint, program: ContinualProgram, deadline: float | None) -> None:
        self.watch = Stopwatch()
        self.settings = settings
        self.program = program
        self.store = program.store
        self.deadline = np.inf if deadline is None else deadline
        self.iterations = 0
        self.centre, self.last, self.y, self.warm, self.slack = self._begin(settings._state)

    # ---- what comes from the last round ------------------------------------------------------------

    def _begin(
        self, state: _State | None
    ) -> tuple[SparseX, SparseX | None, NDArray[np.float64], tuple[bool, str], float]:
        requests, rows = self.store.requests, self.store.rows
        starts = self.program.take_starts()
        y = np.zeros(rows.size)
        empty = SparseX(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        last = centre = empty
        if state is None:
            why = "no earlier round"
        elif not self.settings.warm_start:
            why = "warm start switched off"
        elif state.program is not self.program:
            why = "the last round was another program"
        else:
            why = ""
        slack = np.nan
        if state is not None and state.program is self.program:
            slot = state.x.slot
            same = (slot < requests.size) & (requests.birth[slot] == state.births)
            last = SparseX(np.where(same, slot, -1 - slot), state.x.column, state.x.value)
            if not why:
                centre = SparseX(slot[same], state.x.column[same], state.x.value[same])
                known = rows.birth[: state.y.size] == state.row_births
                y[: state.y.size] = np.where(known, state.y, 0.0)
                slack = state.slack
        if starts and self.settings.warm_start:
            fresh = [s for s in sorted(starts) if requests.n_columns[s]]
            more = [np.concatenate(part) for part in zip(*[(np.full(starts[s][0].size, s), *starts[s]) for s in fresh])]
            if more:
                joined = [np.concatenate(pair) for pair in zip(centre, more, strict=True)]
                order = np.lexsort((joined[1], joined[0]))
                centre = SparseX(*(part[order] for part in joined))
        y = np.where(((y > 0) & np.isinf(rows.upper[: rows.size])) | ((y < 0) & np.isinf(rows.lower[: rows.size])), 0, y)
        return centre, last if state is not None else None, y, (not why, why or "last round's x and prices"), slack

    def late(self) -> bool:
        """Whether the deadline has passed."""
        return self.watch() >= self.deadline

    def state(self, solution: Solution) -> _State:
        """What the next round may start from."""
        requests, rows = self.store.requests, self.store.rows
        x = solution.nonzeros
        return _State(
            self.program,
            x,
            requests.birth[x.slot].copy(),
            solution.y,
            rows.birth[: rows.size].copy(),
            self.slack,
        )

    # ---- columns -----------------------------------------------------------------------------------

    def solve(self) -> Solution:
        tolerance = self.settings.tolerance
        x, y = self.centre, self.y
        if not self.warm[0]:
            y = self._sampled_prices(y)
        pricing = self._price(y)
        certificate = certify(self.store, x, y, pricing)
        best = (certificate, x, y, pricing)
        ray = None
        if pricing.request_bound == np.inf:
            ray = farkas_ray(self.program, np.zeros_like(y))
            return self._answer(Status.INFEASIBLE, "the sum row of a request cannot be met by its columns", best, ray)
        if self.warm[0] and certificate.within(tolerance):
            return self._answer(Status.OPTIMAL, "last round's answer still is optimal", best)
        slot, column = union(pricing.slot, pricing.column, x.slot, x.column)
        slot, column = union(slot, column, *lightest(self.store))
        sigma, idle, lowest = 0.0, 0, np.inf
        status, reason = Status.ITERATION_LIMIT, "iteration limit reached"
        while self.iterations < self.settings.iteration_limit:
            working = gather(self.store, slot, column)
            step = _Restricted(self, working, sigma)
            x, y, sigma = step.solve(x, y, certificate.relative.gap)
            pricing = self._price(y)
            certificate = certify(self.store, x, y, pricing)
            self._report(working, certificate)
            if _worth(certificate) < _worth(best[0]):
                best = (certificate, x, y, pricing)
            if certificate.within(tolerance):
                return self._answer(Status.OPTIMAL, "residuals and gap are within the tolerance", best)
            ray = step.found
            if ray is not None:
                found = Status.INFEASIBLE if ray.kind == "infeasible" else Status.UNBOUNDED
                return self._answer(found, f"a ray proves it (value {ray.value:.3g})", best, ray)
            if self.late():
                status, reason = Status.DEADLINE, f"deadline of {self.deadline:g} s reached"
                break
            before = slot.size
            slot, column = union(slot, column, pricing.slot, pricing.column)
            if step.violation is not None:
                missing = price(self.store, step.violation, slack=0.0, cost_factor=0.0, threads=self.settings.threads)
                slot, column = union(slot, column, missing.slot, missing.column)
            worth = _worth(certificate)
            idle = idle + 1 if slot.size == before and worth > 0.5 * lowest else 0
            lowest = min(lowest, worth)
            if idle == _IDLE_ROUNDS:
                status, reason = Status.NUMERICAL_ERROR, f"no progress beyond a residual of {_worth(best[0]):.1e}"
                break
        return self._answer(status, reason, best)

    def _sampled_prices(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """First prices: those of a sample of the requests, with all their columns, on its share of the rows.

        Without prices a pass finds the columns that would be best if everything were free, and it takes
        many passes to get from them to those that matter.
        """
        table = self.store.requests
        slots = np.flatnonzero(table.n_columns[: table.size] > KEEP_ALL)
        stride = int(table.n_columns[slots].sum()) // _SAMPLE_COLUMNS
        if stride < 4 or slots.size < 8 * stride:
            return y
        slots = slots[::stride]
        sizes = table.n_columns[slots]
        working = gather(self.store, np.repeat(slots, sizes), spread(np.zeros_like(sizes), sizes))
        share = slots.size / np.count_nonzero(table.n_columns[: table.size])
        working = working._replace(lower_row=share * working.lower_row, upper_row=share * working.upper_row)
        return _Restricted(self, working, 0.0).solve(self.centre, y, 1.0)[1]

    def _price(self, y: NDArray[np.float64]) -> Pricing:
        """A pass at prices y; the slack is kept at about a dozen columns a screened request."""
        store, threads = self.store, self.settings.threads
        n_columns = store.requests.n_columns[: store.requests.size]
        screened = max(1, np.count_nonzero(n_columns > KEEP_ALL))
        if np.isnan(self.slack):
            self.slack = _typical_slack(store, y, _WANTED)
        pricing = price(store, y, slack=self.slack, threads=threads)
        share = np.count_nonzero(n_columns[pricing.slot] > KEEP_ALL) / screened
        if share > 4 * _WANTED:
            self.slack = _typical_slack(store, y, _WANTED)
            pricing = price(store, y, slack=self.slack, threads=threads)
        elif share > 1.5 * _WANTED:
            self.slack *= 0.7
        elif share < 0.6 * _WANTED:
            self.slack *= 1.5
        return pricing

    def _report(self, working: WorkingSet, certificate: Certificate) -> None:
        log.debug(
            "%6d iterations, %8d of %d columns, objective %.9g, primal %.1e, dual %.1e, gap %.1e, %.3f s",
            self.iterations,
            working.column.size,
            self.store.n_variables,
            certificate.objective,
            certificate.relative.primal,
            certificate.relative.dual,
            certificate.relative.gap,
            self.watch(),
        )
        if self.settings.callback is not None:
            self.settings.callback(self.iterations, certificate)

    def _answer(
        self,
        status: Status,
        reason: str,
        best: tuple[Certificate, SparseX, NDArray[np.float64], Pricing],
        ray: Ray | None = None,
    ) -> Solution:
        certificate, x, y, pricing = best
        return make_solution(
            self.program,
            x,
            y,
            status=status,
            reason=reason,
            iterations=self.iterations,
            timings=Timings(solve=self.watch()),
            warm=self.warm,
            last=self.last,
            certificate=certificate,
            ray=ray,
            pricing=pricing,
        )


class _Restricted:
    """Proximal-point steps on a working set."""

    def __init__(self, run: _Run, working: WorkingSet, sigma: float) -> None:
        self.run = run
        self.working = working
        self.sigma = sigma
        self.found: Ray | None = None
        self.violation: NDArray[np.float64] | None = None
        self.inner: SemismoothNewton | CoordinateDescent
        if run.settings.inner == "cd":
            self.inner = CoordinateDescent(working, run.late)
        else:
            self.inner = SemismoothNewton(working, run.late, run.settings.threads)

    def solve(
        self, x: SparseX, y: NDArray[np.float64], gap: float
    ) -> tuple[SparseX, NDArray[np.float64], float]:
        w, run = self.working, self.run
        tolerance = run.settings.tolerance
        goal = max(0.3 * tolerance, 1e-3 * min(gap, 1.0))
        bounds = np.concatenate((w.lower_row, w.upper_row))
        size = 1.0 + float(np.linalg.norm(bounds[np.isfinite(bounds)]))
        centre, prices = w.values_at(x), y / w.row_scale
        unit = 1.0 / max(1e-12, _root_mean_square(w.cost))
        sigma = self.sigma or 10.0 * unit
        failures, x_now = 0, centre
        while run.iterations < run.settings.iteration_limit:
            reach = 1e-14 * math.sqrt(dot(centre, centre))
            inner = self.inner.solve(prices, centre, sigma, 0.01 * tolerance * size + reach, _INNER_LIMIT)
            run.iterations += max(1, inner.iterations)
            objective, loss = w.gap(inner.x, inner.y)
            move = inner.x - centre
            log.debug(
                "    sigma %.1e: %d steps, %s, gap %.1e, move %.1e",
                sigma,
                inner.iterations,
                "converged" if inner.converged else "not converged",
                abs(loss) / max(1.0, abs(objective)),
                math.sqrt(dot(move, move)),
            )
            if inner.converged and abs(loss) > 1e-3 * max(1.0, abs(objective)):
                self.found = primal_ray(run.program, w.sparse(move))
            elif not inner.converged:
                failures += 1
                if failures == _FAILURES:
                    self.found = self._farkas(inner.x)
            x_now = inner.x
            if self.found is not None or run.late():
                break
            if inner.converged:
                centre, prices = inner.x, inner.y
                if abs(loss) <= goal * max(1.0, abs(objective)) or not move.any():
                    break
                if 2 * inner.iterations <= _INNER_LIMIT:
                    sigma = min(sigma * _SIGMA_GROWTH, 1e12 * unit)
            elif failures > _FAILURES:
                break
            else:
                sigma = max(sigma / _SIGMA_GROWTH, 1e-6 * unit)
                if abs(inner.y).max(initial=0.0) <= runaway_price(w):
                    prices = inner.y
        return w.sparse(x_now), prices * w.row_scale, sigma

    def _farkas(self, x: NDArray[np.float64]) -> Ray | None:
        """Proof that the program is infeasible, if the working set cannot meet the rows and that proves it."""
        y = self.inner.least_violation(self.working, x, self.run.late, self.run.settings.threads)
        self.violation = y * self.working.row_scale
        return farkas_ray(self.run.program, self.violation)


def _root_mean_square(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(dot(values, values) / max(1, np.count_nonzero(values))))


def _worth(certificate: Certificate) -> float:
    """The worst relative residual, by which answers are compared."""
    worst = max(certificate.relative.primal, certificate.relative.dual, certificate.relative.gap)
    return worst if worst == worst else np.inf


def _typical_slack(store: ConstraintStore, y: NDArray[np.float64], wanted: int) -> float:
    """Slack at which about ``wanted`` columns of a screened request are candidates; from a sample."""
    slots = np.flatnonzero(store.requests.n_columns[: store.requests.size] > max(KEEP_ALL, wanted))
    slacks = []
    for slot in slots[:: max(1, slots.size // 48)].tolist():
        prices = np.partition(store.priced_columns(slot, y), wanted)[: wanted + 1]
        slacks.append(prices[wanted] - prices.min())
    return float(np.median(slacks)) if slacks else 0.0
