"""Lazy imports of the public names of a package, so that importing the package is fast.

The package's ``__init__.pyi`` lists each public name once, for example
``from copter.errors import FileError as FileError``. Type checkers read this stub, and :func:`attach` reads
the modules from it (Scientific Python, SPEC 1).
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, read from the stub of its file."""
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
