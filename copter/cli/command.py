"""Commands from frozen dataclasses: the fields are options, and also the settings in JSON documents.

A field with ``typer.Option`` or ``typer.Argument`` in its type is an option of the command. A field with
neither is a setting that always has its default. The docstring and ``examples`` are the help text.
``__post_init__`` checks options that depend on each other, and ``execute`` is the command.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, Field, asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, get_type_hints

import typer
from typer.models import ParameterInfo

from copter.bench.formats import plain
from copter.cli.console import STANDARD_OUTPUT
from copter.cli.options import (
    Actors,
    Command,
    Exact,
    Isolate,
    Json,
    ProcessCount,
    RayAddress,
    Seed,
    SolverNames,
    Threads,
    TimeLimit,
    Tolerance,
)
from copter.cli.solvers import Names

if TYPE_CHECKING:
    from copter.bench.case import Case
    from copter.bench.settings import SolverSettings
    from copter.tasks.tasks import TaskRunner

_NOT_SETTINGS = ("out", "force", "json_path", "ray", "processes")
"""Options that do not change the results: they set the place of the output or of the computation."""

_Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Run folder. Default: runs/<domain>-<time>; with --json, no folder."),
]
_Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace an earlier run in the folder --out.", show_default=False)
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Checked options of a command; base class of all option classes."""

    examples: ClassVar[str] = ""
    """Text at the end of the help."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine the results, as written to config.json and to JSON documents."""
        own = asdict(self)
        return {field.name: plain(own[field.name]) for field in _ordered(type(self)) if field.name in own}

    def execute(self) -> None:
        """Run the command with these options."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class CommandOptions(Options):
    """Options of a command that draws random numbers."""

    seed: Seed = 0


def _ordered(options: type[Options]) -> Iterator[Field[Any]]:
    """Return the settings of a class, followed by those of its base classes."""
    return (field for field in _in_order(options) if field.name not in _NOT_SETTINGS)


def _in_order(options: type[Options]) -> list[Field[Any]]:
    there = {field.name: field for field in fields(options)}
    names = [name for cls in options.__mro__ for name in cls.__dict__.get("__annotations__", {})]
    return [there[name] for name in dict.fromkeys(names) if name in there]


@dataclass(frozen=True, kw_only=True)
class WithProcesses(CommandOptions):
    """Options of a command whose tasks may run in other processes or on Ray, with the same results."""

    ray: RayAddress = None
    processes: ProcessCount = None

    def spread(self) -> TaskRunner:
        """Return a runner of tasks: in this process unless --ray or --processes is given.

        Raises
        ------
        MissingExtraError
            If Ray is not installed.
        """
        if self.ray is not None and self.processes is not None:
            raise typer.BadParameter("cannot be combined with --ray", param_hint="--processes")
        return _where(self.ray, self.processes)


def _where(ray: str | None, processes: int | None) -> TaskRunner:
    """Return a runner of tasks on the Ray address `ray`, in a number of processes, or in this process."""
    if ray is not None:
        from copter.tasks.on_ray import OnRay

        return OnRay(ray)
    if processes is not None:
        from copter.tasks.processes import Processes

        return Processes(processes)
    from copter.tasks.tasks import Here

    return Here()


@dataclass(frozen=True, kw_only=True)
class Solving:
    """Options of a solver."""

    tolerance: Tolerance = 1e-6
    mip_gap: float = 1e-3
    time_limit: TimeLimit = None
    threads: Threads = None

    def solver_settings(self, name: str) -> SolverSettings:
        """Return the settings of a solver, or of one of the domain's own methods."""
        from copter.bench.settings import SolverSettings

        return SolverSettings(name, self.tolerance, self.time_limit, self.threads, self.mip_gap)


@dataclass(frozen=True, kw_only=True)
class Proving(Solving):
    """Options of a solver of integer programs."""

    exact: Exact = False

    def solver_name(self, name: str) -> str:
        """Return the name of the solver to use: with --exact, ``copter-exact`` instead of ``copter``."""
        return "copter-exact" if self.exact and name == "copter" else name

    def solver_settings(self, name: str) -> SolverSettings:
        """Return the settings of a solver; with --exact, branch and bound stops at gap 0."""
        chosen = super().solver_settings(self.solver_name(name))
        return replace(chosen, mip_gap=0.0) if self.exact else chosen


@dataclass(frozen=True, kw_only=True)
class OverActors(Solving):
    """Options of a solver whose program can be distributed over Ray actors."""

    actors: Actors = 0

    def solver_settings(self, name: str) -> SolverSettings:
        """Return the settings of a solver, with the number of actors for its program."""
        return replace(super().solver_settings(name), actors=self.actors)


@dataclass(frozen=True, kw_only=True)
class WithDocument:
    """Options of a command that prints tables or a JSON document."""

    json_path: Json = None

    @property
    def quiet(self) -> bool:
        """True if standard output is for the document, so that no progress bar is shown."""
        return self.json_path == STANDARD_OUTPUT


@dataclass(frozen=True, kw_only=True)
class RunOptions(WithDocument, CommandOptions):
    """Options of every ``copter run``."""

    out: _Out = None
    force: _Force = False

    def folder(self, domain: str) -> Path | None:
        """Return the folder of the run: --out if given, None with --json, else a folder named by the time."""
        if self.out or self.json_path:
            return self.out
        return Path("runs") / f"{domain}-{datetime.now():%Y%m%d-%H%M%S}"


@dataclass(frozen=True, kw_only=True)
class BenchOptions(WithDocument, Solving, CommandOptions):
    """Options of every ``copter bench`` that plays the rounds of a course."""

    solvers: SolverNames = Names(("copter", "highs-hot"))
    isolate: Isolate = True
    ray: RayAddress = None

    def case(self) -> Case:
        """Return the case to measure."""
        raise NotImplementedError

    def execute(self) -> None:
        """Measure the case with the solvers."""
        from copter.cli.bench import bench

        bench(self.case(), self)

    def spread(self) -> TaskRunner:
        """Return a runner of tasks: on Ray, in one other process, or in this one with --no-isolate."""
        return _where(self.ray, 1 if self.isolate else None)


def add(app: typer.Typer, name: str, options: type[Options], **fixed: Any) -> None:
    """Add a command to an application: its options are the fields of a class, except those in `fixed`."""

    def run(**values: Any) -> None:
        options(**fixed, **values).execute()

    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in _in_order(options)
        if any(isinstance(extra, ParameterInfo) for extra in getattr(hints[field.name], "__metadata__", ()))
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__doc__ = options.__doc__
    app.command(name, cls=Command, epilog=options.examples)(run)


def command_of(name: str, options: type[Options], **fixed: Any) -> Any:
    """Return a command for a group that finds its commands itself; the arguments are as in :func:`add`."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    add(app, name, options, **fixed)
    return typer.main.get_command(app)


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    if field.default is MISSING:
        return inspect.Parameter.empty
    return str(field.default) if isinstance(field.default, Names) else field.default
