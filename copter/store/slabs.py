"""Growable arrays: arrays that are allocated in slices of any length, and tables of slots with named fields.

A list is a slice of a flat array: a start and a length. A freed slice goes to the free list of its exact
length. If more of an array is free than used, the slices in use are compacted. Allocating and freeing
therefore take time proportional to the length of the slices (amortised). Kernels read these arrays directly.
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
"""Up to this number, slices are allocated one at a time."""
_KINDS = {"i8": "whole", "f8": "real", "i1": "small", "b1": "small"}
"""Block of a table that has the fields of a dtype; truth values are in the block of small integers."""


class GrowableArrays:
    """Parallel growable arrays, allocated in slices of any length; `dtypes` names them as attributes."""

    def __init__(self, **dtypes: Any) -> None:
        self.names = tuple(dtypes)
        self.used = 0
        self.garbage = 0
        self._free: dict[int, list[int]] = {}
        for name, dtype in dtypes.items():
            setattr(self, name, np.empty(_FIRST, dtype))

    def __getattr__(self, name: str) -> Any:  # for type checkers, because arrays are set by name
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
        """Allocate a slice of ``length`` entries with arbitrary contents, and return its start."""
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
        """Reserve memory for `more` entries and 1/8 extra, so that adding them in pieces copies nothing.

        The operating system provides the memory when the entries are written.
        """
        need = self.used + more
        for name in self.names:
            array = getattr(self, name)
            if need > array.size:
                setattr(self, name, _grown(array, self.used, need + need // 8))

    def allocate_all(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Allocate many slices, freed slices of the same length first, and return their starts."""
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
        """Allocate and fill slices, and return their starts.

        `values` has the contents of every parallel array, slice after slice.
        """
        starts = self.allocate_all(lengths)
        for name, flat in values.items():
            fill_slices(getattr(self, name), starts, lengths, contiguous(flat))
        return starts

    def free(self, start: int, length: int) -> None:
        """Free a slice."""
        if length:
            self._free.setdefault(length, []).append(start)
            self.garbage += length

    def free_all(self, starts: Iterable[int], lengths: Iterable[int]) -> None:
        """Free many slices."""
        free, starts, lengths = self._free, list(starts), list(lengths)
        if len(starts) == len(lengths) and len(set(lengths)) == 1:
            if lengths[0]:
                free.setdefault(lengths[0], []).extend(starts)
        else:
            for start, length in zip(starts, lengths, strict=True):
                if length in free:
                    free[length].append(start)
                elif length:
                    free[length] = [start]
        self.garbage += sum(lengths)

    def freed(self) -> NDArray[np.int64]:
        """Return lengths and starts of the free slices, shape (k, 2).

        Slices of one length are in the order in which they were freed.
        """
        pairs = [(length, start) for length, starts in self._free.items() for start in starts]
        return np.array(pairs, np.int64).reshape(-1, 2)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the used parts of the parallel arrays, and the free slices, by name."""
        return {name: getattr(self, name)[: self.used] for name in self.names} | {"free": self.freed()}

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the content from what :meth:`arrays` returned; raise ValueError if it is invalid."""
        given = {name: typed(arrays[name], getattr(self, name).dtype) for name in self.names}
        if len({array.size for array in given.values()}) != 1:
            raise ValueError(f"{', '.join(self.names)} must have equal lengths")
        free: dict[int, list[int]] = {}
        freed = arrays["free"].reshape(-1, 2)
        for length, start in freed.tolist():
            free.setdefault(length, []).append(start)
        self.__setstate__({"arrays": given, "garbage": int(freed[:, 0].sum()), "free": free})

    @property
    def wasteful(self) -> bool:
        """True if more entries are free than used, and compaction pays."""
        return self.garbage > _COMPACT_FROM and 2 * self.garbage > self.used

    def compact(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move the given slices in use together, and return their new starts."""
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
    """Table of slots with named scalar fields, one growable array for each field; freed slots are used again.

    Fields are given as ``name=(dtype, value in a free slot)``. Their arrays are attributes, longer than
    ``size``. Each of the blocks `whole` (int64), `real` (float64) and `small` (int8) has the fields of one
    kind as its rows, in the order in which they are given. So a kernel takes a few arrays and not one for
    each field. The last column of a block is not a slot: it has the values of a free slot.
    """

    def __init__(self, **fields: tuple[Any, Any]) -> None:
        self._fields = fields
        self.size = 0
        self._free: list[int] = []
        self._lay_out(_FIRST)

    def __getattr__(self, name: str) -> Any:  # for type checkers, because arrays are set by name
        raise AttributeError(name)

    def __getstate__(self) -> dict[str, Any]:
        columns = {name: getattr(self, name)[: self.size] for name in self._fields}
        return {"fields": self._fields, "size": self.size, "columns": columns, "free": self._free}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The fields are views of the blocks. If they were copied one by one, kernels would not see them.
        self._fields, self.size, self._free = state["fields"], state["size"], state["free"]
        vars(self).update(state["columns"])
        self._lay_out(max(self.size, _FIRST))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields of the slots, and the free slots, by name."""
        fields = {name: getattr(self, name)[: self.size] for name in self._fields}
        return fields | {"free": np.array(self._free, np.int64)}

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the table from what :meth:`arrays` returned; raise ValueError if it is invalid."""
        columns = {name: typed(arrays[name], dtype) for name, (dtype, _) in self._fields.items()}
        sizes = {column.size for column in columns.values()}
        if len(sizes) != 1:
            raise ValueError(f"{', '.join(columns)} must have equal lengths")
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
        """Allocate ``count`` blank slots, free slots first, and return them."""
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
        """Write the values of a free slot to slots, and add them to the free slots."""
        for block in (self.whole, self.real, self.small):
            block[:, slots] = block[:, -1:]
        self.reuse(slots.tolist())

    def reuse(self, slots: list[int]) -> None:
        """Add blank slots to the free slots."""
        self._free += slots

    def _lay_out(self, room: int) -> None:
        """Make blocks with `room` slots and the blank column, and set the fields to their rows."""
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
        """Set the rows of the blocks as attributes."""
        rows = {kind: iter(getattr(self, kind)) for kind in ("whole", "real", "small")}
        for name, (dtype, _) in self._fields.items():
            setattr(self, name, next(rows[_kind_of(dtype)]).view(dtype))


def _kind_of(dtype: Any) -> str:
    return _KINDS[np.dtype(dtype).str[1:]]


def places(slots: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return an index for writing at ``slots``: a slice if they are one long run."""
    if slots.size < _FIRST:
        return slots
    first, last = int(slots[0]), int(slots[-1])
    if last - first != slots.size - 1 or not (slots[1:] > slots[:-1]).all():
        return slots
    return slice(first, last + 1)


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a copy, that is contiguous and writable, so that kernels compile only once."""
    return array if array.flags.carray else array.copy()


def one_each(value: NDArray[np.float64] | float, count: int) -> NDArray[np.float64]:
    """Return an array of `count` numbers: the given array, or one number repeated."""
    return contiguous(value) if isinstance(value, np.ndarray) else np.full(count, value)


def typed(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a flat array; raise ValueError if it has another type or more dimensions."""
    if array.dtype != dtype or array.ndim != 1:
        found = f"an array of {array.dtype} with {array.ndim} dimensions"
        raise ValueError(f"{found}: must be of {dtype} with 1 dimension")
    return array


def named(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a part with the name of the part as a prefix of their names."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def under(arrays: Mapping[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a part by their names without the prefix; the inverse of :func:`named`."""
    head = f"{name}."
    return {key.removeprefix(head): array for key, array in arrays.items() if key.startswith(head)}


def slice_indices(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the flat indices of the slices ``[start, start + length)``, one after the other."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total, dtype=np.int64) + (starts - ends + lengths).repeat(lengths)


def every_column(
    slots: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return slots and numbers of all columns of requests, which have `sizes` columns each."""
    return slots.repeat(sizes), slice_indices(np.zeros_like(sizes), sizes)


def _grown(array: NDArray[Any], used: int, need: int) -> NDArray[Any]:
    """Return a copy of ``array`` with space for ``need`` entries; entries past ``used`` are not written."""
    bigger = np.empty(max(need, array.size + array.size // 2, _FIRST), array.dtype)
    bigger[:used] = array[:used]
    return bigger
