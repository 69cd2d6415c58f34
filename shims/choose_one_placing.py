"""Steps 1 and 2 of :mod:`copter.shims.choose_one`: what the fractional answer says, as far as it fits.

``left`` is what is left of each row: its upper bound less what the columns that were placed use.
PricedColumns are known by the slot of their request here, because the nonzeros of an allocation are; the
moves that come after (:mod:`copter.shims.choose_one_moves`) know a request by its place among all that there
are.
"""

from __future__ import annotations

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.shims.choose_one_columns import PricedColumns, fits, take
from copter.store.executor import Part, together
from copter.store.store import EXACTLY, ConstraintStore
from copter.store.view import coefficients_of, entries_of, view_of

_MINIMUM_FRACTION = 1e-7
_WHOLE = 1.0 - 1e-9
"""A column that has as much of its request has all of it."""

_SOUND, ROW_WITH_LOWER, NEGATIVE, NO_TOTAL_OF_ONE = range(4)
"""What :func:`unsound` finds."""


def unsound(store: ConstraintStore) -> tuple[int, int]:
    """What makes a program no multiple-choice packing problem, and which row or request slot shows it.

    Result: -1 if it is sound.
    """
    rows, table = store.rows, store.requests
    low = np.flatnonzero(rows.alive[: rows.size] & np.isfinite(rows.lower[: rows.size]))
    if low.size:
        return ROW_WITH_LOWER, int(low[0])
    negative = max(negative for negative, *_ in store.executor.once(_usages_part))
    if negative >= 0:
        return NEGATIVE, negative
    other = np.flatnonzero((table.n_columns[: table.size] > 0) & (table.total[: table.size] != 1.0))
    return (NO_TOTAL_OF_ONE, int(other[0])) if other.size else (_SOUND, -1)


def _usages_part(part: Part) -> tuple[int, Flags, Flags]:
    """What :func:`unsound`, :func:`bound_requests` and :func:`rounded_rows` ask of usages."""
    view = view_of(part.store)
    bound, rounded = np.zeros(view.n_columns.size, np.bool_), np.zeros(part.store.rows.size, np.bool_)
    seen = np.zeros(view.pointer_start.size, np.int8)
    negative = int(_look_at_usages(view, part.store.rows.alive, seen, bound, rounded))
    return negative, bound, rounded


def rounded_rows(store: ConstraintStore) -> Flags:
    """Whether any coefficient of a row is no whole number."""
    rounded: Flags = np.any([rounded for _, _, rounded in store.executor.once(_usages_part)], axis=0)
    return rounded


@kernel
def _look_at_usages(view, alive, seen, bound, rounded):  # type: ignore[no-untyped-def]
    """The last row with a negative coefficient, or -1; marks requests and rows as asked for.

    Usages are looked at once: 0 is not yet, 1 has a column without entries, 2 has none.
    """
    found = -1
    for q in range(view.n_columns.size):
        n, usage = view.n_columns[q], view.usage[q]
        if n == 0:
            continue
        if seen[usage] == 0:
            seen[usage] = 2
            for at in range(view.pointer_start[usage], view.pointer_start[usage] + n):
                if view.pointer[at] == view.pointer[at + 1]:
                    seen[usage] = 1
                    break
            first, last = entries_of(view, usage, 0, n)
            shift, stride = coefficients_of(view, usage)
            for k in range(first, last):
                value = view.coefficient[shift + stride * k]
                if value < 0.0 and alive[view.row[k]]:
                    found = max(found, view.row[k])
                if value != np.rint(value):
                    rounded[view.row[k]] = True
        bound[q] = view.relation[q] == EXACTLY and seen[usage] == 2
    return found


def bound_requests(store: ConstraintStore) -> Flags:
    """Whether a request's sum row is "==" and every column of it uses something."""
    return together([bound for _, bound, _ in store.executor.once(_usages_part)], store.requests.size)


def place_fractions(
    columns: PricedColumns, slot: Ints, value: Floats, bound: Flags, chosen: Ints, price: Floats, left: Floats
) -> None:
    """Columns of the fractional answer, heaviest first, while they fit.

    Requests that have no free way out (every column uses something) come before the others.

    `columns`: the answer's. `slot`, `value`: their requests, ascending, and what these have of them. `bound`:
    who has no way out. `chosen`, `price`: column of each, -1 for none, and its price; changed. `left`: what
    is left; changed.
    """
    whole, fraction = value >= _WHOLE, (value > _MINIMUM_FRACTION) & (value < _WHOLE)
    for these in (bound[slot], ~bound[slot]):
        some = np.flatnonzero(these & fraction)
        order = np.concatenate((np.flatnonzero(these & whole), some[np.argsort(-value[some], kind="stable")]))
        _place(*columns, order, slot, chosen, price, left)


def place_cheapest(
    columns: PricedColumns, slot: Ints, bound: Flags, chosen: Ints, price: Floats, left: Floats
) -> None:
    """Of requests without a column the cheapest that fits; those without a way out come first.

    `columns`: all columns of these requests. `slot`: their requests, ascending. `bound`, `chosen`, `price`,
    `left`: as in :func:`place_fractions`.
    """
    order = np.lexsort((columns.price, slot, ~bound[slot]))
    _place(*columns, order, slot, chosen, price, left)


@kernel
def _place(  # type: ignore[no-untyped-def]
    column, prices, cost, begin, end, row, value, order, slot, chosen, price, left
):
    """Give requests columns, in an order, where they have none yet and the column is open and fits."""
    for k in order:
        q = slot[k]
        if chosen[q] < 0 and cost[k] < np.inf and fits(row, value, begin[k], end[k], left):
            chosen[q], price[q] = column[k], prices[k]
            take(row, value, begin[k], end[k], -1.0, left)
