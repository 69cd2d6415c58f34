"""Last round's allocation and prices, restricted to the requests and rows that still exist after edits.

The store reuses the slot of a removed request, and a request keeps its slot if its columns are replaced.  A
slot has the same content as before if its generation is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.store.allocation import SparseX, merged
from copter.store.edit import Moved
from copter.store.slabs import slice_indices

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.edit import Pending, Starts


@dataclass(frozen=True)
class LastX:
    """An allocation, with the generation and the total of the request of each nonzero.

    `paused`: earlier allocations of requests whose total is 0 at present. They keep the division of a total
    among the columns until the total is positive again.
    """

    program: ContinualProgram
    x: SparseX
    generations: NDArray[np.int64]
    totals: NDArray[np.float64]
    paused: LastX | None = None

    @classmethod
    def of(cls, program: ContinualProgram, x: SparseX, before: LastX | None = None) -> LastX:
        """Store an allocation of the present program; `before` provides those of paused requests."""
        table = program.store.requests
        paused = None if before is None or before.program is not program else before._pausing()
        return cls(program, x, table.generation[x.slot], table.total[x.slot], paused)

    def _pausing(self) -> LastX | None:
        """Return the entries of `self` and of `paused` whose requests now have a total of 0."""
        table = self.program.store.requests
        if self.paused is None and not _some_pause(
            self.x.slot, self.generations, self.totals, table.generation, table.total
        ):
            return None
        total = table.total
        parts = [part for part in (self, self.paused) if part is not None]
        keep = [part._same() & (total[part.x.slot] == 0.0) & (part.totals > 0.0) for part in parts]
        if not any(some.any() for some in keep):
            return None
        return joined([part._where(some) for part, some in zip(parts, keep, strict=True)])

    def _where(self, keep: NDArray[np.bool_]) -> LastX:
        return LastX(self.program, self.x.where(keep), self.generations[keep], self.totals[keep])

    @classmethod
    def from_arrays(cls, program: ContinualProgram, state: dict[str, Any], name: str) -> LastX:
        """Return the allocation of the arrays of :meth:`to_arrays` with the same `name`.

        Raise ValueError or KeyError if the arrays are not an allocation of this program.
        """
        whole = (as_vector(state, f"{name}.{part}", np.int64) for part in ("slot", "column", "generations"))
        slot, column, generations = whole
        value, totals = (as_vector(state, f"{name}.{part}", np.float64) for part in ("value", "totals"))
        table = program.store.requests
        if not slot.size == column.size == generations.size == value.size == totals.size:
            raise ValueError(f"{name}: arrays: must be of equal size")
        if slot.size and not (0 <= slot.min() and slot.max() < table.size and 0 <= column.min()):
            raise ValueError(f"{name}: slot or column: must be in the program's range")
        known = table.generation[slot] == generations
        if (column[known] >= table.n_columns[slot[known]]).any():
            raise ValueError(f"{name}: column: must be a column of its request")
        part = f"{name}.paused"
        paused = cls.from_arrays(program, state, part) if f"{part}.slot" in state else None
        return cls(program, SparseX(slot, column, value), generations, totals, paused)

    def to_arrays(self, name: str) -> dict[str, Any]:
        """Return all data except the program, as arrays whose names begin with ``name``."""
        parts = self.x._asdict() | {"generations": self.generations, "totals": self.totals}
        arrays = {f"{name}.{part}": array for part, array in parts.items()}
        return arrays if self.paused is None else arrays | self.paused.to_arrays(f"{name}.paused")

    def _same(self) -> NDArray[np.bool_]:
        generation: NDArray[np.int64] = self.program.store.requests.generation
        return generation[self.x.slot] == self.generations

    def surviving(self) -> SparseX:
        """Return the entries of unchanged requests, scaled to their present totals."""
        table = self.program.store.requests
        x = SparseX(*_surviving(*self.x, self.generations, self.totals, table.generation, table.total))
        if self.paused is not None:
            back = self.paused.surviving()
            x = merged(x, back.where((back.value > 0.0) & ~np.isin(back.slot, x.slot)))
        return x

    def marked(self) -> SparseX:
        """Return all entries for the count of churn, with slot ``-1 - slot`` where the request is gone."""
        return SparseX(np.where(self._same(), self.x.slot, -1 - self.x.slot), self.x.column, self.x.value)


def given_starts(pending: Pending, last: LastX | None) -> Starts:
    """Return the starts of requests; starts of moved columns are taken from the last allocation.

    A request is left out if the last allocation has none of its columns.
    """
    found: Starts = {slot: start for slot, start in pending.items() if not isinstance(start, Moved)}
    movers = sorted(slot for slot, start in pending.items() if isinstance(start, Moved))
    if last is None or not movers:
        return found
    moves = [pending[slot] for slot in movers]
    slots, generations = np.array(movers), np.array([move.generation for move in moves])  # type: ignore[union-attr]
    olds = [move.old for move in moves]  # type: ignore[union-attr]
    sizes, old = np.array([each.size for each in olds]), np.concatenate(olds)
    new, owner = slice_indices(np.zeros_like(sizes), sizes), np.repeat(np.arange(sizes.size), sizes)
    # maps each old column to its new one, request after request
    widths = np.maximum.reduceat(old, sizes.cumsum() - sizes) + 1
    base, there = widths.cumsum() - widths, old >= 0
    place = np.full(int(widths.sum()), -1)
    place[base[owner[there]] + old[there]] = new[there]
    begin, end = (np.searchsorted(last.x.slot, slots, side) for side in ("left", "right"))
    entry, of = slice_indices(begin, end - begin), np.repeat(np.arange(sizes.size), end - begin)
    same = (last.generations[entry] == generations[of]) & (last.x.column[entry] < widths[of])
    entry, of = entry[same], of[same]
    column = place[base[of] + last.x.column[entry]]
    order = np.lexsort((column, of))
    order = order[column[order] >= 0]
    column, value, of = column[order], last.x.value[entry[order]], of[order]
    ends = np.searchsorted(of, np.arange(sizes.size), "right").tolist()
    for slot, first, stop in zip(movers, [0, *ends], ends, strict=False):
        if stop > first:
            found[slot] = column[first:stop], value[first:stop]
    return found


def joined(parts: list[LastX]) -> LastX:
    """Return the union of allocations of different requests."""
    slot = np.concatenate([part.x.slot for part in parts])
    order = np.argsort(slot, kind="stable")  # merges ascending runs
    column, value = (np.concatenate([part.x[k] for part in parts])[order] for k in (1, 2))
    generations, totals = (
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("generations", "totals")
    )
    return LastX(parts[0].program, SparseX(slot[order], column, value), generations, totals)


@kernel(allocates=True)
def _surviving(slot, column, value, generations, totals, generation, total):  # type: ignore[no-untyped-def]
    """Return the entries of requests with the same generation, scaled to their present totals."""
    slots, columns = np.empty(slot.size, np.int64), np.empty(slot.size, np.int64)
    values, count = np.empty(slot.size), 0
    for k in range(slot.size):
        if generation[slot[k]] != generations[k]:
            continue
        now, before = total[slot[k]], totals[k]
        changed = now != before and before > 0.0 and np.isfinite(now) and np.isfinite(before)
        slots[count], columns[count] = slot[k], column[k]
        values[count] = value[k] * (now / before) if changed else value[k]
        count += 1
    return slots[:count], columns[:count], values[:count]


@kernel
def _some_pause(slot, generations, totals, generation, total):  # type: ignore[no-untyped-def]
    """Return whether any unchanged request had a positive total and now has a total of 0."""
    for k in range(slot.size):
        if total[slot[k]] == 0.0 and totals[k] > 0.0 and generation[slot[k]] == generations[k]:
            return True
    return False


@dataclass(frozen=True)
class LastY:
    """Prices by row slot, and the generations of the rows."""

    program: ContinualProgram
    y: NDArray[np.float64]
    generations: NDArray[np.int64]

    @classmethod
    def of(cls, program: ContinualProgram, y: NDArray[np.float64]) -> LastY:
        """Store prices of the present program."""
        return cls(program, y, program.store.rows.generation[: y.size].copy())

    @classmethod
    def from_arrays(cls, program: ContinualProgram, state: dict[str, Any]) -> LastY:
        """Return the prices of the arrays of :meth:`to_arrays`.

        Raise ValueError or KeyError if the arrays do not fit the program.
        """
        y, generations = as_vector(state, "y", np.float64), as_vector(state, "y.generations", np.int64)
        if y.size != generations.size or y.size > program.store.rows.size:
            raise ValueError("y: must have one price for each row")
        return cls(program, y, generations)

    def to_arrays(self) -> dict[str, Any]:
        """Return all data except the program, as named arrays."""
        return {"y": self.y, "y.generations": self.generations}

    def surviving(self) -> NDArray[np.float64]:
        """Return prices of the present rows, shape (row slots,), with 0 for new rows."""
        rows = self.program.store.rows
        known = rows.generation[: self.y.size] == self.generations
        return np.concatenate((np.where(known, self.y, 0.0), np.zeros(rows.size - self.y.size)))


def as_vector(state: dict[str, Any], name: str, dtype: Any) -> NDArray[Any]:
    """Return a vector of a solver's saved state; raise ValueError or KeyError if it is missing."""
    array = state[name]
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
        raise ValueError(f"{name}: must be a vector of {np.dtype(dtype)}")
    return array


def churn_base(last: LastX | None, program: ContinualProgram) -> SparseX | None:
    """Return the allocation with which a round of ``program`` is compared; None in the first round."""
    return None if last is None or last.program is not program else last.marked()
