"""Formulation: a linear program with columns from 0 on as requests and resources, and the inverse.

Every row that is a sum over a block of columns becomes the sum row of a request with these columns. Every
other column becomes a request of its own, and every other row a resource. An allocation problem written as a
plain LP has a row ``sum_j x_j <= total`` for each request. If such rows are resources, the solver must find
their prices. If they are sum rows, every pass over the columns meets them exactly. With 5,000 of them among
5,300 rows, a solve takes 2 s instead of more than 30 s.

On a general LP with only a few such rows, copter's solver is slower with blocks than without (on Netlib a
third fewer LPs ended within 8 s). So a solve uses blocks only if at least half of the rows are sums.

A row qualifies if its coefficients are all the same positive number and its columns are all integral or all
continuous. It must be an equation, or have an upper bound and a lower bound of at most 0. Blocks do not
overlap. Short rows are chosen first, so that as many rows as possible become blocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.models.reductions import ReducedPoint
from copter.program.program import ContinualProgram
from copter.proof.pricing import price

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from copter.models.general_lp import GeneralLP
    from copter.solution import Solution

MOSTLY_SUMS = 0.5
"""Fraction of the rows from which on sum rows make a general LP easier."""
_SAME = 1e-12
"""Relative difference up to which coefficients count as equal."""
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


def find_blocks(
    A: csr_array,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    integral: NDArray[np.bool_],
    share: float | None = MOSTLY_SUMS,
) -> _Blocks:
    """Return the blocks of a matrix (m, n) of an LP with columns >= 0.

    There are no blocks if `share` is None or less than this fraction of the rows are blocks.
    """
    m, n = A.shape
    none = _Blocks(np.empty(0, np.int64), np.empty(0), np.full(n, -1))
    size = np.diff(A.indptr)
    long = np.flatnonzero(size >= 2)
    if share is None or not long.size:
        return none
    starts = A.indptr[long]
    bounds = np.column_stack((starts, A.indptr[long + 1])).ravel()
    if bounds[-1] == A.nnz:
        bounds = bounds[:-1]

    def reduced(which: np.ufunc, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return which.reduceat(values, bounds)[::2]

    least, most = reduced(np.minimum, A.data), reduced(np.maximum, A.data)
    whole = reduced(np.add, integral[A.indices].astype(np.float64))
    high, low = row_upper[long], row_lower[long]
    fits = (least > 0) & (most - least <= _SAME * most) & ((whole == 0) | (whole == size[long]))
    candidates = long[fits & _sums(low, high, low == high)]
    member = np.full(n, -1)
    rows: list[int] = []
    for i in candidates[np.argsort(size[candidates], kind="stable")].tolist():
        columns = A.indices[A.indptr[i] : A.indptr[i + 1]]
        if (member[columns] < 0).all():
            member[columns] = len(rows)
            rows.append(i)
    chosen = np.array(rows, np.int64)
    return _Blocks(chosen, A.data[A.indptr[chosen]], member) if chosen.size >= share * m else none


def _sums(
    low: NDArray[np.float64], high: NDArray[np.float64], equation: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return whether rows have bounds of sum rows; `equation` (k,) is True for sum rows with "=="."""
    return np.isfinite(high) & (high >= 0) & np.where(equation, low == high, low <= 0)


@dataclass(frozen=True)
class ProgramChanges:
    """Changes of the program by an update.

    `rebuilt` is True if the LP has another shape and the program is new; all counts are 0 then. `costs`,
    `columns`, `bounds` and `totals` are the numbers of requests with new costs, coefficients, upper bounds
    and totals. `resources` is the number of resources with new bounds.
    """

    rebuilt: bool = False
    costs: int = 0
    columns: int = 0
    bounds: int = 0
    totals: int = 0
    resources: int = 0

    def __bool__(self) -> bool:
        """Return whether the update changed anything."""
        return self != ProgramChanges()


class Formulation:
    """Program of a checked LP with columns from 0 on; changed numbers of the LP become edits.

    Rows become sum rows if at least the fraction `share` of the rows are sums of blocks; None for no sum
    rows. The revision of the program begins after `after`, so that solutions of an earlier program are not
    mistaken for solutions of this one. `sums` (b,) has the rows that became sum rows. `order` (n,) has the
    columns of the LP, request after request.
    """

    def __init__(self, lp: GeneralLP, share: float | None, after: int = 0) -> None:
        self.lp, self._after = lp, after
        blocks = find_blocks(lp.A.tocsr(), lp.row_lower, lp.row_upper, lp.integral, share)
        self.sums, self._factor, member = blocks
        self._equation = lp.row_lower[self.sums] == lp.row_upper[self.sums]
        self._resources = np.setdiff1d(np.arange(lp.row_lower.size), self.sums)
        alone = member < 0
        kind = np.where(alone, _ALONE, 0)
        kind[~alone] = np.where(self._equation, _EQUATION, 0)[member[~alone]]
        kind += _KINDS * lp.integral
        # sorted by kind, for bulk edits: integral columns last, blocks before other columns
        self.order = np.lexsort((member, kind))
        block = member[self.order]
        first = block < 0
        first[:1] = True
        first[1:] |= block[1:] != block[:-1]
        self._begin = np.flatnonzero(first)
        self._end = np.append(self._begin, block.size)[1:]
        self._owner = np.cumsum(first) - 1
        self._block, self._kind = block[self._begin], kind[self.order][self._begin]
        self._summed = np.empty(self.sums.size, np.int64)
        held = np.flatnonzero(self._block >= 0)
        self._summed[self._block[held]] = held

    @cached_property
    def program(self) -> ContinualProgram:
        """Program with the numbers of the rows as ids of the resources; it is built at the first access.

        Raises EditError if a number is too large.
        """
        lp, program = self.lp, ContinualProgram()
        rows = self._resources
        program.add_resources(rows.tolist(), lower=lp.row_lower[rows], upper=lp.row_upper[rows])
        c, A, upper = lp.c[self.order], lp.A[:, self.order][rows], lp.upper[self.order]
        for kind in np.unique(self._kind).tolist():
            requests = np.flatnonzero(self._kind == kind)
            first, last = int(requests[0]), int(requests[-1])
            part = slice(int(self._begin[first]), int(self._end[last]))
            totals = None if kind % _KINDS == _ALONE else self._totals(lp)[self._block[requests]]
            program.add_requests(
                range(first, last + 1),
                c[part],
                (self._end - self._begin)[requests],
                A[:, part],
                totals=totals,
                relation="==" if kind % _KINDS == _EQUATION else "<=",
                upper=upper[part],
                integral=kind >= _KINDS,
            )
        program.store.clock += self._after
        return program

    @property
    def made(self) -> bool:
        """True if the program is built."""
        return "program" in vars(self)

    @property
    def clock(self) -> int:
        """Revision of the program, also before it is built."""
        return self.program.store.clock if self.made else self._after

    def _totals(self, lp: GeneralLP) -> NDArray[np.float64]:
        return lp.row_upper[self.sums] / self._factor

    def values(self, solution: Solution) -> NDArray[np.float64]:
        """Return the values of the LP's columns (n,) from the nonzeros of a solution."""
        table, slots = self.program.store.requests, self.program.request_slots
        sizes = table.n_columns[slots]
        start = np.zeros(table.size, np.int64)
        start[slots] = np.cumsum(sizes) - sizes
        x, found = np.zeros(self.order.size), solution.nonzeros
        x[self.order[start[found.slot] + found.column]] = found.value
        return x

    def invert(self, solution: Solution) -> ReducedPoint:
        """Return values and dual prices, also of sum rows; values are NaN without an allocation."""
        x = self.values(solution) if solution.found else np.full(self.order.size, np.nan)
        y = np.zeros(self.lp.row_lower.size)
        known = np.fromiter(solution.price, np.int64, len(solution.price))
        y[known] = np.fromiter(solution.price.values(), np.float64, known.size)
        if self.sums.size:
            marginal = price(self.program.store, solution.y).marginal
            y[self.sums] = -marginal[self.program.request_slots[self._summed]] / self._factor
        return ReducedPoint(x, y)

    def direction(self, ray: Mapping[Hashable, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the direction of the LP's columns for a direction of the program, by request."""
        d = np.empty(self.order.size)
        d[self.order] = np.concatenate([ray[request] for request in self.program.request_ids])
        return d

    # ---- changed numbers ---------------------------------------------------------------------------------

    def keep(self, lp: GeneralLP) -> bool:
        """Return whether edits are enough for another LP: same shape, and sum rows stay sum rows."""
        if lp.A.shape != self.lp.A.shape:
            return False
        low, high = lp.row_lower[self.sums], lp.row_upper[self.sums]
        if not (np.array_equal(lp.integral, self.lp.integral) and _sums(low, high, self._equation).all()):
            return False
        return not np.isin((lp.A - self.lp.A).indices, self.sums).any()

    def follow(self, lp: GeneralLP, values: NDArray[np.float64] | None) -> ProgramChanges:
        """Edit the program to another LP, for which :meth:`keep` is True.

        `values` (n,) are the starts of requests with new coefficients.
        """
        columns = self._new_columns(lp, values)
        changes = ProgramChanges(
            columns=columns,
            costs=self._new_costs(lp),
            bounds=self._new_widths(lp),
            totals=self._new_totals(lp),
            resources=self._new_resources(lp),
        )
        self.lp = lp
        return changes

    def _new_columns(self, lp: GeneralLP, values: NDArray[np.float64] | None) -> int:
        """Edit requests with new coefficients one by one, each with its last allocation as the start."""
        touched = np.diff((lp.A - self.lp.A).indptr) > 0
        requests = self._owners(touched)
        kept = np.ones(lp.A.shape[0], np.bool_)
        kept[self.sums] = False
        for request in requests.tolist():
            part = self.order[self._begin[request] : self._end[request]]
            block = lp.A[:, part].tocoo()
            rows, columns = block.coords
            usage: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
            for row in np.unique(rows[kept[rows]]).tolist():
                usage[row] = columns[rows == row], block.data[rows == row]
            start = None if values is None else dict(enumerate(values[part].tolist()))
            self.program.update_request(
                request, costs=lp.c[part], usage=usage, upper=lp.upper[part], start=start
            )
        return requests.size

    def _new_costs(self, lp: GeneralLP) -> int:
        requests = self._owners(lp.c != self.lp.c)
        if requests.size:
            self.program.update_requests(requests.tolist(), costs=self._parts(lp.c, requests))
        return requests.size

    def _new_widths(self, lp: GeneralLP) -> int:
        requests = self._owners(lp.upper != self.lp.upper)
        if requests.size:
            upper = np.concatenate(self._parts(lp.upper, requests))
            self.program.update_requests(requests.tolist(), upper=upper)
        return requests.size

    def _new_totals(self, lp: GeneralLP) -> int:
        changed = lp.row_upper[self.sums] != self.lp.row_upper[self.sums]
        if changed.any():
            self.program.update_requests(self._summed[changed].tolist(), totals=self._totals(lp)[changed])
        return int(np.count_nonzero(changed))

    def _new_resources(self, lp: GeneralLP) -> int:
        rows, old = self._resources, self.lp
        lower, upper = lp.row_lower[rows], lp.row_upper[rows]
        changed = (lower != old.row_lower[rows]) | (upper != old.row_upper[rows])
        if changed.any():
            ids = rows[changed].tolist()
            self.program.update_resources(ids, upper=upper[changed], lower=lower[changed])
        return int(np.count_nonzero(changed))

    def _owners(self, columns: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the requests that have at least one of some columns of the LP."""
        return np.unique(self._owner[columns[self.order]])

    def _parts(self, values: NDArray[np.float64], requests: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        """Return the values of the columns of each of some requests."""
        ends = zip(self._begin[requests].tolist(), self._end[requests].tolist(), strict=True)
        return [values[self.order[begin:end]] for begin, end in ends]
