"""Steps in which only some requests of a large program move; the others keep their allocation.

At prices y the gap of an allocation x is a sum of losses, one a request and one a row:

    c'x - d(y) = sum_q { p_q'x_q - min p_q'z over z in X_q } + sum_i y_i (u_i - A_i x)      (y_i < 0: l_i)

A round after small changes starts with few losses, however many requests share the optimum.  So only those
with a loss of their own move, and of the requests that use a row with a loss, or a violated one, as many as
it takes to make up for it, and some more: a share `need_i` of them,

    need_i = patience * | what row i lacks, or has too much | / | A_i | |x|.

Which ones is decided by a hash of their slot, so that the choice is the same for any number of threads.
All others are held: their usage is taken off the rows.  Rows that are far from their bounds are left out
too, unless they are all that bounds a column, and come in if the step would violate them.  The certificate
is always that of the whole program, so a choice that was too narrow shows as a gap, and is widened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.parallel import chunk_bounds, run_chunks
from copter.solvers.inner.gather import Held, gather, union
from copter.solvers.proximal.steps import Aim, run_steps
from copter.store.allocation import SparseX, merged, row_activity
from copter.store.store import EXACTLY, NO_TOTAL
from copter.store.view import coefficients_of, entries_of, view_of

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.answer import Answer
    from copter.solvers.proximal.budget import Budget
    from copter.solvers.proximal.tuning import ProximalTuning

_PLACED = 1e-9
"""A request with sum(x) == total that is short of, or over, its total by a larger share of it must move."""


class Moved(NamedTuple):
    """Where a partial step ended: allocation, prices of row slots, columns that could move."""

    x: SparseX
    y: NDArray[np.float64]
    columns: int


class PartialSteps:
    """Partial steps of one solve; the requests that move accumulate.

    Parameters
    ----------
    program : ContinualProgram
    budget : Budget
    tuning : ProximalTuning
    flow : (row slots,) ndarray, optional
        A x, about, of an answer that the first step will come near to; by default that of the answer before.
    """

    def __init__(
        self,
        program: ContinualProgram,
        budget: Budget,
        tuning: ProximalTuning,
        flow: NDArray[np.float64] | None = None,
    ) -> None:
        self.program, self.store, self.budget = program, program.store, budget
        self._all_tuning, self.tuning = tuning, tuning.partial
        self._patience, self._flow = self.tuning.patience, flow
        self._last_y = np.zeros(self.store.rows.size)
        self._moves = np.zeros(self.store.requests.size, np.bool_)
        view, rows = view_of(self.store), self.store.rows.size
        self._needed = _needed(view, rows)
        self._chunks = bounds = chunk_bounds(view.n_columns)
        parts = run_chunks(
            lambda k: _reach(view, rows, bounds[k], bounds[k + 1]), bounds.size - 1, budget.threads
        )
        self._reach = np.sum(parts, axis=0)

    def step(self, now: Answer) -> Moved | None:
        """One step from an answer; None if this leads no further.

        That is if none moves that did not before, if a ray shows that there is no optimum, or if most
        requests have to move and nothing says which rows matter to them: if something does, all move.
        """
        x, y, pricing, measures = now.x, now.y, now.pricing, now.measures
        budget, store, moves = self.budget, self.store, self._moves
        before = np.count_nonzero(moves)
        self._choose(now)
        self._patience *= self.tuning.more_patience
        if np.count_nonzero(moves) > self.tuning.most * len(self.program):
            if self._flow is None and not x.slot.size:
                return None  # nothing says which rows matter
            np.greater(store.requests.n_columns[: moves.size], 0, out=moves)
        if np.count_nonzero(moves) == before:
            return None
        among, own = moves[pricing.slot], moves[x.slot]
        moved, kept = x.where(own), x.where(~own)
        slot, column = union(pricing.slot[among], pricing.column[among], moved.slot, moved.column)
        usage = row_activity(store, kept, threads=budget.threads)
        near = self.tuning.near if self._flow is None else self.tuning.near_sampled
        flow, self._flow = measures.activity if self._flow is None else self._flow, None
        seen = (self._room(flow, measures.weight) < near) | (y != 0) | self._needed
        aim = Aim(self._all_tuning.goal_share * budget.tolerance, self.tuning.first_sigma)
        for _ in range(self.tuning.row_passes):
            working = gather(store, slot, column, Held(usage, seen), tuning=self._all_tuning.working_set)
            steps = run_steps(self.program, working, "newton", budget, moved, y, aim, self._all_tuning)
            del working  # the next one takes as much memory
            if steps.ray is not None:
                return None
            moved, y = steps.x, steps.y
            room = self._room(usage + row_activity(store, moved, threads=budget.threads), measures.weight)
            if budget.late() or not (~seen & (room < -budget.tolerance)).any():
                break
            seen |= room < near
        self._last_y = y
        return Moved(merged(kept, moved), y, slot.size)

    def _room(self, activity: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is left of each row, relative to its bound, or to what flows through it if that is more."""
        rows = self.store.rows
        lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
        room = np.full(rows.size, np.inf)
        for left, bound in ((upper - activity, upper), (activity - lower, lower)):
            bounded = np.isfinite(bound)
            size = np.maximum(np.maximum(abs(bound[bounded]), weight[bounded]), 1e-300)
            room[bounded] = np.minimum(room[bounded], left[bounded] / size)
        return room

    def _choose(self, now: Answer) -> None:
        """Let more requests move."""
        need, loss = self._need(now), self._losses(now)
        limit = _threshold(loss, self.tuning.ignored * self.budget.tolerance * now.certificate.size)
        view, salt, moves, bounds = view_of(self.store), self.store.clock, self._moves, self._chunks
        run_chunks(
            lambda k: _mark(view, need, loss, limit, salt, bounds[k], bounds[k + 1], moves),
            bounds.size - 1,
            self.budget.threads,
        )

    def _losses(self, now: Answer) -> NDArray[np.float64]:
        """Losses of the requests; infinite for those that must move, whatever that costs."""
        table, x = self.store.requests, now.x
        relation, total = table.relation[: table.size], table.total[: table.size]
        placed = np.bincount(x.slot, x.value, table.size)
        short = (relation == EXACTLY) & (abs(total - placed) > _PLACED * total)
        # of boxes: their columns are independent, and the marginal price of the request says nothing
        return np.where(short | (relation == NO_TOTAL), np.inf, now.measures.loss)

    def _need(self, now: Answer) -> NDArray[np.float64]:
        """Share of the requests of each row that are to move, to make up for what it lacks."""
        rows, y, tuning = self.store.rows, now.y, self.tuning
        activity, weight = now.measures.activity, now.measures.weight
        lower, upper = rows.lower[: rows.size], rows.upper[: rows.size]
        # what a row is worth, in units of cost: prices of rows in different units do not compare
        extent = np.maximum(np.minimum(abs(upper), abs(lower)), weight)
        extent = np.where(np.isfinite(extent) & (extent > 0), extent, 1.0)
        worth, last_worth = abs(y) * extent, abs(self._last_y) * extent
        priced = worth > 1e-9 * worth.max(initial=0.0)
        lack = np.maximum(0.0, np.maximum(activity - upper, lower - activity))
        lack = np.where(priced, abs(np.where(y > 0, upper, lower) - activity), lack)
        movable = np.where((activity > upper) | (activity < lower), weight, self._reach)
        lack = np.minimum(lack, 1e100)
        need = self._patience * lack / np.maximum(movable, np.maximum(1e-9 * lack, 1e-100))
        need = np.maximum(need, np.where(priced, self._patience * tuning.least_need, 0.0))
        # rows that were short for what moved, but are not for all: others should make room on them
        top = last_worth.max(initial=0.0)
        blocking = (last_worth > tuning.short * top) & (worth <= tuning.short * top)
        missing = extent * (float((abs(y) * lack)[priced].sum()) / top if top else 0.0)
        room = np.minimum(1.0, self._patience * missing / np.maximum(weight, missing + 1e-300))
        return np.where(blocking, np.maximum(need, room), need)


def _threshold(loss: NDArray[np.float64], ignored: float) -> float:
    """Loss such that the smaller ones add up to no more than ``ignored``."""
    ascending = np.sort(loss[loss > 0])
    within = int(np.searchsorted(np.cumsum(ascending), ignored, side="right"))
    return float(ascending[within - 1]) if within else 0.0


@kernel
def _reach(view, rows, begin, end):  # type: ignore[no-untyped-def]
    """What could flow through each row: all columns of the requests [begin, end) at their totals."""
    reach = np.zeros(rows)
    for q in range(begin, end):
        n = view.n_columns[q]
        if n == 0 or view.relation[q] == NO_TOTAL:
            continue
        first, last = entries_of(view, view.usage[q], 0, n)
        shift, stride = coefficients_of(view, view.usage[q])
        for e in range(first, last):
            reach[np.uint32(view.row[e])] += abs(view.coefficient[shift + stride * e]) * view.total[q]
    return reach


@kernel
def _needed(view, rows):  # type: ignore[no-untyped-def]
    """Rows of the columns that nothing but rows may bound: without them a step could be endless."""
    needed = np.zeros(rows, np.bool_)
    for q in range(view.n_columns.size):
        if view.relation[q] != NO_TOTAL:
            continue
        pointer, entry = view.pointer_start[view.usage[q]], view.entry_start[view.usage[q]]
        for j in range(view.n_columns[q]):
            cap = view.upper[q] if view.upper_start[q] < 0 else view.uppers[view.upper_start[q] + j]
            if cap == np.inf:
                for e in range(entry + view.pointer[pointer + j], entry + view.pointer[pointer + j + 1]):
                    needed[np.uint32(view.row[e])] = True
    return needed


@kernel
def _draw(slot, salt):  # type: ignore[no-untyped-def]
    """A number in [0, 1) that looks random (splitmix64)."""
    z = np.uint64(slot) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt) * np.uint64(0xD1342543DE82EF95)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@kernel
def _mark(view, need, loss, limit, salt, begin, end, moves):  # type: ignore[no-untyped-def]
    """Mark the requests of [begin, end) that move too."""
    for q in range(begin, end):
        n = view.n_columns[q]
        if n == 0 or moves[q]:
            continue
        usage = view.usage[q]
        pointer, entry = view.pointer_start[usage], view.entry_start[usage]
        move = loss[q] > limit or view.relation[q] == NO_TOTAL
        if not move:
            share = 0.0
            for e in range(entry + view.pointer[pointer], entry + view.pointer[pointer + n]):
                share = max(share, need[np.uint32(view.row[e])])
            move = share > 0.0 and _draw(q, salt) < share
        moves[q] = move
