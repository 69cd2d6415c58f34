"""Solver names on the command line: checked, split and listed, without importing a solver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import typer

from copter.cli.console import print_json, table
from copter.errors import choices
from copter.solvers.registry import SOLVERS


def check_solver(name: str, methods: Sequence[str] = ()) -> str:
    """Return `name`, or raise a usage error that lists what there is.

    Parameters
    ----------
    methods : sequence of str
        What a domain has besides the registered solvers.  ``-K`` in them stands for a number: with ``pop-K``
        there is ``pop-16``.
    """
    if name in SOLVERS or any(_is(method, name) for method in methods):
        return name
    return check_known(name, [*SOLVERS, *methods], "solver")


def _is(method: str, name: str) -> bool:
    pattern = re.escape(method).replace(re.escape("-K"), "-[1-9][0-9]*")
    return re.fullmatch(pattern, name) is not None


class Names(tuple[str, ...]):
    """Names from a comma-separated list, each once, in order."""

    __slots__ = ()

    @classmethod
    def split(cls, text: str) -> Names:
        """Return the names of a list."""
        return cls(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))

    def __str__(self) -> str:
        return ",".join(self)


def check_known(name: str, known: Iterable[str], what: str) -> str:
    """Return `name`, or raise a usage error that lists what there is and guesses what was meant.

    Parameters
    ----------
    what : str
        What it is a name of, for the error.
    """
    names = list(known)
    if name in names:
        return name
    raise typer.BadParameter(f"no {what} is called {name!r}: {choices(name, names)}")


def check_names(text: str, what: str, check: Callable[[str], object]) -> Names:
    """Return the names of a comma-separated list, each checked, or raise a usage error.

    Parameters
    ----------
    what : str
        What they are names of, for the error.
    check : callable
        Raises for a name that is none.
    """
    names = Names.split(text)
    if not names:
        raise typer.BadParameter(f"name at least one {what}, separated by commas")
    for name in names:
        check(name)
    return names


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
