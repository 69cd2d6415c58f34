"""Python environments of solvers whose packages cannot be installed next to copter's.

These solvers run in another interpreter (:mod:`copter.solvers.baselines.other_python`).  An environment has a
name, and ``--environment NAME=PYTHON`` gives its interpreter.  Results are published, so they contain only
the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from copter.errors import CopterError, choices

ENVIRONMENTS: Mapping[str, str] = MappingProxyType(
    {
        "rebalancer": "Python >= 3.12 with rebalancer 1.0.4 and numpy.",
    }
)
"""Contents of the environments by name; docs/how-to/suite.md has the commands that make them."""
PLACE = "NAME=PYTHON"
"""Form of the option's value."""


def read_environment(text: str) -> tuple[str, Path]:
    """Return the name and the interpreter of an option ``--environment NAME=PYTHON``.

    Raises
    ------
    CopterError
        If the text does not have this form, the name is unknown, or the interpreter does not exist.
    """
    name, equals, python = text.partition("=")
    if not equals or not python:
        raise CopterError(f"{text!r}: must be {PLACE}, for example rebalancer=environment/bin/python")
    if name not in ENVIRONMENTS:
        raise CopterError(f"no environment is called {name!r}: {choices(name, ENVIRONMENTS)}")
    path = Path(python).expanduser()
    if not path.is_file():
        raise CopterError(f"environment {name!r}: {python} is not a file: must be a Python interpreter")
    return name, path


def interpreter(environments: Mapping[str, Path], name: str) -> Path:
    """Return the interpreter of an environment; raise CopterError if it was not given."""
    if name not in environments:
        raise CopterError(missing(name))
    return environments[name]


def missing(name: str) -> str:
    """Return the reason why a solver that needs an environment does not run without it."""
    return f"no environment of {name}; docs/how-to/suite.md has the commands that make one"
