"""Branch and bound on neighbourhoods of the relaxation's prices, until no column outside can help.

The neighbourhood of slack s consists of the columns whose reduced costs exceed the least of their request by
at most s, and of all continuous columns. Every allocation with a column outside costs more than d + s, where
d is the relaxation's bound. So if the best allocation inside costs U <= d + s, it is optimal. Otherwise the
next neighbourhood has the slack U - d, or a smaller one if it would have too many columns. Every
neighbourhood includes the columns of the best allocation so far.

A point of branch and bound is accepted if it satisfies every row exactly (:mod:`copter.proof.whole`). If it
does not, or if the neighbourhood's coefficients differ too much for HiGHS' tolerances, a small neighbourhood
is searched again by :mod:`copter.solvers.exact.certain`; a large one proves nothing.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.errors import CopterError
from copter.parallel import dot
from copter.proof.certificate import Certificate, certify
from copter.proof.fixing import Survivors, survivors
from copter.proof.integer import IntegerProof, gap_between
from copter.proof.whole import broken, cost_of
from copter.shims.choose_one import ChooseOneShim
from copter.solution import Status
from copter.solvers.base import Stopwatch
from copter.solvers.exact.certain import MOST_COLUMNS, solve_exactly
from copter.solvers.exact.checks import WILD, grain_of, wild
from copter.solvers.exact.rest import rest_of, unscaled_rest
from copter.solvers.exact.tree import branch_and_bound
from copter.solvers.milp import MilpAnswer
from copter.store.allocation import SparseX
from copter.store.reading import effective_costs
from copter.store.store import ConstraintStore

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution

log = logging.getLogger("copter")
_FEW, _MORE = 200, 3
"""Columns of the first neighbourhood in addition to one a request, and the growth factor."""
_MUCH, _MUCH_AT_LEAST = 0.25, 2_000
"""Share and number of residual columns above which prices fix little.  Then searches are brief.
After one without a proven optimum, branch and bound gets all these columns, with a better start.
"""
_GLANCE, _GLANCES = 0.3, 20.0
"""Share of the remaining time for all brief searches together, and its largest number of seconds."""
_NEARLY = 1.5
"""A neighbourhood takes all residual columns if they are at most this many times the wanted number."""
_FIRST, _WIDER = 1e-4, 16.0
"""First slack without a known allocation, as a share of the gap's denominator, and its growth factor."""
_CLOSED = 1e-9
"""Relative gaps up to this value are closed entirely, so that the nearest of equal optima is found."""
_EXACTLY = 0.5
"""Share of the wanted gap that exact arithmetic may leave open; rounding errors use the other part."""
_READ = 100_000
"""Largest number of columns for which the costs are checked for a common divisor."""
_COUNTED = 1e10
"""Largest multiple of the common divisor to which a bound is rounded up."""
_TIES = 0.25
"""Share of the wanted gap by which an allocation nearer to the last one may cost more."""


@dataclass(frozen=True)
class _Found:
    """Result of a search; the certificate is that of x at the relaxation's prices."""

    x: SparseX | None
    certificate: Certificate | None
    status: Status
    proof: IntegerProof


class Search:
    """Search for the best integral allocation in one round, from the solution of the relaxation.

    `integer_gap`: wanted relative gap. `most_columns`: limit on the columns of branch and bound. `last`: the
    surviving part of last round's integral allocation. `isolated`: True to run branch and bound in a separate
    process.
    """

    def __init__(
        self,
        program: ContinualProgram,
        relaxed: Solution,
        clock: Clock,
        *,
        integer_gap: float,
        most_columns: int,
        threads: int | None,
        last: SparseX | None,
        isolated: bool = False,
    ) -> None:
        self.program, self.store, self.relaxed, self.clock = program, program.store, relaxed, clock
        self.most_columns, self.threads, self.last = most_columns, threads, last
        self.integer_gap, self.isolated = integer_gap, isolated
        self.floor = relaxed.certificate.bound
        self.bound, self.cost = self.floor, math.inf
        self.x: SparseX | None = None
        self.certificate: Certificate | None = None
        self.gap_denominator = relaxed.gap_denominator
        self.runs = self.nodes = 0
        self.grain: float | None = None
        self._excess = np.empty(0)
        self.pricing = relaxed.pricing if _is_of(self.store, relaxed) else None
        self._watch = Stopwatch()

    @property
    def gap(self) -> float:
        """Relative gap between the best allocation so far and the bound."""
        if self.certificate is None:
            return math.inf
        return gap_between(self.cost, self.bound, self.gap_denominator)

    def run(self) -> _Found:
        """Search until the gap is closed, no further progress is possible, or the clock has run out."""
        status, reason = Status.ITERATION_LIMIT, ""
        try:
            self._offer(self._rounded())
            if self.x is None:
                status, reason = self._first()
            if self.x is not None:
                status, reason = self._improve()
        except Interrupted:
            status = Status.CANCELLED if self.clock.cancelled else Status.DEADLINE
            reason = self.clock.why()
        proven = self.x is not None and self.gap <= self.integer_gap
        if proven:
            status = Status.OPTIMAL
        proof = IntegerProof(
            bound=self.bound,
            gap=self.gap,
            proven=proven,
            reason=reason,
            columns=self.program.n_variables,
            columns_left=int(np.count_nonzero(self._excess <= self.cost - self.floor)),
            runs=self.runs,
            nodes=self.nodes,
            seconds=self._watch(),
        )
        return _Found(self.x, self.certificate, status, proof)

    # ---- allocations -----------------------------------------------------------------------------

    def _rounded(self) -> SparseX | None:
        """Return the allocation of the rounding shim; None if the shim cannot round the program."""
        try:
            choice = ChooseOneShim(unplaced="allow").round(self.program, self.relaxed).choice
        except CopterError:  # the shim does not support this program
            return None
        slot = self.program.request_slots
        column = choice.of(slot)
        order = np.argsort(slot)
        slot, column = slot[order], column[order]
        given = column >= 0
        return SparseX(slot[given], column[given], np.ones(int(given.sum())))

    def _offer(self, x: SparseX | None, allowance: float = 0.0) -> bool:
        """Store a feasible allocation that costs at most `allowance` more; return whether it is feasible."""
        if x is None or broken(self.store, x):
            return False
        y = self.relaxed.y
        proof, cost = certify(self.store, x, y, self.pricing, threads=self.threads), cost_of(self.store, x)[1]
        if cost > self.cost + allowance:
            return True
        self.x, self.cost, self.certificate = x, cost, proof
        self.gap_denominator = proof.gap_denominator  # also if the best allocation costs 0
        return True

    # ---- neighbourhoods --------------------------------------------------------------------------

    def _first(self) -> tuple[Status, str]:
        """Find an allocation in growing neighbourhoods; return the status and the reason."""
        slack = _FIRST * self.relaxed.gap_denominator if self.floor > -math.inf else math.inf
        while self.x is None:
            left = self._left(slack)
            if left.slot.size > self.most_columns:
                return Status.ITERATION_LIMIT, _too_many(left.slot.size)
            answer = self._branch(left, np.ones(left.slot.size, np.bool_), slack)
            if slack == math.inf and self.x is None:
                if answer.status is Status.INFEASIBLE:
                    return Status.INFEASIBLE, "no integral allocation within rows and bounds"
                why = f"branch and bound found none that keeps rows and bounds: {answer.reason}"
                return Status.UNPROVED, why
            slack = _WIDER * slack if slack < self.relaxed.gap_denominator else math.inf
        return Status.ITERATION_LIMIT, ""

    def _improve(self) -> tuple[Status, str]:
        """Search neighbourhoods until the gap is closed; return the status and the reason for the end."""
        few, late = _FEW, False
        glance = Clock(min(_GLANCE * self.clock.left(), _GLANCES), parent=self.clock)
        if self.gap > self.integer_gap:
            self._raise(self.floor)
        while self.gap > self.integer_gap:
            left = self._left(self.cost - self.floor)
            much = left.slot.size > max(_MUCH * self.program.n_variables, _MUCH_AT_LEAST)
            brief, whole = much and not late, much and late
            slack = left.budget if whole else self._slack(left, few)
            # a continuous column may be used in part, at a small loss, whatever its excess
            mask = (left.excess <= slack) | ~self.store.requests.integral[left.slot]
            count = int(np.count_nonzero(mask))
            if count > self.most_columns:
                return Status.ITERATION_LIMIT, _too_many(count)
            before = self.cost, self.bound
            answer = self._branch(left, mask, slack, glance if brief else self.clock, whole=whole)
            late = late or answer.status is not Status.OPTIMAL
            if not (brief and late) and slack >= left.budget and (self.cost, self.bound) == before:
                self._certainly(left, mask, slack, answer)
                if self.gap <= self.integer_gap:
                    break
                return Status.UNPROVED, "branch and bound got no further"
            few *= _MORE
        if self.runs:
            return Status.OPTIMAL, "proven: the prices fix all other columns"
        self._break_ties()
        return Status.OPTIMAL, "proven: the bound of the relaxation is met"

    def _break_ties(self) -> None:
        """Replace columns by those of the last allocation where that costs no more."""
        if self.last is None or self.x is None:
            return
        left = self._left(max(0.0, self.cost - self.floor))
        if left.slot.size > self.most_columns:
            return
        if (_among(left, self.last) & ~_among(left, self.x)).any():
            self._branch(left, np.ones(left.slot.size, np.bool_), left.budget)

    def _slack(self, left: Survivors, few: int) -> float:
        """Return the slack of a neighbourhood with `few` columns more than requests, or with all columns."""
        free = left.slot.size - np.unique(left.slot).size
        if free <= _NEARLY * few:
            return left.budget
        at = few - free - 1
        return float(np.partition(left.excess, at)[at])

    def _left(self, budget: float) -> Survivors:
        """Return the columns that an allocation within a budget can use."""
        budget = math.inf if self.floor == -math.inf else budget
        left = survivors(self.store, self.relaxed.y, self.pricing, budget, threads=self.threads)
        self._excess, self.pricing = left.excess, left.pricing
        return left

    def _branch(
        self,
        left: Survivors,
        mask: NDArray[np.bool_],
        slack: float,
        clock: Clock | None = None,
        *,
        whole: bool = False,
    ) -> MilpAnswer:
        """Run branch and bound on the columns in `mask` and those of the best allocation."""
        near, most = self._nearness(left)
        if self.x is not None:
            mask = mask | _among(left, self.x)
        rest = rest_of(self.store, self.relaxed.y, left, mask, near)
        start = None if self.x is None else rest.point(self.x)
        # ties are closed to _CLOSED: only a wanted gap above that is left open
        wanted = max(0.0, (1.0 - _TIES) * self.integer_gap - _CLOSED) * self.gap_denominator
        gap = wanted / rest.unit
        clock = self.clock if clock is None else clock
        try:
            answer = branch_and_bound(rest, clock, start, gap, whole=whole, isolated=self.isolated)
        except Interrupted:
            if self.clock.over() or self.clock.cancelled:
                raise
            answer = MilpAnswer(None, Status.DEADLINE, "", -math.inf, math.inf, 0)
        self.runs, self.nodes = self.runs + 1, self.nodes + answer.nodes
        kept = answer.x is None or self._offer(rest.allocation(answer.x), most)
        inside = self.floor + rest.unit * answer.bound - most - left.margin
        if not kept or wild(rest.lp, WILD, costs=False):
            return self._certainly(left, mask, slack, answer)
        self._raise(min(inside, self._outside(slack)))
        if answer.status is Status.DEADLINE and clock is self.clock:
            raise Interrupted(self.clock.why())
        return answer

    def _outside(self, slack: float) -> float:
        """Return a lower bound on the cost of an allocation that uses a column outside a slack."""
        return math.inf if slack == math.inf else self.floor + slack

    def _raise(self, bound: float) -> None:
        """Raise the bound on all allocations; round it up if all costs are multiples of a number."""
        if self.grain is None:
            few = self.program.n_variables <= _READ
            self.grain = grain_of(effective_costs(self.store, self.program.request_slots)) if few else 0.0
            table, slots = self.store.requests, self.program.request_slots
            if not table.integral[slots].all():
                self.grain = 0.0
        if self.grain and abs(bound) < _COUNTED * self.grain:
            bound = self.grain * math.ceil(bound / self.grain - _COUNTED**-0.75)
        self.bound = min(max(self.bound, bound), self.cost)

    def _certainly(
        self, left: Survivors, mask: NDArray[np.bool_], slack: float, answer: MilpAnswer
    ) -> MilpAnswer:
        """Search a neighbourhood again in exact arithmetic; a large one remains unproved."""
        unproved = replace(answer, x=None, status=Status.UNPROVED, bound=-math.inf)
        if np.count_nonzero(mask) > MOST_COLUMNS:
            return unproved
        here = unscaled_rest(self.store, left, mask)
        known = None if self.x is None else here.point(self.x)
        found = solve_exactly(
            here.lp, known, gap=_EXACTLY * self.integer_gap * self.gap_denominator, clock=self.clock
        )
        self.nodes += found.nodes
        if found.x is not None:
            self._offer(here.allocation(found.x))
        self._raise(min(found.bound, self._outside(slack)))
        if self.clock.over():
            raise Interrupted(self.clock.why())
        return replace(unproved, status=Status.INFEASIBLE) if found.complete and found.x is None else unproved

    def _nearness(self, left: Survivors) -> tuple[NDArray[np.float64] | None, float]:
        """Return each column's extra cost per unit outside the last allocation, and the largest sum."""
        if self.last is None or not self.last.slot.size:
            return None, 0.0
        table = self.store.requests
        owners = np.unique(left.slot)
        units = np.where(table.total[owners] < np.inf, table.total[owners], 0.0).sum()
        units += left.upper[table.total[left.slot] == np.inf].sum()
        most = _TIES * self.integer_gap * self.gap_denominator
        if not 0.0 < units < math.inf:
            return None, 0.0
        return np.where(_among(left, self.last), 0.0, most / units), most


def _too_many(columns: int) -> str:
    return f"a neighbourhood has {columns} columns, more than the setting most_columns"


def _is_of(store: ConstraintStore, relaxed: Solution) -> bool:
    """Return whether the pricing pass of a solution reproduces its bound, up to rounding."""
    y, rows = relaxed.y, store.rows
    paid = np.where(y > 0, rows.upper[: y.size], np.where(y < 0, rows.lower[: y.size], 0.0))
    if relaxed.pricing is None:
        return False
    return relaxed.pricing.request_bound - dot(y, paid) >= relaxed.certificate.bound


def _among(left: Survivors, x: SparseX) -> NDArray[np.bool_]:
    """Return whether each residual column is used by an allocation, elementwise."""
    width = int(max(left.column.max(initial=0), x.column.max(initial=0))) + 1
    return np.isin(left.slot * width + left.column, x.slot * width + x.column)
