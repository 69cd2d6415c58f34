"""ContinualProgram: a linear program that is kept between rounds and changed by edits.

    minimise    sum_q c_q'x_q + phi_q(a_q'x_q)   phi_q: a convex term, for requests that have one
    (maximise   sum_q c_q'x_q - phi_q(a_q'x_q)   with ``sense="max"``)
    subject to  l <= sum_q A_q x_q <= u          resources (coupling rows)
                0 <= x_q <= upper_q              request-local box,
                sum(x_q) <= total_q (or ==)      and, if wanted, one sum row

Every edit method validates all arguments before it changes the program. A rejected edit raises
:class:`copter.errors.EditError` and changes nothing. Ids are any hashables and stay valid until they are
removed.

One thread at a time can use a program. An edit, a solve, a copy or a save raises
:class:`copter.errors.ConcurrentUseError` and changes nothing while another thread edits or solves the
program, or if a callback of a running solve calls it.

Source: differential interface of COpter, thesis section 4.3.2. Scales and shared columns are additions.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import ArgumentTypeError, EditError
from copter.program.bounded import check_bounded
from copter.program.column_edits import added_columns, changed_columns, removed_columns
from copter.program.fields import set_fields
from copter.program.forms import KEEP
from copter.program.guard import Guard, exclusive
from copter.program.handles import Handles, SharedColumns
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
from copter.program.series import plain
from copter.program.table import read_table
from copter.program.usage import Usage
from copter.program.validation import number
from copter.store.edit import TAKE_STARTS, Edit, Entries, Pending, Runs, moved
from copter.store.local import LocalStore
from copter.store.store import ConstraintStore
from copter.terms.convex import ConvexTerm

if TYPE_CHECKING:
    from os import PathLike

    from copter.durable.state import Remembers
    from copter.models.linear_program import LinearProgram
    from copter.store.allocation import SparseX

__all__ = [
    "KEEP",
    "ContinualProgram",
    "EntriesLike",
    "Relation",
    "SharedColumns",
    "Usage",
]


_Method = TypeVar("_Method", bound=Callable[..., None])


def edit_method(action: str, kind: str) -> Callable[[_Method], _Method]:
    """Turn a function that has a signature, a docstring and no code into an edit method.

    The method adds or updates requests or resources; :mod:`copter.program.fields` has its arguments.
    """

    def decorated(method: _Method) -> _Method:
        name, parameters = method.__name__, list(inspect.signature(method).parameters.values())[1:]
        names = [each.name for each in parameters]
        unset = inspect.Parameter.empty, None, KEEP
        defaults = {each.name: each.default for each in parameters if each.default not in unset}

        @functools.wraps(method)
        def edit(self: ContinualProgram, /, *args: Any, **kwargs: Any) -> None:
            method(self, *args, **kwargs)  # Python checks the number of arguments
            given = {**defaults, **kwargs}
            given.update(zip(names, args, strict=False))
            self._edit(action, kind, name, given)

        return exclusive(cast("_Method", edit))

    return decorated


class ContinualProgram:
    """Linear program over named resources and requests, edited in place.

    Parameters
    ----------
    sense : "min" or "max"
        Sense of the objective. With "max", every cost that is given or read is a value to be maximised, and
        convex terms are subtracted from the objective. ``Solution.bound`` is then an upper bound. Dual prices
        have the same sign in both senses: positive where the upper bound of a resource is active.

    Attributes
    ----------
    primal_repair : callable, optional
        Primal repair heuristic: ``primal_repair(program, x, y)`` returns a feasible allocation made from the
        allocation `x`, at the dual prices `y` by row slot. ``x`` and the result are
        :class:`copter.store.allocation.SparseX`: integer slots and columns of existing requests, ascending,
        and finite values. copter's proximal solver also certifies this result and continues from it if it is
        better, which can save the last steps. If the function raises :class:`copter.errors.CopterError` or
        returns an invalid allocation, the solver logs this and continues without the result. A copy in memory
        has this attribute. Pickles and files do not contain code, so set the attribute again after loading.

    Raises
    ------
    SettingError
        If `sense` is neither "min" nor "max".

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
        self._templates = Handles()
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
            "convex term": len(self.store.terms),
            "integral request": integral,
        }
        always = ("request", "column", "resource")
        said = [f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items() if n or what in always]
        maximised = ["maximised"] * (self._sense == "max")
        return f"<{type(self).__name__}: {', '.join(said + maximised)}>"

    @property
    def sense(self) -> Sense:
        """Sense of the objective: costs are minimised ("min") or maximised ("max")."""
        return self._sense

    @property
    def _parser(self) -> Parser:
        """Parser that makes edits from arguments."""
        return Parser(self)

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

    @edit_method("add", "resource")
    def add_resource(self, id: Hashable, upper: float = math.inf, *, lower: float = -math.inf) -> None:
        """Add a coupling row ``lower <= usage <= upper``.

        Parameters
        ----------
        id : hashable
            Id of the resource.
        upper, lower : float
            Bounds of the usage, in units of the resource. Absolute values from 1e20 on are infinite.

        Raises
        ------
        EditError
            If the id is taken, a bound is NaN, or lower > upper.
        """

    @edit_method("add", "resource")
    def add_resources(
        self,
        ids: Ids,
        *,
        lower: float | ArrayLike = -math.inf,
        upper: float | ArrayLike = math.inf,
    ) -> None:
        """Add many coupling rows at once; if an argument is invalid, add none.

        Parameters
        ----------
        ids : sequence of k hashables
        lower, upper : float or (k,) array_like
            Bounds, one for all rows or one each.

        Raises
        ------
        EditError
            For the reasons of :meth:`add_resource`, or if an id is given twice.
        """

    @edit_method("update", "resource")
    def update_resource(
        self, id: Hashable, *, lower: float | None = None, upper: float | None = None, by: float | None = None
    ) -> None:
        """Change bounds of a resource.

        Parameters
        ----------
        id : hashable
        lower, upper : float, optional
            New bounds, in units of the resource. None leaves a bound unchanged.
        by : float, optional
            Change that is added to the present upper bound, instead of ``upper``.

        Raises
        ------
        EditError
            If the resource is unknown, a bound is NaN, lower > upper, or ``by`` would reduce a nonnegative
            upper bound below 0.
        """

    @edit_method("update", "resource")
    def update_resources(
        self,
        ids: Ids,
        *,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        by: ArrayLike | None = None,
    ) -> None:
        """Change bounds of one or many resources; if an argument is invalid, change none.

        Parameters
        ----------
        ids : hashable, or sequence of k hashables
            The program remembers a long list, tuple or range of ids and finds the same ids faster next round.
        lower, upper : float or (k,) array_like, optional
            New bounds, one for all or one each. None leaves the bounds unchanged.
        by : float or (k,) array_like, optional
            Change that is added to the present upper bounds, instead of ``upper``.

        Raises
        ------
        EditError
            For the reasons of :meth:`update_resource`, or if an id is given twice. The error names the
            resource.
        """

    @exclusive
    def remove_resource(self, id: Hashable) -> None:
        """Remove a coupling row; columns lose their coefficients in this row.

        Raises
        ------
        EditError
            If the id is unknown.
        """
        self._remove(self._resources, [id], "remove_resource")

    @exclusive
    def remove_resources(self, ids: Ids) -> None:
        """Remove one or many coupling rows; columns lose their coefficients in these rows.

        Parameters
        ----------
        ids : hashable, or sequence of hashables

        Raises
        ------
        EditError
            If an id is unknown or given twice. No row is removed.
        """
        self._remove(self._resources, self._resources.listed(ids), "remove_resources")

    # ---- columns that requests share ----------------------------------------------------------

    @property
    def shared_columns(self) -> list[SharedColumns]:
        """Handles of all shared columns, in the order in which they were made."""
        return list(self._templates.values())

    @exclusive
    def share_columns(
        self, usage: Mapping[Any, Any], n_columns: int, *, columns: Sequence[Hashable] | None = None
    ) -> SharedColumns:
        """Register columns that many requests can share.

        Parameters
        ----------
        usage : mapping of resource id to coefficients
            As in :meth:`add_request`.
        n_columns : int
            Number of columns.
        columns : sequence of n_columns hashables, optional
            Names of the columns, for requests without names of their own.

        Returns
        -------
        SharedColumns
            Handle that is given as the ``usage`` of requests.

        Raises
        ------
        EditError
            If a resource is unknown, or a length or number is invalid.
        """
        handle: SharedColumns = self.apply(self._parser.new_columns(usage, n_columns, columns))
        return handle

    @exclusive
    def forget(self, handle: SharedColumns) -> None:
        """Forget a handle; requests that share its columns keep them.

        Raises
        ------
        EditError
            If the program does not have this handle, or has forgotten it already.
        """
        self.apply(self._parser.forgotten(handle))

    @exclusive
    def reserve(self, columns: int) -> None:
        """Reserve memory for the costs of new columns.

        Later additions of columns are faster then, because the array of costs need not be copied to grow.
        The program does not change otherwise.

        Parameters
        ----------
        columns : int
            Number of columns, >= 0, in addition to the present columns.

        Raises
        ------
        EditError
            If the number is invalid, or there is not enough memory. The program does not change.
        """
        given = number("reserve", "columns", columns)
        if not (given >= 0 and given == np.floor(given) and np.isfinite(given)):
            raise EditError("reserve", "columns", columns, "must be a whole number, not negative")
        self.store.last_view = None
        try:
            self.store.reserve(int(given))
        except (MemoryError, ValueError):  # numpy raises ValueError for a size beyond the address space
            why = "must be less: there is not enough memory"
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
        return Requests(self)

    @property
    def slot_of(self) -> Mapping[Hashable, int]:
        """Store slot of each request as it is now; later edits do not change this mapping."""
        return self._requests.frozen

    @property
    def column_names(self) -> FrozenNames:
        """Names of the columns by store slot as they are now; later edits do not change them."""
        return self._names.frozen

    @edit_method("add", "request")
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
        override: Mapping[Any, float] | None = None,
        integral: bool = False,
        start: Mapping[Any, float] | None = None,
        term: ConvexTerm | None = None,
        columns: Sequence[Hashable] | None = None,
    ) -> None:
        """Add a request: a block of columns.

        Parameters
        ----------
        id : hashable
            Id of the request.
        costs : (n,) array_like
            Finite cost of each column.
        usage : SharedColumns, mapping or sparse array
            Coefficients in the resource rows: a handle from :meth:`share_columns`, a mapping or a matrix. A
            mapping ``{resource id: coefficients}`` has a scalar (for all columns), an (n,) array, or a pair
            (column numbers, values) for each resource. A matrix has the shape (number of resources, n), with
            rows in the order of :attr:`resource_ids`.
        total, relation : float, "<=" or "=="
            Sum row of the request. Without a total there is no sum row.
        upper : float or (n,) array_like
            Upper bounds of the columns, >= 0. A bound of 0 fixes a column at 0. Without a total, every bound
            must be finite. Choose realistic bounds, because the relative violation of a row depends on them.
        scale : float
            Finite factor > 0 that multiplies all costs that are not overridden.
        override : mapping of column to cost
            Costs of single columns that the scale does not multiply.
        integral : bool
            True to ask for an integral allocation. Solvers of integer programs and shims read it.
        start : mapping of column to value
            Allocation from which the next warm start begins.
        term : ConvexTerm, optional
            Convex term phi(a'x) that is added to the objective, for example ``LogTerm(weight, offset,
            image=a)``. The scale does not multiply it. In a maximisation phi(a'x) is subtracted.
        columns : sequence of n distinct hashables, optional
            Names of the columns. Solutions, and mappings such as `override` and `start`, then use the names.
            Arrays of columns always hold numbers. Without names, columns have the numbers from 0 to n - 1.

        Raises
        ------
        EditError
            If the id is taken, a resource or handle is unknown, a length is wrong, a number is NaN, a cost is
            infinite, a total or upper bound is negative, or a column has neither a finite bound nor a total.
            The error names the request, the field and the value.
        """

    @edit_method("add", "request")
    def add_requests(
        self,
        ids: Ids,
        costs: ArrayLike | Sequence[ArrayLike],
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
        """Add many requests at once; if an argument is invalid, add none.

        Every argument has the meaning that it has in :meth:`add_request`, for all requests or for each of
        them. Flat arrays are the fastest form.

        Parameters
        ----------
        ids : sequence of k hashables
        costs : (sum(sizes),) array_like, or sequence of k array_likes
            Costs of all columns, flat, request after request; or one array for each request.
        sizes : (k,) array_like of int, optional
            Number of columns of each request; only flat costs need it.
        usage : SharedColumns, sparse array, or sequence of k usages
            One handle for all requests; or a matrix of shape (number of resources, sum(sizes)) with rows in
            the order of :attr:`resource_ids`; or one usage for each request.
        totals : float or (k,) array_like, optional
            Total of each sum row. None, also in a list, means no sum row.
        relation : "<=", "==", or sequence of k of them
            Relation of each sum row.
        upper : float, (sum(sizes),) array_like, or sequence of k floats or array_likes
            Upper bounds of the columns.
        scales : float or (k,) array_like, optional
            Scale of each request.
        overrides : (counts (k,), columns (sum,), costs (sum,)), or sequence of k mappings, optional
            Flat, with ``counts`` entries for each request; or one mapping or None for each request.
        integral : bool or (k,) array_like of bool
            True for requests that ask for an integral allocation.
        starts : (counts (k,), columns (sum,), values (sum,)), or sequence of k mappings, optional
            In the forms of ``overrides``. A request whose mapping is None has no start.
        terms : ConvexTerm, or sequence of k terms, optional
            Convex terms. None in a sequence means no term.
        columns : sequence of k sequences, optional
            Names of the columns of each request; None for numbers. If several requests have the same tuple
            object, the program stores it once.

        Raises
        ------
        EditError
            For the reasons of :meth:`add_request`, or if an id is given twice.
        """

    @edit_method("update", "request")
    def update_request(
        self,
        id: Hashable,
        *,
        costs: ArrayLike | None = None,
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
        """Change a request; arguments that are not given leave their part unchanged.

        New ``costs`` of another length need a new ``usage``, too. A new usage removes the overrides and the
        names of the columns, unless they are given again. It also needs a new ``upper`` if the old columns
        have different bounds. After a new usage, the next warm start begins from ``start``, or else from the
        last values of the columns whose names stay.

        Parameters
        ----------
        id : hashable
        costs : (n,) array_like, optional
        scale : float, optional
        override : mapping of column to cost, optional
            Replaces the whole previous override; ``{}`` removes it.
        usage : SharedColumns, mapping or sparse array, optional
            New columns, as in :meth:`add_request`. They need new ``costs``.
        total : float, optional
            New total. None removes the sum row.
        relation : "<=" or "==", optional
        upper : float or (n,) array_like, optional
        integral : bool, optional
        start : mapping of column to value, optional
        term : ConvexTerm, or mapping of parameter name to float, optional
            New convex term, or new parameters of the present term, whose image stays. None removes the term.
            If a request with a term gets a new usage, the term must be given again.
        columns : sequence of n hashables, optional
            Names of the columns of a new usage.

        Raises
        ------
        EditError
            For the reasons of :meth:`add_request`, or if the id is unknown.
        """

    @edit_method("update", "request")
    def update_requests(
        self,
        ids: Ids,
        *,
        costs: ArrayLike | Sequence[ArrayLike] | None = None,
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
        """Change many requests at once; if an argument is invalid, change none.

        Every argument has the meaning that it has in :meth:`update_request` and the forms that it has in
        :meth:`add_requests`. Arguments that are not given leave their part unchanged.

        Parameters
        ----------
        ids : sequence of k hashables
            The program remembers a long list, tuple or range of ids and finds the same ids faster next round.
        costs : (sum of columns,) array_like, or sequence of k array_likes, optional
            New costs, flat, request after request; or one array for each request. Without a new ``usage``,
            each request needs one cost per present column.
        sizes : (k,) array_like of int, optional
            Number of new columns of each request, for flat costs with a new ``usage``.
        scales : float or (k,) array_like, optional
        overrides : (counts (k,), columns (sum,), costs (sum,)), or sequence of k mappings, optional
            Replaces the override of every request, except requests whose mapping is None.
        usage : SharedColumns, sparse array, or sequence of k usages, optional
            New columns, as in :meth:`add_requests`. They need new ``costs``.
        totals : float or (k,) array_like, optional
            New totals. None, also in a list, removes the sum row.
        relation : "<=", "==", or sequence of k of them, optional
        upper : float, (sum of columns,) array_like, or sequence of k floats or array_likes, optional
        integral : bool or (k,) array_like of bool, optional
        starts : (counts (k,), columns (sum,), values (sum,)), or sequence of k mappings, optional
        terms : ConvexTerm, sequence of k terms, or mapping of parameter name to (k,) array_like, optional
            New terms, where None removes a term. Or new parameters, for example ``{"weight": weights}``, of
            terms of one class, whose images stay.
        columns : sequence of k sequences, optional
            Names of the columns of a new usage, as in :meth:`add_requests`.

        Raises
        ------
        EditError
            For the reasons of :meth:`update_request`, if an id is given twice, or if parameters are given for
            a request without a term.
        """

    @edit_method("add", "request")
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
        """Add many requests from a long table; if an argument is invalid, add none.

        The table has the columns ``request``, ``column``, ``resource``, ``use`` and ``cost``. It has one row
        for each column of a request and each resource that this column uses; ``use`` is the coefficient. A
        column that uses no resource has one row, whose resource is None, NaN or ``""`` and whose use is 0 or
        missing. All rows of a column have the same cost. Requests, and the columns of each request, are added
        in the order of their first rows. Columns have the names of the table, unless these names are the
        numbers from 0 on.

        Parameters
        ----------
        table : mapping of arrays or lists, structured array, data frame, or Arrow table
            Any object whose ``table["request"]`` has one dimension.
        totals, relation, upper, scales, integral
            As in :meth:`add_requests`: one for all requests, or one each, in the order of the requests.

        Raises
        ------
        EditError
            For the reasons of :meth:`add_requests`; if the table lacks a column, is empty or has columns of
            different lengths; or if a request's column has two costs or two rows with one resource. The error
            names the request, its column and the value.
        """

    @edit_method("update", "request")
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
        """Replace the columns of the requests in a long table; if an argument is invalid, replace none.

        Other requests do not change. Arguments that are not given leave their part unchanged. As with a new
        usage in :meth:`update_requests`, the new columns have no overrides.

        Parameters
        ----------
        table : mapping of arrays or lists, structured array, data frame, or Arrow table
            As in :meth:`add_table`.
        totals, relation, upper, scales, integral
            As in :meth:`update_requests`: one for all requests, or one each, in the order of the requests'
            first rows.

        Raises
        ------
        EditError
            For the reasons of :meth:`add_table` and :meth:`update_requests`.
        """

    @exclusive
    def remove_request(self, id: Hashable) -> None:
        """Remove a request with its columns and its sum row.

        Raises
        ------
        EditError
            If the id is unknown.
        """
        self._remove(self._requests, [id], "remove_request")

    @exclusive
    def remove_requests(self, ids: Ids) -> None:
        """Remove one or many requests with their columns and sum rows.

        Parameters
        ----------
        ids : hashable, or sequence of hashables

        Raises
        ------
        EditError
            If an id is unknown or given twice. No request is removed.
        """
        self._remove(self._requests, self._requests.listed(ids), "remove_requests")

    @exclusive
    def price_moves(
        self, ids: Ids, columns: ArrayLike | Sequence[Hashable], prices: float | ArrayLike
    ) -> None:
        """Charge requests for leaving their present columns.

        The method writes an override for the present column of each request: the column's given cost times
        the scale, minus the price. So a request that leaves the column loses this discount. The new override
        replaces all earlier overrides of the request. A second call with the same arguments therefore changes
        nothing. Call the method again when costs or scales change.

        The discounts lower the objective: it is smaller, by the sum of the prices, than an objective that
        adds a charge for each move. In a maximisation the price is added to the column's value, and the
        objective is higher by the sum of the prices.

        Parameters
        ----------
        ids : hashable, or sequence of k hashables
        columns : sequence of k ints, names or None
            Present column of each request, as in ``rounded.choice``. None or a negative number means no
            column and no charge. An array has numbers, also for columns with names.
        prices : float or (k,) array_like
            Price of leaving the column, in objective units, finite and >= 0.

        Raises
        ------
        EditError
            If an id is unknown or given twice, a request has no such column, or a price is invalid.
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
        """Add columns to one or many requests; if an argument is invalid, add none.

        The other columns keep their costs, overrides and bounds. The next solve begins with their values in
        the last allocation. A request with shared columns gets its own columns. The image of a convex term
        has 0 for a new column.

        Parameters
        ----------
        request : hashable, or sequence of m hashables
            The request of all new columns, or of each new column.
        names : sequence of m hashables, or None
            Names of the new columns. None, instead of the sequence or in it, for columns of a request whose
            columns have numbers: new columns get the next numbers. With one request and no names, the length
            of `costs` is the number of new columns.
        costs : float or (m,) array_like
            Cost of all new columns, or of each.
        usage : mapping or sparse array
            Coefficients of the m columns, as in :meth:`add_request`: ``{resource id: coefficients}``, or a
            matrix of shape (number of resources, m).
        upper : float or (m,) array_like, optional
            Upper bounds. The default is the bound that all columns of the request have, or infinity if their
            bounds differ; a column of a request without a total needs a finite bound.

        Raises
        ------
        EditError
            If a request or resource is unknown, a name is not new, or a number is invalid. The error names
            the request, the field and the value.
        """
        edit = added_columns(self._parser, request, names, costs, usage, upper)
        if edit is not None:
            self.apply(edit)

    @exclusive
    def remove_columns(self, request: Ids, names: Sequence[Hashable]) -> None:
        """Remove columns of one or many requests; if an argument is invalid, remove none.

        The other columns keep their data and their start, as in :meth:`add_columns`.

        Parameters
        ----------
        request : hashable, or sequence of m hashables
            The request of all named columns, or of each of them.
        names : sequence of m hashables
            Names of the columns, or their numbers before the edit if they have no names. Columns after a
            removed column get lower numbers.

        Raises
        ------
        EditError
            If a request or column is unknown, a column is given twice, or a request would have no column.
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
        """Change columns of one or many requests; arguments that are not given leave their part unchanged.

        An override takes precedence over a new cost.

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
            If a request, column or resource is unknown, a column is given twice, or a number is invalid.
        """
        edit = changed_columns(self._parser, request, names, costs, usage, upper)
        if edit is not None:
            self.apply(edit)

    def _edit(self, action: str, kind: str, name: str, given: dict[str, Any]) -> None:
        """Make and apply an edit of requests or resources from the arguments `given` of the method `name`."""
        new, index = action == "add", self._requests if kind == "request" else self._resources
        label: Hashable = name
        one = "id" in given
        if one:
            label = given.pop("id")
            ids: Sequence[Hashable] = [label]
        else:
            if "table" in given:
                given |= vars(read_table(name, given.pop("table"), self._resources))
            ids = listed(given.pop("ids")) if new else index.listed(given.pop("ids"))
        fields = set_fields(kind, given, new=new, one=one, id=label)
        parsed = self._parser.requests_edit if kind == "request" else self._parser.resources_edit
        edit = parsed(new, label, ids, fields)
        if edit is not None:
            self.apply(edit)

    def _remove(self, index: Index, ids: Sequence[Hashable], name: str) -> None:
        """Remove requests or resources; `name` is the edit method."""
        self.apply(Edit(f"remove_{index.kind}s", slots=index.slots(ids, name), ids=plain(ids)))

    def apply(self, edit: Edit) -> Any:
        """Apply a parsed edit to the program, if all columns stay bounded; all edit methods call this method.

        Return the handle if the edit registers shared columns, else None.
        """
        if not isinstance(edit, Edit):
            raise ArgumentTypeError("apply", "edit", edit, "must be an Edit")
        if edit.verb == TAKE_STARTS:
            self._starts.clear()
            return None
        if edit.verb in ("add_requests", "update_requests"):
            check_bounded(self, edit)
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
            case "forget_columns":
                del self._templates[int(slots[0])]
        if edit.usage is not None or edit.verb == "remove_requests":
            self._names.put(slots, edit.labels)
            self._move_starts(slots, generations, edit.kept)
        if edit.starts is not None:
            self._starts |= _by_slot(slots, edit.starts)
        return None

    def _move_starts(
        self, slots: NDArray[np.int64], generations: NDArray[np.int64], kept: Runs | None
    ) -> None:
        """Move the starts of requests to their new columns, or drop the starts if no column is kept.

        `generations` (k,) are the generations of the old columns.
        """
        if kept is not None:
            self._starts |= moved(self._starts, slots, generations, kept)
        elif self._starts:
            for slot in slots.tolist():
                self._starts.pop(slot, None)

    # ---- sizes and starts -------------------------------------------------------------------------------

    @property
    def n_variables(self) -> int:
        """Number of columns."""
        return self.store.n_variables

    @property
    def n_rows(self) -> int:
        """Number of rows: resources, and sum rows of requests."""
        table = self.store.requests
        return len(self._resources) + int(np.count_nonzero(table.total[: table.size] < np.inf))

    @property
    def nnz(self) -> int:
        """Number of nonzeros in the resource rows."""
        return self.store.nnz

    def take_starts(self) -> Pending:
        """Return the starts given since the last call, by request slot; solvers call this method.

        A start is a pair (columns, values). For a request whose columns were added, removed or replaced, it
        is a :class:`copter.store.edit.Moved`: the next solve begins with the request's values in the last
        allocation.
        """
        starts = self._starts.copy()
        self._starts.clear()
        return starts

    def return_starts(self, starts: Pending) -> None:
        """Return starts to the program after a solve without a result; solvers call this method."""
        self._starts.update(starts | self._starts)

    # ---- copies and files -------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # a shallow copy would share its data with the original

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._twin(memo)

    def __reduce__(self) -> tuple[Any, ...]:
        twin = self._twin({}, without="primal_repair")  # a private copy, which cannot change during pickling
        return _empty, (type(twin),), vars(twin)

    def _twin(self, memo: dict[int, Any], without: str = "") -> Any:
        """Return a copy without one attribute."""
        with self.guard.using("copy"):
            kind, content = self._content()
            twin = memo[id(self)] = _empty(kind)
            for name, value in content.items():
                if name != without:
                    setattr(twin, name, copy.deepcopy(value, memo))
        return twin

    def _content(self) -> tuple[type[ContinualProgram], dict[str, Any]]:
        """Return the class and the attributes of a copy."""
        return type(self), vars(self)

    @exclusive
    def save(self, path: str | PathLike[str], solver: Remembers | None = None) -> None:
        """Write the program to a file, atomically and synchronised to disk; replace an existing file.

        Parameters
        ----------
        path : path-like
        solver : Solver, optional
            Solver whose state is written, too, so that the next round continues from this one.

        Raises
        ------
        EditError
            If an id cannot be written. Ids may be str, int, float, bool, bytes, None, numpy numbers (which
            are read as Python numbers), and tuples of these.
        CopterError
            If the solver's state cannot be written. The state of :class:`copter.ProximalPoint` can.
        """
        from copter.durable.snapshot import save

        save(self, path, solver)

    @staticmethod
    def load(
        path: str | PathLike[str], solver: Remembers | None = None, terms: Iterable[type[ConvexTerm]] = ()
    ) -> ContinualProgram:
        """Read a program from a file that :meth:`save` wrote.

        The program has the same slots and the same revision. The next solve returns the same solution, unless
        the solver depends on measured times. Reading runs no code from the file.

        Parameters
        ----------
        path : path-like
        solver : Solver, optional
            Solver that gets the saved solver's state, but not its settings: make it with the same settings.
        terms : iterable of classes
            Your own classes of convex terms that the program uses.

        Returns
        -------
        ContinualProgram

        Raises
        ------
        FileError
            If the file is damaged, incomplete or not written by copter, needs a class that is not in `terms`,
            or has no state for this solver. The error names the file and the problem.
        """
        from copter.durable.snapshot import load

        program = ContinualProgram()
        load(path, program, solver, terms)
        return program

    def to_arrays(self) -> LinearProgram:
        """Return the present program as arrays with names: costs, sparse matrix, bounds and integrality.

        Returns
        -------
        LinearProgram
            Columns are in the order of the requests and named ``request[column]``, by number or name. Rows
            are the resources, named by their ids, followed by ``total[request]`` for each sum row. For a
            maximisation, ``c`` is the negated objective and ``maximize`` is True, as in every LinearProgram.

        Raises
        ------
        UnsupportedError
            If a request has a convex term. The error names the request.
        """
        from copter.models.arrays import program_arrays

        return program_arrays(self)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the program to an MPS file for other solvers; use :meth:`save` to continue with copter.

        The file of a maximisation has OBJSENSE MAX.

        Parameters
        ----------
        path : path-like
            Path that ends in ``.mps``.

        Raises
        ------
        CopterError
            If the file cannot be written, or a request has a convex term.
        """
        from copter.models.files import write_mps

        write_mps(self, path)


def _by_slot(slots: NDArray[np.int64], starts: Entries) -> Pending:
    """Return the starts, (columns, values) by slot, of the requests for which a start is given."""
    ends = np.cumsum(starts.counts).tolist()
    given = [True] * slots.size if starts.given is None else starts.given.tolist()
    return {
        slot: (starts.columns[begin:end].copy(), starts.values[begin:end].copy())
        for slot, begin, end, wanted in zip(slots.tolist(), [0, *ends], ends, given, strict=False)
        if wanted
    }


def _empty(kind: type[ContinualProgram]) -> Any:
    """Make a program without attributes, to be filled from another program."""
    return kind.__new__(kind)
