"""Allocations as lists of nonzeros, and what they use of each resource."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.parallel import run_chunks
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, coefficients_of, entries_of, view_of

_CHUNK = 50_000
"""Nonzeros whose usage is summed in one piece, about."""


class SparseX(NamedTuple):
    """Nonzeros of an allocation: request slot, column, value; ascending by slot and column."""

    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float64]

    def where(self, keep: NDArray[np.bool_]) -> SparseX:
        """The part of it that a mask keeps.

        Parameters
        ----------
        keep : (nonzeros,) truth values

        Returns
        -------
        SparseX
        """
        return SparseX(self.slot[keep], self.column[keep], self.value[keep])


NOTHING = SparseX(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
"""The allocation that is 0."""


def merged(first: SparseX, second: SparseX) -> SparseX:
    """Union of allocations of different requests.

    Parameters
    ----------
    first, second : SparseX

    Returns
    -------
    SparseX
    """
    slot = np.concatenate((first.slot, second.slot))
    order = np.argsort(slot, kind="stable")  # merges two ascending runs
    column, value = (np.concatenate(pair)[order] for pair in zip(first[1:], second[1:], strict=True))
    return SparseX(slot[order], column, value)


def row_activity(
    store: ConstraintStore, x: SparseX, *, absolute: bool = False, threads: int | None = None
) -> NDArray[np.float64]:
    """A x, or |A| |x|, one entry a row slot (dropped rows: arbitrary).

    Parameters
    ----------
    store : ConstraintStore
    x : SparseX
    absolute : bool
        Whether to sum |a_ij x_j|.
    threads : int, optional

    Returns
    -------
    (row slots,) ndarray
    """
    view = view_of(store)
    if absolute:
        view = view._replace(coefficient=abs(view.coefficient))
    value = abs(x.value) if absolute else x.value
    bounds = np.linspace(0, x.slot.size, 2 + x.slot.size // _CHUNK).astype(np.int64)
    n_rows = store.rows.size
    parts = run_chunks(
        lambda k: _activity(view, x.slot, x.column, value, bounds[k], bounds[k + 1], n_rows),
        bounds.size - 1,
        threads,
    )
    activity = np.zeros(n_rows)
    for part in parts:
        activity += part
    return activity


@kernel
def _activity(view: StoreView, slot, column, value, begin, end, n_rows):  # type: ignore[no-untyped-def]
    activity = np.zeros(n_rows)
    for k in range(begin, end):
        usage = view.usage[slot[k]]
        first, last = entries_of(view, usage, column[k], column[k] + 1)
        shift, stride = coefficients_of(view, usage)
        for e in range(first, last):
            activity[np.uint32(view.row[e])] += view.coefficient[shift + stride * e] * value[k]
    return activity
