"""PartStore: the store of one part of a program whose requests are spread, and how edits come to it.

Its rows have the slots that they have in the program.  A request in slot s of the program is in slot
``s // parts`` of the part ``s % parts``: slots are freed and given in the same order here as there, so nobody
has to say which.  Shared usages and vectors, which other parts have too, are named by their slots in the
program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from copter.store.costs import CostsOfVectors
from copter.store.edit_log import Edit
from copter.store.runs import Runs
from copter.store.store import ConstraintStore
from copter.store.term_table import Kind


class PartStore(ConstraintStore):
    """A store that edits of the program are applied to.

    Attributes
    ----------
    usage_of, vector_of : dict of int to int
        Slot here of each shared usage and vector that has a handle, by its slot in the program.
    """

    def __init__(self, cost_dtype: DTypeLike = np.float64) -> None:
        super().__init__(cost_dtype)
        self.usage_of: dict[int, int] = {}
        self.vector_of: dict[int, int] = {}

    def apply(self, edit: Edit) -> None:
        """Make an edit.

        Parameters
        ----------
        edit : Edit
            Of this part alone, or for all parts.
        """
        self.clock = edit.clock  # so that stamps are those of the program
        getattr(self, f"_apply_{edit.verb}")(**edit.fields)

    # ---- rows, shared usages and vectors -------------------------------------------------------

    def _apply_add_rows(self, count: int, lower: Any, upper: Any) -> None:
        self.add_rows(count, lower, upper)

    def _apply_set_rows(self, slots: NDArray[np.int64], lower: Any, upper: Any) -> None:
        self.set_rows(slots, lower, upper)

    def _apply_drop_row(self, slot: int) -> None:
        self.drop_row(slot)

    def _apply_reserve(self, columns: int) -> None:
        self.reserve(columns)

    def _apply_add_shared_columns(
        self,
        slot: int,
        width: int,
        pointer: NDArray[np.int64],
        row: NDArray[np.int32],
        value: NDArray[np.float64],
    ) -> None:
        self.usage_of[slot] = int(self.add_usages(np.array([width]), pointer, row, value, shared=True)[0])

    def _apply_drop_shared_columns(self, slot: int) -> None:
        self.drop_usage(self.usage_of.pop(slot))

    def _apply_add_vector(self, slot: int, costs: NDArray[np.float64]) -> None:
        self.vector_of[slot] = self.add_vector(costs)

    def _apply_drop_vector(self, slot: int) -> None:
        self.drop_vector(self.vector_of.pop(slot))

    # ---- requests ------------------------------------------------------------------------------

    def _apply_add_requests(
        self, slots: NDArray[np.int64], sizes: NDArray[np.int64], upper: Any, **fields: Any
    ) -> None:
        columns = {name: fields.pop(name) for name in _COLUMNS & fields.keys()}
        usages, costs = self._columns(sizes, **columns)
        bounds = upper.values if isinstance(upper, Runs) else upper
        given = self.add_requests(sizes, usages, costs, upper=bounds, **fields)
        if not np.array_equal(given, slots):
            raise RuntimeError(
                f"requests have the slots {given} in their part, not {slots}: it missed an edit"
            )

    def _apply_replace_columns(
        self, slots: NDArray[np.int64], sizes: NDArray[np.int64], **fields: Any
    ) -> None:
        usages, costs = self._columns(sizes, **fields)
        own = costs if isinstance(costs, CostsOfVectors) else np.split(costs, np.cumsum(sizes)[:-1])
        self.replace_columns(slots, np.broadcast_to(usages, slots.shape), own)

    def _apply_remove_requests(self, slots: NDArray[np.int64]) -> None:
        self.remove_requests(slots)

    def _apply_set_costs(self, slots: NDArray[np.int64], costs: Runs) -> None:
        self.set_costs(slots.tolist(), np.split(costs.values, np.cumsum(costs.lengths)[:-1]))

    def _apply_set_vectors(self, slots: NDArray[np.int64], vectors: NDArray[np.int64]) -> None:
        self.set_vectors(slots, _mapped(vectors, self.vector_of))

    def _apply_set_scales(self, slots: NDArray[np.int64], scales: NDArray[np.float64]) -> None:
        self.set_scales(slots, scales)

    def _apply_set_overrides(
        self, slots: NDArray[np.int64], columns: Runs, values: Runs, scales: Any
    ) -> None:
        self.set_overrides(slots, columns.lengths, columns.values, values.values, scales)

    def _apply_set_totals(self, slots: NDArray[np.int64], totals: NDArray[np.float64]) -> None:
        self.set_totals(slots, totals)

    def _apply_set_sum_rows(self, slots: NDArray[np.int64], relations: Any, totals: Any) -> None:
        self.set_sum_rows(slots, relations, totals)

    def _apply_set_integral(self, slots: NDArray[np.int64], integral: Any) -> None:
        self.set_integral(slots, integral)

    def _apply_set_uppers(self, slots: NDArray[np.int64], upper: Any) -> None:
        self.set_uppers(slots, upper.values if isinstance(upper, Runs) else upper)

    def _apply_set_term(self, slots: NDArray[np.int64], term: Any) -> None:
        self.set_term(int(slots[0]), term)

    def _apply_restate_terms(
        self, slots: NDArray[np.int64], kind: Kind, names: tuple[str, ...], values: NDArray[np.float64]
    ) -> None:
        parameters = {name: values[:, k].copy() for k, name in enumerate(names)}
        self.restate_terms(slots, self.terms.kinds.index(kind), parameters)

    # ---- inside --------------------------------------------------------------------------------

    def _columns(
        self,
        sizes: NDArray[np.int64],
        usage: Any,
        costs: Any,
        vectors: Any,
        counts: Runs | None = None,
        row: Runs | None = None,
        value: Runs | None = None,
    ) -> tuple[NDArray[np.int64] | int, Any]:
        """Slots of the usages of new columns, those that are a request's own stored, and the costs."""
        shared = costs.values if vectors is None else CostsOfVectors(_mapped(vectors, self.vector_of), sizes)
        if counts is None or row is None or value is None:
            one = isinstance(usage, int)
            return self.usage_of[usage] if one else _mapped(usage, self.usage_of), shared
        own = usage < 0
        slots = np.empty(sizes.size, np.int64)
        slots[~own] = _mapped(usage[~own], self.usage_of)
        pointer = np.zeros(counts.values.size + 1, np.int32 if row.values.size < 2**31 else np.int64)
        np.cumsum(counts.values, out=pointer[1:])
        slots[own] = self.add_usages(sizes[own], pointer, row.values, value.values)
        return slots, shared


_COLUMNS = {"usage", "costs", "vectors", "counts", "row", "value"}


def _mapped(slots: NDArray[np.int64], to: Mapping[int, int]) -> NDArray[np.int64]:
    return np.fromiter(map(to.__getitem__, slots.tolist()), np.int64, slots.size)
