"""Commands from frozen dataclasses: fields are options, and what goes into a document is read from them too.

A field with ``typer.Option`` or ``typer.Argument`` in its type is an option of the command; one without is a
setting that the command leaves alone.  Options that belong together are checked in ``__post_init__``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer
from typer.models import ParameterInfo

from copter.cli.options import (
    Actors,
    Deadline,
    Exact,
    Isolate,
    JsonFlag,
    JsonPath,
    ProcessCount,
    RayAddress,
    Seed,
    SolverNames,
    Threads,
    Tolerance,
)
from copter.cli.solvers import Names

if TYPE_CHECKING:
    from copter.bench.settings import SolverSettings
    from copter.tasks.tasks import TaskRunner

_ASIDE = ("out", "force", "as_json", "json_path", "ray", "processes")
"""Where a command writes, and where it runs, which is no setting of what it computes."""

_Out: TypeAlias = Annotated[
    Path | None, typer.Option(help="Run folder; runs/<domain>-<time>, or with --json none, if not given.")
]
_Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace the run that the folder of --out holds.", show_default=False)
]


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """Options of a command, checked."""

    seed: Seed = 0

    def settings(self) -> dict[str, Any]:
        """Return all that the command computes from, as it stands in config.json and in documents."""
        own = asdict(self)
        return {field.name: _plain(own[field.name]) for field in _ordered(type(self)) if field.name in own}


def _ordered(options: type[CommandOptions]) -> Iterator[Field[Any]]:
    """Iterate over the settings of a class, its own before those that it shares with others."""
    return (field for field in _in_order(options) if field.name not in _ASIDE)


def _in_order(options: type[CommandOptions]) -> list[Field[Any]]:
    there = {field.name: field for field in fields(options)}
    names = [name for cls in options.__mro__ for name in cls.__dict__.get("__annotations__", {})]
    return [there[name] for name in dict.fromkeys(names) if name in there]


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True)
class WithProcesses(CommandOptions):
    """Where work that can be spread runs; its results are the same everywhere."""

    ray: RayAddress = None
    processes: ProcessCount = None

    def spread(self) -> TaskRunner:
        """Return where tasks run: here if nothing else is asked for.

        Raises
        ------
        MissingExtraError
            Ray is not installed.
        """
        if self.ray is not None and self.processes is not None:
            raise typer.BadParameter("leave out either this or --ray", param_hint="--processes")
        return _where(self.ray, self.processes)


def _where(ray: str | None, processes: int | None) -> TaskRunner:
    """Return where tasks run.

    Parameters
    ----------
    ray : str, optional
        Address.
    processes : int, optional
        How many; with neither, tasks run here.
    """
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
    """How solvers are run; a part of options."""

    tolerance: Tolerance = 1e-6
    mip_gap: float = 1e-3
    deadline: Deadline = None
    threads: Threads = None

    def solver_settings(self, name: str) -> SolverSettings:
        """Return the settings of a solver, or of a method of the domain's own."""
        from copter.bench.settings import SolverSettings

        return SolverSettings(name, self.tolerance, self.deadline, self.threads, self.mip_gap)


@dataclass(frozen=True, kw_only=True)
class Proving(Solving):
    """How solvers are run on a program of whole numbers."""

    exact: Exact = False

    def solver_name(self, name: str) -> str:
        """Return the solver that is meant: with --exact, ``copter`` is ``copter-exact``."""
        return "copter-exact" if self.exact and name == "copter" else name

    def solver_settings(self, name: str) -> SolverSettings:
        """Return the settings of a solver; with --exact, branch and bound ends at no gap."""
        chosen = super().solver_settings(self.solver_name(name))
        return replace(chosen, mip_gap=0.0) if self.exact else chosen


@dataclass(frozen=True, kw_only=True)
class OverActors(Solving):
    """How solvers are run whose programs can be spread over actors."""

    actors: Actors = 0

    def solver_settings(self, name: str) -> SolverSettings:
        """Return the settings of a solver; its programs are spread over actors if that was asked for."""
        return replace(super().solver_settings(name), actors=self.actors)


@dataclass(frozen=True, kw_only=True)
class RunOptions(CommandOptions):
    """What every ``copter run`` takes."""

    out: _Out = None
    force: _Force = False
    as_json: JsonFlag = False

    def folder(self, domain: str) -> Path | None:
        """Return the folder of the run: the one named, and without --json one by the time of now."""
        from copter.cli.runfolder import default_path

        return self.out if self.out is not None or self.as_json else default_path(domain)


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Solving, CommandOptions):
    """What every ``copter bench`` on a course of rounds takes."""

    solvers: SolverNames = Names(("copter", "highs-hot"))
    json_path: JsonPath = None
    isolate: Isolate = True
    ray: RayAddress = None

    def spread(self) -> TaskRunner:
        """Return where solvers are measured: in a process of their own, unless they share this one."""
        return _where(self.ray, 1 if self.isolate else None)


AnyOptions = TypeVar("AnyOptions", bound=CommandOptions)


def command(options: type[AnyOptions], body: Callable[[AnyOptions], None]) -> Callable[..., None]:
    """Return the function that typer makes a command of: it takes the options, and calls ``body`` with them.

    Parameters
    ----------
    options : type of CommandOptions
        Its docstring is the help of the command.
    """

    def run(**values: Any) -> None:
        body(options(**values))

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
    return run


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    if field.default is MISSING:
        return inspect.Parameter.empty
    return str(field.default) if isinstance(field.default, Names) else field.default


def command_line() -> list[str]:
    """Return the command as it was given, for config.json."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]
