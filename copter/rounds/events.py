"""EventDomain: base class of domains whose events are calls of their own methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from copter.errors import EditError
from copter.rounds.rounds import Rounds
from copter.solvers.base import Solver

if TYPE_CHECKING:
    from copter.rounds.domain import Domain

Method = TypeVar("Method", bound=Callable[..., Any])


def event(method: Method) -> Method:
    """Mark a method of an :class:`EventDomain` as an event: ``("remove", "a")`` calls ``remove("a")``."""
    method.is_event = True  # type: ignore[attr-defined]
    return method


@cache
def events_of(domain: Any) -> dict[str, Signature]:
    """Return the signatures of the methods of a class that are events, by name."""
    every = ((name, getattr(domain, name, None)) for name in dir(domain))
    return {name: signature(one) for name, one in every if one and getattr(one, "is_event", False)}


class EventDomain:
    """Base class of domains whose events are tuples of the name of a method and its arguments.

    Between rounds, users may also call these methods directly.
    """

    def apply(self, event: tuple[Any, ...], /) -> None:
        """Apply an event: call its method.

        Raises
        ------
        EditError
            If the event is not a tuple of the name of an event and its arguments.
        """
        own: Any = type(self)
        known = events_of(own)
        name = event[0] if isinstance(event, tuple) and event else event
        if not isinstance(name, str) or name not in known:
            raise EditError(own.__name__, "event", name, f"must be one of {', '.join(known)}")
        try:
            known[name].bind(self, *event[1:])
        except TypeError as error:
            raise EditError(
                own.__name__, "event", event, f"must have the arguments {known[name]}: {error}"
            ) from None
        getattr(self, name)(*event[1:])

    def play(self, solver: Solver | str = "copter", *events: Any, time_limit: float | None = None) -> Any:
        """Play one round (:class:`copter.Rounds`), and return its answer, which has taken effect.

        Parameters
        ----------
        solver : Solver or str
            Solver of the program; use the same object in every round for warm starts.
        *events : tuple
            Events of the round, in addition to the methods that were called since the last round.
        time_limit : float, optional
            Seconds of the round; a late round has the answer of ``fallback``.
        """
        return Rounds(cast("Domain", self), solver, time_limit=time_limit).play(*events).answer
