"""Solver names on the command line: checked, split and listed, without importing a solver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from copter.cli.console import print_json, table
from copter.solvers.registry import SOLVERS, choices


def check_solver(name: str, methods: Sequence[str] = ()) -> str:
    """Return `name`, or raise a usage error that lists what there is.

    Parameters
    ----------
    name : str
    methods : sequence of str
        What a domain has besides the registered solvers.  A final ``-K`` stands for a number: with ``pop-K``
        there is ``pop-16``.
    """
    if name in SOLVERS or any(_is(method, name) for method in methods):
        return name
    raise typer.BadParameter(f"no solver is called {name!r}: {choices(name, [*methods, *SOLVERS])}")


def _is(method: str, name: str) -> bool:
    if not method.endswith("-K"):
        return name == method
    return re.fullmatch(re.escape(method[:-1]) + "[1-9][0-9]*", name) is not None


def check_solvers(names: str, methods: Sequence[str] = ()) -> str:
    """Check a comma-separated list of solver names."""
    parts = split_solvers(names)
    if not parts:
        raise typer.BadParameter("name at least one solver, for example: --solvers copter,highs-hot")
    for name in parts:
        check_solver(name, methods)
    return names


def split_solvers(names: str) -> list[str]:
    """Return the names of a comma-separated list, each once, in order."""
    return list(dict.fromkeys(part.strip() for part in names.split(",") if part.strip()))


def list_solvers(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """List the solvers by the names that --solver and --solvers take."""
    lines = {name: entry.summary for name, entry in SOLVERS.items()}
    if as_json:
        print_json(lines)
    else:
        table("Solvers", ("name", "what it is"), list(lines.items()), text_columns=2)
