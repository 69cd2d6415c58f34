"""`copter bench all`: every line of a profile through every solver, into a folder of results."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from copter.cli.command import Options, command
from copter.cli.console import errors, seconds, table
from copter.cli.options import one_of, positive

if TYPE_CHECKING:
    from rich.progress import Progress

    from copter.bench.suite.results import SuiteResult
    from copter.bench.suite.runner import Step, Suite, SuiteSettings

_EXAMPLES = """\b
Examples:
  copter bench all --profile quick --out runs/quick --check
  copter bench all --profile full --out runs/full
  copter bench all --profile full --only sia-1024,shards --out runs/some
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module.

    Parameters
    ----------
    run, bench : typer.Typer
        The groups `copter run` and `copter bench`.
    """
    bench.command("all", epilog=_EXAMPLES)(command(SuiteOptions, bench_all))


@dataclass(frozen=True, kw_only=True)
class SuiteOptions(Options):
    """Measure every family of programs through every solver: the same rounds, one checker, equal tolerances.

    Each solver of a line runs in a process of its own. What is in the folder already is kept; an interrupted
    suite goes on with the same command.
    """

    out: Annotated[Path, typer.Option(help="Folder of results; one that was begun goes on.")]
    profile: Annotated[
        str, typer.Option(callback=one_of(("quick", "full"), "profile"), help="quick or full.")
    ] = "quick"
    only: Annotated[str, typer.Option(help="Lines or families, separated by commas; all if not given.")] = ""
    solvers: Annotated[
        str, typer.Option(help="Solvers, separated by commas; all of each line if not given.")
    ] = ""
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of a line at most; each line's own if not given.")
    ] = None
    limit: Annotated[
        float | None, typer.Option(callback=positive, help="Seconds a solve; the profile's if not given.")
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(callback=positive, help="Seconds of a solver on a line; the profile's if not given."),
    ] = None
    threads: Annotated[int | None, typer.Option(min=1, help="Of every solver; the cores if not given.")] = (
        None
    )
    data: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Folder with the real networks; else generated."),
    ] = None
    lps: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Folder of linear programs; else generated."),
    ] = None
    dede_python: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Python of an environment with the package dede."),
    ] = None
    check: Annotated[
        bool, typer.Option(help="Exit with 1 if an answer is not what it claims to be; never for speed.")
    ] = False
    listed: Annotated[bool, typer.Option("--list", help="Say which lines there are, and run none.")] = False

    def suite_settings(self) -> SuiteSettings:
        """Return the profile's settings with what was given in their place."""
        from copter.bench.suite.runner import DEFAULTS, cores

        chosen = DEFAULTS["full" if self.profile == "full" else "quick"]
        return replace(
            chosen,
            threads=self.threads or cores(),
            limit=self.limit or chosen.limit,
            seconds=self.budget or chosen.seconds,
            rounds=self.rounds,
            seed=self.seed,
            data=self.data,
            lps=self.lps,
            dede_python=self.dede_python,
            solvers=_names(self.solvers),
        )


def bench_all(options: SuiteOptions) -> None:
    """Run the command."""
    from copter.bench.suite.runner import Suite
    from copter.cli.suite_report import write as write_report

    suite = Suite(options.out, options.suite_settings(), _names(options.only))
    if options.listed:
        _list(suite)
        return
    try:
        with _Bar() as bar:
            result = suite.run(bar.follow)
    except KeyboardInterrupt:
        errors().print(f"interrupted: the same command goes on from {options.out}", highlight=False)
        raise typer.Exit(130) from None
    _show(result)
    errors().print(f"report: {write_report(options.out, options.out)}", highlight=False, soft_wrap=True)
    if options.check:
        _check(result)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _list(suite: Suite) -> None:
    table(
        "Lines",
        ("line", "family", "what it is", "solvers", "rounds"),
        [
            (line.name, line.family, line.title, ", ".join(line.solvers), str(line.rounds))
            for line in suite.lines
        ],
        text_columns=4,
    )


class _Bar:
    """Progress on standard error: which solver of which line, how many are done, about how long it takes."""

    def __init__(self) -> None:
        from copter.cli.console import progress

        self._progress: Progress = progress("{task.fields[left]}")
        self._task = self._progress.add_task("suite", total=None, left="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def follow(self, step: Step) -> None:
        """Show a step, and a line of what it came to."""
        what = f"{step.line} {step.solver}"
        if step.result is None:
            left = f"about {seconds(step.left)} left" if math.isfinite(step.left) else ""
            self._progress.update(
                self._task, description=what, total=step.of, completed=step.number - 1, left=left
            )
            return
        self._progress.update(self._task, completed=step.number)
        from copter.bench.suite.statistics import spread

        one = step.result
        p50 = spread(record["t_total"] for record in one.records[1:] or one.records).p50
        text = f"{what}: {one.status}" + (f", {seconds(p50)} a round" if one.records else "")
        uncertified = sum(not record["certified"] for record in one.records)
        text += f", {uncertified} of {len(one.records)} rounds not certified" if uncertified else ""
        text += f" ({one.reason})" if one.reason else ""
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _show(suite: SuiteResult) -> None:
    """Print the verdict, and where copter is not the fastest."""
    from copter.bench.suite.statistics import verdicts

    found = verdicts(suite)
    won = sum(one.won for one in found)
    table(
        f"Fastest at equal certified quality: copter on {won} of {len(found)} lines",
        ("line", "ours", "the fastest other", "its seconds over ours", "least", "most"),
        [
            (one.line, one.ours, one.rival or "-", *(f"{v:.3g}" for v in (one.ratio, one.low, one.high)))
            for one in found
        ],
        text_columns=3,
    )


def _check(suite: SuiteResult) -> None:
    from copter.bench.suite.validity import problems

    wrong = problems(suite)
    for line in wrong:
        errors().print(line, highlight=False, markup=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(1)
    errors().print("every answer is what it claims to be", highlight=False)
