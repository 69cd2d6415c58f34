"""Solution: what a solver answers, in the program's own ids, with its certificate."""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from copter.errors import ArgumentTypeError, CopterError, NoAllocationError, NotOptimalError, UnknownIdError
from copter.program.sense import Sense, in_sense
from copter.proof.certificate import Certificate, GapDenominator, Residuals, certify, right_signs
from copter.proof.pricing import Pricing
from copter.store.allocation import NOTHING, SparseX, changes

if TYPE_CHECKING:
    from copter.program.names import FrozenNames
    from copter.program.program import ContinualProgram
    from copter.proof.integer import IntegerProof

CHURN_THRESHOLD = 1e-3
"""A column counts as changed if its value moved by more than this."""


class Status(enum.StrEnum):
    """Why a solver stopped.

    "optimal", "infeasible" and "unbounded" are proved, on the program itself. "unproved": the solver ended
    without a proof of any of them; the answer has what it found, with its residuals and its bound.
    "numerical_error": it failed without a usable answer.
    """

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    DEADLINE = "deadline"
    ITERATION_LIMIT = "iteration_limit"
    UNPROVED = "unproved"
    NUMERICAL_ERROR = "numerical_error"
    CANCELLED = "cancelled"


class Start(NamedTuple):
    """Start of a solve: the warm start that was used, or why there was none, in words and as an enum."""

    warm: bool
    reason: str
    cold: ColdStart | None = None


class ColdStart(enum.StrEnum):
    """Why a solve did not begin from the last round; the value is a label, ``sentence`` is for people."""

    sentence: str

    FIRST_ROUND = "first_round", "no earlier round"
    OTHER_PROGRAM = "other_program", "the last round was another program"
    NOTHING_LEFT = "nothing_left", "nothing of the last round is left"
    SWITCHED_OFF = "switched_off", "warm start switched off"
    ALWAYS_COLD = "always_cold", "this solver starts cold every round"
    BASIS_FAILED = "basis_failed", "the last basis failed and was cleared"
    NOT_BUILT = "not_built", "the program was not built in time"

    def __new__(cls, value: str, sentence: str) -> ColdStart:
        """Member of a label and its sentence."""
        member = str.__new__(cls, value)
        member._value_, member.sentence = value, sentence
        return member

    def start(self, more: str = "") -> Start:
        """The start of a solve that began cold for this reason, with more to say of it if there is."""
        return Start(False, self.sentence + more, self)


@dataclass(frozen=True)
class Timings:
    """Seconds of the parts of a round, 0 for parts that were measured elsewhere.

    Attributes
    ----------
    edit : float
        Update of the solver's own model. A solver that runs on the program itself has none: its edits were
        made by the program's methods, before the solve.
    shim : float
        Rounding, which comes after the solver: a shim has its seconds in what it returns.
    """

    edit: float = 0.0
    solve: float = 0.0
    shim: float = 0.0


@dataclass(frozen=True, eq=False)
class Ray:
    """Proof that a program is infeasible or unbounded; :mod:`copter.proof.rays` has the inequality.

    Attributes
    ----------
    kind : "infeasible" or "unbounded"
    y : mapping of resource id to float
        Farkas ray (infeasible); empty otherwise.
    x : mapping of request id to (n,) ndarray, or to a mapping by name
        Primal ray (unbounded); empty otherwise.
    value : float
        Infeasible: what the rows lack by the ray, > 0. Unbounded: objective along the ray, < 0 in a
        minimisation and > 0 in a maximisation.
    residual : float
        Largest violation of the ray's conditions, relative to its own size.
    """

    kind: Literal["infeasible", "unbounded"]
    y: Mapping[Hashable, float]
    x: Mapping[Hashable, Any]
    value: float
    residual: float


class Values(Protocol):
    """Values of the columns of requests, by slot."""

    @property
    def count(self) -> int:
        """Number of nonzeros."""

    def sparse(self) -> SparseX:
        """All nonzeros."""

    def of(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Columns and values of the nonzeros of one request, and how many columns it has."""

    def moved_since(self, earlier: Values) -> NDArray[np.int64] | None:
        """Slots of requests whose values may be others than in earlier ones; None if that is not known."""


@dataclass(frozen=True, eq=False)
class GivenValues:
    """Values that are given as nonzeros, with the numbers of columns of all requests, by slot."""

    sizes: NDArray[np.int64]
    x: SparseX

    @property
    def count(self) -> int:
        """See :class:`Values`."""
        return self.x.value.size

    def sparse(self) -> SparseX:
        """See :class:`Values`."""
        return self.x

    def of(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """See :class:`Values`."""
        mine = self.x.between(slot, slot + 1)
        return mine.column, mine.value, int(self.sizes[slot])

    def moved_since(self, earlier: Values) -> None:
        """See :class:`Values`."""
        return None


class NamedValues(dict[Hashable, float]):
    """Values of the columns of a request by their names."""

    def __missing__(self, column: Hashable) -> float:
        raise UnknownIdError(column, "was no column of this request when this answer was given")


class Allocation(Mapping[Hashable, Any]):
    """Values of the columns by request id; they are built when asked for.

    The values of a request are an (n,) ndarray, or, if its columns have names, a mapping of name to float.

    Parameters
    ----------
    slots : mapping of request id to slot, as it was when the solution was returned
    values : Values
        Nonzeros and number of columns of each slot.
    names : FrozenNames
        Names of the columns by slot.
    """

    def __init__(self, slots: Mapping[Hashable, int], values: Values, names: FrozenNames) -> None:
        self._slots, self._values, self._names = slots, values, names

    @classmethod
    def of(cls, program: ContinualProgram, x: SparseX) -> Allocation:
        """Allocation of the requests that a program has now."""
        table = program.store.requests
        values = GivenValues(table.n_columns[: table.size].copy(), x)
        return cls(program.slot_of, values, program.column_names)

    @property
    def sparse(self) -> SparseX:
        """The nonzeros, by request slot; arrays of the caller's own."""
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
            raise UnknownIdError(request, "was no request when this answer was given")
        columns, values, size = self._values.of(self._slots[request])
        dense = np.zeros(size)
        dense[columns] = values
        names = self._names.of(self._slots[request])
        return dense if names is None else NamedValues(zip(names, dense.tolist(), strict=True))

    def nonzeros(self, request: Hashable) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return columns, as numbers, and values of a request's nonzeros, (k,) each, in new arrays."""
        if request not in self._slots:
            raise UnknownIdError(request, "was no request when this answer was given")
        columns, values, _ = self._values.of(self._slots[request])
        return columns.copy(), values.copy()

    def moved_since(self, earlier: Allocation) -> NDArray[np.int64] | None:
        """Return the slots, ascending, of requests whose values may differ from the answer of an earlier
        round.

        None if that is not known; then any may differ.
        """
        return self._values.moved_since(earlier._values)

    def of_slots(self, slots: NDArray[np.int64]) -> SparseX:
        """Return the nonzeros of requests of ascending slots."""
        found = [self._values.of(slot)[:2] for slot in slots.tolist()]
        counts = [column.size for column, _ in found]
        nothing: tuple[NDArray[np.int64], NDArray[np.float64]] = NOTHING.column, NOTHING.value
        column, value = (np.concatenate(parts) for parts in zip(nothing, *found, strict=True))
        return SparseX(slots.repeat(counts), column, value)

    def choices(self) -> dict[Hashable, Any]:
        """Return the column, or its name, that each request has most of: its choice if it is integral.

        None for a request that has nothing.
        """
        x, slots = self.sparse, self._slots.values()
        order, chosen = np.argsort(x.value, kind="stable"), np.full(max(slots, default=-1) + 1, -1)
        chosen[x.slot[order]] = x.column[order]
        columns = chosen[list(slots)].tolist()
        each = zip(self._slots.items(), columns, strict=True)
        return {id: self._names.column(slot, column) for (id, slot), column in each}


class _NoAllocation(Allocation):
    """Placeholder in an answer without an allocation: false, and every use raises NoAllocationError.

    `status`, `reason`: of the answer.
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
    """Price by resource id."""

    def __missing__(self, resource: Hashable) -> float:
        raise UnknownIdError(resource, "was no resource when this answer was given")


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Answer of a solver.

    ``found`` is False for an answer without an allocation: the program has none, or none was found in time.
    Its ``x`` is false and raises NoAllocationError when it is used. It has no nonzeros, an objective, a churn
    and a primal residual of NaN, and an infinite gap. Its prices and their bound, which holds for every
    allocation, may still be useful; an unknown bound is minus infinity, in a maximisation plus infinity.

    Figures of the objective are in the sense of the program. ``certificate`` has them as costs to be
    minimised, as solvers and shims use them.

    Attributes
    ----------
    status, reason : Status, str
        Why the solver stopped, and in words.
    x : Allocation
        Values of the columns by request id, and by name for columns with names; a :class:`_NoAllocation` if
        there are none.
    price : mapping of resource id to float
        Dual prices: improvement of the objective per unit of the resource. Positive where the upper bound of
        the resource is active, negative where the lower bound is, in a minimisation and in a maximisation.
    objective, bound : float
        c'x, and a certified bound on every allocation's objective: a lower bound in a minimisation, an upper
        bound in a maximisation.
    gap_denominator : float
        Denominator of the gap: the larger of |objective - constant_cost| and |bound - constant_cost|, or a
        substitute if that is negligible.
    gap_denominator_kind : GapDenominator
        Kind of the denominator, in words.
    constant_cost : float
        Constant cost that every allocation has.
    rounding : float
        Rounding error of the terms of objective and bound: a gap of at most this is 0.
    relative, absolute : Residuals
        Primal residual, dual residual and gap, recomputed from the program
        (:mod:`copter.proof.certificate` has the norms).
    start : Start
        How the solve began; ``warm_started``, ``warm_reason`` and ``cold_start`` are its parts.
    churn : float
        Share of the nonzeros, now or last round, whose value changed by more than 1e-3.
    ray : Ray, optional
        Proof for the statuses infeasible and unbounded.
    y : ndarray
        Prices by row slot.
    clock : int
        The store's revision when the program was solved: after a later edit the slots above are stale.
    token : str
        The store's id of the program.
    details : mapping
        Further figures of a solver, by name. For copter's own solver: ``open_requests``, the number of active
        requests of a round that read no others, or ``full_pass``, why all columns were read
        (:class:`copter.solvers.proximal.full_pass.FullPass`), and ``hand_overs``, how often HiGHS finished.
        Also figures of a baseline, and actors that were slow or died (:mod:`copter.ray.workers`).
    pricing : Pricing, optional
        The solver's last pricing pass, at these prices, for shims.
    found : bool
        Whether there is an allocation, with the stated residuals; False also for the statuses infeasible and
        unbounded.
    integer : IntegerProof, optional
        Of a solver for integral allocations; bound, gap and prices above are the relaxation's.
    sense : "min" or "max"
        Sense of the program.
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
    ray: Ray | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    pricing: Pricing | None = None
    found: bool = True
    integer: IntegerProof | None = None
    sense: Sense = "min"

    def __repr__(self) -> str:
        seconds = self.timings.edit + self.timings.solve
        began = "warm" if self.warm_started else f"cold ({self.warm_reason})"
        figures = f"objective {self.objective:.10g}, gap {self.gap:.1e}" if self.found else "no allocation"
        return f"<Solution {self.status}: {figures}, {seconds:.3g} s, {began}>"

    @property
    def nonzeros(self) -> SparseX:
        """x by request slot, for shims and solvers; empty without an allocation."""
        return self.x.sparse if self.found else NOTHING

    @property
    def warm_started(self) -> bool:
        """Whether the solve began from the last round, or from starts that were given."""
        return self.start.warm

    @property
    def warm_reason(self) -> str:
        """What the warm start used, or why there was none."""
        return self.start.reason

    @property
    def cold_start(self) -> ColdStart | None:
        """Why there was no warm start, of a closed set; None if there was."""
        return self.start.cold

    @property
    def certificate(self) -> Certificate:
        """The figures of it that are proved, by themselves, as costs to be minimised."""
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
            near_gap=self.relative.gap,
            near_bound=bound,
        )

    @property
    def gap(self) -> float:
        """Certified gap, |objective - bound| / gap_denominator; 0 if at most the rounding error."""
        return self.relative.gap

    @property
    def primal_residual(self) -> float:
        """Relative primal residual."""
        return self.relative.primal

    @property
    def dual_residual(self) -> float:
        """Relative dual residual."""
        return self.relative.dual

    def is_optimal(self, tolerance: float) -> bool:
        """Whether the gap and the primal residual are within a relative tolerance.

        The dual residual is not compared, because it enters through the bound: a negative reduced cost of a
        column without a bound lowers the bound by as much as the rows allow, or makes it minus infinity.
        """
        return self.found and self.gap <= tolerance and self.primal_residual <= tolerance  # NaN is not


def check_optimal(solution: Solution) -> None:
    """Raise an error if an answer is not optimal.

    Raises
    ------
    NotOptimalError
        The status is not optimal, although the answer may have a usable allocation. The error has the answer.
    """
    if solution.status is not Status.OPTIMAL:
        raise NotOptimalError(solution)


def check_found(solution: Solution) -> None:
    """Raise NoAllocationError, with status and reason, if an answer has no allocation."""
    if not solution.found:
        raise NoAllocationError(str(solution.status), solution.reason)


def check_roundable(program: ContinualProgram, solution: Solution) -> None:
    """Raise a CopterError if there is no allocation to round, or not of the program as it is now.

    Every shim calls it first. An object that is no solution is an ArgumentTypeError.
    """
    if not isinstance(solution, Solution):
        raise ArgumentTypeError("round", "solution", solution, "must be a Solution, as a solver returns it")
    check_found(solution)
    if solution.token != program.store.token:
        raise CopterError("this solution is of another program: round it with the one that it was solved for")
    if solution.clock != program.store.clock:
        raise CopterError("the program was edited after this solution: solve it again before rounding")


class Kept(NamedTuple):
    """Values that a solver keeps from round to round, and how much of them changed in this one."""

    values: Values
    churn: float


def make_solution(  # noqa: PLR0913 - what solvers may know of an answer
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
    ray: Ray | None = None,
    certificate: Certificate | None = None,
    details: Mapping[str, Any] | None = None,
    pricing: Pricing | None = None,
    threads: int | None = None,
    integer: IntegerProof | None = None,
) -> Solution:
    """Return the solution of ``program`` from an allocation and prices by slot; all other figures are
    recomputed.

    Certificate, ray and integer proof are those of costs to be minimised; the solution has them in the sense
    of the program.

    Parameters
    ----------
    x : SparseX, Kept or None
        The nonzeros, or the values as a solver keeps them.
    y : (row slots,) ndarray
    status, reason, iterations, timings, warm, ray, details, pricing, integer
        As in :class:`Solution`; ``warm`` is how the solve began.
    last : SparseX, optional
        Last round's allocation, for the churn; without it the churn is 1 (all is new).
    certificate : Certificate, optional
        Of exactly this x and y, if it exists already; without an x only its figures on y count.
    threads : int, optional
        For the certificate.
    """
    allocation: Allocation
    if isinstance(x, Kept):
        assert certificate is not None  # who keeps values knows it
        allocation = Allocation(program.slot_of, x.values, program.column_names)
        proof, changed = certificate, x.churn
    elif x is None:
        proof = without_allocation(certificate or certify(program.store, NOTHING, y, threads=threads))
        allocation, changed = _NoAllocation(str(status), reason), math.nan
    else:
        proof = certificate or certify(program.store, x, y, threads=threads)
        allocation, changed = Allocation.of(program, x), churn(last, x)
    y = right_signs(program.store, y).copy()  # the solver goes on from its own
    sense = program.sense
    if ray is not None and ray.kind == "unbounded":
        ray = replace(ray, value=in_sense(ray.value, sense))
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
    )


UNKNOWN = Certificate(
    objective=math.nan,
    bound=-math.inf,
    gap_denominator=math.nan,
    gap_denominator_kind=GapDenominator.OBJECTIVE,
    constant_cost=math.nan,
    relative=Residuals(math.nan, math.nan, math.inf),
    absolute=Residuals(math.nan, math.nan, math.inf),
    rounding=0.0,
    near_gap=math.inf,
    near_bound=-math.inf,
)
"""Certificate of neither an allocation nor prices."""


def without_allocation(proof: Certificate) -> Certificate:
    """Return a certificate of the prices alone."""
    none = math.nan
    relative, absolute = (Residuals(none, each.dual, math.inf) for each in (proof.relative, proof.absolute))
    return replace(
        UNKNOWN, bound=proof.bound, relative=relative, absolute=absolute, near_bound=proof.near_bound
    )


def churn(last: SparseX | None, now: SparseX) -> float:
    """Return the share of entries, nonzero in either allocation, that differ by more than 1e-3.

    Entries in `last` of requests that are gone have slot ``-1 - slot``; all others ascend.
    """
    if last is None:
        return 1.0 if now.slot.size else 0.0
    changed, entries = changes(*last, *now, CHURN_THRESHOLD)
    return changed / entries if entries else 0.0
