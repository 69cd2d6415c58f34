"""Edits of a program whose requests are spread over parts: written down, cut up by part, applied later.

An :class:`Edit` says what a method of the store was given, for all its requests, in flat arrays in the order
of the parts.  So an edit of a million requests is cut in one pass over its numbers, whoever holds several
parts next to one another takes one slice of each array, and each part takes its own slice of that.  What is
not by request (rows, templates, vectors) goes to all parts as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.store.runs import Runs


class Edit(NamedTuple):
    """One edit.

    Attributes
    ----------
    verb : str
        Name of the method of :class:`copter.store.part_store.PartStore` that applies it.
    clock : int
        The program's clock before the edit.
    fields : mapping of str to object
        Arguments by name: an array has an entry a request, Runs a run a request; everything else is
        the same for all.
    bounds : (parts + 1,) ndarray, optional
        Requests of each part, by their places in the arrays; None for an edit that is for all parts as it is.
    """

    verb: str
    clock: int
    fields: Mapping[str, Any]
    bounds: NDArray[np.int64] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return sum(size_of(each) for each in self.fields.values())

    def of(self, first: int, last: int) -> Edit | None:
        """What parts from ``first`` to ``last - 1`` have of it, in views; None if nothing.

        Parameters
        ----------
        first, last : int
            Among the parts that it is for.
        """
        if self.bounds is None:
            return self
        begin, end = int(self.bounds[first]), int(self.bounds[last])
        if begin == end:
            return None
        bounds = self.bounds[first : last + 1] - begin
        if (begin, end) == (0, int(self.bounds[-1])):
            return self._replace(bounds=bounds)
        fields = {name: _between(each, begin, end) for name, each in self.fields.items()}
        return self._replace(fields=fields, bounds=bounds)


def edit_of_all(verb: str, clock: int, **fields: Any) -> Edit:
    """An edit that every part makes as it is.

    Parameters
    ----------
    **fields
        Arrays are copied: who gave them may write to them before the edit is sent.
    """
    return Edit(verb, clock, {name: _copied(each) for name, each in fields.items()})


def edit_of_requests(
    verb: str, clock: int, slots: NDArray[np.int64], parts: int, fields: Mapping[str, Any]
) -> Edit:
    """An edit of some requests, cut up by part.

    Parameters
    ----------
    slots : (k,) ndarray
        Of the requests in the program.
    fields : mapping of str to object
        As in :class:`Edit`, in the order of the slots; not kept.
    """
    if slots.size == 1:
        bounds = np.zeros(parts + 1, np.int64)
        bounds[int(slots[0]) % parts + 1 :] = 1
        return Edit(verb, clock, {name: _copied(each) for name, each in fields.items()}, bounds)
    number = slots % parts
    order = np.argsort(number, kind="stable")
    bounds = np.zeros(parts + 1, np.int64)
    np.cumsum(np.bincount(number, minlength=parts), out=bounds[1:])
    return Edit(verb, clock, {name: _sorted(each, order) for name, each in fields.items()}, bounds)


def size_of(value: Any) -> int:
    """Bytes of the arrays in an argument: an array, or a tuple or list of arguments."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(size_of, value)) if isinstance(value, (tuple, list)) else 0


def _copied(value: Any) -> Any:
    if isinstance(value, Runs):
        return Runs(value.lengths.copy(), value.values.copy())
    return value.copy() if isinstance(value, np.ndarray) else value


def _sorted(value: Any, order: NDArray[np.int64]) -> Any:
    if isinstance(value, Runs):
        return value.sorted(order)
    return value[order] if isinstance(value, np.ndarray) else value


def _between(value: Any, begin: int, end: int) -> Any:
    if isinstance(value, Runs):
        return value.between(begin, end)
    return value[begin:end] if isinstance(value, np.ndarray) else value
