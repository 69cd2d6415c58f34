"""Values of pandas Series among the arguments of edit methods, by the labels of their index.

A Series is recognised by its methods, so that pandas is not needed. Objects without an index, such as arrays,
lists and Series of polars, are read by position.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from copter.errors import EditError
from copter.program.forms import KEEP
from copter.program.handles import SharedColumns
from copter.program.validation import whole_numbers

_NO_SERIES = {type(None), bool, float, int, str, list, np.ndarray, type(KEEP), SharedColumns}
"""Frequent types of arguments that neither are nor contain a Series."""
_BY_POSITION = "; give its to_numpy() to read it by position"


class SeriesIds(list[Hashable]):
    """Ids that were given as a Series, with the labels of its index."""

    __slots__ = ("labels",)

    def __init__(self, series: Any) -> None:
        super().__init__(series)
        self.labels = list(series.index)


@functools.cache
def _has_index(kind: Hashable) -> bool:
    return hasattr(kind, "reindex") and hasattr(kind, "index")


def is_series(given: Any) -> bool:
    """Return whether an argument is a pandas Series, or an object with the same methods."""
    return _has_index(type(given)) and given.ndim == 1  # type: ignore[arg-type]  # classes are hashable


def plain(ids: Sequence[Hashable]) -> Sequence[Hashable]:
    """Return ids without the index of the Series in which they were given."""
    return list(ids) if isinstance(ids, SeriesIds) else ids


def by_id(label: Hashable, field: str, given: Any, ids: Sequence[Hashable]) -> Any:
    """Return the values of a Series in the order of ids; return any other object as it is.

    A Series is read by position if its index is 0, 1, 2, ..., or equals the index of the Series in which the
    ids were given. Raise EditError if the index has other labels than the ids, or if it is 0, 1, 2, ... and
    these numbers may also mean the ids in another order.
    """
    if not is_series(given):
        return given
    labels = list(given.index)
    unlabelled = labels == list(range(len(labels)))
    if labels == list(ids) or (isinstance(ids, SeriesIds) and labels == ids.labels):
        return _values(given)
    place = dict(zip(labels, range(len(labels)), strict=True))
    known = len(place) == len(labels) == len(ids) and all(id in place for id in ids)
    if known != unlabelled:
        return _values(given.iloc[[place[id] for id in ids]] if known else given)
    why = "its index must have exactly the ids, each once, or be 0, 1, 2, ..."
    if unlabelled:
        why = "its index 0, 1, 2, ... may mean positions or the ids, which have another order"
    raise EditError(label, field, labels[:3], why + _BY_POSITION)


def runs_by_id(label: Hashable, field: str, given: Any, ids: Sequence[Hashable], sizes: Any) -> Any:
    """Return the flat values of a Series, ``sizes`` values for each id; return any other object as it is."""
    if not is_series(given):
        return given
    labels = list(given.index)
    each = whole_numbers(label, "sizes", sizes, len(ids)).tolist()
    if set(each) == {1}:
        return by_id(label, field, given, ids)
    wanted = [id for id, size in zip(ids, each, strict=True) for _ in range(size)]
    if labels in (wanted, list(range(len(labels)))):
        return _values(given)
    why = "its index must be the id of each value, in their order, or 0, 1, 2, ..."
    raise EditError(label, field, labels[:3], why + _BY_POSITION)


def all_by_id(label: Hashable, ids: Sequence[Hashable], given: dict[str, Any]) -> dict[str, Any]:
    """Apply :func:`by_id` to the arguments of an edit method, except costs and upper bounds of columns.

    An argument may also be a mapping of names to values for each id, or flat: (counts, columns, values).
    """
    if _NO_SERIES.issuperset(map(type, given.values())):
        return given
    return {
        field: own if field in ("costs", "upper") else _by_id(label, field, own, ids)
        for field, own in given.items()
    }


def _by_id(label: Hashable, field: str, given: Any, ids: Sequence[Hashable]) -> Any:
    if isinstance(given, Mapping):
        return {name: by_id(label, f"{field}[{name!r}]", own, ids) for name, own in given.items()}
    if isinstance(given, tuple) and len(given) == 3 and any(map(is_series, given)):
        counts = by_id(label, field, given[0], ids)
        return counts, *(runs_by_id(label, field, own, ids, counts) for own in given[1:])
    return by_id(label, field, given, ids)


def by_name(id: Hashable, field: str, given: Any, names: Sequence[Hashable] | None) -> Any:
    """Return values of the columns of one request, also in a mapping of resources, in the order of the names.

    Without names, the values of a Series are read by position.
    """
    if names is None:
        return given
    if isinstance(given, Mapping) and any(map(is_series, given.values())):
        return {row: by_id(id, f"{field}[{row!r}]", own, names) for row, own in given.items()}
    return by_id(id, field, given, names)


def _values(series: Any) -> Any:
    values = np.asarray(series)
    return values if values.dtype.kind in "biufc" else values.tolist()
