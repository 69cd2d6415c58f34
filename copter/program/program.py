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

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from copter.errors import EditError
from copter.program.changes import (
    additions_to_many,
    additions_to_one,
    change_of_many,
    change_of_one,
    check_replacement,
    costs_of_many,
    widths_of,
)
from copter.program.forms import KEEP, flags_of, new_requests_of, uppers_of
from copter.program.guard import exclusive
from copter.program.handles import CostVector, Template
from copter.program.index import listed
from copter.program.kept import Kept
from copter.program.precision import check_change, check_new
from copter.program.queries import Relation
from copter.program.usage import Usage
from copter.program.validation import flag, scale_factor, scales_of, sum_row, upper_bounds
from copter.terms.convex import ConvexTerm

__all__ = ["KEEP", "VERBS", "ContinualProgram", "CostVector", "EntriesLike", "Relation", "Template", "Usage"]

EntriesLike: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike] | Sequence[Mapping[int, float] | None]
"""Numbers for single columns of many requests: (counts, columns, values), or one mapping a request."""


class ContinualProgram(Kept):
    """A linear program over named resources and requests, edited in place.

    Parameters
    ----------
    cost_dtype : "float64" or "float32"
        What costs are kept as.  With 32 bits the program is that with the rounded costs
        (:mod:`copter.program.precision`) and takes half the memory.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> program.n_variables, program.n_rows
    (2, 2)
    """

    # ---- requests --------------------------------------------------------------------------------

    def add_request(
        self,
        id: Hashable,
        costs: ArrayLike | CostVector,
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
        costs : (n,) array_like or CostVector
            Finite cost of each column, or costs that requests share (:meth:`add_cost_vector`).
        usage : Template, mapping or sparse array
            Coefficients in the resource rows: ``{resource id: coefficients}`` with a scalar (all columns),
            an (n,) array, or a pair (column indices, values); or a matrix of shape (number of resources, n)
            whose rows are in the order of :attr:`resource_ids`.
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
        cost = self._costs_of_one(id, costs)
        kind, amount = sum_row(id, total, relation)
        bound = upper_bounds(id, upper, cost.size)
        factor = scale_factor(id, scale)
        rest = None
        if override or start is not None or term is not None:
            rest = additions_to_one(id, cost.size, override or None, start, KEEP if term is None else term)
        whole = flag(id, "integral", integral)
        check_new(self.store, [id], np.array([cost.size]), cost, factor, rest)
        slots = self.store.add_requests(
            np.array([cost.size]),
            self._usage_slot(id, usage, cost.size),
            cost,
            relation=kind,
            totals=np.array([amount]),
            scales=factor,
            upper=bound,
            integral=whole,
        )
        self._requests.add([id], slots.tolist())
        if rest is not None:
            rest.make(self.store, slots, self._starts)

    def add_requests(
        self,
        ids: Sequence[Hashable],
        costs: ArrayLike | Sequence[ArrayLike] | CostVector | Sequence[CostVector],
        sizes: ArrayLike | None,
        usage: Usage | Sequence[Usage],
        *,
        totals: float | Sequence[float | None] | ArrayLike | None = None,
        relation: Relation | Sequence[Relation] = "<=",
        upper: float | ArrayLike | Sequence[float | ArrayLike] = math.inf,
        scales: float | ArrayLike | None = None,
        overrides: EntriesLike | None = None,
        integral: bool | ArrayLike = False,
        starts: EntriesLike | None = None,
        terms: ConvexTerm | Sequence[ConvexTerm | None] | None = None,
    ) -> None:
        """Add many requests at once; all of them or, if anything is wrong, none.

        Every argument is as in :meth:`add_request`, for all requests or for each of them; flat arrays are
        the quick form.

        Parameters
        ----------
        ids : sequence of k hashables
        costs : (sum(sizes),) array_like, or sequence of k array_likes
            Costs of all columns, flat, request after request; or one array a request; or one CostVector
            for all, or one a request.
        sizes : (k,) array_like of int, optional
            Number of columns of each request; only flat costs need it.
        usage : Template, sparse array, or sequence of k usages
            One template for all; a matrix of shape (number of resources, sum(sizes)) whose rows are in
            the order of :attr:`resource_ids`; or one usage a request.
        totals : float or (k,) array_like, optional
            In a list, None stands for no sum row.
        relation : "<=", "==", or sequence of k of them
        upper : float, (sum(sizes),) array_like, or sequence of k floats or array_likes
        scales : float or (k,) array_like, optional
        overrides : (counts (k,), columns (sum,), costs (sum,)), or sequence of k mappings, optional
            Flat with ``counts`` entries each, or one mapping (or None) a request.
        integral : bool or (k,) array_like of bool
        starts : (counts (k,), columns (sum,), values (sum,)), or sequence of k mappings, optional
            As ``overrides``; a request whose mapping is None has no start.
        terms : ConvexTerm, or sequence of k terms, optional
            In a sequence, None stands for no term.

        Raises
        ------
        EditError
            As :meth:`add_request`; also for an id that is given twice.
        """
        label = "add_requests"
        ids = listed(ids)
        self._requests.check_new(ids, label)
        given_costs = self._costs_of_many(label, ids, costs, sizes)
        new = new_requests_of(label, ids, (given_costs, sizes), totals, relation)
        bound = uppers_of(label, ids, upper, new.sizes)
        factors = 1.0 if scales is None else scales_of(label, ids, scales)
        whole = flags_of(label, ids, integral)
        rest = None
        if overrides is not None or starts is not None or terms is not None:
            given = KEEP if terms is None else terms
            rest = additions_to_many(label, ids, new.sizes, overrides, starts, given)
        if not ids:
            return
        check_new(self.store, ids, new.sizes, new.costs, factors, rest)
        slots = self.store.add_requests(
            new.sizes,
            self._usage_slots(label, ids, usage, new.sizes),
            new.costs,
            relation=new.kinds,
            totals=new.totals,
            scales=factors,
            upper=bound,
            integral=whole,
        )
        self._requests.add(ids, slots.tolist())
        if rest is not None:
            rest.make(self.store, slots, self._starts)

    def update_request(
        self,
        id: Hashable,
        *,
        costs: ArrayLike | CostVector | None = None,
        scale: float | None = None,
        override: Mapping[int, float] | None = None,
        usage: Usage | None = None,
        total: float | None = KEEP,
        relation: Relation | None = None,
        upper: float | ArrayLike | None = None,
        integral: bool | None = None,
        start: Mapping[int, float] | None = None,
        term: ConvexTerm | Mapping[str, float] | None = KEEP,
    ) -> None:
        """Change a request; what is not given stays as it is.

        New ``costs`` of another length need a new ``usage`` too; a new usage begins without overrides
        (and needs ``upper`` again if the bounds were given per column), its warm start is ``start``.

        Parameters
        ----------
        costs : (n,) array_like, optional
        override : mapping of column to cost, optional
            Replaces the whole previous override; ``{}`` clears it.
        usage : Template, mapping or sparse array, optional
            New columns, as in :meth:`add_request`; needs their ``costs``.
        total : float, optional
            None takes the sum row away.
        relation : "<=" or "==", optional
        upper : float or (n,) array_like, optional
        start : mapping of column to value, optional
        term : ConvexTerm, or mapping of parameter name to float, optional
            A new term, or new parameters of the one that is there, whose image stays; None takes it away.
            A request that has one needs it again with a new usage.

        Raises
        ------
        EditError
            As :meth:`add_request`; also for an id that is unknown.
        """
        given = {
            "scale": scale,
            "override": override,
            "total": total,
            "relation": relation,
            "upper": upper,
            "integral": integral,
            "start": start,
            "term": term,
        }
        slot = self._requests.slot(id)
        slots, n = np.array([slot]), int(self.store.requests.n_columns[slot])
        cost = None if costs is None else self._costs_of_one(id, costs)
        if usage is not None:
            if cost is None:
                raise EditError(id, "usage", usage, "needs the costs of the new columns too")
            check_replacement(self.store, [id], slots, given)
        elif cost is not None and cost.size != n:
            raise EditError(id, "costs", cost.size, f"the request has {n} columns; give a new usage too")
        change = change_of_one(self.store, id, slot, cost, given)
        check_change(self.store, [id], slots, change, replaced=usage is not None)
        if usage is not None and cost is not None:
            change.usage = self._usage_slot(id, usage, cost.size)
        change.make(self.store, slots, self._starts)

    def update_requests(
        self,
        ids: Sequence[Hashable],
        *,
        costs: ArrayLike | Sequence[ArrayLike] | CostVector | Sequence[CostVector] | None = None,
        sizes: ArrayLike | None = None,
        scales: float | ArrayLike | None = None,
        overrides: EntriesLike | None = None,
        usage: Usage | Sequence[Usage] | None = None,
        totals: float | Sequence[float | None] | ArrayLike | None = KEEP,
        relation: Relation | Sequence[Relation] | None = None,
        upper: float | ArrayLike | Sequence[float | ArrayLike] | None = None,
        integral: bool | ArrayLike | None = None,
        starts: EntriesLike | None = None,
        terms: ConvexTerm | Sequence[ConvexTerm | None] | Mapping[str, ArrayLike] | None = KEEP,
    ) -> None:
        """Change many requests at once; all of them or none.  What is not given stays as it is.

        Every argument is as in :meth:`update_request`, for all requests or for each of them, in the forms
        of :meth:`add_requests`.

        Parameters
        ----------
        ids : sequence of k hashables
            As a list, tuple or range they are remembered: the same ids next round are quick.
        costs : (sum of columns,) array_like, or sequence of k array_likes, optional
            New costs, flat, request after request, or one array a request, or vectors as in
            :meth:`add_requests`; without a new ``usage`` as many as the request has columns.
        sizes : (k,) array_like of int, optional
            Number of new columns of each request, for flat costs with a new ``usage``.
        scales : float or (k,) array_like, optional
        overrides : (counts (k,), columns (sum,), costs (sum,)), or sequence of k mappings, optional
            Replaces the override of every request; of none whose mapping is None.
        usage : Template, sparse array, or sequence of k usages, optional
            New columns, as in :meth:`add_requests`; need their ``costs``.
        totals : float or (k,) array_like, optional
            None, also in a list, takes the sum row away.
        relation : "<=", "==", or sequence of k of them, optional
        upper : float, (sum of columns,) array_like, or sequence of k floats or array_likes, optional
        integral : bool or (k,) array_like of bool, optional
        starts : (counts (k,), columns (sum,), values (sum,)), or sequence of k mappings, optional
        terms : ConvexTerm, sequence of k terms, or mapping of parameter name to (k,) array_like, optional
            New terms (None takes one away), or new parameters, for example ``{"weight": weights}``, of
            terms of one class, whose images stay.

        Raises
        ------
        EditError
            As :meth:`update_request`; also for an id that is given twice, and parameters for a request
            without a term.
        """
        label = "update_requests"
        ids = listed(ids)
        slots = self._requests.slots(ids, label)
        given = {
            "scales": scales,
            "overrides": overrides,
            "totals": totals,
            "relation": relation,
            "upper": upper,
            "integral": integral,
            "starts": starts,
            "term": terms,
        }
        if usage is not None:
            if costs is None:
                raise EditError(label, "usage", type(usage).__name__, "needs the costs of new columns too")
            check_replacement(self.store, ids, slots, given)
        fresh = None
        if costs is not None or sizes is not None:
            columns = self._costs_of_many(label, ids, costs, sizes), sizes
            fresh = costs_of_many(self.store, label, ids, slots, columns, new=usage is not None)
        change = change_of_many(self.store, label, ids, slots, fresh, given)
        if not ids:
            return
        check_change(self.store, ids, slots, change, replaced=usage is not None)
        if usage is not None and fresh is not None:
            change.usage = self._usage_slots(label, ids, usage, widths_of(fresh))
        change.make(self.store, slots, self._starts)

    def remove_request(self, id: Hashable) -> None:
        """Remove a request with its columns and its sum row."""
        slot = self._requests.slot(id)
        self._requests.remove([id])
        self._starts.pop(slot, None)
        self.store.remove_requests(np.array([slot]))

    def remove_requests(self, ids: Sequence[Hashable]) -> None:
        """Remove many requests; all of them or, if an id is unknown or given twice, none.

        Parameters
        ----------
        ids : sequence of hashables
        """
        ids = listed(ids)
        slots = self._requests.slots(ids, "remove_requests")
        self._requests.remove(ids)
        if self._starts:
            for slot in slots.tolist():
                self._starts.pop(slot, None)
        self.store.remove_requests(slots)


VERBS = (
    "add_resource",
    "add_resource_rows",
    "set_capacity",
    "set_capacities",
    "add_resources",
    "remove_resources",
    "drop_resource",
    "drop_resource_rows",
    "add_template",
    "drop_template",
    "add_cost_vector",
    "drop_cost_vector",
    "add_request",
    "add_requests",
    "update_request",
    "update_requests",
    "remove_request",
    "remove_requests",
)
"""Methods that change a program."""
for _verb in (*VERBS, "save", "reserve"):
    setattr(ContinualProgram, _verb, exclusive(getattr(ContinualProgram, _verb)))
