"""ConstraintStore: tables of a program, and the part of edits that does not depend on where columns are.

There are three tables:

``requests``
    Each request is a block of columns. Its slot has the position of its costs, its usage, the total of its
    sum row (``exact`` if the sum equals it), its upper bounds and the scale of its costs. A free slot has
    ``n_columns == 0``. The few convex terms and their images are stored separately in ``terms``.
``usages``
    Coupling columns A_q in compressed form (pointers, rows, coefficients). Requests with shared columns refer
    to the same usage, so they store only their costs. If all coefficients are 1, for example for paths over
    links, no coefficients are stored: an entry is its row, 4 bytes.
``rows``
    Each row is a resource: ``lower <= sum_q A_q x_q <= upper``.

The effective cost of column j of request q is ``scale[q] * cost[start[q] + j]``, with the array of costs
``cost``. An override of a column is written into ``cost`` as value / scale, and the original cost is stored
separately. So changing the scale of a request takes time proportional to the number of overrides, and kernels
need not read overrides.

Every edit increases the revision counter ``clock``. The log of edits and the fields whose names end in
``stamp`` have revisions, by which a solver that keeps a state finds the changes since its last solve.

Source: list-of-lists store of COpter, thesis section 4.3.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from copter.store.edit import Edit, Entries, Runs
from copter.store.edit_log import EditLog
from copter.store.slabs import SlotTable, contiguous, named, one_each, places, slice_indices, typed, under
from copter.store.term_table import TermTable

if TYPE_CHECKING:
    from copter.store.executor import Executor

__all__ = [
    "LACKING",
    "NONE_GIVEN",
    "ConstraintStore",
    "NewOverrides",
    "slice_indices",
]

LACKING = 1e-9
"""Relative tolerance for upper bounds whose sum is below a total, because input numbers are rounded."""
NewOverrides: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Columns and values of overrides, request after request, and new scales or an empty array."""
_OF_REQUESTS = ("add_requests", "update_requests", "remove_requests")
NONE_GIVEN = np.empty(0)
"""Empty array that means that numbers are not given."""


class ConstraintStore(ABC):
    """Tables of rows, usages and requests, and the methods that edit them.

    :class:`copter.store.local.LocalStore` keeps the columns in arrays of this process.
    :class:`copter.ray.store.DistributedStore` sends them to other processes.
    """

    with_arrays: ClassVar[tuple[str, ...]] = ("rows", "usages", "requests", "terms", "edits")
    """Attributes with arrays: tables, the log of edits, and the growable arrays of a store with columns."""

    def __init__(self) -> None:
        self.clock = 0
        self.n_variables = 0
        self.rows = SlotTable(
            lower=(np.float64, -np.inf),
            upper=(np.float64, np.inf),
            alive=(np.bool_, False),
            generation=(np.int64, -1),
            stamp=(np.int64, -1),
        )
        self.usages = SlotTable(
            pointer_start=(np.int64, 0),
            entry_start=(np.int64, 0),
            n_columns=(np.int64, 0),
            nnz=(np.int64, 0),
            value_start=(np.int64, -1),
            references=(np.int64, 0),
            shared=(np.bool_, False),
        )
        self.requests = SlotTable(
            cost_start=(np.int64, 0),
            n_columns=(np.int64, 0),
            usage=(np.int64, -1),
            scale=(np.float64, 1.0),
            upper=(np.float64, np.inf),
            upper_start=(np.int64, -1),
            total=(np.float64, np.inf),
            exact=(np.bool_, False),
            integral=(np.bool_, False),
            override_start=(np.int64, 0),
            override_length=(np.int64, 0),
            generation=(np.int64, -1),
            cost_stamp=(np.int64, -1),
            bound_stamp=(np.int64, -1),
        )
        self.terms = TermTable()
        self.packed_terms: Any = None
        self.last_view: Any = None
        self.known: tuple[int, dict[Any, Any]] = (-1, {})
        self.edits = EditLog()
        self._dropped_rows: list[int] = []
        self._token, self._copied_at = uuid4().hex, -1

    def __getstate__(self) -> dict[str, Any]:
        # the attributes below are caches, which are computed again when they are needed
        return vars(self) | {
            "packed_terms": None,
            "last_view": None,
            "known": (-1, {}),
            "_token": self.token,
            "_copied_at": self.clock,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the whole program as flat arrays by name, as views that are valid until the next edit.

        The classes of convex terms are not among them; they are in ``terms.kinds``.
        """
        found = {
            "counts": np.array([self.clock, self.n_variables]),
            "dropped": np.array(self._dropped_rows, np.int64),
        }
        for name in self.with_arrays:
            found |= named(name, getattr(self, name).arrays())
        return found

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the store from the arrays that :meth:`arrays` returned; the arrays are not copied.

        The classes of convex terms must be in ``terms.kinds``. Raise ValueError or KeyError if the arrays are
        not of one store. :func:`copter.durable.soundness.check_store` checks references between arrays.
        """
        self.clock, self.n_variables = typed(arrays["counts"], np.int64).tolist()
        self._dropped_rows = typed(arrays["dropped"], np.int64).tolist()
        for name in self.with_arrays:
            getattr(self, name).set_arrays(under(arrays, name))

    @property
    def token(self) -> str:
        """Id of this program, in addition to the revision; a copy has the same id until it is edited."""
        if self._copied_at not in (-1, self.clock):
            self._token, self._copied_at = uuid4().hex, -1
        return self._token

    def tick(self) -> int:
        """Return the next revision."""
        self.clock += 1
        return self.clock

    def live_requests(self) -> NDArray[np.int64]:
        """Return the slots in use, ascending."""
        return np.flatnonzero(self.requests.n_columns[: self.requests.size])

    # ---- edits ---------------------------------------------------------------------------------

    def apply(self, edit: Edit) -> NDArray[np.int64]:
        """Apply a validated edit; return the slots of what it adds, else the slots that the edit has."""
        slots = self._make(edit)
        if edit.verb in _OF_REQUESTS:
            self.edits.note(self.clock, slots, self.requests.size)
        return slots

    def edited_since(self, revision: int) -> NDArray[np.int64] | None:
        """Return the ascending slots of the requests that were added, updated or removed after a revision.

        Return None if the log of edits does not reach back that far
        (:class:`copter.store.edit_log.EditLog`).
        """
        return self.edits.since(revision)

    def _make(self, edit: Edit) -> NDArray[np.int64]:
        match edit.verb:
            case "add_requests":
                slots = self._add_requests(edit)
                if edit.overrides is not None:
                    self._set_overrides(slots, edit.overrides, None)
                if edit.terms is not None:
                    self._set_terms(slots, edit.terms)
                return slots
            case "update_requests":
                self._update_requests(edit)
            case "remove_requests":
                self._remove_requests(edit.slots)
            case "add_resources":
                return self._add_rows(edit)
            case "update_resources":
                self._set_rows(edit)
            case "remove_resources":
                for slot in edit.slots.tolist():
                    self._drop_row(slot)
            case "share_columns":
                return self._share_columns(edit)
            case "forget_columns":
                self._forget_columns(int(edit.slots[0]))
            case _:
                raise ValueError(f"a store has no edit {edit.verb!r}")
        return edit.slots

    def _add_rows(self, edit: Edit) -> NDArray[np.int64]:
        assert edit.lower is not None
        slots = self.rows.allocate(edit.lower.size)
        self.clock += 1
        self.rows.alive[slots] = True
        self.rows.generation[slots] = self.rows.stamp[slots] = self.clock
        self.rows.lower[slots], self.rows.upper[slots] = edit.lower, edit.upper
        return slots

    def _set_rows(self, edit: Edit) -> None:
        self.clock += 1
        where = places(edit.slots)
        self.rows.stamp[where] = self.clock
        self.rows.lower[where], self.rows.upper[where] = edit.lower, edit.upper

    def _drop_row(self, slot: int) -> None:
        """Remove a row in O(1) time; its entries are removed after enough rows were dropped."""
        self.clock += 1
        self.rows.alive[slot] = False
        self.rows.lower[slot], self.rows.upper[slot] = -np.inf, np.inf
        self._dropped_rows.append(slot)
        if len(self._dropped_rows) > 64 and 2 * len(self._dropped_rows) > self.rows.size:
            self._purge_rows()

    def _remove_requests(self, slots: NDArray[np.int64]) -> None:
        if not slots.size:
            return
        self.clock += 1
        if self.terms:
            self.terms.drop(slots.tolist())
        self._free_requests(slots)

    def _update_requests(self, edit: Edit) -> None:
        slots = edit.slots
        if edit.usage is not None:
            self._replace_columns(edit)
        elif edit.costs is not None:
            self._set_costs(slots, edit.costs)
        if edit.totals is not None:
            self.clock += 1
            table, at = self.requests, places(slots)
            table.total[at], table.bound_stamp[at] = edit.totals, self.clock
            if edit.exact is not None:
                table.exact[at] = edit.exact
        if edit.upper is not None:
            assert not isinstance(edit.upper, np.ndarray)  # only bounds of resources are arrays
            self._set_uppers(slots, edit.upper)
        if edit.integral is not None:
            self.clock += 1
            self.requests.integral[slots] = edit.integral
        if edit.overrides is not None:
            self._set_overrides(slots, edit.overrides, edit.scales)
        elif edit.scales is not None:
            self._set_scales(slots, edit.scales)
        if edit.terms is not None:
            self._set_terms(slots, edit.terms)
        if edit.parameters is not None:
            self.clock += 1
            self.requests.cost_stamp[slots] = self.clock
            columns = {name: edit.parameters[:, k] for k, name in enumerate(edit.names)}
            self.terms.restate(slots, int(self.terms.kind_of(slots[:1])[0]), columns)

    def _set_terms(self, slots: NDArray[np.int64], terms: NDArray[Any]) -> None:
        """Set or remove the convex terms of requests, with their images."""
        for slot, term in zip(slots.tolist(), terms, strict=True):
            self.clock += 1
            self.requests.cost_stamp[slot] = self.clock
            if term is None:
                self.terms.drop([slot])
            else:
                self.terms.put(slot, *term)

    def _set_overrides(
        self, slots: NDArray[np.int64], given: Entries, scales: NDArray[np.float64] | float | None
    ) -> None:
        """Replace the overrides of the requests in `given` and, if given, the scales of all requests."""
        if given.given is not None:
            if scales is not None:
                self._set_scales(slots, scales)
            slots, scales = slots[given.given], None
        lengths = given.counts if given.given is None else given.counts[given.given]
        self.clock += 1
        factors = NONE_GIVEN if scales is None else one_each(scales, slots.size)
        new = contiguous(given.columns), contiguous(given.values), factors
        self._write_overrides(slots, lengths, new)

    # ---- methods that depend on where the columns are --------------------------------------------

    @property
    @abstractmethod
    def executor(self) -> Executor:
        """Executor of tasks on the columns, in this process or on workers."""

    @property
    @abstractmethod
    def nnz(self) -> int:
        """Number of nonzeros in the resource rows, counted for every request, without dropped rows."""

    @abstractmethod
    def reserve(self, columns: int) -> None:
        """Reserve memory for the costs of `columns` more columns."""

    @abstractmethod
    def get_override(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return columns (k,) and costs (k,) of a request's override."""

    @abstractmethod
    def base_costs(self, slot: int) -> NDArray[np.float64]:
        """Return a copy of a request's given costs (n,), without scale and overrides."""

    @abstractmethod
    def effective_costs(self, slot: int) -> NDArray[np.float64]:
        """Return a copy of a request's effective costs (n,), with scale and overrides applied."""

    @abstractmethod
    def upper_bounds(self, slot: int) -> NDArray[np.float64]:
        """Return a copy of the upper bounds (n,) of a request's columns."""

    @abstractmethod
    def request_entries(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return columns, rows and coefficients (nnz,) of a request's entries, column after column."""

    @abstractmethod
    def _purge_rows(self) -> None:
        """Remove the entries of dropped rows, and free the slots of these rows."""

    @abstractmethod
    def _add_requests(self, edit: Edit) -> NDArray[np.int64]: ...

    @abstractmethod
    def _free_requests(self, slots: NDArray[np.int64]) -> None:
        """Free the slots of requests, and the data that only these requests use."""

    @abstractmethod
    def _replace_columns(self, edit: Edit) -> None:
        """Replace the columns of requests; their scales, sum rows and scalar bounds stay."""

    @abstractmethod
    def _set_uppers(self, slots: NDArray[np.int64], upper: float | Runs) -> None:
        """Set the upper bounds of all columns of many requests, one number or one run for each request."""

    @abstractmethod
    def _set_costs(self, slots: NDArray[np.int64], costs: Runs) -> None:
        """Set the costs of all columns of some requests; their overrides keep their values."""

    @abstractmethod
    def _set_scales(self, slots: NDArray[np.int64], scales: NDArray[np.float64] | float) -> None:
        """Set the scales of many requests; their overrides keep their values."""

    @abstractmethod
    def _write_overrides(
        self, slots: NDArray[np.int64], lengths: NDArray[np.int64], new: NewOverrides
    ) -> None:
        """Replace overrides of requests."""

    @abstractmethod
    def _share_columns(self, edit: Edit) -> NDArray[np.int64]:
        """Store shared columns; return their slot."""

    @abstractmethod
    def _forget_columns(self, slot: int) -> None:
        """Remove the handle of shared columns; requests that use them keep them."""
