"""Layout of the program in memory: tables and pools, and how single requests and columns are read from them.

Four tables describe what is stored:

``requests``
    one block of columns each: where its costs lie, which usage it has, its sum row, its upper bounds,
    a scale on its costs.  A free slot has ``n_columns == 0``.  A convex term and its image, which few have,
    are kept aside in ``terms``.
``usages``
    the coupling columns A_q in compressed form (pointers, rows, coefficients).  Requests that share a column
    template point at the same usage, and so store nothing but their costs.  Where all coefficients are 1, as
    those of paths over links, none is stored: an entry is its row, 4 bytes.
``vectors``
    costs that requests share: these requests' costs lie where the vector's do.
``rows``
    one resource each: ``lower <= sum_q A_q x_q <= upper``.

Effective cost of column j of request q: ``scale[q] * cost[start[q] + j]``.  An override of single columns
is folded into the pool (the pool then holds value / scale), the original is kept aside, so that moving all
costs of a request but a few takes O(few) time and kernels need not know.  Where the costs are a shared
vector's (``vector[q] >= 0``) the pool is not the request's to write to: the override stays aside, and who
reads costs lays it over them (:func:`copter.store.view.cost_of`).

Stamps, and the log of edits, are taken from one revision counter, ``clock``: they tell a solver that keeps a
state what changed since then.

Source: list-of-lists store of COpter, thesis section 4.3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from copter.store.edit_log import EditLog
from copter.store.kernels import NO_TOTAL
from copter.store.slabs import Pool, Table, named, slice_indices, typed, under
from copter.store.term_table import TermTable

_COMPONENTS = (
    "costs",
    "uppers",
    "pointers",
    "entries",
    "coefficients",
    "overrides",
    "rows",
    "usages",
    "vectors",
    "requests",
    "terms",
    "edits",
)
"""Attributes of a store that have arrays: its pools, its tables and its log of edits."""


class Layout:
    """Rows, usages and requests on slabs; see the module's head."""

    def __init__(self) -> None:
        self.clock = 0
        self.n_variables = 0
        self.costs = Pool(cost=np.float64)
        self.uppers = Pool(upper=np.float64)
        self.pointers = Pool(pointer=np.int32)
        self.entries = Pool(row=np.int32)
        self.coefficients = Pool(value=np.float64)
        self.coefficients.value[self.coefficients.allocate(1)] = 1.0  # that of all who store none
        self.overrides = Pool(column=np.int32, original=np.float64, value=np.float64)
        self.rows = Table(
            lower=(np.float64, -np.inf),
            upper=(np.float64, np.inf),
            alive=(np.bool_, False),
            birth=(np.int64, -1),
            stamp=(np.int64, -1),
        )
        self.usages = Table(
            pointer_start=(np.int64, 0),
            entry_start=(np.int64, 0),
            n_columns=(np.int64, 0),
            nnz=(np.int64, 0),
            value_start=(np.int64, -1),
            references=(np.int64, 0),
            shared=(np.bool_, False),
        )
        self.vectors = Table(
            cost_start=(np.int64, 0),
            n_columns=(np.int64, 0),
            references=(np.int64, 0),
            shared=(np.bool_, False),
        )
        self.requests = Table(
            cost_start=(np.int64, 0),
            n_columns=(np.int64, 0),
            usage=(np.int64, -1),
            scale=(np.float64, 1.0),
            upper=(np.float64, np.inf),
            upper_start=(np.int64, -1),
            total=(np.float64, np.inf),
            relation=(np.int8, NO_TOTAL),
            integral=(np.bool_, False),
            override_start=(np.int64, 0),
            override_length=(np.int64, 0),
            birth=(np.int64, -1),
            cost_stamp=(np.int64, -1),
            bound_stamp=(np.int64, -1),
            vector=(np.int64, -1),
        )
        self.terms = TermTable()
        self.packed_terms: Any = None
        self.last_view: Any = None
        self.known: tuple[int, dict[Any, Any]] = (-1, {})
        self.edits = EditLog()
        self._dropped_rows: list[int] = []
        self._token, self._copied_at = uuid4().hex, -1

    def __getstate__(self) -> dict[str, Any]:
        # what else it knows is found again when asked for
        return vars(self) | {
            "packed_terms": None,
            "last_view": None,
            "known": (-1, {}),
            "_token": self.token,
            "_copied_at": self.clock,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that the program is, as flat arrays by name; views, to be read before the next edit.

        The classes of convex terms are no arrays: they are in ``terms.kinds``.
        """
        found = {
            "counts": np.array([self.clock, self.n_variables]),
            "dropped": np.array(self._dropped_rows, np.int64),
        }
        for name in _COMPONENTS:
            found |= named(name, getattr(self, name).arrays())
        return found

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become the program that :meth:`arrays` was asked of, with the classes of terms in ``terms.kinds``.

        Parameters
        ----------
        arrays : mapping of str to flat ndarray
            Taken over, not copied.

        Raises
        ------
        ValueError, KeyError
            They cannot be of one store.  That what they point at is there is checked elsewhere
            (:func:`copter.durable.soundness.check_store`).
        """
        self.clock, self.n_variables = typed(arrays["counts"], np.int64).tolist()
        self._dropped_rows = typed(arrays["dropped"], np.int64).tolist()
        for name in _COMPONENTS:
            getattr(self, name).set_arrays(under(arrays, name))

    @property
    def token(self) -> str:
        """Which program this is, beside the clock: a copy is the same one until it is edited."""
        if self._copied_at not in (-1, self.clock):
            self._token, self._copied_at = uuid4().hex, -1
        return self._token

    def tick(self) -> int:
        """Next stamp of the clock."""
        self.clock += 1
        return self.clock

    # ---- one request ---------------------------------------------------------------------------

    def get_override(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Columns and costs of a request's override.

        Returns
        -------
        (k,) ndarray, (k,) ndarray
        """
        start, length = int(self.requests.override_start[slot]), int(self.requests.override_length[slot])
        part = slice(start, start + length)
        return self.overrides.column[part].astype(np.int64), self.overrides.value[part].copy()

    def base_costs(self, slot: int) -> NDArray[np.float64]:
        """Copy of a request's costs as they were given, without scale and overrides.

        Returns
        -------
        (n,) ndarray
        """
        start, n = int(self.requests.cost_start[slot]), int(self.requests.n_columns[slot])
        costs: NDArray[np.float64] = self.costs.cost[start : start + n].copy()
        if self.requests.vector[slot] < 0:
            at, length = int(self.requests.override_start[slot]), int(self.requests.override_length[slot])
            costs[self.overrides.column[at : at + length]] = self.overrides.original[at : at + length]
        return costs

    def aside(
        self, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Overrides of those of some requests whose costs are shared, as they are no part of the pool.

        Parameters
        ----------
        slots : (k,) array

        Returns
        -------
        place : (m,) ndarray
            Of the request among the slots.
        column, value : (m,) ndarrays
        """
        table = self.requests
        lengths = np.where(table.vector[slots] >= 0, table.override_length[slots], 0)
        flat = slice_indices(table.override_start[slots], lengths)
        place = np.repeat(np.arange(slots.size), lengths)
        return place, self.overrides.column[flat].astype(np.int64), self.overrides.value[flat]

    def effective_costs(self, slot: int) -> NDArray[np.float64]:
        """Copy of a request's costs, scale and overrides applied.

        Returns
        -------
        (n,) ndarray
        """
        start, n = int(self.requests.cost_start[slot]), int(self.requests.n_columns[slot])
        costs: NDArray[np.float64] = self.requests.scale[slot] * self.costs.cost[start : start + n]
        columns, values = self.get_override(slot)
        costs[columns] = values
        return costs

    def priced_columns(
        self, slot: int, y: NDArray[np.float64], cost_factor: float = 1.0
    ) -> NDArray[np.float64]:
        """cost_factor c + A'y of a request's columns.

        Parameters
        ----------
        y : (row slots,) ndarray
            Prices of the rows.

        Returns
        -------
        (n,) ndarray
        """
        usage, n = int(self.requests.usage[slot]), int(self.requests.n_columns[slot])
        row, value = self.entries_of(usage)
        at, priced = int(self.usages.pointer_start[usage]), y[row] * value
        running = np.concatenate(([0.0], np.cumsum(priced)))
        pointer = self.pointers.pointer[at : at + n + 1]
        return cost_factor * self.effective_costs(slot) + running[pointer[1:]] - running[pointer[:-1]]

    def entries_of(self, usage: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Rows and coefficients of a usage's entries, column after column.

        Returns
        -------
        (nnz,) ndarray, (nnz,) ndarray
        """
        fields = ("entry_start", "nnz", "value_start")
        start, nnz, value = (int(getattr(self.usages, name)[usage]) for name in fields)
        row: NDArray[np.int32] = self.entries.row[start : start + nnz]
        return row, np.ones(nnz) if value < 0 else self.coefficients.value[value : value + nnz]

    def request_entries(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Columns, rows and coefficients of a request's entries, column after column.

        Returns
        -------
        (nnz,) ndarray, (nnz,) ndarray, (nnz,) ndarray
        """
        usage, n = int(self.requests.usage[slot]), int(self.requests.n_columns[slot])
        at = int(self.usages.pointer_start[usage])
        column = np.repeat(np.arange(n), np.diff(self.pointers.pointer[at : at + n + 1]))
        return column, *self.entries_of(usage)

    def coefficients_of(
        self, usage: NDArray[np.int64], begin: NDArray[np.integer], counts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Coefficients of runs of entries, each of one usage, flat.

        Parameters
        ----------
        usage, begin, counts : (k,) arrays
            Of each run: its usage, the place of its first entry there, how many entries it has.

        Returns
        -------
        (sum of the counts,) ndarray
        """
        start = self.usages.value_start[usage]
        place = slice_indices(np.where(start >= 0, start + begin, 0), counts)
        place[np.repeat(start < 0, counts)] = 0  # where the 1 of all who store none lies
        coefficients: NDArray[np.float64] = self.coefficients.value[place]
        return coefficients

    def upper_bounds(self, slot: int) -> NDArray[np.float64]:
        """Copy of the upper bounds of a request's columns.

        Returns
        -------
        (n,) ndarray
        """
        n, start = int(self.requests.n_columns[slot]), int(self.requests.upper_start[slot])
        if start < 0:
            return np.full(n, self.requests.upper[slot])
        copy: NDArray[np.float64] = self.uppers.upper[start : start + n].copy()
        return copy

    def live_requests(self) -> NDArray[np.int64]:
        """Slots in use, ascending.

        Returns
        -------
        (requests,) ndarray
        """
        return np.flatnonzero(self.requests.n_columns[: self.requests.size])

    @property
    def nnz(self) -> int:
        """Nonzeros in the resource rows, every request counted, dropped rows not."""
        usages = self.usages
        nnz = usages.nnz[: usages.size].copy()
        if self._dropped_rows:
            for slot in np.flatnonzero(nnz).tolist():
                start = int(usages.entry_start[slot])
                nnz[slot] = self.rows.alive[self.entries.row[start : start + int(nnz[slot])]].sum()
        return int(nnz @ usages.references[: usages.size])
