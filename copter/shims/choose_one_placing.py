"""Steps 1 and 2 of :mod:`copter.shims.choose_one`: placement of the fractional solution, as far as it fits.

``left`` is the remaining capacity of each row: its upper bound minus the usage of placed columns.  In this
module columns are identified by the slot of their request, as the nonzeros of an allocation are. In
:mod:`copter.shims.choose_one_moves` a request is identified by its position among all requests.
"""

from __future__ import annotations

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.shims.choose_one_columns import PricedColumns, fits, take
from copter.store.executor import Part, together
from copter.store.store import ConstraintStore
from copter.store.view import coefficients_of, entries_of, view_of

_MINIMUM_FRACTION = 1e-7
_WHOLE = 1.0 - 1e-9
"""Fraction of a request from which on a column counts as chosen entirely."""

_SOUND, ROW_WITH_LOWER, NEGATIVE, NO_TOTAL_OF_ONE = range(4)
"""Results of :func:`unsound`: the first is that of a multiple-choice packing problem."""


def unsound(store: ConstraintStore) -> tuple[int, int]:
    """Return why a program is not a multiple-choice packing problem, and the slot of the row or request.

    The slot is -1 if the program is one.
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
    """Return a row with a negative coefficient or -1, the bound requests, and the rounded rows."""
    view = view_of(part.store)
    bound, rounded = np.zeros(view.n_columns.size, np.bool_), np.zeros(part.store.rows.size, np.bool_)
    seen = np.zeros(view.pointer_start.size, np.int8)
    negative = int(_read_usages(view, part.store.rows.alive, seen, bound, rounded))
    return negative, bound, rounded


def rounded_rows(store: ConstraintStore) -> Flags:
    """Return a mask of the rows with a coefficient that is not an integer."""
    rounded: Flags = np.any([rounded for _, _, rounded in store.executor.once(_usages_part)], axis=0)
    return rounded


@kernel
def _read_usages(view, alive, seen, bound, rounded):  # type: ignore[no-untyped-def]
    """Return the last row with a negative coefficient, or -1; mark requests in `bound`, rows in `rounded`.

    Each usage is read once. `seen`: 0 not yet read, 1 has a column without entries, 2 has none.
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
        bound[q] = view.exact[q] and seen[usage] == 2
    return found


def bound_requests(store: ConstraintStore) -> Flags:
    """Return a mask of the requests with an "==" sum row whose columns all use something."""
    return together([bound for _, bound, _ in store.executor.once(_usages_part)], store.requests.size)


def place_fractions(
    columns: PricedColumns, slot: Ints, value: Floats, bound: Flags, chosen: Ints, price: Floats, left: Floats
) -> None:
    """Place columns of the fractional solution while they fit, in decreasing order of the fractions.

    Bound requests (see :func:`bound_requests`) come before the others.

    `columns`: columns of the solution. `slot`, `value`: their requests, ascending, and their fractions.
    `bound`: mask of the bound requests. `chosen`, `price`: column of each request, -1 for none, and its
    price; changed. `left`: remaining capacities; changed.
    """
    whole, fraction = value >= _WHOLE, (value > _MINIMUM_FRACTION) & (value < _WHOLE)
    for these in (bound[slot], ~bound[slot]):
        some = np.flatnonzero(these & fraction)
        order = np.concatenate((np.flatnonzero(these & whole), some[np.argsort(-value[some], kind="stable")]))
        _place(*columns, order, slot, chosen, price, left)


def place_cheapest(
    columns: PricedColumns, slot: Ints, bound: Flags, chosen: Ints, price: Floats, left: Floats
) -> None:
    """Place each unplaced request in its cheapest column that fits; bound requests come first.

    `columns`: all columns of these requests. `slot`: their requests, ascending. `bound`, `chosen`, `price`,
    `left`: as in :func:`place_fractions`.
    """
    order = np.lexsort((columns.price, slot, ~bound[slot]))
    _place(*columns, order, slot, chosen, price, left)


@kernel
def _place(  # type: ignore[no-untyped-def]
    column, prices, cost, begin, end, row, value, order, slot, chosen, price, left
):
    """Give columns to unplaced requests, in the given order, if the column is open and fits."""
    for k in order:
        q = slot[k]
        if chosen[q] < 0 and cost[k] < np.inf and fits(row, value, begin[k], end[k], left):
            chosen[q], price[q] = column[k], prices[k]
            take(row, value, begin[k], end[k], -1.0, left)
