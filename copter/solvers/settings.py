"""Settings of solvers, checked when a solver is made and whenever a setting is assigned.

A setting is a class attribute. An assigned value goes through a check, which returns the value to store or
raises :class:`copter.errors.SettingError` with the solver, the setting and the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Integral, Real
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from copter.errors import SettingError
from copter.keywords import settings_of

T = TypeVar("T")
Check = Callable[[Any], T]
"""A function that returns the value to store, or raises ValueError with the condition that is violated."""


class _Named(Protocol):
    """The owner of settings: a solver."""

    name: str


class Setting(Generic[T]):
    """Descriptor of a solver's setting, with the check of its values."""

    def __init__(self, check: Check[T]) -> None:
        self._check = check
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, solver: None, owner: type) -> Self: ...
    @overload
    def __get__(self, solver: _Named, owner: type) -> T: ...
    def __get__(self, solver: _Named | None, owner: type) -> Self | T:
        if solver is None:
            return self
        value: T = vars(solver)[self._name]
        return value

    def __set__(self, solver: _Named, value: Any) -> None:
        try:
            vars(solver)[self._name] = self._check(value)
        except ValueError as error:
            raise SettingError(solver.name, self._name, value, str(error)) from None


@cache
def setting_defaults(solver_class: type) -> Mapping[str, Any]:
    """Return the settings that the constructor of a solver's class accepts, with their defaults.

    They are the keywords of its constructor (:func:`copter.keywords.settings_of`) except ``name``.
    """
    found = dict(settings_of(solver_class))
    found.pop("name", None)
    return found


def share(value: Any) -> float:
    """Check that a number is greater than 0 and less than 1; otherwise raise ValueError."""
    if not _is_number(value) or not 0 < value < 1:
        raise ValueError("must be a number above 0 and below 1")
    return float(value)


def share_or_nothing(value: Any) -> float:
    """Check that a number is at least 0 and less than 1; otherwise raise ValueError."""
    if not _is_number(value) or not 0 <= value < 1:
        raise ValueError("must be a number from 0 to below 1")
    return float(value)


def as_limit(value: Any) -> float | None:
    """Check a number of seconds, or None for no limit; otherwise raise ValueError."""
    if value is None or (_is_number(value) and value == math.inf):
        return None
    if not _is_number(value) or not value >= 0:
        raise ValueError("must be seconds, not negative, or None")
    return float(value)


def count(value: Any) -> int:
    """Check a whole number of at least 0; otherwise raise ValueError."""
    if not _is_whole(value) or value < 0:
        raise ValueError("must be a whole number, not negative")
    return int(value)


def workers(value: Any) -> int | None:
    """Check a number of threads, or None for the default; otherwise raise ValueError."""
    if value is None:
        return None
    if not _is_whole(value) or value < 1:
        raise ValueError("must be a whole number of at least 1, or None")
    return int(value)


def switch(value: Any) -> bool:
    """Check a Boolean value; otherwise raise ValueError."""
    if not isinstance(value, bool):
        raise ValueError("must be True or False")
    return value


def function(value: Any) -> Any:
    """Check that a value is callable or None; otherwise raise ValueError."""
    if value is not None and not callable(value):
        raise ValueError("must be callable, or None")
    return value


def one_of(*names: str) -> Check[Any]:
    """Return a check that accepts one of some names and raises ValueError for every other value."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"must be {', '.join(map(repr, names[:-1]))} or {names[-1]!r}")
        return value

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
