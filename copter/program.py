"""ContinualProgram: a linear program that stays alive between rounds and is edited by deltas.

    minimise    sum_q c_q'x_q
    subject to  l <= sum_q A_q x_q <= u          resources (coupling rows)
                0 <= x_q <= upper_q              request-local box,
                sum(x_q) <= total_q (or ==)      and, if wanted, one sum row

Every verb validates its arguments first and applies them only if all are right: a rejected edit raises
:class:`copter.errors.EditError` and changes nothing.  Ids are any hashable and stay valid until removed.

Source: differential interface of COpter, thesis section 4.3.2; costs that move together and shared column
templates go beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.store import EXACTLY, NO_TOTAL, ConstraintStore
from copter.validation import (
    coefficients_of,
    cost_vector,
    first_duplicate,
    flag,
    number,
    row_bounds,
    scale_factor,
    sparse_entries,
    sum_row,
    upper_bounds,
    vector,
    whole_numbers,
)

if TYPE_CHECKING:
    from scipy.sparse import sparray

Relation: TypeAlias = Literal["<=", "=="]


class _Keep:
    def __repr__(self) -> str:
        return "<as it is>"


KEEP: Any = _Keep()
"""Default of update arguments for which None means something: leave the field as it is."""


@dataclass(frozen=True)
class Template:
    """Handle of columns that many requests share; made by :meth:`ContinualProgram.add_template`."""

    slot: int
    n_columns: int
    birth: int = field(default=-1, repr=False)


Usage: TypeAlias = Template | Mapping[Hashable, Any]


class ContinualProgram:
    """A linear program over named resources and requests, edited in place.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> program.n_variables, program.n_rows
    (2, 2)
    """

    def __init__(self) -> None:
        self.store = ConstraintStore()
        self._resources: dict[Hashable, int] = {}
        self._requests: dict[Hashable, int] = {}
        self._templates: dict[int, Template] = {}
        self._starts: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}

    # ---- what is there ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request: Hashable) -> bool:
        return request in self._requests

    @property
    def request_ids(self) -> list[Hashable]:
        """Ids of all requests, in the order in which they were added."""
        return list(self._requests)

    @property
    def resource_ids(self) -> list[Hashable]:
        """Ids of all resources, in the order in which they were added."""
        return list(self._resources)

    @property
    def request_slots(self) -> NDArray[np.int64]:
        """Store slots of all requests, in the order of :attr:`request_ids`."""
        return np.fromiter(self._requests.values(), np.int64, len(self._requests))

    @property
    def resource_slots(self) -> NDArray[np.int64]:
        """Store slots of all resources, in the order of :attr:`resource_ids`."""
        return np.fromiter(self._resources.values(), np.int64, len(self._resources))

    @property
    def n_variables(self) -> int:
        """Number of columns."""
        return self.store.n_variables

    @property
    def n_rows(self) -> int:
        """Number of rows: resources, and sum rows of requests."""
        table = self.store.requests
        return len(self._resources) + int(np.count_nonzero(table.relation[: table.size]))

    @property
    def nnz(self) -> int:
        """Number of nonzeros in the resource rows."""
        return self.store.nnz

    def costs(self, request: Hashable) -> NDArray[np.float64]:
        """Effective costs of a request, shape (n,): scale and overrides applied."""
        return self.store.effective_costs(self._request(request))

    def total(self, request: Hashable) -> float | None:
        """Total of a request's sum row, None if it has none."""
        slot = self._request(request)
        table = self.store.requests
        return None if table.relation[slot] == NO_TOTAL else float(table.total[slot])

    def capacity(self, resource: Hashable) -> tuple[float, float]:
        """Lower and upper bound of a resource."""
        slot = self._resource(resource)
        return float(self.store.rows.lower[slot]), float(self.store.rows.upper[slot])

    # ---- resources -------------------------------------------------------------------------------

    def add_resource(self, id: Hashable, upper: float = math.inf, lower: float = -math.inf) -> None:
        """Add a coupling row ``lower <= usage <= upper``.

        Raises
        ------
        EditError
            The id is taken, a bound is NaN, or lower > upper.
        """
        if id in self._resources:
            raise EditError(id, "id", id, "a resource of this id exists already")
        lower, upper = row_bounds(id, lower, upper)
        self._resources[id] = self.store.add_row(lower, upper)

    def set_capacity(self, id: Hashable, upper: float | None = None, lower: float | None = None) -> None:
        """Set one or both bounds of a resource; None leaves a bound as it is."""
        slot = self._resource(id)
        old_lower, old_upper = self.capacity(id)
        bounds = row_bounds(id, old_lower if lower is None else lower, old_upper if upper is None else upper)
        self.store.set_row(slot, *bounds)

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
        self.store.drop_row(self._resource(id))
        del self._resources[id]

    def _change_capacity(self, id: Hashable, count: float, sign: float) -> None:
        slot = self._resource(id)
        count = number(id, "count", count)
        if not 0 <= count < math.inf:
            raise EditError(id, "count", count, "must be finite and not negative")
        lower, old = self.capacity(id)
        upper = old + sign * count
        if upper < lower or (upper < 0 <= old):
            raise EditError(id, "count", count, f"would leave a capacity of {upper} (lower bound {lower})")
        self.store.set_row(slot, lower, upper)

    # ---- templates -------------------------------------------------------------------------------

    def add_template(self, usage: Mapping[Hashable, Any], n_columns: int) -> Template:
        """Columns that many requests will share.

        Parameters
        ----------
        usage : mapping of resource id to coefficients
            As in :meth:`add_request`.
        n_columns : int
            Number of columns.
        """
        if n_columns < 1:
            raise EditError("template", "n_columns", n_columns, "must be at least 1")
        slot = self._add_usage("template", usage, n_columns, shared=True)
        self._templates[slot] = Template(slot, n_columns, self.store.tick())
        return self._templates[slot]

    def drop_template(self, template: Template) -> None:
        """Forget a template; requests that use it keep their columns."""
        self._check_template("template", template)
        del self._templates[template.slot]
        self.store.usages.shared[template.slot] = False
        if not self.store.usages.references[template.slot]:
            self.store.free_usages([template.slot])

    # ---- requests --------------------------------------------------------------------------------

    def add_request(
        self,
        id: Hashable,
        costs: ArrayLike,
        usage: Usage,
        *,
        total: float | None = None,
        relation: Relation = "<=",
        upper: float | ArrayLike = math.inf,
        scale: float = 1.0,
        override: Mapping[int, float] | None = None,
        integral: bool = False,
        start: Mapping[int, float] | None = None,
    ) -> None:
        """Add a request: a block of columns.

        Parameters
        ----------
        id : hashable
        costs : (n,) array_like
            Finite cost of each column.
        usage : Template or mapping
            Coefficients in the resource rows: ``{resource id: coefficients}`` with a scalar (all columns),
            an (n,) array, or a pair (column indices, values).
        total, relation : float, "<=" or "=="
            Sum row of the request; None for no sum row.
        upper : float or (n,) array_like
            Upper bound of the columns, >= 0, may be infinite; 0 closes a column.
        scale : float
            Finite factor > 0 on all costs that are not overridden.
        override : mapping of column to cost
            Costs that the scale does not touch.
        integral : bool
            Whether an integral allocation is wanted (for MILP solvers and shims).
        start : mapping of column to value
            Allocation from which a warm start should begin, for example of a request that was
            replaced by this one.

        Raises
        ------
        EditError
            Duplicate id, unknown resource or template, wrong length, NaN, an infinite cost, a negative
            total or upper bound: names the request, the field and the value.
        """
        self._check_new(id)
        cost = cost_vector(id, "costs", costs)
        kind, amount = sum_row(id, total, relation)
        bound = upper_bounds(id, upper, cost.size)
        scale = scale_factor(id, scale)
        columns, values = sparse_entries(id, "override", override or {}, cost.size)
        begin = sparse_entries(id, "start", start, cost.size) if start is not None else None
        whole = flag(id, "integral", integral)
        slot = self._insert(id, cost, usage)
        table = self.store.requests
        table.integral[slot], table.scale[slot] = whole, scale
        self.store.set_bounds(slot, kind, amount, bound)
        if columns.size:
            self.store.set_overrides(np.array([slot]), np.array([columns.size]), columns, values)
        if begin is not None:
            self._starts[slot] = begin

    def add_requests(
        self,
        ids: Sequence[Hashable],
        costs: ArrayLike,
        sizes: ArrayLike,
        usage: Template | sparray,
        *,
        totals: ArrayLike | None = None,
        relation: Relation = "<=",
        upper: float | ArrayLike = math.inf,
        scales: ArrayLike | None = None,
        integral: bool = False,
    ) -> None:
        """Add many requests at once; all of them or, if anything is wrong, none.

        Parameters
        ----------
        ids : sequence of k hashables
        costs : (sum(sizes),) array_like
            Costs of all columns, request after request.
        sizes : (k,) array_like of int
            Number of columns of each request.
        usage : Template or sparse array
            One template for all, or a matrix of shape (number of resources, sum(sizes)) whose rows are in
            the order of :attr:`resource_ids`.
        totals : (k,) array_like, optional
        upper : float or (sum(sizes),) array_like
        scales : (k,) array_like, optional
        """
        ids = list(ids)
        label = "add_requests"
        for id in ids:
            self._check_new(id)
        if len(set(ids)) < len(ids):
            raise EditError(label, "ids", first_duplicate(ids), "is given twice")
        widths = whole_numbers(label, "sizes", sizes, len(ids))
        if ids and widths.min() < 1:
            raise EditError(ids[int(widths.argmin())], "sizes", int(widths.min()), "must be at least 1")
        begin = np.concatenate(([0], np.cumsum(widths)))
        cost = cost_vector(label, "costs", costs, int(begin[-1]), owner=(ids, begin))
        amounts = np.full(len(ids), math.inf)
        if totals is not None:
            amounts = vector(label, "totals", totals, len(ids), owner=(ids, np.arange(len(ids))))
            if (amounts < 0).any():
                worst = int(amounts.argmin())
                raise EditError(ids[worst], "total", float(amounts[worst]), "must not be negative")
        kind = sum_row(label, None if totals is None else 0.0, relation)[0]
        bound = upper_bounds(label, upper, int(begin[-1]), owner=(ids, begin))
        factor = np.ones(len(ids))
        if scales is not None:
            factor = vector(label, "scales", scales, len(ids), owner=(ids, np.arange(len(ids))))
        if (factor <= 0).any():
            worst = int(factor.argmin())
            raise EditError(ids[worst], "scale", float(factor[worst]), "must be positive")
        whole = flag(label, "integral", integral)
        if not ids:
            return
        if isinstance(usage, Template):
            self._check_template(label, usage)
            if (widths != usage.n_columns).any():
                wrong = int((widths != usage.n_columns).argmax())
                why = f"template has {usage.n_columns} columns"
                raise EditError(ids[wrong], "costs", int(widths[wrong]), why)
            usages = np.full(len(ids), usage.slot)
        else:
            usages = self._add_matrix(label, usage, widths)
        slots = self.store.add_requests(widths, usages, cost)
        table = self.store.requests
        table.relation[slots], table.total[slots] = kind, amounts
        table.scale[slots], table.integral[slots] = factor, whole
        if isinstance(bound, np.ndarray):
            first = self.store.uppers.allocate(bound.size)
            self.store.uppers.upper[first : first + bound.size] = bound
            table.upper_start[slots] = first + begin[:-1]
        else:
            table.upper[slots] = bound
        self._requests.update(zip(ids, slots.tolist(), strict=True))

    def update_request(
        self,
        id: Hashable,
        *,
        costs: ArrayLike | None = None,
        scale: float | None = None,
        override: Mapping[int, float] | None = None,
        usage: Usage | None = None,
        total: float | None = KEEP,
        relation: Relation | None = None,
        upper: float | ArrayLike | None = None,
        start: Mapping[int, float] | None = None,
    ) -> None:
        """Change a request; what is not given stays as it is.

        New ``costs`` of another length need a new ``usage`` too; a new usage begins without overrides
        (and needs ``upper`` again if the bounds were given per column), its warm start is ``start``.
        ``override`` replaces the whole previous override, ``{}`` clears it.
        """
        slot = self._request(id)
        store, table = self.store, self.store.requests
        n = int(table.n_columns[slot])
        cost = None if costs is None else cost_vector(id, "costs", costs)
        if usage is not None and cost is None:
            raise EditError(id, "usage", usage, "needs the costs of the new columns too")
        if cost is not None and usage is None and cost.size != n:
            raise EditError(id, "costs", cost.size, f"the request has {n} columns; give a new usage too")
        n = n if cost is None else cost.size
        if usage is not None and upper is None and table.upper_start[slot] >= 0:
            raise EditError(id, "upper", upper, "was given per column: a new usage needs it again")
        old_kind = int(table.relation[slot])
        old_total = None if old_kind == NO_TOTAL else float(table.total[slot])
        wanted = old_total if total is KEEP else total
        kept: Relation = "==" if old_kind == EXACTLY and wanted is not None else "<="
        kind, amount = sum_row(id, wanted, relation or kept)
        bound = None if upper is None else upper_bounds(id, upper, n)
        factor = None if scale is None else scale_factor(id, scale)
        patch = None if override is None else sparse_entries(id, "override", override, n)
        begin = sparse_entries(id, "start", start, n) if start is not None else None
        if usage is not None and cost is not None:
            store.replace_columns(slot, self._usage_slot(id, usage, n), cost)
            self._starts.pop(slot, None)
        elif cost is not None:
            store.set_costs([slot], [cost])
        if begin is not None:
            self._starts[slot] = begin
        if bound is not None or total is not KEEP or relation is not None:
            store.set_bounds(slot, kind, amount, self._bound(slot) if bound is None else bound)
        if factor is not None:
            store.set_scales(np.array([slot]), np.array([factor]))
        if patch is not None:
            store.set_overrides(np.array([slot]), np.array([patch[0].size]), *patch)

    def update_requests(
        self,
        ids: Sequence[Hashable],
        *,
        costs: Sequence[ArrayLike] | None = None,
        scales: ArrayLike | None = None,
        overrides: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    ) -> None:
        """Change costs, scales and overrides of many requests at once; all of them or none.

        Parameters
        ----------
        ids : sequence of k hashables
        costs : sequence of k array_likes, optional
            New costs of each request, as many as it has columns.
        scales : (k,) array_like, optional
        overrides : (counts (k,), columns (sum,), costs (sum,)), optional
            Replaces the override of every request named: ``counts`` entries each, flat.
        """
        label = "update_requests"
        slots = self._slots(ids)
        if slots.size > 1 and np.unique(slots).size < slots.size:
            raise EditError(label, "ids", first_duplicate(list(ids)), "is given twice")
        fresh = None
        if costs is not None:
            widths = self.store.requests.n_columns[slots].tolist()
            if len(costs) != len(widths):
                why = f"needs one array for each of {len(widths)} requests"
                raise EditError(label, "costs", len(costs), why)
            fresh = [cost_vector(id, "costs", c, n) for id, c, n in zip(ids, costs, widths, strict=True)]
        factor = None
        if scales is not None:
            factor = vector(label, "scales", scales, slots.size, owner=(ids, np.arange(slots.size)))
            if (factor <= 0).any():
                worst = int(factor.argmin())
                raise EditError(ids[worst], "scale", float(factor[worst]), "must be positive")
        patch = None
        if overrides is not None:
            counts = whole_numbers(label, "override counts", overrides[0], slots.size)
            if (counts < 0).any():
                worst = int(counts.argmin())
                raise EditError(ids[worst], "override counts", int(counts[worst]), "must not be negative")
            columns = whole_numbers(label, "override columns", overrides[1], int(counts.sum()))
            values = cost_vector(label, "override costs", overrides[2], columns.size)
            owner = np.repeat(np.arange(slots.size), counts)
            bad = (columns < 0) | (columns >= self.store.requests.n_columns[slots][owner])
            if bad.any():
                where = int(bad.argmax())
                raise EditError(ids[owner[where]], "override", int(columns[where]), "no such column")
            key = owner * (int(columns.max(initial=0)) + 1) + columns
            if np.unique(key).size < key.size:
                raise EditError(label, "override", "columns", "a column is overridden twice")
            patch = counts, columns, values
        if fresh is not None:
            self.store.set_costs(slots.tolist(), fresh)
        if factor is not None:
            self.store.set_scales(slots, factor)
        if patch is not None:
            self.store.set_overrides(slots, *patch)

    def remove_request(self, id: Hashable) -> None:
        """Remove a request with its columns and its sum row."""
        self.remove_requests([id])

    def remove_requests(self, ids: Sequence[Hashable]) -> None:
        """Remove many requests; all of them or, if an id is unknown or given twice, none."""
        ids = list(ids)
        slots = self._slots(ids).tolist()
        if len(set(slots)) < len(slots):
            raise EditError("remove_requests", "ids", first_duplicate(ids), "is given twice")
        for id, slot in zip(ids, slots, strict=True):
            del self._requests[id]
            self._starts.pop(slot, None)
        self.store.remove_requests(slots)

    def take_starts(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Starts given since the last call, by request slot; for solvers that keep state."""
        starts, self._starts = self._starts, {}
        return starts

    # ---- inside ----------------------------------------------------------------------------------

    def _request(self, id: Hashable) -> int:
        try:
            return self._requests[id]
        except KeyError:
            raise EditError(id, "id", id, "no request of this id") from None

    def _resource(self, id: Hashable) -> int:
        try:
            return self._resources[id]
        except KeyError:
            raise EditError(id, "id", id, "no resource of this id") from None

    def _slots(self, ids: Sequence[Hashable]) -> NDArray[np.int64]:
        try:
            return np.array([self._requests[id] for id in ids], np.int64)
        except KeyError as unknown:
            raise EditError(unknown.args[0], "id", unknown.args[0], "no request of this id") from None

    def _check_new(self, id: Hashable) -> None:
        if id in self._requests:
            raise EditError(id, "id", id, "a request of this id exists already")

    def _check_template(self, subject: Hashable, template: Template) -> None:
        if self._templates.get(template.slot) is not template:
            raise EditError(subject, "usage", template, "no such template in this program (any more)")

    def _bound(self, slot: int) -> float | NDArray[np.float64]:
        table = self.store.requests
        return self.store.upper_bounds(slot) if table.upper_start[slot] >= 0 else float(table.upper[slot])

    def _insert(self, id: Hashable, cost: NDArray[np.float64], usage: Usage) -> int:
        where = self._usage_slot(id, usage, cost.size)
        slot = int(self.store.add_requests(np.array([cost.size]), np.array([where]), cost)[0])
        self._requests[id] = slot
        return slot

    def _usage_slot(self, id: Hashable, usage: Usage, n: int) -> int:
        if isinstance(usage, Template):
            self._check_template(id, usage)
            if usage.n_columns != n:
                raise EditError(id, "costs", n, f"the template has {usage.n_columns} columns")
            return usage.slot
        return self._add_usage(id, usage, n, shared=False)

    def _add_usage(self, id: Hashable, usage: Mapping[Hashable, Any], n: int, *, shared: bool) -> int:
        rows, columns, values = [], [], []
        for resource, coefficients in usage.items():
            if resource not in self._resources:
                raise EditError(id, "usage", resource, "no resource of this id")
            column, value = coefficients_of(id, resource, coefficients, n)
            rows.append(np.full(column.size, self._resources[resource], np.int64))
            columns.append(column)
            values.append(value)
        column = np.concatenate(columns) if columns else np.empty(0, np.int64)
        order = np.argsort(column, kind="stable")
        pointer = np.concatenate(([0], np.cumsum(np.bincount(column, minlength=n))))
        row = np.concatenate(rows)[order] if rows else column
        value = np.concatenate(values)[order] if values else np.empty(0)
        return int(self.store.add_usages(np.array([n]), pointer, row, value, shared=shared)[0])

    def _add_matrix(self, label: str, usage: Any, widths: NDArray[np.int64]) -> NDArray[np.int64]:
        from scipy.sparse import csc_array

        matrix = csc_array(usage, copy=True)
        shape = (len(self._resources), int(widths.sum()))
        if matrix.shape != shape:
            raise EditError(label, "usage", matrix.shape, f"needs the shape {shape}: resources, columns")
        matrix.sum_duplicates()
        if not np.isfinite(matrix.data).all():
            raise EditError(label, "usage", "NaN or infinite", "coefficients must be finite")
        row = self.resource_slots[matrix.indices]
        return self.store.add_usages(widths, matrix.indptr.astype(np.int64), row, matrix.data)
