"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from copter.cli.solvers import Names, check_known, check_names, check_solver


def positive(value: float | None) -> float | None:
    """Check that a number, if given, is greater than 0."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"{value:g} must be greater than 0")
    return value


def _tolerance(value: float) -> float:
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value:g} must be between 0 and 1, for example 1e-4")
    return value


LOCAL_RAY = "local"
"""What ``--ray`` without an address stands for."""


def is_address(text: str) -> bool:
    """Whether a word is an address of Ray: a name must not be taken for one."""
    return text in (LOCAL_RAY, "auto") or ":" in text


def _address(value: str | None) -> str | None:
    if value is not None and not is_address(value):
        raise typer.BadParameter(f"{value!r} is no address: leave it out, or write auto, or host:port")
    return value


def existing_file(hint: str) -> Callable[[Path | None], Path | None]:
    """Return a check that a path, if given, is a file; the error ends with ``hint``."""

    def check(path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise typer.BadParameter(f"{path} is no file: {hint}")
        return path

    return check


def _traces(path: Path | None) -> Path | None:
    """Return the folder with the traces of clusters: the one named, or ``cluster`` in it."""
    inside = None if path is None else path / "cluster"
    return inside if inside is not None and inside.is_dir() else path


def one_of(known: Sequence[str], what: str) -> Callable[[str | None], str | None]:
    """Return a check that a name, if given, is one of those known."""

    def check(name: str | None) -> str | None:
        return None if name is None else check_known(name, known, what)

    return check


def some_of(known: Sequence[str], what: str) -> Callable[[str], Names]:
    """Return a parser of comma-separated names that are all known."""
    return lambda text: check_names(text, what, lambda name: check_known(name, known, what))


def solver_option(methods: Sequence[str] = ()) -> Any:
    """Return --solver, which also takes a domain's own methods (:func:`copter.cli.solvers.check_solver`)."""
    return typer.Option(
        "--solver",
        callback=lambda name: check_solver(name, methods),
        help=f"Solver of each round; see: copter solvers.{_also(methods)}",
    )


def solvers_option(methods: Sequence[str] = ()) -> Any:
    """Return --solvers, which also takes a domain's own methods."""
    return typer.Option(
        "--solvers",
        parser=lambda names: check_names(names, "solver", lambda name: check_solver(name, methods)),
        metavar="NAMES",
        help=f"Solvers, separated by commas.{_also(methods)}",
    )


def policies_option(known: Callable[[], Sequence[str]]) -> Any:
    """Return --policy, which takes some of the policies that there are when it is read, or all."""

    def parse(text: str) -> Names:
        names = check_names(text, "policy", lambda name: check_known(name, (*known(), "all"), "policy"))
        return Names(known()) if "all" in names else names

    return typer.Option(
        "--policy",
        parser=parse,
        metavar="NAMES",
        help="Policies, separated by commas, or all; an unknown one lists which there are.",
    )


def _also(methods: Sequence[str]) -> str:
    return f" Also: {', '.join(methods)}." if methods else ""


SolverName: TypeAlias = Annotated[str, solver_option()]
SolverNames: TypeAlias = Annotated[Names, solvers_option()]
Tolerance: TypeAlias = Annotated[
    float, typer.Option(callback=_tolerance, help="Relative residuals and gap at which a solve may stop.")
]
Threads: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Threads of the solver; its own choice if not given.")
]
Deadline: TypeAlias = Annotated[
    float | None, typer.Option(callback=positive, help="Seconds a solve may take; none if not given.")
]
Actors: TypeAlias = Annotated[
    int,
    typer.Option(min=0, help="Spread the program over so many actors of a local Ray; 0 for none."),
]
MipGap: TypeAlias = Annotated[
    float,
    typer.Option(
        "--mip-gap", callback=_tolerance, help="Relative gap at which highs-milp stops; for no other solver."
    ),
]
Exact: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Prove every round's allocation optimal: copter-exact where copter is named, and --mip-gap 0.",
    ),
]
Traces: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--data",
        exists=True,
        file_okay=False,
        envvar="COPTER_DATA",
        callback=_traces,
        help="Folder of the real traces; without it they are drawn by the generator of their family.",
    ),
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn at random.")]
RayAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ray",
        callback=_address,
        metavar="[ADDRESS]",
        help="Spread the work over Ray: one of this machine alone, or a cluster: auto, host:port, ray://...",
    ),
]
ProcessCount: TypeAlias = Annotated[
    int | None, typer.Option("--processes", min=1, help="Spread the work over so many processes.")
]
JsonFlag: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")
]
JsonPath: TypeAlias = Annotated[
    Path | None, typer.Option("--json", help="Write the JSON document to this file; - prints it.")
]
Isolate: TypeAlias = Annotated[
    bool, typer.Option(help="Give each solver a process of its own, which also measures its peak memory.")
]
