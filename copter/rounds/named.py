"""Domains by name: that of an installed domain, ``package.module:Name``, or ``folder/file.py:Name``."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from copter.errors import DomainNameError, choices
from copter.installed import DOMAINS, installed


def domain_named(name: str) -> Callable[[], Any]:
    """Return the class, or the function without arguments, that makes a domain.

    Parameters
    ----------
    name : str
        Name of an entry point of the group ``copter.domains``; ``package.module:Name``, on Python's module
        path or in the present folder; or ``folder/file.py:Name``.

    Raises
    ------
    DomainNameError
        If there is no such module, or it has no such attribute.
    """
    known = installed(DOMAINS)
    module, _, attribute = (known[name].value if name in known else name).rpartition(":")
    if not module or not attribute:
        why = "must have the form module:Name or file.py:Name, or be an installed domain"
        raise DomainNameError(f"{name!r}: {why}; {choices(name, known)}")
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
        raise DomainNameError(f"{name!r}: is a {type(made).__name__}, and must be a class or a function")
    maker: Callable[[], Any] = made
    return maker


def fresh(make: Callable[[], Any]) -> Any:
    """Return a new domain; raise DomainNameError if it cannot be made without arguments."""
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        name = getattr(make, "__name__", make)
        raise DomainNameError(f"{name}: must be callable without arguments: {error}") from None
    return make()
