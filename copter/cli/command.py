"""Commands from frozen dataclasses: the fields are options, and also the settings in JSON documents.

A field with ``typer.Option`` or ``typer.Argument`` in its type is an option of the command. A field without
one is a setting that always has its default. ``__post_init__`` checks options that depend on each other.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer
from typer.models import ParameterInfo

from copter.cli.options import (
    Actors,
    Deadline,
    Environment,
    Environments,
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

_NOT_SETTINGS = ("out", "force", "as_json", "json_path", "ray", "processes")
"""Options that do not change the results: the place of the output and of the computation."""

_Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Run folder. Default: runs/<domain>-<time>; with --json, no folder."),
]
_Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace an earlier run in the folder --out.", show_default=False)
]


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """Checked options of a command; the base class of all of them."""

    seed: Seed = 0

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine the results, as written to config.json and JSON documents."""
        own = asdict(self)
        return {field.name: _plain(own[field.name]) for field in _ordered(type(self)) if field.name in own}


def _ordered(options: type[CommandOptions]) -> Iterator[Field[Any]]:
    """Return the settings of a class, those of its base classes last."""
    return (field for field in _in_order(options) if field.name not in _NOT_SETTINGS)


def _in_order(options: type[CommandOptions]) -> list[Field[Any]]:
    there = {field.name: field for field in fields(options)}
    names = [name for cls in options.__mro__ for name in cls.__dict__.get("__annotations__", {})]
    return [there[name] for name in dict.fromkeys(names) if name in there]


def _plain(value: Any) -> Any:
    """Return a value of a document; of an environment, its name only."""
    if isinstance(value, Environment):
        return value.name
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


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
            Ray is not installed.
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
    deadline: Deadline = None
    threads: Threads = None

    def solver_settings(self, name: str) -> SolverSettings:
        """Return the settings of a solver, or of one of the domain's own methods."""
        from copter.bench.settings import SolverSettings

        return SolverSettings(name, self.tolerance, self.deadline, self.threads, self.mip_gap)


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
class RunOptions(CommandOptions):
    """Options of every ``copter run``."""

    out: _Out = None
    force: _Force = False
    as_json: JsonFlag = False

    def folder(self, domain: str) -> Path | None:
        """Return the folder of the run: --out, or None with --json, or a folder named after the time."""
        from copter.cli.runfolder import default_path

        return self.out if self.out is not None or self.as_json else default_path(domain)


@dataclass(frozen=True, kw_only=True)
class WithEnvironments(Solving):
    """Options of solvers or methods that may need an environment of their own."""

    environment: Environments = field(default_factory=list)

    def solver_settings(self, name: str) -> SolverSettings:
        """Return the settings of a solver, with the interpreters of the environments.

        Raises
        ------
        typer.BadParameter
            The solver needs an environment that was not given.
        """
        from copter.bench.environments import missing
        from copter.bench.solvers import ENVIRONMENT_OF

        given, needed = dict(self.environment), ENVIRONMENT_OF.get(name)
        if needed is not None and needed not in given:
            raise typer.BadParameter(f"{name}: {missing(needed)}", param_hint="--environment")
        return replace(super().solver_settings(name), environments=given)


@dataclass(frozen=True, kw_only=True)
class BenchOptions(WithEnvironments, CommandOptions):
    """Options of every ``copter bench`` that plays the rounds of a course."""

    solvers: SolverNames = Names(("copter", "highs-hot"))
    json_path: JsonPath = None
    isolate: Isolate = True
    ray: RayAddress = None

    def spread(self) -> TaskRunner:
        """Return a runner of tasks: on Ray, in one other process, or in this one with --no-isolate."""
        return _where(self.ray, 1 if self.isolate else None)


AnyOptions = TypeVar("AnyOptions", bound=CommandOptions)


def command(options: type[AnyOptions], body: Callable[[AnyOptions], None]) -> Callable[..., None]:
    """Return a function for typer, with the options as arguments, that calls `body` with an instance of them.

    Parameters
    ----------
    options : type of CommandOptions
        Class of the options. Its docstring is the help text of the command.
    body : callable
        Function that does the work.
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
    """Return the command line of this process, for results; a word replaces interpreters of environments."""
    words = [re.sub(r"^(--environment=[^=]*=).*", r"\1PYTHON", word) for word in sys.argv[1:]]
    for k in range(1, len(words)):
        if words[k - 1] == "--environment":
            words[k] = f"{words[k].partition('=')[0]}=PYTHON"
    return [Path(sys.argv[0]).name, *words]
