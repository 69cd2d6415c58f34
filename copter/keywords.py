"""Errors for misspelt keywords and attributes, with the most similar known name."""

from __future__ import annotations

import functools
import inspect
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar, cast

from copter.errors import choices

Call = TypeVar("Call", bound=Callable[..., Any])

_MEANT = {
    **dict.fromkeys(("capacity", "capacities", "ub", "bound", "bounds", "limit"), "upper"),
    **dict.fromkeys(("demand", "coefficients", "coeffs", "resources"), "usage"),
    **dict.fromkeys(("tol", "rtol", "eps", "epsilon", "accuracy", "precision", "gap"), "tolerance"),
    **dict.fromkeys(("timeout", "deadline", "timelimit", "max_time", "limit_s", "seconds"), "time_limit"),
    **dict.fromkeys(("max_iter", "maxiter", "max_iterations"), "iteration_limit"),
    **dict.fromkeys(("workers", "n_jobs", "num_threads", "n_threads", "cores"), "threads"),
    **dict.fromkeys(("name", "names"), "columns"),
    **dict.fromkeys(("objective", "c"), "costs"),
    **dict.fromkeys(("x0", "initial"), "start"),
    **{"size": "sizes", "lb": "lower", "rhs": "total", "method": "engine", "costs": "c"},
    **dict.fromkeys(("A_ub", "A_eq"), "A"),
}
"""Keywords that users write by mistake, and the keywords that they mean."""


def check_keywords(call: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise a TypeError about a call if a keyword is unknown."""
    for name in given:
        if name not in known:
            meant = _MEANT.get(name, name)
            why = choices(meant if meant in known else name, known) if known else "it takes no keywords"
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}; {why}")


def keywords_of(call: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names that a function or a method takes as keywords, without ``self``."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(call).parameters.values()
    return tuple(one.name for one in parameters if one.kind in named and one.name != "self")


def suggests(call: Call) -> Call:
    """Make a function without ``**keywords`` raise a TypeError that names the most similar keyword."""
    known = keywords_of(call)

    @functools.wraps(call)
    def checked(*args: Any, **given: Any) -> Any:
        check_keywords(call.__name__, given, known)
        return call(*args, **given)

    return cast("Call", checked)


@functools.cache
def settings_of(kind: type) -> dict[str, Any]:
    """Return the keywords that a class takes, with their defaults (``inspect.Parameter.empty`` if none).

    If a constructor has ``**settings``, the keywords of the next base class's constructor count as well.
    """
    found: dict[str, Any] = {}
    for each in kind.__mro__:
        if "__init__" not in vars(each):
            continue
        parameters = inspect.signature(vars(each)["__init__"]).parameters
        own = {name: parameters[name].default for name in keywords_of(vars(each)["__init__"])}
        found = own | found
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
            break
    return found


class _Checking(ABCMeta):
    """Metaclass that checks the keywords of a constructor and marks the made object as complete."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """Signature of the constructor, which the signature of ``__call__`` would hide."""
        _, *parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
        return inspect.Signature(parameters)

    def __call__(cls, *args: Any, **settings: Any) -> Any:
        try:
            made = super().__call__(*args, **settings)
        except TypeError:
            check_keywords(cls.__name__, settings, settings_of(cls))
            raise
        vars(made)["_complete"] = True
        return made


class Checked(metaclass=_Checking):
    """Object with settings that rejects unknown settings.

    The constructor may set any attribute. Afterwards a public attribute can be set only if the object or its
    class has it already.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        own, kind = vars(self), type(self)
        known = name.startswith("_") or name in own or hasattr(kind, name)
        if "_complete" in own and not known:
            there = [one for one in settings_of(kind) if one in own or hasattr(kind, one)]
            why = choices(_MEANT.get(name, name), there) if there else "it has no settings"
            raise AttributeError(f"{kind.__name__} has no attribute {name!r}; {why}", name=name, obj=self)
        super().__setattr__(name, value)
