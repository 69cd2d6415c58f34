"""ContinualProgram: a linear program that stays alive between rounds and is edited by deltas.

    minimise    sum_q c_q'x_q + phi_q(a_q'x_q)   phi_q: a convex term, for requests that have one
    subject to  l <= sum_q A_q x_q <= u          resources (coupling rows)
                0 <= x_q <= upper_q              request-local box,
                sum(x_q) <= total_q (or ==)      and, if wanted, one sum row

Every verb validates its arguments first and applies them only if all are right: a rejected edit raises
:class:`copter.errors.EditError` and changes nothing.  Ids are any hashable and stay valid until removed.

A program is used by one thread at a time: a verb, a solve, a copy or a save that comes while another thread
edits or solves it, or from within a solve (its callback), raises :class:`copter.errors.ConcurrentUseError`
and changes nothing.

Source: differential interface of COpter, thesis section 4.3.2; costs that move together and shared column
templates go beyond it.
"""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.program.guard import Guard, exclusive
from copter.program.index import Index, listed
from copter.program.kept import Kept
from copter.program.usage import Template, Usage, from_mapping, from_matrix
from copter.program.validation import (
    all_are,
    cost_vector,
    flag,
    kind_of_row,
    new_requests_of,
    overrides_of,
    parameters_of,
    scale_factor,
    scales_of,
    sparse_entries,
    sum_row,
    term_of,
    totals_of,
    upper_bounds,
    whole_number,
)
from copter.store.store import EXACTLY, NO_TOTAL
from copter.terms.convex import ConvexTerm

if TYPE_CHECKING:
    from scipy.sparse import sparray

Relation: TypeAlias = Literal["<=", "=="]


class _Keep:
    def __repr__(self) -> str:
        return "<as it is>"


KEEP: Any = _Keep()
"""Default of update arguments for which None means something: leave the field as it is."""


class ContinualProgram(Kept):
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
        super().__init__()
        self.guard = Guard()
        self._requests = Index("request")
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
        return self._requests.ids

    @property
    def request_slots(self) -> NDArray[np.int64]:
        """Store slots of all requests, in the order of :attr:`request_ids`; read-only."""
        return self._requests.all_slots

    @property
    def slot_of(self) -> Mapping[Hashable, int]:
        """Store slot of each request as it is now; later edits do not change this mapping."""
        return self._requests.frozen

    @property
    def templates(self) -> list[Template]:
        """Handles of all templates, in the order in which they were added."""
        return list(self._templates.values())

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
        return self.store.effective_costs(self._requests.slot(request))

    def total(self, request: Hashable) -> float | None:
        """Total of a request's sum row, None if it has none."""
        slot = self._requests.slot(request)
        table = self.store.requests
        return None if table.relation[slot] == NO_TOTAL else float(table.total[slot])

    def term(self, request: Hashable) -> ConvexTerm | None:
        """Convex term of a request, None if it has none."""
        return self.store.terms.get(self._requests.slot(request))

    # ---- templates -------------------------------------------------------------------------------

    def add_template(self, usage: Mapping[Any, Any], n_columns: int) -> Template:
        """Columns that many requests will share.

        Parameters
        ----------
        usage : mapping of resource id to coefficients
            As in :meth:`add_request`.
        n_columns : int
            Number of columns.
        """
        n_columns = whole_number("template", "n_columns", n_columns)
        slot = self._add_usage("template", usage, n_columns, shared=True)
        self._templates[slot] = Template(slot, n_columns, self.store.tick(), secrets.randbits(62))
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
        term: ConvexTerm | None = None,
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
        term : ConvexTerm, optional
            Adds phi(a'x) to the objective, for example ``LogTerm(weight, offset, image=a)``; the scale
            does not touch it.

        Raises
        ------
        EditError
            Duplicate id, unknown resource or template, wrong length, NaN, an infinite cost, a negative
            total or upper bound: names the request, the field and the value.
        """
        self._requests.check_new([id], "add_request")
        cost = cost_vector(id, "costs", costs)
        kind, amount = sum_row(id, total, relation)
        bound = upper_bounds(id, upper, cost.size)
        scale = scale_factor(id, scale)
        patch = sparse_entries(id, "override", override, cost.size) if override else None
        begin = sparse_entries(id, "start", start, cost.size) if start is not None else None
        convex = None if term is None else term_of(id, term, cost.size)
        whole = flag(id, "integral", integral)
        slots = self.store.add_requests(
            np.array([cost.size]),
            self._usage_slot(id, usage, cost.size),
            cost,
            relation=kind,
            totals=np.array([amount]),
            scales=scale,
            upper=bound,
            integral=whole,
        )
        slot = int(slots[0])
        self._requests.add([id], [slot])
        if patch is not None:
            self.store.set_overrides(slots, np.array([patch[0].size]), *patch)
        if begin is not None:
            self._starts[slot] = begin
        if convex is not None:
            self.store.set_term(slot, convex)

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
        label = "add_requests"
        ids = listed(ids)
        self._requests.check_new(ids, label)
        widths, cost, amounts = new_requests_of(label, ids, sizes, costs, totals)
        kind = kind_of_row(label, relation, totals is not None)
        bound = upper_bounds(label, upper, cost.size, owner=(ids, widths))
        factors = 1.0 if scales is None else scales_of(label, ids, scales)
        whole = flag(label, "integral", integral)
        if not ids:
            return
        slots = self.store.add_requests(
            widths,
            self._usage_slots(label, ids, usage, widths),
            cost,
            relation=kind,
            totals=amounts,
            scales=factors,
            upper=bound,
            integral=whole,
        )
        self._requests.add(ids, slots.tolist())

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
        term: ConvexTerm | None = KEEP,
    ) -> None:
        """Change a request; what is not given stays as it is.

        New ``costs`` of another length need a new ``usage`` too; a new usage begins without overrides
        (and needs ``upper`` again if the bounds were given per column), its warm start is ``start``.
        ``override`` replaces the whole previous override, ``{}`` clears it.  ``term=None`` takes the convex
        term away; a request that has one needs it again with a new usage.
        """
        slot = self._requests.slot(id)
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
        if usage is not None and term is KEEP and slot in store.terms:
            raise EditError(id, "term", term, "its image is of the old columns: a new usage needs it again")
        convex = None if term is KEEP or term is None else term_of(id, term, n)
        row = None
        if upper is not None or total is not KEEP or relation is not None:
            row = self._changed_row(id, slot, total, relation)
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
        if row is not None:
            store.set_bounds(slot, *row, self._bound(slot) if bound is None else bound)
        scales = None if factor is None else np.array([factor])
        if patch is not None:
            store.set_overrides(np.array([slot]), np.array([patch[0].size]), *patch, scales=scales)
        elif scales is not None:
            store.set_scales(np.array([slot]), scales)
        if term is not KEEP:
            store.set_term(slot, convex)

    def update_requests(
        self,
        ids: Sequence[Hashable],
        *,
        costs: Sequence[ArrayLike] | None = None,
        scales: ArrayLike | None = None,
        overrides: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        totals: ArrayLike | None = None,
        upper: float | ArrayLike | None = None,
        terms: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Change many requests at once; all of them or none.

        Parameters
        ----------
        ids : sequence of k hashables
            As a list, tuple or range they are remembered: the same ids next round are quick.
        costs : sequence of k array_likes, optional
            New costs of each request, as many as it has columns.
        scales : (k,) array_like, optional
        overrides : (counts (k,), columns (sum,), costs (sum,)), optional
            Replaces the override of every request named: ``counts`` entries each, flat.
        totals : (k,) array_like, optional
            New totals of requests that have a sum row, which stays ``<=`` or ``==``.
        upper : float or (columns of all these requests,) array_like, optional
            New upper bounds, request after request.
        terms : mapping of parameter name to (k,) array_like, optional
            New parameters, for example ``{"weight": weights}``, of convex terms of one class; what is not
            named stays, and so do the images.

        Raises
        ------
        EditError
            An unknown id or one given twice, a wrong length, a NaN, an infinite cost, a total that is
            negative or for a request without a sum row, a parameter for a request without a term: names the
            request, the field and the value.
        """
        label = "update_requests"
        ids = listed(ids)
        slots = self._requests.slots(ids, label)
        table = self.store.requests
        fresh = None
        if costs is not None:
            widths = table.n_columns[slots].tolist()
            if len(costs) != len(widths):
                why = f"needs one array for each of {len(widths)} requests"
                raise EditError(label, "costs", len(costs), why)
            fresh = [cost_vector(id, "costs", c, n) for id, c, n in zip(ids, costs, widths, strict=True)]
        factors = None if scales is None else scales_of(label, ids, scales)
        patch = None if overrides is None else overrides_of(label, ids, overrides, table, slots)
        amounts = None
        if totals is not None:
            amounts = totals_of(label, ids, totals)
            without = table.relation[slots] == NO_TOTAL
            if without.any():
                where = int(without.argmax())
                raise EditError(ids[where], "total", float(amounts[where]), "the request has no sum row")
        bound = None
        if upper is not None:
            widths = table.n_columns[slots]
            bound = upper_bounds(label, upper, int(widths.sum()), owner=(ids, widths))
        restated = None
        if terms is not None and ids:
            restated = parameters_of(label, ids, terms, self.store.terms, slots)
        if fresh is not None:
            self.store.set_costs(slots.tolist(), fresh)
        if patch is not None:
            self.store.set_overrides(slots, *patch, scales=factors)
        elif factors is not None:
            self.store.set_scales(slots, factors)
        if amounts is not None:
            self.store.set_totals(slots, amounts)
        if bound is not None:
            self.store.set_uppers(slots, bound)
        if restated is not None:
            self.store.restate_terms(slots, *restated)

    def remove_request(self, id: Hashable) -> None:
        """Remove a request with its columns and its sum row."""
        slot = self._requests.slot(id)
        self._requests.remove([id])
        self._starts.pop(slot, None)
        self.store.remove_requests(np.array([slot]))

    def remove_requests(self, ids: Sequence[Hashable]) -> None:
        """Remove many requests; all of them or, if an id is unknown or given twice, none."""
        ids = listed(ids)
        slots = self._requests.slots(ids, "remove_requests")
        self._requests.remove(ids)
        if self._starts:
            for slot in slots.tolist():
                self._starts.pop(slot, None)
        self.store.remove_requests(slots)

    def take_starts(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Starts given since the last call, by request slot; for solvers that keep state."""
        starts, self._starts = self._starts, {}
        return starts

    def return_starts(self, starts: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]) -> None:
        """Give starts back that were taken for a solve which came to nothing; for solvers."""
        self._starts = starts | self._starts

    # ---- copies ----------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> ContinualProgram:
        with self.guard.using("copy"):
            kind, content = self._content()
            twin = memo[id(self)] = _empty(kind)
            for name, value in content.items():
                setattr(twin, name, copy.deepcopy(value, memo))
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        twin = copy.deepcopy(self)  # nobody edits that one while it is pickled
        return _empty, (type(twin),), vars(twin)

    def _content(self) -> tuple[type[ContinualProgram], dict[str, Any]]:
        """Class and attributes of a copy."""
        return type(self), vars(self)

    # ---- inside ----------------------------------------------------------------------------------

    def _check_template(self, subject: Hashable, template: Template) -> None:
        if self._templates.get(template.slot) != template:
            raise EditError(subject, "usage", template, "no such template in this program (any more)")

    def _changed_row(
        self, id: Hashable, slot: int, total: float | None, relation: Relation | None
    ) -> tuple[int, float]:
        """(kind, total) of a sum row of which a part may be kept."""
        table = self.store.requests
        kind = int(table.relation[slot])
        if total is KEEP:
            total = None if kind == NO_TOTAL else float(table.total[slot])
        kept: Relation = "==" if kind == EXACTLY and total is not None else "<="
        return sum_row(id, total, relation or kept)

    def _bound(self, slot: int) -> float | NDArray[np.float64]:
        table = self.store.requests
        return self.store.upper_bounds(slot) if table.upper_start[slot] >= 0 else float(table.upper[slot])

    def _usage_slot(self, id: Hashable, usage: Usage, n: int) -> int:
        if isinstance(usage, Template):
            self._check_template(id, usage)
            if usage.n_columns != n:
                raise EditError(id, "costs", n, f"the template has {usage.n_columns} columns")
            return usage.slot
        return self._add_usage(id, usage, n, shared=False)

    def _add_usage(self, id: Hashable, usage: Mapping[Any, Any], n: int, *, shared: bool) -> int:
        columns = from_mapping(id, usage, n, self._resources)
        return int(self.store.add_usages(np.array([n]), *columns, shared=shared)[0])

    def _usage_slots(
        self, label: str, ids: Sequence[Hashable], usage: Template | sparray, widths: NDArray[np.int64]
    ) -> NDArray[np.int64] | int:
        if isinstance(usage, Template):
            self._check_template(label, usage)
            if not all_are(widths, usage.n_columns):
                wrong = int((widths != usage.n_columns).argmax())
                why = f"template has {usage.n_columns} columns"
                raise EditError(ids[wrong], "costs", int(widths[wrong]), why)
            return usage.slot
        columns = from_matrix(label, usage, (len(self._resources), int(widths.sum())))
        return self.store.add_usages(widths, *columns, row_slots=self.resource_slots)


def _empty(kind: type[ContinualProgram]) -> ContinualProgram:
    """A program to be filled from another."""
    return kind.__new__(kind)


VERBS = (
    "add_resource",
    "set_capacity",
    "set_capacities",
    "add_resources",
    "remove_resources",
    "drop_resource",
    "add_template",
    "drop_template",
    "add_request",
    "add_requests",
    "update_request",
    "update_requests",
    "remove_request",
    "remove_requests",
)
"""Methods that change a program."""
for _verb in (*VERBS, "save"):
    setattr(ContinualProgram, _verb, exclusive(getattr(ContinualProgram, _verb)))
