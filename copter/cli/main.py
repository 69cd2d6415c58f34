"""The `copter` command: its groups and its exit codes; :mod:`copter.cli.domains` finds the domains."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from copter.cli.command import add
from copter.cli.compile import EXAMPLES as COMPILE_EXAMPLES
from copter.cli.compile import compile_kernels
from copter.cli.console import errors
from copter.cli.domains import BenchGroup, RunGroup, service_commands
from copter.cli.options import Command
from copter.cli.reproduce import ReproduceOptions
from copter.cli.rounds import CheckOptions
from copter.cli.solve import EXAMPLES as SOLVE_EXAMPLES
from copter.cli.solve import list_solvers, solve
from copter.errors import CopterError, DomainNameError

_EXAMPLES = """\b
Examples:
  copter run sia --gpus 512 --jobs-per-day 960 --hours 6
  copter bench sia --gpus 1024 --jobs 200 --solvers copter,highs-hot
  copter solve afiro.mps
"""


_GROUPS = {"Solve": ("solve", "solvers", "compile"), "Evaluate": ("run", "bench", "check", "reproduce")}
"""Commands under each heading of the help."""


class _Groups(TyperGroup):
    """The command `copter`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of copter's commands and of the commands of installed services."""
        return [*super().list_commands(ctx), *service_commands()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with the name `cmd_name`, or None."""
        return super().get_command(ctx, cmd_name) or service_commands().get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of each group of `_GROUPS` under its heading; services are the last group."""
        left = self.list_commands(ctx)
        width = max(map(len, left))
        room = formatter.width - width - 6
        for heading, names in (*_GROUPS.items(), ("Serve jobs", ())):
            own = [name for name in names or left if name in left]
            left = [name for name in left if name not in own]
            with formatter.section(heading):
                short = ((name, self.get_command(ctx, name).get_short_help_str(room)) for name in own)
                formatter.write_dl([(name.ljust(width), text) for name, text in short])


app = typer.Typer(
    name="copter",
    cls=_Groups,
    help="Continual optimization: solve a large program every round, warm-started, with a certified gap.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # help and usage errors are plain, because importing rich makes help 50% slower
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_run_app = typer.Typer(
    cls=RunGroup, help="Play the rounds of a domain and report the results.", no_args_is_help=True
)
_bench_app = typer.Typer(cls=BenchGroup, help="Measure solvers on the same rounds.", no_args_is_help=True)
app.add_typer(_run_app, name="run")
app.add_typer(_bench_app, name="bench")
app.command("solve", cls=Command, epilog=SOLVE_EXAMPLES)(solve)
app.command("solvers", cls=Command)(list_solvers)
app.command("compile", epilog=COMPILE_EXAMPLES)(compile_kernels)
add(app, "check", CheckOptions)
add(app, "reproduce", ReproduceOptions)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"copter {version('copter-opt')}")
        raise typer.Exit()


@app.callback()
def _configure(
    log_level: Annotated[
        str,
        typer.Option(help="Least severe log messages on standard error: debug, info, warning or error."),
    ] = "warning",
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Set the options that are common to all commands."""
    level = logging.getLevelNamesMapping().get(log_level.upper())
    if level is None:
        raise typer.BadParameter(
            f"{log_level!r} must be debug, info, warning or error", param_hint="--log-level"
        )
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("copter").setLevel(level)


def main() -> None:
    """Run the command; exit with 2 for wrong arguments, and with 1 and a one-line reason for a failure."""
    try:
        app()
    except (CopterError, OSError) as error:
        errors().print(f"[bold red]copter:[/] {type(error).__name__}: ", end="")
        said = "; ".join((str(error), *getattr(error, "__notes__", ())))
        errors().print(said, markup=False, highlight=False, soft_wrap=True)
        sys.exit(2 if isinstance(error, DomainNameError) else 1)
    except SystemError as error:  # a compiled function raises this error after Ctrl-C
        if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise
        sys.exit(130)


if __name__ == "__main__":
    main()
