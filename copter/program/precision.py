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
from copter.store.costs import CostsOfVectors
from copter.store.edits import first_beyond
from copter.store.reading import overrides_of
from copter.store.slabs import contiguous

if TYPE_CHECKING:
    from copter.program.changes import Change
    from copter.program.forms import Entries
    from copter.store.store import ConstraintStore

_KEPT = np.finfo(np.float32)
LEAST, MOST = float(_KEPT.tiny), float(_KEPT.max)
_WHY = f"costs of 32 bits are 0, or from {LEAST:.2g} to {MOST:.2g} in size: keep them as float64"


def check_new(
    store: ConstraintStore,
    ids: Sequence[Hashable],
    sizes: NDArray[np.int64],
    costs: NDArray[np.float64] | CostsOfVectors,
    scales: NDArray[np.float64] | float,
    change: Change | None,
) -> None:
    """Whether the store can hold the costs of new requests.

    Parameters
    ----------
    ids : (k,) sequence of hashable
    sizes : (k,) ndarray
    costs : (sum(sizes),) ndarray, or vectors
    scales : (k,) ndarray, or one for all
    change : Change, optional
        With their overrides.

    Raises
    ------
    EditError
        Names the request and the column.
    """
    if store.cost_dtype == np.float64:
        return
    if not isinstance(costs, CostsOfVectors):
        _check_costs(ids, sizes, costs)
    if change is not None and change.overrides is not None:
        _check_overrides(ids, np.broadcast_to(scales, sizes.shape), change.overrides)


def check_vector(store: ConstraintStore, costs: NDArray[np.float64]) -> None:
    """Whether the store can hold the costs of a vector.

    Parameters
    ----------
    costs : (n,) ndarray

    Raises
    ------
    EditError
        Names the column.
    """
    if store.cost_dtype != np.float64:
        _check_costs(["cost vector"], np.array([costs.size]), costs)


def check_change(
    store: ConstraintStore,
    ids: Sequence[Hashable],
    slots: NDArray[np.int64],
    change: Change,
    *,
    replaced: bool,
) -> None:
    """Whether the store can hold the costs that requests will have.

    Parameters
    ----------
    ids, slots : (k,) sequence and ndarray
    replaced : bool
        Whether the requests get new columns, which begin without overrides.

    Raises
    ------
    EditError
        Names the request and the column.
    """
    if store.cost_dtype == np.float64:
        return
    own = () if change.costs is None or isinstance(change.costs, CostsOfVectors) else change.costs
    for id, costs in zip(ids, own, strict=False):
        _check_costs([id], np.array([costs.size]), costs)
    scales = store.requests.scale[slots] if change.scales is None else change.scales
    if change.overrides is not None:
        _check_overrides(ids, scales, change.overrides)
    if change.scales is not None and not replaced:
        stays = np.ones(slots.size, np.bool_)
        if change.overrides is not None:
            stays[slice(None) if change.overrides.which is None else change.overrides.which] = False
        kept = np.flatnonzero(stays)
        columns, values = overrides_of(store, slots[kept])
        _check_each(ids, kept, columns.lengths, columns.values, values.values, scales)


def _check_costs(ids: Sequence[Hashable], sizes: NDArray[np.int64], costs: NDArray[np.float64]) -> None:
    where = first_beyond(contiguous(costs), LEAST, MOST)
    if where >= 0:
        ends = np.cumsum(sizes)
        k = int(np.searchsorted(ends, where, side="right"))
        column = where - int(ends[k] - sizes[k])
        raise EditError(ids[k], f"costs, column {column}", float(costs[where]), _WHY)


def _check_overrides(ids: Sequence[Hashable], scales: NDArray[np.float64], given: Entries) -> None:
    places = np.arange(len(ids)) if given.which is None else given.which
    _check_each(ids, places, given.counts, given.columns, given.values, scales)


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
