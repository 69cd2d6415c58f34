"""Growable slabs of memory: pools of slices of any length, and tables of slots with named fields.

A list is a slice of a flat pool: a start and a length.  Freed slices go to a free list of their exact
size; when more of a pool is free than is used, the live slices are moved together.  So adding and freeing
costs time in proportion to what is added (amortised), and kernels read the very arrays that were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.store.kernels import fill_slices

_FIRST = 64
_COMPACT_FROM = 4096
_FEW = 256
"""Up to here slices are allocated one at a time."""
_KINDS = {"i8": "whole", "f8": "real", "i1": "small", "b1": "small"}
"""The block of a table that holds fields of a dtype; truth values lie among the small integers."""


class GrowableArrays:
    """Parallel growable arrays, allocated in slices of any length; `dtypes` names them as attributes."""

    def __init__(self, **dtypes: Any) -> None:
        self.names = tuple(dtypes)
        self.used = 0
        self.garbage = 0
        self._free: dict[int, list[int]] = {}
        for name, dtype in dtypes.items():
            setattr(self, name, np.empty(_FIRST, dtype))

    def __getattr__(self, name: str) -> Any:  # for type checkers: the arrays are set by name
        raise AttributeError(name)

    def __getstate__(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name)[: self.used] for name in self.names}
        return {"arrays": arrays, "garbage": self.garbage, "free": self._free}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.names, self.used = tuple(state["arrays"]), 0
        self.garbage, self._free = state["garbage"], state["free"]
        for name, array in state["arrays"].items():
            setattr(self, name, contiguous(array))
            self.used = array.size

    def allocate(self, length: int) -> int:
        """Start of a slice of ``length`` entries (contents arbitrary)."""
        if length == 0:
            return 0
        if length in self._free and (starts := self._free[length]):
            self.garbage -= length
            return starts.pop()
        start = self.used
        need = start + length
        for name in self.names:
            array = getattr(self, name)
            if need > array.size:
                setattr(self, name, _grown(array, start, need))
        self.used = need
        return start

    def reserve(self, more: int) -> None:
        """Reserve room for `more` entries and some extra, so that adding them piece by piece copies nothing.

        Memory past the entries in use is not touched until they are written.
        """
        need = self.used + more
        for name in self.names:
            array = getattr(self, name)
            if need > array.size:
                setattr(self, name, _grown(array, self.used, need + need // 8))

    def allocate_all(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Starts of many slices, freed ones of the same length first."""
        if lengths.size <= _FEW:
            return np.array([self.allocate(length) for length in lengths.tolist()], np.int64)
        starts = np.empty(lengths.size, np.int64)
        fresh = np.ones(lengths.size, np.bool_)
        if self.garbage:
            order = np.argsort(lengths, kind="stable")
            each, first = np.unique(lengths[order], return_index=True)
            for length, same in zip(each.tolist(), np.split(order, first[1:]), strict=True):
                if free := self._free.get(length):
                    again = same[: len(free)]
                    starts[again], fresh[again] = free[: -again.size - 1 : -1], False
                    del free[-again.size :]
                    self.garbage -= length * again.size
        rest = lengths[fresh]
        ends = rest.cumsum()
        if rest.size:
            starts[fresh] = self.allocate(int(ends[-1])) + ends - rest
        return starts

    def put(self, lengths: NDArray[np.int64], **values: NDArray[Any]) -> NDArray[np.int64]:
        """Allocate slices of some lengths, freed ones of the same length first, fill them, and return their
        starts.

        `values`: contents of every parallel array, slice after slice.
        """
        starts = self.allocate_all(lengths)
        for name, flat in values.items():
            fill_slices(getattr(self, name), starts, lengths, contiguous(flat))
        return starts

    def free(self, start: int, length: int) -> None:
        """Give a slice back."""
        if length:
            self._free.setdefault(length, []).append(start)
            self.garbage += length

    def free_all(self, starts: Iterable[int], lengths: Iterable[int]) -> None:
        """Give many slices back."""
        free = self._free
        for start, length in zip(starts, lengths, strict=True):
            if length in free:
                free[length].append(start)
            elif length:
                free[length] = [start]
        self.garbage += sum(lengths)

    def freed(self) -> NDArray[np.int64]:
        """Lengths and starts of free slices, shape (k, 2); of one length in the order of their freeing."""
        pairs = [(length, start) for length, starts in self._free.items() for start in starts]
        return np.array(pairs, np.int64).reshape(-1, 2)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the parallel arrays as far as they are used, and the free slices, by name."""
        return {name: getattr(self, name)[: self.used] for name in self.names} | {"free": self.freed()}

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become the pool that :meth:`arrays` was asked of; a ValueError if they cannot be of one pool."""
        given = {name: typed(arrays[name], getattr(self, name).dtype) for name in self.names}
        if len({array.size for array in given.values()}) != 1:
            raise ValueError(f"lengths of {', '.join(self.names)}")
        free: dict[int, list[int]] = {}
        freed = arrays["free"].reshape(-1, 2)
        for length, start in freed.tolist():
            free.setdefault(length, []).append(start)
        self.__setstate__({"arrays": given, "garbage": int(freed[:, 0].sum()), "free": free})

    @property
    def wasteful(self) -> bool:
        """More of the pool is free than is used."""
        return self.garbage > _COMPACT_FROM and 2 * self.garbage > self.used

    def compact(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move the given live slices together; returns their new starts."""
        order = np.argsort(starts, kind="stable")
        order = order[lengths[order] > 0]
        begin, size = starts[order], lengths[order]
        end = begin + size
        runs = np.empty(2 * order.size, np.int64)  # free, live, free, live, ...
        runs[0::2], runs[1::2] = begin - np.concatenate(([0], end[:-1])), size
        live = np.repeat(np.arange(runs.size) % 2 == 1, runs)
        moved = np.zeros_like(starts)
        moved[order] = np.cumsum(size) - size
        for name in self.names:
            setattr(self, name, getattr(self, name)[: live.size][live])
        self.used, self.garbage, self._free = int(size.sum()), 0, {}
        return moved


class SlotTable:
    """Slots with named scalar fields, one growable array a field; freed slots are used again.

    `fields` are ``name=(dtype, value in a free slot)``; the arrays become attributes (longer than ``size``).
    The fields of a kind are the rows, in the order of their names, of one of the blocks `whole` (int64),
    `real` (float64), `small` (int8), so that a kernel takes a few arrays and not one for each field. The last
    column of a block is no slot: it stays blank.
    """

    def __init__(self, **fields: tuple[Any, Any]) -> None:
        self._fields = fields
        self.size = 0
        self._free: list[int] = []
        self._lay_out(_FIRST)

    def __getattr__(self, name: str) -> Any:  # for type checkers: the arrays are set by name
        raise AttributeError(name)

    def __getstate__(self) -> dict[str, Any]:
        columns = {name: getattr(self, name)[: self.size] for name in self._fields}
        return {"fields": self._fields, "size": self.size, "columns": columns, "free": self._free}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The fields are views of the blocks: copied one by one they would be arrays that kernels never see.
        self._fields, self.size, self._free = state["fields"], state["size"], state["free"]
        vars(self).update(state["columns"])
        self._lay_out(max(self.size, _FIRST))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields of the slots, and the free slots, by name."""
        fields = {name: getattr(self, name)[: self.size] for name in self._fields}
        return fields | {"free": np.array(self._free, np.int64)}

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become the table that :meth:`arrays` was asked of; a ValueError if they cannot be of one table."""
        columns = {name: typed(arrays[name], dtype) for name, (dtype, _) in self._fields.items()}
        sizes = {column.size for column in columns.values()}
        if len(sizes) != 1:
            raise ValueError(f"lengths of {', '.join(columns)}")
        free = typed(arrays["free"], np.int64).tolist()
        self.__setstate__({"fields": self._fields, "size": sizes.pop(), "columns": columns, "free": free})

    @property
    def in_use(self) -> int:
        """Number of slots that are not free."""
        return self.size - len(self._free)

    def taken(self, slots: NDArray[np.int64]) -> SlotTable:
        """Return a table of copies of some slots, in that order."""
        some, which = SlotTable.__new__(SlotTable), np.append(slots, -1)
        some._fields, some.size, some._free, some._room = self._fields, slots.size, [], slots.size
        for kind in ("whole", "real", "small"):
            setattr(some, kind, getattr(self, kind).take(which, axis=1))
        some._name_rows()
        return some

    def allocate(self, count: int) -> NDArray[np.int64]:
        """``count`` blank slots, free ones first."""
        free = self._free
        if count == 1 and free:
            return np.array([free.pop()])
        reuse = min(count, len(free))
        slots = np.empty(count, np.int64)
        if reuse:
            slots[:reuse] = free[-reuse:]
            del free[-reuse:]
        need = self.size + count - reuse
        if need > self._room:
            self._lay_out(max(need, self._room + self._room // 2))
        slots[reuse:] = np.arange(self.size, need)
        self.size = need
        return slots

    def free(self, slots: NDArray[np.int64]) -> None:
        """Blank slots and keep them for later use."""
        for block in (self.whole, self.real, self.small):
            block[:, slots] = block[:, -1:]
        self.reuse(slots.tolist())

    def reuse(self, slots: list[int]) -> None:
        """Keep slots that are blank for later use."""
        self._free += slots

    def _lay_out(self, room: int) -> None:
        """Make blocks with room for so many slots and the blank column, and the fields as their rows."""
        before = {name: getattr(self, name)[: self.size] for name in self._fields} if self.size else {}
        kinds = [_kind_of(dtype) for dtype, _ in self._fields.values()]
        for kind, dtype in (("whole", np.int64), ("real", np.float64), ("small", np.int8)):
            setattr(self, kind, np.empty((kinds.count(kind), room + 1), dtype))
        self._room = room
        self._name_rows()
        for name, (_, blank) in self._fields.items():
            array = getattr(self, name)
            array[self.size :] = blank
            if before:
                array[: self.size] = before[name]

    def _name_rows(self) -> None:
        """Make the rows of the blocks attributes."""
        rows = {kind: iter(getattr(self, kind)) for kind in ("whole", "real", "small")}
        for name, (dtype, _) in self._fields.items():
            setattr(self, name, next(rows[_kind_of(dtype)]).view(dtype))


def _kind_of(dtype: Any) -> str:
    return _KINDS[np.dtype(dtype).str[1:]]


def places(slots: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return the index to write at ``slots``: a slice where they are one long run."""
    if slots.size < _FIRST:
        return slots
    first, last = int(slots[0]), int(slots[-1])
    if last - first != slots.size - 1 or not (slots[1:] > slots[:-1]).all():
        return slots
    return slice(first, last + 1)


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or a copy, as kernels take it: contiguous and writable, so that they compile once."""
    return array if array.flags.carray else array.copy()


def one_each(value: NDArray[np.float64] | float, count: int) -> NDArray[np.float64]:
    """Return an array of `count` numbers: the given array, or one number repeated."""
    return contiguous(value) if isinstance(value, np.ndarray) else np.full(count, value)


def typed(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a flat array; a ValueError if it is of another type or shape."""
    if array.dtype != dtype or array.ndim != 1:
        raise ValueError(
            f"an array of {array.dtype} with {array.ndim} dimensions, in place of {dtype} with 1"
        )
    return array


def named(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return arrays of a part, named as those of the part within the whole."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def under(arrays: Mapping[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a part by their names in it: the inverse of :func:`named`."""
    head = f"{name}."
    return {key.removeprefix(head): array for key, array in arrays.items() if key.startswith(head)}


def slice_indices(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Flat indices of the slices ``[start, start + length)``, one after the other."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total, dtype=np.int64) + (starts - ends + lengths).repeat(lengths)


def _grown(array: NDArray[Any], used: int, need: int) -> NDArray[Any]:
    """Copy of ``array`` with room for ``need`` entries; memory past ``used`` stays untouched."""
    bigger = np.empty(max(need, array.size + array.size // 2, _FIRST), array.dtype)
    bigger[:used] = array[:used]
    return bigger
