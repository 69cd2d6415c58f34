"""Edit: one change of a program, checked, in flat arrays.

A verb's arguments are parsed into an edit (:mod:`copter.program.parse`), and everybody takes that: the store
makes it (:meth:`copter.store.store.ConstraintStore.apply`), a journal and a recording write it, and where the
requests are spread over parts it is cut up by part (:meth:`Edit.cut`).  Then the arrays are in the order of
the parts: an edit of a million requests is cut in one pass over its numbers, whoever holds several parts next
to one another takes one slice of each array (:meth:`Edit.of`), and each part its own slice of that.
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
"""Stands for the slot of columns that are a request's own."""
TAKE_STARTS = "take_starts"
"""Name of the operation that changes what the next solve begins from, but not the program."""
Starts: TypeAlias = dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]
"""Columns and values by request slot, from which the next warm start begins."""


class Moved(NamedTuple):
    """Columns of a request that come from earlier ones of it, whose values the next warm start keeps.

    `generation`: revision at which the request got the earlier columns. `old` (n,): number that each column
    had among these, -1 for a new column.
    """

    generation: int
    old: NDArray[np.int64]


Pending: TypeAlias = dict[int, tuple[NDArray[np.int64], NDArray[np.float64]] | Moved]
"""By request slot, columns and values, or the earlier columns from which the next warm start takes them."""


def moved(pending: Pending, slots: NDArray[np.int64], generations: NDArray[np.int64], kept: Runs) -> Pending:
    """Return the starts of requests after an edit of their columns.

    `generations` (k,): revisions at which they got the columns before it. `kept`: see :class:`Edit`.
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
    """Return values of old columns (k,) by the new ones, of which `old` (n,) has the old numbers or -1."""
    place = np.full(1 + max(old.max(initial=-1), columns.max(initial=-1)), -1)
    new = np.flatnonzero(old >= 0)
    place[old[new]] = new
    at = place[columns]
    order = np.argsort(at[at >= 0])
    return at[at >= 0][order], values[at >= 0][order]


class ColumnNames(NamedTuple):
    """Names of the columns of k requests; names that many requests have are stored once.

    `which` (k,): place of each request's names in `distinct`, -1 if its columns have numbers.
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
    """Numbers of k requests, in one run each: the run lengths (k,), and the numbers one after the other."""

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
    """Compressed columns of k requests, those of each in a run.

    `widths` (k,): number of columns of each request; 0 for one with shared columns. `pointer` (sum(widths) +
    1,): starts of the columns in `row` and `value` (nonzeros,); the first need not be 0. `row` has row slots.
    """

    widths: NDArray[np.int64]
    pointer: NDArray[Any]
    row: NDArray[Any]
    value: NDArray[Any]

    def sorted(self, order: NDArray[np.int64]) -> EditedColumns:
        """The runs in another order."""
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
        """The runs of some requests next to one another, in views but for the pointer."""
        first = int(self.widths[:begin].sum())
        last = first + int(self.widths[begin:end].sum())
        low, high = int(self.pointer[first]), int(self.pointer[last])
        pointer = self.pointer[first : last + 1] - self.pointer[first]
        return EditedColumns(self.widths[begin:end], pointer, self.row[low:high], self.value[low:high])


class Entries(NamedTuple):
    """Numbers for single columns of k requests, those of each in a run.

    `given` (k,): whether a request's entries, maybe 0 of them, are given; None if all are. `counts` (k,):
    entries of each. `columns`, `values` (sum(counts),): ascending by column.
    """

    given: NDArray[np.bool_] | None
    counts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]

    def sorted(self, order: NDArray[np.int64]) -> Entries:
        """The runs in another order."""
        given = None if self.given is None else self.given[order]
        counts, columns = Runs(self.counts, self.columns).sorted(order)
        return Entries(given, counts, columns, Runs(self.counts, self.values).sorted(order).values)

    def between(self, begin: int, end: int) -> Entries:
        """The runs of some requests next to one another, in views."""
        given = None if self.given is None else self.given[begin:end]
        counts, columns = Runs(self.counts, self.columns).between(begin, end)
        return Entries(given, counts, columns, Runs(self.counts, self.values).between(begin, end).values)


class Edit(NamedTuple):
    """One edit of a program. A field that is None leaves its part unchanged; a single number holds for all.

    `verb`: edit method of :class:`copter.ContinualProgram`; the one for many ids also serves a single one.
    `slots` (k,): of the resources or requests, or of the shared object; empty for new ones. `ids`: of what is
    added or removed. `key`: handle of a shared object. `clock`: the program's revision before the edit, if
    parts make it. `lower`: of resources. `upper`: of resources, one each, or of the columns of requests.
    `sizes` (k,): numbers of new columns. `usage`: slots of shared columns, :data:`OWN` for columns of a
    request's own. `columns`: those, or the ones to be shared. `costs`: of all columns. `vectors` (k,): slots
    of shared costs. `relation`: kinds of sum rows. `terms` (k,): (term, image), or None to take a term away.
    `names`, `parameters` (k, names): parameters of terms with new values. `labels`: names of new columns.
    `kept`: for each new column the number of the old column whose value the next warm start takes, or -1.
    `bounds` (parts + 1,): requests of each part, by their places in the arrays, once the edit is cut; None if
    all parts make it as it is.
    """

    verb: str
    slots: NDArray[np.int64] = np.empty(0, np.int64)  # nobody writes to it
    ids: Sequence[Hashable] = ()
    key: int = 0
    clock: int = -1
    lower: NDArray[np.float64] | None = None
    upper: float | NDArray[np.float64] | Runs | None = None
    sizes: NDArray[np.int64] | None = None
    usage: int | NDArray[np.int64] | None = None
    columns: EditedColumns | None = None
    costs: Runs | None = None
    vectors: NDArray[np.int64] | None = None
    scales: float | NDArray[np.float64] | None = None
    overrides: Entries | None = None
    starts: Entries | None = None
    relation: int | NDArray[np.int8] | None = None
    totals: float | NDArray[np.float64] | None = None
    integral: bool | NDArray[np.bool_] | None = None
    terms: NDArray[Any] | None = None
    names: tuple[str, ...] = ()
    parameters: NDArray[np.float64] | None = None
    labels: ColumnNames | None = None
    kept: Runs | None = None
    bounds: NDArray[np.int64] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return size_of(tuple(self))

    def cut(self, parts: int) -> Edit:
        """Cut an edit of requests up by part; slots are then those in the parts.  Its arrays are new ones."""
        own = cut(self.slots, parts)
        bounds = np.cumsum([0, *(places.size for places in own)])
        order = np.concatenate(own)
        fields = {name: _sorted(each, order) for name, each in self._by_request()}
        fields["slots"] = fields["slots"] // parts
        return self._replace(bounds=bounds, **(fields | _OF_THE_PROGRAM))

    def for_all(self) -> Edit:
        """Return the edit with copies of its arrays, because the caller may write to them before it
        is sent.
        """
        fields = {name: _copied(each) for name, each in self._by_request()}
        return self._replace(**(fields | _OF_THE_PROGRAM))

    def of(self, first: int, last: int) -> Edit | None:
        """Return the share of the parts from ``first`` to ``last - 1``, in views; None if nothing."""
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
        """Names and values of the fields that have an entry or a run a request."""
        each = zip(self._fields, self, strict=True)
        return [(name, value) for name, value in each if isinstance(value, _BY_REQUEST) and name != "bounds"]


_BY_REQUEST: TypeAlias = np.ndarray | Runs | EditedColumns | Entries
_OF_THE_PROGRAM: dict[str, Any] = {"ids": (), "labels": None, "kept": None}
"""Fields that parts do not need."""


def size_of(value: Any) -> int:
    """Bytes of the arrays in an array, or in a tuple or list of such."""
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
    """Runs in another order."""
    at = 0
    for k in range(order.size):
        start, length = starts[order[k]], lengths[order[k]]
        for j in range(length):
            picked[at + j] = values[start + j]
        at += length
