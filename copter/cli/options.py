"""Options of several commands, and the checks of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

from copter.bench.solvers import BASELINES
from copter.cli.console import STANDARD_OUTPUT
from copter.cli.solvers import Names, check_known, check_names, check_solver


def positive(value: float | None) -> float | None:
    """Return the value; raise a usage error unless it is None or greater than 0."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"{value:g} must be greater than 0")
    return value


def _tolerance(value: float) -> float:
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value:g} must be above 0 and below 1, for example 1e-4")
    return value


_LOCAL_RAY = "local"


def _is_address(text: str) -> bool:
    """Return whether a word is an address of Ray, rather than the next argument of the command."""
    return text in (_LOCAL_RAY, "auto") or ":" in text


def _is_document(text: str) -> bool:
    """Return whether a word is a path for ``--json``, rather than the next argument of the command."""
    return text == str(STANDARD_OUTPUT) or text.endswith(".json")


_WITHOUT_VALUE = {"--ray": (_LOCAL_RAY, _is_address), "--json": (str(STANDARD_OUTPUT), _is_document)}
"""By option that may be given without a value: the default, and a function that recognises a value."""


class Command(TyperCommand):
    """A command in which ``--ray`` and ``--json`` need no value: a new local Ray, and standard output."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the value of an option that is given without a value, because typer requires a value."""
        own = {name for param in self.params for name in param.opts}
        end = args.index("--") if "--" in args else len(args)
        full = []
        for word, after in zip(args[:end], [*args, ""][1 : end + 1], strict=True):
            full.append(word)
            if word in own and word in _WITHOUT_VALUE:
                value, is_value = _WITHOUT_VALUE[word]
                full += [] if is_value(after) else [value]
        return super().parse_args(ctx, full + args[end:])


def _address(value: str | None) -> str | None:
    if value is not None and not _is_address(value):
        raise typer.BadParameter(f"{value!r} must be auto, host:port or ray://host:port, or be omitted")
    return value


def _document(path: Path | None) -> Path | None:
    """Return the path of a document; raise a usage error if the document cannot be written there."""
    if path is not None and path != STANDARD_OUTPUT:
        there = next(one for one in (path, *path.absolute().parents) if one.exists())
        if there.is_dir() == (there == path) or not os.access(there, os.W_OK):
            raise typer.BadParameter(f"{path} cannot be written")
    return path


def existing_file(hint: str) -> Callable[[Path | None], Path | None]:
    """Return a callback that checks that a path, if given, is a file; the error ends with `hint`."""

    def check(path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise typer.BadParameter(f"{path} is not a file: {hint}")
        return path

    return check


def _traces(path: Path | None) -> Path | None:
    """Return the folder of the cluster traces: the subfolder ``cluster`` if `path` has it, else `path`."""
    inside = None if path is None else path / "cluster"
    return inside if inside is not None and inside.is_dir() else path


def one_of(known: Sequence[str], what: str) -> Callable[[str | None], str | None]:
    """Return a callback that checks that a name, if given, is in `known`."""

    def check(name: str | None) -> str | None:
        return None if name is None else check_known(name, known, what)

    return check


def some_of(known: Sequence[str], what: str) -> Callable[[str], Names]:
    """Return a parser of comma-separated names that checks that all names are in `known`."""
    return lambda text: check_names(text, what, lambda name: check_known(name, known, what))


def solver_option(methods: Sequence[str] = ()) -> Any:
    """Return the option --solver, which also accepts `methods` (:func:`copter.cli.solvers.check_solver`)."""
    return typer.Option(
        "--solver",
        callback=lambda name: check_solver(name, methods),
        help=f"Name of the solver; `copter solvers` lists them.{_also(methods)}",
    )


def solvers_option(methods: Sequence[str] = ()) -> Any:
    """Return the option --solvers of benchmarks, which also accepts baselines and a domain's `methods`."""
    others = (*BASELINES, *methods)
    return typer.Option(
        "--solvers",
        parser=lambda names: check_names(names, "solver", lambda name: check_solver(name, others)),
        metavar="NAMES",
        help=f"Names of solvers, separated by commas; `copter solvers` lists them.{_also(others)}",
    )


def policies_option(known: Callable[[], Sequence[str]]) -> Any:
    """Return the option --policy: names of policies, or all; `known` is called when the option is read."""

    def parse(text: str) -> Names:
        names = check_names(text, "policy", lambda name: check_known(name, (*known(), "all"), "policy"))
        return Names(known()) if "all" in names else names

    return typer.Option(
        "--policy",
        parser=parse,
        metavar="NAMES",
        help="Names of policies, separated by commas, or all; an unknown name prints the known ones.",
    )


def _also(methods: Sequence[str]) -> str:
    return f" Also: {', '.join(methods)}." if methods else ""


SolverName: TypeAlias = Annotated[str, solver_option()]
SolverNames: TypeAlias = Annotated[Names, solvers_option()]
Tolerance: TypeAlias = Annotated[
    float, typer.Option(callback=_tolerance, help="Relative residuals and gap at which a solve may stop.")
]
Threads: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Threads of the solver. Default: the solver's own default.")
]
TimeLimit: TypeAlias = Annotated[
    float | None,
    typer.Option(
        callback=positive, help="Seconds of a solve, or of a round with copter run. Default: no limit."
    ),
]
Actors: TypeAlias = Annotated[
    int,
    typer.Option(min=0, help="Distribute the program over this number of local Ray actors; 0: no Ray."),
]
MipGap: TypeAlias = Annotated[
    float,
    typer.Option(
        "--mip-gap", callback=_tolerance, help="Relative gap at which highs-milp stops; others ignore it."
    ),
]
Exact: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Prove each round's allocation optimal: use copter-exact instead of copter, and --mip-gap 0.",
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
        help="Folder of the real traces. Default: synthetic traces of a generator.",
    ),
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
RayAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ray",
        callback=_address,
        metavar="[ADDRESS]",
        help="Run the work on Ray: a new local Ray without ADDRESS, or a cluster: auto, host:port, ray://...",
    ),
]
ProcessCount: TypeAlias = Annotated[
    int | None, typer.Option("--processes", min=1, help="Run the work in this number of processes.")
]
Json: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="[PATH]",
        callback=_document,
        help="Write a JSON document to PATH, which ends in .json; without PATH, print it and nothing else.",
    ),
]
Isolate: TypeAlias = Annotated[
    bool, typer.Option(help="Run each solver in its own process, which also measures its peak memory.")
]
