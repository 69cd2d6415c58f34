"""Index of ids: the store slot of each request or resource."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.errors import ArgumentTypeError, EditError, UnknownIdError
from copter.program.series import SeriesIds, is_series, plain

Ids: TypeAlias = Hashable | Iterable[Hashable]
"""One id, or several."""
_REMEMBERED = (list, tuple, range)
"""Types of batches of ids that are remembered."""
_MANY = 1024
"""Batches of at least this number of ids are remembered, because the next round often has the same ids."""


class Index:
    """Slots by id, in the order in which the ids were added; messages use `kind`, "request" or "resource"."""

    def __init__(self, kind: str) -> None:
        self._begin(kind, {})

    def _begin(self, kind: str, slots: dict[Hashable, int]) -> None:
        self.kind = kind
        self._slots = slots
        self._all: NDArray[np.int64] | None = None
        self._frozen: Mapping[Hashable, int] | None = None
        self._asked: Sequence[Hashable] = ()
        self._answer = np.empty(0, np.int64)

    def __getstate__(self) -> tuple[str, dict[Hashable, int]]:
        return self.kind, self._slots  # the other attributes are caches

    def __setstate__(self, state: tuple[str, dict[Hashable, int]]) -> None:
        self._begin(*state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        fresh = Index(self.kind)
        fresh._slots = self._slots.copy()  # the ids are not copied: a copy may have another hash
        return fresh

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id: Hashable) -> bool:
        try:
            return id in self._slots
        except TypeError:
            raise _no_id(id) from None

    @property
    def ids(self) -> list[Hashable]:
        """All ids."""
        return list(self._slots)

    @property
    def all_slots(self) -> NDArray[np.int64]:
        """Slots of all ids, read-only; the same array until ids come or go."""
        if self._all is None:
            self._all = _read_only(np.fromiter(self._slots.values(), np.int64, len(self._slots)))
        return self._all

    @property
    def frozen(self) -> Mapping[Hashable, int]:
        """Slots by id as they are now; later edits do not change this mapping."""
        if self._frozen is None:
            self._frozen = self._slots.copy()
        return self._frozen

    def slot(self, id: Hashable) -> int:
        """Return the slot of an id; raise UnknownIdError if the id is unknown."""
        try:
            return self._slots[id]
        except KeyError:
            raise self._unknown(id) from None
        except TypeError:
            raise _no_id(id) from None

    def listed(self, ids: Ids) -> Sequence[Hashable]:
        """Return ids as a sequence; a known id, which may be a tuple, becomes a sequence of one."""
        if self.is_one(ids):
            one: Any = ids
            return (one,)
        return listed(ids)

    def is_one(self, ids: Ids) -> bool:
        """Return whether an argument is a single id."""
        if isinstance(ids, (str, bytes)):
            return True
        # The hash of a long tuple takes long to compute, and a long tuple is not an id in practice.
        if not isinstance(ids, tuple | frozenset) or len(ids) >= _MANY:
            return not isinstance(ids, Iterable)
        try:
            return ids in self._slots
        except TypeError:
            return False

    def chosen(self, ids: Any, label: Hashable) -> int | tuple[Sequence[Hashable], NDArray[np.int64]]:
        """Return the slot of one id; for several ids or ``[:]``, return a list of the ids and their slots."""
        if isinstance(ids, slice):
            if ids != slice(None):
                why = "must be an id, a sequence of ids, or [:] for all; slices by position are not supported"
                raise EditError(label, "ids", ids, why)
            return self.ids, self.all_slots
        if self.is_one(ids):
            return self.slot(ids)
        names = list(listed(ids))
        return names, self.slots(names, label)

    def slots(self, ids: Sequence[Hashable], label: Hashable) -> NDArray[np.int64]:
        """Return the slots of distinct ids, read only; ``label`` is the calling edit method.

        The slots of many ids in a list, tuple or range are remembered, so that the same ids cost only a
        comparison. Raise EditError if an id is unknown (:class:`copter.errors.UnknownIdError`) or given
        twice.
        """
        ids = plain(ids)
        if type(ids) is type(self._asked) and len(ids) >= _MANY and ids == self._asked:
            return self._answer
        try:
            found = np.fromiter(map(self._slots.__getitem__, ids), np.int64, len(ids))
        except KeyError as unknown:
            raise self._unknown(unknown.args[0]) from None
        except TypeError:
            raise _no_id(*ids) from None
        if len(ids) > 1 and not _distinct(found):
            raise EditError(label, "ids", _first_duplicate(ids), "is given twice")
        if len(ids) >= _MANY and isinstance(ids, _REMEMBERED):
            self._asked = ids.copy() if isinstance(ids, list) else ids
            self._answer = found
        return found

    @staticmethod
    def distinct(ids: Iterable[Hashable]) -> list[Hashable]:
        """Return each id once, in the order of the first occurrences."""
        try:
            return list(dict.fromkeys(ids))
        except TypeError:
            raise _no_id(*ids) from None

    def check_new(self, ids: Collection[Hashable], label: Hashable) -> None:
        """Raise EditError with the id if an id exists or is given twice; `label` is the edit method."""
        try:
            known = not self._slots.keys().isdisjoint(ids)
        except TypeError:
            raise _no_id(*ids) from None
        if float in set(map(type, ids)) and any(id != id for id in ids):
            raise EditError(label, "id", math.nan, "must not be NaN, because NaN does not equal itself")
        if known:
            taken = next(id for id in ids if id in self._slots)
            raise EditError(taken, "id", taken, f"a {self.kind} with this id exists already")
        if len(ids) > 1 and len(set(ids)) < len(ids):
            raise EditError(label, "ids", _first_duplicate(ids), "is given twice")

    def add(self, ids: Sequence[Hashable], slots: Sequence[int]) -> None:
        """Add new ids with their slots."""
        if len(ids) == 1:
            self._slots[ids[0]] = slots[0]
        else:
            self._slots.update(zip(ids, slots, strict=True))
        self._all = self._frozen = None

    def remove(self, ids: Sequence[Hashable]) -> None:
        """Remove known ids."""
        for id in ids:
            del self._slots[id]
        self._all = self._frozen = None
        self._asked = ()

    def missing(self, id: Hashable) -> str:
        """Return a text about an unknown id, with the most similar of the first 1,024 ids."""
        names = [known for known in islice(self._slots, _MANY) if isinstance(known, str)]
        near = get_close_matches(id, names, n=1) if isinstance(id, str) else []
        return f"there is no {self.kind} with this id" + (f"; did you mean {near[0]!r}?" if near else "")

    def _unknown(self, id: Hashable) -> UnknownIdError:
        return UnknownIdError(id, self.missing(id))


def _no_id(*ids: Any) -> ArgumentTypeError:
    """Return the error about the first id that is not hashable."""
    why = "must be hashable to be an id, for example text, a number or a tuple of these"
    for id in ids:
        try:
            hash(id)
        except TypeError:
            break
    return ArgumentTypeError(id, "id", id, why)


def listed(ids: Ids) -> Sequence[Hashable]:
    """Return new ids as a sequence; a single id, a text or bytes become a sequence of one.

    Raise ArgumentTypeError for a mapping.
    """
    if isinstance(ids, _REMEMBERED):
        return ids
    if isinstance(ids, Mapping):
        why = "must be an id or a sequence of ids, and not a mapping; give its keys here"
        raise ArgumentTypeError("ids", "type", type(ids).__name__, why)
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        return [ids]
    return SeriesIds(ids) if is_series(ids) else list(ids)


def _distinct(slots: NDArray[np.int64]) -> bool:
    if slots.size < _MANY:  # bincount below needs an array as long as the largest slot
        return slots.size < 2 or len(set(slots.tolist())) == slots.size
    return bool(np.bincount(slots).max() == 1)


def _first_duplicate(ids: Collection[Hashable]) -> Hashable:
    return next(id for id, times in Counter(ids).items() if times > 1)


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.setflags(write=False)
    return array
