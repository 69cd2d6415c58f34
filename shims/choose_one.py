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

from collections.abc import Hashable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.kernels import kernel
from copter.parallel import dot
from copter.proof.pricing import Pricing, price
from copter.solution import check_roundable
from copter.store.store import EXACTLY, ConstraintStore, slice_indices
from copter.store.view import cap_of, coefficients_of, entries_of, view_of

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution

_MINIMUM_FRACTION = 1e-7
_PASSES = 3
_WORTH_MAKING_ROOM = 2e-5
_ROOM_FOR = 12
_CANDIDATES = 40
_EJECTIONS = 6
_DUST = 1e-12
"""Of what a typical request costs: gains below it are rounding errors."""
_SLACK = 1e-9
"""Of the largest column of a row: by so much rounding errors may exceed it."""


@dataclass(frozen=True)
class Rounded:
    """An integral allocation.

    Attributes
    ----------
    choice : dict of request id to int
        Chosen column, -1 for none.
    objective : float
        Its cost.
    gap : float
        (objective - bound) / size, with the certified bound; size is what requests with a choice pay;
        infinite if a request whose sum row is "==" got no column.
    seconds : float
    """

    choice: dict[Hashable, int]
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
            Its answer as it is now.

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
        store = program.store
        table, rows = store.requests, store.rows
        self._check(program, solution)
        view = view_of(store)
        x, y = solution.nonzeros, solution.y
        chosen = np.full(table.size, -1)
        upper = rows.upper[: rows.size]
        left = np.where(rows.alive[: rows.size], upper, np.inf)
        heavy = np.flatnonzero(x.value > _MINIMUM_FRACTION)
        bound_to_use = _cannot_abstain(view, store.usages.n_columns[: store.usages.size])
        order = np.lexsort((x.column[heavy], x.slot[heavy], -x.value[heavy], ~bound_to_use[x.slot[heavy]]))
        _place(view, x.slot[heavy][order], x.column[heavy][order], chosen, left)
        requests = np.flatnonzero(view.n_columns)
        unmet = requests[(chosen[requests] < 0) & (view.relation[requests] == EXACTLY)]
        unmet = unmet[np.argsort(~bound_to_use[unmet], kind="stable")]
        _place_cheapest(view, unmet, y, chosen, left)
        pricing, first, columns = _worthwhile(store, solution, requests, chosen, left)
        dust = _DUST * solution.size / max(1, requests.size)
        below = _loss(view, requests, y, chosen) > pricing.marginal[requests] + dust
        _improve(view, requests[below], y, chosen, left, first, columns, False, dust)
        _improve(view, requests, y, chosen, left, first, columns, True, dust)
        enough = _WORTH_MAKING_ROOM * solution.size
        loss = _loss(view, requests, y, chosen) - pricing.marginal[requests]
        worst = np.argsort(-loss, kind="stable")[:_ROOM_FOR]
        worst = requests[worst[loss[worst] > enough]]
        if worst.size:
            slack = _SLACK * np.where(np.isfinite(upper), abs(upper), 0.0)
            _make_room(view, requests, worst, y, chosen, left, slack, first, columns, dust)
            _improve(view, requests, y, chosen, left, first, columns, True, dust)
        objective = _cost(view, requests, chosen)
        unserved = (chosen[requests] < 0) & (view.relation[requests] == EXACTLY)
        lost = objective - solution.bound
        free = requests[(chosen[requests] >= 0) & (view.n_columns[requests] > 1)]
        paid = float(abs(store.column_costs(free, chosen[free])).sum())  # by requests that have a choice
        size = max(solution.size, paid)
        gap = lost / size if size > 0 else np.inf if lost > 0 else 0.0
        gap = np.inf if unserved.any() else gap
        choice = dict(zip(program.request_ids, chosen[program.request_slots].tolist(), strict=True))
        return Rounded(choice, objective, float(gap), perf_counter() - begin)

    @staticmethod
    def _check(program: ContinualProgram, solution: Solution) -> None:
        """Raise if the program has rows or requests that this shim cannot round, or was edited since."""
        check_roundable(program, solution)
        store = program.store
        rows, table = store.rows, store.requests
        bad = rows.alive[: rows.size] & np.isfinite(rows.lower[: rows.size])
        if bad.any():
            row = program.resource_ids[int(np.flatnonzero(program.resource_slots == bad.argmax())[0])]
            raise CopterError(f"resource {row!r} has a lower bound: this shim rounds capacities only")
        usages = store.usages
        used = np.flatnonzero(usages.references[: usages.size])
        row = _negative_row(usages.entry_start, usages.nnz, used, rows.alive, view_of(store))
        if row >= 0:
            name = program.resource_ids[int(np.flatnonzero(program.resource_slots == row)[0])]
            raise CopterError(
                f"a column has a negative coefficient of resource {name!r}: this shim rounds capacities only"
            )
        bad = (table.n_columns[: table.size] > 0) & (table.total[: table.size] != 1.0)
        if bad.any():
            request = program.request_ids[int(np.flatnonzero(program.request_slots == bad.argmax())[0])]
            why = "this shim chooses one column a request"
            raise CopterError(f"request {request!r} has no total of 1: {why}")


def _worthwhile(
    store: ConstraintStore,
    solution: Solution,
    requests: NDArray[np.int64],
    chosen: NDArray[np.int64],
    left: NDArray[np.float64],
) -> tuple[Pricing, NDArray[np.int64], NDArray[np.int64]]:
    """A pass at the prices, and the columns to which a move can gain.

    ``columns[first[q] : first[q + 1]]`` are those of request slot q.  A move from column j to column k that
    fits changes the cost by p_k - p_j - y'(a_k - a_j), and a_k - a_j <= left.  So only columns with
    p_k < p_j + y'left can gain: those near the best price (the solver's last pass has them), and, for the few
    requests that got much less than their best, all of them.
    """
    view, y, pricing = view_of(store), solution.y, solution.pricing
    slack = dot(y, np.where(y > 0, np.maximum(left, 0.0), 0.0))
    if pricing is None or pricing.clock != store.clock or np.isnan(pricing.slack):
        pricing = price(store, y, slack=slack)
        least = _DUST * slack
        while pricing.slot.size > _CANDIDATES * requests.size and slack > 0.0:
            slack = 0.25 * slack if slack > least else 0.0
            pricing = price(store, y, slack=slack)
    far = _loss(view, requests, y, chosen) > pricing.marginal[requests] + max(slack, pricing.slack)
    whole = requests[far]
    sizes = view.n_columns[whole]
    slot = np.concatenate((pricing.slot, np.repeat(whole, sizes)))
    column = np.concatenate((pricing.column, slice_indices(np.zeros_like(sizes), sizes)))
    order = np.argsort(slot, kind="stable")
    return pricing, np.searchsorted(slot[order], np.arange(view.n_columns.size + 1)), column[order]


@kernel
def _negative_row(entry_start, nnz, usages, alive, view):  # type: ignore[no-untyped-def]
    """A row that is alive and has a negative coefficient, -1 if there is none."""
    for usage in usages:
        shift, stride = coefficients_of(view, usage)
        for k in range(np.uint64(entry_start[usage]), np.uint64(entry_start[usage] + nnz[usage])):
            if view.coefficient[shift + stride * k] < 0.0 and alive[view.row[k]]:
                return np.int64(view.row[k])
    return np.int64(-1)


@kernel
def _loss(view, requests, y, chosen):  # type: ignore[no-untyped-def]
    """Price of what each request got."""
    prices = np.empty(requests.size)
    for k in range(requests.size):
        prices[k] = _cost_paid(view, requests[k], chosen[requests[k]], y)
    return prices


@kernel
def _cannot_abstain(view, n_columns):  # type: ignore[no-untyped-def]
    """Whether a request's sum row is "==" and every column of it uses something."""
    light = np.zeros(n_columns.size, np.bool_)
    for usage in range(n_columns.size):
        for j in range(n_columns[usage]):
            first, last = entries_of(view, usage, j, j + 1)
            if first == last:
                light[usage] = True
                break
    bound = np.zeros(view.n_columns.size, np.bool_)
    for q in range(view.n_columns.size):
        bound[q] = view.n_columns[q] > 0 and view.relation[q] == EXACTLY and not light[view.usage[q]]
    return bound


@kernel
def _add(view, q, j, sign, left):  # type: ignore[no-untyped-def]
    """Take column j of request q off what is left (sign -1), or give it back (+1); j = -1 uses nothing."""
    if j < 0:
        return
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        left[view.row[k]] += sign * view.coefficient[shift + stride * k]


@kernel
def _fits(view, q, j, left):  # type: ignore[no-untyped-def]
    if cap_of(view, q, j) < 1.0:
        return False
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        used = view.coefficient[shift + stride * k]
        if used > left[view.row[k]] + _SLACK * abs(used):
            return False
    return True


@kernel
def _cost_of(view, q, j):  # type: ignore[no-untyped-def]
    return view.scale[q] * view.cost[view.cost_start[q] + j] if j >= 0 else 0.0


@kernel
def _cost_paid(view, q, j, y):  # type: ignore[no-untyped-def]
    """Cost of column j of request q with its usage paid at prices y; no column costs nothing."""
    if j < 0:
        return 0.0
    price = _cost_of(view, q, j)
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        price += y[view.row[k]] * view.coefficient[shift + stride * k]
    return price


@kernel
def _place(view, slots, columns, chosen, left):  # type: ignore[no-untyped-def]
    for k in range(slots.size):
        q, j = slots[k], columns[k]
        if chosen[q] < 0 and _fits(view, q, j, left):
            chosen[q] = j
            _add(view, q, j, -1.0, left)


@kernel
def _place_cheapest(view, requests, y, chosen, left):  # type: ignore[no-untyped-def]
    for q in requests:
        low = np.inf
        for j in range(view.n_columns[q]):
            price = _cost_paid(view, q, j, y)
            if price < low and _fits(view, q, j, left):
                chosen[q], low = j, price
        _add(view, q, chosen[q], -1.0, left)


@kernel
def _gain(view, q, y, chosen, left, columns, fill, dust):  # type: ignore[no-untyped-def]
    """(merit, column) of the best move of request q that fits once it gives back what it has.

    The merit is the gain at prices y, or, to ``fill`` what is left, the gain in plain cost for each unit of
    price that the move uses up: who uses it best comes first, not who uses most.
    """
    now = _cost_paid(view, q, chosen[q], y)
    cost = _cost_of(view, q, chosen[q])
    _add(view, q, chosen[q], 1.0, left)
    best, merit = np.int64(-1), 0.0
    if view.relation[q] != EXACTLY and chosen[q] >= 0 and not fill:
        merit = max(now, 0.0)
    for j in columns:
        price = _cost_paid(view, q, j, y)
        gain = now - price
        if fill:
            saved = cost - _cost_of(view, q, j)
            gain = saved / max(saved - gain, 1e3 * dust, 1e-9 * saved) if saved > dust else 0.0
        if gain > merit and _fits(view, q, j, left):
            best, merit = j, gain
    _add(view, q, chosen[q], -1.0, left)
    return merit, best


@kernel
def _improve(view, requests, y, chosen, left, first, columns, fill, dust):  # type: ignore[no-untyped-def]
    """Moves of merit, best first; a pass looks at every request."""
    least = _DUST if fill else dust
    merits = np.empty(requests.size)
    for _ in range(_PASSES):
        for k in range(requests.size):
            q = requests[k]
            merits[k] = _gain(view, q, y, chosen, left, columns[first[q] : first[q + 1]], fill, dust)[0]
        moved = False
        for _ in range(2 * requests.size):
            k = int(np.argmax(merits))
            if merits[k] <= least:
                break
            q = requests[k]
            merit, column = _gain(view, q, y, chosen, left, columns[first[q] : first[q + 1]], fill, dust)
            if merit < merits[k]:
                merits[k] = merit  # what is left has changed: it waits until its turn comes again
                continue
            merits[k] = 0.0
            _add(view, q, chosen[q], 1.0, left)
            chosen[q] = column
            _add(view, q, column, -1.0, left)
            moved = True
        if not moved:
            break


@kernel
def _make_room(  # type: ignore[no-untyped-def]
    view, requests, worst, y, chosen, left, slack, first, columns, dust
):
    """Move each of ``worst`` to a column that does not fit while others make room, if all together gain."""
    moved_request = np.empty(_EJECTIONS, np.int64)
    moved_from = np.empty(_EJECTIONS, np.int64)
    for q in worst:
        was = chosen[q]
        now = _cost_paid(view, q, was, y)
        tried = -np.inf
        for _ in range(3):
            # the next column of q in the order of prices
            target, low = np.int64(-1), now
            for j in columns[first[q] : first[q + 1]]:
                price = _cost_paid(view, q, j, y)
                if tried < price < low:
                    target, low = j, price
            if target < 0:
                break
            tried = low
            _add(view, q, was, 1.0, left)
            _add(view, q, target, -1.0, left)
            chosen[q] = target
            gain, count = now - low, 0
            while count < _EJECTIONS:
                row = _shortest(left, slack)
                if row < 0:
                    break
                other, column, price = _cheapest_release(
                    view, requests, q, row, y, chosen, left, first, columns, dust
                )
                if other < 0 or price >= gain:
                    break
                gain -= price
                moved_request[count], moved_from[count] = other, chosen[other]
                count += 1
                _add(view, other, chosen[other], 1.0, left)
                _add(view, other, column, -1.0, left)
                chosen[other] = column
            if _shortest(left, slack) < 0 and gain > 0.0:
                break
            for k in range(count - 1, -1, -1):
                _add(view, moved_request[k], chosen[moved_request[k]], 1.0, left)
                _add(view, moved_request[k], moved_from[k], -1.0, left)
                chosen[moved_request[k]] = moved_from[k]
            _add(view, q, target, 1.0, left)
            _add(view, q, was, -1.0, left)
            chosen[q] = was


@kernel
def _shortest(left, slack):  # type: ignore[no-untyped-def]
    """The row that is exceeded most, in units of its slack; -1 if none is."""
    worst, most = -1, 1.0
    for row in range(left.size):
        if left[row] < -slack[row] and -left[row] > most * slack[row]:
            worst, most = row, -left[row] / slack[row] if slack[row] > 0.0 else np.inf
    return worst


@kernel
def _usage_of(view, q, j, row):  # type: ignore[no-untyped-def]
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        if view.row[k] == row:
            return view.coefficient[shift + stride * k]
    return 0.0


@kernel
def _cheapest_release(  # type: ignore[no-untyped-def]
    view, requests, keep, row, y, chosen, left, first, columns, dust
):
    """(request, column, price) of the move that frees ``row`` at the least price for what is missing."""
    request, column, paid, best = np.int64(-1), np.int64(-1), np.inf, np.inf
    missing = -left[row]
    for q in requests:
        if q == keep or chosen[q] < 0:
            continue
        has = _usage_of(view, q, chosen[q], row)
        if has <= 0.0:
            continue
        now = _cost_paid(view, q, chosen[q], y)
        _add(view, q, chosen[q], 1.0, left)
        for j in columns[first[q] : first[q + 1]]:
            freed = has - _usage_of(view, q, j, row)
            if freed <= 0.0:
                continue
            price = max(_cost_paid(view, q, j, y) - now, 0.0)
            rate = (price + 1e3 * dust) / min(freed, missing)
            if rate < best:
                # the row itself may stay short; every other must hold
                short = left[row]
                left[row] = np.inf
                if _fits(view, q, j, left):
                    request, column, paid, best = q, j, price, rate
                left[row] = short
        _add(view, q, chosen[q], -1.0, left)
    return request, column, paid


@kernel
def _cost(view, requests, chosen):  # type: ignore[no-untyped-def]
    total = 0.0
    for q in requests:
        total += _cost_of(view, q, chosen[q])
    return total
