"""Coefficients of flow programs: the smallest coefficient of some requests, and those of one column."""

from __future__ import annotations

import numpy as np

from copter.arrays import Floats, Ints
from copter.compile.kernels import kernel
from copter.store.executor import Part
from copter.store.store import ConstraintStore
from copter.store.view import coefficients_of, entries_of, take_entries, view_of


def least_coefficient(store: ConstraintStore, requests: Ints) -> float:
    """Return the smallest coefficient of some requests in present rows; infinite without one.

    `requests` (k,): slots of these requests.
    """
    if not requests.size:
        return np.inf
    return min(store.executor.map(_least_part, slots=requests))


def _least_part(part: Part, requests: Ints) -> float:
    return float(_least_coefficient(view_of(part.store), requests, part.store.rows.alive))


def column(store: ConstraintStore, slot: int, j: int) -> Floats:
    """Return the coefficients of column j of a request, by row slot."""
    dense = np.zeros(store.rows.size)
    view, place = store.executor.columns(np.array([slot]), np.array([j]))
    _, row, value = take_entries(view, np.array([slot]), place, np.ones(dense.size, np.bool_))
    np.add.at(dense, row, value)
    return dense


@kernel
def _least_coefficient(view, requests, alive):  # type: ignore[no-untyped-def]
    lowest = np.inf
    for q in requests:
        usage = view.usage[q]
        if view.value_start[usage] < 0:  # all of them are 1
            lowest = min(lowest, 1.0)
            continue
        first, last = entries_of(view, usage, 0, view.n_columns[q])
        shift, _ = coefficients_of(view, usage)
        for k in range(first, last):
            if alive[view.row[k]]:
                lowest = min(lowest, view.coefficient[shift + k])
    return lowest
