"""Steps in which only some requests of a large program change; the others keep their allocation.

At prices y the gap of an allocation x is a sum of losses, one for each request and one for each row:

    c'x - d(y) = sum_q { p_q'x_q - min p_q'z over z in X_q } + sum_i y_i (u_i - A_i x)      (y_i < 0: l_i)

Each request with a loss is reassigned to its cheapest column at y, which costs one pass over the columns and
reduces its loss to 0. Then only row violations and row slacks remain. They are best corrected by the requests
that respond first to a price change. A request with one sum row takes the cheapest of its columns,
p_b = min p_j with p = c + A'y, or no column if that is permitted and no p_j is negative. Its margin is the
distance to the second cheapest, relative to the terms of p_b, |c_b| + |a_b|'|y|. The requests with the
smallest margins change together; all others are fixed, and their usage is subtracted from the rows. If
requests with larger margins changed instead, prices would have to change by these margins first.

Rows that are far from their bounds are left out, unless a column is bounded only by them. They are added if
the step would violate them. The certificate is always that of the whole program, so a selection that was too
small shows as a gap or a violation. If the rows are satisfied and the gap has become much smaller, the same
number of requests is chosen again at the new prices; otherwise more requests are added to the selection. If
the initial prices are poor, all requests change at once.

If the program has a primal repair heuristic (``program.primal_repair``), steps end before the rows are
satisfied: most iterations would be spent on satisfying them, and the heuristic does this in one pass. Its
result is certified too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.parallel import chunk_bounds, run_chunks
from copter.solvers.inner.gather import LeftOut, gather, union
from copter.solvers.proximal.state import Budget, Iterate
from copter.solvers.proximal.steps import Aim, run_steps
from copter.store.allocation import SparseX, merged, row_activity
from copter.store.store import ConstraintStore
from copter.store.view import cap_of, coefficients_of, cost_of, entries_of

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.pricing import Pricing
    from copter.solvers.proximal.tuning import ProximalTuning

log = logging.getLogger("copter")
_PLACED = 1e-9
"""Largest relative deviation from the total up to which a request with sum(x) == total may stay fixed."""


class _Moved(NamedTuple):
    """Result of a partial step: allocation, prices of row slots, number of columns that could change."""

    x: SparseX
    y: NDArray[np.float64]
    columns: int


class Choices(NamedTuple):
    """Cheapest column and relative margin of each request slot at the prices of a pass.

    `column` is -1 for no column, and -2 if there is no single choice: no sum row, or a column whose bound is
    below the total. `margin` is 0 without a single choice, and infinite without an alternative.
    """

    column: NDArray[np.int64]
    margin: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        store: ConstraintStore,
        y: NDArray[np.float64],
        pricing: Pricing,
        seen: NDArray[np.bool_],
        threads: int | None,
    ) -> Choices:
        """Return the choices among the candidates of a pass at prices y (row slots,).

        `seen` (row slots,): rows that may matter. A request that uses none of them has an infinite margin.
        """
        size = store.requests.size
        view, place = store.executor.columns(pricing.slot, pricing.column)
        first = np.concatenate(([0], np.cumsum(np.bincount(pricing.slot, minlength=size))))
        best, margin = np.full(size, -2), np.full(size, np.inf)
        bounds = chunk_bounds(np.diff(first))
        run_chunks(
            lambda k: _choose(
                view, y, first, place, pricing.column, seen, bounds[k], bounds[k + 1], best, margin
            ),
            bounds.size - 1,
            threads,
        )
        return cls(best, margin)

    def of_requests(self, store: ConstraintStore, slots: NDArray[np.int64]) -> SparseX:
        """Return the allocation in which requests of ascending slots take their cheapest columns."""
        some = slots[self.column[slots] >= 0]
        return SparseX(some, self.column[some], store.requests.total[some])

    def nearest(self, count: int) -> NDArray[np.bool_]:
        """Return a mask of the requests with the `count` smallest finite margins, with all ties."""
        if count >= self.margin.size:
            return np.isfinite(self.margin)
        limit = np.partition(self.margin, count - 1)[count - 1] if count else 0.0
        return np.isfinite(self.margin) & (self.margin <= limit)


class PartialSteps:
    """Partial steps of one solve.

    `flow` (row slots,): approximate A x near the first step's result; by default that of the previous
    iterate. `hold`: see :func:`copter.solvers.proximal.steps.run_steps`.
    """

    def __init__(
        self,
        program: ContinualProgram,
        budget: Budget,
        tuning: ProximalTuning,
        flow: NDArray[np.float64] | None = None,
        hold: bool = False,
    ) -> None:
        self._hold = hold
        self.program, self.store, self.budget = program, program.store, budget
        self._all_tuning, self.tuning = tuning, tuning.partial
        self._flow, self._share, self._tighter, self._moved = flow, self.tuning.share, False, 0
        self._loose = self.tuning.loose * budget.tolerance if program.primal_repair is not None else 0.0
        self._moves = np.zeros(self.store.requests.size, np.bool_)
        self._gap: float | None = None  # before the last step

    def step(self, now: Iterate) -> _Moved | None:
        """Take a step from an iterate.

        Return None if all prices are 0, if they are so poor that the cheapest columns violate a row by
        much of its bound, if a ray proves infeasibility, or if no further request changes and the rows cannot
        be satisfied more closely.
        """
        budget, store = self.budget, self.store
        if not now.y.any():
            return None
        gap, moves = now.certificate.relative.gap, self._moves
        met = self._loose or now.certificate.relative.primal <= budget.tolerance
        if self._gap is not None:
            if met and gap <= self.tuning.progress * self._gap:
                moves[:], self._moved = False, 0
            else:
                self._share *= self.tuning.more
        self._gap = gap
        near = self.tuning.near if self._flow is None else self.tuning.near_sampled
        seen = self._seen(now, near)
        now = self._choose(now, seen)
        if not self._loose and now.certificate.relative.primal > self.tuning.hopeless:
            return None
        if not self._more_move(now):
            return None
        x, y, pricing = now.x, now.y, now.pricing
        seen |= self._room(now.measures.activity, now.measures.weight) < near
        among, own = moves[pricing.slot], moves[x.slot]
        moved, kept = x.where(own), x.where(~own)
        slot, column = union(pricing.slot[among], pricing.column[among], moved.slot, moved.column)
        usage, sigma = row_activity(store, kept, threads=budget.threads), 0.0
        for _ in range(self.tuning.row_passes):
            working = gather(store, slot, column, LeftOut(usage, seen), tuning=self._all_tuning.working_set)
            steps = run_steps(
                store,
                working,
                "newton",
                budget,
                moved,
                y,
                self._aim(now, sigma),
                self._all_tuning,
                rays_of=self.program,
                hold=self._hold,
            )
            del working  # frees its memory before the next one is made
            if steps.ray is not None:
                return None
            moved, y, sigma = steps.x, steps.y, steps.sigma
            room = self._room(usage + row_activity(store, moved, threads=budget.threads), now.measures.weight)
            if budget.late() or not (~seen & (room < -budget.tolerance)).any():
                break
            seen |= room < near
        return _Moved(merged(kept, moved), y, slot.size)

    def meet_rows(self) -> None:
        """Make the following steps satisfy the rows, because their results are not repaired."""
        self._loose, self._tighter = 0.0, True

    def _seen(self, now: Iterate, near: float) -> NDArray[np.bool_]:
        """Return the rows that may matter: with a price, or near a bound."""
        flow, self._flow = now.measures.activity if self._flow is None else self._flow, None
        return (self._room(flow, now.measures.weight) < near) | (now.y != 0)

    def _more_move(self, now: Iterate) -> bool:
        """Select more requests to change; return False if there is nothing left to do.

        All requests change if most would, or if the prices are poor. If no further request changes, the steps
        are repeated, at most twice, to satisfy the rows more closely.
        """
        moves = self._moves
        far = not now.certificate.relative.gap <= self.tuning.worthless
        if far or np.count_nonzero(moves) > self.tuning.most * len(self.program):
            np.greater(self.store.requests.n_columns[: moves.size], 0, out=moves)
        count = int(np.count_nonzero(moves))
        if count > self._moved:
            self._moved = count
            return True
        if not self._loose:
            return False
        self._loose = 0.0 if self._tighter else self.tuning.tighter * self._loose
        self._tighter = True
        return True

    def _room(self, activity: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each row's slack, relative to its bound, or to its flow if that is larger."""
        rows = self.store.rows
        lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
        room = np.full(rows.size, np.inf)
        for left, bound in ((upper - activity, upper), (activity - lower, lower)):
            bounded = np.isfinite(bound)
            size = np.maximum(np.maximum(abs(bound[bounded]), weight[bounded]), 1e-300)
            room[bounded] = np.minimum(room[bounded], left[bounded] / size)
        return room

    def _aim(self, now: Iterate, sigma: float) -> Aim:
        """Return the aim of the steps, relative to the whole program."""
        goal = self._all_tuning.goal_share * self.budget.tolerance
        return Aim(goal, self.tuning.first_sigma, sigma, now.certificate.gap_denominator, self._loose)

    def _choose(self, now: Iterate, seen: NDArray[np.bool_]) -> Iterate:
        """Select more requests to change; reassign the other suboptimal ones to their cheapest columns."""
        loss = self._losses(now)
        losing = loss > _threshold(
            loss, self.tuning.ignored * self.budget.tolerance * now.certificate.gap_denominator
        )
        choices = Choices.of(self.store, now.y, now.pricing, seen, self.budget.threads)
        fixed = losing & (np.isinf(loss) | (choices.column == -2))
        fresh = np.flatnonzero(losing & ~fixed & ~self._moves)
        if fresh.size:
            stays = np.ones(loss.size, np.bool_)
            stays[fresh] = False
            x = merged(now.x.where(stays[now.x.slot]), choices.of_requests(self.store, fresh))
            now = Iterate.of(self.store, x, now.y, now.pricing, self.budget.threads)
        # the largest relative violation is a rough estimate of the share of the requests that must move
        over = 0.0 if self._loose else min(1.0, now.certificate.relative.primal)
        self._moves |= fixed | choices.nearest(int(max(self._share, over) * len(self.program)))
        log.debug(
            "   %d of %d requests change, %d are reassigned: gap %.1e, primal %.1e",
            np.count_nonzero(self._moves),
            len(self.program),
            fresh.size,
            now.certificate.relative.gap,
            now.certificate.relative.primal,
        )
        return now

    def _losses(self, now: Iterate) -> NDArray[np.float64]:
        """Return the losses of the requests; infinite for those that must change at any cost."""
        table, x = self.store.requests, now.x
        exact, total = table.exact[: table.size], table.total[: table.size]
        placed = np.bincount(x.slot, x.value, table.size)
        short = exact & (abs(total - placed) > _PLACED * total)
        # without a sum row columns are independent, and the request's marginal price is not meaningful
        return np.where(short | np.isinf(total), np.inf, now.measures.loss)


def _threshold(loss: NDArray[np.float64], ignored: float) -> float:
    """Return the largest loss such that all losses up to it sum to at most `ignored`."""
    ascending = np.sort(loss[loss > 0])
    within = int(np.searchsorted(np.cumsum(ascending), ignored, side="right"))
    return float(ascending[within - 1]) if within else 0.0


@kernel
def _choose(view, y, first, place, column, seen, begin, end, best, margin):  # type: ignore[no-untyped-def]
    for q in range(begin, end):
        if view.total[q] <= 0.0 or first[q] == first[q + 1]:
            continue
        matters = False
        usage, single = view.usage[q], view.total[q] < np.inf
        shift, stride = coefficients_of(view, usage)
        low, second, size, at = np.inf, np.inf, 0.0, -1
        if single and not view.exact[q]:
            low = 0.0
        for k in range(first[q], first[q + 1]):
            j = place[k]
            cost = cost_of(view, q, j)
            paid, owed = 0.0, abs(cost)
            enter, leave = entries_of(view, usage, j, j + 1)
            for e in range(enter, leave):
                part = y[np.uint32(view.row[e])] * view.coefficient[shift + stride * e]
                paid += part
                matters = matters or seen[np.uint32(view.row[e])]
                owed += abs(part)
            p = cost + paid
            size = max(size, owed)
            single = single and cap_of(view, q, j) >= view.total[q]
            if p < low:
                low, second, at = p, low, column[k]
            else:
                second = min(second, p)
        if single:
            best[q] = at
            if matters and second < np.inf and size > 0.0:
                margin[q] = (second - low) / size
        else:
            margin[q] = 0.0
