"""Policies by name, found through the entry-point group ``copter.policies``.

A package that has a policy declares it, and it is then known to every command::

    [project.entry-points."copter.policies"]
    my-policy = "my_package.my_policy:MyPolicy"

The object is a class or function that makes a fresh policy; its keyword arguments are the policy's settings.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from copter.problems.cluster.policy import Policy
from copter.problems.cluster.settings import SettingsError, make_with

GROUP = "copter.policies"


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def policy_names() -> list[str]:
    """Names of all policies that are installed.

    Returns
    -------
    list of str
    """
    return list(_entries())


def make_policy(name: str, **settings: Any) -> Policy:
    """Make a fresh policy.

    Parameters
    ----------
    name : str
        One of :func:`policy_names`.
    **settings
        As its maker takes them.

    Raises
    ------
    SettingsError
        There is no such policy, or it has no such setting.
    """
    if name not in _entries():
        raise SettingsError(f"unknown policy {name!r}; there are: {', '.join(policy_names())}")
    policy: Policy = make_with(f"policy {name!r}", _entries()[name].load(), **settings)
    return policy
