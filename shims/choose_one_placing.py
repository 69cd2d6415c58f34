"""Steps 1 and 2 of :mod:`copter.shims.choose_one`: what the fractional answer says, as far as it fits.

``left`` is what is left of each row: its upper bound less what the columns that were placed use.  Columns are
known by the slot of their request here, because the nonzeros of an allocation are; the moves that come after
(:mod:`copter.shims.choose_one_moves`) know a request by its place among all that there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from copter.kernels import kernel
from copter.shims.choose_one_columns import fits, read_columns, take
from copter.store.store import EXACTLY
from copter.store.view import coefficients_of, entries_of

Array = Any

MINIMUM_FRACTION = 1e-7
WHOLE = 1.0 - 1e-9
"""A column that has as much of its request has all of it."""

SOUND, ROW_WITH_LOWER, NEGATIVE, NO_TOTAL_OF_ONE = range(4)
"""What :func:`find_unsound` finds."""


@kernel
def find_unsound(view: Any, lower: Array, alive: Array) -> Any:
    """What makes a program no multiple-choice packing problem, and which row or request slot shows it.

    Parameters
    ----------
    view : StoreView
    lower, alive : (row slots,) arrays
        Of the rows.

    Returns
    -------
    what : :data:`SOUND`, :data:`ROW_WITH_LOWER`, :data:`NEGATIVE` or :data:`NO_TOTAL_OF_ONE`
    slot : int
        -1 if it is sound.
    """
    for row in range(lower.size):
        if alive[row] and np.isfinite(lower[row]):
            return ROW_WITH_LOWER, row
    seen = np.zeros(view.pointer_start.size, np.bool_)
    for q in range(view.n_columns.size):
        n, usage = view.n_columns[q], view.usage[q]
        if n == 0 or seen[usage]:
            continue
        seen[usage] = True
        first, last = entries_of(view, usage, 0, n)
        shift, stride = coefficients_of(view, usage)
        for k in range(first, last):
            if view.coefficient[shift + stride * k] < 0.0 and alive[view.row[k]]:
                return NEGATIVE, view.row[k]
    for q in range(view.n_columns.size):
        if view.n_columns[q] > 0 and view.total[q] != 1.0:
            return NO_TOTAL_OF_ONE, q
    return SOUND, -1


@kernel
def place_fractions(view: Any, slot: Array, column: Array, value: Array, y: Array, left: Array) -> Any:
    """Columns of the fractional answer, heaviest first, while they fit; then the cheapest that fits.

    Requests that have no free way out (every column uses something) come before the others.

    Parameters
    ----------
    view : StoreView
    slot, column, value : (nonzeros,) arrays
        The answer, ascending by slot.
    y : (row slots,) array
        Prices.
    left : (row slots,) array
        What is left; changed.

    Returns
    -------
    requests : (n,) array
        Slots of all requests, ascending.
    chosen : (request slots,) array
        Column of each, -1 for none.
    """
    n_columns, relation = view.n_columns, view.relation
    chosen = np.full(n_columns.size, -1)
    bound = _cannot_abstain(n_columns, relation, view.usage, view.pointer_start, view.pointer)
    requests = np.flatnonzero(n_columns)
    columns = read_columns(view, y, slot, column)
    fractions = np.empty(slot.size, np.int64)
    for first in (True, False):
        found = 0
        for k in range(slot.size):
            if bound[slot[k]] != first or value[k] <= MINIMUM_FRACTION:
                continue
            if value[k] < WHOLE:
                fractions[found] = k
                found += 1
            else:
                _place(columns, k, slot[k], chosen, left)
        some = fractions[:found]
        for at in np.argsort(-value[some], kind="mergesort"):
            _place(columns, some[at], slot[some[at]], chosen, left)
    for first in (True, False):
        for q in requests:
            if chosen[q] < 0 and relation[q] == EXACTLY and bound[q] == first:
                every = np.arange(n_columns[q])
                own = read_columns(view, y, np.full(every.size, q), every)
                for k in np.argsort(own.price, kind="mergesort"):
                    _place(own, k, q, chosen, left)
    return requests, chosen


@kernel
def _cannot_abstain(n_columns, relation, usages, starts, pointer):  # type: ignore[no-untyped-def]
    """Whether a request's sum row is "==" and every column of it uses something.

    Usages are looked at once: 0 is not yet, 1 has a column without entries, 2 has none.
    """
    known = np.zeros(starts.size, np.int8)
    bound = np.zeros(n_columns.size, np.bool_)
    for q in range(n_columns.size):
        if n_columns[q] == 0 or relation[q] != EXACTLY:
            continue
        usage = usages[q]
        if known[usage] == 0:
            known[usage] = 2
            for at in range(starts[usage], starts[usage] + n_columns[q]):
                if pointer[at] == pointer[at + 1]:
                    known[usage] = 1
                    break
        bound[q] = known[usage] == 2
    return bound


@kernel
def _place(columns, k, q, chosen, left):  # type: ignore[no-untyped-def]
    """Give request q the k-th of some columns, if it has none and the column is open and fits."""
    row, value, begin, end = columns.row, columns.value, columns.begin[k], columns.end[k]
    if chosen[q] < 0 and columns.cost[k] < np.inf and fits(row, value, begin, end, left):
        chosen[q] = columns.column[k]
        take(row, value, begin, end, -1.0, left)
