"""FlowDomain: base class of domains that allocate fractional amounts, for example flows on paths."""

from __future__ import annotations

from copter.program.sense import Sense
from copter.rounds.amounts import AmountDomain
from copter.shims.flow import FlowShim


class FlowDomain(AmountDomain):
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
        super().__init__(sense, FlowShim())
