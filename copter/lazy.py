"""Names of a package that are imported when they are first used, so that its commands and help are quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package whose names live in its modules.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    homes : mapping of str to str
        Names, separated by blanks, by the module of the package that has them.

    Returns
    -------
    (callable, callable)

    Examples
    --------
    >>> get, names = lazy_names("copter", {"errors": "CopterError EditError", "solution": "Status"})
    >>> names()
    ['CopterError', 'EditError', 'Status']
    >>> get("EditError").__module__
    'copter.errors'
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)  # asked for only once
        return value

    return get, lambda: sorted(modules)
