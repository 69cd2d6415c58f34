"""Steps 1 and 2 of :mod:`copter.shims.choose_one`: what the fractional answer says, as far as it fits.

``left`` is what is left of each row: its upper bound less what the columns that were placed use.  Columns are
known by the slot of their request here, because the nonzeros of an allocation are; the moves that come after
(:mod:`copter.shims.choose_one_moves`) know a request by its place among all that there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.shims.choose_one_columns import fits, take
from copter.store.store import EXACTLY, ConstraintStore
from copter.store.view import coefficients_of, entries_of, view_of
from copter.store.where import Part, together

Array = Any

MINIMUM_FRACTION = 1e-7
WHOLE = 1.0 - 1e-9
"""A column that has as much of its request has all of it."""

SOUND, ROW_WITH_LOWER, NEGATIVE, NO_TOTAL_OF_ONE = range(4)
"""What :func:`unsound` finds."""


def unsound(store: ConstraintStore) -> tuple[int, int]:
    """What makes a program no multiple-choice packing problem, and which row or request slot shows it.

    Parameters
    ----------
    store : ConstraintStore

    Returns
    -------
    what : :data:`SOUND`, :data:`ROW_WITH_LOWER`, :data:`NEGATIVE` or :data:`NO_TOTAL_OF_ONE`
    slot : int
        -1 if it is sound.
    """
    rows, table = store.rows, store.requests
    low = np.flatnonzero(rows.alive[: rows.size] & np.isfinite(rows.lower[: rows.size]))
    if low.size:
        return ROW_WITH_LOWER, int(low[0])
    negative = max(negative for negative, *_ in store.once(_usages_part))
    if negative >= 0:
        return NEGATIVE, negative
    other = np.flatnonzero((table.n_columns[: table.size] > 0) & (table.total[: table.size] != 1.0))
    return (NO_TOTAL_OF_ONE, int(other[0])) if other.size else (SOUND, -1)


def _usages_part(part: Part) -> tuple[int, NDArray[np.bool_], NDArray[np.bool_]]:
    """What :func:`unsound`, :func:`bound_requests` and :func:`rounded_rows` ask of usages."""
    view = view_of(part.store)
    columns = view.n_columns, view.relation, view.usage, view.pointer_start, view.pointer
    rounded = np.zeros(part.store.rows.size, np.bool_)
    negative = int(_negative(view, part.store.rows.alive, rounded))
    return negative, _cannot_abstain(*columns), rounded


def rounded_rows(store: ConstraintStore) -> NDArray[np.bool_]:
    """Whether any coefficient of a row is no whole number.

    Returns
    -------
    (row slots,) ndarray
    """
    rounded: NDArray[np.bool_] = np.any([rounded for _, _, rounded in store.once(_usages_part)], axis=0)
    return rounded


@kernel(allocates=True)
def _negative(view: Any, alive: Array, rounded: Array) -> int:
    """The last row with a negative coefficient, or -1; marks rows with one that is not whole."""
    seen, found = np.zeros(view.pointer_start.size, np.bool_), -1
    for q in range(view.n_columns.size):
        n, usage = view.n_columns[q], view.usage[q]
        if n == 0 or seen[usage]:
            continue
        seen[usage] = True
        first, last = entries_of(view, usage, 0, n)
        shift, stride = coefficients_of(view, usage)
        for k in range(first, last):
            value = view.coefficient[shift + stride * k]
            if value < 0.0 and alive[view.row[k]]:
                found = max(found, view.row[k])
            if value != np.rint(value):
                rounded[view.row[k]] = True
    return found


def bound_requests(store: ConstraintStore) -> NDArray[np.bool_]:
    """Whether a request's sum row is "==" and every column of it uses something.

    Returns
    -------
    (request slots,) ndarray
    """
    return together([bound for _, bound, _ in store.once(_usages_part)], store.requests.size)


@kernel(allocates=True)
def place_fractions(
    columns: Any, slot: Array, value: Array, bound: Array, chosen: Array, price: Array, left: Array
) -> None:
    """Columns of the fractional answer, heaviest first, while they fit.

    Requests that have no free way out (every column uses something) come before the others.

    Parameters
    ----------
    columns : Columns
        The answer's.
    slot, value : (nonzeros,) arrays
        Their requests, ascending, and what these have of them.
    bound : (request slots,) array
        Who has no way out.
    chosen, price : (request slots,) arrays
        Column of each, -1 for none, and its price; changed.
    left : (2 * row slots,) array
        What is left; changed.
    """
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
                _place(columns, k, slot[k], chosen, price, left)
        some = fractions[:found]
        for at in np.argsort(-value[some], kind="mergesort"):
            _place(columns, some[at], slot[some[at]], chosen, price, left)


@kernel(allocates=True)
def place_cheapest(columns: Any, slot: Array, bound: Array, chosen: Array, price: Array, left: Array) -> None:
    """Of requests without a column the cheapest that fits; those without a way out come first.

    Parameters
    ----------
    columns : Columns
        All columns of these requests.
    slot : (k,) array
        Their requests, ascending.
    bound, chosen, price, left
        As in :func:`place_fractions`.
    """
    for first in (True, False):
        begin = 0
        while begin < slot.size:
            end, q = begin, slot[begin]
            while end < slot.size and slot[end] == q:
                end += 1
            if bound[q] == first:
                for k in np.argsort(columns.price[begin:end], kind="mergesort"):
                    _place(columns, begin + k, q, chosen, price, left)
            begin = end


@kernel(allocates=True)
def _cannot_abstain(n_columns, relation, usages, starts, pointer):  # type: ignore[no-untyped-def]
    """See :func:`bound_requests`; usages are looked at once.

    0 is not yet, 1 has a column without entries, 2 has none.
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


@kernel(inner=True)
def _place(columns, k, q, chosen, price, left):  # type: ignore[no-untyped-def]
    """Give request q the k-th of some columns, if it has none and the column is open and fits."""
    row, value, begin, end = columns.row, columns.value, columns.begin[k], columns.end[k]
    if chosen[q] < 0 and columns.cost[k] < np.inf and fits(row, value, begin, end, left):
        chosen[q], price[q] = columns.column[k], columns.price[k]
        take(row, value, begin, end, -1.0, left)
