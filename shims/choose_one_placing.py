"""Steps 1 and 2 of :mod:`copter.shims.choose_one`: what the fractional answer says, as far as it fits.

``left`` is what is left of each row: its upper bound less what the columns that were placed use.  Columns are
known by the slot of their request here, because the nonzeros of an allocation are; the moves that come after
(:mod:`copter.shims.choose_one_moves`) know a request by its place among all that there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from copter.kernels import inlined_kernel, kernel
from copter.store.store import EXACTLY
from copter.store.view import cap_of, coefficients_of, cost_of, entries_of, paid_for

Array = Any

MINIMUM_FRACTION = 1e-7
WHOLE = 1.0 - 1e-9
"""A column that has as much of its request has all of it."""
SLACK = 1e-9
"""Of the largest column of a row: by so much rounding errors may exceed it."""

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
    chosen = np.full(view.n_columns.size, -1)
    bound, count = _cannot_abstain(view)
    requests = np.empty(count, np.int64)
    at = 0
    for q in range(view.n_columns.size):
        if view.n_columns[q] > 0:
            requests[at] = q
            at += 1
    fractions = np.empty(slot.size, np.int64)
    for first in (True, False):
        found = 0
        for k in range(slot.size):
            q = slot[k]
            if bound[q] != first or value[k] <= MINIMUM_FRACTION:
                continue
            if value[k] < WHOLE:
                fractions[found] = k
                found += 1
            elif chosen[q] < 0 and _fits(view, q, column[k], left):
                chosen[q] = column[k]
                _take(view, q, column[k], left)
        some = fractions[:found]
        for at in np.argsort(-value[some], kind="mergesort"):
            k = some[at]
            q = slot[k]
            if chosen[q] < 0 and _fits(view, q, column[k], left):
                chosen[q] = column[k]
                _take(view, q, column[k], left)
    for first in (True, False):
        for q in requests:
            if chosen[q] < 0 and view.relation[q] == EXACTLY and bound[q] == first:
                _place_cheapest(view, q, y, chosen, left)
    return requests, chosen


@kernel
def _cannot_abstain(view):  # type: ignore[no-untyped-def]
    """Whether a request's sum row is "==" and every column of it uses something; how many requests there are.

    Usages are looked at once: 0 is not yet, 1 has a column without entries, 2 has none.
    """
    known = np.zeros(view.pointer_start.size, np.int8)
    bound = np.zeros(view.n_columns.size, np.bool_)
    count = 0
    for q in range(view.n_columns.size):
        n, usage = view.n_columns[q], view.usage[q]
        if n == 0:
            continue
        count += 1
        if view.relation[q] != EXACTLY:
            continue
        if known[usage] == 0:
            known[usage] = 2
            for j in range(n):
                first, last = entries_of(view, usage, j, j + 1)
                if first == last:
                    known[usage] = 1
                    break
        bound[q] = known[usage] == 2
    return bound, count


@inlined_kernel
def _fits(view, q, j, left):  # type: ignore[no-untyped-def]
    fits = cap_of(view, q, j) >= 1.0
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        used = view.coefficient[shift + stride * k]
        if used > left[view.row[k]] + SLACK * abs(used):
            fits = False
    return fits


@inlined_kernel
def _take(view, q, j, left):  # type: ignore[no-untyped-def]
    first, last = entries_of(view, view.usage[q], j, j + 1)
    shift, stride = coefficients_of(view, view.usage[q])
    for k in range(first, last):
        left[view.row[k]] -= view.coefficient[shift + stride * k]


@kernel
def _place_cheapest(view, q, y, chosen, left):  # type: ignore[no-untyped-def]
    low = np.inf
    for j in range(view.n_columns[q]):
        price = cost_of(view, q, j) + paid_for(view, view.usage[q], j, y)
        if price < low and _fits(view, q, j, left):
            chosen[q], low = j, price
    if chosen[q] >= 0:
        _take(view, q, chosen[q], left)
