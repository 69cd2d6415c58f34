"""A program built again from the content of another one, with effective costs and private columns."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from copter.clock import check
from copter.program.program import ContinualProgram
from copter.store.allocation import SparseX
from copter.store.compiled import pieces
from copter.store.reading import effective_costs, row_positions, upper_bounds, usage_columns
from copter.store.store import ConstraintStore

if TYPE_CHECKING:
    from scipy.sparse import csc_array


class Copy:
    """A program built from the content of `original`, with the same ids, and the maps between the slots."""

    def __init__(self, original: ContinualProgram) -> None:
        self.original, self.program = original, ContinualProgram()
        store, table = original.store, original.store.requests
        ids, slots = original.request_ids, original.request_slots
        self._rows = original.resource_slots
        self.program.add_resources(**vars(original.resources[:]))
        position = row_positions(store, self._rows)
        # One call adds requests with the same kind of sum row and integrality.
        kind = 4 * np.isinf(table.total[slots]) + 2 * table.exact[slots] + table.integral[slots]
        groups = [np.flatnonzero(kind == each) for each in np.unique(kind)]
        for group in groups:
            for part in pieces(table.n_columns[slots[group]]):
                check()
                some = group[part]
                _add_requests(self.program, [ids[k] for k in some.tolist()], store, slots[some], position)
        # The new program numbers its slots 0, 1, ... in the order of the calls.
        self._slots = slots[np.concatenate(groups)] if groups else slots

    def original_x(self, x: SparseX) -> SparseX:
        """Return an allocation of the new program in slots of the original one."""
        slot = self._slots[x.slot]
        order = np.argsort(slot, kind="stable")
        return SparseX(slot[order], x.column[order], x.value[order])

    def original_y(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return prices of the new program's rows in row slots of the original one."""
        prices = np.zeros(self.original.store.rows.size)
        prices[self._rows] = y
        return prices


def _add_requests(
    program: ContinualProgram,
    ids: list[Hashable],
    store: ConstraintStore,
    slots: NDArray[np.int64],
    position: NDArray[np.int32],
) -> None:
    """Add requests with one kind of sum row and integrality, with the content of ``slots`` in ``store``."""
    table = store.requests
    relation: Literal["<=", "=="] = "==" if table.exact[slots[0]] else "<="
    upper = upper_bounds(store, slots)
    program.add_requests(
        ids,
        effective_costs(store, slots),
        table.n_columns[slots],
        _matrix(store, slots, position),
        totals=None if table.total[slots[0]] == np.inf else table.total[slots],
        relation=relation,
        upper=upper if (upper != upper[0]).any() else float(upper[0]),
        integral=bool(table.integral[slots[0]]),
    )


def _matrix(store: ConstraintStore, slots: NDArray[np.int64], position: NDArray[np.int32]) -> csc_array:
    """Return the resource coefficients of requests as a matrix of shape (resources, columns)."""
    from scipy.sparse import csc_array

    columns = usage_columns(store, slots, position)
    indptr = np.concatenate(([0], np.cumsum(columns.counts)))
    shape = (int((position >= 0).sum()), columns.counts.size)
    return csc_array((columns.value, columns.row, indptr), shape=shape)
