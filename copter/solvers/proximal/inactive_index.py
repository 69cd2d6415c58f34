"""Index of an inactive set, for rounds with few changes; it can be recomputed at any time.

An :class:`InactiveIndex` contains data computed from an
:class:`copter.solvers.proximal.inactive.InactiveSet`: group and threshold by request slot, the exact sums of
all contributions, and the requests near their thresholds.  A round updates the index together with the set.
If a round ends in an exception, or a solve begins in another state, the index is computed again from the set;
solutions do not depend on it.

Thresholds are searched in *buckets*.  The first bucket contains the few requests that are nearest to their
thresholds, and is checked in each round. The next bucket is larger. It is checked only if the accumulated
price changes could have reached the threshold of a request outside the first bucket, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.parallel import chunk_bounds, run_chunks
from copter.proof.margins import OWN_COLUMNS, best_vertices, lengthen, widen
from copter.proof.rest import Contributions, InactiveSums, RestSums, collect
from copter.proof.usage_prices import NO_USAGE_PRICES, usage_prices
from copter.solvers.memory import LastX
from copter.solvers.proximal.inactive import ACTIVE, Block, InactiveSet, combined, find, starts, updated
from copter.store.allocation import SparseX, distinct

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_EPS = 2.0**-52
_SHARED_FROM = 4
"""Least number of requests that share columns for these columns to have their own groups."""
_NEAR, _LESS, _WIDEST = 2048, 32, 4
"""Size of the first bucket, size ratio of consecutive buckets, and largest growth factor of the first one."""
_NEARLY = 0.5
"""Share of a bucket's range after which it is selected again together with the one below it."""
_SAFE = 1.0 - 1e-9
"""Factor on the range of a bucket, for the rounding errors of accumulated changes."""
_CHUNK = 1 << 18
"""Number of requests that are priced at once, which limits temporary memory."""
ROUNDING = 32 * _EPS
"""Difference up to which a value counts as that of a vertex, relative to the request's largest value."""


class _Bucket:
    """Requests near their thresholds.

    `reach`: lower bound on the remaining price change of all other inactive requests when the bucket was
    selected. `moved`: largest accumulated price change of any group since. While `moved` is below `reach`,
    the other requests need not be checked.
    """

    def __init__(self, slots: NDArray[np.int64], reach: float) -> None:
        self._parts, self.reach, self.moved = [slots], reach, 0.0

    @property
    def slots(self) -> NDArray[np.int64]:
        """Slots of the bucket, ascending; some requests may be active by now."""
        if len(self._parts) > 1:
            slots = np.sort(np.concatenate(self._parts), kind="stable")  # merges ascending runs
            self._parts = [slots[np.append(slots[1:] != slots[:-1], True)]]
        return self._parts[0]

    def add(self, slots: NDArray[np.int64]) -> None:
        """Add requests to the bucket."""
        self._parts.append(slots)

    @property
    def left(self) -> float:
        """Lower bound on the remaining price change of every inactive request outside the bucket."""
        return self.reach if self.moved == 0.0 else self.reach * _SAFE - self.moved


class InactiveIndex:
    """Index of an inactive set, updated from round to round; the program is local and has no convex terms.

    `y` (row slots,): present prices. `requests`, `nonzeros`: numbers of inactive requests and of their
    nonzero columns. `known`: last allocations of the requests that are active, including those activated in
    this round. `view`: all columns of the program, during a round. `edited`: slots of present requests that
    were edited since the set was made, ascending.
    """

    def __init__(self, inactive: InactiveSet, program: ContinualProgram) -> None:
        self.inactive, self.program = inactive, program
        self._group, self._threshold = np.empty(0, np.int32), np.empty(0)
        self._sums = RestSums(inactive.step.size)
        self.requests = self.nonzeros = 0
        self._buckets: list[_Bucket] = []
        block = inactive.merged()
        self._fit(int(block.slots.max(initial=-1)) + 1)
        self._note(block)
        self._sums.add(block.parts, np.arange(block.size))

    def begin(self, active: LastX, edited: NDArray[np.int64], threads: int | None) -> None:
        """Begin a round, in which at most `threads` threads price requests; edited requests become active.

        `active`: last allocation of the active requests. `edited`: slots edited since the set was made,
        ascending, also of removed requests.
        """
        inactive, store, self._threads = self.inactive, self.program.store, threads
        self.view = store.executor.all_columns()
        rows = store.rows.size
        self.y, self._low, self._high = (
            _longer(each, rows) for each in (inactive.y, inactive.low, inactive.high)
        )
        self._step = _longer(inactive.step, rows, np.inf)
        self.local, self.squares, self._longest = inactive.local, inactive.squares, inactive.longest
        self._groups, self._change = inactive.groups, inactive.groups.change.copy()
        self.fixed = inactive.fixed
        self._sums.fit(rows)
        self._fit(store.requests.size)
        self.known = [active]
        self._changed: list[NDArray[np.int64]] = []
        self._active: list[NDArray[np.int64]] = [inactive.active, edited]
        self._all_active: NDArray[np.int64] | None = None
        self.edited = edited[store.requests.n_columns[edited] > 0]
        self.activate(edited)
        self.include(self.edited)

    # ---- active requests ---------------------------------------------------------------------------

    def activate(self, slots: NDArray[np.int64]) -> None:
        """Make the inactive requests among `slots` active."""
        slots = distinct(slots[self._group[slots] >= 0])
        if not slots.size:
            return
        for block, places in self.inactive.places(slots):
            if places.size:
                self._sums.add(block.parts, places, -1.0)
                self.known.append(block.last_x(self.program, places))
                self.nonzeros -= self.known[-1].x.slot.size
        self._group[slots] = ACTIVE
        self.requests -= slots.size
        self._active.append(slots)
        self._changed.append(slots)
        self._all_active = None

    def include(self, slots: NDArray[np.int64]) -> None:
        """Widen the ranges of coefficients to cover those of `slots` that have columns of their own."""
        own = slots[self._first_groups(slots) < 0]
        if own.size:
            widen(self.view, own, self._low, self._high)

    def active(self) -> NDArray[np.int64]:
        """Return the slots of all active requests, ascending; the same array until the set changes."""
        if self._all_active is None:
            slots = distinct(np.concatenate(self._active))
            live = (self.program.store.requests.n_columns[slots] > 0) & (self._group[slots] < 0)
            self._all_active = slots[live]
            self._active = [self._all_active]
        return self._all_active

    def best(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], SparseX]:
        """Return margins (k,) and optimal vertices of requests, by ascending slot, at the present prices.

        A margin is not positive if several vertices may be optimal.
        """
        margin, _, count, column, value = self._vertices(slots)
        return margin, SparseX(slots.repeat(count), column, value)

    def _vertices(self, slots: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return margins, groups, and the nonzeros of optimal vertices: counts, columns, values."""
        view, y, first = self.view, self.y, self._first_groups(slots)
        reach = self._high - self._low
        usages, bounds = self.program.store.usages, chunk_bounds(view.n_columns[slots])
        known = usages.references[: usages.size], usages.n_columns[: usages.size]
        paid = usage_prices(view, y, *known) if usages.size <= slots.size else NO_USAGE_PRICES

        def one(k: int) -> tuple[NDArray[Any], ...]:
            part = slice(bounds[k], bounds[k + 1])
            found: tuple[NDArray[Any], ...] = best_vertices(view, y, paid, slots[part], first[part], reach)
            return found

        chunks = run_chunks(one, bounds.size - 1, self._threads)
        return chunks[0] if len(chunks) == 1 else tuple(map(np.concatenate, zip(*chunks, strict=True)))

    def inactive_now(self) -> NDArray[np.int64]:
        """Return the slots of all inactive requests, ascending."""
        return np.flatnonzero(self._group >= 0)

    def tied(self, slots: NDArray[np.int64], sample: int) -> float:
        """Return the share of requests without a unique optimal vertex, in a sample of about this size."""
        some = slots[:: max(1, slots.size // sample)]
        self.include(some)
        return float(np.mean(self.best(some)[0] <= 0.0)) if some.size else 0.0

    def at_vertices(self, slots: NDArray[np.int64], x: SparseX) -> tuple[Block, bool]:
        """Return the active requests among ascending slots that can become inactive at the present prices.

        These are the requests at their only optimal vertex, up to rounding errors. The block contains the
        exact values of the vertices. Also return whether the values in `x` were exactly equal to these.
        """
        blocks, exact = [], np.ones(1, np.bool_)
        for begin in range(0, slots.size, _CHUNK):
            part = slots[begin : begin + _CHUNK]
            margin, group, count, column, value = self._vertices(part)
            other = np.searchsorted(x.slot, np.append(part, np.iinfo(np.int64).max))
            some = margin > 0.0
            _agree(starts(count), column, value, other, *x[1:], ROUNDING, some, exact)
            each = some.repeat(count)
            threshold = _thresholds(self._change, group[some], margin[some])
            parts = starts(count[some]), column[each], value[each], np.zeros(threshold.size)
            blocks.append(self._block(part[some], group[some], threshold, *parts))
        return combined(blocks or [Block.active(slots)]), bool(exact[0])

    def as_they_are(self, slots: NDArray[np.int64], x: SparseX, lost: NDArray[np.float64]) -> Block:
        """Return active requests (ascending slots) with their allocation x as a block of fixed requests.

        `lost`: loss of each request at the present prices.
        """
        start = np.searchsorted(x.slot, np.append(slots, np.iinfo(np.int64).max))
        own, never = np.full(slots.size, OWN_COLUMNS, np.int32), np.full(slots.size, np.inf)
        return self._block(slots, own, never, start, x.column, x.value, lost)

    def _block(
        self,
        slots: NDArray[np.int64],
        group: NDArray[np.int32],
        threshold: NDArray[np.float64],
        start: NDArray[np.int64],
        column: NDArray[np.int64],
        value: NDArray[np.float64],
        lost: NDArray[np.float64],
    ) -> Block:
        parts = collect(self.view, slots, start, column, value, lost, self._step)
        return Block(slots, group, threshold, self.program.store.requests.generation[slots], column, parts)

    # ---- prices ------------------------------------------------------------------------------------

    def move(self, y: NDArray[np.float64], most: float = np.inf) -> NDArray[np.int64] | None:
        """Change the prices; return the ascending slots of inactive requests that passed their thresholds.

        If there are more than `most` of them, the prices do not change and the result is None.
        """
        d = y - self.y
        if not d.any():
            return np.empty(0, np.int64)
        usages, before = self.program.store.usages, self._change.copy()
        groups = self._groups
        there = (usages.references[groups.usage] > 0) & (usages.n_columns[groups.usage] == groups.width)
        some, width, first = groups.usage[there], groups.width[there], groups.first[there]
        moved = lengthen(self.view, some, width, first, self._high - self._low, d, self._change)
        for bucket in self._buckets:
            bucket.moved += moved
        passed = self._passed()
        if passed.size > most:
            self._change = before  # the buckets' ranges are then smaller than necessary
            return None
        self.y = y.copy()
        return passed

    def reprice(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Price inactive requests that have passed their thresholds again.

        Return the slots of those whose optimal allocation has changed; they are active now.
        """
        if not slots.size:
            return slots
        margin, group, count, column, value = self._vertices(slots)
        held, keep = self.inactive.pick(slots), margin > 0.0
        start, exact = held.parts.start, np.ones(1, np.bool_)
        mine = start, held.column, held.parts.value
        _agree(*mine, starts(count), column, value, ROUNDING, keep, exact)
        stay = slots[keep]
        self._group[stay] = group[keep]
        self._threshold[stay] = _thresholds(self._change, group[keep], margin[keep])
        self._into_buckets(stay)
        self._changed.append(stay)
        self.activate(slots[~keep])
        return slots[~keep]

    def holds_best(self, block: Block, clear: float) -> bool:
        """Return whether inactive requests are at optimal vertices, up to rounding errors.

        `clear`: least margin that proves that a vertex is optimal.
        """
        margin, _, count, column, value = self._vertices(block.slots)
        some = margin > clear
        same, exact = some.copy(), np.ones(1, np.bool_)
        mine = block.parts.start, block.column, block.parts.value
        _agree(*mine, starts(count), column, value, ROUNDING, same, exact)
        return np.array_equal(same, some)

    def left(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the price change that remains until the thresholds of inactive requests, (k,) ndarray."""
        return self._threshold[slots] - self._change[self._group[slots]]

    def nearest(self, most: int) -> NDArray[np.int64]:
        """Return the slots of the `most` inactive requests nearest to their thresholds.

        Ties are resolved by the lowest slots, so that the result depends on the inactive set only.
        """
        if not most or not self.requests:
            return np.empty(0, np.int64)
        if not self._buckets or (most <= _NEAR and self._sure(self._buckets[0])[0].size < most):
            self._choose_buckets()
        for bucket in self._buckets:
            slots, left = self._sure(bucket)
            if slots.size >= most:
                break
        else:
            slots = self.inactive_now()
            left = self.left(slots)
        if slots.size <= most:
            return slots
        last = np.partition(left, most - 1)[most - 1]
        nearer, ties = slots[left < last], slots[left == last]
        return np.sort(np.concatenate((nearer, ties[: most - nearer.size])))

    def _sure(self, bucket: _Bucket) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the bucket's requests nearer to thresholds than all others, ascending, and the distances."""
        slots, left = _near(bucket.slots, self._group, self._threshold, self._change, bucket.left)
        return slots, left

    def _passed(self) -> NDArray[np.int64]:
        """Return the ascending slots of inactive requests that have passed their thresholds."""
        buckets = self._buckets
        if not buckets or not buckets[0].left > 0.0 or buckets[0].slots.size > _WIDEST * _NEAR:
            self._choose_buckets()
        near = self._buckets[0].slots
        passed: NDArray[np.int64] = _past(near, self._group, self._threshold, self._change)
        return passed

    def _choose_buckets(self) -> None:
        """Select the first bucket again, and those above it whose range is nearly used up."""
        sizes = [_NEAR]
        while sizes[-1] * _LESS < self.requests:
            sizes.append(sizes[-1] * _LESS)
        if len(sizes) != len(self._buckets):
            self._buckets = [_Bucket(np.empty(0, np.int64), 0.0) for _ in sizes]
        stale = 1
        while stale < len(sizes) and self._buckets[stale].moved >= _NEARLY * self._buckets[stale].reach:
            stale += 1
        for k in range(stale - 1, -1, -1):
            if k + 1 < len(sizes):
                above = self._buckets[k + 1]
                slots, reach = above.slots, above.left
                slots = slots[self._group[slots] >= 0]
            else:
                slots, reach = self.inactive_now(), np.inf
            left = self.left(slots)
            many = sizes[k] + int(
                np.count_nonzero(left <= 0.0)
            )  # all that have passed, and the bucket's size
            if left.size > many:
                reach = min(reach, float(np.partition(left, many)[many]))
            self._buckets[k] = _Bucket(slots[left <= reach], reach)

    def _into_buckets(self, slots: NDArray[np.int64]) -> None:
        """Add inactive requests to the buckets in whose range they are."""
        left = self.left(slots)
        for bucket in self._buckets:
            inside = slots[left <= bucket.reach - bucket.moved]
            if inside.size:
                bucket.add(inside)

    # ---- sums --------------------------------------------------------------------------------------

    def rest(self) -> InactiveSums:
        """Return the contributions of the inactive requests to certificates."""
        roundings = 8 + self._longest if self.fixed else 0
        return self._sums.rest(self._step, self.local, self.squares, roundings)

    def recollected(self, block: Block) -> bool:
        """Return whether inactive requests have the program's data, bitwise equal."""
        held = block.parts
        if (block.parts.width != self.program.store.requests.n_columns[block.slots]).any():
            return False
        if (block.generation != self.program.store.requests.generation[block.slots]).any():
            return False
        step = np.full(self._step.size, np.inf)
        again = collect(self.view, block.slots, held.start, block.column, held.value, held.lost, step)
        same = (np.array_equal(getattr(held, name), getattr(again, name)) for name in Contributions._fields)
        return all(same) and bool((self._step <= step).all())

    # ---- the end of a round ------------------------------------------------------------------------

    def commit(self, block: Block, **fields: object) -> InactiveSet:
        """Return and index the set of the requests that are inactive now, including those of `block`.

        `block`: active requests that become inactive. `fields`: fields of the set that are not in the index.
        """
        self._note(block)
        self._sums.add(block.parts, np.arange(block.size))
        parts = block.parts
        self._longest = max(self._longest, int(np.diff(parts.entry_start).max(initial=0)))
        if self._buckets:
            self._into_buckets(block.slots)
        self._active.append(self._active[0][:0])
        self._all_active = None
        active, store = self.active(), self.program.store
        others = distinct(np.concatenate((np.empty(0, np.int64), *self._changed)))
        others = others[find(block.slots, others) < 0]
        again = others[self._group[others] >= 0]  # priced again, and still inactive
        if again.size:
            repriced = self.inactive.pick(again)
            repriced = repriced._replace(group=self._group[again], threshold=self._threshold[again])
            block = updated(block, repriced)
        self.inactive = self.inactive.with_changes(
            block,
            others[self._group[others] < 0],
            revision=store.clock,
            y=self.y,
            active=active,
            groups=self._groups._replace(change=self._change),
            low=self._low,
            high=self._high,
            step=self._step,
            local=self.local,
            squares=self.squares,
            longest=self._longest,
            fixed=self.fixed,
            **fields,
        )
        return self.inactive

    def note_violations(self, local: float, squares: float) -> None:
        """Record violations of boxes and sum rows; see :class:`copter.proof.rest.InactiveSums`."""
        self.local, self.squares = max(self.local, local), max(self.squares, squares)

    # ---- parts -------------------------------------------------------------------------------------

    def _fit(self, size: int) -> None:
        """Extend the arrays to `size` request slots."""
        if size > self._group.size:
            more = max(size, self._group.size + self._group.size // 2) - self._group.size
            self._group = np.concatenate((self._group, np.full(more, ACTIVE, np.int32)))
            self._threshold = np.concatenate((self._threshold, np.zeros(more)))

    def _note(self, block: Block) -> None:
        """Record group and threshold of requests that become inactive."""
        self._group[block.slots], self._threshold[block.slots] = block.group, block.threshold
        self.requests += block.size
        self.nonzeros += block.column.size

    def _first_groups(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first group of each request's columns, negative for own columns; make new groups."""
        usages, groups = self.program.store.usages, self._groups
        size, view = usages.size, self.view
        shared = view.usage, usages.n_columns[:size], usages.references[:size]
        first, known = _groups_of(slots, *shared, groups.usage, groups.first, groups.width)
        if known:
            return first
        some = distinct(view.usage[slots])
        at = find(groups.usage, some)
        width = usages.n_columns[some]
        other = (at < 0) | (np.append(groups.width, 0)[at] != width)
        fresh, gone = some[other & (usages.references[some] >= _SHARED_FROM)], some[other & (at >= 0)]
        keep, width = find(gone, groups.usage) < 0, usages.n_columns[fresh]
        room = 2 * width + 2
        begin = self._change.size + room.cumsum() - room
        self._change = np.concatenate((self._change, np.zeros(int(room.sum()))))
        usage = np.concatenate((groups.usage[keep], fresh))
        order = np.argsort(usage)
        begin, width = (
            np.concatenate((groups.first[keep], begin)),
            np.concatenate((groups.width[keep], width)),
        )
        self._groups = groups._replace(usage=usage[order], first=begin[order], width=width[order])
        return _groups_of(slots, *shared, *self._groups[1:])[0]


def _longer(array: NDArray[np.float64], size: int, value: float = 0.0) -> NDArray[np.float64]:
    """Return a copy of an array, extended to `size` numbers."""
    longer = np.full(size, value)
    longer[: array.size] = array
    return longer


def _thresholds(
    change: NDArray[np.float64], group: NDArray[np.int32], margin: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return thresholds of requests with the present margins, rounded down."""
    threshold = change[group] + margin
    return np.where(np.isfinite(threshold), threshold * (1.0 - 2.0 * _EPS), np.inf)


@kernel(allocates=True)
def _groups_of(slots, usage, n_columns, references, known_usage, first, width):  # type: ignore[no-untyped-def]
    """Return each request's first group (-1: none), and whether the known groups are complete."""
    groups, known = np.full(slots.size, -1), True
    for k in range(slots.size):
        u = usage[slots[k]]
        at = np.searchsorted(known_usage, u)
        there = at < known_usage.size and known_usage[at] == u
        if there and width[at] == n_columns[u]:
            groups[k] = first[at]
        elif there or references[u] >= _SHARED_FROM:
            known = False
    return groups, known


@kernel
def _agree(  # type: ignore[no-untyped-def]
    start, column, value, other_start, other_column, other_value, tolerance, same, exact
):
    """Set `same` to False for requests whose nonzeros differ by more than a share of the largest value.

    ``exact[0]`` becomes False if the nonzeros of a request that remains differ at all.
    """
    for k in range(start.size - 1):
        if not same[k]:
            continue
        i, end, j, other_end = start[k], start[k + 1], other_start[k], other_start[k + 1]
        largest, off = 0.0, 0.0
        for e in range(i, end):
            largest = max(largest, abs(value[e]))
        while i < end or j < other_end:
            if j == other_end or (i < end and column[i] < other_column[j]):
                off = max(off, abs(value[i]))
                i += 1
            elif i == end or other_column[j] < column[i]:
                off = max(off, abs(other_value[j]))
                j += 1
            else:
                off = max(off, abs(value[i] - other_value[j]))
                i += 1
                j += 1
        if off > tolerance * largest:
            same[k] = False
        elif off > 0.0:
            exact[0] = False


@kernel(allocates=True)
def _near(slots, group, threshold, change, most):  # type: ignore[no-untyped-def]
    """Return the inactive ones of `slots` with at most `most` left to their thresholds, and what is left."""
    near, left, found = np.empty(slots.size, np.int64), np.empty(slots.size), 0
    for k in range(slots.size):
        q = slots[k]
        if group[q] >= 0 and threshold[q] - change[group[q]] <= most:
            near[found], left[found] = q, threshold[q] - change[group[q]]
            found += 1
    return near[:found], left[:found]


@kernel(allocates=True)
def _past(slots, group, threshold, change):  # type: ignore[no-untyped-def]
    """Return the inactive requests among `slots` that have passed their thresholds."""
    past, found = np.empty(slots.size, np.int64), 0
    for k in range(slots.size):
        q = slots[k]
        if group[q] >= 0 and not change[group[q]] < threshold[q]:
            past[found] = q
            found += 1
    return past[:found]
