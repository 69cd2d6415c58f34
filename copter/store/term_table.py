"""Convex terms of a store by request slot: class, parameters and image, in flat arrays.

The data of a term are one slice of an array: its parameters, followed by its image. So terms are packed for
evaluation, and their parameters are changed, without a Python loop over terms.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Floats
from copter.store.slabs import GrowableArrays, named, slice_indices, typed, under
from copter.terms.convex import ConvexTerm, make_term

_NONE = -1


class TermKind(NamedTuple):
    """Class of convex terms and the names of its parameters."""

    type: type[ConvexTerm]
    names: tuple[str, ...]


class TermTable:
    """Convex terms by request slot."""

    def __init__(self) -> None:
        self.kinds: list[TermKind] = []
        self._kind = np.full(0, _NONE, np.int16)
        self._start = np.zeros(0, np.int64)
        self._length = np.zeros(0, np.int64)
        self._data = GrowableArrays(data=np.float64)
        self._given: dict[int, ConvexTerm] = {}

    def __len__(self) -> int:
        return len(self._given)

    def __contains__(self, slot: int) -> bool:
        return slot in self._given

    def __iter__(self) -> Iterator[int]:
        return iter(self._given)

    def get(self, slot: int) -> ConvexTerm | None:
        """Return a copy of a request's term with its present parameters and image; None without a term."""
        term = self._given.get(slot)
        if term is None:
            return None
        names = self.kinds[int(self._kind[slot])].names
        begin, length = int(self._start[slot]), int(self._length[slot])
        numbers = self._data.data[begin : begin + length]
        own = copy.copy(term)
        own.parameters = dict(zip(names, numbers[: len(names)].tolist(), strict=True))
        image = numbers[len(names) :]
        own.image = float(image[0]) if np.ndim(term.image) == 0 else image.copy()
        return own

    def put(self, slot: int, term: ConvexTerm, image: Floats) -> None:
        """Set the term of a request, with its image (n,), one coefficient for each of its columns."""
        self.drop([slot])
        kind = TermKind(type(term), tuple(term.parameters))
        if kind not in self.kinds:
            self.kinds.append(kind)
        if slot >= self._kind.size:
            more = max(slot + 1, 64) + self._kind.size // 2 - self._kind.size
            self._kind = np.concatenate((self._kind, np.full(more, _NONE, np.int16)))
            self._start = np.concatenate((self._start, np.zeros(more, np.int64)))
            self._length = np.concatenate((self._length, np.zeros(more, np.int64)))
        count = len(kind.names)
        length = count + image.size
        begin = self._data.allocate(length)
        self._data.data[begin : begin + count] = list(term.parameters.values())
        self._data.data[begin + count : begin + length] = image
        self._kind[slot], self._start[slot], self._length[slot] = self.kinds.index(kind), begin, length
        self._given[slot] = copy.copy(term)  # a copy, because the user may change the given term

    def drop(self, slots: list[int]) -> None:
        """Remove the terms of requests; requests without a term are skipped."""
        for slot in slots:
            if self._given.pop(slot, None) is not None:
                self._data.free(int(self._start[slot]), int(self._length[slot]))
                self._kind[slot], self._length[slot] = _NONE, 0
        if self._data.wasteful:
            live = self.slots()
            self._start[live] = self._data.compact(self._start[live], self._length[live])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the table as arrays by name.

        The arrays have the position of each slot's data, the data, and the terms whose image is one number.
        The classes of the terms are not in the arrays but in ``kinds``.
        """
        scalar = [np.ndim(term.image) == 0 for term in self._given.values()]
        return {
            "kind": self._kind,
            "start": self._start,
            "length": self._length,
            "given": np.array(list(self._given), np.int64),
            "scalar": np.array(scalar, np.bool_),
            **named("numbers", self._data.arrays()),
        }

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the table from what :meth:`arrays` returned, with the classes in ``kinds``.

        Raise ValueError if the arrays are not of one table.
        """
        self._kind = typed(arrays["kind"], np.int16)
        self._start, self._length = (typed(arrays[name], np.int64) for name in ("start", "length"))
        self._data.set_arrays(under(arrays, "numbers"))
        given, scalar = typed(arrays["given"], np.int64), typed(arrays["scalar"], np.bool_)
        sizes = self._kind.size == self._start.size == self._length.size and scalar.size == given.size
        if not sizes or not np.array_equal(np.sort(given), self.slots()):
            raise ValueError("the arrays of convex terms must fit together")
        for slot, one in zip(given.tolist(), scalar.tolist(), strict=True):
            kind, names = self.kinds[int(self._kind[slot])]
            start, length = int(self._start[slot]), int(self._length[slot])
            numbers = self._data.data[start : start + length]
            if start < 0 or numbers.size != length or length <= len(names):
                raise ValueError("the data of a convex term must be inside the array of numbers")
            image = float(numbers[len(names)]) if one else numbers[len(names) :].copy()
            self._given[slot] = make_term(kind, image, dict(zip(names, numbers.tolist(), strict=False)))

    def slots(self) -> NDArray[np.int64]:
        """Return the ascending slots of the requests with a term."""
        return np.flatnonzero(self._kind >= 0)

    def kind_of(self, slots: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return the positions in ``kinds`` of the terms of requests; negative without a term."""
        kind = np.full(slots.size, _NONE, np.int16)
        known = slots < self._kind.size
        kind[known] = self._kind[slots[known]]
        return kind

    def parameters(self, slots: NDArray[np.int64], kind: int) -> tuple[Floats, ...]:
        """Return the parameters of the terms of one kind, one array for each parameter."""
        starts = self._start[slots]
        return tuple(self._data.data[starts + k] for k in range(len(self.kinds[kind].names)))

    def images(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
        """Return the numbers of columns and the concatenated images of the terms of requests."""
        count = np.array([len(kind.names) for kind in self.kinds], np.int64)[self._kind[slots]]
        sizes = self._length[slots] - count
        return sizes, self._data.data[slice_indices(self._start[slots] + count, sizes)]

    def restate(self, slots: NDArray[np.int64], kind: int, parameters: Mapping[str, Floats]) -> None:
        """Set some parameters of the terms of the requests in `slots`, which are all of one kind.

        `kind` is the position in ``kinds``. `parameters` has (k,) values by name; other parameters stay.
        """
        starts = self._start[slots]
        for k, name in enumerate(self.kinds[kind].names):
            if name in parameters:
                self._data.data[starts + k] = parameters[name]
