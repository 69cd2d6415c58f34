"""Optional packages: where one is imported and is not there, the error names the extra that brings it.

    with extra("traffic"):
        import networkx as nx

What each extra brings is in ``pyproject.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from copter.errors import CopterError


class MissingExtraError(CopterError, ImportError):
    """A package that comes with an extra of copter is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(package, extra)

    def __str__(self) -> str:
        return f"{self.package} is not installed; in a checkout: python -m pip install '.[{self.extra}]'"


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import packages of an extra in a ``with`` block.

    The name is that of ``python -m pip install '.[name]'`` in a checkout. Raise MissingExtraError, with
    package and extra, if one is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "copter"):
            raise
        raise MissingExtraError(package, name) from error
