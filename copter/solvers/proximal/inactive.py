"""Inactive requests: those whose allocation stays optimal until prices change by more than a threshold.

An *inactive* request is at its only optimal vertex at the present prices. It need not be read until the
accumulated price change of its group reaches the request's threshold (:mod:`copter.proof.margins`), or until
it is edited. All other requests are *active*: edited, between their columns (not at a vertex), tied, or past
their threshold. The time of a round with few changes depends on the active requests only
(:mod:`copter.solvers.proximal.incremental`).

If requests have their own columns and there are many rows, as with paths in a network, many may be tied.
Then all requests become inactive with their present allocation, and the loss of each at the last prices is
recorded. They stay inactive while the prices need not change.  Such requests are called *fixed*.

An :class:`InactiveSet` is an immutable record of arrays.  A round makes a new one, which shares the arrays
that did not change. The requests are stored in three blocks; a later block overrides an earlier one, and only
the last and smallest is rewritten (a log-structured merge tree).  So a solver's states can be kept, copied
and continued from more than once, and earlier solutions do not change.

References: O'Neil, Cheng, Gawlick and O'Neil, The log-structured merge-tree (1996).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.proof.margins import OWN_COLUMNS
from copter.proof.rest import Contributions
from copter.solution import GivenValues, Values
from copter.solvers.memory import LastX, as_vector
from copter.store.allocation import SparseX, distinct, merged

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

ACTIVE = -1
"""Group of a request that an earlier block contains and that is active again."""
_NOBODY = np.empty(0, np.int64)
_LIMITS = (1024, 32_768)
"""Numbers of requests above which the last block is merged into the middle one, and that into the first."""


class Block(NamedTuple):
    """Some requests (k,) by ascending slot, with their allocations and a copy of their data in the program.

    `group`: columns and vertex (:mod:`copter.proof.margins`); ``ACTIVE`` for an active request. `threshold`:
    accumulated price change of the group at which the request must be priced again. `generation`: revision at
    which the request got its columns. `column`: the nonzero columns, request by request, ascending. `parts`:
    contribution of each request to the sums; it contains the values.
    """

    slots: NDArray[np.int64]
    group: NDArray[np.int32]
    threshold: NDArray[np.float64]
    generation: NDArray[np.int64]
    column: NDArray[np.int64]
    parts: Contributions

    @property
    def size(self) -> int:
        """Number of requests."""
        return self.slots.size

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of nonzero columns of each request, (k,) ndarray."""
        return self.parts.start[1:] - self.parts.start[:-1]

    @classmethod
    def active(cls, slots: NDArray[np.int64]) -> Block:
        """Return the block that marks some requests, in ascending order, as active."""
        none, many = np.zeros(slots.size), np.zeros(slots.size, np.int64)
        start, nothing = np.zeros(slots.size + 1, np.int64), np.empty(0)
        parts = Contributions(
            none, none, none, many.astype(np.int32), start, nothing, nothing, start[:1],
            np.empty(0, np.int32), nothing,
        )  # fmt: skip
        return cls(slots, np.full(slots.size, ACTIVE, np.int32), none, many, np.empty(0, np.int64), parts)

    def take(self, which: NDArray[np.int64]) -> Block:
        """Return the requests at the places `which` (m,) of the block, in that order."""
        slots, group, threshold, generation, column, *taken = _take(which, *self[:5], *self.parts)
        return Block(slots, group, threshold, generation, column, Contributions(*taken))

    def x(self) -> SparseX:
        """Return the allocation of the requests."""
        return SparseX(self.slots.repeat(self.counts), self.column, self.parts.value)

    def last_x(self, program: ContinualProgram, which: NDArray[np.int64]) -> LastX:
        """Return the allocation of the requests at some ascending places, as a last allocation."""
        parts = self.parts
        mine = self.slots, self.generation, parts.total, parts.start, self.column, parts.value
        slot, column, value, generation, total = _last_x(which, *mine)
        return LastX(program, SparseX(slot, column, value), generation, total)


@kernel(inner=True)
def _copy(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - numba takes longer for records of arrays
    begin, end, column, value, cost, entry_start, row, coefficient,
    new_column, new_value, new_cost, new_entry_start, new_row, new_coefficient, at, entry,
):  # fmt: skip
    """Copy columns begin to end with their entries; return the new numbers of columns and entries."""
    for held in range(begin, end):
        new_column[at], new_value[at], new_cost[at] = column[held], value[held], cost[held]
        for e in range(entry_start[held], entry_start[held + 1]):
            new_row[entry], new_coefficient[entry] = row[e], coefficient[e]
            entry += 1
        at += 1
        new_entry_start[at] = entry
    return at, entry


@kernel(allocates=True)
def _take(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - numba takes longer for records of arrays
    which, slots, group, threshold, generation, column,
    total, forced, lost, width, start, value, cost, entry_start, row, coefficient,
):  # fmt: skip
    """Compute :meth:`Block.take`."""
    columns = entries = 0
    for k in which:
        columns += start[k + 1] - start[k]
        entries += entry_start[start[k + 1]] - entry_start[start[k]]
    new_start, new_entry_start = np.zeros(which.size + 1, np.int64), np.zeros(columns + 1, np.int64)
    new_column, new_value, new_cost = np.empty(columns, np.int64), np.empty(columns), np.empty(columns)
    new_row, new_coefficient = np.empty(entries, np.int32), np.empty(entries)
    at = entry = 0
    for n in range(which.size):
        k = which[n]
        at, entry = _copy(
            start[k], start[k + 1], column, value, cost, entry_start, row, coefficient,
            new_column, new_value, new_cost, new_entry_start, new_row, new_coefficient, at, entry,
        )  # fmt: skip
        new_start[n + 1] = at
    return (
        slots[which], group[which], threshold[which], generation[which], new_column, total[which],
        forced[which], lost[which], width[which], new_start, new_value, new_cost, new_entry_start, new_row,
        new_coefficient,
    )  # fmt: skip


@kernel(allocates=True)
def _last_x(which, slots, generation, total, start, column, value):  # type: ignore[no-untyped-def]
    """Return slot, column, value, generation and total of each nonzero of some requests."""
    count = 0
    for k in which:
        count += start[k + 1] - start[k]
    of_slot, of_column, of_value = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    of_generation, of_total, at = np.empty(count, np.int64), np.empty(count), 0
    for k in which:
        for held in range(start[k], start[k + 1]):
            of_slot[at], of_column[at], of_value[at] = slots[k], column[held], value[held]
            of_generation[at], of_total[at] = generation[k], total[k]
            at += 1
    return of_slot, of_column, of_value, of_generation, of_total


@kernel(allocates=True)
def find(slots, wanted):  # type: ignore[no-untyped-def]
    """Return the place of each wanted number (m,) among ascending ones (k,); -1 if it is not there.

    Fastest if `wanted` ascends, because each search begins at the place of the one before.
    """
    places, low = np.empty(wanted.size, np.int64), 0
    for k in range(wanted.size):
        number = wanted[k]
        if k > 0 and number < wanted[k - 1]:
            low = 0
        high, step = low, 1
        while high < slots.size and slots[high] < number:
            low, high, step = high + 1, high + step, 2 * step
        high = min(high, slots.size)
        while low < high:
            middle = (low + high) // 2
            if slots[middle] < number:
                low = middle + 1
            else:
                high = middle
        places[k] = low if low < slots.size and slots[low] == number else -1
    return places


def starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the starts of consecutive lists of these lengths, and the end of the last: (k + 1,) ndarray."""
    begin = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=begin[1:])
    return begin


def combined(blocks: Sequence[Block], *, drop_active: bool = False) -> Block:
    """Return the requests of several blocks as one block; for each request the last block counts.

    `drop_active`: True to leave out the active requests.
    """
    some = [block for block in blocks if block.size]
    if not some:
        return blocks[0]
    together = some[0]
    if len(some) > 1:
        together = _concatenated(some)
    order, slots = None, together.slots
    if not (slots[1:] > slots[:-1]).all():
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        order = order[np.append(ordered[1:] != ordered[:-1], True)]
    if drop_active:
        order = np.arange(slots.size) if order is None else order
        order = order[together.group[order] >= 0]
    return together if order is None else together.take(order)


def _concatenated(blocks: list[Block]) -> Block:
    """Return the requests of several blocks, one block after the other."""
    parts: list[Contributions] = [block.parts for block in blocks]
    fields = {}
    for name, arrays in zip(Contributions._fields, zip(*parts, strict=True), strict=True):
        if name.endswith("start"):
            ends = np.cumsum([0, *(array[-1] for array in arrays)])
            later = (array[1:] + end for array, end in zip(arrays, ends.tolist(), strict=False))
            arrays = (arrays[0][:1], *later)
        fields[name] = np.concatenate(arrays)
    each = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in Block._fields[:-1]}
    return Block(**each, parts=Contributions(**fields))


def updated(before: Block, block: Block, active: NDArray[np.int64] = _NOBODY) -> Block:
    """Return `before` with the requests of `block`, and with some requests marked as active.

    `active` (k,): slots, ascending, of requests that are not in `block`.
    """
    old, new = before.parts, block.parts
    found = _update(*before[:5], *old, *block[:5], *new, active)
    slots, group, threshold, generation, column, *parts = found
    return Block(slots, group, threshold, generation, column, Contributions(*parts))


@kernel(allocates=True)
def _update(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - numba takes longer for records of arrays
    slots, group, threshold, generation, column,
    total, forced, lost, width, start, value, cost, entry_start, row, coefficient,
    slots2, group2, threshold2, birth2, column2,
    total2, forced2, lost2, width2, start2, value2, cost2, entry_start2, row2, coefficient2,
    active,
):  # fmt: skip
    """Compute :func:`updated`: merge three ascending lists; the second overrides the first."""
    most, columns = slots.size + slots2.size + active.size, column.size + column2.size
    entries = row.size + row2.size
    new_slots, new_group = np.empty(most, np.int64), np.empty(most, np.int32)
    new_threshold, new_generation = np.empty(most), np.empty(most, np.int64)
    new_total, new_forced, new_lost = np.empty(most), np.empty(most), np.empty(most)
    new_width, new_start = np.empty(most, np.int32), np.zeros(most + 1, np.int64)
    new_column, new_value, new_cost = np.empty(columns, np.int64), np.empty(columns), np.empty(columns)
    new_entry_start = np.zeros(columns + 1, np.int64)
    new_row, new_coefficient = np.empty(entries, np.int32), np.empty(entries)
    i = j = k = n = at = entry = 0
    last = np.iinfo(np.int64).max
    while i < slots.size or j < slots2.size or k < active.size:
        a = slots[i] if i < slots.size else last
        b = slots2[j] if j < slots2.size else last
        c = active[k] if k < active.size else last
        q = min(a, b, c)
        new_slots[n] = q
        if q == b:
            new_group[n], new_threshold[n], new_generation[n] = group2[j], threshold2[j], birth2[j]
            new_total[n], new_forced[n], new_lost[n], new_width[n] = (
                total2[j],
                forced2[j],
                lost2[j],
                width2[j],
            )
            at, entry = _copy(
                start2[j], start2[j + 1], column2, value2, cost2, entry_start2, row2, coefficient2,
                new_column, new_value, new_cost, new_entry_start, new_row, new_coefficient, at, entry,
            )  # fmt: skip
        elif q == c:
            new_group[n], new_threshold[n], new_generation[n] = ACTIVE, 0.0, 0
            new_total[n], new_forced[n], new_lost[n], new_width[n] = 0.0, 0.0, 0.0, 0
        else:
            new_group[n], new_threshold[n], new_generation[n] = group[i], threshold[i], generation[i]
            new_total[n], new_forced[n], new_lost[n], new_width[n] = total[i], forced[i], lost[i], width[i]
            at, entry = _copy(
                start[i], start[i + 1], column, value, cost, entry_start, row, coefficient,
                new_column, new_value, new_cost, new_entry_start, new_row, new_coefficient, at, entry,
            )  # fmt: skip
        i, j, k = i + (q == a), j + (q == b), k + (q == c)
        n += 1
        new_start[n] = at
    return (
        new_slots[:n], new_group[:n], new_threshold[:n], new_generation[:n], new_column[:at],
        new_total[:n], new_forced[:n], new_lost[:n], new_width[:n], new_start[: n + 1], new_value[:at],
        new_cost[:at], new_entry_start[: at + 1], new_row[:entry], new_coefficient[:entry],
    )  # fmt: skip


class _Groups(NamedTuple):
    """Groups of requests with the same columns and the same kind of vertex (:mod:`copter.proof.margins`).

    `change` (groups,): accumulated price change of each group. `usage`, `first`, `width` (u,): usages that
    many requests share, ascending; first group of each; its number of columns.
    """

    change: NDArray[np.float64]
    usage: NDArray[np.int64]
    first: NDArray[np.int64]
    width: NDArray[np.int64]

    @classmethod
    def none(cls) -> _Groups:
        """Return the groups with a single group, for all requests with columns of their own."""
        whole = np.empty(0, np.int64)
        return cls(np.zeros(OWN_COLUMNS + 1), whole, whole, whole)


@dataclass(frozen=True, eq=False)
class InactiveSet:
    """Immutable set of inactive requests with their allocations and thresholds.

    `revision`, `y` (row slots,): the store's revision and the prices when the set was made. `blocks`: the
    last block that contains a request counts. `active`: slots of all other requests of that revision,
    ascending. `low`, `high` (row slots,): least and largest coefficient of each row, including 0, over the
    requests of the group :data:`copter.proof.margins.OWN_COLUMNS` so far. `step` (row slots,), `local`,
    `squares`: see :class:`copter.proof.rest.InactiveSums`; they are not updated when requests become active,
    because they remain valid bounds.
    `longest`: largest number of coefficients of a column of an inactive request so far. `fixed`: True if
    requests keep their allocation instead of their optimal vertex. `rounds`: solves since the set was made
    from all requests. `gap`, `gap_each`: gap of the last solve, and the expected increase for each edited
    request if prices do not change. `failures`, `pause`: number of consecutive failures of the last prices,
    and number of rounds in which they are not tried.
    """

    revision: int
    y: NDArray[np.float64]
    blocks: tuple[Block, ...]
    active: NDArray[np.int64]
    groups: _Groups
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    step: NDArray[np.float64]
    local: float = 0.0
    squares: float = 0.0
    longest: int = 0
    fixed: bool = False
    rounds: int = 0
    gap: float = 0.0
    gap_each: float = 0.0
    failures: int = 0
    pause: int = 0

    @classmethod
    def nothing(cls, revision: int, y: NDArray[np.float64], active: NDArray[np.int64]) -> InactiveSet:
        """Return the set without inactive requests at prices y; `active`: slots of all requests."""
        none, empty = np.zeros(y.size), Block.active(_NOBODY)
        blocks = empty, empty, empty
        return cls(revision, y, blocks, active, _Groups.none(), none, none, np.full(y.size, np.inf))

    def with_changes(self, block: Block, others: NDArray[np.int64], **fields: Any) -> InactiveSet:
        """Return the set with a block's requests added and `others`, slots outside it, made active."""
        base, middle, recent = self.blocks
        recent, none = updated(recent, block, others), Block.active(_NOBODY)
        if recent.size > _LIMITS[0]:
            middle, recent = updated(middle, recent), none
        if middle.size > _LIMITS[1]:
            base, middle = combined((base, middle), drop_active=True), none
        return replace(self, blocks=(base, middle, recent), **fields)

    def merged(self) -> Block:
        """Return all inactive requests as one block."""
        base, *later = self.blocks
        return combined(self.blocks, drop_active=True) if any(block.size for block in later) else base

    def places(self, slots: NDArray[np.int64]) -> Iterator[tuple[Block, NDArray[np.int64]]]:
        """Yield each block with the places in it, ascending, of the `slots` that no later block has."""
        left = slots
        for block in reversed(self.blocks):
            if left.size and block.size:
                at = find(block.slots, left)
                yield block, at[at >= 0]
                left = left[at < 0]

    def pick(self, slots: NDArray[np.int64]) -> Block:
        """Return a block with some ascending slots; requests that are in no block are active in it."""
        found = Block.active(_NOBODY)
        for block, places in self.places(slots):
            if places.size:
                found = updated(found, block.take(places)) if found.size else block.take(places)
        return found if found.size == slots.size else updated(Block.active(slots), found)

    def x(self) -> SparseX:
        """Return the allocation of all inactive requests."""
        base, middle, recent = self.blocks
        if not middle.size and not recent.size:
            return base.x()
        later, earlier = updated(middle, recent), base.x()
        return merged(earlier.where(find(later.slots, earlier.slot) < 0), later.x())

    def of(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Return columns and values of the nonzeros of one inactive request, and its number of columns."""
        mine = self.pick(np.array([slot]))
        return mine.column, mine.parts.value, int(mine.parts.width.sum())

    def widths(self, size: int) -> NDArray[np.int64]:
        """Return each inactive request's number of columns, and 0 for other requests, by slot (size,)."""
        widths = np.zeros(size, np.int64)
        for block in self.blocks:
            widths[block.slots] = block.parts.width
        return widths

    def last_x(self, program: ContinualProgram) -> LastX:
        """Return the allocation of all inactive requests, as a last allocation of this program."""
        block = self.merged()
        return block.last_x(program, np.arange(block.size))

    def to_arrays(self, name: str) -> dict[str, Any]:
        """Return all fields as arrays and numbers whose names begin with `name`; blocks are merged."""
        return _flat(replace(self, blocks=(self.merged(),)), name)

    @classmethod
    def from_arrays(cls, program: ContinualProgram, arrays: dict[str, Any], name: str) -> InactiveSet:
        """Return the set of the arrays of :meth:`to_arrays`; raise ValueError or KeyError if invalid."""
        template = cls.nothing(0, np.empty(0), np.empty(0, np.int64))
        found: InactiveSet = _restored(replace(template, blocks=template.blocks[:1]), arrays, name)
        fault = found._fault(program)
        if fault:
            raise ValueError(f"inactive requests: {fault}")
        return replace(found, blocks=(*found.blocks, *template.blocks[1:]))

    def _fault(self, program: ContinualProgram) -> str:
        """Return a text that names an inconsistency of the fields or with the program; empty if none."""
        store, block, groups = program.store, self.blocks[0], self.groups
        parts, k, rows = block.parts, block.size, self.y.size
        each = (
            block.group,
            block.threshold,
            block.generation,
            parts.total,
            parts.forced,
            parts.lost,
            parts.width,
        )
        sizes = all(array.size == k for array in each) and parts.start.size == k + 1
        sizes &= block.column.size == parts.value.size == parts.cost.size == parts.entry_start.size - 1
        sizes &= parts.row.size == parts.coefficient.size
        sizes &= self.low.size == self.high.size == self.step.size == rows <= store.rows.size
        sizes &= groups.usage.size == groups.first.size == groups.width.size
        if not sizes:
            return "arrays: must be of equal size"
        for start, end in ((parts.start, block.column.size), (parts.entry_start, parts.row.size)):
            if start[0] != 0 or start[-1] != end or (start[1:] < start[:-1]).any():
                return "starts: must ascend from 0 to the number of entries"
        within: tuple[tuple[NDArray[Any], Any], ...] = (
            (block.slots, store.requests.size),
            (self.active, store.requests.size),
            (block.group, groups.change.size),
            (parts.row, rows),
            (groups.usage, store.usages.size),
            (block.column, np.repeat(parts.width, block.counts)),
        )
        for array, end in within:
            if array.size and not (array.min() >= 0 and (array < end).all()):
                return "slots, groups, rows or columns: must be in range"
        if groups.usage.size and not (groups.first + 2 * groups.width + 2 <= groups.change.size).all():
            return "groups: must be in range"
        if any((array[1:] <= array[:-1]).any() for array in (block.slots, self.active, groups.usage)):
            return "slots: must ascend"
        if groups.first.size and not (groups.first.min() > 0 and groups.width.min() > 0):
            return "groups: must be in range"
        return "" if 0 <= self.revision <= store.clock else "revision: must be one of the program's"

    def differs(self, other: InactiveSet) -> NDArray[np.int64] | None:
        """Return the slots, ascending, of requests that are not inactive with the same allocation in both.

        Requests that are active in both sets are included. Return None if the sets share no block, because
        all requests would have to be compared.
        """
        if self.blocks[0] is not other.blocks[0]:
            return None
        mine, others = self.blocks[1:], other.blocks[1:]
        lists = [block.slots for block, same in zip(mine, others, strict=True) if block is not same]
        lists += [block.slots for block, same in zip(others, mine, strict=True) if block is not same]
        some = distinct(np.concatenate((np.empty(0, np.int64), *lists)))
        a, b = self.pick(some), other.pick(some)
        same = (a.group >= 0) & (b.group >= 0) & (a.generation == b.generation) & (a.counts == b.counts)
        _compare(same, a.parts.start, a.column, a.parts.value, b.parts.start, b.column, b.parts.value)
        return some[~same]


def _flat(value: Any, name: str) -> dict[str, Any]:
    """Return the fields of a record, and of the records in it, by their names."""
    if isinstance(value, np.ndarray | int | float):
        return {name: value}
    if type(value) is tuple:
        named = {str(k): each for k, each in enumerate(value)}
    else:
        named = value._asdict() if hasattr(value, "_asdict") else dict(vars(value))
    return {
        key: array for field, each in named.items() for key, array in _flat(each, f"{name}.{field}").items()
    }


def _restored(template: Any, arrays: dict[str, Any], name: str) -> Any:
    """Return a record with the types of `template` from the output of :func:`_flat`.

    Raise ValueError or KeyError if a field is missing or has another type than the template's.
    """
    if isinstance(template, np.ndarray):
        return as_vector(arrays, name, template.dtype).copy()
    if isinstance(template, int | float):
        if type(arrays[name]) is not type(template):
            raise ValueError(f"{name} = {arrays[name]!r}: must be of type {type(template).__name__}")
        return arrays[name]
    if type(template) is tuple:
        return tuple(_restored(each, arrays, f"{name}.{k}") for k, each in enumerate(template))
    fields = template._asdict() if hasattr(template, "_asdict") else vars(template)
    return type(template)(
        **{field: _restored(each, arrays, f"{name}.{field}") for field, each in fields.items()}
    )


@kernel
def _compare(same, start, column, value, other_start, other_column, other_value):  # type: ignore[no-untyped-def]
    """Set `same` to False for requests whose nonzeros differ; their numbers of nonzeros are equal."""
    for k in range(same.size):
        if same[k]:
            for e in range(start[k + 1] - start[k]):
                i, j = start[k] + e, other_start[k] + e
                if column[i] != other_column[j] or value[i] != other_value[j]:
                    same[k] = False
                    break


@dataclass(frozen=True, eq=False)
class KeptValues:
    """Values of a solution: those of the active requests, and an inactive set for all others.

    `widths`: number of columns of each active request. `count`: number of nonzeros of all requests.
    """

    inactive: InactiveSet
    active: SparseX
    widths: NDArray[np.int64]
    count: int

    def __reduce__(self) -> tuple[Any, ...]:
        size = 1 + max((int(block.slots.max(initial=-1)) for block in self.inactive.blocks), default=-1)
        sizes = self.inactive.widths(max(size, 1 + int(self.inactive.active.max(initial=-1))))
        sizes[self.inactive.active] = self.widths
        return GivenValues, (sizes, self.sparse())

    def sparse(self) -> SparseX:
        """Return the values of all requests, see :class:`copter.solution.Values`."""
        return self._all

    @cached_property
    def _all(self) -> SparseX:
        return merged(self.inactive.x(), self.active)

    def of(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Return columns, values and number of columns of a request, see :class:`copter.solution.Values`."""
        at = find(self.inactive.active, np.array([slot]))[0]
        if at < 0:
            return self.inactive.of(slot)
        mine = self.active.between(slot, slot + 1)
        return mine.column, mine.value, int(self.widths[at])

    def moved_since(self, earlier: Values) -> NDArray[np.int64] | None:
        """Return the slots of requests with changed values, see :class:`copter.solution.Values`."""
        if not isinstance(earlier, KeptValues):
            return None
        others = self.inactive.differs(earlier.inactive)
        if others is None:
            return None
        return distinct(np.concatenate((others, self.inactive.active, earlier.inactive.active)))
