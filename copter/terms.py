"""The convex terms of a program, packed for evaluation at once, and their part of the certified bound.

At prices y a request with a term adds to the bound

    min { p'x + phi(a'x) : x in X_q }
        =  max over t of  phi(t) - phi'(t) t + min { (p + phi'(t) a)'x : x in X_q }.

Every t gives a lower bound, because a tangent lies below phi; the best one is found by following the lower
hull of the points (a'x, p'x).  Two points of it, one on either side of the minimum, bracket the minimum; the
minimiser of phi on the chord between them gives a tangent, and the x that is best for the tangent is a new
point of the hull, or the proof that the chord belongs to it.  The hull has few corners, so few rounds do.

A column without any bound allows no tangent steeper than s_max = min p_j / a_j (with slope -s).  If not even
the flattest one fits, the violation counts as dual residual, as in :mod:`copter.pricing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.convex import ConvexTerm, Floats
from copter.kernels import kernel
from copter.slabs import spread
from copter.store import AT_MOST, EXACTLY, NO_TOTAL

if TYPE_CHECKING:
    from copter.certificate import SparseX
    from copter.pricing import StoreView
    from copter.store import ConstraintStore

_HULL_STEPS = 80
_CLOSE = 1e-14
_HOPELESS = 1.0
_STEEP = 1e100


class Family(NamedTuple):
    """Terms of one class: which of the batch, and their parameters, an array each."""

    kind: type[ConvexTerm]
    members: NDArray[np.int64]
    parameters: tuple[Floats, ...]


@dataclass(frozen=True)
class TermBatch:
    """All terms of a program as it is at one moment, ascending by request slot.

    Attributes
    ----------
    slot : (k,) request slots
    first : (k + 1,) starts of the requests' columns in ``image`` and ``upper``
    image, upper : (columns,) arrays
    relation, total : (k,) arrays
    families : terms by class
    clock : the store's clock when it was packed
    """

    slot: NDArray[np.int64]
    first: NDArray[np.int64]
    image: Floats
    upper: Floats
    relation: NDArray[np.int8]
    total: Floats
    families: list[Family]
    clock: int

    @classmethod
    def of(cls, store: ConstraintStore) -> TermBatch:
        """Terms of the store as it is now; packed again only if it was edited since the last time."""
        packed: TermBatch | None = store.packed_terms
        if packed is None or packed.clock != store.clock:
            store.packed_terms = packed = cls._pack(store)
        return packed

    @classmethod
    def _pack(cls, store: ConstraintStore) -> TermBatch:
        table, terms = store.requests, store.terms
        slot = np.array(sorted(terms), np.int64)
        sizes = table.n_columns[slot]
        first = np.concatenate(([0], np.cumsum(sizes)))
        image = np.concatenate([terms[q][1] for q in slot.tolist()]) if slot.size else np.empty(0)
        column = spread(np.zeros_like(sizes), sizes)
        upper = store.column_uppers(np.repeat(slot, sizes), column)
        kinds: dict[type[ConvexTerm], list[int]] = {}
        for k, q in enumerate(slot.tolist()):
            kinds.setdefault(type(terms[q][0]), []).append(k)
        families = []
        for kind, members in kinds.items():
            rows = [tuple(terms[int(slot[k])][0].parameters.values()) for k in members]
            table_of = np.array(rows, np.float64).reshape(len(members), -1).T
            families.append(Family(kind, np.array(members), tuple(np.ascontiguousarray(table_of))))
        return cls(slot, first, image, upper, table.relation[slot], table.total[slot], families, store.clock)

    def __len__(self) -> int:
        return int(self.slot.size)

    # ---- phi, all at once ------------------------------------------------------------------------

    def _each(self, method: str, *arguments: Floats) -> Floats:
        result = np.empty(len(self))
        for kind, members, parameters in self.families:
            result[members] = getattr(kind, method)(*(a[members] for a in arguments), *parameters)
        return result

    def value(self, t: Floats) -> Floats:
        """phi(t)"""
        return self._each("value", t)

    def slope(self, t: Floats) -> Floats:
        """phi'(t)"""
        return self._each("slope", t)

    def curvature(self, t: Floats) -> Floats:
        """phi''(t)"""
        return self._each("curvature", t)

    def proximal(self, centre: Floats, step: Floats) -> Floats:
        """Minimiser of phi(t) + (t - centre)^2 / (2 step); the centre where the step is 0."""
        return np.where(step > 0, self._each("proximal", centre, np.where(step > 0, step, 1.0)), centre)

    def touching(self, slope: Floats) -> Floats:
        """t at which phi has this slope, not below 0."""
        return np.maximum(self._each("touching", slope), 0.0)

    def lowest_slopes(self) -> Floats:
        """Limits of the slopes as t goes to infinity."""
        limits = np.empty(len(self))
        for kind, members, _ in self.families:
            limits[members] = kind.recession
        return limits

    # ---- on an allocation ------------------------------------------------------------------------

    def images(self, x: SparseX) -> Floats:
        """a'x of every term."""
        place, own, image = self._entries(x)
        return np.bincount(place, image * x.value[own], len(self)).astype(np.float64)

    def spread_over(self, x: SparseX, slope: Floats) -> Floats:
        """slope a_j for every entry of x, 0 for requests without a term or with a_j = 0."""
        place, own, image = self._entries(x)
        result = np.zeros(x.slot.size)
        result[own] = np.where(image > 0, image, 0.0) * np.where(image > 0, slope[place], 0.0)
        return result

    def _entries(self, x: SparseX) -> tuple[NDArray[np.int64], NDArray[np.bool_], Floats]:
        """Of the entries of x that belong to terms: the term, a mask of them, and their a_j."""
        place = np.searchsorted(self.slot, x.slot)
        place[place == len(self)] = 0
        own = self.slot[place] == x.slot
        return place[own], own, self.image[self.first[place[own]] + x.column[own]]

    def objective(self, x: SparseX) -> float:
        """Sum of all phi(a'x)."""
        return float(np.sum(self.value(self.images(x))))

    # ---- bound -----------------------------------------------------------------------------------

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Slot and column of all columns of requests with terms."""
        sizes = np.diff(self.first)
        return np.repeat(self.slot, sizes), spread(np.zeros_like(sizes), sizes)

    def bound(self, view: StoreView, y: Floats) -> tuple[float, float]:
        """(sum of min p'x + phi(a'x) over X_q, squared violation of unbounded columns) at prices y."""
        p = _prices(view, self.slot, self.first, y)
        return _Hull(self, p).best()


class _Hull:
    """The search for the best tangents, all requests at once."""

    def __init__(self, batch: TermBatch, p: Floats) -> None:
        self.batch, self.p = batch, p
        loose = (np.repeat(batch.relation, np.diff(batch.first)) == NO_TOTAL) & np.isinf(batch.upper)
        ratio = np.where(loose & (batch.image > 0), p / np.maximum(batch.image, 1e-300), np.inf)
        start = batch.first[:-1]
        steepest = np.minimum.reduceat(ratio, start)
        capped = np.isfinite(steepest)
        least = np.where(capped, batch.touching(np.where(capped, -steepest, -1.0)), 0.0)
        self.hopeless = np.isinf(least)
        self.least = np.where(self.hopeless, _HOPELESS, least)
        total = np.repeat(batch.total, np.diff(batch.first))
        cap = np.where(loose, 0.0, np.minimum(batch.upper, total))
        most = np.add.reduceat(batch.image * cap, start)
        summed = batch.relation != NO_TOTAL
        most[summed] = np.minimum(
            most[summed], batch.total[summed] * np.maximum.reduceat(batch.image, start)[summed]
        )
        self.most = np.maximum(self.least, most)
        self.bound = np.full(len(batch), -np.inf)
        self.violation = np.zeros(len(batch))

    def _at(self, t: Floats, todo: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Best responses to the tangents at t: their (a'x, p'x); keeps the best bounds."""
        batch = self.batch
        slope = batch.slope(t)
        reach, best, violation = _respond(
            self.p, slope, batch.first, batch.image, batch.upper, batch.relation, batch.total, todo
        )
        bound = batch.value(t) - slope * t + best
        better = todo & (bound > self.bound)
        self.bound[better], self.violation[better] = bound[better], violation[better]
        return reach, best - slope * reach

    def best(self) -> tuple[float, float]:
        """Sum of the best bounds and of the squared violations at their tangents."""
        batch, todo = self.batch, np.ones(len(self.batch), np.bool_)
        if not len(batch):
            return 0.0, 0.0
        with np.errstate(all="ignore"):
            low, high = self.least.copy(), self.most.copy()
            left_t, left_c = self._at(high, todo)
            todo &= (left_t < high) & (low < high) & ~self.hopeless
            low = np.maximum(low, np.minimum(left_t, high))
            low = np.where(batch.slope(low) > -_STEEP, low, np.maximum(low, 1e-12 * high))
            right_t, right_c = self._at(low, todo)
            todo &= right_t > low
            for _ in range(_HULL_STEPS):
                if not todo.any():
                    break
                chord = (right_c - left_c) / (right_t - left_t)
                t = np.clip(batch.touching(-np.where(np.isfinite(chord), chord, 0.0)), left_t, right_t)
                attained = left_c + chord * (t - left_t) + batch.value(t)
                todo &= attained - self.bound > _CLOSE * (abs(attained) + abs(batch.value(t)))
                t = np.where((t > low) & (t < high), t, 0.5 * (low + high))
                new_t, new_c = self._at(t, todo)
                left, right = todo & (new_t < t), todo & (new_t >= t)
                left_t, left_c = np.where(left, new_t, left_t), np.where(left, new_c, left_c)
                right_t, right_c = np.where(right, new_t, right_t), np.where(right, new_c, right_c)
                high, low = np.where(left, t, high), np.where(right, t, low)
                todo &= (new_t != t) & (low < high)
        return float(np.sum(self.bound)), float(np.sum(self.violation))


@kernel
def _prices(view: StoreView, slot, first, y):  # type: ignore[no-untyped-def]
    """c + A'y of all columns of the given requests."""
    p = np.empty(first[-1])
    for b in range(slot.size):
        q = slot[b]
        usage = view.usage[q]
        pointer, entry = view.pointer_start[usage], view.entry_start[usage]
        for j in range(view.n_columns[q]):
            v = view.scale[q] * view.cost[view.cost_start[q] + j]
            for k in range(entry + view.pointer[pointer + j], entry + view.pointer[pointer + j + 1]):
                v += y[np.uint32(view.row[k])] * view.value[k]
            p[first[b] + j] = v
    return p


@kernel
def _respond(p, slope, first, image, upper, relation, total, todo):  # type: ignore[no-untyped-def]
    """Minimisers of r'x over X_q, r = p + slope a: a'x, r'x, and squared r < 0 of columns without bound.

    r_j of a column without bound that is 0 but for rounding counts as 0: the steepest tangent makes it so.
    """
    reach, best, violation = np.zeros(todo.size), np.zeros(todo.size), np.zeros(todo.size)
    for b in range(todo.size):
        if not todo[b]:
            continue
        begin, end = first[b], first[b + 1]
        if relation[b] == NO_TOTAL:
            for j in range(begin, end):
                tilt = slope[b] * image[j] if image[j] > 0.0 else 0.0
                r = p[j] + tilt
                if r < 0.0:
                    if upper[j] < np.inf:
                        best[b] += r * upper[j]
                        reach[b] += image[j] * upper[j]
                    elif r < -1e-14 * (abs(p[j]) + abs(tilt)):
                        violation[b] += r * r
            continue
        left, last = total[b], -np.inf
        while left > 0.0:
            level = np.inf
            for j in range(begin, end):
                r = p[j] + (slope[b] * image[j] if image[j] > 0.0 else 0.0)
                if r > last and r < level and upper[j] > 0.0:
                    level = r
            if level == np.inf or (relation[b] == AT_MOST and level >= 0.0):
                break
            for j in range(begin, end):
                if p[j] + (slope[b] * image[j] if image[j] > 0.0 else 0.0) == level:
                    take = min(left, upper[j])
                    if take > 0.0:
                        best[b] += level * take
                        reach[b] += image[j] * take
                        left -= take
            last = level
        if relation[b] == EXACTLY and left > 1e-12 * (1.0 + total[b]):
            best[b] = np.inf
    return reach, best, violation
