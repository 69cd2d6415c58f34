"""EventDomain: base class of domains whose events are calls of their own methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from copter.errors import EditError
from copter.rounds.rounds import Rounds
from copter.solvers.base import Solver

if TYPE_CHECKING:
    from copter.rounds.domain import Domain

Method = TypeVar("Method", bound=Callable[..., Any])


def event(method: Method) -> Method:
    """Mark a method of an :class:`EventDomain` as an event: ``("drain", "s3")`` calls ``drain("s3")``."""
    method.is_event = True  # type: ignore[attr-defined]
    return method


class EventDomain:
    """Base class of domains whose events are tuples of the name of a method and its arguments.

    Between rounds, the methods may also be called themselves.
    """

    @classmethod
    def events_by_name(cls) -> dict[str, Callable[..., Any]]:
        """Return the methods that are events, by name."""
        every = ((name, getattr(cls, name, None)) for name in dir(cls))
        return {name: method for name, method in every if method is not None and hasattr(method, "is_event")}

    def apply(self, event: tuple[Any, ...], /) -> None:
        """Apply an event: call its method.

        Raises
        ------
        EditError
            If the event is not a tuple that begins with the name of an event.
        """
        known = self.events_by_name()
        name = event[0] if isinstance(event, tuple) and event else event
        if not isinstance(name, str) or name not in known:
            raise EditError(type(self).__name__, "event", name, f"must be one of {', '.join(known)}")
        getattr(self, name)(*event[1:])

    def play(self, solver: Solver | str = "copter", *events: Any, deadline: float | None = None) -> Any:
        """Play one round (:class:`copter.Rounds`), and return its answer, which has taken effect.

        Parameters
        ----------
        solver : Solver or str
            Solver of the program; use the same object in every round for warm starts.
        *events : tuple
            Events of the round, after those whose methods were called already.
        deadline : float, optional
            Seconds of the round; a late round has the answer of ``fallback``.
        """
        return Rounds(cast("Domain", self), solver, deadline=deadline).play(*events).answer
