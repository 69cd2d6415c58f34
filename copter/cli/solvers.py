"""Checks of names on the command line, such as those of solvers, without importing a solver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import typer

from copter.errors import choices
from copter.solvers.registry import SOLVERS


def check_solver(name: str, methods: Sequence[str] = ()) -> str:
    """Return `name`, or raise a usage error that lists the known solvers.

    Parameters
    ----------
    name : str
        Name of a registered solver or of a method.
    methods : sequence of str
        Methods of a domain that are not registered solvers. ``-K`` in a name means any number:
        ``pop-K`` allows ``pop-16``.
    """
    if name in SOLVERS or any(_is(method, name) for method in methods):
        return name
    return check_known(name, [*SOLVERS, *methods], "solver")


def _is(method: str, name: str) -> bool:
    pattern = re.escape(method).replace(re.escape("-K"), "-[1-9][0-9]*")
    return re.fullmatch(pattern, name) is not None


class Names(tuple[str, ...]):
    """Names of a comma-separated list, in order and without duplicates."""

    __slots__ = ()

    @classmethod
    def split(cls, text: str) -> Names:
        """Return the names of a comma-separated list."""
        return cls(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))

    def __str__(self) -> str:
        return ",".join(self)


def check_known(name: str, known: Iterable[str], what: str) -> str:
    """Return `name`, or raise a usage error with the known names and the most similar name.

    Parameters
    ----------
    name : str
        The name to check.
    known : iterable of str
        The allowed names.
    what : str
        Noun for the error, for example "solver".
    """
    names = list(known)
    if name in names:
        return name
    raise typer.BadParameter(f"no {what} is called {name!r}: {choices(name, names)}")


def check_names(text: str, what: str, check: Callable[[str], object]) -> Names:
    """Return the names of a comma-separated list, or raise a usage error.

    Parameters
    ----------
    text : str
        The list.
    what : str
        Noun for the error, for example "solver".
    check : callable
        Function that raises an error for an unknown name.
    """
    names = Names.split(text)
    if not names:
        raise typer.BadParameter(f"must be at least one {what}, separated by commas")
    for name in names:
        check(name)
    return names
