"""Growable slabs of memory: pools of slices of any length, and tables of slots with named fields.

A list is a slice of a flat pool: a start and a length.  Freed slices go to a free list of their exact
size; when more of a pool is free than is used, the live slices are moved together.  So adding and freeing
costs time in proportion to what is added (amortised), and kernels read the very arrays that were written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FIRST = 64
_COMPACT_FROM = 4096
_FEW = 8
"""Up to here one number at a time is faster than an array of indices."""


class Pool:
    """Parallel flat arrays, handed out in slices of any length.

    Parameters
    ----------
    **dtypes
        Name and dtype of each parallel array; they become attributes.
    """

    def __init__(self, **dtypes: Any) -> None:
        self.names = tuple(dtypes)
        self.used = 0
        self.garbage = 0
        self._free: dict[int, list[int]] = {}
        for name, dtype in dtypes.items():
            setattr(self, name, np.empty(_FIRST, dtype))

    def __getattr__(self, name: str) -> Any:  # for type checkers: the arrays are set by name
        raise AttributeError(name)

    def allocate(self, length: int) -> int:
        """Start of a slice of ``length`` entries (contents arbitrary)."""
        if length == 0:
            return 0
        starts = self._free.get(length)
        if starts:
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

    def put(self, lengths: NDArray[np.int64], **values: NDArray[Any]) -> NDArray[np.int64]:
        """Allocate many slices, freed ones of the same length first, and fill them.

        Parameters
        ----------
        lengths : (k,) array
        **values
            Contents of every parallel array, slice after slice.

        Returns
        -------
        (k,) starts
        """
        starts = self._allocate_all(lengths)
        runs = self.runs(starts, lengths)
        for name, flat in values.items():
            array, at = getattr(self, name), 0
            for begin, end in runs:
                array[begin:end] = flat[at : at + end - begin]
                at += end - begin
        return starts

    def _allocate_all(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        if lengths.size == 1:
            return np.array([self.allocate(int(lengths[0]))])
        starts = np.empty(lengths.size, np.int64)
        fresh = np.ones(lengths.size, np.bool_)
        if self.garbage:
            for k, length in enumerate(lengths.tolist()):
                if self._free.get(length):
                    starts[k], fresh[k] = self.allocate(length), False
        rest = lengths[fresh]
        ends = rest.cumsum()
        if rest.size:
            starts[fresh] = self.allocate(int(ends[-1])) + ends - rest
        return starts

    @staticmethod
    def runs(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
        """(begin, end) of slices, or of all together if each begins where the one before it ends."""
        ends = starts + lengths
        if starts.size and not np.count_nonzero(starts[1:] != ends[:-1]):
            return [(int(starts[0]), int(ends[-1]))]
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def free(self, start: int, length: int) -> None:
        """Give a slice back."""
        if length:
            self._free.setdefault(length, []).append(start)
            self.garbage += length

    def free_all(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Give many slices back."""
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            self.free(start, length)

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


class Table:
    """Slots with named scalar fields, one growable array a field; freed slots are used again.

    Parameters
    ----------
    **fields
        ``name=(dtype, value in a free slot)``; the arrays become attributes (longer than ``size``).
    """

    def __init__(self, **fields: tuple[Any, Any]) -> None:
        self._fields = fields
        self.size = 0
        self._free: list[int] = []
        for name, (dtype, blank) in fields.items():
            setattr(self, name, np.full(_FIRST, blank, dtype))

    def __getattr__(self, name: str) -> Any:  # for type checkers: the arrays are set by name
        raise AttributeError(name)

    def allocate(self, count: int) -> NDArray[np.int64]:
        """``count`` blank slots, free ones first."""
        reuse = min(count, len(self._free))
        slots = np.empty(count, np.int64)
        if reuse:
            slots[:reuse] = self._free[-reuse:]
            del self._free[-reuse:]
        fresh = count - reuse
        if fresh:
            need = self.size + fresh
            for name, (_, blank) in self._fields.items():
                array = getattr(self, name)
                if need > array.size:
                    array = _grown(array, self.size, need)
                    array[self.size :] = blank
                    setattr(self, name, array)
            slots[reuse:] = np.arange(self.size, need)
            self.size = need
        return slots

    def free(self, slots: NDArray[np.int64]) -> None:
        """Blank slots and keep them for later use."""
        gone = slots.tolist()
        for name, (_, blank) in self._fields.items():
            array = getattr(self, name)
            if slots.size > _FEW:
                array[slots] = blank
            else:
                for slot in gone:
                    array[slot] = blank
        self._free += gone


def places(slots: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """What to index an array with to write at ``slots``: a slice where they are one long run."""
    if slots.size < _FIRST:
        return slots
    first, last = int(slots[0]), int(slots[-1])
    if last - first != slots.size - 1 or not (slots[1:] > slots[:-1]).all():
        return slots
    return slice(first, last + 1)


def spread(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Flat indices of the slices ``[start, start + length)``, one after the other."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total, dtype=np.int64) + (starts - ends + lengths).repeat(lengths)


def _grown(array: NDArray[Any], used: int, need: int) -> NDArray[Any]:
    """Copy of ``array`` with room for ``need`` entries; memory past ``used`` stays untouched."""
    bigger = np.empty(max(need, array.size + array.size // 2, _FIRST), array.dtype)
    bigger[:used] = array[:used]
    return bigger
