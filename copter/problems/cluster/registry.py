"""Policies and traces by name, from the entry-point groups ``copter.policies`` and ``copter.traces``.

An installed package declares its policies and traces, which all commands then accept::

    [project.entry-points."copter.policies"]
    my-policy = "my_package.my_policy:MyPolicy"

    [project.entry-points."copter.traces"]
    my-trace = "my_package.my_trace:make"

A policy's entry is a class or function that makes a new policy.  A trace's entry is a function of the
cluster, the seed and the folder of real traces (or None) that returns a :class:`.workload.Scenario` on that
cluster.  Parameters with defaults are settings.  Their values are checked against their annotations.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from copter.errors import CopterError, InputError, choices
from copter.installed import installed
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.workload import Scenario

_POLICIES, _TRACES = "copter.policies", "copter.traces"
_TYPED = (str, Real, NoneType)
"""Types of values that a user can type on a command line."""


class SettingsError(CopterError, ValueError):
    """A policy, trace or setting is unknown, or a setting has an invalid value."""


def policy_names() -> list[str]:
    """Return the names of all installed policies."""
    return list(installed(_POLICIES))


def trace_names() -> list[str]:
    """Return the names of all installed traces."""
    return list(installed(_TRACES))


def make_policy(name: str, **settings: Any) -> Policy:
    """Make a new policy.

    Parameters
    ----------
    name : str
        Name of an installed policy, such as "sia".
    **settings
        Settings of the policy.

    Raises
    ------
    SettingsError
        If there is no such policy, or it does not accept a setting or its value.
    """
    policy: Policy = _make("policy", _POLICIES, name, **settings)
    return policy


def by_name(
    name: str, cluster: Cluster, seed: int = 0, data: str | Path | None = None, **settings: Any
) -> Scenario:
    """Return a scenario with the jobs of a trace on a cluster.

    Parameters
    ----------
    seed : int
        Seed of the jobs; the same seed gives the same jobs.
    data : path, optional
        Folder of real traces.  If the folder contains the trace's file, jobs are sampled from that file;
        otherwise they are generated.
    **settings
        Settings of the trace, such as ``jobs``, the number of jobs.

    Raises
    ------
    SettingsError
        If there is no such trace, or it does not accept a setting or its value.
    InputError
        If the folder of real traces does not exist, or a file in it cannot be read.
    """
    folder = None if data is None else Path(data)
    if folder is not None and not folder.exists() and name in installed(_TRACES):
        raise InputError(folder, "data", "does not exist")
    scenario: Scenario = _make("trace", _TRACES, name, cluster, seed, folder, **settings)
    return scenario


def _make(what: str, group: str, name: str, *arguments: Any, **settings: Any) -> Any:
    """Call the class or function of an entry with checked settings."""
    entries = installed(group)
    if name not in entries:
        raise SettingsError(f"unknown {what} {name!r}: must be one of {', '.join(entries)}")
    maker, what = entries[name].load(), f"{what} {name!r}"
    known = dict(_parameters(maker))
    if not _passes_on(maker):
        for setting in settings:
            if setting not in known:
                raise SettingsError(_no_such_setting(what, setting, known))
    for setting, value in settings.items():
        if setting in known and not _fits(value, known[setting]):
            raise SettingsError(f"{what}: {setting} = {value!r}: must be {_shown(known[setting])}")
    try:
        return maker(*arguments, **settings)
    except (TypeError, ValueError) as error:
        if isinstance(error, CopterError) or not settings:
            raise
        unknown = [setting for setting in settings if f"keyword argument '{setting}'" in str(error)]
        if isinstance(error, TypeError) and unknown:
            raise SettingsError(_no_such_setting(what, unknown[0], known)) from error
        if not any(str(error).startswith(f"{setting} = ") for setting in settings):
            given = ", ".join(f"{setting} = {value!r}" for setting, value in settings.items())
            what = f"{what} with {given}"
        raise SettingsError(f"{what}: {error}") from error


def _no_such_setting(what: str, setting: str, known: Mapping[str, Any]) -> str:
    return f"{what}: no setting {setting!r}: {choices(setting, known) if known else 'it has no settings'}"


def _passes_on(maker: Callable[..., Any]) -> bool:
    """Return whether a maker has ``**kwargs``."""
    kinds = (one.kind for one in inspect.signature(maker).parameters.values())
    return inspect.Parameter.VAR_KEYWORD in kinds


def _parameters(maker: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names of the settings in a maker's signature, with their types."""
    called: Any = maker
    while isinstance(called, partial):
        called = called.func
    function: Any = called.__init__ if inspect.isclass(called) else called
    try:
        hints = get_type_hints(function, localns=_Names(getattr(function, "__globals__", {})))
    except Exception:  # noqa: BLE001 - a type of a policy's author that only type checkers can evaluate
        hints = {}
    for one in inspect.signature(maker).parameters.values():
        if one.default is not one.empty:
            yield one.name, hints.get(one.name, Any)


class _Names(dict[str, Any]):
    """Names of a module; a type that the module imports for type checkers only is an empty class."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, None) or type(name, (), {})


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value has the type of a hint; True for objects that a command line cannot express."""
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
    """Return a type as a text for messages."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_shown(one) for one in get_args(hint))
    return "none" if hint is NoneType else getattr(hint, "__name__", str(hint))
