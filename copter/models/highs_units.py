"""Units in which a program fits into HiGHS, and the way back from them.

HiGHS drops entries below 1e-9 without a word, or below 1e-12 if it is told so, and refuses those of 1e15 and
more, and costs of 1e20.  A program that has such numbers, or a row or column of nothing but small ones, is
given to it in other units of rows, columns and cost: powers of two, so that scaling and what comes back are
exact.  They are found as a median polish is (Tukey 1977, "Exploratory Data Analysis"), of the logarithms of
entries, right-hand sides, bounds and costs, but by upper quartiles: noise does not move them, not even if
there is much of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.errors import SolverError

if TYPE_CHECKING:
    from copter.proof.rigorous import LinearProgram

LEAST, _MOST = 1e-12, 1e15
"""Entries that HiGHS can take are at least, and below, this in size; costs are kept below it too."""
KEPT = 1e-9
"""HiGHS drops entries below this unless configured otherwise."""
_PLAIN = 2.0**14
"""Branch and bound gets a program whose entries are within this factor of 1 as it is."""
_ROUNDS, _MEANS, _STILL = 30, 200, 0.01
_FAR = 1e15
"""A bound from which on it says nothing of the size of a column or row."""


class Units(NamedTuple):
    """The program's row i is ``row[i]`` times smaller than HiGHS', its column j ``column[j]`` times larger.

    So ``A' = row A column``, ``x = column x'``, ``c' = cost c column``; all are powers of two.
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
    """Return the numbers of a program in some units; None: its own."""
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
    """Whether HiGHS takes these entries and costs as they are, unless configured otherwise."""
    if costs.size and not -_MOST < costs.min() <= costs.max() < _MOST:
        return False
    if not entries.size:
        return True
    size = abs(entries)
    return bool(size.max() < _MOST and (size.min() >= KEPT or (size[size < KEPT] == 0.0).all()))


def units_for(program: LinearProgram, kinds: NDArray[np.int32] | None) -> Units | None:
    """Return units in which a program fits; None if it does as it is.

    The tolerances of branch and bound are absolute, so that a program with integral columns also gets other
    units if its entries are far from 1, as bytes are. Columns of `kinds` (n,) other than 0 keep their unit.
    HiGHS may drop entries below 1e-12 where those of their rows and columns are typically 1; its answer is
    judged on the program itself. Raise SolverError, with the entry that fits least, if there are no such
    units.
    """
    priced = abs(program.c[program.c != 0])
    tiny = priced.size > 0 and priced.max() < LEAST
    fit = fits(program.A.data, program.c) and not tiny
    whole = kinds is not None and bool(kinds.any())
    if fit and not (whole and _is_far(program.A.data)):
        return None
    matrix = program.A.tocoo()
    if fit and kinds is not None:
        return _by_means(program, matrix, kinds != 0)
    units = _balanced(program, matrix, kinds)
    size = abs(matrix.data) * units.row[matrix.row] * units.column[matrix.col]
    if not tiny and not _out(program, matrix, size < LEAST):
        return None
    if size.size and size.max() >= _MOST:
        entry = int(size.argmax())
        i, j = int(matrix.row[entry]), int(matrix.col[entry])
        where = f"{_name(program, 'row', i)}, {_name(program, 'column', j)}"
        value = float(matrix.data[entry])
        raise SolverError(f"{where}: {value!r}: no units bring this entry below {_MOST:g}, as HiGHS needs it")
    return units


def _is_far(entries: NDArray[np.float64]) -> bool:
    """Whether an entry is far from 1."""
    size = abs(entries[entries != 0.0])
    return bool(size.size) and not (1.0 / _PLAIN <= size.min() and size.max() <= _PLAIN)


def _out(program: LinearProgram, matrix: Any, noise: NDArray[np.bool_]) -> bool:
    """Whether a number is out of what HiGHS can take, or a row or column has none that is not small."""
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


def _balanced(program: LinearProgram, matrix: Any, kinds: NDArray[np.int32] | None) -> Units:
    """Return units by the upper quartiles of rows, columns, right-hand sides, bounds and costs.

    Right-hand sides and bounds are one more column, whose factor is the common unit of all columns; costs are
    one more row, and each bound of a column is a row of its own.
    """
    m, n = matrix.shape
    fixed = np.zeros(n, np.bool_) if kinds is None else kinds != 0
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
    still = np.append(fixed, fixed.any())
    for _ in range(_ROUNDS):
        up = -_typical(row, size + along[column], up.size)
        moved = -_typical(column, size + up[row], along.size)
        moved[still] = 0.0
        done = abs(moved - along).max(initial=0.0) < 0.5
        along = moved
        if done:
            break
    along, unit = np.rint(along), np.rint(along[n])
    up = np.rint(-_typical(row, size + along[column], up.size))
    return Units(np.exp2(up[:m] + unit), np.exp2(along[:n] - unit), float(np.exp2(up[m] + unit)))


def _by_means(program: LinearProgram, matrix: Any, fixed: NDArray[np.bool_]) -> Units:
    """Return units in which the entries of each row and column, and the costs, have a geometric mean near 1.

    Bounds do not count, because the units of columns that are not fixed follow from the rows that link them
    to fixed ones. Source: Fulkerson and Wolfe (1962), "An algorithm for scaling matrices".
    """
    known = matrix.data != 0.0
    row, column, size = matrix.row[known], matrix.col[known], np.log2(abs(matrix.data[known]))
    m, n = matrix.shape
    in_row, in_column = (np.maximum(np.bincount(each, minlength=k), 1) for each, k in ((row, m), (column, n)))
    along = np.zeros(n)
    for _ in range(_MEANS):
        up = -np.bincount(row, size + along[column], m) / in_row
        moved = np.where(fixed, 0.0, -np.bincount(column, size + up[row], n) / in_column)
        done = abs(moved - along).max(initial=0.0) < _STILL
        along = moved
        if done:
            break
    along = np.rint(along)
    up = -np.rint(np.bincount(row, size + along[column], m) / in_row)
    paid = np.flatnonzero(program.c)
    costs = np.log2(abs(program.c[paid])) + along[paid]
    return Units(np.exp2(up), np.exp2(along), float(np.exp2(-np.rint(costs.mean() if paid.size else 0.0))))


def _typical(group: NDArray[np.int64], size: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Upper quartile of each group, of two their mean; 0 for an empty one."""
    ordered = size[np.lexsort((size, group))]
    many = np.bincount(group, minlength=count)
    first = np.cumsum(many) - many
    some = np.flatnonzero(many)
    rank = np.where(many == 2, 0.5, 0.75 * (many - 1))[some]
    low, high = (first[some] + side(rank).astype(np.int64) for side in (np.floor, np.ceil))
    found = np.zeros(count)
    found[some] = (ordered[low] + ordered[high]) / 2
    return found
