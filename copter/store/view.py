"""The store's arrays as compiled kernels read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.store.store import ConstraintStore


class StoreView(NamedTuple):
    """The store's arrays as kernels read them; no copies."""

    cost: NDArray[np.float64]
    cost_start: NDArray[np.int64]
    n_columns: NDArray[np.int64]
    scale: NDArray[np.float64]
    relation: NDArray[np.int8]
    total: NDArray[np.float64]
    upper: NDArray[np.float64]
    upper_start: NDArray[np.int64]
    uppers: NDArray[np.float64]
    usage: NDArray[np.int64]
    pointer_start: NDArray[np.int64]
    entry_start: NDArray[np.int64]
    pointer: NDArray[np.int32]
    row: NDArray[np.int32]
    value: NDArray[np.float64]


def view_of(store: ConstraintStore) -> StoreView:
    """View of a store's current arrays; valid until the next edit."""
    requests, usages = store.requests, store.usages
    return StoreView(
        store.costs.cost,
        requests.cost_start[: requests.size],
        requests.n_columns[: requests.size],
        requests.scale[: requests.size],
        requests.relation[: requests.size],
        requests.total[: requests.size],
        requests.upper[: requests.size],
        requests.upper_start[: requests.size],
        store.uppers.upper,
        requests.usage[: requests.size],
        usages.pointer_start[: usages.size],
        usages.entry_start[: usages.size],
        store.pointers.pointer,
        store.entries.row,
        store.entries.value,
    )
