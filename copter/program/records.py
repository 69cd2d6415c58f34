"""What verbs of a program take and give: how requests and resources are read, and the types of arguments."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.store.edits import EXACTLY, NO_TOTAL

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from copter.program.changes import Starts
    from copter.store.store import ConstraintStore
    from copter.terms.convex import ConvexTerm

Relation: TypeAlias = Literal["<=", "=="]
CostType: TypeAlias = Literal["float64", "float32"]
COST_TYPES: tuple[CostType, ...] = ("float64", "float32")
EntriesLike: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike] | Sequence[Mapping[int, float] | None]
"""Numbers for single columns of many requests: (counts, columns, values), or one mapping a request."""


@dataclass(frozen=True, eq=False)
class ResourceData:
    """Resources as :meth:`copter.ContinualProgram.add_resource_rows` takes them.

    Attributes
    ----------
    ids : list of k
    upper, lower : (k,) ndarrays
    """

    ids: list[Hashable]
    upper: NDArray[np.float64]
    lower: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RequestData:
    """Requests as :meth:`copter.ContinualProgram.add_requests` takes them: ``add_requests(**vars(data))``.

    Attributes
    ----------
    ids : list of k
    costs : (sum(sizes),) ndarray
        Costs as they were given, without scale and overrides.
    sizes : (k,) ndarray
    usage : csc_array of shape (number of resources, sum(sizes))
    totals, relation : lists of k
        A total of None where there is no sum row; the relation is "<=" there.
    upper : float or (sum(sizes),) ndarray
        One number if no request has bounds column by column, and all have the same.
    scales : (k,) ndarray
    overrides : (counts (k,), columns, costs) ndarrays
    integral : (k,) ndarray of bool
    starts : list of k mappings of column to value, or None
        Those that no solve has taken yet; None where there is none.
    terms : list of k terms
        None where there is none.
    """

    ids: list[Hashable]
    costs: NDArray[np.float64]
    sizes: NDArray[np.int64]
    usage: csc_array
    totals: list[float | None]
    relation: list[Relation]
    upper: float | NDArray[np.float64]
    scales: NDArray[np.float64]
    overrides: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
    integral: NDArray[np.bool_]
    starts: list[dict[int, float] | None]
    terms: list[ConvexTerm | None]


def request_data(
    store: ConstraintStore,
    ids: list[Hashable],
    slots: NDArray[np.int64],
    resource_slots: NDArray[np.int64],
    starts: Starts,
) -> RequestData:
    """Everything that the requests in some slots of a store hold."""
    from scipy.sparse import csc_array

    from copter.store.reading import given_costs, overrides_of, row_positions, upper_bounds, usage_columns

    table = store.requests
    sizes = table.n_columns[slots]
    columns, values = overrides_of(store, slots)
    used = usage_columns(store, slots, row_positions(store, resource_slots))
    pointer = np.concatenate(([0], np.cumsum(used.counts)))
    shape = (resource_slots.size, int(sizes.sum()))
    bounds = table.upper[slots]
    one = slots.size > 0 and bool((table.upper_start[slots] < 0).all() and (bounds == bounds[0]).all())
    kinds, given = table.relation[slots], [starts.get(slot) for slot in slots.tolist()]
    totals = zip(table.total[slots].tolist(), kinds.tolist(), strict=True)
    return RequestData(
        ids=ids,
        costs=given_costs(store, slots),
        sizes=sizes,
        usage=csc_array((used.value, used.row, pointer), shape=shape),
        totals=[None if kind == NO_TOTAL else total for total, kind in totals],
        relation=[relation_of(kind) for kind in kinds.tolist()],
        upper=float(bounds[0]) if one else upper_bounds(store, slots),
        scales=table.scale[slots],
        overrides=(columns.lengths, columns.values, values.values),
        integral=table.integral[slots],
        starts=[None if start is None else by_column(start) for start in given],
        terms=[store.terms.get(slot) for slot in slots.tolist()],
    )


def relation_of(kind: int) -> Relation:
    """How users write a kind of sum row; "<=" for none."""
    return "==" if kind == EXACTLY else "<="


def by_column(entries: tuple[NDArray[Any], NDArray[np.float64]]) -> dict[int, float]:
    """{column: value} of columns and values."""
    columns, values = entries
    return dict(zip(columns.tolist(), values.tolist(), strict=True))
