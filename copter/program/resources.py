"""Resources of a program: coupling rows ``lower <= usage <= upper``, by id, and the verbs that edit them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.program.index import Index, listed
from copter.program.validation import number, row_bounds, row_bounds_of
from copter.store.store import ConstraintStore


class Resources:
    """The rows of a program over its store; the subclass ContinualProgram adds the requests."""

    def __init__(self) -> None:
        self.store = ConstraintStore()
        self._resources = Index("resource")

    @property
    def resource_ids(self) -> list[Hashable]:
        """Ids of all resources, in the order in which they were added."""
        return self._resources.ids

    @property
    def resource_slots(self) -> NDArray[np.int64]:
        """Store slots of all resources, in the order of :attr:`resource_ids`; read-only."""
        return self._resources.all_slots

    def capacity(self, resource: Hashable) -> tuple[float, float]:
        """Lower and upper bound of a resource."""
        slot = self._resources.slot(resource)
        return float(self.store.rows.lower[slot]), float(self.store.rows.upper[slot])

    def add_resource(self, id: Hashable, upper: float = math.inf, lower: float = -math.inf) -> None:
        """Add a coupling row ``lower <= usage <= upper``.

        Raises
        ------
        EditError
            The id is taken, a bound is NaN, or lower > upper.
        """
        self._resources.check_new([id], "add_resource")
        lower, upper = row_bounds(id, lower, upper)
        self._resources.add([id], [self.store.add_row(lower, upper)])

    def set_capacity(self, id: Hashable, upper: float | None = None, lower: float | None = None) -> None:
        """Set one or both bounds of a resource; None leaves a bound as it is."""
        slot = self._resources.slot(id)
        old_lower, old_upper = self.capacity(id)
        bounds = row_bounds(id, old_lower if lower is None else lower, old_upper if upper is None else upper)
        self.store.set_row(slot, *bounds)

    def set_capacities(
        self, ids: Sequence[Hashable], *, upper: ArrayLike | None = None, lower: ArrayLike | None = None
    ) -> None:
        """Set bounds of many resources at once; all of them or, if anything is wrong, none.

        Parameters
        ----------
        ids : sequence of k hashables
            As a list, tuple or range they are remembered: the same ids next round are quick.
        upper, lower : (k,) array_like, optional
            None leaves a bound as it is.

        Raises
        ------
        EditError
            A resource is unknown or given twice, a bound is NaN, or lower > upper: names the resource.
        """
        label = "set_capacities"
        ids = listed(ids)
        slots = self._resources.slots(ids, label)
        rows = self.store.rows
        old = rows.lower[slots], rows.upper[slots]
        self.store.set_rows(slots, *row_bounds_of(label, ids, (lower, upper), old))

    def add_resources(self, id: Hashable, count: float) -> None:
        """Raise the capacity (upper bound) of a resource by ``count`` units."""
        self._change_capacity(id, count, +1.0)

    def remove_resources(self, id: Hashable, count: float) -> None:
        """Lower the capacity (upper bound) of a resource by ``count`` units.

        Raises
        ------
        EditError
            The resource is unknown, the count is negative or not finite, or the capacity would fall
            below the lower bound or, for a capacity that was not negative, below zero.
        """
        self._change_capacity(id, count, -1.0)

    def drop_resource(self, id: Hashable) -> None:
        """Remove a coupling row; columns that used it stay, without it."""
        self.store.drop_row(self._resources.slot(id))
        self._resources.remove([id])

    def _change_capacity(self, id: Hashable, count: float, sign: float) -> None:
        slot = self._resources.slot(id)
        count = number(id, "count", count)
        if not 0 <= count < math.inf:
            raise EditError(id, "count", count, "must be finite and not negative")
        lower, old = self.capacity(id)
        upper = old + sign * count
        if upper < lower or (upper < 0 <= old):
            raise EditError(id, "count", count, f"would leave a capacity of {upper} (lower bound {lower})")
        self.store.set_row(slot, lower, upper)
