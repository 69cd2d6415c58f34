"""A ContinualProgram that follows a general LP: new numbers become edits, so that the next solve is warm.

Rows of one column become bounds (:mod:`copter.models.folded`), rows that are sums of blocks of columns become
sum rows of requests (:mod:`copter.models.blocks`).  Costs, bounds and coefficients may then change;
only what did is edited.  Where the shape does (other rows, columns or blocks, a column that now has to be
mirrored or split) the program is built anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from copter.models.boxed import Boxed, boxed
from copter.models.folded import Folded, folded
from copter.models.general_lp import GeneralLP, checked
from copter.models.general_program import GeneralProgram, to_program
from copter.program.program import ContinualProgram
from copter.solution import Solution


@dataclass(frozen=True)
class Changes:
    """What an update changed in the program.

    Attributes
    ----------
    rebuilt : bool
        Whether the program is another one, since the shape of the LP is another; nothing is counted then.
    costs, columns, bounds, totals : int
        Requests with new costs, new coefficients, new upper bounds, new totals.
    resources : int
        Resources with new bounds.
    """

    rebuilt: bool = False
    costs: int = 0
    columns: int = 0
    bounds: int = 0
    totals: int = 0
    resources: int = 0

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return self != Changes()


class LiveLP:
    """A general LP as a ContinualProgram that is kept alive.

    Parameters
    ----------
    share : float
        Of the rows that are not folded, those that have to be sums of blocks; if fewer are, none becomes one.

    Attributes
    ----------
    general : GeneralProgram
        The program with the way back to what folding left of the LP.

    Raises
    ------
    EditError
        As :func:`copter.models.general_lp.checked`.
    """

    def __init__(self, lp: GeneralLP, share: float = 0.5) -> None:
        self._share = share
        self._take(*_prepared(lp))

    def _take(self, fold: Folded, box: Boxed) -> None:
        self._fold, self._box = fold, box
        self.general: GeneralProgram = to_program(fold.lp, blocks=True, share=self._share)
        table, slots = self.program.store.requests, self.program.request_slots
        sizes = table.n_columns[slots]
        self._end = np.cumsum(sizes)
        self._owner = np.repeat(np.arange(sizes.size), sizes)
        self._resources = np.setdiff1d(np.arange(fold.kept.size), self.general.sums)
        self._equation = box.row_lower[self.general.sums] == box.row_upper[self.general.sums]
        self._values: NDArray[np.float64] | None = None

    @property
    def program(self) -> ContinualProgram:
        """The program; another one after an update that rebuilt it."""
        return self.general.program

    @property
    def n_blocks(self) -> int:
        """Number of rows that became sum rows of requests."""
        return int(self.general.sums.size)

    def update(self, lp: GeneralLP) -> Changes:
        """Make the program that of another LP by edits, or anew if its shape is another.

        Raises
        ------
        EditError
            As :func:`copter.models.general_lp.checked`; the program is as before.
        """
        fold, box = _prepared(lp)
        if not self._same_shape(fold, box):
            before = self.program.store.clock
            self._take(fold, box)
            self.program.store.clock += 1 + before  # an answer of the old program is none of this one
            return Changes(rebuilt=True)
        columns = self._new_columns(box)
        changes = Changes(
            columns=columns,
            costs=self._new_costs(box),
            bounds=self._new_widths(box),
            totals=self._new_totals(box),
            resources=self._new_resources(box),
        )
        self._fold, self._box = fold, box
        self.general = replace(self.general, source=fold.lp, shift=box.shift, constant=box.constant)
        return changes

    def point(self, solution: Solution) -> NDArray[np.float64]:
        """Values of the LP's columns, (n,); NaN if the solution has no allocation.

        Parameters
        ----------
        solution : Solution
            Of the program as it is now; new coefficients of a request begin from it.

        Returns
        -------
        (n,) ndarray
        """
        if solution.found:
            self._values = self.general.values(solution)
        return self.general.point(solution)

    def prices(self, solution: Solution) -> NDArray[np.float64]:
        """Prices of the LP's rows, (m,), positive where ``row_upper`` is paid for.

        Parameters
        ----------
        solution : Solution
            Of the program as it is now.

        Returns
        -------
        (m,) ndarray
        """
        return self._fold.prices(self.general.prices(solution))

    def bound(self, solution: Solution) -> float:
        """Certified bound on the LP's optimum.

        Parameters
        ----------
        solution : Solution
            Of the program as it is now.
        """
        return self.general.bound(solution)

    def _same_shape(self, fold: Folded, box: Boxed) -> bool:
        old, sums = self._box, self.general.sums
        if not (
            np.array_equal(fold.kept, self._fold.kept)
            and np.array_equal(box.origin, old.origin)
            and np.array_equal(box.sign, old.sign)
            and np.array_equal(fold.lp.integral, self._fold.lp.integral)
        ):
            return False
        low, high = box.row_lower[sums], box.row_upper[sums]
        fits = np.isfinite(high) & (high >= 0) & np.where(self._equation, low == high, low <= 0)
        moved = (box.A - old.A).indices
        return bool(fits.all()) and not np.isin(moved, sums).any()

    def _new_costs(self, box: Boxed) -> int:
        order = self.general.order
        requests = self._owners(box.cost[order] != self._box.cost[order])
        if requests.size:
            self.program.update_requests(requests.tolist(), costs=self._parts(box.cost[order], requests))
        return requests.size

    def _new_widths(self, box: Boxed) -> int:
        order = self.general.order
        requests = self._owners(box.width[order] != self._box.width[order])
        if requests.size:
            upper = np.concatenate(self._parts(box.width[order], requests))
            self.program.update_requests(requests.tolist(), upper=upper)
        return requests.size

    def _new_totals(self, box: Boxed) -> int:
        general = self.general
        changed = box.row_upper[general.sums] != self._box.row_upper[general.sums]
        if changed.any():
            totals = (box.row_upper[general.sums] / general.factor)[changed]
            self.program.update_requests(general.summed[changed].tolist(), totals=totals)
        return int(np.count_nonzero(changed))

    def _new_resources(self, box: Boxed) -> int:
        rows, old = self._resources, self._box
        lower, upper = box.row_lower[rows], box.row_upper[rows]
        changed = (lower != old.row_lower[rows]) | (upper != old.row_upper[rows])
        if changed.any():
            ids = rows[changed].tolist()
            self.program.update_resources(ids, upper=upper[changed], lower=lower[changed])
        return int(np.count_nonzero(changed))

    def _new_columns(self, box: Boxed) -> int:
        """Requests with new coefficients are edited one by one, each from its last allocation."""
        order = self.general.order
        touched = np.diff((box.A - self._box.A).indptr) > 0
        requests = self._owners(touched[order])
        if not requests.size:
            return 0
        A = box.A[:, order]
        kept = np.ones(A.shape[0], np.bool_)
        kept[self.general.sums] = False
        for request in requests.tolist():
            last = int(self._end[request])
            first = int(self._end[request - 1]) if request else 0
            block = A[:, first:last].tocoo()
            rows, columns = block.coords
            usage: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
            for row in np.unique(rows[kept[rows]]).tolist():
                usage[row] = columns[rows == row], block.data[rows == row]
            part = order[first:last]
            start = None if self._values is None else dict(enumerate(self._values[first:last].tolist()))
            self.program.update_request(
                request, costs=box.cost[part], usage=usage, upper=box.width[part], start=start
            )
        return requests.size

    def _owners(self, columns: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Requests that have one of some columns of the program."""
        return np.unique(self._owner[columns])

    def _parts(self, values: NDArray[np.float64], requests: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        """Values of the columns of each of some requests."""
        ends = self._end[requests]
        starts = np.where(requests > 0, self._end[requests - 1], 0)
        return [values[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


def _prepared(lp: GeneralLP) -> tuple[Folded, Boxed]:
    fold = folded(lp)
    rest = checked(fold.lp)
    return replace(fold, lp=rest), boxed(rest)
