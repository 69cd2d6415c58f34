"""Solution: the result of a solve, in the program's ids, with its certificate."""

from __future__ import annotations

import enum
import math
import weakref
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from copter.errors import ArgumentTypeError, CopterError, NoAllocationError, NotOptimalError, UnknownIdError
from copter.program.sense import Sense, in_sense
from copter.proof.certificate import Certificate, GapDenominator, Residuals, certify, right_signs
from copter.proof.pricing import Pricing, price
from copter.status import Status as Status
from copter.store.allocation import NOTHING, SparseX, changes, row_activity
from copter.store.reading import effective_costs, usage_columns

if TYPE_CHECKING:
    from copter.explanation import Explanation
    from copter.program.names import FrozenNames
    from copter.program.program import ContinualProgram
    from copter.proof.integer import IntegerProof

CHURN_THRESHOLD = 1e-3
"""A column counts as changed if its value changed by more than this."""


class Start(NamedTuple):
    """Start of a solve: what the warm start used, or why the solve began cold.

    `reason` is a text. `cold` is the reason of a cold start as an enum, None for a warm start.
    """

    warm: bool
    reason: str
    cold: ColdStart | None = None


class ColdStart(enum.StrEnum):
    """Reason why a solve did not begin from the last round.

    The value of a member is a label for programs; ``sentence`` is a text for people.
    """

    sentence: str

    FIRST_ROUND = "first_round", "no earlier round"
    OTHER_PROGRAM = "other_program", "the last round was another program"
    NOTHING_LEFT = "nothing_left", "nothing of the last round is left"
    SWITCHED_OFF = "switched_off", "warm start switched off"
    ALWAYS_COLD = "always_cold", "this solver starts cold every round"
    BASIS_FAILED = "basis_failed", "the last basis failed and was cleared"

    def __new__(cls, value: str, sentence: str) -> ColdStart:
        """Make a member from a label and its sentence."""
        member = str.__new__(cls, value)
        member._value_, member.sentence = value, sentence
        return member

    def start(self, more: str = "") -> Start:
        """Return the start of a solve that began cold for this reason; `more` is added to the sentence."""
        return Start(False, self.sentence + more, self)


@dataclass(frozen=True)
class Timings:
    """Seconds of the parts of a round.

    Attributes
    ----------
    edit : float
        Time to update the solver's own model. It is 0 for a solver that works on the program itself, because
        the program's edit methods were called before the solve.
    solve : float
        Time of the solve.
    rounding : float
        Time of rounding. It is 0 in a solution, because a shim rounds after the solve and reports its time in
        its own result.

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> timings = ProximalPoint().solve(program).timings
    >>> timings.edit, timings.solve > 0, timings.rounding
    (0.0, True, 0.0)
    """

    edit: float = 0.0
    solve: float = 0.0
    rounding: float = 0.0


@dataclass(frozen=True, eq=False)
class FarkasRay:
    """Proof that a program is infeasible; :mod:`copter.proof.rays` has the inequality.

    Attributes
    ----------
    y : mapping of resource id to float
        Prices of the resources.
    value : float
        Violation of the combined rows that the prices prove. It is positive.

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=3)
    >>> program.add_request("job", costs=[1.0], usage={"gpu": 4}, total=1, relation="==")
    >>> ray = ProximalPoint().solve(program).ray
    >>> ray.y["gpu"] > 0, ray.value > 0
    (True, True)
    """

    y: Mapping[Hashable, float]
    value: float


class Values(Protocol):
    """Values of the columns of requests, by slot."""

    @property
    def count(self) -> int:
        """Number of nonzeros."""

    def sparse(self) -> SparseX:
        """Return all nonzeros."""

    def of(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Return columns and values of the nonzeros of one request, and its number of columns."""

    def moved_since(self, earlier: Values) -> NDArray[np.int64] | None:
        """Return the slots of requests whose values may differ from earlier values; None if unknown."""


@dataclass(frozen=True, eq=False)
class GivenValues:
    """Values given as nonzeros, with the number of columns of each request slot."""

    sizes: NDArray[np.int64]
    x: SparseX

    @property
    def count(self) -> int:
        """Number of nonzeros."""
        return self.x.value.size

    def sparse(self) -> SparseX:
        """Return all nonzeros."""
        return self.x

    def of(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Return columns and values of the nonzeros of one request, and its number of columns."""
        mine = self.x.between(slot, slot + 1)
        return mine.column, mine.value, int(self.sizes[slot])

    def moved_since(self, earlier: Values) -> None:
        """Return None, because the changes are unknown."""
        return None


_NO_REQUEST = "there was no such request when this solution was returned"


class NamedValues(dict[Hashable, float]):
    """Values of the columns of a request by their names."""

    def __missing__(self, column: Hashable) -> float:
        raise UnknownIdError(column, "the request had no such column when this solution was returned")


class Allocation(Mapping[Hashable, Any]):
    """Mapping of request id to the values of its columns, which are built when they are read.

    The values of a request are an (n,) ndarray, or, if its columns have names, a mapping of name to float.

    Parameters
    ----------
    slots : mapping of request id to slot
        Slots at the time when the solution was returned.
    values : Values
        Nonzeros and number of columns of each slot.
    names : FrozenNames
        Names of the columns by slot.

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("a", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> program.add_request("b", costs=[-1.0], usage={"gpu": 1}, upper=1.0, columns=["small"])
    >>> x = ProximalPoint().solve(program).x
    >>> x["a"].round(6), {name: round(value, 6) for name, value in x["b"].items()}
    (array([0., 1.]), {'small': 1.0})
    >>> x.choices()
    {'a': 1, 'b': 'small'}
    """

    def __init__(self, slots: Mapping[Hashable, int], values: Values, names: FrozenNames) -> None:
        self._slots, self._values, self._names = slots, values, names

    @classmethod
    def of(cls, program: ContinualProgram, x: SparseX) -> Allocation:
        """Make an allocation from nonzeros `x` for the present requests of a program."""
        table = program.store.requests
        values = GivenValues(table.n_columns[: table.size].copy(), x)
        return cls(program.slot_of, values, program.column_names)

    def arrays(self) -> SparseX:
        """Return all nonzeros as new arrays of one length: request slot, column number and value.

        ``program.slot_of`` has the slot of each request.
        """
        slot, column, value = self._values.sparse()
        return SparseX(slot.copy(), column.copy(), value.copy())

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._slots)

    def __contains__(self, request: object) -> bool:
        return request in self._slots

    def __repr__(self) -> str:
        return f"<Allocation of {len(self._slots):,} requests: {self._values.count:,} nonzeros>"

    def __getitem__(self, request: Hashable) -> Any:
        if request not in self._slots:
            raise UnknownIdError(request, _NO_REQUEST)
        columns, values, size = self._values.of(self._slots[request])
        dense = np.zeros(size)
        dense[columns] = values
        names = self._names.of(self._slots[request])
        return dense if names is None else NamedValues(zip(names, dense.tolist(), strict=True))

    def nonzeros(self, request: Hashable) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return column numbers and values of a request's nonzeros, (k,) each, in new arrays."""
        if request not in self._slots:
            raise UnknownIdError(request, _NO_REQUEST)
        columns, values, _ = self._values.of(self._slots[request])
        return columns.copy(), values.copy()

    def moved_since(self, earlier: Allocation) -> NDArray[np.int64] | None:
        """Return the ascending slots of requests whose values may differ from an earlier allocation.

        Return None if the changes are unknown; all values may differ then.
        """
        return self._values.moved_since(earlier._values)

    def of_slots(self, slots: NDArray[np.int64]) -> SparseX:
        """Return the nonzeros of the requests with the given slots, which must ascend."""
        found = [self._values.of(slot)[:2] for slot in slots.tolist()]
        counts = [column.size for column, _ in found]
        nothing: tuple[NDArray[np.int64], NDArray[np.float64]] = NOTHING.column, NOTHING.value
        column, value = (np.concatenate(parts) for parts in zip(nothing, *found, strict=True))
        return SparseX(slots.repeat(counts), column, value)

    def to_frame(self) -> Any:
        """Return the nonzeros as a pandas DataFrame with the columns request, column and value."""
        import pandas as pd

        ids = {slot: id for id, slot in self._slots.items()}
        entries = zip(*(part.tolist() for part in self.arrays()), strict=True)
        rows = [(ids[at], self._names.column(at, number), value) for at, number, value in entries]
        return pd.DataFrame(rows, columns=["request", "column", "value"])

    def choices(self) -> dict[Hashable, Any]:
        """Return the column, by number or name, with the largest value of each request.

        The column is None for a request without a nonzero. In an integral allocation, a request with one unit
        has chosen this column.
        """
        x, slots = self.arrays(), self._slots.values()
        order, chosen = np.argsort(x.value, kind="stable"), np.full(max(slots, default=-1) + 1, -1)
        chosen[x.slot[order]] = x.column[order]
        columns = chosen[list(slots)].tolist()
        each = zip(self._slots.items(), columns, strict=True)
        return {id: self._names.column(slot, column) for (id, slot), column in each}


class _NoAllocation(Allocation):
    """Placeholder in a solution without an allocation.

    It is false in a condition. Reading it raises NoAllocationError with `status` and `reason` of the
    solution.
    """

    def __init__(self, status: str, reason: str) -> None:
        self._status, self._reason = status, reason

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<no allocation: {self._status}: {self._reason}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("_slots", "_values", "_names"):
            raise NoAllocationError(self._status, self._reason)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class _Prices(dict[Hashable, float]):
    """Dual prices by resource id."""

    def __missing__(self, resource: Hashable) -> float:
        raise UnknownIdError(resource, "there was no such resource when this solution was returned")


class ProgramReference:
    """Weak reference to the program of a solution; the program can be deleted before the solution.

    The reference of a solution that was pickled and loaded is empty.
    """

    def __init__(self, program: ContinualProgram | None) -> None:
        self._program = None if program is None else weakref.ref(program)

    def __call__(self) -> ContinualProgram | None:
        """Return the program, or None if it was deleted or the solution was pickled."""
        return None if self._program is None else self._program()

    def __reduce__(self) -> tuple[type[ProgramReference], tuple[None]]:
        return ProgramReference, (None,)


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Result of a solve.

    If ``found`` is False, the solution has no allocation, because the program is infeasible or the solver
    found no allocation. Its ``x`` is then false in a condition and raises NoAllocationError when it is read.
    Objective, churn and primal residual are NaN, and the gap is infinite. The dual prices and the bound are
    still valid. An unknown bound is minus infinity, or plus infinity in a maximisation.

    Objective and bound are in the sense of the program. ``certificate`` has both as costs to be minimised,
    the form that solvers and shims use.

    Attributes
    ----------
    status, reason : Status, str
        Reason why the solver stopped, as an enum and in words.
    x : Allocation
        Values of the columns by request id, and by name for columns with names. A placeholder if ``found`` is
        False.
    price : mapping of resource id to float
        Dual prices: improvement of the objective per unit by which the resource's active bound is raised. In
        both senses a price is positive if the upper bound of the resource is active, and negative if the
        lower bound is active.
    objective, bound : float
        Objective of `x`, convex terms included, and a certified bound on every allocation's objective: a
        lower bound in a minimisation, an upper bound in a maximisation.
    gap_denominator : float
        Denominator of the gap: max(|objective - constant_cost|, |bound - constant_cost|), or a substitute if
        this maximum is negligible. :mod:`copter.proof.certificate` has the formula with convex terms.
    gap_denominator_kind : GapDenominator
        Kind of the denominator, in words.
    constant_cost : float
        Cost that the sum rows force on every allocation.
    rounding : float
        Rounding error of the terms of objective and bound. A gap of at most this value is reported as 0.
    relative, absolute : Residuals
        Primal residual and gap, recomputed from the program
        (:mod:`copter.proof.certificate` has the norms).
    iterations : int
        Number of the solver's iterations.
    timings : Timings
        Seconds of the parts of the solve.
    start : Start
        Start of the solve; ``warm_started``, ``warm_reason`` and ``cold_start`` are its parts.
    churn : float
        Fraction of the entries that changed by more than 1e-3 since the last round, among the entries that
        are nonzero in this or in the last allocation.
    ray : FarkasRay, optional
        Proof that the program is infeasible, if the status is infeasible.
    y : ndarray, shape (row slots,)
        Dual prices by row slot.
    clock : int
        Revision of the store when the program was solved. After a later edit, slots in the solution may be
        out of date.
    token : str
        Id of the program in its store.
    details : mapping
        Further figures of the solver, by name. For an incremental round, copter's proximal solver gives
        ``open_requests``, the number of requests that are still active. For any other round it gives
        ``full_pass``, the reason why the round was not incremental
        (:class:`copter.solvers.proximal.full_pass.FullPass`), and ``engine``, the engine that solved the
        round (:class:`copter.solvers.proximal.run.Engine`). ``highs_fallbacks`` is the number of times that
        HiGHS finished a working set. A baseline gives its own figures, and a program on Ray the actors that
        were slow or died (:mod:`copter.ray.workers`).
    pricing : Pricing, optional
        Last pricing pass of the solver, at these dual prices; shims use it.
    found : bool
        True if there is an allocation; `relative` and `absolute` are its residuals. False if the status is
        infeasible.
    integer : IntegerProof, optional
        Proof of a solver for integral allocations. Bound, gap and prices above are those of the relaxation.
    sense : "min" or "max"
        Sense of the program.
    program : ProgramReference
        Weak reference to the program that was solved.

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram(sense="max")
    >>> program.add_resource("gpu", upper=3)
    >>> program.add_request("a", costs=[1.0, 1.8], usage={"gpu": [1, 2]}, total=1)
    >>> program.add_request("b", costs=[1.0, 1.5], usage={"gpu": [1, 2]}, total=1)
    >>> solution = ProximalPoint().solve(program)
    >>> str(solution.status), round(solution.objective, 6), solution.is_optimal(1e-6)
    ('optimal', 2.8, True)
    >>> solution.x.choices()
    {'a': 1, 'b': 0}
    >>> 0.5 <= solution.price["gpu"] <= 0.8
    True
    """

    status: Status
    reason: str
    x: Allocation
    price: Mapping[Hashable, float]
    objective: float
    bound: float
    gap_denominator: float
    gap_denominator_kind: GapDenominator
    constant_cost: float
    rounding: float
    relative: Residuals
    absolute: Residuals
    iterations: int
    timings: Timings
    start: Start
    churn: float
    y: NDArray[np.float64]
    clock: int
    token: str
    ray: FarkasRay | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    pricing: Pricing | None = None
    found: bool = True
    integer: IntegerProof | None = None
    sense: Sense = "min"
    program: ProgramReference = field(default_factory=lambda: ProgramReference(None))

    def __repr__(self) -> str:
        seconds = self.timings.edit + self.timings.solve
        began = "warm" if self.warm_started else f"cold ({self.warm_reason})"
        figures = f"objective {self.objective:.10g}, gap {self.gap:.1e}" if self.found else "no allocation"
        return f"<Solution {self.status}: {figures}, {seconds:.3g} s, {began}>"

    def _repr_html_(self) -> str:
        """Return a table of the figures for a notebook."""
        shown = {
            "status": f"{self.status}: {self.reason}",
            "objective": f"{self.objective:.10g}",
            "bound": f"{self.bound:.10g}",
            "gap": f"{self.gap:.1e}",
            "primal residual": f"{self.primal_residual:.1e}",
            "seconds": f"{self.timings.edit + self.timings.solve:.3g}",
            "start": self.warm_reason,
        }
        return html_table(shown)

    @property
    def activity(self) -> dict[Hashable, float]:
        """Use of each resource by `x`, by id.

        Reading it raises CopterError if the program was edited after the solve or deleted, or the solution
        was pickled, and NoAllocationError without an allocation.
        """
        program = self._unedited()
        used = row_activity(program.store, self.nonzeros)[program.resource_slots]
        return dict(zip(program.resource_ids, used.tolist(), strict=True))

    @property
    def slack(self) -> dict[Hashable, float]:
        """Distance of each resource's use from its nearer bound, negative if the bound is violated.

        Reading it raises the errors of `activity`.
        """
        bounds = self._unedited().resources[:]
        pairs = zip(bounds.ids, bounds.lower.tolist(), bounds.upper.tolist(), strict=True)
        used = self.activity
        return {id: min(upper - used[id], used[id] - lower) for id, lower, upper in pairs}

    @property
    def reduced_costs(self) -> dict[Hashable, NDArray[np.float64]]:
        """Reduced costs of the columns of each request (n_columns,), by id.

        A reduced cost is the cost of a column plus the prices of its use and of the sum row. It omits the
        slope of a convex term. It is in the sense of the program: in a minimisation, a column with a negative
        reduced cost is at its upper bound in an optimal allocation. Reading raises the errors of `activity`.
        """
        program = self._unedited()
        store, slots = program.store, program.request_slots
        used, sizes = usage_columns(store, slots), store.requests.n_columns[slots]
        column = np.repeat(np.arange(used.counts.size), used.counts)
        paid = np.bincount(column, used.value * self.y[used.row], used.counts.size)
        marginal = (self.pricing or price(store, self.y)).marginal[slots]
        of_sums = np.where(np.isfinite(store.requests.total[slots]), marginal, 0.0)
        reduced = effective_costs(store, slots) + paid - np.repeat(of_sums, sizes)
        reduced = -reduced if self.sense == "max" else reduced
        return dict(zip(program.request_ids, np.split(reduced, np.cumsum(sizes))[:-1], strict=True))

    def to_frame(self) -> Any:
        """Return the nonzeros of `x` as a pandas DataFrame (:meth:`Allocation.to_frame`)."""
        return self.x.to_frame()

    def _unedited(self) -> ContinualProgram:
        """Return the program; raise an error if it was edited after the solve, or there is no allocation."""
        program = self.program()
        if program is None:
            raise CopterError("the program of this solution was deleted, or the solution was pickled")
        check_current(program, self)
        check_found(self)
        return program

    @property
    def nonzeros(self) -> SparseX:
        """Nonzeros of `x` by request slot; empty without an allocation."""
        return self.x.arrays() if self.found else NOTHING

    @property
    def warm_started(self) -> bool:
        """True if the solve began from the last round, or from given starts."""
        return self.start.warm

    @property
    def warm_reason(self) -> str:
        """Description of the warm start, or the reason why the solve began cold."""
        return self.start.reason

    @property
    def cold_start(self) -> ColdStart | None:
        """Reason of a cold start, as an enum; None for a warm start."""
        return self.start.cold

    @property
    def certificate(self) -> Certificate:
        """Certificate of the solution, with objective and bound as costs to be minimised."""
        bound = in_sense(self.bound, self.sense)
        return Certificate(
            objective=in_sense(self.objective, self.sense),
            bound=bound,
            gap_denominator=self.gap_denominator,
            gap_denominator_kind=self.gap_denominator_kind,
            constant_cost=in_sense(self.constant_cost, self.sense),
            relative=self.relative,
            absolute=self.absolute,
            rounding=self.rounding,
        )

    @property
    def gap(self) -> float:
        """Certified relative gap, |objective - bound| / gap_denominator; 0 within the rounding error."""
        return self.relative.gap

    @property
    def primal_residual(self) -> float:
        """Relative primal residual."""
        return self.relative.primal

    def is_optimal(self, tolerance: float) -> bool:
        """Return whether the gap and the primal residual are within a relative tolerance."""
        return self.found and self.gap <= tolerance and self.primal_residual <= tolerance  # False for NaN

    def explain(self, request: Hashable) -> Explanation:
        """Explain which columns a request has and why it has no others; ``print`` shows the sentences.

        Parameters
        ----------
        request : Hashable
            Id of a request.

        Returns
        -------
        Explanation
            Explanation that follows from the certificate, computed in rational numbers
            (:mod:`copter.explanation`).

        Raises
        ------
        UnknownIdError
            If the program has no such request.
        NoAllocationError
            If the solution has no allocation.
        CopterError
            If the program was edited after the solve or deleted, or the solution was pickled.

        Examples
        --------
        >>> from copter import ContinualProgram, ProximalPoint
        >>> program = ContinualProgram(sense="max")
        >>> program.add_resource("gpu", upper=2)
        >>> program.add_request("a", costs=[5.0], usage={"gpu": 2}, total=1)
        >>> program.add_request("b", costs=[4.0], usage={"gpu": 2}, total=1)
        >>> why = ProximalPoint(tolerance=1e-9).solve(program).explain("b")
        >>> why.columns[0].loss > 0.99, why.columns[0].lacking
        (True, {'gpu': 2.0})
        """
        from copter.explanation import explain

        return explain(self._unedited(), self.nonzeros, self.y, request)


def html_table(shown: Mapping[str, Any]) -> str:
    """Return names and values as a table of two columns, for a notebook."""
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(f'{value}')}</td></tr>" for name, value in shown.items())
    return f"<table>{''.join(rows)}</table>"


def check_optimal(solution: Solution) -> None:
    """Raise an error if the status of a solution is not optimal.

    Raises
    ------
    NotOptimalError
        If the status is not optimal. The error has the solution, which may have a usable allocation.
    """
    if solution.status is not Status.OPTIMAL:
        raise NotOptimalError(solution)


def check_found(solution: Solution) -> None:
    """Raise NoAllocationError, with status and reason, if a solution has no allocation."""
    if not solution.found:
        raise NoAllocationError(str(solution.status), solution.reason)


def check_roundable(program: ContinualProgram, solution: Solution) -> None:
    """Raise an error if a solution cannot be rounded; every shim calls this function first.

    Raises
    ------
    ArgumentTypeError
        If `solution` is not a Solution.
    NoAllocationError
        If the solution has no allocation.
    CopterError
        If the solution is of another program, or the program was edited after the solve.
    """
    if not isinstance(solution, Solution):
        raise ArgumentTypeError("round", "solution", solution, "must be a Solution that a solver returned")
    check_found(solution)
    check_current(program, solution)


def check_current(program: ContinualProgram, solution: Solution) -> None:
    """Raise CopterError if a solution is of another program, or the program was edited after the solve."""
    if solution.token != program.store.token:
        raise CopterError("the solution is of another program; give the program that was solved")
    if solution.clock != program.store.clock:
        raise CopterError("the program was edited after this solution; solve it again")


class Kept(NamedTuple):
    """Values that a solver keeps between rounds, and their churn in this round."""

    values: Values
    churn: float


def make_solution(  # noqa: PLR0913 - one argument for each figure that a solver may know
    program: ContinualProgram,
    x: SparseX | Kept | None,
    y: NDArray[np.float64],
    *,
    status: Status,
    reason: str,
    iterations: int,
    timings: Timings,
    warm: Start,
    last: SparseX | None = None,
    ray: FarkasRay | None = None,
    certificate: Certificate | None = None,
    details: Mapping[str, Any] | None = None,
    pricing: Pricing | None = None,
    threads: int | None = None,
    integer: IntegerProof | None = None,
) -> Solution:
    """Make the solution of ``program`` from an allocation and dual prices; recompute all other figures.

    Solvers call this function. Certificate, ray and integer proof are given for costs to be minimised. The
    solution states their figures in the sense of the program.

    Parameters
    ----------
    program : ContinualProgram
    x : SparseX, Kept or None
        Nonzeros of the allocation, or the values that a solver keeps between rounds. None if there is no
        allocation.
    y : ndarray, shape (row slots,)
        Dual prices by row slot.
    status, reason, iterations, timings, ray, details, pricing, integer
        As in :class:`Solution`.
    warm : Start
        Start of the solve.
    last : SparseX, optional
        Allocation of the last round, for the churn. Without it the churn is 1, or 0 if `x` has no nonzeros.
    certificate : Certificate, optional
        Certificate of exactly this `x` and `y`, if the solver has it already. If `x` is None, only its bound
        is used.
    threads : int, optional
        Number of threads that compute the certificate. The default is one for each processor.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> from copter import ContinualProgram
    >>> from copter.solution import Start, Status, Timings, make_solution
    >>> from copter.store.allocation import SparseX
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=1)
    >>> program.add_request("job", costs=[-2.0, -3.0], usage={"gpu": [1, 1]}, total=1)
    >>> x = SparseX(np.array([0]), np.array([1]), np.array([1.0]))
    >>> solution = make_solution(
    ...     program, x, np.array([3.0]), status=Status.OPTIMAL, reason="by hand", iterations=0,
    ...     timings=Timings(), warm=Start(False, "no earlier round"),
    ... )
    >>> solution.objective, solution.is_optimal(1e-9)
    (-3.0, True)
    """
    allocation: Allocation
    if isinstance(x, Kept):
        assert certificate is not None  # a solver that keeps values has the certificate
        allocation = Allocation(program.slot_of, x.values, program.column_names)
        proof, changed = certificate, x.churn
    elif x is None:
        proof = without_allocation(certificate or certify(program.store, NOTHING, y, threads=threads))
        allocation, changed = _NoAllocation(str(status), reason), math.nan
    else:
        proof = certificate or certify(program.store, x, y, threads=threads)
        allocation, changed = Allocation.of(program, x), churn(last, x)
    y = right_signs(program.store, y).copy()  # a copy, because the solver continues to use its array
    sense = program.sense
    return Solution(
        status=status,
        reason=reason,
        x=allocation,
        price=_Prices(zip(program.resource_ids, y[program.resource_slots].tolist(), strict=True)),
        objective=in_sense(proof.objective, sense),
        bound=in_sense(proof.bound, sense),
        gap_denominator=proof.gap_denominator,
        gap_denominator_kind=proof.gap_denominator_kind,
        constant_cost=in_sense(proof.constant_cost, sense),
        rounding=proof.rounding,
        relative=proof.relative,
        absolute=proof.absolute,
        iterations=iterations,
        timings=timings,
        start=warm,
        churn=changed,
        y=y,
        clock=program.store.clock,
        token=program.store.token,
        ray=ray,
        details=details or {},
        pricing=pricing,
        found=x is not None,
        integer=None if integer is None else replace(integer, bound=in_sense(integer.bound, sense)),
        sense=sense,
        program=ProgramReference(program),
    )


UNKNOWN = Certificate(
    objective=math.nan,
    bound=-math.inf,
    gap_denominator=math.nan,
    gap_denominator_kind=GapDenominator.OBJECTIVE,
    constant_cost=math.nan,
    relative=Residuals(math.nan, math.inf),
    absolute=Residuals(math.nan, math.inf),
    rounding=0.0,
)
"""Certificate without an allocation and without prices."""


def without_allocation(proof: Certificate) -> Certificate:
    """Return a certificate of the dual prices only."""
    return replace(UNKNOWN, bound=proof.bound)


def churn(last: SparseX | None, now: SparseX) -> float:
    """Return the fraction of entries, nonzero in either allocation, that differ by more than 1e-3.

    Entries in `last` of requests that were removed have slot ``-1 - slot``. All other slots ascend.
    """
    if last is None:
        return 1.0 if now.slot.size else 0.0
    changed, entries = changes(*last, *now, CHURN_THRESHOLD)
    return changed / entries if entries else 0.0
