"""ChooseOneShim: one column a request, capacities kept, close to the LP's optimum and with a certified gap.

For programs whose requests have a total of 1 (each picks one column, or none if the sum row is "<=") and
whose resources are capacities, A >= 0 and A x <= u: Sia's, and any multiple-choice packing problem.

1. The LP's columns are placed, heaviest fraction first, while they fit; requests that have no free way out
   (every column uses something) come before the others.
2. A request that is left takes its cheapest column, at the dual prices, that still fits.
3. Every request may move to a column that fits and lowers its cost at the dual prices, then its plain
   cost, largest gain first, until no move gains.
4. Requests that are still far from their best price get it if others can make room at less cost: each of
   those moves to the column that loses least for each unit that it frees.

A solution from the proximal path lies on the optimal face, not at a vertex, so steps 3 and 4 matter: they
recover what a fraction more than a vertex has would lose.  The gap is measured against the LP's certified
bound, so it bounds the loss against the best integral allocation too.

Source: thesis section 4.4.1 (step 1); the rest is measured in ``copter bench sia``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.parallel import dot
from copter.proof.pricing import Pricing, price
from copter.shims.choose_one_columns import SLACK, read_columns
from copter.shims.choose_one_moves import DUST, improve, offers
from copter.shims.choose_one_placing import (
    NEGATIVE,
    NO_TOTAL_OF_ONE,
    ROW_WITH_LOWER,
    bound_requests,
    place_cheapest,
    place_fractions,
    unsound,
)
from copter.solution import check_roundable
from copter.store.store import EXACTLY, slice_indices

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.store.allocation import SparseX
    from copter.store.store import ConstraintStore

_CANDIDATES = 40


class Choice(Mapping[Hashable, int]):
    """Chosen column by request id, -1 for none, read from an array as it is asked for.

    Parameters
    ----------
    slots : mapping of request id to slot
        When the choice was made.
    columns : (request slots,) int array
    """

    def __init__(self, slots: Mapping[Hashable, int], columns: NDArray[np.int64]) -> None:
        self._slots, self._columns = slots, columns

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._slots)

    def __getitem__(self, request: Hashable) -> int:
        return int(self._columns[self._slots[request]])

    def of(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Chosen columns of the requests in some slots.

        Parameters
        ----------
        slots : (k,) int array

        Returns
        -------
        (k,) int array
        """
        return self._columns[slots]


@dataclass(frozen=True)
class Rounded:
    """An integral allocation.

    Attributes
    ----------
    choice : Choice
        Column of each request, -1 for none: a mapping by id, and arrays by slot.
    objective : float
        Its cost.
    gap : float
        (objective - bound) / size, with the certified bound; size is what requests with a choice pay;
        infinite if a request whose sum row is "==" got no column.
    seconds : float
    """

    choice: Choice
    objective: float
    gap: float
    seconds: float


class ChooseOneShim:
    """Rounds a fractional solution to one column a request within the capacities."""

    def round(self, program: ContinualProgram, solution: Solution) -> Rounded:
        """Integral allocation near ``solution``.

        Parameters
        ----------
        program : ContinualProgram
        solution : Solution
            Its answer as it is now; one that is integral already stays as it is.

        Returns
        -------
        Rounded

        Raises
        ------
        CopterError
            There is no allocation (:class:`copter.errors.NoAllocationError`), the program was edited since,
            or it is not a multiple-choice packing problem: names the row or request that shows it.
        """
        begin = perf_counter()
        check_roundable(program, solution)
        store, x, y = program.store, solution.nonzeros, solution.y
        if (proof := solution.integer) is not None and solution.x is not None and _chosen(x):
            given = np.full(store.requests.size, -1)
            given[x.slot] = x.column
            choice = Choice(program.slot_of, given)
            return Rounded(choice, solution.objective, proof.gap, perf_counter() - begin)
        _check(program)
        rows, table = store.rows, store.requests
        upper = rows.upper[: rows.size]
        left = np.where(rows.alive[: rows.size], upper, np.inf)
        slack = SLACK * np.where(np.isfinite(upper), abs(upper), 0.0)
        n_columns, relation = table.n_columns[: table.size], table.relation[: table.size]
        requests = np.flatnonzero(n_columns)
        chosen, best = _placed(store, x, y, left)
        pricing, reach = _priced(store, solution, requests.size, left)
        far = best[requests] > pricing.marginal[requests] + reach
        first, slots, columns = offers(n_columns, requests, chosen, far, pricing.slot, pricing.column)
        view, place = store.excerpt(slots, columns)
        items = read_columns(view, y, slots, place, columns)
        objective, paid, served = improve(
            n_columns, relation, requests, first, items, chosen, left, slack, pricing.marginal, solution.size
        )
        lost, size = objective - solution.bound, max(solution.size, paid)
        gap = lost / size if size > 0 else np.inf if lost > 0 else 0.0
        choice = Choice(program.slot_of, chosen)
        return Rounded(choice, objective, float(gap) if served else np.inf, perf_counter() - begin)


def _placed(
    store: ConstraintStore, x: SparseX, y: NDArray[np.float64], left: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Column of each request, -1 for none, and its price, from the fractional answer; ``left`` is changed."""
    table = store.requests
    n_columns, bound = table.n_columns[: table.size], bound_requests(store)
    chosen, price = np.full(table.size, -1), np.zeros(table.size)
    view, place = store.excerpt(x.slot, x.column)
    columns = read_columns(view, y, x.slot, place, x.column)
    place_fractions(columns, x.slot, x.value, bound, chosen, price, left)
    without = np.flatnonzero((chosen < 0) & (table.relation[: table.size] == EXACTLY) & (n_columns > 0))
    if without.size:
        sizes = n_columns[without]
        slot, column = np.repeat(without, sizes), slice_indices(np.zeros_like(sizes), sizes)
        view, place = store.excerpt(slot, column)
        place_cheapest(read_columns(view, y, slot, place, column), slot, bound, chosen, price, left)
    return chosen, price


def _chosen(x: SparseX) -> bool:
    """Whether an allocation gives each request one whole column, or none."""
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


def _priced(
    store: ConstraintStore, solution: Solution, requests: int, left: NDArray[np.float64]
) -> tuple[Pricing, float]:
    """A pass at the prices, and how far above the best price the columns are to which a move can gain.

    A move from column j to column k that fits changes the cost by p_k - p_j - y'(a_k - a_j), and a_k - a_j <=
    left.  So only columns with p_k < p_j + y'left can gain: those near the best price (the solver's last pass
    has them), and, for the few requests that got much less than their best, all of them.
    """
    y, pricing = solution.y, solution.pricing
    slack = dot(y, np.where(y > 0, np.maximum(left, 0.0), 0.0))
    if pricing is None or pricing.clock != store.clock or np.isnan(pricing.slack):
        pricing = price(store, y, slack=slack)
        least = DUST * slack
        while pricing.slot.size > _CANDIDATES * requests and slack > 0.0:
            slack = 0.25 * slack if slack > least else 0.0
            pricing = price(store, y, slack=slack)
    return pricing, max(slack, pricing.slack)
