"""View of a store: its arrays in the form that kernels take, and kernels that read single columns."""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.compile.array_record import ArrayRecord
from copter.compile.kernels import kernel

if TYPE_CHECKING:
    from copter.store.local import LocalStore


@dataclass(frozen=True, eq=False)
class StoreView(ArrayRecord):
    """Arrays of a store in the form that kernels take, without copies.

    Fields have the names of the tables in :mod:`copter.store.store`.
    """

    cost: NDArray[np.float64]
    cost_start: NDArray[np.int64]
    n_columns: NDArray[np.int64]
    scale: NDArray[np.float64]
    exact: NDArray[np.bool_]
    total: NDArray[np.float64]
    upper: NDArray[np.float64]
    upper_start: NDArray[np.int64]
    uppers: NDArray[np.float64]
    usage: NDArray[np.int64]
    pointer_start: NDArray[np.int64]
    entry_start: NDArray[np.int64]
    value_start: NDArray[np.int64]
    pointer: NDArray[np.int32]
    row: NDArray[np.int32]
    coefficient: NDArray[np.float64]


def view_of(store: LocalStore) -> StoreView:
    """Return a view of a store's present arrays, which is valid until the next edit.

    If the arrays did not change, return the last view, because making a view takes time.
    """
    requests, usages = store.requests, store.usages
    n, m = requests.size, usages.size
    sizes = n, m
    arrays = (
        requests.whole,
        usages.whole,
        store.costs.cost,
        store.uppers.upper,
        store.pointers.pointer,
        store.entries.row,
        store.coefficients.value,
    )
    last = store.last_view
    if last is not None and last[0] == sizes and all(map(is_, last[1], arrays)):
        return last[2]
    view = StoreView(
        store.costs.cost,
        requests.cost_start[:n],
        requests.n_columns[:n],
        requests.scale[:n],
        requests.exact[:n],
        requests.total[:n],
        requests.upper[:n],
        requests.upper_start[:n],
        store.uppers.upper,
        requests.usage[:n],
        usages.pointer_start[:m],
        usages.entry_start[:m],
        usages.value_start[:m],
        store.pointers.pointer,
        store.entries.row,
        store.coefficients.value,
    )
    store.last_view = sizes, arrays, view
    return view


@kernel(inlined=True)
def cap_of(view: StoreView, q, j):  # type: ignore[no-untyped-def]
    """Return the upper bound of column j of request q."""
    return view.upper[q] if view.upper_start[q] < 0 else view.uppers[view.upper_start[q] + j]


@kernel(inlined=True)
def cost_of(view: StoreView, q, j):  # type: ignore[no-untyped-def]
    """Return the effective cost of column j of request q."""
    return view.scale[q] * view.cost[view.cost_start[q] + j]


@kernel(allocates=True)
def costs_at(view: StoreView, slot: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the effective costs of single columns, given by slots and positions in the view, (k,) each."""
    costs = np.empty(slot.size)
    for k in range(slot.size):
        costs[k] = cost_of(view, slot[k], column[k])
    return costs


@kernel(allocates=True)
def caps_at(view: StoreView, slot: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the upper bounds of single columns, given by slots and positions in the view, (k,) each."""
    caps = np.empty(slot.size)
    for k in range(slot.size):
        caps[k] = cap_of(view, slot[k], column[k])
    return caps


@kernel
def fill_costs(view: StoreView, q, factor, costs):  # type: ignore[no-untyped-def]
    """Write factor times the effective costs of all n columns of request q to ``costs[:n]``."""
    start, scale = view.cost_start[q], factor * view.scale[q]
    for j in range(view.n_columns[q]):
        costs[j] = scale * view.cost[start + j]


@kernel(inner=True)
def fill_caps(view: StoreView, q, upper):  # type: ignore[no-untyped-def]
    """Write the upper bounds of all n columns of request q to ``upper[:n]``."""
    n, start = view.n_columns[q], view.upper_start[q]
    for j in range(n):
        upper[j] = view.upper[q] if start < 0 else view.uppers[start + j]


@kernel(inlined=True)
def entries_of(view: StoreView, usage, first, last):  # type: ignore[no-untyped-def]
    """Return the range of the entries of a usage's columns [first, last).

    The numbers are unsigned, so that kernels do not check the sign of indices.
    """
    pointer, entry = view.pointer_start[usage], view.entry_start[usage]
    return np.uint64(entry + view.pointer[pointer + first]), np.uint64(entry + view.pointer[pointer + last])


@kernel(inlined=True)
def coefficients_of(view: StoreView, usage):  # type: ignore[no-untyped-def]
    """Return (shift, stride) so that ``view.coefficient[shift + stride * k]`` is the coefficient of entry k.

    A usage without stored coefficients has the stride 0 and reads the common coefficient 1.
    """
    start = view.value_start[usage]
    shift = start - view.entry_start[usage] if start >= 0 else 0
    return np.uint64(shift), np.uint64(1 if start >= 0 else 0)


@kernel(inlined=True)
def paid_for(view: StoreView, usage, j, y):  # type: ignore[no-untyped-def]
    """Return (A'y)_j of column j of a usage at dual prices y (row slots,)."""
    first, last = entries_of(view, usage, j, j + 1)
    paid = 0.0
    if view.value_start[usage] < 0:
        for k in range(first, last):
            paid += y[np.uint32(view.row[k])]
    else:
        shift, _ = coefficients_of(view, usage)
        for k in range(first, last):
            paid += y[np.uint32(view.row[k])] * view.coefficient[shift + k]
    return paid


@kernel(allocates=True)
def take_entries(
    view: StoreView, slot: NDArray[np.int64], column: NDArray[np.int64], seen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float64]]:
    """Return the entries of single columns in the rows where `seen` (row slots,) is True.

    Columns are given by slots and positions in the view, (k,) each. The result is CSC: (pointer, row, value).
    """
    pointer = np.zeros(slot.size + 1, np.int64)
    for j in range(slot.size):
        count = 0
        begin, end = entries_of(view, view.usage[slot[j]], column[j], column[j] + 1)
        for k in range(begin, end):
            count += seen[np.uint32(view.row[k])]
        pointer[j + 1] = pointer[j] + count
    row, value = np.empty(pointer[-1], np.uint32), np.empty(pointer[-1])
    n = 0
    for j in range(slot.size):
        usage = view.usage[slot[j]]
        begin, end = entries_of(view, usage, column[j], column[j] + 1)
        shift, stride = coefficients_of(view, usage)
        for k in range(begin, end):
            if seen[np.uint32(view.row[k])]:
                row[n], value[n] = view.row[k], view.coefficient[shift + stride * k]
                n += 1
    return pointer, row, value
