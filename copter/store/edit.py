"""Edit: one validated change of a program, as flat arrays.

The arguments of an edit method are parsed into an edit (:mod:`copter.program.parse`). The store applies it
(:meth:`copter.store.store.ConstraintStore.apply`), and journals and recordings write it.

If the requests are distributed over parts, :meth:`Edit.cut` sorts the arrays of the edit by part, in one pass
over the numbers of the edit. An actor with several consecutive parts gets one slice of each array
(:meth:`Edit.of`), and each part gets a slice of this slice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.store.executor import cut
from copter.store.slabs import contiguous, slice_indices

OWN = -1
"""Slot that means that the columns of a request are not shared."""
TAKE_STARTS = "take_starts"
"""Name of the operation that removes the given starts of the next solve; it does not change the program."""
Starts: TypeAlias = dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]
"""Columns and values by request slot, from which the next warm start begins."""


class Moved(NamedTuple):
    """Columns of a request that correspond to earlier columns, whose values the next warm start uses.

    `generation` is the revision at which the request got the earlier columns. `old` (n,) has the number of
    each column among these, or -1 for a new column.
    """

    generation: int
    old: NDArray[np.int64]


Pending: TypeAlias = dict[int, tuple[NDArray[np.int64], NDArray[np.float64]] | Moved]
"""Start of each request slot: columns and values, or the earlier columns that have the values."""


def moved(pending: Pending, slots: NDArray[np.int64], generations: NDArray[np.int64], kept: Runs) -> Pending:
    """Return the starts of requests after an edit of their columns.

    `generations` (k,) has the revisions at which the requests got their columns before the edit. `kept` is
    the field of :class:`Edit`.
    """
    ends, found = np.cumsum(kept.lengths).tolist(), dict[int, Any]()
    values = kept.values.copy()
    number = slice_indices(np.zeros_like(kept.lengths), kept.lengths)
    stays = np.logical_and.reduceat(values == number, kept.lengths.cumsum() - kept.lengths)
    each = zip(slots.tolist(), generations.tolist(), [0, *ends], ends, stays.tolist(), strict=False)
    for slot, generation, begin, end, same in each:
        old, start = values[begin:end], pending.get(slot)
        if start is None:
            found[slot] = Moved(generation, old)
        elif isinstance(start, Moved) and same and start.old.size == old.size:
            found[slot] = start
        elif isinstance(start, Moved):
            found[slot] = Moved(start.generation, np.where(old >= 0, start.old[old], -1))
        else:
            found[slot] = carried(*start, old)
    return found


def carried(
    columns: NDArray[np.int64], values: NDArray[np.float64], old: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the columns and values (k,) of a start with new column numbers.

    `old` (n,) has the old number of each new column, or -1.
    """
    place = np.full(1 + max(old.max(initial=-1), columns.max(initial=-1)), -1)
    new = np.flatnonzero(old >= 0)
    place[old[new]] = new
    at = place[columns]
    order = np.argsort(at[at >= 0])
    return at[at >= 0][order], values[at >= 0][order]


class ColumnNames(NamedTuple):
    """Names of the columns of k requests; a tuple that several requests have is stored once.

    `which` (k,) has the position of each request's names in `distinct`, or -1 if its columns have numbers.
    """

    which: NDArray[np.int64]
    distinct: tuple[tuple[Hashable, ...], ...]

    @classmethod
    def of(cls, each: Sequence[tuple[Hashable, ...] | None] | None) -> ColumnNames | None:
        """Return the names of requests, one tuple or None each; None if no request has names."""
        if each is None or all(names is None for names in each):
            return None
        place: dict[int, int] = {}
        distinct: list[tuple[Hashable, ...]] = []
        for names in each:
            if names is not None and id(names) not in place:
                place[id(names)] = len(distinct)
                distinct.append(names)
        which = [-1 if names is None else place[id(names)] for names in each]
        return cls(np.array(which, np.int64), tuple(distinct))

    def each(self) -> list[tuple[Hashable, ...] | None]:
        """Return the names of each request, None for numbers."""
        return [None if k < 0 else self.distinct[k] for k in self.which.tolist()]


class Runs(NamedTuple):
    """Numbers of k requests, one run for each: `lengths` (k,) and the concatenated `values`."""

    lengths: NDArray[np.int64]
    values: NDArray[Any]

    def sorted(self, order: NDArray[np.int64]) -> Runs:
        """Return the runs in another order."""
        starts = self.lengths.cumsum() - self.lengths
        picked = np.empty(self.values.size, self.values.dtype)
        _pick(contiguous(self.values), starts, contiguous(self.lengths), order, picked)
        return Runs(self.lengths[order], picked)

    def between(self, begin: int, end: int) -> Runs:
        """Return views of the runs of the requests [begin, end)."""
        first, own = int(self.lengths[:begin].sum()), self.lengths[begin:end]
        return Runs(own, self.values[first : first + int(own.sum())])


class EditedColumns(NamedTuple):
    """Compressed columns (CSC) of k requests, one run of columns for each.

    `widths` (k,) has the number of columns of each request, 0 for a request with shared columns. `pointer`
    (sum(widths) + 1,) has the start of each column in `row` and `value` (nonzeros,). The first start need not
    be 0. `row` has row slots.
    """

    widths: NDArray[np.int64]
    pointer: NDArray[Any]
    row: NDArray[Any]
    value: NDArray[Any]

    def sorted(self, order: NDArray[np.int64]) -> EditedColumns:
        """Return the runs in another order."""
        ends = self.pointer[np.append(0, np.cumsum(self.widths))]
        entries = np.diff(ends).astype(np.int64)
        counts = Runs(self.widths, np.diff(self.pointer)).sorted(order)
        row, value = (
            Runs(entries, each[ends[0] : ends[-1]]).sorted(order).values for each in (self.row, self.value)
        )
        pointer = np.zeros(counts.values.size + 1, self.pointer.dtype)
        np.cumsum(counts.values, out=pointer[1:])
        return EditedColumns(counts.lengths, pointer, row, value)

    def between(self, begin: int, end: int) -> EditedColumns:
        """Return the runs of the requests [begin, end), as views except for the pointer."""
        first = int(self.widths[:begin].sum())
        last = first + int(self.widths[begin:end].sum())
        low, high = int(self.pointer[first]), int(self.pointer[last])
        pointer = self.pointer[first : last + 1] - self.pointer[first]
        return EditedColumns(self.widths[begin:end], pointer, self.row[low:high], self.value[low:high])


class Entries(NamedTuple):
    """Numbers for single columns of k requests; the numbers of one request are adjacent.

    `given` (k,) is True if the entries of a request are given, possibly 0 entries; None if all are given.
    `counts` (k,) has the number of entries of each request. `columns` and `values` (sum(counts),) ascend by
    column within a request.
    """

    given: NDArray[np.bool_] | None
    counts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]

    def sorted(self, order: NDArray[np.int64]) -> Entries:
        """Return the runs in another order."""
        given = None if self.given is None else self.given[order]
        counts, columns = Runs(self.counts, self.columns).sorted(order)
        return Entries(given, counts, columns, Runs(self.counts, self.values).sorted(order).values)

    def between(self, begin: int, end: int) -> Entries:
        """Return the runs of the requests [begin, end), as views."""
        given = None if self.given is None else self.given[begin:end]
        counts, columns = Runs(self.counts, self.columns).between(begin, end)
        return Entries(given, counts, columns, Runs(self.counts, self.values).between(begin, end).values)


class Edit(NamedTuple):
    """One edit of a program.

    A field that is None leaves its part unchanged. A single number applies to all k requests or resources.

    Attributes
    ----------
    verb : str
        Name of the edit method of :class:`copter.ContinualProgram`, in the form for many ids.
    slots : (k,) ndarray
        Slots of the resources, the requests or the shared columns; empty for new ones.
    ids : sequence of k
        Ids of added or removed requests or resources.
    key : int
        Random number in the handle of shared columns.
    clock : int
        Revision of the program before the edit, for edits that are sent to parts.
    lower, upper : ndarray, float or Runs
        Bounds of resources, one each; or, as `upper`, bounds of the columns of requests.
    sizes : (k,) ndarray
        Number of new columns of each request.
    usage : int or (k,) ndarray
        Slots of shared columns; :data:`OWN` for a request whose columns are not shared.
    columns : EditedColumns
        Columns that are not shared, or the columns that an edit makes shared.
    costs : Runs
        Costs of all columns.
    scales, totals, exact, integral
        Values of the requests; a total is infinite for a request without a sum row.
    overrides, starts : Entries
        Values of single columns.
    terms : (k,) ndarray of objects
        (term, image), or None to remove a term.
    names, parameters : tuple of str, (k, names) ndarray
        Parameters of convex terms, and their new values.
    labels : ColumnNames
        Names of new columns.
    kept : Runs
        For each new column, the number of the old column whose value the next warm start uses, or -1.
    bounds : (parts + 1,) ndarray
        Ranges of the requests of each part in the arrays of a cut edit. None if all parts apply the same
        edit.
    """

    verb: str
    slots: NDArray[np.int64] = np.empty(0, np.int64)  # shared default, which is never written to
    ids: Sequence[Hashable] = ()
    key: int = 0
    clock: int = -1
    lower: NDArray[np.float64] | None = None
    upper: float | NDArray[np.float64] | Runs | None = None
    sizes: NDArray[np.int64] | None = None
    usage: int | NDArray[np.int64] | None = None
    columns: EditedColumns | None = None
    costs: Runs | None = None
    scales: float | NDArray[np.float64] | None = None
    overrides: Entries | None = None
    starts: Entries | None = None
    totals: float | NDArray[np.float64] | None = None
    exact: bool | NDArray[np.bool_] | None = None
    integral: bool | NDArray[np.bool_] | None = None
    terms: NDArray[Any] | None = None
    names: tuple[str, ...] = ()
    parameters: NDArray[np.float64] | None = None
    labels: ColumnNames | None = None
    kept: Runs | None = None
    bounds: NDArray[np.int64] | None = None

    @property
    def nbytes(self) -> int:
        """Number of bytes of its arrays."""
        return size_of(tuple(self))

    def cut(self, parts: int) -> Edit:
        """Return a copy of the edit, sorted by part, in which requests have their slots within the parts."""
        own = cut(self.slots, parts)
        bounds = np.cumsum([0, *(places.size for places in own)])
        order = np.concatenate(own)
        fields = {name: _sorted(each, order) for name, each in self._by_request()}
        fields["slots"] = fields["slots"] // parts
        return self._replace(bounds=bounds, **(fields | _OF_THE_PROGRAM))

    def for_all(self) -> Edit:
        """Return the edit with copied arrays, because the caller may write to them before it is sent."""
        fields = {name: _copied(each) for name, each in self._by_request()}
        return self._replace(**(fields | _OF_THE_PROGRAM))

    def of(self, first: int, last: int) -> Edit | None:
        """Return the edit of the parts ``first`` to ``last - 1``, as views; None if they have no requests."""
        if self.bounds is None:
            return self
        begin, end = int(self.bounds[first]), int(self.bounds[last])
        if begin == end:
            return None
        bounds = self.bounds[first : last + 1] - begin
        if (begin, end) == (0, int(self.bounds[-1])):
            return self._replace(bounds=bounds)
        fields = {name: _between(each, begin, end) for name, each in self._by_request()}
        return self._replace(bounds=bounds, **fields)

    def _by_request(self) -> list[tuple[str, Any]]:
        """Return names and values of the fields with one entry or one run for each request."""
        each = zip(self._fields, self, strict=True)
        return [(name, value) for name, value in each if isinstance(value, _BY_REQUEST) and name != "bounds"]


_BY_REQUEST: TypeAlias = np.ndarray | Runs | EditedColumns | Entries
_OF_THE_PROGRAM: dict[str, Any] = {"ids": (), "labels": None, "kept": None}
"""Fields that parts do not need."""


def size_of(value: Any) -> int:
    """Return the number of bytes of an array, or of the arrays in a nested tuple or list."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(size_of, value)) if isinstance(value, (tuple, list)) else 0


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return type(value)(*map(_copied, value))
    return None if value is None else value.copy()


def _sorted(value: Any, order: NDArray[np.int64]) -> Any:
    return value[order] if isinstance(value, np.ndarray) else value.sorted(order)


def _between(value: Any, begin: int, end: int) -> Any:
    return value[begin:end] if isinstance(value, np.ndarray) else value.between(begin, end)


@kernel
def _pick(values, starts, lengths, order, picked):  # type: ignore[no-untyped-def]
    """Write the runs of `values`, with given `starts` and `lengths`, to `picked` in another order."""
    at = 0
    for k in range(order.size):
        start, length = starts[order[k]], lengths[order[k]]
        for j in range(length):
            picked[at + j] = values[start + j]
        at += length
