"""Batch of all convex terms of a program, for joint evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Floats
from copter.compile.kernels import kernel
from copter.store.executor import LocalExecutor
from copter.store.slabs import every_column
from copter.store.view import caps_at
from copter.terms.compiled import addresses
from copter.terms.phi import HEAD, SLOPE, VALUE, Phi, of_all

if TYPE_CHECKING:
    from copter.store.allocation import SparseX
    from copter.store.executor import Executor, Part
    from copter.store.store import ConstraintStore
    from copter.store.term_table import TermTable


@dataclass(frozen=True)
class TermBatch:
    """All k convex terms of a program at one revision, ascending by request slot.

    `first` (k + 1,) has the start of each term's columns in ``image`` and ``upper``. `table` has the
    functions and parameters, to which `phi` refers in kernels. `columns` has slot and column of all columns
    of requests with terms. `clock` is the revision of the store when the batch was packed.
    """

    slot: NDArray[np.int64]
    first: NDArray[np.int64]
    image: Floats
    upper: Floats
    exact: NDArray[np.bool_]
    total: Floats
    table: NDArray[np.int64]
    phi: Phi
    columns: tuple[NDArray[np.int64], NDArray[np.int64]]
    clock: int

    @classmethod
    def of(cls, store: ConstraintStore) -> TermBatch:
        """Return the present terms of a store; pack them only if the store was edited since the last call."""
        return cls._packed(store, store.executor)

    @classmethod
    def of_part(cls, part: Part) -> TermBatch:
        """Return the present terms of a part of a store."""
        return cls._packed(part.store, LocalExecutor(part.store))

    @classmethod
    def _packed(cls, store: ConstraintStore, executor: Executor) -> TermBatch:
        packed: TermBatch | None = store.packed_terms
        if packed is None or packed.clock != store.clock:
            store.packed_terms = packed = cls._pack(store, executor)
        return packed

    @classmethod
    def _pack(cls, store: ConstraintStore, executor: Executor) -> TermBatch:
        table, terms = store.requests, store.terms
        slot = terms.slots()
        sizes, image = terms.images(slot)
        first = np.concatenate(([0], np.cumsum(sizes)))
        columns = every_column(slot, sizes)
        # the view has all columns, so a column's position equals its number
        view, _ = executor.columns(*columns)
        upper = caps_at(view, *columns)
        functions = _functions(terms, slot)
        exact, total = table.exact[slot], table.total[slot]
        phi, now = Phi.of(functions), store.clock
        return cls(slot, first, image, upper, exact, total, functions, phi, columns, now)

    def __len__(self) -> int:
        return int(self.slot.size)

    def in_units(self, total: Floats, cost: float) -> TermBatch:
        """Return the terms with other totals (k,), and with values in units of ``cost`` > 0."""
        return replace(self, total=total, phi=self.phi._replace(factor=self.phi.factor / cost))

    def value(self, t: Floats) -> Floats:
        """Return phi(t) of each term at its own t."""
        values: Floats = of_all(self.phi, VALUE, t)
        return values

    def slope(self, t: Floats) -> Floats:
        """Return phi'(t) of each term at its own t."""
        slopes: Floats = of_all(self.phi, SLOPE, t)
        return slopes

    # ---- values at an allocation -----------------------------------------------------------------

    def images(self, x: SparseX) -> Floats:
        """Return a'x of every term."""
        sums: Floats = _images(self.slot, self.first, self.image, *x)
        return sums

    def objective(self, x: SparseX) -> tuple[float, float]:
        """Return the sum of all phi(a'x), and the sum of the magnitudes |phi'(t) t| with t = a'x.

        For -w log(t) the magnitude is w. Unlike |phi(t)|, it does not depend on the unit of t, and is not 0
        where phi is 0.
        """
        t = self.images(x)
        with np.errstate(all="ignore"):
            sizes = np.where(t > 0, abs(self.slope(t) * t), 0.0)
        return float(np.sum(self.value(t))), float(np.sum(sizes))


def _functions(terms: TermTable, slot: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the table of a :class:`Phi` for the terms of requests."""
    kind, widest = terms.kind_of(slot), max(len(kind.names) for kind in terms.kinds)
    table = np.zeros((slot.size, HEAD + widest), np.int64)
    parameters = table.view(np.float64)[:, HEAD:]
    for k in np.unique(kind).tolist():
        own, names = np.flatnonzero(kind == k), terms.kinds[k].names
        table[own, :HEAD] = len(names), *addresses(*terms.kinds[k])
        for column, values in enumerate(terms.parameters(slot[own], k)):
            parameters[own, column] = values
    return table


@kernel(allocates=True)
def _images(slot, first, image, x_slot, x_column, x_value):  # type: ignore[no-untyped-def]
    """Return a'x of every term, by a merge of terms and nonzeros, which both ascend by slot."""
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
