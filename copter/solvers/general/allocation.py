"""An LP that is an allocation, as a ContinualProgram: rows that are sums over blocks of columns are requests.

An allocation written as a plain LP has a row ``sum_j x_j <= total`` for each request. If such rows become sum
rows of requests, each pricing pass meets them exactly, and only the other rows need prices.
:func:`as_program` finds such rows. Every column outside them, which needs a finite upper bound, becomes a
request of its own, and every other row a resource.

A row qualifies if its coefficients are all the same positive number and its columns are all integral or all
continuous. It must be an equation, or have an upper bound and a lower bound of at most 0. Blocks do not
overlap. Short rows are chosen first, so that as many rows as possible become blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from copter.errors import UnsupportedError
from copter.models.highs_lp import differing, same_pattern
from copter.models.linear_program import LinearProgram, checked

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution

_SAME = 1e-12
"""Relative difference up to which coefficients count as equal."""
_COLUMNS_A_ROW = 500
"""Least number of columns for each row that is not a sum row; with more rows, simplex is faster."""
_ALONE, _EQUATION, _KINDS = 2, 1, 3
"""Kinds of columns: 0 in a block, 1 in a block with an equation, 2 not in a block; plus 3 if integral."""


class _Blocks(NamedTuple):
    """Rows that become sum rows.

    `row` (b,) has the row of each block, and `factor` (b,) the coefficient of its columns in the row.
    `member` (n,) has the block of each column, or -1.
    """

    row: NDArray[np.int64]
    factor: NDArray[np.float64]
    member: NDArray[np.int64]


def find_blocks(lp: LinearProgram) -> _Blocks:
    """Return the blocks of an LP with columns >= 0."""
    A, n = csr_array(lp.A), lp.c.size
    size = np.diff(A.indptr)
    long = np.flatnonzero(size >= 2)
    member = np.full(n, -1)
    if not long.size:
        return _Blocks(np.empty(0, np.int64), np.empty(0), member)
    bounds = np.column_stack((A.indptr[long], A.indptr[long + 1])).ravel()
    if bounds[-1] == A.nnz:
        bounds = bounds[:-1]

    def reduced(which: np.ufunc, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return which.reduceat(values, bounds)[::2]

    least, most = reduced(np.minimum, A.data), reduced(np.maximum, A.data)
    whole = reduced(np.add, lp.integral[A.indices].astype(np.float64))
    high, low = lp.row_upper[long], lp.row_lower[long]
    fits = (least > 0) & (most - least <= _SAME * most) & ((whole == 0) | (whole == size[long]))
    candidates = long[fits & _sums(low, high, low == high)]
    rows: list[int] = []
    for i in candidates[np.argsort(size[candidates], kind="stable")].tolist():
        columns = A.indices[A.indptr[i] : A.indptr[i + 1]]
        if (member[columns] < 0).all():
            member[columns] = len(rows)
            rows.append(i)
    chosen = np.array(rows, np.int64)
    return _Blocks(chosen, A.data[A.indptr[chosen]], member)


def _sums(
    low: NDArray[np.float64], high: NDArray[np.float64], equation: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return whether rows have bounds of sum rows; `equation` (k,) is True for sum rows with "=="."""
    return np.isfinite(high) & (high >= 0) & np.where(equation, low == high, low <= 0)


def as_program(lp: LinearProgram) -> LPProgram:
    """Convert an LP that is an allocation to a ContinualProgram.

    Parameters
    ----------
    lp : LinearProgram
        LP whose columns have the lower bound 0. More than half of the columns must be in rows that are sums
        over disjoint blocks of columns. Every column outside the blocks must have a finite upper bound.

    Returns
    -------
    LPProgram
        Object with the ``program`` and the method ``point(solution)``, which returns values and prices in the
        LP's order. The ids of the program's resources are the numbers of the LP's other rows.

    Raises
    ------
    UnsupportedError
        If the LP is not such an allocation; the message says why.
    EditError
        If a number of the LP is invalid.

    Examples
    --------
    >>> from copter import as_program, from_arrays, make_solver
    >>> A = [[1, 1, 0, 0], [0, 0, 1, 1], [1, 2, 1, 2]]
    >>> lp = from_arrays([-1.0, -1.8, -1.0, -1.5], A_ub=A, b_ub=[1, 1, 3]).lp
    >>> allocation = as_program(lp)
    >>> len(allocation.program), allocation.program.resource_ids
    (2, [2])
    >>> x, y = allocation.point(make_solver("copter").solve(allocation.program))
    >>> x.round(4).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    lp = checked(lp)
    blocks = find_blocks(lp)
    why = _unfit(lp, blocks)
    if why:
        raise UnsupportedError(f"as_program: {why}")
    return LPProgram(lp, blocks)


def found_allocation(lp: LinearProgram) -> LPProgram | None:
    """Return the program of a checked LP; None if it is not an allocation, or has many other rows."""
    if not _begins_at_0(lp):
        return None
    blocks = find_blocks(lp)
    others = lp.row_lower.size - blocks.row.size
    if others * _COLUMNS_A_ROW > lp.c.size or _unfit(lp, blocks):
        return None
    return LPProgram(lp, blocks)


def _begins_at_0(lp: LinearProgram) -> bool:
    return lp.semi is None and not lp.lower.any()


def _unfit(lp: LinearProgram, blocks: _Blocks) -> str:
    """Return why an LP is not an allocation; an empty text if it is one."""
    if not _begins_at_0(lp):
        return "every column must have a lower bound of 0"
    alone = blocks.member < 0
    if 2 * np.count_nonzero(alone) >= lp.c.size:
        return f"only {np.count_nonzero(~alone)} of {lp.c.size} columns are in rows that are sums of a block"
    endless = np.flatnonzero(alone & np.isinf(lp.upper))
    return f"column {endless[0]} has no upper bound and is in no sum row" if endless.size else ""


class LPProgram:
    """ContinualProgram of an LP that is an allocation; changed numbers of the LP become edits.

    Attributes
    ----------
    lp : LinearProgram
    program : ContinualProgram
    sums : (b,) ndarray of int64
        Rows of the LP that became sum rows of requests.
    """

    def __init__(self, lp: LinearProgram, blocks: _Blocks) -> None:
        self.lp = lp
        self.sums, self._factor, member = blocks
        self._equation = lp.row_lower[self.sums] == lp.row_upper[self.sums]
        self._resources = np.setdiff1d(np.arange(lp.row_lower.size), self.sums)
        self._alone = alone = member < 0
        kind = np.where(alone, _ALONE, 0)
        kind[~alone] = np.where(self._equation, _EQUATION, 0)[member[~alone]]
        kind += _KINDS * lp.integral
        # sorted by kind, for bulk edits: integral columns last, blocks before other columns
        self._order = np.lexsort((member, kind))
        block = member[self._order]
        first = block < 0
        first[:1] = True
        first[1:] |= block[1:] != block[:-1]
        self._begin = np.flatnonzero(first)
        self._end = np.append(self._begin, block.size)[1:]
        self._owner = np.cumsum(first) - 1
        self._block, self._kind = block[self._begin], kind[self._order][self._begin]
        self._summed = np.empty(self.sums.size, np.int64)
        held = np.flatnonzero(self._block >= 0)
        self._summed[self._block[held]] = held
        self.program = self._made()

    def _made(self) -> ContinualProgram:
        from copter.program.program import ContinualProgram

        lp, program, rows = self.lp, ContinualProgram(), self._resources
        program.add_resources(rows.tolist(), lower=lp.row_lower[rows], upper=lp.row_upper[rows])
        c, A, upper = lp.c[self._order], lp.A[:, self._order][rows], lp.upper[self._order]
        for kind in np.unique(self._kind).tolist():
            requests = np.flatnonzero(self._kind == kind)
            first, last = int(requests[0]), int(requests[-1])
            part = slice(int(self._begin[first]), int(self._end[last]))
            program.add_requests(
                range(first, last + 1),
                c[part],
                (self._end - self._begin)[requests],
                A[:, part],
                totals=None if kind % _KINDS == _ALONE else self._totals(lp)[self._block[requests]],
                relation="==" if kind % _KINDS == _EQUATION else "<=",
                upper=upper[part],
                integral=kind >= _KINDS,
            )
        return program

    def _totals(self, lp: LinearProgram) -> NDArray[np.float64]:
        return lp.row_upper[self.sums] / self._factor

    def point(self, solution: Solution) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return values (n,), NaN without an allocation, and dual prices (m,), also of sum rows."""
        from copter.proof.pricing import price

        table, slots = self.program.store.requests, self.program.request_slots
        x = np.full(self._order.size, np.nan)
        if solution.found:
            sizes = table.n_columns[slots]
            start = np.zeros(table.size, np.int64)
            start[slots] = np.cumsum(sizes) - sizes
            x, found = np.zeros(self._order.size), solution.nonzeros
            x[self._order[start[found.slot] + found.column]] = found.value
        y = np.zeros(self.lp.row_lower.size)
        y[self._resources] = solution.y[self.program.resource_slots]
        marginal = price(self.program.store, solution.y).marginal
        y[self.sums] = -marginal[self.program.request_slots[self._summed]] / self._factor
        return x, y

    # ---- changed numbers ---------------------------------------------------------------------------------

    def follow(self, lp: LinearProgram) -> bool:
        """Edit the program to another state of the LP; return False if it needs another program."""
        old = self.lp
        if lp is old:
            return True
        if not self._keeps(lp):
            return False
        self._changed(lp, differing((old.c, lp.c)), "costs")
        self._changed(lp, differing((old.upper, lp.upper)), "upper")
        changed = differing((old.row_upper[self.sums], lp.row_upper[self.sums]))
        if changed.size:
            self.program.update_requests(self._summed[changed].tolist(), totals=self._totals(lp)[changed])
        rows = self._resources
        lower, upper = lp.row_lower[rows], lp.row_upper[rows]
        changed = differing((old.row_lower[rows], lower), (old.row_upper[rows], upper))
        if changed.size:
            self.program.update_resources(rows[changed].tolist(), upper=upper[changed], lower=lower[changed])
        self.lp = lp
        return True

    def _keeps(self, lp: LinearProgram) -> bool:
        """Return whether edits are enough: the same entries and kinds, and sum rows stay sum rows."""
        if lp.A.shape != self.lp.A.shape or not np.array_equal(lp.integral, self.lp.integral):
            return False
        low, high = lp.row_lower[self.sums], lp.row_upper[self.sums]
        if np.isinf(lp.upper[self._alone]).any():
            return False
        if not (_begins_at_0(lp) and _sums(low, high, self._equation).all()):
            return False
        return same_pattern(self.lp, lp) and not differing((self.lp.A.data, lp.A.data)).size

    def _changed(self, lp: LinearProgram, columns: NDArray[np.int32], field: str) -> None:
        """Edit the costs or the bounds of the requests that have some columns."""
        if not columns.size:
            return
        touched = np.zeros(lp.c.size, np.bool_)
        touched[columns] = True
        requests = self._owners(touched)
        whole = np.zeros(self._begin.size, np.bool_)
        whole[requests] = True
        values = (lp.c if field == "costs" else lp.upper)[self._order[whole[self._owner]]]
        self.program.update_requests(requests.tolist(), **{field: values})

    def _owners(self, columns: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the requests that have at least one of some columns of the LP."""
        return np.unique(self._owner[columns[self._order]])
