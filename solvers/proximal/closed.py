"""Closed requests: those whose allocation is known to be the best, so that nobody need look at them.

A request is *closed* at its best vertex and stays so until the prices have come as far as its margin, its
expiry (:mod:`copter.proof.margins`), or until it is edited.  What closed requests add to objective, bound and
rows is kept in sums that are exact (:mod:`copter.proof.rest`).  All others are *open*: edited, fractional,
tied, expired.  So a round costs what is open (:mod:`copter.solvers.proximal.lazy`).

Expiries are looked at in levels: a few requests that are near theirs each round, some more once the paths of
the classes have come so far that one of these might have expired, all of them once that holds for these.

Where columns are each request's own and rows are many, as paths in a network, any move of the prices would
concern all requests, and many are tied.  There all are closed as they are, with what each of them loses at
the last prices, for as long as these may stay.  That is called *frozen*.

Answers of earlier rounds share what is closed now: each remembers what was opened and closed since, if anyone
still holds it (Baker's arrays with versions: the newest has the array, the others their differences).

Source: of the versions, Baker, Shallow binding makes functional arrays fast (1991).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.proof.margins import OWN_COLUMNS, best_vertices, lengthen, widen
from copter.proof.rest import Rest, RestSums
from copter.solution import GivenValues, Values
from copter.solvers.memory import LastX, as_vector, joined
from copter.store.allocation import NOTHING, SparseX, distinct, merged
from copter.store.slabs import Pool, slice_indices

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.measure import Measures
    from copter.store.view import StoreView

_OPEN = -1
_NUMBERS = ("touched", "rounds", "gap", "gap_each", "failures", "pause", "frozen")
_ARRAYS: dict[str, Any] = {
    "path": np.float64,
    "first": np.int64,
    "sized": np.int64,
    "classes": np.int64,
    "low": np.float64,
    "high": np.float64,
}
"""What is saved of it as it is, by name."""
_EPS = 2.0**-52
_SHARED_FROM = 4
"""Requests that must share columns for these to have classes of their own."""
_NEAR, _LESS, _WIDEST = 512, 64, 8
"""Requests of the first level, how many times as many the next one has, and how many times it may grow."""
_NEARLY = 0.5
"""Share of its reach after which a level is chosen anew with the one beneath it."""
_ROUNDS_LOGGED = 8
"""Rounds back to which is known what changed since."""
_FEW_NOTED = 10_000
"""Differences of earlier answers that are kept at least, before these are put together."""
_CHUNK = 1 << 18
"""Requests that are closed in one piece: so much less memory is in use for a while."""


class Vertices(NamedTuple):
    """Allocations of some requests, as they are closed.

    Attributes
    ----------
    slots, counts : (k,) ndarrays
        Slots in ascending order, and numbers of columns that are not 0.
    column, value : (sum(counts),) ndarrays
    lost : (k,) ndarray
        What each of them loses at the last prices; nothing unless they are frozen.
    """

    slots: NDArray[np.int64]
    counts: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float64]
    lost: NDArray[np.float64]

    def sparse(self) -> SparseX:
        """The nonzeros."""
        return SparseX(self.slots.repeat(self.counts), self.column, self.value)

    def fault(self, n_columns: NDArray[np.int64]) -> str:
        """Why they are no allocations of requests with so many columns, in words; empty if they are.

        Parameters
        ----------
        n_columns : (request slots,) ndarray
        """
        if not self.slots.size == self.counts.size == self.lost.size or (self.counts < 0).any():
            return "arrays of different sizes"
        if self.column.size != self.counts.sum() or self.column.size != self.value.size:
            return "arrays of different sizes"
        if self.slots.size and not (0 <= self.slots[0] and self.slots[-1] < n_columns.size):
            return "a slot is out of range"
        if (self.slots[1:] <= self.slots[:-1]).any() or (n_columns[self.slots] == 0).any():
            return "slots do not ascend, or are those of nobody"
        return self.sparse().fault(n_columns)

    def where(self, keep: NDArray[np.bool_]) -> Vertices:
        """Those of some requests.

        Parameters
        ----------
        keep : (k,) truth values
        """
        each = keep.repeat(self.counts)
        mine = self.slots[keep], self.counts[keep]
        return Vertices(*mine, self.column[each], self.value[each], self.lost[keep])


class _Level:
    """Requests that are looked at for expiries, and how far paths may go before others must be.

    Attributes
    ----------
    reach : float
        All other closed requests had more than this left when they were chosen.
    moved : float
        How far any path has come since, at most.
    """

    def __init__(self, slots: NDArray[np.int64], reach: float) -> None:
        self._parts, self.reach, self.moved = [slots], reach, 0.0

    @property
    def slots(self) -> NDArray[np.int64]:
        """Their slots; some may have been opened since, or be there twice."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    def add(self, slots: NDArray[np.int64]) -> None:
        """Put requests into it, without a look at those that are there, of which there may be many.

        Parameters
        ----------
        slots : (k,) ndarray
        """
        self._parts.append(slots)

    @property
    def spent(self) -> bool:
        """Whether others might have expired."""
        return not self.moved < self.reach


class Closed:
    """The closed requests of a program after a solve.

    Parameters
    ----------
    program : ContinualProgram
        Its requests are in this process, and none has a convex term.
    y : (row slots,) ndarray
        Prices of the solve.

    Attributes
    ----------
    requests, nonzeros : int
        How many are closed, and how many columns they use.
    sums : RestSums
        What they add to certificates.
    rounds : int
        Solves since they were closed.
    known : list of LastX
        Last allocations of requests that are open, and of those that were when the round began.
    gap, gap_each : float
        Gap of the last solve, and what each edited request is expected to add if prices stay as they are.
    failures, pause : int
        How often in a row that was not enough, and in how many rounds it is not to be tried.
    usable : bool
        Whether it still knows what is closed; not once most of it was edited.
    frozen : bool
        Whether requests are closed as they are, and not because they have a margin.
    """

    def __init__(self, program: ContinualProgram, x: LastX, y: NDArray[np.float64]) -> None:
        self.program = program
        store = program.store
        self.y = y.copy()
        self.requests = self.nonzeros = self.rounds = 0
        self.touched = 0
        self.usable, self.frozen = True, False
        self.gap = self.gap_each = 0.0
        self.failures = self.pause = 0
        self._last: LastX | None = None
        self._pool = Pool(column=np.int32, value=np.float64)
        self.sums = RestSums(store.rows.size)
        self._path = np.zeros(1)
        self._first = np.full(0, -1, np.int64)
        self._sized = np.zeros(0, np.int64)
        self._classes: NDArray[np.int64] = np.empty(0, np.int64)
        self._low, self._high = np.zeros(store.rows.size), np.zeros(store.rows.size)
        self._length = np.empty(0, np.int32)
        self._column, self._value = np.empty(0, np.int32), np.empty(0)
        self._expiry, self._lost = np.empty(0), np.empty(0)
        self._of_class = np.empty(0, np.int32)
        self._fresh: list[NDArray[np.int64]] = []
        self._settled = False
        self._edited: list[NDArray[np.int64]] = []
        self._levels: list[_Level] = []
        self._newest: weakref.ref[Version] | None = None
        self._versions: weakref.WeakSet[Version] = weakref.WeakSet()
        self._noted = 0
        self._number, self._moved = 0, [np.empty(0, np.int64)]
        self._log: deque[NDArray[np.int64]] = deque(maxlen=_ROUNDS_LOGGED)
        self._seen: tuple[int, StoreView] | None = None
        self.known = [x]
        self._fit()
        slots = store.live_requests()
        self._fresh.append(slots)
        store.watchers.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Closed.from_arrays, (self.program, self.to_arrays())

    def to_arrays(self) -> dict[str, Any]:
        """What :meth:`from_arrays` makes it again from, but for the program."""
        held, levels = self.all_held(), self._levels
        reaches = np.array([(level.reach, level.moved) for level in levels]).ravel()
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        arrays = {name: getattr(self, f"_{name}") for name in _ARRAYS}
        arrays |= held._asdict() | {
            "expiry": self._expiry[held.slots],
            "of_class": self._of_class[held.slots],
        }
        arrays |= {"y": self.y, "opened": self.opened(), "edited": self.edited(), "step": self.sums.step}
        arrays |= {"levels": reaches, "violated": np.array([self.sums.local, self.sums.squares])}
        arrays |= {f"level {k}": level.slots for k, level in enumerate(levels)}
        known = joined(self.known).to_arrays("closed.known")
        return {f"closed.{name}": each for name, each in (numbers | arrays).items()} | known

    @classmethod
    def from_arrays(cls, program: ContinualProgram, arrays: dict[str, Any]) -> Closed:
        """What :meth:`to_arrays` returned.

        Raises
        ------
        ValueError, KeyError
            The arrays are none of closed requests of this program.
        """
        table = program.store.requests
        closed = cls(program, LastX.from_arrays(program, arrays, "closed.known"), np.zeros(0))
        for name in _NUMBERS:
            value = arrays[f"closed.{name}"]
            if not isinstance(value, type(getattr(closed, name))):
                raise ValueError(f"closed.{name} is {value!r}")
            setattr(closed, name, value)
        each = {name: as_vector(arrays, f"closed.{name}", np.int64) for name in ("slots", "counts", "column")}
        value, lost = (as_vector(arrays, f"closed.{name}", np.float64) for name in ("value", "lost"))
        held = Vertices(**each, value=value, lost=lost)
        expiry = as_vector(arrays, "closed.expiry", np.float64)
        of_class = as_vector(arrays, "closed.of_class", np.int32)
        fault = held.fault(table.n_columns[: table.size])
        if fault or not expiry.size == of_class.size == held.slots.size:
            raise ValueError(f"closed requests: {fault or 'arrays of different sizes'}")
        for name, dtype in _ARRAYS.items():
            setattr(closed, f"_{name}", as_vector(arrays, f"closed.{name}", dtype).copy())
        closed.y = as_vector(arrays, "closed.y", np.float64).copy()
        closed._fresh = [as_vector(arrays, "closed.opened", np.int64)]
        closed._edited = [as_vector(arrays, "closed.edited", np.int64)]
        closed._check_sizes(of_class)
        closed.sums.fit(closed.y.size)
        closed._fit()
        closed.requests = closed.nonzeros = 0
        closed._hold(held)
        closed.sums.step = as_vector(arrays, "closed.step", np.float64).copy()
        closed.sums.as_they_are = closed.frozen
        closed.sums.note_violations(*as_vector(arrays, "closed.violated", np.float64).tolist())
        closed._of_class[held.slots], closed._expiry[held.slots] = of_class, expiry
        levels = as_vector(arrays, "closed.levels", np.float64).reshape(-1, 2).tolist()
        for k, (reach, moved) in enumerate(levels):
            level = _Level(as_vector(arrays, f"closed.level {k}", np.int64), reach)
            level.moved = moved
            closed._levels.append(level)
        slots = [closed._fresh[0], closed._edited[0], *(level.slots for level in closed._levels)]
        if any(some.size and not (0 <= some.min() and some.max() < table.size) for some in slots):
            raise ValueError("closed requests: no such slot")
        return closed

    def _check_sizes(self, of_class: NDArray[np.int32]) -> None:
        """Raise ValueError if arrays that were read do not belong together."""
        rows, usages = self.program.store.rows.size, self.program.store.usages
        good = self.y.size == self._low.size == self._high.size <= rows
        good &= self._first.size == self._sized.size <= usages.size and self._path.size > 0
        some = self._classes
        if good and some.size:
            good = bool((0 <= some.min()) & (some.max() < self._first.size))
            good = good and bool((self._first[some] + 2 * self._sized[some] + 2 <= self._path.size).all())
            good = good and bool((self._first[some] > 0).all() and (self._sized[some] > 0).all())
        if good and of_class.size:
            good = bool((0 <= of_class.min()) & (of_class.max() < self._path.size))
        if not good:
            raise ValueError("closed requests: arrays that do not belong together")

    # ---- what is open ------------------------------------------------------------------------------

    def before_edit(self, slots: NDArray[np.int64]) -> None:
        """Open what is about to be edited."""
        self.touched += slots.size
        self._settled = False
        self._edited.append(slots)
        if 4 * self.touched > max(64, self.requests):
            self.drop()
            return
        self.open(slots)

    def after_adding(self, slots: NDArray[np.int64]) -> None:
        """Take note of requests that are new."""
        self.touched += slots.size
        self._edited.append(slots)
        self._fresh.append(slots)
        self._moved.append(slots)

    def open(self, slots: NDArray[np.int64]) -> None:
        """Open those of some requests that are closed."""
        if not slots.size:
            return
        inside = slots[slots < self._length.size]
        some = inside[self._length[inside] >= 0]
        if not some.size:
            return
        some, table = distinct(some), self.program.store.requests
        held = self._held(some)
        self.sums.add(self._view(), *held, -1.0)
        for slot in some[held.counts > 1].tolist():
            self._pool.free(int(self._column[slot]), int(self._length[slot]))
        self._length[some] = _OPEN
        self.requests -= some.size
        self.nonzeros -= held.column.size
        self._note(_Event(held, table.n_columns[some]))
        x = held.sparse()
        self.known.append(LastX(self.program, x, table.birth[x.slot], table.total[x.slot]))
        self._fresh.append(some)
        self._moved.append(some)

    def opened(self) -> NDArray[np.int64]:
        """Slots of all open requests, ascending; the same array until that changes."""
        if len(self._fresh) == 1 and self._settled:
            return self._fresh[0]
        self._fit()
        slots = distinct(np.concatenate(self._fresh)) if self._fresh else np.empty(0, np.int64)
        live = (self.program.store.requests.n_columns[slots] > 0) & (self._length[slots] < 0)
        self._fresh, self._settled = [slots[live]], True
        return self._fresh[0]

    def edited(self) -> NDArray[np.int64]:
        """Slots of requests that there are, and that were edited or added since the last solve, ascending."""
        if not self._edited:
            return np.empty(0, np.int64)
        slots = distinct(np.concatenate(self._edited))
        return slots[self.program.store.requests.n_columns[slots] > 0]

    def best(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], SparseX]:
        """Margins and best vertices of some requests at the last prices.

        Parameters
        ----------
        slots : (k,) ndarray
            Ascending.

        Returns
        -------
        (k,) ndarray
            Not positive where several vertices may be the best.
        SparseX
        """
        margin, _, held = self._best(slots)
        return margin, held.sparse()

    def last_x(self) -> LastX:
        """The last allocation, of closed and open requests."""
        if self._last is not None:
            return self._last
        table = self.program.store.requests
        closed = self.all_held().sparse()
        mine = LastX(self.program, closed, table.birth[closed.slot], table.total[closed.slot])
        return joined([mine, *self.known])

    def drop(self) -> None:
        """Know nothing from now on but the last allocation, and what earlier answers were."""
        if not self.usable:
            return
        for version in list(self._versions):
            version.sparse()
        self._stop(self.last_x())

    def break_off(self) -> None:
        """Know nothing at all: something went wrong in the middle of a solve."""
        self._stop(LastX.of(self.program, NOTHING))

    def _stop(self, last: LastX) -> None:
        self._last, self.usable = last, False
        self.program.store.watchers.discard(self)

    # ---- closing -----------------------------------------------------------------------------------

    def close(self, slots: NDArray[np.int64], x: SparseX) -> None:
        """Close those of some open requests that have the only best allocation at the last prices.

        Parameters
        ----------
        slots : (k,) ndarray
            Ascending.
        x : SparseX
            Their allocations.
        """
        for begin in range(0, slots.size, _CHUNK):
            part = slots[begin : begin + _CHUNK]
            mine = x.between(part[0], part[-1] + 1)
            margin, of_class, held = self._best(part)
            keep = (margin > 0.0) & _same(held, mine)
            self._close(held.where(keep), margin[keep], of_class[keep])

    def freeze(self, slots: NDArray[np.int64], x: SparseX, found: Measures) -> None:
        """Close some open requests as they are.

        Parameters
        ----------
        slots : (k,) ndarray
            Ascending.
        x : SparseX
            Their allocations.
        found : Measures
            At the last prices; losses of these requests in their order.
        """
        self.frozen = self.sums.as_they_are = True
        self._fit()
        if not slots.size:
            return
        counts = np.bincount(np.searchsorted(slots, x.slot), minlength=slots.size)
        self._hold_from_now(Vertices(slots, counts, x.column, x.value, found.loss))
        self.sums.note_violations(found.local, found.squares)

    def reprice(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Price closed requests anew, whose expiry has come; those with another best allocation are opened.

        Returns
        -------
        (k,) ndarray
            Slots of what was opened.
        """
        if not slots.size:
            return slots
        margin, of_class, held = self._best(slots)
        x = self._held(slots).sparse()
        keep = (margin > 0.0) & _same(held, x)
        stay = slots[keep]
        self._of_class[stay] = of_class[keep]
        self._expiry[stay] = _expiries(self._path, of_class[keep], margin[keep])
        self._widen(stay, of_class[keep])
        self._look_at(stay)
        self.open(slots[~keep])
        return slots[~keep]

    def move(self, y: NDArray[np.float64], most: float = np.inf) -> NDArray[np.int64] | None:
        """Move the prices; returns the slots of closed requests whose expiry has come.

        Parameters
        ----------
        y : (row slots,) ndarray
        most : float
            So many may expire; of more the prices stay as they were, and None is returned.
        """
        store = self.program.store
        self._fit()
        d = y - self.y
        if not d.any():
            return np.empty(0, np.int64)
        usages, before = store.usages, self._path.copy()
        moved = lengthen(
            self._view(),
            self._live_classes(),
            usages.n_columns[: usages.size],
            self._first,
            self._high - self._low,
            d,
            self._path,
        )
        for level in self._levels:
            level.moved += moved
        expired = self._expired()
        if expired.size > most:
            self._path = before  # levels are as good as they would be after the move
            return None
        self.y = y.copy()
        return expired

    def stays_at(self, y: NDArray[np.float64]) -> bool:
        """Whether these are the last prices still, with 0 for rows that are new.

        Parameters
        ----------
        y : (row slots,) ndarray
        """
        self._fit()
        return np.array_equal(self.y, y)

    def settle(self, x: LastX) -> None:
        """Say what the open requests have after a solve."""
        self.known, self.touched, self._edited = [x], 0, []

    def rest(self) -> Rest:
        """What the closed requests add to certificates."""
        return self.sums.rest()

    def nearest(self, most: int) -> NDArray[np.int64]:
        """Slots of closed requests that are nearest to their expiry, so many at most."""
        near = self._levels[0].slots if self._levels and most else np.empty(0, np.int64)
        near = distinct(near[self._length[near] >= 0])
        if near.size <= most:
            return near
        return near[np.argpartition(self.left(near), most)[:most]]

    def version(self, x: SparseX, slots: NDArray[np.int64]) -> Version:
        """The allocation as it is now: x of the open requests in some slots, and of the closed ones."""
        before = None if self._newest is None else self._newest()
        self._number += 1
        self._log.append(distinct(np.concatenate((*self._moved, slots))))
        self._moved = [slots]
        now = Version(self, x, slots, self._number)
        if before is not None:
            before.later = now
        if self._noted > max(_FEW_NOTED, self.requests):  # whoever holds old answers pays for them once
            for version in list(self._versions):
                version.sparse()
            self._noted = 0
        self._newest = weakref.ref(now)
        self._versions.add(now)
        return now

    def moved_between(self, first: int, last: int) -> NDArray[np.int64] | None:
        """Slots of requests that may have changed from one version to a later one, by their numbers.

        Returns
        -------
        (k,) ndarray or None
            None if that is too long ago.
        """
        log, end = list(self._log), len(self._log) - (self._number - last)
        begin = end - (last - first)
        if not 0 <= begin <= end:
            return None
        return distinct(np.concatenate((np.empty(0, np.int64), *log[begin:end])))

    def held(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Columns and values of a closed request's nonzeros, and its number of columns."""
        if slot >= self._length.size or self._length[slot] < 0:  # it is gone
            return NOTHING.column, NOTHING.value, 0
        mine = self._held(np.array([slot]))
        return mine.column, mine.value, int(self.program.store.requests.n_columns[slot])

    def all_held(self) -> Vertices:
        """Allocations of all closed requests."""
        return self._held(np.flatnonzero(self._length >= 0))

    # ---- parts -------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """Make room for all requests, rows and usages that there are now."""
        store = self.program.store
        size, rows, usages = store.requests.size, store.rows.size, store.usages.size
        if size > self._length.size:
            more = max(size, self._length.size + self._length.size // 2) - self._length.size
            self._length = np.concatenate((self._length, np.full(more, _OPEN, np.int32)))
            self._column = np.concatenate((self._column, np.zeros(more, np.int32)))
            self._value = np.concatenate((self._value, np.zeros(more)))
            self._expiry = np.concatenate((self._expiry, np.zeros(more)))
            self._of_class = np.concatenate((self._of_class, np.zeros(more, np.int32)))
        if self.frozen and size > self._lost.size:
            self._lost = np.concatenate((self._lost, np.zeros(self._length.size - self._lost.size)))
        if rows > self.y.size:
            fresh = np.zeros(rows - self.y.size)
            self.y = np.concatenate((self.y, fresh))
            self._low, self._high = (np.concatenate((each, fresh)) for each in (self._low, self._high))
            self.sums.fit(rows)
        if usages > self._first.size:
            fresh = np.full(usages - self._first.size, -1)
            self._first = np.concatenate((self._first, fresh))
            self._sized = np.concatenate((self._sized, fresh))

    def _view(self) -> StoreView:
        """All columns, as they are until the next edit."""
        store = self.program.store
        if self._seen is None or self._seen[0] != store.clock:
            self._seen = store.clock, store.executor.all_columns()
        return self._seen[1]

    def _held(self, slots: NDArray[np.int64]) -> Vertices:
        arrays = self._length, self._column, self._value, self._pool.column, self._pool.value
        lost = self._lost[slots] if self.frozen else np.zeros(slots.size)
        counts, column, value = _read(slots, *arrays)
        return Vertices(slots, counts, column, value, lost)

    def _best(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int32], Vertices]:
        """Margins, classes and best vertices at the last prices."""
        self._begin_classes(slots)
        found = best_vertices(self._view(), self.y, slots, self._first)
        margin, of_class, count, column, value = found
        return margin, of_class, Vertices(slots, count, column, value, np.zeros(slots.size))

    def _begin_classes(self, slots: NDArray[np.int64]) -> None:
        """Give shared columns classes, if they have none."""
        store, usages = self.program.store, self.program.store.usages
        some = distinct(store.requests.usage[slots])
        sizes = usages.n_columns[some]
        fresh = (self._sized[some] != sizes) & (usages.references[some] >= _SHARED_FROM)
        self._first[some[self._sized[some] != sizes]] = -1  # slots of usages are used again
        if not fresh.any():
            return
        some, sizes = some[fresh], sizes[fresh]
        room = 2 * sizes + 2
        self._first[some] = self._path.size + room.cumsum() - room
        self._sized[some] = sizes
        self._path = np.concatenate((self._path, np.zeros(int(room.sum()))))
        self._classes = np.union1d(self._classes, some)

    def _live_classes(self) -> NDArray[np.int64]:
        """Shared columns that have classes, and are still there."""
        usages, some = self.program.store.usages, self._classes
        same = (usages.references[some] > 0) & (usages.n_columns[some] == self._sized[some])
        if not same.all():
            self._sized[some[~same]] = self._first[some[~same]] = -1
            self._classes = some[same]
        return self._classes

    def _close(self, held: Vertices, margin: NDArray[np.float64], of_class: NDArray[np.int32]) -> None:
        slots = held.slots
        if not slots.size:
            return
        self._hold_from_now(held)
        self._of_class[slots] = of_class
        self._expiry[slots] = _expiries(self._path, of_class, margin)
        self._widen(slots, of_class)
        self._look_at(slots)

    def _hold_from_now(self, held: Vertices) -> None:
        """Hold what was open until now."""
        self._hold(held)
        self._settled = False
        self._note(_Event(held._replace(counts=np.full(held.slots.size, _OPEN)), held.slots))

    def _hold(self, held: Vertices) -> None:
        """Take requests into the sums, and keep their allocations."""
        slots = held.slots
        self.sums.add(self._view(), *held)
        several = np.flatnonzero(held.counts > 1)
        if several.size:
            counts = held.counts[several]
            mine = slice_indices(held.counts.cumsum()[several] - counts, counts)
            self._column[slots[several]] = self._pool.put(
                counts, column=held.column[mine], value=held.value[mine]
            )
        _write(slots, held.counts, held.column, held.value, self._length, self._column, self._value)
        if self.frozen:
            self._lost[slots] = held.lost
        self.requests += slots.size
        self.nonzeros += held.column.size

    def _widen(self, slots: NDArray[np.int64], of_class: NDArray[np.int32]) -> None:
        own = slots[of_class == OWN_COLUMNS]
        if own.size:
            widen(self._view(), own, self._low, self._high)

    def _note(self, event: _Event) -> None:
        newest = None if self._newest is None else self._newest()
        if newest is not None:
            newest.events.append(event)
            self._noted += event.held.slots.size

    def left(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """How far the paths of some closed requests may go until their expiry.

        Parameters
        ----------
        slots : (k,) ndarray

        Returns
        -------
        (k,) ndarray
        """
        return self._expiry[slots] - self._path[self._of_class[slots]]

    def _look_at(self, slots: NDArray[np.int64]) -> None:
        """Put requests into the levels that they belong to now."""
        left = self.left(slots)
        for level in self._levels:
            inside = slots[left <= level.reach - level.moved]
            if inside.size:
                level.add(inside)

    def _expired(self) -> NDArray[np.int64]:
        """Slots of closed requests whose expiry has come, ascending; levels are chosen anew if need be."""
        levels = self._levels
        if not levels or levels[0].spent or levels[0].slots.size > _WIDEST * _NEAR:
            self._choose_levels()
        near = self._levels[0].slots
        expired: NDArray[np.int64] = _past(near, self._length, self._expiry, self._of_class, self._path)
        return distinct(expired)

    def _choose_levels(self) -> None:
        """Choose the first level anew, and those above it that are nearly spent."""
        sizes = [_NEAR]
        while sizes[-1] * _LESS < self.requests:
            sizes.append(sizes[-1] * _LESS)
        if len(sizes) != len(self._levels):
            self._levels = [_Level(np.empty(0, np.int64), 0.0) for _ in sizes]
        stale = 1
        while stale < len(sizes) and self._levels[stale].moved >= _NEARLY * self._levels[stale].reach:
            stale += 1
        for k in range(stale - 1, -1, -1):
            if k + 1 < len(sizes):
                above = self._levels[k + 1]
                slots, reach = distinct(above.slots), above.reach - above.moved
                slots = slots[self._length[slots] >= 0]
            else:
                slots, reach = np.flatnonzero(self._length >= 0), np.inf
            left = self.left(slots)
            many = sizes[k] + int(np.count_nonzero(left <= 0.0))  # all that have expired, and some more
            if left.size > many:
                reach = min(reach, float(np.partition(left, many)[many]))
            self._levels[k] = _Level(slots[left <= reach], reach)


class _Event(NamedTuple):
    """Requests that were opened, with what they had, or closed (with a count of -1)."""

    held: Vertices
    sizes: NDArray[np.int64]


class Version:
    """The allocation of a round, as :class:`Closed` and the differences since then know it.

    Parameters
    ----------
    x : SparseX
        Of the open requests.
    slots : (k,) ndarray
        Of the open requests, ascending.
    number : int
        How many there were, with this one.

    Attributes
    ----------
    count : number of nonzeros
    events : what was opened and closed until the next version
    later : the next one, if there is one
    """

    def __init__(self, closed: Closed, x: SparseX, slots: NDArray[np.int64], number: int) -> None:
        self._closed, self._open, self._slots, self._number = closed, x, slots, number
        self._sizes = closed.program.store.requests.n_columns[slots]
        self.count = closed.nonzeros + x.value.size
        self.events: list[_Event] = []
        self.later: Version | None = None
        self._whole: SparseX | None = None
        self._widths: NDArray[np.int64] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return GivenValues, (self.sizes(), self.sparse())

    def sparse(self) -> SparseX:
        """All nonzeros."""
        if self._whole is None:
            self._materialise()
            assert self._whole is not None
        return self._whole

    def sizes(self) -> NDArray[np.int64]:
        """Numbers of columns by request slot; of requests that there were."""
        self.sparse()
        assert self._widths is not None
        return self._widths

    def of(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Columns and values of the nonzeros of one request, and its number of columns."""
        at = int(np.searchsorted(self._slots, slot))
        if at < self._slots.size and self._slots[at] == slot:
            mine = self._open.between(slot, slot + 1)
            return mine.column, mine.value, int(self._sizes[at])
        if self._whole is None and not any(self._since()):
            return self._closed.held(slot)
        mine = self.sparse().between(slot, slot + 1)
        return mine.column, mine.value, int(self.sizes()[slot])

    def moved_since(self, earlier: Values) -> NDArray[np.int64] | None:
        """Slots of requests whose values may be others than in an earlier version; None if not known."""
        if not isinstance(earlier, Version) or earlier._closed is not self._closed:
            return None
        return self._closed.moved_between(earlier._number, self._number)

    def _since(self) -> Iterator[list[_Event]]:
        """What was opened and closed from this version to the next, and so on to now."""
        version: Version | None = self
        while version is not None:
            yield version.events
            version = version.later

    def _materialise(self) -> None:
        """Undo what was opened and closed since, and forget where that is known."""
        events = list(chain.from_iterable(self._since()))
        table = self._closed.program.store.requests
        x, sizes = self._closed.all_held().sparse(), table.n_columns[: table.size].copy()
        sizes[self._slots] = self._sizes
        if events:
            slots = np.concatenate([event.held.slots for event in events])
            first = np.unique(slots, return_index=True)[1]  # the earliest says what there was
            changed = np.zeros(max(sizes.size, int(slots.max()) + 1), np.bool_)
            changed[slots] = True
            x, begin = x.where(~changed[x.slot]), 0
            for event in events:
                end = begin + event.held.slots.size
                mine = np.zeros(event.held.slots.size, np.bool_)
                mine[first[(first >= begin) & (first < end)] - begin] = True
                mine &= event.held.counts >= 0
                begin = end
                if mine.any():
                    before = event.held.where(mine)
                    x = merged(x, before.sparse())
                    sizes[before.slots] = event.sizes[mine]
        self._whole, self._widths = merged(x, self._open), sizes
        self.events, self.later = [], None


def _same(held: Vertices, x: SparseX) -> NDArray[np.bool_]:
    """Of which requests x is just what is held."""
    same: NDArray[np.bool_] = _compare(*held[:4], *x)
    return same


@kernel(allocates=True)
def _compare(slots, count, column, value, x_slot, x_column, x_value):  # type: ignore[no-untyped-def]
    same, at, i = np.ones(slots.size, np.bool_), 0, 0
    for k in range(slots.size):
        while i < x_slot.size and x_slot[i] < slots[k]:
            i += 1
        for e in range(at, at + count[k]):
            if (
                i < x_slot.size
                and x_slot[i] == slots[k]
                and x_column[i] == column[e]
                and x_value[i] == value[e]
            ):
                i += 1
            else:
                same[k] = False
                break
        if i < x_slot.size and x_slot[i] == slots[k]:
            same[k] = False
        at += count[k]
    return same


@kernel(allocates=True)
def _past(slots, length, expiry, of_class, path):  # type: ignore[no-untyped-def]
    """Those of some requests that are closed and whose expiry has come."""
    past, found = np.empty(slots.size, np.int64), 0
    for k in range(slots.size):
        q = slots[k]
        if length[q] >= 0 and not path[of_class[q]] < expiry[q]:
            past[found] = q
            found += 1
    return past[:found]


@kernel(allocates=True)
def _read(slots, length, one_column, one_value, columns, values):  # type: ignore[no-untyped-def]
    """Numbers, columns and values of the nonzeros of closed requests."""
    count, total = np.empty(slots.size, np.int64), 0
    for k in range(slots.size):
        count[k] = length[slots[k]]
        total += count[k]
    column, value, at = np.empty(total, np.int64), np.empty(total), 0
    for k in range(slots.size):
        q = slots[k]
        if count[k] == 1:
            column[at], value[at] = one_column[q], one_value[q]
        else:
            for e in range(count[k]):
                column[at + e], value[at + e] = columns[one_column[q] + e], values[one_column[q] + e]
        at += count[k]
    return count, column, value


@kernel
def _write(slots, count, column, value, length, one_column, one_value):  # type: ignore[no-untyped-def]
    """Note how many nonzeros requests have, and the nonzeros of those that have one."""
    at = 0
    for k in range(slots.size):
        q = slots[k]
        length[q] = count[k]
        if count[k] == 1:
            one_column[q], one_value[q] = column[at], value[at]
        at += count[k]


def _expiries(
    path: NDArray[np.float64], of_class: NDArray[np.int32], margin: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Expiries of requests with such margins now, rounded down."""
    expiry = path[of_class] + margin
    return np.where(np.isfinite(expiry), expiry * (1.0 - 2.0 * _EPS), np.inf)
