"""Entry points that installed packages declare, by group and name."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

DOMAINS = "copter.domains"
"""Group of the entry points of domains of :class:`copter.Rounds`."""


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group, in order of their names."""
    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}
