"""DistributedStore: tables of a program whose columns are in other processes, and its edits.

Rows, the table of requests and convex terms are in this process, so that validating an edit or reading a
number of a request needs no round trip. Costs, entries, upper bounds of single columns and overrides are
on the parts. An edit changes the tables and is logged, cut by part (:mod:`copter.store.edit`).
The parts get the log before their next task, or earlier if the log is long. So edits need no round trip, and
the edits of a round are applied together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.ray.executor import DistributedExecutor
from copter.ray.workers import Workers
from copter.store.edit import OWN, Edit, Runs
from copter.store.executor import Part
from copter.store.slabs import places as places_of
from copter.store.store import ConstraintStore, NewOverrides

_MUCH = 1 << 20
"""Number of columns of a part from which on memory is reserved at once, so that the call fails without
memory."""


class DistributedStore(ConstraintStore):
    """Store with the tables of a program whose columns are on workers."""

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self._executor = DistributedExecutor(self, workers)

    @property
    def executor(self) -> DistributedExecutor:
        """Executor of tasks on the columns, on workers."""
        return self._executor

    def apply(self, edit: Edit) -> NDArray[np.int64]:
        """Apply an edit to the tables of this process, and log it for the parts."""
        self.executor.check()
        clock = self.clock
        slots = super().apply(edit)
        whole = edit._replace(slots=slots, clock=clock)
        if not edit.verb.endswith("_requests"):
            self.executor.log(whole.for_all())
        elif slots.size:
            self.executor.log(whole.cut(self.executor.workers.parts))
        return slots

    def reserve(self, columns: int) -> None:
        """Reserve memory on the parts for the costs of `columns` more columns."""
        most = -(-columns // self.executor.workers.parts)
        if most > _MUCH:
            self.executor.map(_reserve, most)  # raises an error in this call if there is not enough memory
        else:
            self.executor.log(Edit("reserve", clock=self.clock, sizes=np.array([most])))

    # ---- usages, whose columns are on the parts ---------------------------------------------------

    def _purge_rows(self) -> None:
        self.rows.free(np.array(self._dropped_rows, np.int64))
        self._dropped_rows = []

    def _share_columns(self, edit: Edit) -> NDArray[np.int64]:
        slot = self.usages.allocate(1)
        self.usages.n_columns[slot], self.usages.shared[slot] = edit.sizes, True
        return slot

    def _forget_columns(self, slot: int) -> None:
        self.usages.shared[slot] = False
        self._count_usages(np.array([slot]), 0)

    def _count_usages(self, slots: NDArray[np.int64], more: int) -> None:
        """Add ``more`` to the reference counts of shared usages, and remove usages without references."""
        slots = slots[slots >= 0]
        table = self.usages
        np.add.at(table.references, slots, more)
        if more <= 0:
            found = np.unique(slots)
            unused = found[(table.references[found] == 0) & ~table.shared[found]]
            if unused.size:
                table.free(unused)

    # ---- requests ------------------------------------------------------------------------------

    def _add_requests(self, edit: Edit) -> NDArray[np.int64]:
        table, sizes = self.requests, edit.sizes
        assert sizes is not None
        slots = table.allocate(sizes.size)
        where = places_of(slots)
        self.clock += 1
        self._write_columns(where, edit)
        table.exact[where], table.scale[where], table.integral[where] = (
            edit.exact,
            edit.scales,
            edit.integral,
        )
        if edit.totals is not None:
            table.total[where] = edit.totals
        if isinstance(edit.upper, Runs):
            table.upper_start[where] = 0
        else:
            table.upper[where] = edit.upper
        return slots

    def _write_columns(self, where: NDArray[np.int64] | slice, edit: Edit) -> None:
        table, usages = self.requests, edit.usage
        assert edit.sizes is not None and usages is not None
        if edit.columns is not None:
            usages = np.where(edit.columns.widths > 0, OWN, usages)
        table.n_columns[where], table.usage[where] = edit.sizes, usages
        table.generation[where] = table.cost_stamp[where] = table.bound_stamp[where] = self.clock
        self._count_usages(np.broadcast_to(usages, edit.sizes.shape), 1)
        self.n_variables += int(edit.sizes.sum())

    def _free_requests(self, slots: NDArray[np.int64]) -> None:
        self._let_go(slots)
        self.requests.free(slots)

    def _let_go(self, slots: NDArray[np.int64]) -> None:
        """Decrease the counts of columns, and of references to usages, of removed requests."""
        table = self.requests
        self.n_variables -= int(table.n_columns[slots].sum())
        self._count_usages(table.usage[slots], -1)

    def _replace_columns(self, edit: Edit) -> None:
        slots, table = edit.slots, self.requests
        self.clock += 1
        self._let_go(slots)
        table.upper_start[slots], table.override_length[slots] = -1, 0
        self._write_columns(slots, edit)

    def _set_uppers(self, slots: NDArray[np.int64], upper: float | Runs) -> None:
        own, table = isinstance(upper, Runs), self.requests
        self.clock += 1
        table.upper_start[slots] = 0 if own else -1
        table.upper[slots], table.bound_stamp[slots] = np.inf if own else upper, self.clock

    # ---- costs of requests ---------------------------------------------------------------------

    def _set_costs(self, slots: NDArray[np.int64], costs: Runs) -> None:  # noqa: ARG002 - the parts have them
        self.clock += 1
        self.requests.cost_stamp[slots] = self.clock

    def _set_scales(self, slots: NDArray[np.int64], scales: NDArray[np.float64] | float) -> None:
        self.clock += 1
        self.requests.scale[slots], self.requests.cost_stamp[slots] = scales, self.clock

    def _write_overrides(
        self, slots: NDArray[np.int64], lengths: NDArray[np.int64], new: NewOverrides
    ) -> None:
        table, scales = self.requests, new[2]
        table.override_length[slots], table.cost_stamp[slots] = lengths, self.clock
        if scales.size:
            table.scale[slots] = scales

    # ---- one request, read from its part --------------------------------------------------------

    def get_override(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return columns (k,) and costs (k,) of a request's override."""
        found: tuple[NDArray[np.int64], NDArray[np.float64]]
        found = self.executor.ask(_tell, slot, "get_override")
        return found

    def base_costs(self, slot: int) -> NDArray[np.float64]:
        """Return a request's given costs (n,), without scale and overrides."""
        costs: NDArray[np.float64] = self.executor.ask(_tell, slot, "base_costs")
        return costs

    def effective_costs(self, slot: int) -> NDArray[np.float64]:
        """Return a request's effective costs (n,), with scale and overrides applied."""
        costs: NDArray[np.float64] = self.executor.ask(_tell, slot, "effective_costs")
        return costs

    def upper_bounds(self, slot: int) -> NDArray[np.float64]:
        """Return the upper bounds (n,) of a request's columns."""
        upper: NDArray[np.float64] = self.executor.ask(_tell, slot, "upper_bounds")
        return upper

    def request_entries(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return columns, rows and coefficients (nnz,) of a request's entries, column after column."""
        found: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
        found = self.executor.ask(_tell, slot, "request_entries")
        return found

    @property
    def nnz(self) -> int:
        """Number of nonzeros in the resource rows, counted for every request, without dropped rows."""
        return sum(self.executor.map(_nnz))


def _reserve(part: Part, columns: int) -> None:
    part.store.costs.reserve(columns)


def _tell(part: Part, slot: int, what: str) -> Any:
    return getattr(part.store, what)(slot)


def _nnz(part: Part) -> int:
    return part.store.nnz
