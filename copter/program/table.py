"""Requests from a long table with one row for each pair of a request's column and a resource that it uses.

The table has the columns ``request``, ``column``, ``resource``, ``use`` and ``cost``. Requests are in the
order of their first rows. The columns of a request are in the order of their first rows, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import count
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.program.validation import FINITE_COST, LARGEST_COST

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from copter.program.index import Index

_NAMES = ("request", "column", "resource", "use", "cost")
_NUMBERS = {float, int, np.float64, np.int64}
_NOTHING, _UNKNOWN = -1, -2
"""Codes instead of a position: the entry says that the column uses no resource, or the id is unknown."""


@dataclass(frozen=True, eq=False)
class LongTable:
    """Requests in the flat form that bulk edit methods take.

    Attributes
    ----------
    ids : list of k
    sizes : (k,) ndarray
        Number of columns of each request.
    columns : list of k tuples or None
        Names of the columns of each request. None if the columns are numbered from 0.
    costs : (sum(sizes),) ndarray
        Costs of all columns, request after request.
    usage : csc_array, shape (number of resources, sum(sizes))
    """

    ids: list[Hashable]
    sizes: NDArray[np.int64]
    columns: list[tuple[Hashable, ...] | None]
    costs: NDArray[np.float64]
    usage: csc_array


def read_table(label: str, table: Any, resources: Index) -> LongTable:
    """Return the requests of a long table.

    Errors that do not concern a single request name `label`, the edit method. Raise EditError, with the
    request, its column and the value, if the table is invalid.
    """
    from scipy.sparse import coo_array

    series = _series(label, table)
    requests, ids = _numbered(label, "request", series["request"])
    given, names = _numbered(label, "column", series["column"])
    for name, found, numbers in (("request", ids, requests), ("column", names, given)):
        missing = np.array([_is_missing(each) for each in found], np.bool_)[numbers]
        if missing.any():
            row = int(missing.argmax())
            why = f"must be an id; row {row} of the table has none"
            raise EditError(label, name, found[numbers[row]], why)
    first, pair = _distinct(requests * len(names) + given)
    order = np.argsort(requests[first], kind="stable")  # within a request, by the first row
    first, place = first[order], np.empty_like(order)
    place[order] = np.arange(order.size)
    column = place[pair]  # of each row, among the columns of all requests
    columns = np.fromiter(names, np.object_, len(names))[given[first]]

    def insist(holds: NDArray[np.bool_], wrong: Callable[[int], tuple[str, Any, str]]) -> None:
        """Raise EditError unless a condition holds for all rows; `wrong` has field, value and reason."""
        if not holds.all():
            row = int(holds.argmin())
            field, value, why = wrong(row)
            raise EditError(ids[requests[row]], f"{field} of column {columns[column[row]]!r}", value, why)

    cost, use = (_floats(label, each, series[each]) for each in ("cost", "use"))
    costs = cost[first]
    insist(abs(cost) <= LARGEST_COST, lambda row: ("cost", float(cost[row]), FINITE_COST))
    equal = "must be equal in all rows of a column; another row has"
    insist(
        cost == costs[column],
        lambda row: ("cost", float(cost[row]), f"{equal} {float(costs[column[row]])!r}"),
    )
    which, used = _numbered(label, "resource", series["resource"])
    position = dict(zip(resources.ids, range(len(resources)), strict=True))
    codes = [position.get(id, _NOTHING if _is_nothing(id) else _UNKNOWN) for id in used]
    known, resource = np.array(codes, np.int64)[which], [used[k] for k in which.tolist()]
    insist(known != _UNKNOWN, lambda row: ("resource", resource[row], resources.missing(resource[row])))
    nothing = known == _NOTHING
    several = "must be a resource, because the column has other rows"
    insist(~nothing | (np.bincount(column)[column] == 1), lambda row: ("resource", resource[row], several))
    none = "must be 0 or missing, because the row has no resource"
    insist(~nothing | (use == 0.0) | np.isnan(use), lambda row: ("use", float(use[row]), none))
    insist(
        nothing | (abs(use) <= LARGEST_COST),
        lambda row: (f"use of resource {resource[row]!r}", float(use[row]), FINITE_COST),
    )
    uses = np.flatnonzero(~nothing)
    again = np.zeros(use.size, np.bool_)
    again[uses] = True
    again[uses[_distinct(known[uses] * order.size + column[uses])[0]]] = False
    insist(~again, lambda row: ("resource", resource[row], "must be in one row of the column only"))
    usage = coo_array((use[uses], (known[uses], column[uses])), shape=(len(resources), order.size)).tocsc()
    sizes = np.bincount(requests[first])
    return LongTable(ids, sizes, _each(columns.tolist(), sizes), costs, usage)


def _each(names: list[Hashable], sizes: NDArray[np.int64]) -> list[tuple[Hashable, ...] | None]:
    """Return the names of the columns of each request; equal names are the same tuple object."""
    known: dict[tuple[Hashable, ...], tuple[Hashable, ...] | None] = {
        tuple(range(n)): None for n in np.unique(sizes).tolist()
    }
    ends = np.cumsum(sizes).tolist()
    each = (tuple(names[begin:end]) for begin, end in zip([0, *ends], ends, strict=False))
    return [known.setdefault(one, one) for one in each]


def _series(label: str, table: Any) -> dict[str, Any]:
    """Return the columns of a table, all of one length, as lists or arrays of one dimension."""
    found = {name: _one_series(label, table, name) for name in _NAMES}
    n = len(found["request"])
    for name, values in found.items():
        if len(values) != n:
            raise EditError(label, name, len(values), f"must have as many rows as request, which has {n}")
    if not n:
        raise EditError(label, "table", n, "must have at least one row")
    return found


def _one_series(label: str, table: Any, name: str) -> list[Any] | NDArray[Any]:
    if not hasattr(table, "__getitem__"):
        why = "must be a mapping of arrays, a structured array or a data frame"
        raise EditError(label, "table", type(table).__name__, why)
    try:
        values = table[name]
    except Exception as wrong:  # structured arrays and data frames raise different errors
        there = list(table) if isinstance(table, Mapping) else getattr(table, "columns", ())
        why = f"the table must have this column; it has {[str(each) for each in there]}" if len(there) else ""
        raise EditError(label, "table", name, why or "the table must have this column") from wrong
    if isinstance(values, list):
        return values
    if isinstance(values, tuple):
        return list(values)
    array = np.asarray(values)
    if array.ndim != 1:
        raise EditError(label, name, array.shape, "must be a list or an array of one dimension")
    return array


def _numbered(label: str, name: str, values: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the number of each value among the distinct values, and the distinct values.

    Distinct values are in the order of their first occurrences.
    """
    numbers: defaultdict[Any, int] = defaultdict(count().__next__)
    listed = _listed(values)
    try:
        return np.fromiter(map(numbers.__getitem__, listed), np.int64, len(listed)), list(numbers)
    except TypeError:
        wrong = next(each for each in listed if not isinstance(each, Hashable))
        raise EditError(label, name, wrong, "must be hashable") from None


def _distinct(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first rows of the distinct values, ascending, and for each entry the place of its value."""
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return first[order], place[number]


def _listed(values: list[Any] | NDArray[Any]) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values


def _floats(label: str, name: str, values: list[Any] | NDArray[Any]) -> NDArray[np.float64]:
    """Return values as floats, with NaN for None and other missing values."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return values.astype(np.float64)
    listed = _listed(values)
    kinds = set(map(type, listed))
    if not kinds <= _NUMBERS:
        listed = [math.nan if _is_nothing(each) else each for each in listed]
        wrong = [each for each in listed if not isinstance(each, Real) or isinstance(each, bool)]
        if wrong:
            raise EditError(label, name, wrong[0], "must be a number")
    return np.fromiter(listed, np.float64, len(listed))


def _is_nothing(resource: Any) -> bool:
    """Return whether an entry is an empty text or missing: the column uses no resource."""
    return _is_missing(resource) or resource == ""


def _is_missing(entry: Any) -> bool:
    """Return whether an entry is None, NaN, or the missing value of another library."""
    try:
        return entry is None or bool(entry != entry)
    except TypeError:  # pandas.NA
        return True
