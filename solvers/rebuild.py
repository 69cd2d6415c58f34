"""Variant of copter without differential edits: each round builds a new program and solves it warm.

The variant measures the benefit of the store.  In every round the content of the given program is added, in
bulk, to a new :class:`copter.program.program.ContinualProgram`, as by a user who keeps no program between
rounds. The new program has effective costs (no scales, no overrides) and private columns (no shared columns).
Last round's allocation and prices are transferred by id, so that the time difference to ``copter`` is the
time of the build.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted, check
from copter.program.program import ContinualProgram
from copter.solution import UNKNOWN, ColdStart, Solution, Status, Timings, make_solution
from copter.solvers.features import Feature
from copter.solvers.memory import LastX, LastY, churn_base, given_starts
from copter.solvers.proximal.solver import ProximalPoint
from copter.store.allocation import SparseX
from copter.store.compiled import pieces
from copter.store.reading import effective_costs, row_positions, upper_bounds, usage_columns
from copter.store.store import EXACTLY, NO_TOTAL, ConstraintStore

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from copter.proof.pricing import Pricing
    from copter.store.edit import Pending


class Rebuild(ProximalPoint):
    """Proximal point method, warm-started, on a program that is rebuilt every round.

    Parameters
    ----------
    **settings
        Settings of :class:`copter.solvers.proximal.solver.ProximalPoint`; the build counts towards the
        deadline.
    """

    features = ProximalPoint.features & ~(
        Feature.IN_PLACE | Feature.DIFFERENTIAL_EDITS | Feature.GIVEN_START | Feature.SAVED_STATE
    )

    def __init__(self, name: str = "copter-rebuild", **settings: Any) -> None:
        super().__init__(name, **settings)
        self._round: _LastRound | None = None

    def reset(self) -> None:
        """Forget the last solution."""
        super().reset()
        self._round = None

    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Build a copy of the program and solve it from the last solution."""
        starts = program.take_starts()
        done = False
        try:
            try:
                copy = Copy(program)
            except Interrupted:
                return self._unbuilt(program, clock)
            self._carry_over(copy, starts)
            solution, done = self._solve_copy(copy, clock)
            return solution
        finally:
            if not done:
                program.return_starts(starts)

    def _solve_copy(self, copy: Copy, clock: Clock) -> tuple[Solution, bool]:
        """Return the copy's solution in the original's slots, and if the next solve can start from it."""
        program, edit = copy.original, clock()
        found = super()._solve(copy.program, clock)
        y = copy.original_y(found.y)
        solution = make_solution(
            program,
            copy.original_x(found.nonzeros) if found.found else None,
            y,
            status=found.status,
            reason=found.reason,
            iterations=found.iterations,
            timings=Timings(edit=edit, solve=found.timings.solve - edit),
            warm=found.start,
            last=churn_base(self._round.x if self._round else None, program),
            ray=found.ray,
            details=found.details,
            certificate=found.certificate,
            pricing=copy.original_pricing(found.pricing),
        )
        last = self._state.x
        if last is None or last.program is not copy.program:
            return solution, False
        self._round = _LastRound(LastX.of(program, copy.original_x(last.x)), LastY.of(program, y))
        return solution, True  # prices are a start even without an allocation

    def _unbuilt(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Return a solution without an allocation, because the deadline was over before the build."""
        return make_solution(
            program,
            None,
            np.zeros(program.store.rows.size),
            status=Status.CANCELLED if clock.cancelled else Status.DEADLINE,
            reason=clock.why(),
            iterations=0,
            timings=Timings(edit=clock()),
            warm=ColdStart.NOT_BUILT.start(),
            certificate=UNKNOWN,
        )

    def _carry_over(self, copy: Copy, pending: Pending) -> None:
        """Give the solver last round's allocation and prices, and the starts that edits specified."""
        last = None
        if self._round is not None and self._round.x.program is copy.original:
            last, y = self._round.x, copy.fresh_y(self._round.y.surviving())
            self.start_from(copy.program, copy.fresh_x(last.surviving()), y)
        starts = given_starts(pending, last)
        if starts:
            ids = dict(zip(copy.original.request_slots.tolist(), copy.original.request_ids, strict=True))
            for slot, (columns, values) in starts.items():
                start = dict(zip(columns.tolist(), values.tolist(), strict=True))
                copy.program.update_request(ids[slot], start=start)


@dataclass(frozen=True)
class _LastRound:
    """Allocation and prices of the last round, by slots of the given program."""

    x: LastX
    y: LastY


class Copy:
    """A program built from the content of `original`, with the same ids, and the maps between the slots."""

    def __init__(self, original: ContinualProgram) -> None:
        self.original, self.program = original, ContinualProgram()
        store, table = original.store, original.store.requests
        ids, slots = original.request_ids, original.request_slots
        self._rows = original.resource_slots
        self.program.add_resources(**vars(original.resources[:]))
        position = row_positions(store, self._rows)
        # One call adds requests of one relation and one integrality.
        kind = 2 * table.relation[slots] + table.integral[slots]
        groups = [np.flatnonzero(kind == each) for each in np.unique(kind)]
        for group in groups:
            for part in pieces(table.n_columns[slots[group]]):
                check()
                some = group[part]
                _add_requests(self.program, [ids[k] for k in some.tolist()], store, slots[some], position)
        for slot, id in zip(slots.tolist(), ids, strict=True):
            if slot in store.terms:
                self.program.update_request(id, term=original.requests[id].term)
        # The new program numbers its slots 0, 1, ... in the order of the calls.
        self._slots = slots[np.concatenate(groups)] if groups else slots

    def fresh_x(self, x: SparseX) -> SparseX:
        """Return an allocation of the original program in slots of the new one."""
        position = np.full(self.original.store.requests.size, -1)
        position[self._slots] = np.arange(self._slots.size)
        return _by_slot(position[x.slot], x)

    def original_x(self, x: SparseX) -> SparseX:
        """Return an allocation of the new program in slots of the original one."""
        return _by_slot(self._slots[x.slot], x)

    def original_pricing(self, pricing: Pricing | None) -> Pricing | None:
        """Return the result of a pricing pass over the new program in slots of the original, for shims."""
        if pricing is None:
            return None
        store = self.original.store
        marginal, forced = np.zeros(store.requests.size), np.zeros(store.requests.size)
        marginal[self._slots], forced[self._slots] = pricing.marginal, pricing.forced
        slot = self._slots[pricing.slot]
        order = np.argsort(slot, kind="stable")
        return pricing._replace(
            marginal=marginal,
            forced=forced,
            slot=slot[order],
            column=pricing.column[order],
            clock=store.clock,
        )

    def fresh_y(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return prices of the original program's rows in row slots of the new one."""
        return y[self._rows]

    def original_y(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return prices of the new program's rows in row slots of the original one."""
        prices = np.zeros(self.original.store.rows.size)
        prices[self._rows] = y
        return prices


def _by_slot(slot: NDArray[np.int64], x: SparseX) -> SparseX:
    """Return ``x`` with new slots, sorted by slot."""
    order = np.argsort(slot, kind="stable")
    return SparseX(slot[order], x.column[order], x.value[order])


def _add_requests(
    program: ContinualProgram,
    ids: list[Hashable],
    store: ConstraintStore,
    slots: NDArray[np.int64],
    position: NDArray[np.int32],
) -> None:
    """Add requests of one relation and integrality, with the content of ``slots`` in ``store``."""
    table = store.requests
    relation: Literal["<=", "=="] = "==" if table.relation[slots[0]] == EXACTLY else "<="
    upper = upper_bounds(store, slots)
    program.add_requests(
        ids,
        effective_costs(store, slots),
        table.n_columns[slots],
        _matrix(store, slots, position),
        totals=None if table.relation[slots[0]] == NO_TOTAL else table.total[slots],
        relation=relation,
        upper=upper if (upper != upper[0]).any() else float(upper[0]),
        integral=bool(table.integral[slots[0]]),
    )


def _matrix(store: ConstraintStore, slots: NDArray[np.int64], position: NDArray[np.int32]) -> csc_array:
    """Return the resource coefficients of requests as a matrix of shape (resources, columns)."""
    from scipy.sparse import csc_array

    columns = usage_columns(store, slots, position)
    indptr = np.concatenate(([0], np.cumsum(columns.counts)))
    shape = (int((position >= 0).sum()), columns.counts.size)
    return csc_array((columns.value, columns.row, indptr), shape=shape)
