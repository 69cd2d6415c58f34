"""FlowDomain: base class of domains that allocate fractional amounts, for example flows on paths."""

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
    """Answer with amounts of the columns of each request.

    Attributes
    ----------
    x : Allocation
        Feasible amounts by request id.
    objective, gap : float
        As in :class:`copter.shims.flow.Flows`.
    binding : mapping of resource id to float
        Resources whose bounds are active in the solution, with their dual prices. Empty for a fallback.
    flows : Flows
        Result of the shim.
    before : Allocation, optional
        Amounts of the previous answer.
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
        """Columns whose amount differs from the previous answer, for each request."""
        return moves_between(self.before, self.x)


class FlowDomain:
    """Base class of domains whose programs :class:`copter.FlowShim` makes feasible.

    These are packing programs: costs are <= 0 (values to be maximised are >= 0), coefficients are >= 0, and
    every request has a total with the relation "<=". The class implements :class:`copter.Domain` except
    ``apply``. A subclass adds resources and requests to :attr:`program` and implements ``apply`` and, for
    `copter check`, ``events``.

    Parameters
    ----------
    sense : "min" or "max"
        Sense of the program.

    Attributes
    ----------
    program : ContinualProgram
        Program that is solved in each round.
    last : Shared or None
        Answer that was accepted last; None before the first round.

    Examples
    --------
    >>> from copter import FlowDomain, Rounds
    >>> class Traffic(FlowDomain):
    ...     def __init__(self):
    ...         super().__init__(sense="max")
    ...         self.program.add_resources(["north", "south"], upper=10.0)
    ...     def apply(self, event):
    ...         demand, amount = event
    ...         usage = {"north": [1, 0], "south": [0, 1]}
    ...         self.program.add_request(demand, [1.0, 1.0], usage, total=amount)
    >>> record = Rounds(Traffic()).play(("a", 8.0), ("b", 9.0))
    >>> round(float(record.answer.x["a"].sum() + record.answer.x["b"].sum()), 6)
    17.0
    """

    def __init__(self, sense: Sense = "min") -> None:
        self.program = ContinualProgram(sense=sense)
        self.last: Shared | None = None
        self._shim = FlowShim()

    def round(self, solution: Solution) -> Shared:
        """Make a solution exactly feasible, and allocate the remaining capacity."""
        return self._shared(self._shim.round(self.program, solution), solution)

    def fallback(self) -> Shared:
        """Return the last amounts, reduced where they are no longer feasible (:meth:`FlowShim.repair`)."""
        last = None if self.last is None else self.last.flows
        return self._shared(self._shim.repair(self.program, last), None)

    def accept(self, answer: Shared) -> None:
        """Store an answer as the last answer."""
        self.last = answer

    def figures(self, answer: Shared) -> dict[str, float]:
        """Return the objective and the number of active resources, for reports."""
        return {"objective": answer.objective, "binding": len(answer.binding)}

    def _shared(self, flows: Flows, solution: Solution | None) -> Shared:
        x = Allocation.of(self.program, flows.nonzeros)
        before = None if self.last is None else self.last.x
        return Shared(x, flows.objective, flows.gap, binding_of(solution), flows, before)
