"""ChooseOneShim: one column a request, capacities kept, close to the LP's optimum and with a certified gap.

For programs whose requests have a total of 1 (each picks one column, or none if the sum row is "<=") and
whose resources are capacities, A >= 0 and A x <= u: Sia's, and any multiple-choice packing problem.

1. The LP's columns are placed, heaviest fraction first, while they fit; requests that have no free way out
   (every column uses something) come before the others.
2. A request that is left takes its cheapest column, at the dual prices, that still fits.
3. Where requests that must have a column have none, others are moved out of their way, and others out of
   theirs (:mod:`copter.shims.choose_one_chains`).
4. Every request may move to a column that fits and lowers its cost at the dual prices, then its plain
   cost, largest gain first, until no move gains.
5. Requests that are still far from their best price get it if others can make room at less cost: each of
   those moves to the column that loses least for each unit that it frees.

What is left of a capacity is counted exactly: no allocation overdraws one, by however little.

A solution from the proximal path lies on the optimal face, not at a vertex, so steps 4 and 5 matter: they
recover what a fraction more than a vertex has would lose.  The gap is measured against the LP's certified
bound, so it bounds the loss against the best integral allocation too.

Source: thesis section 4.4.1 (step 1); the rest is measured in ``copter bench sia``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from copter.arrays import Floats, Ints
from copter.errors import CopterError, SettingError, UnknownIdError, UnplacedError
from copter.keywords import Checked, suggests
from copter.parallel import dot
from copter.program.sense import in_sense
from copter.proof.pricing import Pricing, price
from copter.proof.whole import answer_gap
from copter.shims.choose_one_chains import place_everybody
from copter.shims.choose_one_columns import left_of, read_columns
from copter.shims.choose_one_moves import ZERO_TOLERANCE, improve, offers
from copter.shims.choose_one_placing import (
    NEGATIVE,
    NO_TOTAL_OF_ONE,
    ROW_WITH_LOWER,
    bound_requests,
    place_cheapest,
    place_fractions,
    rounded_rows,
    unsound,
)
from copter.solution import check_roundable
from copter.store.allocation import NOTHING, SparseX
from copter.store.reading import row_uppers
from copter.store.store import EXACTLY, slice_indices

if TYPE_CHECKING:
    from copter.program.names import FrozenNames
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.store.store import ConstraintStore

_CANDIDATES = 40
_TURNS, _CALLS = 250, 16
"""Of requests without a column in one call of step 3, and how many calls there are at most."""
_ALL_COLUMNS = 2_000_000
"""Up to so many, step 3 looks at all columns of everybody; else at those near the best price."""


class Choice(Mapping[Hashable, Any]):
    """Chosen column by request id, its name if it has one, None for none; read as it is asked for.

    `slots`, `names`: when the choice was made. `columns`: numbers, -1 for none. `clock`: the store's revision
    then.
    """

    def __init__(self, slots: Mapping[Hashable, int], columns: Ints, names: FrozenNames, clock: int) -> None:
        self._slots, self._columns, self._names, self.clock = slots, columns, names, clock

    @classmethod
    def of_program(cls, program: ContinualProgram, columns: Ints) -> Choice:
        """Return the choice of these columns by the requests that a program has now."""
        return cls(program.slot_of, columns, program.column_names, program.store.clock)

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._slots)

    def __getitem__(self, request: Hashable) -> Any:
        if request not in self._slots:
            raise UnknownIdError(request, "was no request when this choice was made")
        slot = self._slots[request]
        return self._names.column(slot, int(self._columns[slot]))

    def __repr__(self) -> str:
        return f"<Choice of {len(self)} requests, {len(self.unplaced)} without a column>"

    @property
    def unplaced(self) -> tuple[Hashable, ...]:
        """Ids of the requests that have no column."""
        return tuple(id for id, slot in self._slots.items() if self._columns[slot] < 0)

    def of(self, slots: Ints) -> Ints:
        """Numbers of the chosen columns of the requests in some slots, -1 for none."""
        return self._columns[slots]

    def still(self, program: ContinualProgram) -> SparseX:
        """The choice of the requests that are there with the columns of then, as an allocation.

        A request whose columns were replaced has the one of the same name, if there is one.
        """
        slots, generation, names = (
            program.request_slots,
            program.store.requests.generation,
            program.column_names,
        )
        same = slots[(slots < self._columns.size) & (generation[slots] <= self.clock)]
        same = same[self._columns[same] >= 0]
        fresh = np.flatnonzero(generation[slots] > self.clock)
        ids, others = program.request_ids if fresh.size else [], []
        for k in fresh.tolist():
            now = names.of(int(slots[k]))
            name = self[ids[k]] if now is not None and ids[k] in self._slots else None
            if now is not None and name in now:
                others.append((int(slots[k]), now.index(name)))
        by_name = np.array(others, np.int64).reshape(-1, 2)
        slot = np.concatenate((same, by_name[:, 0]))
        column = np.concatenate((self._columns[same], by_name[:, 1]))
        order = np.argsort(slot)
        return SparseX(slot[order], column[order], np.ones(slot.size))


@dataclass(frozen=True)
class Rounded:
    """An integral allocation.

    Attributes
    ----------
    choice : Choice
        Column of each request, or its name, None for none: a mapping by id, and arrays of numbers by slot.
    objective : float
        Its cost, or its value if the program is maximised. Infinite, in a maximisation minus infinity, if a
        request whose sum row is "==" got no column: that is no allocation of the program.
    gap : float
        |objective - bound| / size, with the certified bound and the size of the solution's own gap.
    """

    choice: Choice
    objective: float
    gap: float
    seconds: float

    @property
    def unplaced(self) -> tuple[Hashable, ...]:
        """Ids of the requests that have no column, of both kinds of sum rows."""
        return self.choice.unplaced


class _Solves(Protocol):
    """A solver of integral allocations, as the shim asks it."""

    def solve(self, program: ContinualProgram) -> Solution:
        """Answer with an integral allocation, if it finds one."""


class ChooseOneShim(Checked):
    """Rounds a fractional solution to one column a request within the capacities.

    Parameters
    ----------
    unplaced : "error" or "allow"
        What to do if a request whose sum row is "==" gets no column: raise
        :class:`copter.errors.UnplacedError`, or return an allocation without it, whose objective is infinite.
    exact : solver, optional
        Asked before that, as ``make_solver("copter-exact", deadline=10)``: it has until its own deadline to
        find an allocation of everybody.  Requests must be added with ``integral=True``.
    """

    def __init__(
        self, *, unplaced: Literal["error", "allow"] = "error", exact: _Solves | None = None
    ) -> None:
        if unplaced not in ("error", "allow"):
            raise SettingError("ChooseOneShim", "unplaced", unplaced, 'is neither "error" nor "allow"')
        if exact is not None and not hasattr(exact, "solve"):
            why = 'is no solver: give one of integers, make_solver("copter-exact")'
            raise SettingError("ChooseOneShim", "exact", exact, why)
        self.unplaced, self.exact = unplaced, exact

    @suggests
    def round(self, program: ContinualProgram, solution: Solution) -> Rounded:
        """Integral allocation near ``solution``.

        Parameters
        ----------
        solution : Solution
            Its answer as it is now; one that is integral already stays as it is.

        Raises
        ------
        UnplacedError
            No column fits for a request that must have one; it names them, and has the rest.
        CopterError
            There is no allocation (:class:`copter.errors.NoAllocationError`), the program was edited since,
            it is of another program, or it is not a multiple-choice packing problem: names the row or
            request that shows it.
        """
        begin = perf_counter()
        check_roundable(program, solution)
        if solution.integer is not None and _chosen(solution):
            return _as_it_is(program, solution, begin)
        _check(program)
        chosen, objective, unserved = _rounded(program.store, solution)
        if unserved and self.exact is not None:
            exactly = self.exact.solve(program)
            if exactly.integer is not None and exactly.found and _chosen(exactly):
                return _as_it_is(program, exactly, begin)
        rounded = Rounded(
            Choice.of_program(program, chosen),
            in_sense(objective, program.sense),
            answer_gap(solution, objective),
            perf_counter() - begin,
        )
        return self._served(program, rounded, unserved)

    @suggests
    def repair(self, program: ContinualProgram, last: Rounded | None) -> Rounded:
        """Return the last allocation as far as it still fits, without a solution: a late round's fallback.

        A request keeps its column while the resources suffice. One that must have a column and has none takes
        the cheapest that fits. No other request gets a new column.

        Parameters
        ----------
        last : Rounded, optional
            Answer for this program at an earlier time; None for an empty one.

        Returns
        -------
        Rounded
            Its gap is infinite: there is no bound.

        Raises
        ------
        UnplacedError
            For the reason given in :meth:`round`.
        CopterError
            The program is not a multiple-choice packing problem.
        """
        begin = perf_counter()
        _check(program)
        store, table = program.store, program.store.requests
        x = NOTHING if last is None else last.choice.still(program)
        left = left_of(row_uppers(store), rounded_rows(store))
        chosen, cost = _placed(store, x, np.zeros(store.rows.size), left)
        must = (table.relation[: table.size] == EXACTLY) & (table.n_columns[: table.size] > 0)
        lacking = must & (chosen < 0)
        unserved = int(np.count_nonzero(lacking))
        objective = math.inf if unserved else float(cost[chosen >= 0].sum())
        choice, objective = Choice.of_program(program, chosen), in_sense(objective, program.sense)
        return self._served(program, Rounded(choice, objective, math.inf, perf_counter() - begin), unserved)

    def _served(self, program: ContinualProgram, rounded: Rounded, unserved: int) -> Rounded:
        if unserved and self.unplaced == "error":
            raise UnplacedError(_unserved(program, rounded.choice), rounded)
        return rounded


def _as_it_is(program: ContinualProgram, solution: Solution, begin: float) -> Rounded:
    """A solution that is integral already."""
    assert solution.integer is not None
    given = np.full(program.store.requests.size, -1)
    given[solution.nonzeros.slot] = solution.nonzeros.column
    choice = Choice.of_program(program, given)
    return Rounded(choice, solution.objective, solution.integer.gap, perf_counter() - begin)


def _unserved(program: ContinualProgram, choice: Choice) -> tuple[Hashable, ...]:
    """Requests without a column that must have one."""
    relation = program.store.requests.relation
    return tuple(id for id in choice.unplaced if relation[program.slot_of[id]] == EXACTLY)


def _rounded(store: ConstraintStore, solution: Solution) -> tuple[Ints, float, int]:
    """(column of each request by slot, -1 for none; cost; how many must have a column and have none)."""
    table, y = store.requests, solution.y
    upper = row_uppers(store)
    left = left_of(upper, rounded_rows(store))
    n_columns, relation = table.n_columns[: table.size], table.relation[: table.size]
    requests = np.flatnonzero(n_columns)
    chosen, best = _placed(store, solution.nonzeros, y, left)
    pricing, reach = _priced(store, solution, requests.size, left[::2])
    lacking = (chosen[requests] < 0) & (relation[requests] == EXACTLY)
    far = best[requests] > pricing.marginal[requests] + reach
    if lacking.any():
        far |= lacking | (store.n_variables <= _ALL_COLUMNS)
    first, slots, columns = offers(n_columns, requests, chosen, far, pricing.slot, pricing.column)
    view, place = store.executor.columns(slots, columns)
    items, has = read_columns(view, y, slots, place, columns), np.arange(requests.size)
    if lacking.any():
        strict, found = relation[requests] == EXACTLY, np.zeros(requests.size, np.int64)
        for _ in range(_CALLS):
            if not place_everybody(first, items, has, strict, left, _TURNS, found):
                break
    high, low, unserved = improve(
        relation, requests, first, items, has, chosen, left, upper, pricing.marginal, solution.gap_denominator
    )
    return chosen, np.inf if unserved else high + low, unserved


def _placed(store: ConstraintStore, x: SparseX, y: Floats, left: Floats) -> tuple[Ints, Floats]:
    """Column of each request, -1 for none, and its price, from the fractional answer; ``left`` is changed."""
    table = store.requests
    n_columns, bound = table.n_columns[: table.size], bound_requests(store)
    chosen, price = np.full(table.size, -1), np.zeros(table.size)
    view, place = store.executor.columns(x.slot, x.column)
    columns = read_columns(view, y, x.slot, place, x.column)
    place_fractions(columns, x.slot, x.value, bound, chosen, price, left)
    without = np.flatnonzero((chosen < 0) & (table.relation[: table.size] == EXACTLY) & (n_columns > 0))
    if without.size:
        sizes = n_columns[without]
        slot, column = np.repeat(without, sizes), slice_indices(np.zeros_like(sizes), sizes)
        view, place = store.executor.columns(slot, column)
        place_cheapest(read_columns(view, y, slot, place, column), slot, bound, chosen, price, left)
    return chosen, price


def _chosen(solution: Solution) -> bool:
    """Whether an allocation gives each request one whole column, or none."""
    x = solution.nonzeros
    return bool((x.value == 1.0).all() and (np.diff(x.slot) > 0).all())


def _check(program: ContinualProgram) -> None:
    """Raise if the program has rows or requests that this shim cannot round."""
    what, slot = unsound(program.store)
    if what == NO_TOTAL_OF_ONE:
        request = program.request_ids[int(np.flatnonzero(program.request_slots == slot)[0])]
        raise CopterError(f"request {request!r} has no total of 1: this shim chooses one column a request")
    if what in (ROW_WITH_LOWER, NEGATIVE):
        row = program.resource_ids[int(np.flatnonzero(program.resource_slots == slot)[0])]
        lower = f"resource {row!r} has a lower bound"
        negative = f"a column has a negative coefficient of resource {row!r}"
        why = lower if what == ROW_WITH_LOWER else negative
        raise CopterError(f"{why}: this shim rounds capacities only")


def _priced(store: ConstraintStore, solution: Solution, requests: int, left: Floats) -> tuple[Pricing, float]:
    """A pass at the prices, and how far above the best price the columns are to which a move can gain.

    A move from column j to column k that fits changes the cost by p_k - p_j - y'(a_k - a_j), and a_k - a_j <=
    left.  So only columns with p_k < p_j + y'left can gain: those near the best price (the solver's last pass
    has them), and, for the few requests that got much less than their best, all of them.
    """
    y, pricing = solution.y, solution.pricing
    slack = dot(y, np.where(y > 0, np.maximum(left, 0.0), 0.0))
    if pricing is None or pricing.clock != store.clock or np.isnan(pricing.slack):
        pricing = price(store, y, slack=slack)
        least = ZERO_TOLERANCE * slack
        while pricing.slot.size > _CANDIDATES * requests and slack > 0.0:
            slack = 0.25 * slack if slack > least else 0.0
            pricing = price(store, y, slack=slack)
    return pricing, max(slack, pricing.slack)
