"""Domain: protocol of a model whose rounds :class:`copter.rounds.rounds.Rounds` plays."""

from __future__ import annotations

from typing import Any, Protocol

from copter.program.program import ContinualProgram


class Domain(Protocol):
    """Model whose events become edits of a program, and whose answers take effect.

    The five members below are required. A domain may also have these methods:

    - ``prepare()`` makes edits that sum up the events of a round, after the last event and before the solve.
      A second call without new events must do nothing.
    - ``start() -> (x, y) or None`` returns an allocation (:class:`copter.store.allocation.SparseX`) and dual
      prices by row slot. The next solve begins from these and not from the solver's own last round.
    - ``solve(solver)`` replaces ``solver.solve(program)``, for column generation or for a method without a
      program. ``round`` gets the result. If the result has an attribute ``solution``, this attribute is the
      solution in the round's record.
    - ``objective(answer) -> float`` returns the objective of an answer, in the sense and the unit of the
      program. The record of the round then has the gap between this objective and the certified bound.
    - ``figures(answer) -> mapping`` returns numbers by name for reports.
    - ``events(rng) -> iterable`` returns random events of one more round that could happen in the present
      state. `copter check`, `copter run` and `copter bench` use it. It must not change the domain.
    - ``violations(answer) -> iterable of str`` describes the constraints that an answer violates, computed
      without the program. `copter check` needs it if an answer has neither ``choice`` nor ``x``.

    Only ``apply``, ``prepare`` and ``accept`` may change the domain. A restart repeats only these calls, so
    their effect must depend only on their argument and on the state of the domain.

    Attributes
    ----------
    program : ContinualProgram or None
        Program that is solved. None if the domain has a ``solve`` that needs no program.

    Examples
    --------
    >>> from copter import ContinualProgram, Rounds
    >>> class Cores:
    ...     def __init__(self):
    ...         self.program, self.given = ContinualProgram(sense="max"), {}
    ...         self.program.add_resource("core", upper=4)
    ...     def apply(self, event):
    ...         job, value = event
    ...         self.program.add_request(job, [value], {"core": 1}, total=3)
    ...     def round(self, solution):
    ...         return {job: float(solution.x[job][0]) for job in self.program.request_ids}
    ...     def fallback(self):
    ...         return self.given
    ...     def accept(self, answer):
    ...         self.given = answer
    >>> record = Rounds(Cores()).play(("web", 2.0), ("batch", 1.0))
    >>> {job: round(cores, 3) for job, cores in record.answer.items()}
    {'web': 3.0, 'batch': 1.0}
    """

    @property
    def program(self) -> ContinualProgram | None:
        """Program that is solved."""

    def apply(self, event: Any, /) -> None:
        """Apply an event: edit the program and update the state of the domain.

        For an invalid event, raise an error that names the invalid value, and change nothing.
        """

    def round(self, solution: Any, /) -> Any:
        """Return an answer made from a solution, integral if the domain needs it; change nothing.

        A solver that this method calls stops at the deadline of the round. :func:`copter.clock.time_left`
        returns the seconds that are left of the round.

        Parameters
        ----------
        solution : Solution
            Solution of the present program, or the result of the domain's own ``solve``.

        Raises
        ------
        NoAllocationError
            If the solution has no allocation, or no answer can be made from it. The round then falls back.
        """

    def fallback(self) -> Any:
        """Return the last answer, repaired after the edits since then; change nothing.

        The method must be fast and must always succeed. Before the first answer, return an empty or a greedy
        allocation.
        """

    def accept(self, answer: Any, /) -> None:
        """Let an answer of ``round`` or ``fallback`` take effect; on an error, change nothing."""
