"""Repair of whole amounts: moves of single columns until all rows hold, and then until no move gains.

A move changes one column, in whole steps if the column is integral. It creates or enlarges no violation of a
row, except of lower bounds while upper bounds are cured or an exchange begins. A column with a minimum goes
from 0 to its minimum, and back, in one step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Floats, Ints
from copter.compile.kernels import kernel

_ROUNDING = 1e-10
"""Largest excess of a row that counts as a rounding error, relative to its bound or 1."""
_TURNS = 20
"""Largest number of passes over the rows: continuous columns may approach a bound in many small moves."""
_PASSES = 4
"""Largest number of passes over the columns in search of a better answer."""


class Entries(NamedTuple):
    """Nonzeros of a matrix by column, or by row: `at` and `value` from ``start[k]`` to ``start[k + 1]``."""

    start: Ints
    at: Ints
    value: Floats


class Problem(NamedTuple):
    """Rows (m,) with bounds and prices, and columns (n,) with costs, bounds and kinds.

    `least` has the least amount of each column that does not have 0; `whole` is True for columns with whole
    amounts.
    """

    columns: Entries
    rows: Entries
    lower: Floats
    upper: Floats
    y: Floats
    cost: Floats
    most: Floats
    least: Floats
    whole: NDArray[np.bool_]


@kernel(allocates=True)
def repair(problem, x, used):  # type: ignore[no-untyped-def]
    """Change the amounts `x`, and the sums of the rows `used`, until rows hold as far as possible.

    1. Rows above their upper bounds are reduced, even if other rows then fall below their lower bounds. If a
       row cannot be reduced enough, all amounts become 0.
    2. Rows below their lower bounds are filled. Each move takes the column with the least loss for each unit:
       its cost, less the value of what it adds to rows below their lower bounds.
    3. Each column with a positive cost is reduced as far as the rows permit. Then the column is reduced by
       one more step, or else to 0, and the rows that then lack something are filled. The change is kept if it
       lowers the cost.
    4. Columns with a negative cost are raised as far as the rows permit.
    """
    n, m = x.size, used.size
    log_column, log_change = np.empty(8 * (n + m) + 64, np.int64), np.empty(8 * (n + m) + 64)
    rows = np.arange(m)
    _cure(problem, np.full(m, -np.inf), x, used, rows, log_column, log_change, np.int64(0))
    for i in rows:
        if used[i] > _above(problem.upper[i]):
            x[:], used[:] = 0.0, 0.0
            break
    _cure(problem, problem.lower, x, used, rows, log_column, log_change, np.int64(0))
    loss = problem.cost.copy()
    for j in range(n):
        for k in range(problem.columns.start[j], problem.columns.start[j + 1]):
            loss[j] += problem.columns.value[k] * problem.y[problem.columns.at[k]]
    order = np.argsort(-loss)
    for j in order:
        if problem.cost[j] > 0.0 and x[j] > 0.0:
            _move(problem, x, used, j, -_step(problem, problem.lower, x, used, j, -1.0, np.inf))
    for _ in range(_PASSES):
        better = False
        for j in order:
            if problem.cost[j] > 0.0:
                while x[j] > 0.0 and _without(problem, x, used, j, np.bool_(False), log_column, log_change):
                    better = True
                if x[j] > 0.0 and _without(problem, x, used, j, np.bool_(True), log_column, log_change):
                    better = True
        if not better:
            break
    for turn in range(n):
        j = order[n - 1 - turn]
        if problem.cost[j] < 0.0 and x[j] < problem.most[j]:
            _move(problem, x, used, j, _step(problem, problem.lower, x, used, j, 1.0, np.inf))


@kernel(inner=True)
def _without(problem, x, used, j, entirely, log_column, log_change):  # type: ignore[no-untyped-def]
    """Reduce a column and fill the rows that then lack something; return whether that lowered the cost."""
    change = x[j] if entirely or not problem.whole[j] or x[j] - 1.0 < problem.least[j] else 1.0
    first, end = problem.columns.start[j], problem.columns.start[j + 1]
    for k in range(first, end):
        i, off = problem.columns.at[k], -change * problem.columns.value[k]
        if off > 0.0 and used[i] + off > _above(problem.upper[i]):
            return False
    lacked = _lacking(problem, used, first, end)
    most = problem.most[j]
    _move(problem, x, used, j, -change)
    log_column[0], log_change[0] = j, -change
    rows = problem.columns.at[first:end]
    count = _cure(problem, problem.lower, x, used, rows, log_column, log_change, np.int64(1))
    gain = 0.0
    for k in range(count):
        gain -= problem.cost[log_column[k]] * log_change[k]
    if gain > _ROUNDING * abs(problem.cost[j]) * most and _lacking(problem, used, first, end) <= lacked:
        return True
    for k in range(count):
        _move(problem, x, used, log_column[count - 1 - k], -log_change[count - 1 - k])
    return False


@kernel(inner=True)
def _lacking(problem, used, first, end):  # type: ignore[no-untyped-def]
    """Return what some rows lack below their lower bounds, beyond rounding errors."""
    total = 0.0
    for k in range(first, end):
        i = problem.columns.at[k]
        if used[i] < _below(problem.lower[i]):
            total += problem.lower[i] - used[i]
    return total


@kernel(inner=True)
def _cure(problem, lower, x, used, rows, log_column, log_change, count):  # type: ignore[no-untyped-def]
    """Move columns of violated rows until these hold, or no move reduces a violation.

    The moves are written to the log from entry `count` on; return the number of all moves in the log.
    """
    for _ in range(_TURNS):
        moved = False
        for i in rows:
            while count < log_column.size:
                over = used[i] > problem.upper[i]
                excess = max(used[i] - _above(problem.upper[i]), _below(lower[i]) - used[i])
                if excess <= 0.0:
                    break
                best, chosen, change = np.inf, np.int64(0), 0.0
                for k in range(problem.rows.start[i], problem.rows.start[i + 1]):
                    j, a = problem.rows.at[k], problem.rows.value[k]
                    if a == 0.0:
                        continue
                    sign = -1.0 if (a > 0.0) == over else 1.0
                    amount = _step(problem, lower, x, used, j, sign, excess / abs(a))
                    if amount > 0.0:
                        each = _loss(problem, lower, used, j, sign * amount) / min(amount * abs(a), excess)
                        if each < best:
                            best, chosen, change = each, j, sign * amount
                if best == np.inf:
                    break
                _move(problem, x, used, chosen, change)
                log_column[count], log_change[count] = chosen, change
                count += 1
                moved = True
        if not moved:
            break
    return count


@kernel(inner=True)
def _loss(problem, lower, used, j, change):  # type: ignore[no-untyped-def]
    """Return the cost of a move, and of what it uses, less the value of what it adds to rows that lack it."""
    loss = problem.cost[j] * change
    for k in range(problem.columns.start[j], problem.columns.start[j + 1]):
        i, more = problem.columns.at[k], change * problem.columns.value[k]
        if problem.y[i] > 0.0:
            loss += problem.y[i] * more
        elif problem.y[i] < 0.0:
            loss += problem.y[i] * (min(more, max(lower[i] - used[i], 0.0)) if more > 0.0 else more)
    return loss


@kernel(inner=True)
def _step(problem, lower, x, used, j, sign, wanted):  # type: ignore[no-untyped-def]
    """Return the largest amount up to `wanted`, rounded up, by which a column can move in one direction."""
    room = problem.most[j] - x[j] if sign > 0.0 else x[j]
    for k in range(problem.columns.start[j], problem.columns.start[j + 1]):
        i, change = problem.columns.at[k], sign * problem.columns.value[k]
        if change > 0.0:
            room = min(room, max(_above(problem.upper[i]) - used[i], 0.0) / change)
        elif change < 0.0:
            room = min(room, max(used[i] - _below(lower[i]), 0.0) / -change)
    amount = min(room, wanted)
    if problem.whole[j]:
        amount = min(np.floor(room), np.ceil(wanted - _ROUNDING))
    least = problem.least[j]
    if 0.0 < x[j] + sign * amount < least:
        amount = least - x[j] if sign > 0.0 else (x[j] if room >= x[j] else x[j] - least)
    return amount if amount <= room else 0.0


@kernel(inner=True)
def _move(problem, x, used, j, change):  # type: ignore[no-untyped-def]
    x[j] += change
    for k in range(problem.columns.start[j], problem.columns.start[j + 1]):
        used[problem.columns.at[k]] += change * problem.columns.value[k]


@kernel(inlined=True)
def _above(bound):  # type: ignore[no-untyped-def]
    return bound + _ROUNDING * max(1.0, abs(bound))


@kernel(inlined=True)
def _below(bound):  # type: ignore[no-untyped-def]
    return bound - _ROUNDING * max(1.0, abs(bound))
