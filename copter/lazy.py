"""Packages whose public names are imported when they are first used, so that importing the package is quick.

They stand once, in the package's ``__init__.pyi``, as ``from copter.errors import FileError as FileError``:
type checkers read the stub, and :func:`attach` takes the modules from it (scientific Python's SPEC 1).
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub next to its file."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.asname: (str(node.module), alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    names = sorted(homes)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, inner = homes[name]
        return getattr(importlib.import_module(module), inner)

    return get, lambda: names, names
