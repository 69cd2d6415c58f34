"""Domain: the protocol of a model whose rounds :class:`copter.rounds.rounds.Rounds` can play."""

from __future__ import annotations

from typing import Any, Protocol

from copter.program.program import ContinualProgram


class Domain(Protocol):
    """A model whose events become edits of a program, and whose answers take effect.

    These five members are needed.  A domain may also have

    - ``prepare()``: edits that sum up the events of a round, made after the last of them, before the solve;
      called again without new events it does nothing;
    - ``start() -> (x, y) or None``: an allocation (:class:`copter.SparseX`) and prices by row slot from
      which the next solve begins, in place of the solver's own last round;
    - ``solve(solver, deadline)``: in place of ``solver.solve(program)``, for column generation, or for a
      method that has no program; what it returns is given to ``round``;
    - ``figures(answer) -> mapping``: numbers by name for reports;
    - ``events(rng) -> iterable``: the events of one more round, drawn at random from what could happen to the
      domain as it is now, for `copter check`, `copter run` and `copter bench`; it changes nothing;
    - ``violations(answer) -> iterable of str``: what an answer breaks, in words, recomputed from the domain
      without the program; needed by `copter check` if an answer has neither ``choice`` nor ``x``.

    Only ``apply``, ``prepare`` and ``accept`` change the domain.  A restart repeats only these calls, so they
    depend on nothing but their argument and the domain.

    Attributes
    ----------
    program : ContinualProgram or None
        The program that is solved; None if the domain has a ``solve`` that needs none.
    """

    @property
    def program(self) -> ContinualProgram | None:
        """The program that is solved."""

    def apply(self, event: Any, /) -> None:
        """Make an event: edits of the program, and what else the domain knows of it.

        An invalid event raises an error that names what is wrong, and changes nothing.
        """

    def round(self, solution: Any, deadline: float | None, /) -> Any:
        """Return an answer made from a solution, integral where that is wanted; change nothing.

        Parameters
        ----------
        solution : Solution
            Solution of the program as it is now, or what the domain's own ``solve`` returned.
        deadline : float, optional
            Seconds that are left of the round; None for no limit.

        Raises
        ------
        NoAllocationError
            The solution has no allocation, or none can be made of it: the round falls back.
        """

    def fallback(self, deadline: float | None, /) -> Any:
        """Return the last answer, repaired for what has changed since; always possible, and quick.

        Before the first answer, it is an empty or a greedy allocation. This method changes nothing.
        """

    def accept(self, answer: Any, /) -> None:
        """Let an answer of ``round`` or ``fallback`` take effect, all of it or, with an error, nothing."""
