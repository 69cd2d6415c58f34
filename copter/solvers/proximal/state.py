"""Data of the loop: iterates, the budget of a solve, the state between solves, and the warm start."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock
from copter.proof.certificate import Certificate, measured_certificate, right_signs
from copter.solution import ColdStart, Start
from copter.solvers.memory import LastX, LastY, given_starts, joined
from copter.solvers.proximal.full_pass import FullPass
from copter.solvers.proximal.inactive import InactiveSet
from copter.store.allocation import NOTHING, SparseX, merged
from copter.store.edit import Moved

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram
    from copter.proof.measure import Measures
    from copter.proof.pricing import Pricing
    from copter.store.edit import Pending, Starts
    from copter.store.store import ConstraintStore


_SOON = 3
"""Number of rounds that an inactive set must last to have saved time."""
_LONGEST_WAIT = 7
"""Largest number of solves without inactive requests; making a set takes about as long as a full pass."""


@dataclass(frozen=True)
class Iterate:
    """Allocation, prices, the result of the pricing pass at them, and their certificate and residuals."""

    x: SparseX
    y: NDArray[np.float64]
    pricing: Pricing
    certificate: Certificate
    measures: Measures

    @classmethod
    def of(
        cls, store: ConstraintStore, x: SparseX, y: NDArray[np.float64], pricing: Pricing, threads: int | None
    ) -> Iterate:
        """Certify an allocation at the prices `y`, (row slots,), of a pass."""
        return cls(x, y, pricing, *measured_certificate(store, x, y, pricing, threads=threads))

    @property
    def residuals(self) -> tuple[float, float]:
        """Primal residual and gap: the measure of progress."""
        relative = self.certificate.relative
        return relative.primal, relative.gap

    @property
    def worst(self) -> float:
        """Largest relative residual, each limited to 1; iterates are compared by it."""
        return max(math.inf if math.isnan(part) else min(part, 1.0) for part in self.residuals)

    def better_than(self, other: Iterate) -> bool:
        """Return whether the worst residual is smaller, or equal and the sum of residuals is smaller."""
        total, least = (sum(min(part, 1.0) for part in each.residuals) for each in (self, other))
        # ties: first an iterate with an allocation, then the larger bound
        rest = [(not each.x.slot.size, -each.certificate.bound) for each in (self, other)]
        return (self.worst, total, rest[0]) < (other.worst, least, rest[1])


@dataclass
class Budget:
    """Time and iterations of a solve, available and used.

    `most_piece`: largest share of a deadline that is reserved for one more piece of work. `reserve`: seconds
    reserved for the pass that certifies the steps' result, equal to those of the last pass. `until`: number
    of iterations at which steps pause for HiGHS.
    """

    tolerance: float
    clock: Clock
    iteration_limit: int
    threads: int | None
    most_piece: float
    reserve: float = 0.0
    iterations: int = 0
    until: int | None = None
    _asked: float = field(default=0.0, init=False)
    _pass: float = field(default=0.0, init=False)
    _over: bool = field(default=False, init=False)

    def begin_pass(self) -> None:
        """Record the start time of a pass."""
        self._pass = self.clock()

    def end_pass(self) -> None:
        """Reserve the duration of the pass that ends now for the next one."""
        self.reserve = self.clock() - self._pass

    def late(self) -> bool:
        """Return whether the solve was cancelled or must certify its present iterate now.

        The method is called between pieces of work; the next piece is assumed to take as long as the last.
        """
        now = self.clock()
        piece, self._asked = now - self._asked, now
        piece = min(piece, self.most_piece * self.clock.seconds)
        self._over = self._over or self.clock.over(self.reserve + piece)
        return self._over

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Let the work in a ``with`` block be late after some seconds, before the deadline of the solve."""
        outer, self.clock, self._asked = self.clock, Clock(seconds, parent=self.clock), 0.0
        try:
            yield
        finally:
            self.clock, self._asked, self._over = outer, outer(), False

    def left(self) -> int:
        """Return the number of iterations that remain for steps."""
        limit = self.iteration_limit if self.until is None else min(self.until, self.iteration_limit)
        return limit - self.iterations

    def spent(self) -> bool:
        """Return whether the iteration limit is reached."""
        return self.iterations >= self.iteration_limit


@dataclass(frozen=True)
class State:
    """State of the solver between solves: plain data to copy, to save, and to continue from more than once.

    `x`, `y`: start of the next solve; None before the first. With `inactive`, x is the allocation of the
    active requests. `slack`: see :class:`copter.solvers.proximal.columns.Screening`; NaN if not known.
    `answer`: last solution, for the churn; not `x` if a start was given. `proof`: the store's revision when
    the last solution was certified, and that iterate. `revision`: the store's revision when the solve ended.
    `full_pass`: reason why the next solve reads all columns, if no request is inactive. `misses`: consecutive
    times that the inactive set was discarded after fewer than 3 solves. `wait`: solves until requests may be
    made inactive again. `moved`: whether the last solve ended at another allocation than it began with.
    """

    x: LastX | None = None
    y: LastY | None = None
    slack: float = math.nan
    answer: LastX | None = None
    proof: tuple[int, Iterate] | None = None
    revision: int | None = None
    inactive: InactiveSet | None = None
    full_pass: FullPass = FullPass.FIRST_ROUND
    misses: int = 0
    wait: int = 0
    moved: bool = False

    def whole(self) -> State:
        """Return the state without inactive requests, with the allocation of all requests."""
        if self.inactive is None or self.x is None:
            return self
        x = joined([self.inactive.last_x(self.x.program), self.x])
        short = self.inactive.rounds < _SOON and not self.inactive.fixed  # fixing requests is cheap
        misses = self.misses + 1 if short else 0
        wait = min(2**misses - 1, _LONGEST_WAIT)
        return State(x, self.y, self.slack, x, None, self.revision, misses=misses, wait=wait)

    def without(self, why: FullPass) -> State:
        """Return the state with a reason for which no request is inactive."""
        return replace(self, full_pass=why)

    def after(self, program: ContinualProgram, best: Iterate, slack: float, *, moved: bool) -> State:
        """Return the state after a solve from this state that read all columns."""
        x, revision = LastX.of(program, best.x, self.x), program.store.clock
        y, wait = LastY.of(program, best.y), max(0, self.wait - 1)
        return State(x, y, slack, x, (revision, best), revision, misses=self.misses, wait=wait, moved=moved)

    def moved_to(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> State:
        """Return the state from which the next solve begins at a given allocation and given prices."""
        known = self.whole() if self.is_of(program) else State()
        given = LastX.of(program, x, known.x), LastY.of(program, y)
        return State(
            *given, known.slack, known.answer, revision=known.revision, full_pass=FullPass.START_GIVEN
        )

    def is_of(self, program: ContinualProgram) -> bool:
        """Return whether a solve of this program produced the state."""
        return self.x is not None and self.x.program is program

    def point(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return the surviving allocation and prices, by slot; None for another program."""
        if self.inactive is not None:
            return self.whole().point(program)
        if self.x is None or self.y is None or self.x.program is not program:
            return None
        # a price is set to 0 if its row no longer has the bound of that sign
        return self.x.surviving(), right_signs(program.store, self.y.surviving())

    def starts(self, program: ContinualProgram, pending: Pending) -> Starts:
        """Return the starts of requests; starts of moved columns are taken from the last allocation."""
        if not pending or self.x is None or self.x.program is not program:
            return given_starts(pending, None)
        last, slots = self.x, sorted(slot for slot, start in pending.items() if isinstance(start, Moved))
        if self.inactive is not None and slots:
            block = self.inactive.pick(np.array(slots))
            last = joined([block.last_x(program, np.arange(block.size)), last])
        return given_starts(pending, last)

    def to_arrays(self, program: ContinualProgram) -> dict[str, Any] | None:
        """Return the state as arrays for :meth:`from_arrays`; None if it belongs to another program."""
        if self.x is None or self.y is None or self.x.program is not program:
            return None
        numbers: dict[str, Any] = {"slack": self.slack, "misses": self.misses, "wait": self.wait}
        numbers |= {"revision": self.revision, "full_pass": self.full_pass.value, "moved": self.moved}
        arrays = self.x.to_arrays("last") | self.y.to_arrays() | numbers
        if self.inactive is not None:
            arrays |= self.inactive.to_arrays("inactive")
        if self.answer is None or self.answer is self.x:
            return arrays | {"answered": self.answer is not None}
        return arrays | {"answered": True} | self.answer.to_arrays("answer")

    @classmethod
    def from_arrays(cls, program: ContinualProgram, arrays: dict[str, Any]) -> Self:
        """Return the saved state; raise ValueError or KeyError if the arrays do not fit this program."""
        slack, revision, misses, wait = (arrays[name] for name in ("slack", "revision", "misses", "wait"))
        if not isinstance(slack, float):
            raise ValueError(f"slack = {slack!r}: must be a float")
        if not all(type(each) is int and each >= 0 for each in (misses, wait)):
            raise ValueError(f"misses, wait = {misses!r}, {wait!r}: must be whole numbers of at least 0")
        if revision is not None and not (type(revision) is int and 0 <= revision <= program.store.clock):
            raise ValueError(f"revision = {revision!r}: must be one of the program's")
        why = FullPass.of(arrays["full_pass"])
        x, y = LastX.from_arrays(program, arrays, "last"), LastY.from_arrays(program, arrays)
        inactive = None
        if "inactive.revision" in arrays:
            from copter.solvers.proximal.inactive_faults import inactive_faults

            inactive = InactiveSet.from_arrays(program, arrays, "inactive")
            faults = inactive_faults(program, inactive)
            if faults:
                raise ValueError(f"inactive requests: {'; '.join(faults)}")
        answer = x if arrays["answered"] else None
        if "answer.slot" in arrays:
            answer = LastX.from_arrays(program, arrays, "answer")
        return cls(x, y, slack, answer, None, revision, inactive, why, misses, wait, bool(arrays["moved"]))


class WarmStart(NamedTuple):
    """Parts of the last round that remain valid.

    `x`, `y`: allocation and prices to begin with. `slack`: slack of the screening; NaN if not known. `how`:
    whether the start is warm, and the reason.
    """

    x: SparseX
    y: NDArray[np.float64]
    slack: float
    how: Start

    @classmethod
    def of(cls, program: ContinualProgram, state: State, starts: Starts, *, wanted: bool) -> WarmStart:
        """Return the valid parts of a state, with the starts given with edits; cold if not `wanted`."""
        x, y, slack = NOTHING, np.zeros(program.store.rows.size), math.nan
        if not wanted:
            return cls(x, y, slack, ColdStart.SWITCHED_OFF.start())
        last = state.point(program)
        if last is not None:
            x, y = last
        x = with_starts(x, starts, program.store.requests.n_columns)
        if state.x is None or state.y is None:
            why = ColdStart.FIRST_ROUND
        elif last is None:
            why = ColdStart.OTHER_PROGRAM
        else:
            slack = state.slack
            was_zero = not (state.y.y.any() or state.x.x.slot.size)
            if was_zero or y.any() or x.slot.size:
                return cls(x, y, slack, Start(True, "last round's x and prices"))
            why = ColdStart.NOTHING_LEFT
        how = Start(True, "starts that were given") if starts else why.start()
        return cls(x, y, slack, how)


def with_starts(x: SparseX, starts: Starts, n_columns: NDArray[np.int64]) -> SparseX:
    """Return x with the given starts in place of its values for those requests."""
    fresh = [slot for slot in sorted(starts) if n_columns[slot]]
    if not fresh:
        return x
    given = [starts[slot] for slot in fresh]
    sizes = [columns.size for columns, _ in given]
    slot = np.repeat(fresh, sizes)
    column, value = (np.concatenate([start[k] for start in given]) for k in (0, 1))
    replaced = np.zeros(n_columns.size, np.bool_)
    replaced[fresh] = True
    order = np.lexsort((column, slot))
    return merged(x.where(~replaced[x.slot]), SparseX(slot[order], column[order], value[order]))
