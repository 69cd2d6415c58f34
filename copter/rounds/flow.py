"""FlowDomain: base of domains that share out resources in any amounts, as flows on paths."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from copter.program.program import ContinualProgram
from copter.program.sense import Sense
from copter.rounds.record import Move, binding_of, moves_between
from copter.shims.flow import Flows, FlowShim
from copter.solution import Allocation, Solution


@dataclass(frozen=True)
class Shared:
    """Amounts of columns for each request.

    Attributes
    ----------
    x : Allocation
        Amounts by request id, feasible.
    objective, gap : float
        As of :class:`copter.shims.flow.Flows`.
    binding : mapping of resource id to float
        Resources whose bounds bind the solver's answer, with their prices; empty for a fallback.
    flows : Flows
        What the shim made.
    before : Allocation, optional
        Amounts of the answer before.
    """

    x: Allocation
    objective: float
    gap: float
    binding: Mapping[Hashable, float]
    flows: Flows
    before: Allocation | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"before": None, "moves": self.moves}

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Columns that got more or less than in the answer before, for each request."""
        return moves_between(self.before, self.x)


class FlowDomain:
    """All of :class:`copter.Domain` but ``apply``, for programs that :class:`copter.FlowShim` repairs.

    These are packing programs: no cost is above 0 (of values to be maximised none is below), no coefficient
    is below 0, and every request has a total with "<=". A subclass adds resources and requests to
    :attr:`program` and has ``apply`` and, for `copter check`, ``events``.

    Parameters
    ----------
    sense : "min" or "max"
        Sense of the program.

    Attributes
    ----------
    program : ContinualProgram
    last : Shared or None
        The answer that was accepted last.
    """

    def __init__(self, sense: Sense = "min") -> None:
        self.program = ContinualProgram(sense=sense)
        self.last: Shared | None = None
        self._shim = FlowShim()

    def round(self, solution: Solution, deadline: float | None) -> Shared:  # noqa: ARG002 - takes a moment
        """Make a solution feasible to the last digit, and give out what is left."""
        return self._shared(self._shim.round(self.program, solution), solution)

    def fallback(self, deadline: float | None) -> Shared:  # noqa: ARG002 - takes a moment
        """Return the last amounts as far as they are still possible (:meth:`copter.FlowShim.repair`)."""
        last = None if self.last is None else self.last.flows
        return self._shared(self._shim.repair(self.program, last), None)

    def accept(self, answer: Shared) -> None:
        """Keep an answer as the last one."""
        self.last = answer

    def figures(self, answer: Shared) -> dict[str, float]:
        """Return what a report shows: the objective, and how many resources bind."""
        return {"objective": answer.objective, "binding": len(answer.binding)}

    def _shared(self, flows: Flows, solution: Solution | None) -> Shared:
        x = Allocation.of(self.program, flows.nonzeros)
        before = None if self.last is None else self.last.x
        return Shared(x, flows.objective, flows.gap, binding_of(solution), flows, before)
