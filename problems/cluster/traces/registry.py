"""Traces by name, found through the entry-point group ``copter.traces``.

A package that has one declares it, and it is then known to every command::

    [project.entry-points."copter.traces"]
    my-trace = "my_package.my_trace:make"

The object is called with the cluster, the seed, the folder of real traces (or None) and the settings of the
trace as keyword arguments, and returns a :class:`.scenario.Scenario` on that cluster.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.scenario import Scenario
from copter.problems.cluster.settings import SettingsError, make_with

GROUP = "copter.traces"


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def trace_names() -> list[str]:
    """Names of all traces that are installed.

    Returns
    -------
    list of str
    """
    return list(_entries())


def by_name(
    name: str, cluster: Cluster, seed: int = 0, data: str | Path | None = None, **settings: Any
) -> Scenario:
    """Jobs of a trace, on a cluster.

    Parameters
    ----------
    name : str
        One of :func:`trace_names`.
    seed : int
        The same seed gives the same jobs.
    data : path, optional
        Folder of real traces; a trace that has a file in it is sampled from that, others are generated.
    **settings
        As the trace takes them, such as ``jobs``, their number.

    Raises
    ------
    SettingsError
        There is no such trace, or it has no such setting.
    InputError
        The folder of real traces does not exist, or a file in it cannot be read.
    """
    if name not in _entries():
        raise SettingsError(f"unknown trace {name!r}; there are: {', '.join(trace_names())}")
    folder = None if data is None else Path(data)
    if folder is not None and not folder.exists():
        raise InputError(folder, "data", "does not exist")
    make = _entries()[name].load()
    scenario: Scenario = make_with(f"trace {name!r}", make, cluster, seed, folder, **settings)
    return scenario


def find(data: Path | None, *places: str) -> Path | None:
    """First of some files or folders that is there.

    Parameters
    ----------
    data : Path or None
        Folder of real traces, or a file itself.
    *places : str
        Where it may lie, seen from the folder or from the folder ``cluster`` in it.

    Returns
    -------
    Path or None
        None without a folder, or if it has none of them.
    """
    if data is None:
        return None
    if data.is_file():
        return data if any(data.name == Path(place).name for place in places) else None
    for root in (data, data / "cluster"):
        for place in places:
            if (root / place).exists():
                return root / place
    return None
