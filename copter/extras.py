"""Imports of optional packages.

    with extra("traffic"):
        import networkx as nx

If a package is not installed, the error names the extra that installs it. ``pyproject.toml`` lists the
packages of each extra.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from copter.errors import MissingExtraError


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import packages of an extra in a ``with`` block.

    `name` is the name of the extra, as in ``python -m pip install '.[name]'`` in a checkout. Raise
    MissingExtraError, with package and extra, if a package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "copter"):
            raise
        raise MissingExtraError(package, name) from error
