"""The convex terms of a program, packed for evaluation at once.

Terms of the class LogTerm itself are evaluated inside kernels where that matters; all others by the numpy
functions of their class, one call for all of a class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.store.slabs import spread
from copter.terms.convex import ConvexTerm, Floats, LogTerm

if TYPE_CHECKING:
    from copter.store.allocation import SparseX
    from copter.store.store import ConstraintStore


class Family(NamedTuple):
    """Terms of one class: which of the batch, and their parameters, an array each."""

    kind: type[ConvexTerm]
    members: NDArray[np.int64] | slice
    parameters: tuple[Floats, ...]


class Logs(NamedTuple):
    """Which terms are plain logarithms, and their parameters; 0 for the others."""

    own: NDArray[np.bool_]
    weight: Floats
    offset: Floats


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
    logs : those that kernels know
    columns : slot and column of all columns of requests with terms
    clock : the store's clock when it was packed
    factor : on all terms, for another unit of cost; ``logs`` has it in its weights
    """

    slot: NDArray[np.int64]
    first: NDArray[np.int64]
    image: Floats
    upper: Floats
    relation: NDArray[np.int8]
    total: Floats
    families: list[Family]
    logs: Logs
    columns: tuple[NDArray[np.int64], NDArray[np.int64]]
    clock: int
    factor: float = 1.0

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
        slot = terms.slots()
        sizes, image = terms.images(slot)
        first = np.concatenate(([0], np.cumsum(sizes)))
        columns = np.repeat(slot, sizes), spread(np.zeros_like(sizes), sizes)
        upper = store.column_uppers(*columns)
        kind, families = terms.kind_of(slot), []
        weight, offset, logs = np.zeros(slot.size), np.zeros(slot.size), np.zeros(slot.size, np.bool_)
        for k in np.unique(kind).tolist():
            own = kind == k
            members = slice(None) if own.all() else np.flatnonzero(own)
            family = Family(terms.kinds[k].type, members, terms.parameters(slot[members], k))
            families.append(family)
            if family.kind is LogTerm:
                logs[members], (weight[members], offset[members]) = True, family.parameters
        return cls(
            slot,
            first,
            image,
            upper,
            table.relation[slot],
            table.total[slot],
            families,
            Logs(logs, weight, offset),
            columns,
            store.clock,
        )

    def __len__(self) -> int:
        return int(self.slot.size)

    def in_units(self, total: Floats, cost: float) -> TermBatch:
        """The same terms with other totals, in units of ``cost``."""
        logs = self.logs._replace(weight=self.logs.weight / cost)
        return replace(self, total=total, logs=logs, factor=self.factor / cost)

    # ---- phi, all at once ------------------------------------------------------------------------

    def _each(self, method: str, *arguments: Floats) -> Floats:
        result = np.empty(len(self))
        for kind, members, parameters in self.families:
            result[members] = getattr(kind, method)(*(a[members] for a in arguments), *parameters)
        return result

    def value(self, t: Floats) -> Floats:
        """phi(t)"""
        return self.factor * self._each("value", t)

    def slope(self, t: Floats) -> Floats:
        """phi'(t)"""
        return self.factor * self._each("slope", t)

    def curvature(self, t: Floats) -> Floats:
        """phi''(t)"""
        return self.factor * self._each("curvature", t)

    def proximal(self, centre: Floats, step: Floats) -> Floats:
        """Minimiser of phi(t) + (t - centre)^2 / (2 step); the centre where the step is 0."""
        moves = step > 0
        nearest = self._each("proximal", centre, np.where(moves, self.factor * step, 1.0))
        return np.where(moves, nearest, centre)

    def touching(self, slope: Floats) -> Floats:
        """t at which phi has this slope, not below 0."""
        return np.maximum(self._each("touching", slope / self.factor), 0.0)

    def lowest_slopes(self) -> Floats:
        """Limits of the slopes as t goes to infinity."""
        limits = np.empty(len(self))
        for kind, members, _ in self.families:
            limits[members] = kind.recession
        return limits

    # ---- on an allocation ------------------------------------------------------------------------

    def images(self, x: SparseX) -> Floats:
        """a'x of every term."""
        sums: Floats = _images(self.slot, self.first, self.image, *x)
        return sums

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

    def objective(self, x: SparseX) -> tuple[float, float]:
        """Sum of all phi(a'x), and of the sizes |phi'(t) t|, t = a'x: for a logarithm -w log(t) that is w.

        Unlike phi itself such a size does not depend on the unit of t, and does not vanish where phi does.
        """
        t = self.images(x)
        with np.errstate(all="ignore"):
            sizes = np.where(t > 0, abs(self.slope(t) * t), 0.0)
        return float(np.sum(self.value(t))), float(np.sum(sizes))


@kernel
def _images(slot, first, image, x_slot, x_column, x_value):  # type: ignore[no-untyped-def]
    """Merge of two lists that ascend by slot."""
    sums = np.zeros(slot.size)
    b = 0
    for k in range(x_slot.size):
        while b < slot.size and slot[b] < x_slot[k]:
            b += 1
        if b == slot.size:
            break
        if slot[b] == x_slot[k]:
            sums[b] += image[first[b] + x_column[k]] * x_value[k]
    return sums
