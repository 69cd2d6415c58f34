"""Units in which the numbers of a program are in HiGHS' range.

HiGHS silently drops entries below 1e-9, or below 1e-12 if configured so. It rejects entries of 1e15 and more,
and costs of 1e20. A program with such numbers, or with a row or column of only small numbers, is passed in
other units of rows, columns and cost. The units are powers of two, so that scaling is exact in both
directions. They are found by a median polish (Tukey 1977, "Exploratory Data Analysis") of the logarithms of
entries, right-hand sides, bounds and costs, with upper quartiles in place of medians, so that noise does not
change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.errors import SolverError

if TYPE_CHECKING:
    from copter.proof.rigorous import LinearProgram

LEAST, _MOST = 1e-12, 1e15
"""Range of absolute entries that HiGHS accepts; absolute costs are below the upper end, too."""
KEPT = 1e-9
"""HiGHS drops entries below this unless configured otherwise."""
_ROUNDS = 30
_FAR = 1e15
"""A bound from this size on is not used for units."""


class Units(NamedTuple):
    """Units of rows (m,), columns (n,) and costs: powers of two.

    The program of HiGHS, marked by ', has ``A' = row A column``, ``x' = x / column`` and ``c' = cost c
    column``.
    """

    row: NDArray[np.float64]
    column: NDArray[np.float64]
    cost: float


class _Numbers(NamedTuple):
    """Numbers of a program in some units: costs, entries, bounds of rows and of columns."""

    c: NDArray[np.float64]
    data: NDArray[np.float64]
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def numbers_in(program: LinearProgram, units: Units | None) -> _Numbers:
    """Return the numbers of a program in some units; None for its own units."""
    A, c, rows, columns = (
        program.A,
        program.c,
        (program.row_lower, program.row_upper),
        (program.lower, program.upper),
    )
    if units is None:
        return _Numbers(c, A.data, *rows, *columns)
    row, column, cost = units
    data = A.data * row[A.indices] * np.repeat(column, np.diff(A.indptr))
    return _Numbers(
        c * column * cost, data, *(side * row for side in rows), *(side / column for side in columns)
    )


def fits(entries: NDArray[np.float64], costs: NDArray[np.float64]) -> bool:
    """Return whether HiGHS accepts these entries and costs with its default options."""
    if costs.size and not -_MOST < costs.min() <= costs.max() < _MOST:
        return False
    if not entries.size:
        return True
    size = abs(entries)
    return bool(size.max() < _MOST and (size.min() >= KEPT or (size[size < KEPT] == 0.0).all()))


def units_for(program: LinearProgram) -> Units | None:
    """Return units in which a continuous program is in HiGHS' range; None for its own units.

    HiGHS may drop entries below 1e-12 if the typical entry of their rows and columns is 1; its solution is
    checked on the program itself. Raise SolverError, with the largest entry, if there are no such units.
    """
    priced = abs(program.c[program.c != 0])
    tiny = priced.size > 0 and priced.max() < LEAST
    if fits(program.A.data, program.c) and not tiny:
        return None
    matrix = program.A.tocoo()
    units = _balanced(program, matrix)
    size = abs(matrix.data) * units.row[matrix.row] * units.column[matrix.col]
    if not tiny and not _out(program, matrix, size < LEAST):
        return None
    if size.size and size.max() >= _MOST:
        entry = int(size.argmax())
        i, j = int(matrix.row[entry]), int(matrix.col[entry])
        where = f"{_name(program, 'row', i)}, {_name(program, 'column', j)}"
        value = float(matrix.data[entry])
        raise SolverError(f"{where}: {value!r}: must be below {_MOST:g} for HiGHS, and is not in any units")
    return units


def _out(program: LinearProgram, matrix: Any, noise: NDArray[np.bool_]) -> bool:
    """Return whether a number is out of HiGHS' range, or a row or column has only small entries."""
    row, column, size = (each[~noise] for each in (matrix.row, matrix.col, abs(matrix.data)))
    row, column, size = row[size > 0], column[size > 0], size[size > 0]
    if not (fits(np.empty(0), program.c) and ((size >= LEAST) & (size < _MOST)).all()):
        return True
    small = size < KEPT
    for group, count in ((row, matrix.shape[0]), (column, matrix.shape[1])):
        largest = np.zeros(count)
        np.maximum.at(largest, group, size)
        if (largest[group[small]] < KEPT).any():
            return True
    return False


def _name(program: LinearProgram, kind: str, number: int) -> str:
    """Return the name of a row or column in errors."""
    names: Any = getattr(program, f"{kind}_names", ())
    return f"{kind} {names[number] if names else number}"


def _balanced(program: LinearProgram, matrix: Any) -> Units:
    """Return units by the upper quartiles of rows, columns, right-hand sides, bounds and costs.

    Right-hand sides and bounds are treated as an additional column, whose factor is the common unit of all
    columns. Costs are treated as an additional row, and the bounds of each column as a row of their own.
    """
    m, n = matrix.shape
    own = m + 1 + np.arange(n)
    parts = [
        (matrix.row, matrix.col, matrix.data),
        (np.full(n, m), np.arange(n), program.c),
        (own, np.arange(n), np.ones(n)),
    ]
    for rows, *sides in (
        (np.arange(m), program.row_lower, program.row_upper),
        (own, program.lower, program.upper),
    ):
        parts += [(rows, np.full(rows.size, n), np.where(abs(side) < _FAR, side, 0.0)) for side in sides]
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    known = value != 0
    row, column, size = row[known], column[known], np.log2(abs(value[known]))
    up, along = np.zeros(m + 1 + n), np.zeros(n + 1)
    for _ in range(_ROUNDS):
        up = -_typical(row, size + along[column], up.size)
        moved = -_typical(column, size + up[row], along.size)
        done = abs(moved - along).max(initial=0.0) < 0.5
        along = moved
        if done:
            break
    along, unit = np.rint(along), np.rint(along[n])
    up = np.rint(-_typical(row, size + along[column], up.size))
    return Units(np.exp2(up[:m] + unit), np.exp2(along[:n] - unit), float(np.exp2(up[m] + unit)))


def _typical(group: NDArray[np.int64], size: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the upper quartile of each group, the mean of two values, or 0 for an empty group."""
    ordered = size[np.lexsort((size, group))]
    many = np.bincount(group, minlength=count)
    first = np.cumsum(many) - many
    some = np.flatnonzero(many)
    rank = np.where(many == 2, 0.5, 0.75 * (many - 1))[some]
    low, high = (first[some] + side(rank).astype(np.int64) for side in (np.floor, np.ceil))
    found = np.zeros(count)
    found[some] = (ordered[low] + ordered[high]) / 2
    return found
