"""A general linear program as a program of copter, and the way back.

Every column becomes a request of its own, shifted so that its lower bound is 0, or mirrored so that its upper
one is, if the lower one is far away.  A free one becomes the difference of two, and so does one with bounds
far away on both sides of 0: a shift by 1e9 would leave a row no more than seven digits.  Rows become
resources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.models.blocks import find_blocks, no_blocks
from copter.models.boxed import boxed
from copter.models.general_lp import GeneralLP, checked
from copter.program.program import ContinualProgram
from copter.proof.pricing import price
from copter.solution import Solution

if TYPE_CHECKING:
    from scipy.sparse import csc_array


@dataclass(frozen=True)
class GeneralProgram:
    """A general LP inside a ContinualProgram, and the way back.

    Attributes
    ----------
    program : ContinualProgram
        Resources are the rows that are no blocks, under their numbers; requests are numbered from 0.
    origin : (k,) ndarray
        Column of the LP that each column of the program stands for, request after request.
    order : (k,) ndarray
        Column of :func:`copter.models.boxed.boxed` that it is.
    sign : (k,) ndarray
        +1, or -1 where the column was mirrored.
    shift : (n,) ndarray
        Value of each column of the LP at which its requests are 0.
    constant : float
        What the shifts add to the objective.
    sums : (b,) ndarray
        Rows that became the sum rows of the requests ``summed``, (b,), with coefficients ``factor``, (b,).
    """

    program: ContinualProgram
    source: GeneralLP
    origin: NDArray[np.int64]
    order: NDArray[np.int64]
    sign: NDArray[np.float64]
    shift: NDArray[np.float64]
    constant: float
    sums: NDArray[np.int64]
    summed: NDArray[np.int64]
    factor: NDArray[np.float64]

    def objective(self, solution: Solution) -> float:
        """Objective of the LP, in its own sense.

        Parameters
        ----------
        solution : Solution
            Of :attr:`program`.
        """
        return self.own_sense(solution.objective)

    def bound(self, solution: Solution) -> float:
        """Certified bound on the LP's optimum: from below, or from above if it is a maximisation.

        Parameters
        ----------
        solution : Solution
            Of :attr:`program`.
        """
        return self.own_sense(solution.bound)

    def own_sense(self, cost: float) -> float:
        """Objective of the LP for a cost of the program.

        Parameters
        ----------
        cost : float
            Objective of a solution of the program.
        """
        return self.source.own_sense(cost + self.constant)

    def point(self, solution: Solution) -> NDArray[np.float64]:
        """Values of the LP's columns, (n,); NaN if the solution has no allocation.

        Parameters
        ----------
        solution : Solution
            Of :attr:`program`.

        Returns
        -------
        (n,) ndarray
        """
        if not solution.found:
            return np.full(self.shift.size, np.nan)
        moved = self.sign * self.values(solution)
        return self.shift + np.bincount(self.origin, moved, self.shift.size)

    def values(self, solution: Solution) -> NDArray[np.float64]:
        """Values of the program's columns, (k,).

        Parameters
        ----------
        solution : Solution
            Of :attr:`program`.

        Returns
        -------
        (k,) ndarray
        """
        table, slots = self.program.store.requests, self.program.request_slots
        sizes = table.n_columns[slots]
        start = np.zeros(table.size, np.int64)
        start[slots] = np.cumsum(sizes) - sizes
        values = np.zeros(self.origin.size)
        values[start[solution.nonzeros.slot] + solution.nonzeros.column] = solution.nonzeros.value
        return values

    def prices(self, solution: Solution) -> NDArray[np.float64]:
        """Prices of the LP's rows, (m,): those of blocks are what the sum row of the request is worth.

        Parameters
        ----------
        solution : Solution
            Of :attr:`program`.

        Returns
        -------
        (m,) ndarray
        """
        y = np.zeros(self.source.row_lower.size)
        known = np.fromiter(solution.price, np.int64, len(solution.price))
        y[known] = np.fromiter(solution.price.values(), np.float64, known.size)
        if self.sums.size:
            marginal = price(self.program.store, solution.y).marginal
            y[self.sums] = -marginal[self.program.request_slots[self.summed]] / self.factor
        return y

    def direction(self, solution: Solution) -> NDArray[np.float64]:
        """Unbounded ray in the LP's columns, (n,).

        Parameters
        ----------
        solution : Solution
            Of :attr:`program`.

        Returns
        -------
        (n,) ndarray

        Raises
        ------
        ValueError
            The solution has no such ray.
        """
        if solution.ray is None or solution.ray.kind != "unbounded":
            raise ValueError(f"a {solution.status} solution has no primal ray")
        ray = np.zeros(self.shift.size)
        values = np.concatenate([solution.ray.x[request] for request in self.program.request_ids])
        np.add.at(ray, self.origin, self.sign * values)
        return ray


def to_program(lp: GeneralLP, *, blocks: bool = False, share: float = 0.5) -> GeneralProgram:
    """The LP as a ContinualProgram.

    Bounds of integral columns are rounded inwards, so that whole numbers stay whole when a bound moves to 0.

    Parameters
    ----------
    blocks : bool
        Whether rows that are sums of columns become sum rows of requests
        (:mod:`copter.models.blocks`), not resources; without it every column is a request of its
        own.
    share : float
        Of the rows that have to be such sums; if fewer are, none becomes one.

    Raises
    ------
    EditError
        As :func:`copter.models.general_lp.checked`.
    """
    lp = checked(lp)
    box = boxed(lp)
    row_lower, row_upper, A, origin = box.row_lower, box.row_upper, box.A, box.origin
    integral = lp.integral[origin]
    found = no_blocks(origin.size)
    if blocks:
        found = find_blocks(A.tocsr(), row_lower, row_upper, integral, share)
    # one kind of request after the other, as bulk edits want them: integral last, blocks before the rest
    single = found.member < 0
    equation = (row_lower[found.row] == row_upper[found.row])[found.member] if found.row.size else single
    kind = 3 * integral + np.where(single, 2, np.where(equation, 1, 0))
    order = np.lexsort((found.member, kind))
    program = ContinualProgram()
    rows = np.setdiff1d(np.arange(row_lower.size), found.row)
    program.add_resources(rows.tolist(), lower=row_lower[rows], upper=row_upper[rows])
    columns = _Columns(box.cost[order], A[:, order][rows], box.width[order], kind[order], found.member[order])
    request = _add_requests(program, columns, row_upper[found.row] / found.factor)
    return GeneralProgram(
        program,
        lp,
        origin[order],
        order,
        box.sign[order],
        box.shift,
        box.constant,
        found.row,
        request,
        found.factor,
    )


@dataclass(frozen=True)
class _Columns:
    """Columns from 0 to ``width``, kind after kind.

    ``kind``: 0 in a block, 1 in a block that is an equation, 2 alone, and 3 more if integral; ``member``:
    block of each.
    """

    c: NDArray[np.float64]
    A: csc_array
    width: NDArray[np.float64]
    kind: NDArray[np.int64]
    member: NDArray[np.int64]


def _add_requests(
    program: ContinualProgram, columns: _Columns, totals: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Add a request for each block, (b,), with its total, and for each column in none; ids of the blocks'."""
    request = np.full(totals.size, -1)
    for kind in np.unique(columns.kind).tolist():
        part = np.flatnonzero(columns.kind == kind)
        block = columns.member[part]
        in_blocks = kind % 3 != 2
        first = np.ones(part.size, np.bool_)
        if in_blocks:
            first[1:] = block[1:] != block[:-1]
        begin = np.flatnonzero(first)
        ids = range(len(program), len(program) + begin.size)
        if in_blocks:
            request[block[begin]] = ids
        program.add_requests(
            ids,
            columns.c[part],
            np.diff(np.append(begin, part.size)),
            columns.A[:, part],
            totals=totals[block[begin]] if in_blocks else None,
            relation="==" if kind % 3 == 1 else "<=",
            upper=columns.width[part],
            integral=kind >= 3,
        )
    return request
