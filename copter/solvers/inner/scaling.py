"""Units in which typical values of a working set are about 1, independent of the program's units.

Coefficients are scaled by geometric means, so that units of rows and columns do not matter.  Columns without
a sum row are then scaled by Ruiz' passes (Ruiz 2001), and by typical bounds of the rows and columns that are
connected with them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.parallel import dot
from copter.proof.magnitudes import components, geometric_means, medians

_SAME_COST = 1e-14
"""Relative difference up to which the costs of a request count as equal, because of rounding."""


@kernel(allocates=True)
def natural_units(pointer, row, value, first, total, decided, m, passes, least):  # type: ignore[no-untyped-def]
    """Return units of blocks and columns, and scale factors of the m rows and of the columns.

    Arguments: compressed columns, the blocks' starts and totals, `decided` (no choice), the numbers of passes
    of geometric means and of Ruiz, and the least ratio of a unit to the usual one.

    Return (total of each block divided by its unit, units of blocks, row factors, column factors). Scaled
    rows have unit norm.
    """
    summed, single, any_single = np.empty(total.size, np.bool_), np.zeros(first[-1], np.bool_), False
    for b in range(total.size):
        summed[b] = 0.0 < total[b] < np.inf
        if total[b] == np.inf:
            single[first[b] : first[b + 1]] = True
            any_single = True
    weight = _weights(pointer, row, value, first, total, decided, summed, m, passes[0])
    share, unit, column_scale = _units(weight, first, total, decided, summed, least)
    row_scale = np.ones(m)
    if any_single and value.size:
        _even_out(pointer, row, value, single, row_scale, column_scale, passes[1])
    _unit_norms(pointer, row, value, row_scale, column_scale)
    return share, unit, row_scale, column_scale


@kernel(allocates=True, inner=True)
def _weights(pointer, row, value, first, total, decided, summed, m, passes):  # type: ignore[no-untyped-def]
    """Return each column's usage of its rows relative to other columns, by geometric means; no unit.

    All columns of a sum row have the same weight, computed at values of its total. If all requests use the
    same unit, the weight is the total up to a factor. A column without a sum row has its own weight, computed
    at a value of 1.
    """
    group, starts, counted, size = _groups(pointer, value, first, total, decided, summed)
    _, own = geometric_means(pointer, row, size, starts, counted, m, passes)
    for g in range(own.size):
        own[g] = math.exp(own[g])
    return own[group]


@kernel(allocates=True, inner=True)
def _groups(pointer, value, first, total, decided, summed):  # type: ignore[no-untyped-def]
    """Return (group of each column, starts, which groups count, logarithms of entries) for weights."""
    group, size = np.empty(first[-1], np.int64), np.empty(value.size)
    starts, counted, groups = np.empty(first[-1] + 1, np.int64), np.empty(first[-1], np.bool_), 0
    for b in range(summed.size):
        times = total[b] if summed[b] else 1.0
        for j in range(first[b], first[b + 1]):
            if j == first[b] or not summed[b]:
                starts[groups], counted[groups] = j, not decided[b]
                groups += 1
            group[j] = groups - 1
            for k in range(pointer[j], pointer[j + 1]):
                entry = abs(value[k] * times)
                size[k] = math.log(entry) if entry > 0.0 else -np.inf
    starts[groups] = first[-1]
    return group, starts[: groups + 1], counted[:groups], size


@kernel(allocates=True)
def _units(weight, first, total, decided, summed, least):  # type: ignore[no-untyped-def]
    """Return (share, unit of blocks, unit of columns) from the columns' weights; shares are >= `least`.

    The usual weight is the mean over blocks with a choice, each weighted by its weight; 1 without any.
    """
    most = once = twice = 0.0
    for b in range(summed.size):
        if summed[b] and not decided[b]:
            most = max(most, weight[first[b]])
    if most > 0.0:
        for b in range(summed.size):
            if summed[b] and not decided[b]:
                relative = weight[first[b]] / most
                once += relative
                twice += relative * relative
    usual = most * twice / once if most > 0.0 else 1.0
    share, unit, column = np.ones(summed.size), np.ones(summed.size), np.empty(weight.size)
    for b in range(summed.size):
        if summed[b]:
            share[b] = max(np.sqrt(weight[first[b]] / usual), least)
            unit[b] = total[b] / share[b]
        for j in range(first[b], first[b + 1]):
            column[j] = unit[b] if summed[b] else usual / weight[j]
    return share, unit, column


class _Levels(NamedTuple):
    """Typical values of rows and of columns."""

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]


def levels(
    block: NDArray[np.int64],
    single: NDArray[np.bool_],
    tied: NDArray[np.bool_],
    pointer: NDArray[np.int64],
    row: NDArray[np.uint32],
    row_scale: NDArray[np.float64],
    lower_row: NDArray[np.float64],
    upper_row: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> _Levels:
    """Return typical values of connected columns without a sum row, by row bounds, else by column bounds.

    `block` (columns,) ascends. `single`, `tied` (columns,): without a sum row; with a sum row that sets the
    value. Columns of a sum row without a choice are neither, and their usage is already subtracted from the
    row bounds (m,), which are unscaled; `upper` (columns,) is scaled. `pointer`, `row`: compressed columns.
    """
    m = row_scale.size
    group = np.cumsum(single | (np.diff(block, prepend=-1) > 0)) - 1  # columns of a sum row are one group
    n = int(group[-1]) + 1
    of_group, of_row, count = components(row, np.repeat(group, np.diff(pointer)), m, n)
    of_column = of_group[group]
    used = np.bincount(row, minlength=m) > 0
    sides = np.where(used, abs(lower_row) * row_scale, 0.0), np.where(used, abs(upper_row) * row_scale, 0.0)
    by_row = medians(np.tile(of_row, 2), np.concatenate(sides), count)
    level = np.where(by_row > 0, by_row, medians(of_column, np.where(single, upper, 0.0), count))
    level[of_column[tied]] = 1.0
    level[level == 0] = 1.0
    return _Levels(level[of_row], np.where(single, level[of_column], 1.0))


@kernel(allocates=True, inner=True)
def without_forced(first, exact, cost, upper):  # type: ignore[no-untyped-def]
    """Return the costs minus the cost that a request with sum(x) == total cannot avoid."""
    rest = cost.copy()
    for b in range(exact.size):
        if not exact[b]:
            continue
        least, most = np.inf, -np.inf
        for j in range(first[b], first[b + 1]):
            if upper[j] > 0.0:
                least, most = min(least, cost[j]), max(most, cost[j])
        forced = least if least > 0.0 else (most if most < 0.0 else 0.0)
        for j in range(first[b], first[b + 1]):
            rest[j] = cost[j] - forced
            if abs(rest[j]) <= _SAME_COST * abs(forced):
                rest[j] = 0.0
    return rest


@kernel(allocates=True, inner=True)
def _even_out(pointer, row, value, single, row_scale, column_scale, passes):  # type: ignore[no-untyped-def]
    """Scale rows, and columns without a sum row, by square roots of their largest entries (Ruiz).

    Before the first pass rows are scaled by their largest entries, so that units of rows do not matter.
    """
    size = np.empty(value.size)
    for j in range(single.size):
        for k in range(pointer[j], pointer[j + 1]):
            size[k] = abs(value[k]) * column_scale[j]
    for turn in range(passes + 1):
        largest = np.zeros(row_scale.size)
        for k in range(size.size):
            largest[row[k]] = max(largest[row[k]], size[k])
        for r in range(largest.size):
            if turn > 0:
                largest[r] = np.sqrt(largest[r])
            largest[r] = 1.0 / largest[r] if largest[r] > 0.0 else 1.0
            row_scale[r] *= largest[r]
        for j in range(single.size):
            top = 0.0
            for k in range(pointer[j], pointer[j + 1]):
                top = max(top, size[k])
            factor = 1.0 / np.sqrt(top) if single[j] and top > 0.0 and turn > 0 else 1.0
            column_scale[j] *= factor
            for k in range(pointer[j], pointer[j + 1]):
                size[k] *= factor * largest[row[k]]


@kernel(allocates=True, inner=True)
def _unit_norms(pointer, row, value, row_scale, column_scale):  # type: ignore[no-untyped-def]
    """Scale rows further to unit norm."""
    square = np.zeros(row_scale.size)
    for j in range(column_scale.size):
        for k in range(pointer[j], pointer[j + 1]):
            entry = row_scale[row[k]] * value[k] * column_scale[j]
            square[row[k]] += entry * entry
    for r in range(square.size):
        if square[r] > 0.0:
            row_scale[r] /= np.sqrt(square[r])


def root_mean_square(values: NDArray[np.float64]) -> float:
    """Return the root mean square of the nonzero values; 0 without any."""
    return math.sqrt(dot(values, values) / max(1, int(np.count_nonzero(values))))
