"""Allocations as lists of nonzeros, and their usage of each resource."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.parallel import run_chunks
from copter.store.store import ConstraintStore
from copter.store.view import StoreView, coefficients_of, entries_of

_CHUNK = 50_000
"""Approximate number of nonzeros whose usage is summed in one chunk."""
_ONE = np.ones(1, np.bool_)


class SparseX(NamedTuple):
    """Nonzeros of an allocation, ascending by request slot and column.

    Attributes
    ----------
    slot, column : (k,) ndarrays of int64
        Slot of the request in the store, and number of the column in the request.
    value : (k,) ndarray of float64

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> x = ProximalPoint().solve(program).nonzeros
    >>> x = x.where(x.value > 0.5)
    >>> x.slot, x.column, x.value.round(6)
    (array([0]), array([1]), array([1.]))
    """

    slot: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float64]

    def where(self, keep: NDArray[np.bool_]) -> SparseX:
        """Return the nonzeros for which a mask (k,) is True."""
        return SparseX(self.slot[keep], self.column[keep], self.value[keep])

    def between(self, first: int, end: int) -> SparseX:
        """Return the nonzeros of the slots ``first`` to ``end - 1``, as views."""
        begin, stop = np.searchsorted(self.slot, (first, end))
        return SparseX(self.slot[begin:stop], self.column[begin:stop], self.value[begin:stop])

    def fault(self, n_columns: NDArray[np.int64]) -> str:
        """Return the reason why this is not a valid allocation; an empty text for a valid one.

        `n_columns` has the number of columns of each request slot.
        """
        slot, column, value = self
        if not all(isinstance(part, np.ndarray) and part.shape == (len(slot),) for part in self):
            return "slots, columns and values must be arrays of one length"
        if slot.dtype.kind not in "iu" or column.dtype.kind not in "iu" or value.dtype.kind != "f":
            found = f"{slot.dtype}, {column.dtype} and {value.dtype}"
            return f"slots and columns must be integers and values floats, not {found}"
        if slot.size and not (0 <= slot.min() and slot.max() < n_columns.size):
            return "a slot is out of range"
        if not ((column >= 0) & (column < n_columns[slot])).all():
            return "a column is out of range"
        if not np.isfinite(value).all():
            return "a value is not finite"
        higher = (slot[1:] > slot[:-1]) | ((slot[1:] == slot[:-1]) & (column[1:] > column[:-1]))
        return "" if higher.all() else "nonzeros must ascend by slot and column"


NOTHING = SparseX(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
"""Allocation without nonzeros."""


def merged(first: SparseX, second: SparseX) -> SparseX:
    """Return the union of two allocations of different requests."""
    slot = np.concatenate((first.slot, second.slot))
    order = np.argsort(slot, kind="stable")  # merges two ascending runs
    column, value = (np.concatenate(pair)[order] for pair in zip(first[1:], second[1:], strict=True))
    return SparseX(slot[order], column, value)


def replaced(x: SparseX, slots: NDArray[np.int64], other: SparseX) -> SparseX:
    """Return `x` with the allocation of the requests in ascending `slots` replaced by `other`."""
    if not slots.size:
        return x
    at = np.minimum(np.searchsorted(slots, x.slot), slots.size - 1)
    return merged(x.where(slots[at] != x.slot), other)


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct numbers in ascending order."""
    if numbers.size < 2:
        return numbers
    ordered = np.sort(numbers)
    other = ordered[1:] != ordered[:-1]
    return ordered[np.concatenate((_ONE, other))]


@kernel
def changes(slot, column, value, new_slot, new_column, new_value, threshold):  # type: ignore[no-untyped-def]
    """Return the number of changed entries of two allocations, and the number of all entries.

    A changed entry differs by more than a threshold. An entry is a column that is nonzero in either
    allocation. Entries of removed requests have negative slots and stay at their earlier places in the list.
    The kernel takes one pass over both lists.
    """
    changed = entries = k = 0
    for i in range(slot.size):
        if slot[i] < 0:
            changed += abs(value[i]) > threshold
            entries += 1
            continue
        while k < new_slot.size and (
            new_slot[k] < slot[i] or (new_slot[k] == slot[i] and new_column[k] < column[i])
        ):
            changed += abs(new_value[k]) > threshold
            entries += 1
            k += 1
        both = k < new_slot.size and new_slot[k] == slot[i] and new_column[k] == column[i]
        changed += abs(value[i] - (new_value[k] if both else 0.0)) > threshold
        entries += 1
        k += both
    for rest in range(k, new_slot.size):
        changed += abs(new_value[rest]) > threshold
        entries += 1
    return changed, entries


def row_activity(
    store: ConstraintStore, x: SparseX, *, absolute: bool = False, threads: int | None = None
) -> NDArray[np.float64]:
    """Return A x, or |A| |x| if `absolute`, by row slot; the values of dropped rows are arbitrary."""
    view, column = store.executor.columns(x.slot, x.column)
    if absolute:
        view = replace(view, coefficient=abs(view.coefficient))
    value = abs(x.value) if absolute else x.value
    bounds = np.linspace(0, x.slot.size, 2 + x.slot.size // _CHUNK).astype(np.int64)
    n_rows = store.rows.size
    parts = run_chunks(
        lambda k: _activity(view, x.slot, column, value, bounds[k], bounds[k + 1], n_rows),
        bounds.size - 1,
        threads,
    )
    activity = np.zeros(n_rows)
    for part in parts:
        activity += part
    return activity


def dense_to_sparse(slots: NDArray[np.int64], sizes: NDArray[np.int64], flat: NDArray[np.float64]) -> SparseX:
    """Return the nonzeros of dense values, given request after request with slots and numbers of columns."""
    nonzero = np.flatnonzero(flat)
    ends = np.cumsum(sizes)
    block = np.searchsorted(ends, nonzero, side="right")
    slot = slots[block]
    column = nonzero - (ends - sizes)[block]
    order = np.argsort(slot, kind="stable")
    return SparseX(slot[order], column[order], flat[nonzero][order])


@kernel(allocates=True)
def _activity(view: StoreView, slot, column, value, begin, end, n_rows):  # type: ignore[no-untyped-def]
    activity = np.zeros(n_rows)
    for k in range(begin, end):
        usage = view.usage[slot[k]]
        first, last = entries_of(view, usage, column[k], column[k] + 1)
        shift, stride = coefficients_of(view, usage)
        for e in range(first, last):
            activity[np.uint32(view.row[e])] += view.coefficient[shift + stride * e] * value[k]
    return activity
