"""What a program holds, to be read: everything that can be set, of one request or of many."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from copter.program.handles import Handles, Template
from copter.program.index import Index, listed
from copter.program.resources import Resources
from copter.store.edits import EXACTLY, NO_TOTAL

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from copter.terms.convex import ConvexTerm

Relation: TypeAlias = Literal["<=", "=="]


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


class Queries(Resources):
    """The reading half of :class:`copter.program.program.ContinualProgram`."""

    def __init__(self, cost_dtype: DTypeLike = np.float64) -> None:
        super().__init__(cost_dtype)
        self._requests = Index("request")
        self._templates = Handles(Template, "template", "usage")
        self._starts: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request: Hashable) -> bool:
        return request in self._requests

    def __repr__(self) -> str:
        integral = int(np.count_nonzero(self.store.requests.integral[self.request_slots]))
        counts = {
            "request": len(self),
            "column": self.n_variables,
            "resource": len(self._resources),
            "sum row": self.n_rows - len(self._resources),
            "nonzero": self.nnz,
            "template": len(self._templates),
            "cost vector": int(np.count_nonzero(self.store.vectors.shared[: self.store.vectors.size])),
            "convex term": len(self.store.terms),
            "integral request": integral,
        }
        always = ("request", "column", "resource")
        said = [f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items() if n or what in always]
        return f"<{type(self).__name__}: {', '.join(said)}>"

    # ---- all of it -------------------------------------------------------------------------------

    @property
    def request_ids(self) -> list[Hashable]:
        """Ids of all requests, in the order in which they were added."""
        return self._requests.ids

    @property
    def request_slots(self) -> NDArray[np.int64]:
        """Store slots of all requests, in the order of :attr:`request_ids`; read-only."""
        return self._requests.all_slots

    @property
    def slot_of(self) -> Mapping[Hashable, int]:
        """Store slot of each request as it is now; later edits do not change this mapping."""
        return self._requests.frozen

    @property
    def templates(self) -> list[Template]:
        """Handles of all templates, in the order in which they were added."""
        return list(self._templates.values())

    @property
    def n_variables(self) -> int:
        """Number of columns."""
        return self.store.n_variables

    @property
    def n_rows(self) -> int:
        """Number of rows: resources, and sum rows of requests."""
        table = self.store.requests
        return len(self._resources) + int(np.count_nonzero(table.relation[: table.size]))

    @property
    def nnz(self) -> int:
        """Number of nonzeros in the resource rows."""
        return self.store.nnz

    # ---- one request -----------------------------------------------------------------------------

    def costs(self, request: Hashable) -> NDArray[np.float64]:
        """Effective costs of a request, shape (n,): scale and overrides applied.

        Returns
        -------
        (n,) ndarray
        """
        return self.store.effective_costs(self._requests.slot(request))

    def base_costs(self, request: Hashable) -> NDArray[np.float64]:
        """Costs of a request as they were given, shape (n,): without scale and overrides.

        Returns
        -------
        (n,) ndarray
        """
        return self.store.base_costs(self._requests.slot(request))

    def scale(self, request: Hashable) -> float:
        """Factor on all costs of a request that are not overridden."""
        return float(self.store.requests.scale[self._requests.slot(request)])

    def override(self, request: Hashable) -> dict[int, float]:
        """Costs by column of a request that its scale does not touch.

        Returns
        -------
        dict of column to cost
        """
        return _by_column(self.store.get_override(self._requests.slot(request)))

    def usage(self, request: Hashable) -> dict[Hashable, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """What a request's columns use: (columns, coefficients) by resource id; no resource with none.

        :meth:`template` tells whether the columns are shared.

        Returns
        -------
        dict of resource id to (columns, coefficients)
        """
        store, slot = self.store, self._requests.slot(request)
        column, row, value = store.request_entries(slot)
        id_of = dict(zip(self.resource_slots.tolist(), self.resource_ids, strict=True))
        own = [(id_of[slot], row == slot) for slot in np.unique(row).tolist() if slot in id_of]
        return {id: (column[used], value[used]) for id, used in own}

    def template(self, request: Hashable) -> Template | None:
        """Template whose columns a request uses, None if they are its own or the template was dropped."""
        return self._templates.get(int(self.store.requests.usage[self._requests.slot(request)]))

    def total(self, request: Hashable) -> float | None:
        """Total of a request's sum row, None if it has none.

        Returns
        -------
        float or None
        """
        slot = self._requests.slot(request)
        table = self.store.requests
        return None if table.relation[slot] == NO_TOTAL else float(table.total[slot])

    def relation(self, request: Hashable) -> Relation | None:
        """Relation of a request's sum row, "<=" or "==", None if it has none.

        Returns
        -------
        "<=", "==" or None
        """
        kind = int(self.store.requests.relation[self._requests.slot(request)])
        return None if kind == NO_TOTAL else _relation(kind)

    def upper(self, request: Hashable) -> NDArray[np.float64]:
        """Upper bounds of a request's columns, shape (n,).

        Returns
        -------
        (n,) ndarray
        """
        return self.store.upper_bounds(self._requests.slot(request))

    def integral(self, request: Hashable) -> bool:
        """Whether an integral allocation of a request is wanted."""
        return bool(self.store.requests.integral[self._requests.slot(request)])

    def start(self, request: Hashable) -> dict[int, float] | None:
        """Values by column from which the next warm start begins, None if none were given since the last.

        Returns
        -------
        dict of column to value, or None
        """
        start = self._starts.get(self._requests.slot(request))
        return None if start is None else _by_column(start)

    def term(self, request: Hashable) -> ConvexTerm | None:
        """Convex term of a request, None if it has none."""
        return self.store.terms.get(self._requests.slot(request))

    # ---- many requests ---------------------------------------------------------------------------

    def read_requests(self, ids: Sequence[Hashable] | None = None) -> RequestData:
        """Everything that many requests hold, in the form in which they can be added again.

        Parameters
        ----------
        ids : sequence of k hashables, optional
            By default all requests.

        Raises
        ------
        EditError
            An id is unknown or given twice.
        """
        from scipy.sparse import csc_array

        from copter.store.reading import (
            given_costs,
            overrides_of,
            row_positions,
            upper_bounds,
            usage_columns,
        )

        store, table = self.store, self.store.requests
        names = self.request_ids if ids is None else list(ids)
        slots = self.request_slots if ids is None else self._requests.slots(listed(names), "read_requests")
        sizes = table.n_columns[slots]
        columns, values = overrides_of(store, slots)
        used = usage_columns(store, slots, row_positions(store, self.resource_slots))
        pointer = np.concatenate(([0], np.cumsum(used.counts)))
        shape = (len(self._resources), int(sizes.sum()))
        bounds = table.upper[slots]
        one = slots.size > 0 and bool((table.upper_start[slots] < 0).all() and (bounds == bounds[0]).all())
        kinds, starts = table.relation[slots], [self._starts.get(slot) for slot in slots.tolist()]
        totals = zip(table.total[slots].tolist(), kinds.tolist(), strict=True)
        return RequestData(
            ids=names,
            costs=given_costs(store, slots),
            sizes=sizes,
            usage=csc_array((used.value, used.row, pointer), shape=shape),
            totals=[None if kind == NO_TOTAL else total for total, kind in totals],
            relation=[_relation(kind) for kind in kinds.tolist()],
            upper=float(bounds[0]) if one else upper_bounds(store, slots),
            scales=table.scale[slots],
            overrides=(columns.lengths, columns.values, values.values),
            integral=table.integral[slots],
            starts=[None if start is None else _by_column(start) for start in starts],
            terms=[store.terms.get(slot) for slot in slots.tolist()],
        )


def _relation(kind: int) -> Relation:
    return "==" if kind == EXACTLY else "<="


def _by_column(entries: tuple[NDArray[Any], NDArray[np.float64]]) -> dict[int, float]:
    columns, values = entries
    return dict(zip(columns.tolist(), values.tolist(), strict=True))
