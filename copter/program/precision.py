"""Costs of 32 bits: what a program that keeps its costs so can hold, and the errors for what it cannot.

Such a program *is* the one with rounded costs: its cost of a column is the 32-bit number nearest to what was
given, times the request's scale; an override v of a request with scale s and costs of its own is s times the
one nearest to v / s.  On a shared vector overrides are kept aside, and stay as they were given, to 64 bits.
All that is computed from them (prices, sums, the certificate) has 64 bits.  A cost that is not 0 must be of a
size that keeps its 24 significant bits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.store.kernels import first_beyond
from copter.store.reading import overrides_of
from copter.store.slabs import contiguous

if TYPE_CHECKING:
    from copter.store.edit import Edit
    from copter.store.store import ConstraintStore

_KEPT = np.finfo(np.float32)
LEAST, MOST = float(_KEPT.tiny), float(_KEPT.max)
_WHY = f"costs of 32 bits are 0, or from {LEAST:.2g} to {MOST:.2g} in size: keep them as float64"


def check_costs(store: ConstraintStore, ids: Sequence[Hashable], edit: Edit) -> None:
    """Whether the store can hold the costs that an edit leaves.

    Parameters
    ----------
    ids : (k,) sequence of hashable
        Of the requests, or what stands for shared costs.

    Raises
    ------
    EditError
        Names the request and the column.
    """
    if store.cost_dtype == np.float64:
        return
    if edit.costs is not None:
        _check_costs(ids, *edit.costs)
    given = store.requests.scale[edit.slots] if edit.scales is None else edit.scales
    if edit.overrides is not None:
        which, counts, columns, values = edit.overrides
        scales = np.broadcast_to(given, counts.shape)
        _check_each(ids, np.arange(counts.size), counts, columns, values, scales)
    if edit.scales is not None and edit.slots.size and edit.usage is None:
        stays = np.ones(edit.slots.size, np.bool_)
        if edit.overrides is not None:
            stays[slice(None) if which is None else which] = False
        kept = np.flatnonzero(stays)
        old, old_values = overrides_of(store, edit.slots[kept])
        scales = np.broadcast_to(given, edit.slots.shape)
        _check_each(ids, kept, old.lengths, old.values, old_values.values, scales)


def _check_costs(ids: Sequence[Hashable], sizes: NDArray[np.int64], costs: NDArray[np.float64]) -> None:
    where = first_beyond(contiguous(costs), LEAST, MOST)
    if where >= 0:
        ends = np.cumsum(sizes)
        k = int(np.searchsorted(ends, where, side="right"))
        column = where - int(ends[k] - sizes[k])
        raise EditError(ids[k], f"costs, column {column}", float(costs[where]), _WHY)


def _check_each(
    ids: Sequence[Hashable],
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: NDArray[np.float64],
    scales: NDArray[np.float64],
) -> None:
    """Whether overrides of the requests at some places, flat, can be held at given scales of all requests."""
    which = np.repeat(places, counts)
    where = first_beyond(values / scales[which], LEAST, MOST)
    if where >= 0:
        k = int(which[where])
        field = f"override, column {int(columns[where])}"
        why = f"is {values[where] / scales[k]:.3g} at scale {scales[k]:g}: {_WHY}"
        raise EditError(ids[k], field, float(values[where]), why)
