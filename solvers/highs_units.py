"""Units in which a program fits into HiGHS, and the way back from them.

HiGHS drops entries below 1e-9 without a word, or below 1e-12 if it is told so, and refuses those of 1e15 and
more, and costs of 1e20.  A program that has such numbers, or a row or column of nothing but small ones, is
given to it in other units of rows, columns and cost: powers of two, so that scaling and what comes back are
exact.  They are found by geometric scaling: the logarithms of the least and the largest entry of each row and
column are moved to where their mean is 0, of right-hand sides, bounds and costs too, until nothing moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.errors import SolverError

if TYPE_CHECKING:
    from copter.models.general_lp import GeneralLP
    from copter.solvers.exact.rest import Rest
    from copter.store.compiled import CompiledProgram

    Rows: TypeAlias = CompiledProgram | GeneralLP | Rest

LEAST, MOST = 1e-12, 1e15
"""Entries that HiGHS can take are at least, and below, this in size; costs are kept below it too."""
KEPT = 1e-9
"""Entries that HiGHS drops unless told otherwise are below this."""
_ROUNDS = 30
_HARMLESS = 1e-12
"""What an entry adds to a row at most, relative to the row's bound, if HiGHS may drop it."""
_FAR = 1e15
"""A bound from which on it says nothing of the size of a column or row."""


class Units(NamedTuple):
    """The program's row i is ``row[i]`` times smaller than HiGHS', its column j ``column[j]`` times larger.

    So ``A' = row A column``, ``x = column x'``, ``c' = cost c column``; all are powers of two.
    """

    row: NDArray[np.float64]
    column: NDArray[np.float64]
    cost: float


def fits(entries: NDArray[np.float64], costs: NDArray[np.float64]) -> bool:
    """Whether HiGHS takes these entries and costs as they are, unless told otherwise.

    Parameters
    ----------
    entries, costs : ndarrays

    Returns
    -------
    bool
    """
    if costs.size and not -MOST < costs.min() <= costs.max() < MOST:
        return False
    if not entries.size:
        return True
    size = abs(entries)
    return bool(size.max() < MOST and (size.min() >= KEPT or (size[size < KEPT] == 0.0).all()))


def units_for(program: Rows, kinds: NDArray[np.int32] | None) -> Units | None:
    """Units in which a program fits; None if it does as it is.

    Parameters
    ----------
    program : CompiledProgram or GeneralLP
    kinds : (n,) int32 ndarray, optional
        Columns of kinds other than 0 keep their unit.

    Returns
    -------
    Units or None

    Raises
    ------
    SolverError
        There are none: names the entry that fits least.
    """
    priced = abs(program.c[program.c != 0])
    tiny = priced.size > 0 and priced.max() < LEAST
    if fits(program.A.data, program.c) and not tiny:
        return None
    matrix = program.A.tocoo()
    harmless = _harmless(program, matrix)
    if not tiny and not _out(program, matrix, harmless):
        return None
    units = _balanced(program, matrix, harmless, kinds)
    size = abs(matrix.data) * units.row[matrix.row] * units.column[matrix.col]
    out = ~harmless & (matrix.data != 0) & ~((size >= LEAST) & (size < MOST))
    if out.any():
        entry = int(np.argmax(np.where(out, abs(np.log2(np.where(out, size, 1.0))), -1.0)))
        i, j = int(matrix.row[entry]), int(matrix.col[entry])
        where = f"{_name(program, 'row', i)}, {_name(program, 'column', j)}"
        value = float(matrix.data[entry])
        why = f"HiGHS takes entries from {LEAST:g} to {MOST:g}, and no units bring this one there"
        raise SolverError(f"{where}: {value!r}: {why}")
    return units


def _out(program: Rows, matrix: Any, harmless: NDArray[np.bool_]) -> bool:
    """Whether a number is out of what HiGHS can take, or a row or column has none that is not small."""
    row, column, size = (each[~harmless] for each in (matrix.row, matrix.col, abs(matrix.data)))
    row, column, size = row[size > 0], column[size > 0], size[size > 0]
    if not (fits(np.empty(0), program.c) and ((size >= LEAST) & (size < MOST)).all()):
        return True
    small = size < KEPT
    for group, count in ((row, matrix.shape[0]), (column, matrix.shape[1])):
        largest = np.zeros(count)
        np.maximum.at(largest, group, size)
        if (largest[group[small]] < KEPT).any():
            return True
    return False


def _name(program: Rows, kind: str, number: int) -> str:
    """What an error calls a row or column: by its name if it has one."""
    names: Any = getattr(program, f"{kind}_names", ())
    return f"{kind} {names[number] if names else number}"


def _harmless(program: Rows, matrix: Any) -> NDArray[np.bool_]:
    """Entries below what HiGHS takes that can add next to nothing to their row: noise, which it may drop."""
    reach = _reach(program, matrix)
    right = np.where(np.isfinite(program.row_upper), abs(program.row_upper), 0.0)
    right = np.maximum(right, np.where(np.isfinite(program.row_lower), abs(program.row_lower), 0.0))
    size = abs(matrix.data)
    small = np.flatnonzero(size < LEAST)
    harmless = np.zeros(size.size, np.bool_)
    most = np.where(size[small] > 0, size[small] * reach[matrix.col[small]], 0.0)
    harmless[small] = most <= _HARMLESS * right[matrix.row[small]]
    return harmless


def _reach(program: Rows, matrix: Any) -> NDArray[np.float64]:
    """How far from 0 each column can be: by its own bounds, and by those that single rows imply."""
    low, high = program.lower.copy(), program.upper.copy()
    known = matrix.data != 0
    row, column, data = matrix.row[known], matrix.col[known], matrix.data[known]
    m = matrix.shape[0]
    for value, right in ((data, program.row_upper), (-data, -program.row_lower)):
        least = value * np.where(value > 0, low[column], high[column])
        endless = np.isinf(least)
        least = np.where(endless, 0.0, least)
        alone = np.bincount(row, endless, m)[row] == endless  # nothing else in the row is without end
        alone &= np.isfinite(right[row])
        with np.errstate(over="ignore", invalid="ignore"):
            bound = (right[row] - np.bincount(row, least, m)[row] + least) / value
        above, below = alone & (value > 0), alone & (value < 0)
        np.minimum.at(high, column[above], bound[above])
        np.maximum.at(low, column[below], bound[below])
    return np.maximum(abs(low), abs(high))


def _balanced(
    program: Rows, matrix: Any, left_out: NDArray[np.bool_], kinds: NDArray[np.int32] | None
) -> Units:
    """Units by geometric scaling of rows, right-hand sides, bounds and costs.

    Right-hand sides and bounds are one more column, whose factor is the unit of all columns together; costs
    are one more row, and each bound of a column is a row of its own.
    """
    m, n = matrix.shape
    fixed = np.zeros(n, np.bool_) if kinds is None else kinds != 0
    parts = [
        (matrix.row, matrix.col, np.where(left_out, 0.0, matrix.data)),
        (np.full(n, m), np.arange(n), program.c),
    ]
    own = m + 1 + np.arange(n)
    for low, high, rows in (
        (program.row_lower, program.row_upper, np.arange(m)),
        (program.lower, program.upper, own),
    ):
        for side in (low, high):
            parts.append((rows, np.full(rows.size, n), np.where(abs(side) < _FAR, side, 0.0)))
    parts.append((own, np.arange(n), np.ones(n)))
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    known = value != 0
    row, column, size = row[known], column[known], np.log2(abs(value[known]))
    up, along = np.zeros(m + 1 + n), np.zeros(n + 1)
    still = np.append(fixed, fixed.any())
    for _ in range(_ROUNDS):
        up = -_middle(row, size + along[column], up.size)
        moved = -_middle(column, size + up[row], along.size)
        moved[still] = 0.0
        done = abs(moved - along).max(initial=0.0) < 0.5
        along = moved
        if done:
            break
    along, unit = np.rint(along), np.rint(along[n])
    up = np.rint(-_middle(row, size + along[column], up.size))
    return Units(np.exp2(up[:m] + unit), np.exp2(along[:n] - unit), float(np.exp2(up[m] + unit)))


def _middle(group: NDArray[np.int64], size: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Mean of the least and the largest of each group; 0 for an empty one."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, group, size)
    np.maximum.at(high, group, size)
    none = low > high
    low[none] = high[none] = 0.0
    return (low + high) / 2
