"""AmountDomain: base class of domains whose answers are amounts of columns, whole or not."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from copter.program.program import ContinualProgram
from copter.program.sense import Sense
from copter.rounds.record import Move, binding_of, moves_between
from copter.shims.counts import Counts, CountShim
from copter.shims.flow import Flows, FlowShim
from copter.solution import Allocation, Solution


@dataclass(frozen=True)
class Shared:
    """Answer with amounts of the columns of each request.

    Attributes
    ----------
    x : Allocation
        Amounts by request id.
    objective, gap : float
        As in :class:`copter.shims.flow.Flows` or :class:`copter.shims.counts.Counts`.
    binding : mapping of resource id to float
        Resources whose bounds are active in the solution, with their dual prices. Empty for a fallback.
    rounded : Flows or Counts
        Result of the shim.
    before : Allocation, optional
        Amounts of the previous answer.
    """

    x: Allocation
    objective: float
    gap: float
    binding: Mapping[Hashable, float]
    rounded: Flows | Counts
    before: Allocation | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"before": None, "moves": self.moves}

    @property
    def bound(self) -> float:
        """Bound on the objective of every answer; NaN if there is none but the bound of the solution."""
        return self.rounded.bound if isinstance(self.rounded, Counts) else math.nan

    @property
    def short(self) -> Mapping[Hashable, float]:
        """Amounts by which a CountDomain's resources and totals miss a bound, by id."""
        return self.rounded.short if isinstance(self.rounded, Counts) else {}

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Columns whose amount differs from the previous answer, for each request."""
        return moves_between(self.before, self.x)


class AmountDomain:
    """Domain without ``apply`` whose solutions a shim converts to feasible amounts.

    Parameters
    ----------
    sense : "min" or "max"
        Sense of the program.
    shim : FlowShim or CountShim
        Shim of the answers.
    """

    def __init__(self, sense: Sense, shim: FlowShim | CountShim) -> None:
        self.program = ContinualProgram(sense=sense)
        self.last: Shared | None = None
        self._shim: Any = shim

    def round(self, solution: Solution) -> Shared:
        """Make a solution feasible."""
        return self._shared(self._shim.round(self.program, solution), solution)

    def fallback(self) -> Shared:
        """Return the last amounts, changed where they are no longer feasible."""
        last = None if self.last is None else self.last.rounded
        return self._shared(self._shim.repair(self.program, last), None)

    def accept(self, answer: Shared) -> None:
        """Store an answer as the last answer."""
        self.last = answer

    def figures(self, answer: Shared) -> dict[str, float]:
        """Return the objective and the number of active resources, for reports."""
        return {"objective": answer.objective, "binding": len(answer.binding)}

    def _shared(self, rounded: Flows | Counts, solution: Solution | None) -> Shared:
        x = Allocation.of(self.program, rounded.nonzeros)
        before = None if self.last is None else self.last.x
        return Shared(x, rounded.objective, rounded.gap, binding_of(solution), rounded, before)
