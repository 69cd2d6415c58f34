"""Names of the columns of requests, in a program and in its solutions.

Columns without names are numbered from 0. A program has one :class:`NameTable`. A solution keeps the names as
they were when it was returned, in a :class:`FrozenNames`. The table and the newest FrozenNames share a list,
until an edit changes a name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.store.edit import ColumnNames

_EQUAL_THEMSELVES = {str, int, bytes, bool}
Names: TypeAlias = tuple[Hashable, ...] | None
"""Names of the columns of one request; None if they have numbers."""


class FrozenNames:
    """Names of columns as they were at one time, by request slot."""

    def __init__(self, now: list[Names]) -> None:
        self._now = now

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenNames:
        return self  # a copy of a name need not be equal to the name

    def of(self, slot: int) -> Names:
        """Return the names of the columns of the request in a slot."""
        return self._now[slot] if slot < len(self._now) else None

    def column(self, slot: int, column: int) -> Any:
        """Return the name of a column of a request, or its number; None for a negative number."""
        if column < 0:
            return None
        names = self.of(slot)
        return column if names is None else names[column]


class NameTable:
    """Names of the columns of a program's requests, by slot."""

    def __init__(self, names: Iterable[Names] = ()) -> None:
        self._of = list(names)
        self._frozen: FrozenNames | None = None

    def __reduce__(self) -> tuple[type[NameTable], tuple[list[Names]]]:
        return NameTable, (self._of,)

    def __deepcopy__(self, memo: dict[int, Any]) -> NameTable:
        return NameTable(self._of)  # a copy of a name need not be equal to the name

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def frozen(self) -> FrozenNames:
        """The names as they are now; later edits do not change them."""
        if self._frozen is None:
            self._frozen = FrozenNames(self._of)
        return self._frozen

    def of(self, slot: int) -> Names:
        """Return the names of the columns of the request in a slot."""
        return self._of[slot] if slot < len(self._of) else None

    def of_many(self, slots: NDArray[np.int64]) -> list[Names] | None:
        """Return the names of the columns of many requests; None if all have numbers."""
        if not self._of:
            return None
        each = [self.of(slot) for slot in slots.tolist()]
        return each if any(names is not None for names in each) else None

    def put(self, slots: NDArray[np.int64], labels: ColumnNames | None) -> None:
        """Set the names of the columns of requests; without labels the columns are numbered."""
        if labels is None and not self._of:
            return
        if self._frozen is not None:
            self._of, self._frozen = self._of.copy(), None
        more = int(slots.max(initial=-1)) + 1 - len(self._of)
        if labels is not None and more > 0:
            self._of.extend([None] * more)
        given = [None] * slots.size if labels is None else labels.each()
        for slot, names in zip(slots.tolist(), given, strict=True):
            if slot < len(self._of):
                self._of[slot] = names

    def saved(self) -> tuple[NDArray[np.int64], ColumnNames | None]:
        """Return the slots of requests whose columns have names, and the names; None without any."""
        slots = [slot for slot, names in enumerate(self._of) if names is not None]
        return np.array(slots, np.int64), ColumnNames.of([self._of[slot] for slot in slots])


# ---- names that are given -------------------------------------------------------------------------------


def names_of(subject: Hashable, field: str, given: Any, n: int) -> Names:
    """Return the checked names of n columns, or None for numbers; raise EditError with an invalid name."""
    if given is None or (isinstance(given, range) and given == range(n)):
        return None
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise EditError(subject, field, given, "must be a sequence of names, one for each column")
    names = given if type(given) is tuple else tuple(given)
    if len(names) != n:
        raise EditError(subject, field, len(names), f"must have a name for each of {n} columns")
    check_names(subject, field, names)
    return names


def check_names(subject: Hashable, field: str, names: Sequence[Hashable]) -> None:
    """Raise EditError with the name unless all names are hashable and distinct."""
    with suppress(TypeError):
        distinct = set(names)
        if len(distinct) == len(names) and set(map(type, names)) <= _EQUAL_THEMSELVES:
            return
    seen = set()
    for name in names:
        try:
            hash(name)
        except TypeError:
            raise EditError(subject, field, name, "must be hashable, for example text or a number") from None
        if name is None or name != name:
            raise EditError(subject, field, name, "must not be None or NaN")
        if name in seen:
            raise EditError(subject, field, name, "must be distinct: two columns have this name")
        seen.add(name)


def labels_of(
    label: Hashable, ids: Sequence[Hashable], given: Any, widths: NDArray[np.int64]
) -> list[Names] | None:
    """Return the checked names of the columns of many requests, or None if `given` is None.

    `given` has one sequence of names, or None, for each request.
    """
    if given is None:
        return None
    if not isinstance(given, (list, tuple)) or len(given) != len(ids):
        shown = len(given) if isinstance(given, (list, tuple)) else given
        why = f"must have a sequence of names, or None, for each of {len(ids)} requests"
        raise EditError(label, "columns", shown, why)
    keys = list(zip(map(id, given), widths.tolist(), strict=True))
    checked: dict[tuple[int, int], Names] = {}
    for key, id_, names in zip(keys, ids, given, strict=True):
        if key not in checked:
            checked[key] = names_of(id_, "columns", names, key[1])
    return [checked[key] for key in keys]


def sound_labels(labels: Any, widths: Any) -> bool:
    """Return True if labels are None, or valid names for requests of ``widths`` (k,) columns."""
    if labels is None:
        return True
    if not isinstance(labels, ColumnNames) or not isinstance(labels.distinct, tuple):
        return False
    which, distinct = labels
    if not isinstance(which, np.ndarray) or which.dtype != np.int64 or which.shape != widths.shape:
        return False
    if ((which < -1) | (which >= len(distinct))).any():
        return False
    try:
        for names in distinct:
            check_names("names", "columns", names)
    except (EditError, TypeError):
        return False
    sizes = np.array([len(names) for names in distinct], np.int64)
    fits = all(isinstance(names, tuple) for names in distinct)
    return fits and np.array_equal(sizes[which[which >= 0]], widths[which >= 0])


class Numbers:
    """Numbers of columns by their names, with a cache for names that many requests share."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Names, dict[Hashable, int]]] = {}

    def of(self, names: tuple[Hashable, ...]) -> dict[Hashable, int]:
        """Return the number of each name."""
        if id(names) not in self._of:
            self._of[id(names)] = names, dict(zip(names, range(len(names)), strict=True))
        return self._of[id(names)][1]

    def find(self, subject: Hashable, field: str, names: tuple[Hashable, ...], name: Any) -> int:
        """Return the number of a name; raise EditError if no column has it."""
        try:
            return self.of(names)[name]
        except (KeyError, TypeError):
            raise EditError(subject, field, name, "the request has no column of this name") from None


def numbered(field: str, ids: Sequence[Hashable], given: Any, each: Sequence[Names] | None) -> Any:
    """Return the mappings of many requests with column numbers in place of column names."""
    if each is None or not isinstance(given, (list, tuple)) or len(given) != len(ids):
        return given
    numbers = Numbers()
    return [
        {numbers.find(id, field, names, name): value for name, value in own.items()}
        if names is not None and isinstance(own, Mapping)
        else own
        for id, own, names in zip(ids, given, each, strict=True)
    ]


def by_name(entries: Mapping[int, float], names: Names) -> dict[Any, float]:
    """Return values by the names of the columns instead of their numbers."""
    return dict(entries) if names is None else {names[j]: value for j, value in entries.items()}
