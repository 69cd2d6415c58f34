"""Settings of policies and traces: checked against what their makers take, before anything is played."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from copter.errors import CopterError, choices

_TYPED = (str, Real, NoneType)
"""What can be typed on a command line."""


class SettingsError(CopterError, ValueError):
    """An unknown name, or a setting that a policy, a trace or the conditions of a run cannot have."""


def make_with(what: str, maker: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Call a maker with settings.

    Parameters
    ----------
    what : str
        What it makes, such as "policy 'sia'", for the error.
    *arguments
        That it takes besides.

    Raises
    ------
    SettingsError
        It has no such setting, or cannot use the value.
    """
    known = dict(_parameters(maker))
    for name, value in settings.items():
        if name in known and not _fits(value, known[name]):
            raise SettingsError(f"{what}: {name} = {value!r}: must be {_shown(known[name])}")
    try:
        return maker(*arguments, **settings)
    except (TypeError, ValueError) as error:
        if isinstance(error, CopterError) or not settings:
            raise
        given = ", ".join(f"{name} = {value!r}" for name, value in settings.items())
        unknown = [name for name in settings if f"'{name}'" in str(error)]
        hint = f"; {choices(unknown[0], known)}" if unknown and known else ""
        raise SettingsError(f"{what} with {given}: {error}{hint}") from error


def _parameters(maker: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Names of the settings that a maker names itself, with their types."""
    called: Any = maker
    while isinstance(called, partial):
        called = called.func
    try:
        hints: Mapping[str, Any] = get_type_hints(called.__init__ if inspect.isclass(called) else called)
    except NameError:  # a type that is there for type checkers only
        hints = {}
    for one in inspect.signature(maker).parameters.values():
        if one.default is not one.empty:
            yield one.name, hints.get(one.name, Any)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type; objects that nobody can type on a command line are not looked at."""
    if hint is Any or not isinstance(value, _TYPED):
        return True
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    wide = {float: Real, int: Integral}.get(hint, hint)
    return isinstance(wide, type) and isinstance(value, wide)


def _shown(hint: Any) -> str:
    """A type as people read it."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_shown(one) for one in get_args(hint))
    return "none" if hint is NoneType else getattr(hint, "__name__", str(hint))
