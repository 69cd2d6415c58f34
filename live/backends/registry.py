"""Backends by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from copter.live.backends.base import Backend
from copter.live.backends.local import LocalBackend

BACKENDS = ("local", "ray", "slurm")


def make_backend(name: str, folder: Path, options: Mapping[str, Any]) -> Backend:
    """Make a backend.

    Parameters
    ----------
    name : str
        One of :data:`BACKENDS`.
    folder : Path
        The service's.
    options : mapping
        Of the cluster's file.

    Raises
    ------
    ValueError
        There is no such backend.
    """
    if name == "local":
        return LocalBackend(folder)
    raise ValueError(f"unknown backend {name!r}; there are: {', '.join(BACKENDS)}")
