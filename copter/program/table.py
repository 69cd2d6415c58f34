"""Requests from a long table with one row for each pair of a request's column and a resource that it uses.

The table has the columns ``request``, ``column``, ``resource``, ``use`` and ``cost``. Requests are in the
order of their first rows. The columns of a request are in the order of their first rows, too.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import count
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.program.validation import LARGEST_COST

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from copter.program.index import Index

_NAMES = ("request", "column", "resource", "use", "cost")
_NUMBERS = {float, int, np.float64, np.int64}
_WIDE = 8
"""Range of whole numbers, as a multiple of their count, up to which a table of all values is used."""
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
    series = _series(label, table)
    requests, ids = _numbered(label, "request", series["request"])
    given, names = _numbered(label, "column", series["column"])
    for name, found, numbers in (("request", ids, requests), ("column", names, given)):
        row = _first(np.array([_is_missing(each) for each in found], np.bool_)[numbers])
        if row is not None:
            raise EditError(
                label, name, found[numbers[row]], f"must be an id; row {row} of the table has none"
            )
    first, pair = _distinct(requests * len(names) + given)
    order = np.argsort(requests[first], kind="stable")  # within a request, by the first row
    first, place = first[order], np.empty_like(order)
    place[order] = np.arange(order.size)
    column = place[pair]  # of each row, among the columns of all requests
    columns = np.fromiter(names, np.object_, len(names))[given[first]]

    def error(row: int, field: str, value: Any, why: str) -> EditError:
        return EditError(ids[requests[row]], f"{field} of column {columns[column[row]]!r}", value, why)

    cost, use = (_floats(label, each, series[each]) for each in ("cost", "use"))
    costs = cost[first]
    row = _first(~(abs(cost) <= LARGEST_COST))
    if row is not None:
        why = f"must be finite, and at most {LARGEST_COST:g} in absolute value"
        raise error(row, "cost", float(cost[row]), why)
    row = _first(cost != costs[column])
    if row is not None:
        why = f"must be equal in all rows of a column; another row has {float(costs[column[row]])!r}"
        raise error(row, "cost", float(cost[row]), why)

    which, used = _numbered(label, "resource", series["resource"])
    position = _Positions(zip(resources.ids, range(len(resources)), strict=True))
    known = _looked_up(label, "resource", used, position)[which]
    row = _first(known == _UNKNOWN)
    if row is not None:
        id = used[which[row]]
        raise error(row, "resource", id, resources.missing(id))
    nothing = known == _NOTHING
    row = _first(nothing & (np.bincount(column)[column] > 1))
    if row is not None:
        raise error(
            row, "resource", used[which[row]], "must be a resource, because the column has other rows"
        )
    row = _first(nothing & (use != 0.0) & ~np.isnan(use))
    if row is not None:
        raise error(row, "use", float(use[row]), "must be 0 or missing, because the row has no resource")
    uses = np.flatnonzero(~nothing)
    row = _first(~(abs(use[uses]) <= LARGEST_COST))
    if row is not None:
        row = int(uses[row])
        why = f"must be finite, and at most {LARGEST_COST:g} in absolute value"
        raise error(row, f"use of resource {used[which[row]]!r}", float(use[row]), why)
    usage = _matrix(known[uses], column[uses], use[uses], (len(resources), order.size))
    if usage.nnz < uses.size:  # entries that were given twice were summed
        cell = known[uses] * order.size + column[uses]
        again = np.ones(uses.size, np.bool_)
        again[_distinct(cell)[0]] = False
        row = int(uses[again.argmax()])
        raise error(row, "resource", used[which[row]], "must be in one row of the column only")
    sizes = np.bincount(requests[first])
    return LongTable(ids, sizes, _each(columns, given[first], sizes), costs, usage)


def _each(
    columns: NDArray[np.object_], numbers: NDArray[np.int64], sizes: NDArray[np.int64]
) -> list[tuple[Hashable, ...] | None]:
    """Return the names of the columns of each request; equal names are the same tuple object.

    `columns`, `numbers`: name of each column, and the number of the name, request after request.
    """
    n = int(sizes[0])
    if (sizes == n).all() and (numbers.reshape(-1, n) == numbers[:n]).all():
        own = tuple(columns[:n].tolist())
        return [None if own == tuple(range(n)) else own] * sizes.size
    names = columns.tolist()
    known: dict[tuple[Hashable, ...], tuple[Hashable, ...] | None] = {
        tuple(range(n)): None for n in np.unique(sizes).tolist()
    }
    ends = np.cumsum(sizes).tolist()
    each = (tuple(names[begin:end]) for begin, end in zip([0, *ends], ends, strict=False))
    return [known.setdefault(one, one) for one in each]


def _series(label: str, table: Any) -> dict[str, Any]:
    """Return the columns of a table, all of one length, as lists or arrays of one dimension."""
    if not hasattr(table, "__getitem__") and hasattr(table, "__dataframe__"):
        table = _interchanged(label, table)
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


def _interchanged(label: str, table: Any) -> Any:
    """Convert an object that has only the data frame interchange protocol to a data frame."""
    try:
        from pyarrow.interchange import from_dataframe
    except ImportError:
        try:
            from pandas.api.interchange import from_dataframe
        except ImportError:
            why = "has only the data frame interchange protocol; install pyarrow or pandas to read it"
            raise EditError(label, "table", type(table).__name__, why) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas warns that the protocol is deprecated
        return from_dataframe(table)


def _numbered(label: str, name: str, values: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the number of each value among the distinct values, and the distinct values.

    Distinct values are in the order of their first occurrences.
    """
    numbers: defaultdict[Any, int] = defaultdict(count().__next__)
    if not isinstance(values, np.ndarray) or values.dtype.kind == "O":
        return _looked_up(label, name, _listed(values), numbers), list(numbers)
    if values.dtype.kind in "iu":
        first, number = _distinct(values)
        return number, values[first].tolist()
    # a run of equal entries becomes one Python object
    begin = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    found = _looked_up(label, name, values[begin].tolist(), numbers)
    return found.repeat(np.diff(begin, append=values.size)), list(numbers)


def _distinct(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each distinct whole number, ascending, and the number of each entry among them.

    Whole numbers within a narrow range need no sorting.
    """
    low, high = int(values.min()), int(values.max())
    if high - low > _WIDE * values.size:
        _, first, number = np.unique(values, return_index=True, return_inverse=True)
        order = np.argsort(first)
    else:
        wide = (
            values if values.dtype.kind == "u" else values.astype(np.int64)
        )  # small integers would overflow
        number = (wide - wide.dtype.type(low)).astype(np.int64)
        rows = np.full(high - low + 1, values.size, np.int64)
        rows[number[::-1]] = np.arange(values.size - 1, -1, -1)  # the last assignment of an entry counts
        order = np.flatnonzero(rows < values.size)
        order = order[np.argsort(rows[order], kind="stable")]
        first = rows
    place = np.empty(first.size, np.int64)
    place[order] = np.arange(order.size)
    return first[order], place[number]


def _looked_up(label: str, name: str, keys: list[Any], numbers: Mapping[Any, int]) -> NDArray[np.int64]:
    """Return the number of each key."""
    try:
        return np.fromiter(map(numbers.__getitem__, keys), np.int64, len(keys))
    except TypeError:
        wrong = next(each for each in keys if not isinstance(each, Hashable))
        raise EditError(label, name, wrong, "must be hashable") from None


def _listed(values: list[Any] | NDArray[Any]) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values


class _Positions(dict[Any, int]):
    """Positions of the resources by id; :data:`_NOTHING` or :data:`_UNKNOWN` for any other entry."""

    def __missing__(self, id: Any) -> int:
        return _NOTHING if _is_nothing(id) else _UNKNOWN


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


def _first(wrong: NDArray[np.bool_]) -> int | None:
    """Return the first position where `wrong` is True, or None."""
    return int(wrong.argmax()) if wrong.any() else None


def _matrix(
    row: NDArray[np.int64], column: NDArray[np.int64], value: NDArray[np.float64], shape: tuple[int, int]
) -> csc_array:
    from scipy.sparse import coo_array

    return coo_array((value, (row, column)), shape=shape).tocsc()
