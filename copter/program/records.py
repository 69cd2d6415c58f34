"""Records of requests and resources as they are read from a program, and types of edit methods' arguments."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.program.names import Names, by_name
from copter.program.sense import in_sense
from copter.store.edit import Moved

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from copter.program.handles import SharedColumns
    from copter.program.index import Index
    from copter.program.program import ContinualProgram
    from copter.store.edit import Pending
    from copter.store.store import ConstraintStore
    from copter.terms.convex import ConvexTerm

Relation: TypeAlias = Literal["<=", "=="]
_RELATIONS: tuple[Relation, Relation] = ("<=", "==")
"""Relations of sum rows, by whether they are equations."""
EntriesLike: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike] | Sequence[Mapping[Any, float] | None]
"""Numbers for single columns of many requests: (counts, columns, values), or one mapping for each request."""


@dataclass(frozen=True, eq=False)
class ResourceData:
    """Resources in the form of the arguments of :meth:`copter.ContinualProgram.add_resources`.

    ``program.resources[ids]`` returns it, and ``add_resources(**vars(data))`` adds the same resources.

    Attributes
    ----------
    ids : list of k
    lower, upper : (k,) ndarrays
        Bounds of the usage, in units of each resource. They may be infinite.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resources(["gpu", "cpu"], upper=[8, 64])
    >>> data = program.resources[:]
    >>> data.ids, data.upper
    (['gpu', 'cpu'], array([ 8., 64.]))
    >>> other = ContinualProgram()
    >>> other.add_resources(**vars(data))
    >>> other.resource_ids
    ['gpu', 'cpu']
    """

    ids: list[Hashable]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RequestData:
    """Requests in the form of the arguments of :meth:`copter.ContinualProgram.add_requests`.

    ``program.requests[ids]`` returns it, and ``add_requests(**vars(data))`` adds the same requests.

    Attributes
    ----------
    ids : list of k
    costs : (sum(sizes),) ndarray
        Costs as they were given, without scale and overrides.
    sizes : (k,) ndarray
        Number of columns of each request.
    usage : csc_array, shape (number of resources, sum(sizes))
    totals, relation : lists of k
        Total and relation of each sum row. A request without a sum row has the total None and the relation
        "<=".
    upper : float or (sum(sizes),) ndarray
        Upper bounds of the columns. One number if all columns have the same bound and no request has bounds
        column by column.
    scales : (k,) ndarray
    overrides : (counts (k,), columns, costs) ndarrays
        Number of overridden columns of each request; then the columns and their costs, request after request.
    integral : (k,) ndarray of bool
    starts : list of k mappings of column to value, or None
        Starts that no solve has taken yet. None for a request without a start. Named columns are given by
        name.
    terms : list of k terms
        None for a request without a convex term.
    columns : list of k tuples, or None
        Names of the columns of each request. None for a request with numbered columns, or if all requests
        have numbered columns.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("a", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> program.add_request("b", costs=[-2.0], usage={"gpu": 4}, upper=1.0)
    >>> data = program.requests[["b", "a"]]
    >>> data.costs, data.sizes, data.totals
    (array([-2. , -1. , -1.8]), array([1, 2]), [None, 1.0])
    >>> data.usage.toarray()
    array([[4., 1., 2.]])
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
    starts: list[dict[Any, float] | None]
    terms: list[ConvexTerm | None]
    columns: list[Names] | None


class Resources:
    """Resources of a program, by id; made by :attr:`copter.ContinualProgram.resources`.

    ``resources[id]`` returns a :class:`Resource`. ``resources[ids]``, for a sequence of ids, returns a
    :class:`ResourceData`, and ``resources[:]`` returns a ResourceData of all resources. A tuple that is
    itself an id is treated as one id.
    """

    def __init__(self, store: ConstraintStore, index: Index) -> None:
        self._store, self._index = store, index

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._index.ids)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._index

    def __getitem__(self, ids: Any) -> Any:
        rows = self._store.rows
        chosen = self._index.chosen(ids, "resources")
        if isinstance(chosen, int):
            return Resource(float(rows.lower[chosen]), float(rows.upper[chosen]))
        names, slots = chosen
        return ResourceData(list(names), rows.lower[slots], rows.upper[slots])

    def __repr__(self) -> str:
        return f"<{_counted(len(self), 'resource')}: {_some(self)}>"


class Resource(NamedTuple):
    """Bounds of a resource at the time when they were read; ``program.resources[id]`` returns them.

    Attributes
    ----------
    lower, upper : float
        Bounds of the usage, in units of the resource.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.resources["gpu"]
    Resource(lower=-inf, upper=8.0)
    """

    lower: float
    upper: float


class Requests:
    """Requests of a program, by id; made by :attr:`copter.ContinualProgram.requests`.

    ``requests[id]`` returns a :class:`Request`. ``requests[ids]``, for a sequence of ids, returns a
    :class:`RequestData`, and ``requests[:]`` returns a RequestData of all requests. A tuple that is itself
    an id is treated as one id.
    """

    def __init__(self, program: ContinualProgram) -> None:
        self.store, self.sense = program.store, program.sense
        self.index, self.resources = program._requests, program._resources
        self.columns, self.starts, self.names = program._templates, program._starts, program._names

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.index.ids)

    def __contains__(self, id: Hashable) -> bool:
        return id in self.index

    def __getitem__(self, ids: Any) -> Any:
        chosen = self.index.chosen(ids, "requests")
        if isinstance(chosen, int):
            return Request(self, ids)
        names, slots = chosen
        return _request_data(self, list(names), slots)

    def __repr__(self) -> str:
        return f"<{_counted(len(self), 'request')}: {_some(self)}>"


class Request:
    """View of one request of a program; ``program.requests[id]`` returns it.

    An attribute has the value at the time when it is read. After the request is removed, reading an attribute
    raises :class:`copter.errors.UnknownIdError`.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1, columns=["one", "two"])
    >>> job = program.requests["job"]
    >>> job
    <request 'job': 2 columns, sum <= 1>
    >>> program.update_request("job", scale=2.0, override={"two": -3.0})
    >>> job.costs, job.override
    (array([-2., -3.]), {'two': -3.0})
    >>> job.usage["gpu"]
    (array([0, 1]), array([1., 2.]))
    """

    def __init__(self, among: Requests, id: Hashable) -> None:
        self._among, self.id = among, id

    @property
    def slot(self) -> int:
        """Slot of the request in the store."""
        return self._among.index.slot(self.id)

    def _now(self, field: str) -> Any:
        """Return a number of the request from the store's table."""
        return getattr(self._among.store.requests, field)[self.slot]

    @property
    def costs(self) -> NDArray[np.float64]:
        """Effective costs, shape (n,): scale and override applied."""
        return in_sense(self._among.store.effective_costs(self.slot), self._among.sense)

    @property
    def base_costs(self) -> NDArray[np.float64]:
        """Costs as they were given, shape (n,): without scale and override."""
        return in_sense(self._among.store.base_costs(self.slot), self._among.sense)

    @property
    def scale(self) -> float:
        """Factor that multiplies all costs that are not overridden."""
        return float(self._now("scale"))

    @property
    def columns(self) -> tuple[Hashable, ...] | range:
        """Names of its columns, or ``range(n)`` if they have numbers."""
        names = self._among.names.of(self.slot)
        return range(int(self._now("n_columns"))) if names is None else names

    @property
    def override(self) -> dict[Any, float]:
        """Costs, by column number or name, that the scale does not multiply."""
        slot = self.slot
        columns, costs = self._among.store.get_override(slot)
        return by_name(_by_column((columns, in_sense(costs, self._among.sense))), self._among.names.of(slot))

    @property
    def usage(self) -> dict[Hashable, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Usage of its columns by resource id, as (columns, coefficients), without unused resources."""
        resources = self._among.resources
        column, row, value = self._among.store.request_entries(self.slot)
        id_of = dict(zip(resources.all_slots.tolist(), resources.ids, strict=True))
        own = [(id_of[slot], row == slot) for slot in np.unique(row).tolist() if slot in id_of]
        return {id: (column[used], value[used]) for id, used in own}

    @property
    def shared_columns(self) -> SharedColumns | None:
        """Handle of its shared columns; None if it has columns of its own or the handle was forgotten."""
        return self._among.columns.get(int(self._now("usage")))

    @property
    def total(self) -> float | None:
        """Total of its sum row; None without a sum row."""
        total = float(self._now("total"))
        return None if total == np.inf else total

    @property
    def relation(self) -> Relation | None:
        """Relation of its sum row, "<=" or "=="; None without a sum row."""
        return None if self.total is None else _RELATIONS[bool(self._now("exact"))]

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper bounds of its columns, shape (n,)."""
        return self._among.store.upper_bounds(self.slot)

    @property
    def integral(self) -> bool:
        """True if the request asks for an integral allocation."""
        return bool(self._now("integral"))

    @property
    def start(self) -> dict[Any, float] | None:
        """Values, by column number or name, from which the next warm start begins.

        None if no start was given since the last solve.
        """
        slot = self.slot
        return _start_of(self._among.starts, slot, self._among.names.of(slot))

    @property
    def term(self) -> ConvexTerm | None:
        """Convex term; None without a convex term."""
        return self._among.store.terms.get(self.slot)

    def __repr__(self) -> str:
        n = int(self._now("n_columns"))
        row = "" if self.total is None else f", sum {self.relation} {self.total:g}"
        return f"<request {self.id!r}: {_counted(n, 'column')}{row}>"


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _some(ids: Iterable[Hashable]) -> str:
    first = [repr(id) for id in islice(ids, 4)]
    return ", ".join(first[:3]) + (", ..." if len(first) > 3 else "")


def _request_data(among: Requests, ids: list[Hashable], slots: NDArray[np.int64]) -> RequestData:
    """Read all data of the requests in some slots of a store."""
    from scipy.sparse import csc_array

    from copter.store.reading import given_costs, overrides_of, row_positions, upper_bounds, usage_columns

    store, starts, sense = among.store, among.starts, among.sense
    names = among.names.of_many(slots)
    resource_slots = among.resources.all_slots
    table = store.requests
    sizes = table.n_columns[slots]
    columns, values = overrides_of(store, slots)
    used = usage_columns(store, slots, row_positions(store, resource_slots))
    pointer = np.concatenate(([0], np.cumsum(used.counts)))
    shape = (resource_slots.size, int(sizes.sum()))
    bounds = table.upper[slots]
    one = slots.size > 0 and bool((table.upper_start[slots] < 0).all() and (bounds == bounds[0]).all())
    each = zip(slots.tolist(), names or [None] * len(ids), strict=True)
    return RequestData(
        ids=ids,
        costs=in_sense(given_costs(store, slots), sense),
        sizes=sizes,
        usage=csc_array((used.value, used.row, pointer), shape=shape),
        totals=[None if total == np.inf else total for total in table.total[slots].tolist()],
        relation=[_RELATIONS[exact] for exact in table.exact[slots].tolist()],
        upper=float(bounds[0]) if one else upper_bounds(store, slots),
        scales=table.scale[slots],
        overrides=(columns.lengths, columns.values, in_sense(values.values, sense)),
        integral=table.integral[slots],
        starts=[_start_of(starts, slot, own) for slot, own in each],
        terms=[store.terms.get(slot) for slot in slots.tolist()],
        columns=names,
    )


def _start_of(starts: Pending, slot: int, names: Names) -> dict[Any, float] | None:
    """Return the start that was given for a request, by column number or name; None without a start."""
    start = starts.get(slot)
    return None if start is None or isinstance(start, Moved) else by_name(_by_column(start), names)


def _by_column(entries: tuple[NDArray[Any], NDArray[np.float64]]) -> dict[int, float]:
    """Return a mapping of column to value."""
    columns, values = entries
    return dict(zip(columns.tolist(), values.tolist(), strict=True))
