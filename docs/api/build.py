"""Build the API reference from docstrings: python docs/api/build.py [FOLDER], build/docs if not given.

pdoc reads modules as they are in memory, so three things are settled first: names that a package imports when
they are first used, type aliases written as strings, and the types of named tuples.  A warning is an error.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import typing
import warnings
from pathlib import Path
from types import ModuleType

import pdoc
from pdoc.extract import walk_specs

import copter

# The command's own reference is `copter --help`.
TOP = ("copter", "copter.solvers", "copter.shims", "copter.problems", "copter.bench")
LEFT_OUT = "copter.cli"
TEMPLATES = Path(__file__).parent


def module_names() -> list[str]:
    """Every module of the package: pdoc itself stops at packages that have an `__all__`."""
    names = list(TOP)
    for package in TOP:
        path = importlib.import_module(package).__path__
        names += [found.name for found in pkgutil.walk_packages(path, f"{package}.")]
    return [name for name in dict.fromkeys(names) if not name.startswith(LEFT_OUT)]


def settle(module: ModuleType) -> None:
    """Import what a module imports lazily, and make its types such that they can be shown."""
    for name in getattr(module, "__all__", ()):
        setattr(module, name, getattr(module, name))
    for name, kind in getattr(module, "__annotations__", {}).items():
        alias = getattr(module, name, None)
        if "TypeAlias" in str(kind) and isinstance(alias, str):
            setattr(module, name, eval(alias, vars(module)))
    for found in list(vars(module).values()):
        if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
            if found.__module__ == module.__name__:
                found.__new__.__annotations__ = typing.get_type_hints(found)


def main(folder: Path) -> None:
    """Write the reference into a folder."""
    names = module_names()
    for name in names:
        settle(importlib.import_module(name))
    seen = walk_specs(TOP)
    specs = [*TOP, *(name for name in names if name not in seen)]
    pdoc.render.configure(
        docformat="numpy",
        template_directory=TEMPLATES,
        footer_text=f"copter {copter.__version__}",
        show_source=False,
    )
    pdoc.pdoc(*specs, output_directory=folder)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs"))
