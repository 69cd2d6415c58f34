"""ChooseOneShim: one column for each request within the capacities, near the LP's optimum, and its gap.

For programs whose requests have a total of 1 (each chooses one column, or none if the sum row is "<=") and
whose resources are capacities, A >= 0 and A x <= u: Sia's, and any multiple-choice packing problem.

1. The LP's columns are placed in decreasing order of their fractions, while they fit. Requests that must have
   a column, and all of whose columns use something, come before all others.
2. A remaining request that must have a column takes the column that fits and is cheapest at the dual prices.
3. If requests that must have a column have none, ejection chains move other requests
   (:mod:`copter.shims.choose_one_chains`).
4. Requests move to other columns that fit, the moves with the largest gain first: at first while moves lower
   the cost at the dual prices, then while they lower the plain cost.
5. A request whose price is still far above its best price gets a cheaper column if other requests can make
   room at a smaller loss. Each of these other requests moves to the column with the least loss for each unit
   that it frees.

Remaining capacities are computed exactly, so no allocation exceeds a capacity, not even by a rounding error.

A solution of the proximal method is usually inside the optimal face, and so has more fractions than a vertex.
Steps 4 and 5 recover the loss of rounding them. The gap is relative to the LP's certified bound, so it also
bounds the loss against the best integral allocation.

Source: thesis section 4.4.1 (step 1); the other steps are measured by ``copter bench sia``.
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
from copter.shims.choose_one_chains import place_all
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
from copter.store.slabs import every_column

if TYPE_CHECKING:
    from copter.program.names import FrozenNames
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.store.store import ConstraintStore

_CANDIDATES = 40
"""Number of candidates per request above which the slack of the pricing pass is reduced."""
_TURNS, _CALLS = 250, 16
"""Largest number of unplaced requests that one call of step 3 processes, and largest number of its calls."""
_ALL_COLUMNS = 2_000_000
"""Largest number of columns of a program for which step 3 considers all columns of all requests. In larger
programs it considers, for requests that have a column, only columns near the best price."""


class Choice(Mapping[Hashable, Any]):
    """Mapping from request id to the chosen column: its number, or its name; None without a column.

    `slots`, `names`: slots by id and column names when the choice was made. `columns`: column numbers by
    slot, -1 without a column. `clock`: revision of the store when the choice was made.
    """

    def __init__(self, slots: Mapping[Hashable, int], columns: Ints, names: FrozenNames, clock: int) -> None:
        self._slots, self._columns, self._names, self.clock = slots, columns, names, clock

    @classmethod
    def of_program(cls, program: ContinualProgram, columns: Ints) -> Choice:
        """Return the choice of columns, by slot, for the present requests of a program."""
        return cls(program.slot_of, columns, program.column_names, program.store.clock)

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._slots)

    def __getitem__(self, request: Hashable) -> Any:
        if request not in self._slots:
            raise UnknownIdError(request, "must be a request that existed when the choice was made")
        slot = self._slots[request]
        return self._names.column(slot, int(self._columns[slot]))

    def __repr__(self) -> str:
        return f"<Choice of {len(self)} requests, {len(self.unplaced)} without a column>"

    @property
    def unplaced(self) -> tuple[Hashable, ...]:
        """Ids of the requests without a column."""
        return tuple(id for id, slot in self._slots.items() if self._columns[slot] < 0)

    def of(self, slots: Ints) -> Ints:
        """Return the chosen columns of the requests in some slots, -1 without a column."""
        return self._columns[slots]

    def still(self, program: ContinualProgram) -> SparseX:
        """Return the choice as an allocation of the program as it is now.

        A request whose columns were replaced gets the new column with the same name, if there is one.
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
        Column of each request, by id: a number or a name; None without a column.
    objective : float
        Cost, or value if the program is maximised. Infinite (minus infinity in a maximisation) if a request
        whose sum row is "==" has no column, because the result is then not an allocation of the program.
    gap : float
        Relative gap between objective and certified bound, defined as in
        :func:`copter.proof.whole.answer_gap`.
    seconds : float
        Time of the rounding.
    """

    choice: Choice
    objective: float
    gap: float
    seconds: float

    @property
    def unplaced(self) -> tuple[Hashable, ...]:
        """Ids of the requests without a column, with either kind of sum row."""
        return self.choice.unplaced


class _Solves(Protocol):
    """A solver for integral allocations."""

    def solve(self, program: ContinualProgram) -> Solution:
        """Solve the program; the solution has an integral allocation if one was found."""


class ChooseOneShim(Checked):
    """Rounding of a fractional solution to one column for each request, within the capacities.

    Parameters
    ----------
    unplaced : "error" or "allow"
        Action if a request whose sum row is "==" gets no column: raise
        :class:`copter.errors.UnplacedError`, or return an allocation without it, whose objective is infinite.
    exact : solver, optional
        Solver that :meth:`round` calls if such a request gets no column, before the action `unplaced`. For
        example ``make_solver("copter-exact", time_limit=10)``. Requests must be added with ``integral=True``.

    Examples
    --------
    >>> from copter import ChooseOneShim, ContinualProgram, make_solver
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=3)
    >>> for job in ("a", "b"):
    ...     program.add_request(job, costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> rounded = ChooseOneShim().round(program, make_solver("copter").solve(program))
    >>> sorted(rounded.choice.values()), round(rounded.objective, 6), rounded.unplaced
    ([0, 1], -2.8, ())
    """

    def __init__(
        self, *, unplaced: Literal["error", "allow"] = "error", exact: _Solves | None = None
    ) -> None:
        if unplaced not in ("error", "allow"):
            raise SettingError("ChooseOneShim", "unplaced", unplaced, 'must be "error" or "allow"')
        if exact is not None and not hasattr(exact, "solve"):
            why = 'must be a solver for integral allocations, such as make_solver("copter-exact")'
            raise SettingError("ChooseOneShim", "exact", exact, why)
        self.unplaced, self.exact = unplaced, exact

    @suggests
    def round(self, program: ContinualProgram, solution: Solution) -> Rounded:
        """Round a solution to an integral allocation.

        Parameters
        ----------
        program : ContinualProgram
            The program, not edited since the solve.
        solution : Solution
            Its solution. The allocation of a solver for integral allocations is returned unchanged.

        Returns
        -------
        Rounded
            Column of each request, objective and gap.

        Raises
        ------
        UnplacedError
            If no column fits for a request that must have one; the error names these requests and contains
            the allocation of the others.
        CopterError
            If the solution has no allocation (:class:`copter.errors.NoAllocationError`), if the program was
            edited since the solve, if the solution belongs to another program, or if the program is not a
            multiple-choice packing problem. The message names the row or request.
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
        """Return the last allocation as far as it still fits; the fallback of a round without a solution.

        A request keeps its column as long as the resources suffice. A request that must have a column and has
        none takes the cheapest column that fits. No other request gets a new column.

        Parameters
        ----------
        program : ContinualProgram
            The program in its present state.
        last : Rounded, optional
            Result for this program at an earlier time; None for an empty allocation.

        Returns
        -------
        Rounded
            The allocation; its gap is infinite, because there is no bound.

        Raises
        ------
        UnplacedError
            If no column fits for a request that must have one.
        CopterError
            If the program is not a multiple-choice packing problem.
        """
        begin = perf_counter()
        _check(program)
        store, table = program.store, program.store.requests
        x = NOTHING if last is None else last.choice.still(program)
        left = left_of(row_uppers(store), rounded_rows(store))
        chosen, cost = _placed(store, x, np.zeros(store.rows.size), left)
        must = table.exact[: table.size] & (table.n_columns[: table.size] > 0)
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
    """Return a solution that is already integral as a Rounded."""
    assert solution.integer is not None
    given = np.full(program.store.requests.size, -1)
    given[solution.nonzeros.slot] = solution.nonzeros.column
    choice = Choice.of_program(program, given)
    return Rounded(choice, solution.objective, solution.integer.gap, perf_counter() - begin)


def _unserved(program: ContinualProgram, choice: Choice) -> tuple[Hashable, ...]:
    """Return the ids of the requests that must have a column and have none."""
    exact = program.store.requests.exact
    return tuple(id for id in choice.unplaced if exact[program.slot_of[id]])


def _rounded(store: ConstraintStore, solution: Solution) -> tuple[Ints, float, int]:
    """Return (column by slot, -1 for none; cost; number of unplaced requests that must have a column)."""
    table, y = store.requests, solution.y
    upper = row_uppers(store)
    left = left_of(upper, rounded_rows(store))
    n_columns, exact = table.n_columns[: table.size], table.exact[: table.size]
    requests = np.flatnonzero(n_columns)
    chosen, best = _placed(store, solution.nonzeros, y, left)
    pricing, reach = _priced(store, solution, requests.size, left[::2])
    lacking = (chosen[requests] < 0) & exact[requests]
    far = best[requests] > pricing.marginal[requests] + reach
    if lacking.any():
        far |= lacking | (store.n_variables <= _ALL_COLUMNS)
    first, slots, columns = offers(n_columns, requests, chosen, far, pricing.slot, pricing.column)
    view, place = store.executor.columns(slots, columns)
    items, has = read_columns(view, y, slots, place, columns), np.arange(requests.size)
    if lacking.any():
        strict, found = exact[requests], np.zeros(requests.size, np.int64)
        for _ in range(_CALLS):
            if not place_all(first, items, has, strict, left, _TURNS, found):
                break
    high, low, unserved = improve(
        exact, requests, first, items, has, chosen, left, upper, pricing.marginal, solution.gap_denominator
    )
    return chosen, np.inf if unserved else high + low, unserved


def _placed(store: ConstraintStore, x: SparseX, y: Floats, left: Floats) -> tuple[Ints, Floats]:
    """Return column (-1 for none) and price of each request after steps 1 and 2; `left` is changed."""
    table = store.requests
    n_columns, bound = table.n_columns[: table.size], bound_requests(store)
    chosen, price = np.full(table.size, -1), np.zeros(table.size)
    view, place = store.executor.columns(x.slot, x.column)
    columns = read_columns(view, y, x.slot, place, x.column)
    place_fractions(columns, x.slot, x.value, bound, chosen, price, left)
    without = np.flatnonzero((chosen < 0) & table.exact[: table.size] & (n_columns > 0))
    if without.size:
        slot, column = every_column(without, n_columns[without])
        view, place = store.executor.columns(slot, column)
        place_cheapest(read_columns(view, y, slot, place, column), slot, bound, chosen, price, left)
    return chosen, price


def _chosen(solution: Solution) -> bool:
    """Return whether an allocation gives each request one whole column or none."""
    x = solution.nonzeros
    return bool((x.value == 1.0).all() and (np.diff(x.slot) > 0).all())


def _check(program: ContinualProgram) -> None:
    """Raise CopterError if the program has rows or requests that the shim cannot round."""
    what, slot = unsound(program.store)
    if what == NO_TOTAL_OF_ONE:
        request = program.request_ids[int(np.flatnonzero(program.request_slots == slot)[0])]
        raise CopterError(
            f"request {request!r}: total: must be 1; ChooseOneShim chooses one column a request"
        )
    if what in (ROW_WITH_LOWER, NEGATIVE):
        row = program.resource_ids[int(np.flatnonzero(program.resource_slots == slot)[0])]
        lower = f"resource {row!r}: lower: must be infinite"
        negative = f"resource {row!r}: usage: must not have a negative coefficient"
        why = lower if what == ROW_WITH_LOWER else negative
        raise CopterError(f"{why}; ChooseOneShim supports capacities only")


def _priced(store: ConstraintStore, solution: Solution, requests: int, left: Floats) -> tuple[Pricing, float]:
    """Return a pricing pass, and the excess over the best price up to which a move to a column can gain.

    A move from column j to column k changes the cost by p_k - p_j - y'(a_k - a_j), and it fits if a_k - a_j
    <= left. So only columns with p_k < p_j + y'left can gain. For most requests these are the columns near
    the best price, which the solver's last pass contains. For the few requests whose price is far above their
    best price, all columns are considered.
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
