"""Resources of a program: coupling rows ``lower <= usage <= upper``, by id, and the verbs that edit them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from copter.errors import EditError
from copter.program.index import Index, listed
from copter.program.validation import is_vector, number, row_bounds, row_bounds_of
from copter.store.store import ConstraintStore

_NONE = np.empty(0)


@dataclass(frozen=True, eq=False)
class ResourceData:
    """Resources as :meth:`copter.ContinualProgram.add_resource_rows` takes them.

    Attributes
    ----------
    ids : list of k
    upper, lower : (k,) ndarrays
    """

    ids: list[Hashable]
    upper: NDArray[np.float64]
    lower: NDArray[np.float64]


class Resources:
    """The rows of a program over its store; the subclass ContinualProgram adds the requests."""

    def __init__(self, cost_dtype: DTypeLike = np.float64) -> None:
        self.store = ConstraintStore(cost_dtype)
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
        """Lower and upper bound of a resource.

        Returns
        -------
        (lower, upper)
        """
        slot = self._resources.slot(resource)
        return float(self.store.rows.lower[slot]), float(self.store.rows.upper[slot])

    def read_resources(self, ids: Sequence[Hashable] | None = None) -> ResourceData:
        """Bounds of many resources, in the form in which the rows can be added again.

        Parameters
        ----------
        ids : sequence of k hashables, optional
            By default all resources.

        Raises
        ------
        EditError
            An id is unknown or given twice.
        """
        names = self.resource_ids if ids is None else list(ids)
        slots = self.resource_slots if ids is None else self._resources.slots(names, "read_resources")
        return ResourceData(names, self.store.rows.upper[slots], self.store.rows.lower[slots])

    def add_resource(self, id: Hashable, upper: float = math.inf, lower: float = -math.inf) -> None:
        """Add a coupling row ``lower <= usage <= upper``.

        Parameters
        ----------
        upper, lower : float
            From 1e20 on a bound is infinite.

        Raises
        ------
        EditError
            The id is taken, a bound is NaN, or lower > upper.
        """
        self._resources.check_new([id], "add_resource")
        lower, upper = row_bounds(id, lower, upper)
        self._resources.add([id], [self.store.add_row(lower, upper)])

    def add_resource_rows(
        self,
        ids: Sequence[Hashable],
        upper: float | ArrayLike = math.inf,
        lower: float | ArrayLike = -math.inf,
    ) -> None:
        """Add many coupling rows at once; all of them or, if anything is wrong, none.

        Parameters
        ----------
        ids : sequence of k hashables
        upper, lower : float or (k,) array_like
            Bounds, one for all rows or one each.

        Raises
        ------
        EditError
            As :meth:`add_resource`; also for an id that is given twice.
        """
        label = "add_resource_rows"
        ids = listed(ids)
        self._resources.check_new(ids, label)
        low, high = (
            _one_each(label, field, each, len(ids)) for field, each in (("lower", lower), ("upper", upper))
        )
        bounds = row_bounds_of(label, ids, (low, high), (_NONE, _NONE))
        if ids:
            self._resources.add(ids, self.store.add_rows(len(ids), *bounds).tolist())

    def set_capacity(self, id: Hashable, upper: float | None = None, lower: float | None = None) -> None:
        """Set one or both bounds of a resource; None leaves a bound as it is.

        Raises
        ------
        EditError
            The resource is unknown, a bound is NaN, or lower > upper.
        """
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
        upper, lower : float or (k,) array_like, optional
            One for all or one each; None leaves a bound as it is.

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
        low, high = (
            None if each is None else _one_each(label, field, each, len(ids))
            for field, each in (("lower", lower), ("upper", upper))
        )
        self.store.set_rows(slots, *row_bounds_of(label, ids, (low, high), old))

    def add_resources(self, id: Hashable, count: float) -> None:
        """Raise the capacity (upper bound) of one resource by ``count`` units.

        It makes no rows: :meth:`add_resource` and :meth:`add_resource_rows` do.

        Parameters
        ----------
        count : float
            >= 0, need not be whole.

        Raises
        ------
        EditError
            The resource is unknown, or the count is negative or not finite.
        """
        self._change_capacity(id, count, +1.0)

    def remove_resources(self, id: Hashable, count: float) -> None:
        """Lower the capacity (upper bound) of one resource by ``count`` units.

        The row stays: :meth:`drop_resource` removes it.

        Parameters
        ----------
        count : float
            >= 0, need not be whole.

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

    def drop_resource_rows(self, ids: Sequence[Hashable]) -> None:
        """Remove many coupling rows; all of them or, if an id is unknown or given twice, none.

        Parameters
        ----------
        ids : sequence of hashables
        """
        ids = listed(ids)
        for slot in self._resources.slots(ids, "drop_resource_rows").tolist():
            self.store.drop_row(slot)
        self._resources.remove(ids)

    def _change_capacity(self, id: Hashable, count: float, sign: float) -> None:
        if is_vector(id) and not (isinstance(id, Hashable) and id in self._resources):
            verb, rows = ("add", "add") if sign > 0 else ("remove", "drop")
            why = f"one id is wanted: for many rows use {rows}_resource_rows(ids), for bounds set_capacities"
            raise EditError(f"{verb}_resources", "id", id, why)
        slot = self._resources.slot(id)
        count = number(id, "count", count)
        if not 0 <= count < math.inf:
            raise EditError(id, "count", count, "must be finite and not negative")
        lower, old = self.capacity(id)
        upper = old + sign * count
        if upper < lower or (upper < 0 <= old):
            raise EditError(id, "count", count, f"would leave a capacity of {upper} (lower bound {lower})")
        self.store.set_row(slot, lower, upper)


def _one_each(label: str, field: str, given: Any, count: int) -> Any:
    return given if is_vector(given) else np.full(count, number(label, field, given))
