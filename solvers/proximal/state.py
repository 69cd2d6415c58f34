"""The data of the loop: iterates, what a solve may use, what it leaves to the next, where that one begins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from copter.proof.certificate import Certificate, measured_certificate, proved, right_signs, with_bound
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
"""Rounds that inactive requests must last to have saved time."""
_LONGEST_WAIT = 7
"""Solves without inactive requests at most: to make them costs about as much as a full pass."""


@dataclass(frozen=True)
class Iterate:
    """An allocation, prices, the pass at them, their certificate and what that was measured by."""

    x: SparseX
    y: NDArray[np.float64]
    pricing: Pricing
    certificate: Certificate
    measures: Measures

    @classmethod
    def of(
        cls, store: ConstraintStore, x: SparseX, y: NDArray[np.float64], pricing: Pricing, threads: int | None
    ) -> Iterate:
        """Certify an allocation at the prices ``y``, (row slots,), of a pass."""
        return cls(x, y, pricing, *measured_certificate(store, x, y, pricing, threads=threads))

    def proved(self, store: ConstraintStore, threads: int | None) -> Iterate:
        """The iterate at prices next to its own (:func:`copter.proof.certificate.proved`)."""
        return Iterate(self.x, *proved(store, self.x, self.y, threads))

    def bounded(self, bound: float) -> Iterate:
        """Return the iterate with a bound that was proved otherwise, if it is better."""
        return replace(self, certificate=with_bound(self.certificate, bound))

    @property
    def residuals(self) -> tuple[float, float, float]:
        """Primal and dual residual and the gap that they leave, ``near_gap``: the measure of progress."""
        proof = self.certificate
        return proof.relative.primal, proof.relative.dual, proof.near_gap

    @property
    def worst(self) -> float:
        """The worst relative residual, each counted as 1 at most, by which iterates are compared."""
        return max(math.inf if math.isnan(part) else min(part, 1.0) for part in self.residuals)

    def better_than(self, other: Iterate) -> bool:
        """Whether its worst residual is smaller, or as large and the others are."""
        total, least = (sum(min(part, 1.0) for part in each.residuals) for each in (self, other))
        # of equals one that has an allocation at all, then the one that proves more
        rest = [(not each.x.slot.size, -each.certificate.bound) for each in (self, other)]
        return (self.worst, total, rest[0]) < (other.worst, least, rest[1])


@dataclass
class Budget:
    """Time and iterations that a solve may use, and has used.

    `most_piece`: share of a deadline kept for one more piece of work at most. `reserve`: seconds kept for the
    pass that certifies what the steps find, as long as the last one took. `until`: iterations at which steps
    pause for HiGHS.
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
        """Take the time of a pass, from here."""
        self._pass = self.clock()

    def end_pass(self) -> None:
        """To here: as long as that may the next one take."""
        self.reserve = self.clock() - self._pass

    def late(self) -> bool:
        """Whether the solve was cancelled or must certify what there is now.

        Solves ask between pieces of work; the next piece may take as long as the last.
        """
        now = self.clock()
        piece, self._asked = now - self._asked, now
        piece = min(piece, self.most_piece * self.clock.deadline)
        self._over = self._over or self.clock.over(self.reserve + piece)
        return self._over

    def left(self) -> int:
        """Iterations that are left for steps."""
        limit = self.iteration_limit if self.until is None else min(self.until, self.iteration_limit)
        return limit - self.iterations

    def spent(self) -> bool:
        """Whether the iteration limit is reached."""
        return self.iterations >= self.iteration_limit


@dataclass(frozen=True)
class State:
    """State of a solve for the next one: plain data to copy, to save, and to continue from more than once.

    `x`, `y`: where the next solve begins; None before the first. With `inactive`, x is the allocation of the
    active requests. `slack`: of :class:`copter.solvers.proximal.columns.Screening`; NaN if not known.
    `answer`: the last answer, for the churn; not `x` if a start was given. `proof`: the store's revision when
    the last answer was certified, and that iterate. `revision`: the store's when the solve ended.
    `full_pass`: why the next solve reads all columns, if no request is inactive. `misses`, `wait`:
    consecutive times that the inactive set was given up after fewer than 3 solves, and solves until there may
    be one again.
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

    def whole(self) -> State:
        """Return the same without inactive requests: the allocation is that of all."""
        if self.inactive is None or self.x is None:
            return self
        x = joined([self.inactive.last_x(self.x.program), self.x])
        short = self.inactive.rounds < _SOON and not self.inactive.fixed  # it takes little to fix requests
        misses = self.misses + 1 if short else 0
        wait = min(2**misses - 1, _LONGEST_WAIT)
        return State(x, self.y, self.slack, x, None, self.revision, misses=misses, wait=wait)

    def without(self, why: FullPass) -> State:
        """Return the same with a reason for which no request is inactive."""
        return replace(self, full_pass=why)

    def after(self, program: ContinualProgram, best: Iterate, slack: float) -> State:
        """Return the state that a solve which began in this one, and read all columns, ends in."""
        x, revision = LastX.of(program, best.x, self.x), program.store.clock
        y, wait = LastY.of(program, best.y), max(0, self.wait - 1)
        return State(x, y, slack, x, (revision, best), revision, misses=self.misses, wait=wait)

    def moved_to(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> State:
        """Return the state from which the next solve begins at an allocation and prices that are given."""
        known = self.whole() if self.is_of(program) else State()
        given = LastX.of(program, x, known.x), LastY.of(program, y)
        return State(
            *given, known.slack, known.answer, revision=known.revision, full_pass=FullPass.START_GIVEN
        )

    def is_of(self, program: ContinualProgram) -> bool:
        """Whether a solve of this program left it."""
        return self.x is not None and self.x.program is program

    def point(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return allocation and prices, by slot, that are left of it; None for another program."""
        if self.inactive is not None:
            return self.whole().point(program)
        if self.x is None or self.y is None or self.x.program is not program:
            return None
        # no price without the bound that it is of
        return self.x.surviving(), right_signs(program.store, self.y.surviving())

    def starts(self, program: ContinualProgram, pending: Pending) -> Starts:
        """Return the starts of requests, with the last allocation's values of columns that were moved."""
        if not pending or self.x is None or self.x.program is not program:
            return given_starts(pending, None)
        last, slots = self.x, sorted(slot for slot, start in pending.items() if isinstance(start, Moved))
        if self.inactive is not None and slots:
            block = self.inactive.pick(np.array(slots))
            last = joined([block.last_x(program, np.arange(block.size)), last])
        return given_starts(pending, last)

    def to_arrays(self, program: ContinualProgram) -> dict[str, Any] | None:
        """Return what :meth:`from_arrays` makes it again from; None if it is of another program."""
        if self.x is None or self.y is None or self.x.program is not program:
            return None
        numbers: dict[str, Any] = {"slack": self.slack, "misses": self.misses, "wait": self.wait}
        numbers |= {"revision": self.revision, "full_pass": self.full_pass.value}
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
            raise ValueError("slack is not a number")
        if not all(type(each) is int and each >= 0 for each in (misses, wait)):
            raise ValueError("misses and wait are not numbers of rounds")
        if revision is not None and not (type(revision) is int and 0 <= revision <= program.store.clock):
            raise ValueError("revision is not one of the program's")
        why = FullPass.of(arrays["full_pass"])
        x, y = LastX.from_arrays(program, arrays, "last"), LastY.from_arrays(program, arrays)
        inactive = None
        if "inactive.revision" in arrays:
            from copter.solvers.proximal.audit import inactive_faults

            inactive = InactiveSet.from_arrays(program, arrays, "inactive")
            faults = inactive_faults(program, inactive)
            if faults:
                raise ValueError(f"inactive requests: {'; '.join(faults)}")
        answer = x if arrays["answered"] else None
        if "answer.slot" in arrays:
            answer = LastX.from_arrays(program, arrays, "answer")
        return cls(x, y, slack, answer, None, revision, inactive, why, misses, wait)


class WarmStart(NamedTuple):
    """Parts of the last round that remain valid.

    `x`, `y`: allocation and prices to begin with. `slack`: of screening; NaN if not known. `how`: whether any
    of that is of use, and why, or why not.
    """

    x: SparseX
    y: NDArray[np.float64]
    slack: float
    how: Start

    @classmethod
    def of(cls, program: ContinualProgram, state: State, starts: Starts, *, wanted: bool) -> WarmStart:
        """Return what remains valid of a state, with the starts that came with edits; nothing if unwanted."""
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
    """Return x with the starts that were given in place of its values for those requests."""
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
