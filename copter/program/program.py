"""ContinualProgram: a linear program that stays alive between rounds and is edited by deltas.

    minimise    sum_q c_q'x_q + phi_q(a_q'x_q)   phi_q: a convex term, for requests that have one
    (maximise   sum_q c_q'x_q - phi_q(a_q'x_q)   with ``sense="max"``)
    subject to  l <= sum_q A_q x_q <= u          resources (coupling rows)
                0 <= x_q <= upper_q              request-local box,
                sum(x_q) <= total_q (or ==)      and, if wanted, one sum row

Every verb validates its arguments first and applies them only if all are right: a rejected edit raises
:class:`copter.errors.EditError` and changes nothing.  Ids are any hashable and stay valid until removed.

A program is used by one thread at a time: a verb, a solve, a copy or a save that comes while another thread
edits or solves it, or from within a solve (its callback), raises :class:`copter.errors.ConcurrentUseError`
and changes nothing.

Source: differential interface of COpter, thesis section 4.3.2; costs that move together and shared
columns go beyond it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import ArgumentTypeError, EditError
from copter.program.column_edits import added_columns, changed_columns, removed_columns
from copter.program.forms import KEEP
from copter.program.guard import Guard, exclusive
from copter.program.handles import Handles, SharedColumns, SharedCosts
from copter.program.index import Ids, Index, listed
from copter.program.names import FrozenNames, NameTable
from copter.program.parse import Parser
from copter.program.records import (
    EntriesLike,
    Relation,
    Requests,
    Resources,
)
from copter.program.sense import Sense, checked_sense
from copter.program.table import read_table
from copter.program.usage import Usage
from copter.program.validation import check_single, costs_of_one, is_vector, number
from copter.store.edit import TAKE_STARTS, Edit, Entries, Pending, Runs, moved
from copter.store.local import LocalStore
from copter.store.store import ConstraintStore
from copter.terms.convex import ConvexTerm

if TYPE_CHECKING:
    from os import PathLike

    from copter.durable.state import Remembers
    from copter.models.general_lp import GeneralLP
    from copter.store.allocation import SparseX

__all__ = [
    "KEEP",
    "ContinualProgram",
    "EntriesLike",
    "Relation",
    "SharedColumns",
    "SharedCosts",
    "Usage",
]


class ContinualProgram:
    """A linear program over named resources and requests, edited in place.

    Parameters
    ----------
    sense : "min" or "max"
        Whether costs are minimised or maximised. With "max", every cost that is given or read is a value to
        be maximised, and convex terms are subtracted from the objective. ``Solution.bound`` is then an upper
        bound. Prices have the same sign in both senses: positive where the upper bound of a resource is
        active.

    Attributes
    ----------
    primal_repair : callable, optional
        ``primal_repair(program, x, y)`` returns a feasible allocation made from x, at prices by row slot (a
        primal repair heuristic). ``x`` and the result are :class:`copter.store.allocation.SparseX`: integer
        slots and columns of existing requests, ascending, and finite values. Solvers of large programs
        certify the result in addition to their own answers, which can save them the last steps. If the
        function raises :class:`copter.CopterError`, or returns something else, that is logged and the solve
        continues without it. It is code and not part of the program's data: a copy in memory has it, but
        pickles and files do not, so that it must be set again after loading.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> program.n_variables, program.n_rows
    (2, 2)
    """

    primal_repair: Callable[[Any, SparseX, NDArray[np.float64]], SparseX] | None = None

    def __init__(self, *, sense: Sense = "min") -> None:
        self._sense = checked_sense(type(self).__name__, sense)
        self.store: ConstraintStore = LocalStore()
        self._resources, self._requests = Index("resource"), Index("request")
        self._templates = Handles(SharedColumns, "shared columns", "usage")
        self._vectors = Handles(SharedCosts, "shared costs", "costs")
        self._starts: Pending = {}
        self._names = NameTable()
        self.guard = Guard()
        self.primal_repair = None

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request: Hashable) -> bool:
        return request in self._requests

    def __repr__(self) -> str:
        integral = int(np.count_nonzero(self.store.requests.integral[self.request_slots]))
        counts = {
            "request": len(self),
            "column": self.n_variables,
            "resource": len(self._resources),
            "sum row": self.n_rows - len(self._resources),
            "nonzero": self.nnz,
            "shared column block": len(self._templates),
            "shared cost vector": int(np.count_nonzero(self.store.vectors.shared[: self.store.vectors.size])),
            "convex term": len(self.store.terms),
            "integral request": integral,
        }
        always = ("request", "column", "resource")
        said = [f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items() if n or what in always]
        maximised = ["maximised"] * (self._sense == "max")
        return f"<{type(self).__name__}: {', '.join(said + maximised)}>"

    @property
    def sense(self) -> Sense:
        """Whether costs are minimised ("min") or maximised ("max")."""
        return self._sense

    @property
    def _parser(self) -> Parser:
        """Parser that makes edits from arguments."""
        handles = self._templates, self._vectors
        return Parser(self.store, self._resources, self._requests, *handles, self._names, self._sense)

    # ---- resources --------------------------------------------------------------------------------------

    @property
    def resource_ids(self) -> list[Hashable]:
        """Ids of all resources, in the order in which they were added."""
        return self._resources.ids

    @property
    def resource_slots(self) -> NDArray[np.int64]:
        """Store slots of all resources, in the order of :attr:`resource_ids`; read-only."""
        return self._resources.all_slots

    @property
    def resources(self) -> Resources:
        """The resources as they are now: ``program.resources["gpu"].upper``, or many in one record."""
        return Resources(self.store, self._resources)

    @exclusive
    def add_resource(self, id: Hashable, upper: float = math.inf, *, lower: float = -math.inf) -> None:
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
        check_single(id, lower=lower, upper=upper)
        self.apply(self._parser.new_resources(id, [id], lower, upper))

    @exclusive
    def add_resources(
        self,
        ids: Ids,
        *,
        lower: float | ArrayLike = -math.inf,
        upper: float | ArrayLike = math.inf,
    ) -> None:
        """Add many coupling rows at once; all of them or, if anything is invalid, none.

        Parameters
        ----------
        ids : sequence of k hashables
        lower, upper : float or (k,) array_like
            Bounds, one for all rows or one each.

        Raises
        ------
        EditError
            As :meth:`add_resource`; also for an id that is given twice.
        """
        ids = listed(ids)
        edit = self._parser.new_resources("add_resources", ids, lower, upper)
        if ids:
            self.apply(edit)

    @exclusive
    def update_resources(
        self,
        ids: Ids,
        *,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        by: ArrayLike | None = None,
    ) -> None:
        """Change bounds of one or many resources; all of them or, if anything is invalid, none.

        Parameters
        ----------
        ids : hashable, or sequence of k hashables
            A list, tuple or range is remembered, so that the same ids are found faster next round.
        lower, upper : float or (k,) array_like, optional
            One for all or one each; None leaves a bound as it is.
        by : float or (k,) array_like, optional
            Instead of ``upper``: added to the present upper bounds; negative to subtract.

        Raises
        ------
        EditError
            A resource is unknown or given twice, a bound is NaN, lower > upper, or more is subtracted than
            there is (an upper bound would fall below 0): names the resource.
        """
        self.apply(self._parser.new_bounds(self._resources.listed(ids), lower, upper, by))

    @exclusive
    def remove_resources(self, ids: Ids) -> None:
        """Remove one or many coupling rows; columns that used them stay, without them.

        Parameters
        ----------
        ids : hashable, or sequence of hashables

        Raises
        ------
        EditError
            An id is unknown or given twice: nothing is removed.
        """
        ids = self._resources.listed(ids)
        slots = self._resources.slots(ids, "remove_resources")
        self.apply(Edit("remove_resources", slots=slots, ids=ids))

    # ---- columns and costs that requests share ----------------------------------------------------------

    @property
    def shared_columns(self) -> list[SharedColumns]:
        """Handles of all columns that requests can share, in the order in which they were made."""
        return list(self._templates.values())

    @property
    def shared_costs(self) -> list[SharedCosts]:
        """Handles of all costs that requests can share, in the order in which they were made."""
        return list(self._vectors.values())

    @exclusive
    def share_columns(
        self, usage: Mapping[Any, Any], n_columns: int, *, columns: Sequence[Hashable] | None = None
    ) -> SharedColumns:
        """Register columns that many requests will share; the returned handle is given as their ``usage``.

        Parameters
        ----------
        usage : mapping of resource id to coefficients
            As in :meth:`add_request`.
        n_columns : int
            Number of columns.
        columns : sequence of n_columns hashables, optional
            Names of the columns, for requests that are given none of their own.

        Raises
        ------
        EditError
            A resource is unknown, or a length or number is invalid.
        """
        handle: SharedColumns = self.apply(self._parser.new_columns(usage, n_columns, columns))
        return handle

    @exclusive
    def share_costs(self, costs: ArrayLike) -> SharedCosts:
        """Register costs that many requests will share; the returned handle is given as their ``costs``.

        A request's scale and overrides stay its own. A pricing pass reads shared columns with shared costs
        once for all requests that have both, so that one more request costs next to nothing.

        Parameters
        ----------
        costs : (n,) array_like
            Finite cost of each column.

        Raises
        ------
        EditError
            The costs are no vector, or one is NaN or infinite.
        """
        handle: SharedCosts = self.apply(self._parser.new_costs(costs))
        return handle

    @exclusive
    def forget(self, handle: SharedColumns | SharedCosts) -> None:
        """Forget a handle; requests that share its columns or costs keep them.

        Raises
        ------
        EditError
            The program has no such handle (any more).
        """
        self.apply(self._parser.forgotten(handle))

    @exclusive
    def reserve(self, columns: int) -> None:
        """Reserve memory for the costs of new columns.

        Adding them is faster then, and takes no additional memory, because a growing array is copied. Nothing
        else changes.

        Parameters
        ----------
        columns : int
            Not negative.

        Raises
        ------
        EditError
            The number is invalid, or there is not enough memory; nothing has changed.
        """
        given = number("reserve", "columns", columns)
        if not (given >= 0 and given == np.floor(given) and np.isfinite(given)):
            raise EditError("reserve", "columns", columns, "must be a whole number, not negative")
        self.store.last_view = None
        try:
            self.store.reserve(int(given))
        except (MemoryError, ValueError):  # numpy's, of an array that no machine can address
            why = "is more than there is memory for"
            raise EditError("reserve", "columns", columns, why) from None

    # ---- requests ---------------------------------------------------------------------------------------

    @property
    def request_ids(self) -> list[Hashable]:
        """Ids of all requests, in the order in which they were added."""
        return self._requests.ids

    @property
    def request_slots(self) -> NDArray[np.int64]:
        """Store slots of all requests, in the order of :attr:`request_ids`; read-only."""
        return self._requests.all_slots

    @property
    def requests(self) -> Requests:
        """The requests as they are now: ``program.requests["job"].costs``, or many in one record."""
        handles = self._templates, self._vectors
        shared = self._starts, self._names, self._sense
        return Requests(self.store, self._requests, self._resources, handles, *shared)

    @property
    def slot_of(self) -> Mapping[Hashable, int]:
        """Store slot of each request as it is now; later edits do not change this mapping."""
        return self._requests.frozen

    @property
    def column_names(self) -> FrozenNames:
        """Names of the columns by store slot as they are now; later edits do not change them."""
        return self._names.frozen

    @exclusive
    def add_request(
        self,
        id: Hashable,
        costs: ArrayLike | SharedCosts,
        usage: Usage,
        *,
        total: float | None = None,
        relation: Relation = "<=",
        upper: float | ArrayLike = math.inf,
        scale: float = 1.0,
        override: Mapping[Any, float] | None = None,
        integral: bool = False,
        start: Mapping[Any, float] | None = None,
        term: ConvexTerm | None = None,
        columns: Sequence[Hashable] | None = None,
    ) -> None:
        """Add a request: a block of columns.

        Parameters
        ----------
        costs : (n,) array_like or SharedCosts
            Finite cost of each column, or costs that requests share (:meth:`share_costs`).
        usage : SharedColumns, mapping or sparse array
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
            Whether an integral allocation is wanted.  Solvers of integer programs and shims read it.
        start : mapping of column to value
            Allocation from which a warm start should begin, for example of a request that was
            replaced by this one.
        term : ConvexTerm, optional
            Adds phi(a'x) to the objective, for example ``LogTerm(weight, offset, image=a)``; the scale
            does not touch it. In a maximisation phi(a'x) is subtracted.
        columns : sequence of n distinct hashables, optional
            Names of the columns. Mappings of column to number, and answers, then have names; arrays of
            columns stay numbers. Without names, columns have the numbers from 0 to n - 1.

        Raises
        ------
        EditError
            Duplicate id, unknown resource or handle, wrong length, NaN, an infinite cost, a negative
            total or upper bound: names the request, the field and the value.
        """
        check_single(id, total=total, relation=relation, scale=scale, integral=integral)
        edit = self._parser.new_requests(
            id,
            [id],
            [costs_of_one(id, costs)],
            None,
            usage if isinstance(usage, SharedColumns) else [usage],
            totals=total,
            relation=relation,
            upper=[upper] if is_vector(upper) else upper,
            scales=scale,
            overrides=[override] if override else None,
            integral=integral,
            starts=None if start is None else [start],
            terms=None if term is None else [term],
            columns=None if columns is None else [columns],
        )
        assert edit is not None
        self.apply(edit)

    @exclusive
    def add_requests(
        self,
        ids: Ids,
        costs: ArrayLike | Sequence[ArrayLike] | SharedCosts | Sequence[SharedCosts],
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
        columns: Sequence[Sequence[Hashable] | None] | None = None,
    ) -> None:
        """Add many requests at once; all of them or, if anything is wrong, none.

        Every argument is as in :meth:`add_request`, for all requests or for each of them; flat arrays are
        the quick form.

        Parameters
        ----------
        ids : sequence of k hashables
        costs : (sum(sizes),) array_like, or sequence of k array_likes
            Costs of all columns, flat, request after request; or one array a request; or one SharedCosts
            for all, or one a request.
        sizes : (k,) array_like of int, optional
            Number of columns of each request; only flat costs need it.
        usage : SharedColumns, sparse array, or sequence of k usages
            One handle for all; a matrix of shape (number of resources, sum(sizes)) whose rows are in
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
        columns : sequence of k sequences, optional
            Names of the columns of each request; None for numbers. A tuple that many requests have is stored
            once.

        Raises
        ------
        EditError
            As :meth:`add_request`; also for an id that is given twice.
        """
        edit = self._parser.new_requests(
            "add_requests",
            listed(ids),
            costs,
            sizes,
            usage,
            totals=totals,
            relation=relation,
            upper=upper,
            scales=scales,
            overrides=overrides,
            integral=integral,
            starts=starts,
            terms=terms,
            columns=columns,
        )
        if edit is not None:
            self.apply(edit)

    @exclusive
    def update_request(
        self,
        id: Hashable,
        *,
        costs: ArrayLike | SharedCosts | None = None,
        scale: float | None = None,
        override: Mapping[Any, float] | None = None,
        usage: Usage | None = None,
        total: float | None = KEEP,
        relation: Relation | None = None,
        upper: float | ArrayLike | None = None,
        integral: bool | None = None,
        start: Mapping[Any, float] | None = None,
        term: ConvexTerm | Mapping[str, float] | None = KEEP,
        columns: Sequence[Hashable] | None = None,
    ) -> None:
        """Change a request; arguments that are not given leave their part as it is.

        New ``costs`` of another length need a new ``usage`` too. A new usage begins without overrides and
        names, and needs ``upper`` again if the bounds were given per column. Its warm start is ``start``, or
        the last allocation's values of the columns whose names stay.

        Parameters
        ----------
        costs : (n,) array_like, optional
        override : mapping of column to cost, optional
            Replaces the whole previous override; ``{}`` clears it.
        usage : SharedColumns, mapping or sparse array, optional
            New columns, as in :meth:`add_request`; needs their ``costs``.
        total : float, optional
            None removes the sum row.
        relation : "<=" or "==", optional
        upper : float or (n,) array_like, optional
        start : mapping of column to value, optional
        term : ConvexTerm, or mapping of parameter name to float, optional
            A new term, or new parameters of the present one, whose image stays; None removes it. With a new
            usage, a request with a term needs it again.
        columns : sequence of n hashables, optional
            Names of the columns of a new usage.

        Raises
        ------
        EditError
            As :meth:`add_request`; also for an id that is unknown.
        """
        check_single(id, total=total, relation=relation, scale=scale, integral=integral)
        parameters = {name: [value] for name, value in term.items()} if isinstance(term, Mapping) else None
        edit = self._parser.changed_requests(
            id,
            [id],
            costs=None if costs is None else [costs_of_one(id, costs)],
            sizes=None,
            scales=scale,
            overrides=None if override is None else [override],
            usage=usage if usage is None or isinstance(usage, SharedColumns) else [usage],
            totals=total,
            relation=relation,
            upper=[upper] if is_vector(upper) else upper,
            integral=integral,
            starts=None if start is None else [start],
            terms=term if term is KEEP else parameters if parameters is not None else [term],
            columns=None if columns is None else [columns],
        )
        assert edit is not None
        self.apply(edit)

    @exclusive
    def update_requests(
        self,
        ids: Ids,
        *,
        costs: ArrayLike | Sequence[ArrayLike] | SharedCosts | Sequence[SharedCosts] | None = None,
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
        columns: Sequence[Sequence[Hashable] | None] | None = None,
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
        usage : SharedColumns, sparse array, or sequence of k usages, optional
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
        columns : sequence of k sequences, optional
            Names of the columns of a new usage, as in :meth:`add_requests`.

        Raises
        ------
        EditError
            As :meth:`update_request`; also for an id that is given twice, and parameters for a request
            without a term.
        """
        edit = self._parser.changed_requests(
            "update_requests",
            self._requests.listed(ids),
            costs=costs,
            sizes=sizes,
            scales=scales,
            overrides=overrides,
            usage=usage,
            totals=totals,
            relation=relation,
            upper=upper,
            integral=integral,
            starts=starts,
            terms=terms,
            columns=columns,
        )
        if edit is not None:
            self.apply(edit)

    @exclusive
    def add_table(
        self,
        table: Any,
        *,
        totals: float | Sequence[float | None] | ArrayLike | None = None,
        relation: Relation | Sequence[Relation] = "<=",
        upper: float | ArrayLike | Sequence[float | ArrayLike] = math.inf,
        scales: float | ArrayLike | None = None,
        integral: bool | ArrayLike = False,
    ) -> None:
        """Add many requests from a long table; all of them or, if anything is wrong, none.

        The table has the columns ``request``, ``column``, ``resource``, ``use`` and ``cost``. It has a row
        for each column of a request and each resource that this column uses; ``use`` is the coefficient. A
        column that uses nothing has one row, whose resource is None, NaN or ``""``. All rows of a column have
        the same cost. Requests are added in the order of their first rows, the columns of a request in the
        order of theirs. Columns have the names of the table, unless these are the numbers from 0 on.

        Parameters
        ----------
        table : mapping of arrays or lists, structured array, data frame, or Arrow table
            Anything whose ``table["request"]`` has one dimension. An object that has only the method
            ``__dataframe__`` is read with pyarrow or pandas.
        totals, relation, upper, scales, integral
            As in :meth:`add_requests`: one for all requests, or one each, in the order of the requests.

        Raises
        ------
        EditError
            For the reasons of :meth:`add_requests`; also if the table lacks a column, is empty or has columns
            of different lengths, and if a request's column has two costs or two rows of one resource: names
            the request, its column and the value.
        """
        found = read_table("add_table", table, self._resources)
        edit = self._parser.new_requests(
            "add_table",
            found.ids,
            found.costs,
            found.sizes,
            found.usage,
            totals=totals,
            relation=relation,
            upper=upper,
            scales=scales,
            overrides=None,
            integral=integral,
            starts=None,
            terms=None,
            columns=found.names,
        )
        assert edit is not None
        self.apply(edit)

    @exclusive
    def update_table(
        self,
        table: Any,
        *,
        totals: float | Sequence[float | None] | ArrayLike | None = KEEP,
        relation: Relation | Sequence[Relation] | None = None,
        upper: float | ArrayLike | Sequence[float | ArrayLike] | None = None,
        scales: float | ArrayLike | None = None,
        integral: bool | ArrayLike | None = None,
    ) -> None:
        """Replace the columns of the requests in a long table; all of them or, if anything is wrong, none.

        Other requests stay as they are, and so does every argument that is not given. As with a new usage in
        :meth:`update_requests`, the new columns begin without overrides.

        Parameters
        ----------
        table : mapping of arrays or lists, structured array, data frame, or Arrow table
            As in :meth:`add_table`.
        totals, relation, upper, scales, integral
            As in :meth:`update_requests`: one for all requests, or one each, in the order in which the
            requests first come in the table.

        Raises
        ------
        EditError
            For the reasons of :meth:`add_table` and :meth:`update_requests`.
        """
        found = read_table("update_table", table, self._resources)
        edit = self._parser.changed_requests(
            "update_table",
            found.ids,
            costs=found.costs,
            sizes=found.sizes,
            scales=scales,
            overrides=None,
            usage=found.usage,
            totals=totals,
            relation=relation,
            upper=upper,
            integral=integral,
            starts=None,
            terms=KEEP,
            columns=found.names,
        )
        assert edit is not None
        self.apply(edit)

    @exclusive
    def remove_request(self, id: Hashable) -> None:
        """Remove a request with its columns and its sum row."""
        self.apply(Edit("remove_requests", slots=self._requests.slots([id], "remove_request"), ids=[id]))

    @exclusive
    def remove_requests(self, ids: Ids) -> None:
        """Remove one or many requests; all of them or, if an id is unknown or given twice, none.

        Parameters
        ----------
        ids : hashable, or sequence of hashables
        """
        ids = self._requests.listed(ids)
        slots = self._requests.slots(ids, "remove_requests")
        self.apply(Edit("remove_requests", slots=slots, ids=ids))

    @exclusive
    def price_moves(
        self, ids: Ids, columns: ArrayLike | Sequence[Hashable], prices: float | ArrayLike
    ) -> None:
        """Charge for moving: a request pays its price unless it stays on its column.

        The method writes an override of that column: the given cost, times the scale, less the price. Shared
        costs stay shared. The new override replaces all earlier overrides of the request, which do not count,
        so that a second call with the same arguments changes nothing. Call it again when costs or scales
        change. Objectives are lower, by the sum of the prices, than if moves were paid for. In a maximisation
        the price is added to the column's value, and objectives are higher by the sum of the prices.

        Parameters
        ----------
        ids : hashable, or sequence of k hashables
        columns : sequence of k ints, names or None
            Present column of each, as in ``rounded.choice``; None or a negative one for none: no charge. An
            array has numbers, also for columns with names.
        prices : float or (k,) array_like
            Finite, not negative.

        Raises
        ------
        EditError
            An id is unknown or given twice, a request has no such column, or a price is invalid.
        """
        edit = self._parser.price_of_moves(self._requests.listed(ids), columns, prices)
        if edit is not None:
            self.apply(edit)

    # ---- columns of requests ----------------------------------------------------------------------------

    @exclusive
    def add_columns(
        self,
        request: Ids,
        names: Sequence[Hashable] | None,
        costs: float | ArrayLike,
        usage: Mapping[Any, Any] | Any,
        *,
        upper: float | ArrayLike | None = None,
    ) -> None:
        """Add columns to one or many requests; all of them or, if anything is invalid, none.

        The other columns keep their costs, overrides and bounds, and the next solve begins with their values
        in the last allocation. A request that shares columns or costs has its own from then on. In the image
        of a convex term a new column has 0.

        Parameters
        ----------
        request : hashable, or sequence of m hashables
            The request of all new columns, or of each.
        names : sequence of m hashables, or None
            Names of the new columns; None, also in a sequence, for a request whose columns have numbers: they
            go on. With one request and no names, there are as many new columns as costs.
        costs : float or (m,) array_like
        usage : mapping or sparse array
            Coefficients of the m columns, as in :meth:`add_request`: ``{resource id: coefficients}``, or a
            matrix of shape (number of resources, m).
        upper : float or (m,) array_like, optional
            Upper bounds. By default the bound that all columns of the request have; infinite if they differ.

        Raises
        ------
        EditError
            A request or resource is unknown, a name is not new, or a number is invalid: names the request,
            the field and the value.
        """
        edit = added_columns(self._parser, request, names, costs, usage, upper)
        if edit is not None:
            self.apply(edit)

    @exclusive
    def remove_columns(self, request: Ids, names: Sequence[Hashable]) -> None:
        """Remove columns of one or many requests; all of them or, if anything is invalid, none.

        The other columns stay as in :meth:`add_columns`.

        Parameters
        ----------
        request : hashable, or sequence of m hashables
            The request of all these columns, or of each.
        names : sequence of m hashables
            Names of the columns, or numbers where they have no names. Numbers are those before the edit;
            later columns move down.

        Raises
        ------
        EditError
            A request or column is unknown, a column is given twice, or a request would have none.
        """
        edit = removed_columns(self._parser, request, names)
        if edit is not None:
            self.apply(edit)

    @exclusive
    def update_columns(
        self,
        request: Ids,
        names: Sequence[Hashable],
        *,
        costs: float | ArrayLike | None = None,
        usage: Mapping[Any, Any] | Any | None = None,
        upper: float | ArrayLike | None = None,
    ) -> None:
        """Change columns of one or many requests; arguments that are not given leave their part as it is.

        Costs and bounds are changed in place. An override stays above a new cost.

        Parameters
        ----------
        request, names
            As in :meth:`remove_columns`.
        costs : float or (m,) array_like, optional
        usage : mapping or sparse array, optional
            All coefficients of these columns, as in :meth:`add_columns`.
        upper : float or (m,) array_like, optional

        Raises
        ------
        EditError
            A request, column or resource is unknown, a column is given twice, or a number is invalid.
        """
        edit = changed_columns(self._parser, request, names, costs, usage, upper)
        if edit is not None:
            self.apply(edit)

    def apply(self, edit: Edit) -> Any:
        """Make a checked edit of the program as it is now; every edit method ends in this call.

        Return the handle (SharedColumns or SharedCosts) of an object that is shared from now on, or None.
        """
        if not isinstance(edit, Edit):
            raise ArgumentTypeError("apply", "edit", edit, "must be an Edit")
        if edit.verb == TAKE_STARTS:
            self._starts.clear()
            return None
        self.store.last_view = None
        generations = self.store.requests.generation[edit.slots] if edit.kept is not None else edit.slots
        slots = self.store.apply(edit)
        match edit.verb:
            case "add_requests":
                self._requests.add(edit.ids, slots.tolist())
            case "remove_requests":
                self._requests.remove(edit.ids)
            case "add_resources":
                self._resources.add(edit.ids, slots.tolist())
            case "remove_resources":
                self._resources.remove(edit.ids)
            case "share_columns":
                return self._templates.make(int(slots[0]), edit, self.store.tick())
            case "share_costs":
                return self._vectors.make(int(slots[0]), edit, self.store.tick())
            case "forget_columns":
                del self._templates[int(slots[0])]
            case "forget_costs":
                del self._vectors[int(slots[0])]
        if edit.usage is not None or edit.verb == "remove_requests":
            self._names.put(slots, edit.labels)
            self._move_starts(slots, generations, edit.kept)
        if edit.starts is not None:
            self._starts |= _by_slot(slots, edit.starts)
        return None

    def _move_starts(
        self, slots: NDArray[np.int64], generations: NDArray[np.int64], kept: Runs | None
    ) -> None:
        """Let starts be of the new columns of requests, or of none; `generations` are those of the old
        columns.
        """
        if kept is not None:
            self._starts |= moved(self._starts, slots, generations, kept)
        elif self._starts:
            for slot in slots.tolist():
                self._starts.pop(slot, None)

    # ---- what it holds ----------------------------------------------------------------------------------

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

    def take_starts(self) -> Pending:
        """Return starts given since the last call, by request slot; for solvers.

        A start is (columns, values), or a :class:`copter.store.edit.Moved` for a request whose columns were
        added, removed or replaced, and which begins with its values in the last allocation.
        """
        starts = self._starts.copy()
        self._starts.clear()
        return starts

    def return_starts(self, starts: Pending) -> None:
        """Give back starts that :meth:`take_starts` returned for a solve without a result; for solvers."""
        self._starts.update(starts | self._starts)

    # ---- copies and files -------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # half a copy would be edited along with the original

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._twin(memo)

    def __reduce__(self) -> tuple[Any, ...]:
        twin = self._twin({}, without="primal_repair")  # nobody edits that one while it is pickled
        return _empty, (type(twin),), vars(twin)

    def _twin(self, memo: dict[int, Any], without: str = "") -> Any:
        """A copy, but for one attribute."""
        with self.guard.using("copy"):
            kind, content = self._content()
            twin = memo[id(self)] = _empty(kind)
            for name, value in content.items():
                if name != without:
                    setattr(twin, name, copy.deepcopy(value, memo))
        return twin

    def _content(self) -> tuple[type[ContinualProgram], dict[str, Any]]:
        """Class and attributes of a copy."""
        return type(self), vars(self)

    @exclusive
    def save(self, path: str | PathLike[str], solver: Remembers | None = None) -> None:
        """Write the program to a file, atomically and to disk; an older one is replaced.

        Parameters
        ----------
        solver : Solver, optional
            Its state is written too, so that the next round continues from this one.

        Raises
        ------
        EditError
            An id cannot be written: names it. Ids may be str, int, float, bool, bytes, None, numpy's numbers
            (which are read as Python's), and tuples of these.
        CopterError
            The solver's state cannot be written; that of :class:`copter.ProximalPoint` can.
        """
        from copter.durable.snapshot import save

        save(self, path, solver)

    @staticmethod
    def load(
        path: str | PathLike[str], solver: Remembers | None = None, terms: Iterable[type[ConvexTerm]] = ()
    ) -> ContinualProgram:
        """Read a program from a file that :meth:`save` wrote, with the same slots, revision and next answers.

        Reading runs no code from the file.

        Parameters
        ----------
        solver : Solver, optional
            Gets the state of the saved solver, but no settings: make it with the same.
        terms : iterable of classes
            Your own classes of convex terms that the program uses.

        Raises
        ------
        FileError
            The file is damaged, incomplete or not copter's, needs a class of terms, or has no state for this
            solver; names the file and the problem.
        """
        from copter.durable.snapshot import load

        program = ContinualProgram()
        load(path, program, solver, terms)
        return program

    def to_arrays(self) -> GeneralLP:
        """Return the program as it is now, in arrays with names: costs, sparse matrix, bounds, integrality.

        Returns
        -------
        GeneralLP
            Columns request after request, named ``request[column]`` by number or name; rows are the
            resources, by their ids, and then ``total[request]`` for each request that has a total. As for
            every GeneralLP, ``c`` of a maximisation is the negated objective, and ``maximize`` is True.

        Raises
        ------
        CopterError
            A request has a convex term: names it.
        """
        from copter.models.arrays import program_arrays

        return program_arrays(self)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the program to an MPS file for other solvers; use :meth:`save` to continue with copter.

        A maximisation is written as one (OBJSENSE MAX).

        Parameters
        ----------
        path : path-like
            Ends in ``.mps``.

        Raises
        ------
        CopterError
            It cannot be written there, or a request has a convex term.
        """
        from copter.models.files import write_mps

        write_mps(self, path)


def _by_slot(slots: NDArray[np.int64], starts: Entries) -> Pending:
    """Columns and values of the requests for which they are given."""
    ends = np.cumsum(starts.counts).tolist()
    given = [True] * slots.size if starts.given is None else starts.given.tolist()
    return {
        slot: (starts.columns[begin:end].copy(), starts.values[begin:end].copy())
        for slot, begin, end, wanted in zip(slots.tolist(), [0, *ends], ends, given, strict=False)
        if wanted
    }


def _empty(kind: type[ContinualProgram]) -> Any:
    """A program to be filled from another."""
    return kind.__new__(kind)
