"""Shim for counts: whole amounts of columns, minimum amounts and covering rows, with a certified gap.

For programs with coefficients of any sign, such as instances of a fleet or crews of a shift:

1. The amounts of integral requests are rounded down. An amount below the column's minimum becomes 0.
2. Rows and sum rows that are then violated are repaired by moves of single columns
   (:mod:`copter.shims.counts_repair`), first at upper bounds, then at lower bounds.
3. Columns with a positive cost are reduced, and columns with a negative cost are raised, as far as rows
   permit.
4. Steps 2 and 3 are also taken from amounts of 0, without prices. The better of the two results is returned.

The loss of the rounding is bounded by the gap to the solution's certified bound.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.arrays import Floats
from copter.errors import EditError, SettingError
from copter.keywords import Checked, suggests
from copter.program.sense import in_sense
from copter.proof.pricing import price
from copter.proof.whole import answer_gap, larger_bound
from copter.shims.counts_repair import Entries, Problem, repair
from copter.solution import check_roundable
from copter.store.allocation import NOTHING, SparseX
from copter.store.compiled import CompiledProgram, compile_program
from copter.store.reading import unchanged

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution

_FEASIBLE = 1e-9
"""Largest excess of a row that counts as a rounding error, relative to its larger bound or 1."""
_WHOLE = 1e-6
"""Distance below a whole number at which an amount counts as that number."""


@dataclass(frozen=True)
class Counts:
    """Allocation with whole amounts of the columns of integral requests.

    Attributes
    ----------
    nonzeros : SparseX
        Amounts by request slot.
    objective : float
        Cost, or value if the program is maximised. Infinite (minus infinity in a maximisation) if something
        is short, because the result is then not an allocation of the program.
    bound : float
        Bound on the objective of every allocation with whole amounts, from the solution or from branch and
        bound. NaN for a repair.
    gap : float
        Gap between the objective and the bound, in the definition of the solution; infinite for a repair.
    short : mapping of resource id, or of the pair ("total", request id), to float
        Amounts by which resources and totals miss a bound: a lower bound, a total with "==", or an upper
        bound below 0.
    seconds : float
        Time of the rounding.
    clock : int
        Revision of the store at the rounding.
    """

    nonzeros: SparseX = field(repr=False)
    objective: float
    bound: float
    gap: float
    short: Mapping[Hashable, float]
    seconds: float
    clock: int


class CountShim(Checked):
    """Rounding of a solution to whole amounts that satisfy rows of either kind, and minimum amounts.

    Columns of requests with ``integral=True`` get whole amounts, and all other columns any amounts.

    Parameters
    ----------
    minimum : mapping of request id to float, (n,) array or mapping of column to float, optional
        Least amount of each column of a request: the column has 0 or at least this amount. The shim reads the
        mapping in each round, so the caller can change it. Ids of requests and columns that are not in the
        program have no effect.

    Examples
    --------
    >>> from copter import ContinualProgram, CountShim, make_solver
    >>> program = ContinualProgram()
    >>> program.add_resource("calls", lower=70.0, upper=float("inf"))
    >>> program.add_request("agents", [90.0, 100.0], {"calls": [12, 15]}, upper=4, integral=True)
    >>> solution = make_solver("copter").solve(program)
    >>> counts = CountShim().round(program, solution)
    >>> counts.objective, dict(counts.short)
    (490.0, {})
    """

    def __init__(self, minimum: Mapping[Hashable, Any] | None = None) -> None:
        if minimum is not None and not isinstance(minimum, Mapping):
            why = "must be a mapping of request id to amounts"
            raise SettingError("CountShim", "minimum", minimum, why)
        self.minimum = {} if minimum is None else minimum

    @suggests
    def round(self, program: ContinualProgram, solution: Solution) -> Counts:
        """Return whole amounts near a solution: its own if they are optimal, integral and keep the minimums.

        Parameters
        ----------
        program : ContinualProgram
            The program, not edited since the solve.
        solution : Solution
            Its solution.

        Raises
        ------
        EditError
            If a minimum is invalid; the error names the request.
        CopterError
            If the solution has no allocation (:class:`copter.errors.NoAllocationError`), if the program was
            edited since the solve, if the solution belongs to another program, or if a request has a convex
            term.
        """
        begin = perf_counter()
        check_roundable(program, solution)
        table, y = program.store.requests, solution.y
        pricing = solution.pricing or price(program.store, y)
        summed = table.total[program.request_slots] < np.inf
        sums = -pricing.marginal[program.request_slots][summed]
        prices = np.concatenate((y[program.resource_slots], sums))
        starts = ((solution.nonzeros, prices), (NOTHING, None))
        counts = _repaired(program, self.minimum, starts, begin)
        proof = solution.integer
        return bounded(counts, solution, -math.inf if proof is None else in_sense(proof.bound, program.sense))

    @suggests
    def repair(self, program: ContinualProgram, last: Counts | None) -> Counts:
        """Return the last amounts, changed where rows no longer hold; the fallback of a round.

        Upper bounds hold if they are not negative. ``short`` has the amounts that rows lack; these are not
        always the least possible ones.

        Parameters
        ----------
        program : ContinualProgram
            The program in its present state.
        last : Counts, optional
            Result for this program at an earlier time; None to begin with nothing.

        Raises
        ------
        EditError
            If a minimum is invalid; the error names the request.
        CopterError
            If a request has a convex term.
        """
        x = NOTHING if last is None else unchanged(program.store, last.nonzeros, last.clock)
        return _repaired(program, self.minimum, ((x, None),), perf_counter())


def _repaired(
    program: ContinualProgram,
    minimum: Mapping[Hashable, Any],
    starts: Iterable[tuple[SparseX, Floats | None]],
    begin: float,
) -> Counts:
    """Return the best repaired amounts near some allocations, each with prices of resources and sum rows."""
    whole = compile_program(program)
    least, most = limits(program, minimum, whole)
    integral, bounds = whole.integrality.astype(np.bool_), (whole.row_lower, whole.row_upper)
    place = np.zeros(program.store.requests.size, np.int64)
    place[program.request_slots] = whole.column_start[:-1]
    columns, rows = (
        Entries(each.indptr.astype(np.int64), each.indices.astype(np.int64), each.data)
        for each in (whole.A, whole.A.tocsr())
    )
    found = []
    for x, y in starts:
        given = np.zeros(whole.c.size)
        given[place[x.slot] + x.column] = x.value
        given = np.where(integral, np.floor(given + _WHOLE), given)
        given = _snapped(given, least, most)
        prices = np.zeros(whole.row_lower.size) if y is None else y
        problem = Problem(columns, rows, *bounds, prices, whole.c, most, least, integral)
        repair(problem, given, whole.A @ given)
        found.append(counts_of(program, whole, _snapped(given, least, most), perf_counter() - begin))
    return min(found, key=lambda one: (sum(one.short.values()), in_sense(one.objective, program.sense)))


def _snapped(x: Floats, least: Floats, most: Floats) -> Floats:
    """Return amounts within their limits: 0, or from `least` to `most`, up to rounding errors."""
    x = np.where(abs(x - least) <= _FEASIBLE * np.maximum(1.0, least), least, np.minimum(x, most))
    return np.where((x < least) | (x <= _FEASIBLE), 0.0, x)


def bounded(counts: Counts, solution: Solution, bound: float) -> Counts:
    """Return counts with the larger one of two bounds on the cost: the solution's, and `bound`."""
    cost = in_sense(counts.objective, solution.sense)
    largest = min(max(bound, solution.certificate.bound), cost)
    gap = answer_gap(solution, cost, bound)
    return replace(counts, bound=in_sense(largest, solution.sense), gap=gap)


def counts_of(program: ContinualProgram, whole: CompiledProgram, x: Floats, seconds: float) -> Counts:
    """Return amounts (n,) of a compiled program as Counts, with what they lack."""
    used, owners = whole.A @ x, [*whole.resource_ids]
    owners += [("total", whole.request_ids[k]) for k in np.flatnonzero(whole.sum_row >= 0).tolist()]
    lacks = np.maximum(whole.row_lower - used, used - whole.row_upper)
    size = np.maximum(1.0, larger_bound(whole.row_lower, whole.row_upper))
    short = {owners[i]: float(lacks[i]) for i in np.flatnonzero(lacks > _FEASIBLE * size).tolist()}
    at = np.flatnonzero(x)
    request = np.searchsorted(whole.column_start, at, "right") - 1
    slot, column = program.request_slots[request], at - whole.column_start[request]
    order = np.lexsort((column, slot))
    nonzeros = SparseX(slot[order], column[order], x[at][order])
    objective = in_sense(math.inf if short else math.fsum((whole.c * x).tolist()), program.sense)
    return Counts(nonzeros, objective, math.nan, math.inf, short, seconds, program.store.clock)


def limits(
    program: ContinualProgram, minimum: Mapping[Hashable, Any], whole: CompiledProgram
) -> tuple[Floats, Floats]:
    """Return the least amounts of columns that do not have 0, and the largest amounts, (n,) each.

    A column whose bound is below its least amount has the limits 0. Raise EditError for an invalid minimum.
    """
    least = np.zeros(whole.c.size)
    numbers = {id: k for k, id in enumerate(whole.request_ids)} if minimum else {}
    for id in minimum:
        if id not in numbers:
            continue
        own = slice(*whole.column_start[numbers[id] : numbers[id] + 2].tolist())
        given = minimum[id]
        if isinstance(given, Mapping):  # columns may have been removed
            given = [given.get(column, 0.0) for column in program.requests[id].columns]
        try:
            amounts = np.asarray(given, np.float64)
            if amounts.ndim and amounts.shape != least[own].shape:
                raise ValueError
            least[own] = amounts
        except (TypeError, ValueError):
            width = whole.column_start[numbers[id] + 1] - own.start
            why = f"must be a number, {width} numbers, or numbers by column"
            raise EditError(id, "minimum", minimum[id], why) from None
        if not (least[own] >= 0.0).all() or np.isinf(least[own]).any():
            raise EditError(id, "minimum", minimum[id], "must be finite and not negative")
    least = np.where(whole.integrality, np.ceil(least - _WHOLE), least)
    most = np.where(whole.integrality, np.floor(whole.upper + _WHOLE), whole.upper)
    never = least > most
    return np.where(never, 0.0, least), np.where(never, 0.0, most)
