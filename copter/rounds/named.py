"""Domains by name: ``package.module:Name``, or ``folder/file.py:Name``."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from copter.errors import CopterError


class DomainNameError(CopterError, ValueError):
    """A text names no domain; says what of it is wrong."""


def domain_named(name: str) -> Callable[[], Any]:
    """Return what makes a domain: a class, or a function without arguments.

    Parameters
    ----------
    name : str
        ``package.module:Name``, found as Python finds modules, and in the present folder; or a file,
        ``folder/file.py:Name``.

    Raises
    ------
    DomainNameError
        There is no such module, or nothing of this name in it.
    """
    module, _, attribute = name.rpartition(":")
    if not module or not attribute:
        raise DomainNameError(f"{name!r}: name a domain as module:Name or file.py:Name")
    folder = os.getcwd()
    if module.endswith(".py"):
        path = Path(module).absolute()
        if not path.is_file():
            raise DomainNameError(f"{name!r}: there is no file {module}")
        folder, module = str(path.parent), path.stem
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise DomainNameError(f"{name!r}: there is no module {error.name!r}") from None
    try:
        made: Any = getattr(found, attribute)
    except AttributeError:
        raise DomainNameError(f"{name!r}: module {module!r} has no {attribute}") from None
    if not callable(made):
        raise DomainNameError(f"{name!r}: is a {type(made).__name__}, no class and no function")
    maker: Callable[[], Any] = made
    return maker


def fresh(make: Callable[[], Any]) -> Any:
    """Return a fresh domain; raise DomainNameError if it cannot be made without arguments."""
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        name = getattr(make, "__name__", make)
        raise DomainNameError(f"{name}: must be made without arguments: {error}") from None
    return make()
