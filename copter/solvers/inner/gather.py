"""Construction of a working set from columns of the store, in units in which typical values are about 1.

Working sets are defined in :mod:`copter.solvers.inner.working_set`, their units in
:mod:`copter.solvers.inner.scaling`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.proof.pricing_kernels import KEEP_ALL
from copter.solvers.inner.scaling import levels, natural_units, without_forced
from copter.solvers.inner.tuning import SetTuning
from copter.solvers.inner.working_set import WorkingSet
from copter.store.executor import Columns, Part, joined
from copter.store.store import ConstraintStore
from copter.store.view import caps_at, coefficients_of, costs_at, entries_of, take_entries, view_of


def union(
    slot: NDArray[np.int64],
    column: NDArray[np.int64],
    more_slot: NDArray[np.int64],
    more_column: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the union of two sets of (slot, column), all in ascending order."""
    if not more_slot.size:
        return slot, column
    both: tuple[NDArray[np.int64], NDArray[np.int64]] = _union(slot, column, more_slot, more_column)
    return both


@kernel(allocates=True)
def _union(slot, column, more_slot, more_column):  # type: ignore[no-untyped-def]
    """Merge two sorted lists, see :func:`union`."""
    n, m = slot.size, more_slot.size
    slots, columns = np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    i = j = count = 0
    while i < n or j < m:
        first = j == m or (
            i < n and (slot[i] < more_slot[j] or (slot[i] == more_slot[j] and column[i] <= more_column[j]))
        )
        if first:
            slots[count], columns[count] = slot[i], column[i]
        else:
            slots[count], columns[count] = more_slot[j], more_column[j]
        while i < n and slot[i] == slots[count] and column[i] == columns[count]:
            i += 1
        while j < m and more_slot[j] == slots[count] and more_column[j] == columns[count]:
            j += 1
        count += 1
    return slots[:count], columns[:count]


def lightest(store: ConstraintStore) -> Columns:
    """Return the column of least usage of each screened request; sets with them are seldom infeasible."""
    return joined([each.columns for each in store.executor.once(_lightest_part)], store.requests.size)


class _Lightest(NamedTuple):
    columns: Columns


def _lightest_part(part: Part) -> _Lightest:
    slot, column = _lightest(view_of(part.store))
    return _Lightest((part.slots(slot), column))


def typical_slack(
    store: ConstraintStore,
    y: NDArray[np.float64],
    wanted: int,
    *,
    cost_factor: float = 1.0,
    tuning: SetTuning | None = None,
) -> float:
    """Estimate the slack at which about `wanted` columns of a screened request are candidates.

    The estimate uses a sample of the requests. `cost_factor` multiplies the costs: 0 for the prices of a
    violation.
    """
    sample = (tuning or SetTuning()).slack_sample
    slots = np.flatnonzero(store.requests.n_columns[: store.requests.size] > max(KEEP_ALL, wanted))
    slots = slots[:: max(1, slots.size // sample)]
    if not slots.size:
        return 0.0
    slacks = store.executor.map(_slack_part, y, wanted, cost_factor, slots=slots)
    return float(np.median(np.concatenate(slacks)))


def _slack_part(
    part: Part, y: NDArray[np.float64], wanted: int, cost_factor: float, slots: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the slack at which about `wanted` columns are candidates, for each request in `slots`."""
    slacks = np.empty(slots.size)
    for k, slot in enumerate(slots.tolist()):
        prices = np.partition(part.store.priced_columns(slot, y, cost_factor), wanted)[: wanted + 1]
        slacks[k] = prices[wanted] - prices.min()
    return slacks


class LeftOut(NamedTuple):
    """Usage of the requests outside a working set, and the rows that the set includes.

    `usage` (row slots,): usage of the requests outside the set. `rows` (row slots,): True for the rows of the
    set; the other rows have no bounds in the set.
    """

    usage: NDArray[np.float64]
    rows: NDArray[np.bool_]


def gather(
    store: ConstraintStore,
    slot: NDArray[np.int64],
    column: NDArray[np.int64],
    held: LeftOut | None = None,
    stands_for: NDArray[np.float64] | None = None,
    tuning: SetTuning | None = None,
) -> WorkingSet:
    """Return the working set of some columns (k,), ascending by slot and column, without duplicates.

    The unit of a request's columns is total / sqrt(weight). The weight is the request's usage of its rows
    relative to other requests. So a step of length sigma moves large and small requests by the same share for
    the same price difference. If the usage in `held` leaves a row infeasible for the set, the row's bounds
    move to the nearest value that the set can reach. `stands_for` (request slots,): sampling weight of each
    request, by default 1.
    """
    tuning = tuning or SetTuning()
    taken = _take(store, slot, column, held, stands_for)
    entries, passes = (taken.pointer, taken.row, taken.value), (tuning.mean_passes, tuning.ruiz_passes)
    share, unit, row_scale, column_scale = natural_units(
        *entries, taken.first, taken.total, taken.decided, store.rows.size, passes, tuning.least_unit
    )
    lower_row, upper_row = _row_bounds(store, taken, held)
    if taken.single.any():
        row_scale, column_scale = _levelled(taken, row_scale, column_scale, lower_row, upper_row)
    bounds = lower_row, upper_row
    cost_scale, total, cost, upper, lower_row, upper_row = _in_units(
        *entries,
        taken.first,
        taken.exact,
        taken.total,
        taken.cost,
        taken.upper,
        *bounds,
        share,
        unit,
        row_scale,
        column_scale,
    )
    return WorkingSet(
        taken.slot,
        taken.exact,
        total,
        taken.first,
        taken.block,
        column,
        cost,
        upper,
        *entries,
        lower_row,
        upper_row,
        row_scale,
        column_scale,
        cost_scale,
    )


@kernel(allocates=True)
def _in_units(  # type: ignore[no-untyped-def]
    pointer,
    row,
    value,
    first,
    exact,
    total,
    cost,
    upper,
    lower_row,
    upper_row,
    share,
    unit,
    row_scale,
    column_scale,
):
    """Scale entries in place; return (unit of cost, totals, costs, upper bounds, row bounds) in units."""
    _scale_entries(pointer, row, value, row_scale, column_scale)
    rest = without_forced(first, exact, cost, upper) * column_scale
    cost_scale = _cost_unit(first, total, pointer, rest, share)
    rows = lower_row * row_scale, upper_row * row_scale
    return cost_scale, total / unit, rest / cost_scale, upper / column_scale, rows[0], rows[1]


@kernel(inner=True)
def _cost_unit(first, total, pointer, cost, share):  # type: ignore[no-untyped-def]
    """Return the root mean square of the nonzero costs of columns with rows or a sum row.

    Without any, use all nonzero costs; return 1 if all costs are 0.
    """
    square = of_all = 0.0
    count = count_all = 0
    for b in range(total.size):
        for j in range(first[b], first[b + 1]):
            if cost[j] == 0.0:
                continue
            of_all += cost[j] * cost[j]
            count_all += 1
            if total[b] < np.inf or pointer[j + 1] > pointer[j]:
                own = cost[j] / share[b]
                square += own * own
                count += 1
    if square > 0.0:
        return np.sqrt(square / count)
    return np.sqrt(of_all / count_all) if of_all > 0.0 else 1.0


def _levelled(
    taken: _Taken,
    row_scale: NDArray[np.float64],
    column_scale: NDArray[np.float64],
    lower_row: NDArray[np.float64],
    upper_row: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scales with typical values of connected columns as units."""
    single, upper = taken.single, taken.upper / column_scale
    tied = ~single & ~taken.decided[taken.block]
    # usage without a choice counts as a part of the row bounds
    kept = np.where(taken.decided, taken.total, 0.0)[taken.block]
    usage = taken.value * np.repeat(kept, np.diff(taken.pointer))
    fixed = np.bincount(taken.row, usage, row_scale.size)
    sides = lower_row - fixed, upper_row - fixed
    level = levels(taken.block, single, tied, taken.pointer, taken.row, row_scale, *sides, upper)
    return row_scale / level.rows, column_scale * level.columns


class _Taken(NamedTuple):
    """Columns as stored, in blocks as in :class:`WorkingSet`.

    ``decided``: blocks whose sum row leaves no choice. ``single``: columns without a sum row. ``forced``:
    usage of rows that blocks cannot avoid, which is subtracted from their entries.
    """

    slot: NDArray[np.int64]
    exact: NDArray[np.bool_]
    total: NDArray[np.float64]
    first: NDArray[np.int64]
    block: NDArray[np.int64]
    cost: NDArray[np.float64]
    upper: NDArray[np.float64]
    pointer: NDArray[np.int64]
    row: NDArray[np.uint32]
    value: NDArray[np.float64]
    decided: NDArray[np.bool_]
    single: NDArray[np.bool_]
    forced: NDArray[np.float64]


def _take(
    store: ConstraintStore,
    slot: NDArray[np.int64],
    column: NDArray[np.int64],
    held: LeftOut | None,
    stands_for: NDArray[np.float64] | None,
) -> _Taken:
    """Read the columns, and their entries in the rows of the set."""
    table, rows = store.requests, store.rows.size
    view, place = store.executor.columns(slot, column)
    seen = np.ones(rows, np.bool_) if held is None else held.rows
    return _Taken(*_read(view, table.n_columns, table.exact, table.total, slot, place, seen, stands_for))


@kernel(allocates=True)
def _read(view, n_columns, exactly, totals, slot, place, seen, stands_for):  # type: ignore[no-untyped-def]
    """Return the fields of :class:`_Taken`; `place`: positions of the columns in the view."""
    slots, first, block = _blocks(slot)
    exact, total = exactly[slots], totals[slots]
    cost, upper = costs_at(view, slot, place), caps_at(view, slot, place)
    pointer, row, value = take_entries(view, slot, place, seen)
    decided, single = np.empty(slots.size, np.bool_), np.empty(slot.size, np.bool_)
    choices = False
    for b in range(slots.size):
        decided[b] = exact[b] and n_columns[slots[b]] == 1
        single[first[b] : first[b + 1]] = total[b] == np.inf
        choices = choices or exact[b]
        if stands_for is not None:
            total[b] *= stands_for[slots[b]]
            for j in range(first[b], first[b + 1]):
                upper[j] *= stands_for[slots[b]]
    forced = np.zeros(seen.size)
    if choices:
        _take_forced(first, exact, total, pointer, row, value, forced)
    return slots, exact, total, first, block, cost, upper, pointer, row, value, decided, single, forced


@kernel(allocates=True, inner=True)
def _take_forced(first, exact, total, pointer, row, value, forced):  # type: ignore[no-untyped-def]
    """Subtract from the entries of a row the usage that a block cannot avoid, if that is most of its usage.

    With sum(x) == total only the differences of a row's entries matter: for the entries 1e9 and 1e9 + 1, only
    the 1. The subtracted usage is added to `forced`.
    """
    count, least = np.zeros(forced.size, np.int64), np.empty(forced.size)
    largest = np.empty(forced.size)
    for b in range(exact.size):
        n = first[b + 1] - first[b]
        if not exact[b] or n < 2 or not total[b] > 0.0:
            continue
        begin, end = pointer[first[b]], pointer[first[b + 1]]
        if pointer[first[b] + 1] == begin:  # the first column uses no row, so no usage is unavoidable
            continue
        for k in range(begin, end):
            r, size = row[k], abs(value[k])
            if count[r] == 0 or value[k] * least[r] <= 0.0:
                if count[r] > 0:
                    size = 0.0  # entries of both signs, or 0: no usage is unavoidable
                least[r], largest[r] = value[k] if size > 0.0 else 0.0, size
            elif size < abs(least[r]):
                least[r] = value[k]
            largest[r] = max(largest[r], size)
            count[r] += 1
        for k in range(begin, pointer[first[b] + 1]):
            r = row[k]
            if count[r] == n and abs(least[r]) > 0.5 * largest[r]:
                forced[r] += least[r] * total[b]
            else:
                least[r] = 0.0
        for k in range(begin, end):
            if count[row[k]] == n:
                value[k] -= least[row[k]]
        for k in range(begin, end):
            count[row[k]] = 0


def _row_bounds(
    store: ConstraintStore, taken: _Taken, held: LeftOut | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the row bounds minus the usage of requests outside the set; infinite for other rows."""
    rows = store.rows
    lower, upper = rows.lower[: rows.size] - taken.forced, rows.upper[: rows.size] - taken.forced
    if held is None:
        return lower, upper
    least, largest = _reach(taken, rows.size)
    lower = np.where(held.rows, np.minimum(lower - held.usage, largest), -np.inf)
    upper = np.where(held.rows, np.maximum(upper - held.usage, least), np.inf)
    return lower, upper


@kernel(allocates=True)
def _reach(taken, rows):  # type: ignore[no-untyped-def]
    """Return the least and the largest usage of each row, with every column at its own bound."""
    least, largest = np.zeros(rows), np.zeros(rows)
    for j in range(taken.upper.size):
        most = min(taken.upper[j], taken.total[taken.block[j]])
        for k in range(taken.pointer[j], taken.pointer[j + 1]):
            if taken.value[k] > 0.0:
                largest[taken.row[k]] += taken.value[k] * most
            elif taken.value[k] < 0.0:
                least[taken.row[k]] += taken.value[k] * most
    return least, largest


@kernel(allocates=True, inner=True)
def _blocks(slot):  # type: ignore[no-untyped-def]
    """Return the distinct slots, the start of each slot's columns, and the block of each column."""
    slots, first = np.empty(slot.size, np.int64), np.empty(slot.size + 1, np.int64)
    block, blocks = np.empty(slot.size, np.int64), 0
    for j in range(slot.size):
        if j == 0 or slot[j] != slot[j - 1]:
            slots[blocks], first[blocks] = slot[j], j
            blocks += 1
        block[j] = blocks - 1
    first[blocks] = slot.size
    return slots[:blocks], first[: blocks + 1], block


@kernel(inner=True)
def _scale_entries(pointer, row, value, row_scale, column_scale):  # type: ignore[no-untyped-def]
    for j in range(column_scale.size):
        for k in range(pointer[j], pointer[j + 1]):
            value[k] *= row_scale[row[k]] * column_scale[j]


@kernel(allocates=True)
def _lightest(view):  # type: ignore[no-untyped-def]
    """Compute :func:`lightest`; coefficients that requests share are read once."""
    n_columns = view.n_columns
    known = np.full(view.entry_start.size, -1)
    slot, column, count = np.empty(n_columns.size, np.int64), np.empty(n_columns.size, np.int64), 0
    for q in range(n_columns.size):
        if n_columns[q] <= KEEP_ALL or view.total[q] == np.inf:
            continue
        u, low = view.usage[q], np.inf
        if known[u] < 0:
            shift, stride = coefficients_of(view, u)
            for j in range(n_columns[q]):
                weight = 0.0
                begin, end = entries_of(view, u, j, j + 1)
                for k in range(begin, end):
                    weight += abs(view.coefficient[shift + stride * k])
                if weight < low:
                    low = weight
                    known[u] = j
        slot[count], column[count] = q, known[u]
        count += 1
    return slot[:count], column[:count]
