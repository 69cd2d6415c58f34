"""`copter bench all`, `report` and `compare`: the suite, and what its folders of results say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from copter.cli.command import CommandOptions, command
from copter.cli.console import output, progress, publish, say, seconds, table
from copter.cli.options import JsonPath, one_of, positive
from copter.errors import FileError

if TYPE_CHECKING:
    from rich.progress import Progress

    from copter.bench.report.comparison import Comparison
    from copter.bench.result_files import SuiteResult
    from copter.bench.suite import Suite, SuiteSettings, SuiteStep

_NOTES = "notes.json"
"""In a folder of results: why copter is not the fastest on a line, by the line's name.  Written by people."""
_ALL_EXAMPLES = """\b
Examples:
  copter bench all --profile quick --out runs/quick --check
  copter bench all --profile full --out runs/full
  copter bench all --profile full --only sia-1024,shards --out runs/some
"""
_REPORT_EXAMPLES = """\b
Examples:
  copter bench report runs/full
  copter bench report runs/full --papers bench/results/papers --out site
"""
_COMPARE_EXAMPLES = """\b
Examples:
  copter bench compare runs/before runs/after
  copter bench compare runs/before runs/after --all-solvers --json -
  copter bench compare runs/before runs/after --fail-on-regression
"""

_Folder: TypeAlias = Annotated[
    Path, typer.Argument(exists=True, file_okay=False, help="Folder that `copter bench all` wrote.")
]


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    bench.command("all", epilog=_ALL_EXAMPLES)(command(SuiteOptions, _bench_all))
    bench.command("report", epilog=_REPORT_EXAMPLES)(report)
    bench.command("compare", epilog=_COMPARE_EXAMPLES)(compare)


@dataclass(frozen=True, kw_only=True)
class SuiteOptions(CommandOptions):
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
        from copter.bench.suite import DEFAULTS
        from copter.parallel import available_threads

        chosen = DEFAULTS["full" if self.profile == "full" else "quick"]
        return replace(
            chosen,
            threads=self.threads or available_threads(),
            limit=self.limit or chosen.limit,
            seconds=self.budget or chosen.seconds,
            rounds=self.rounds,
            seed=self.seed,
            data=self.data,
            lps=self.lps,
            dede_python=self.dede_python,
            solvers=_names(self.solvers),
        )


def _bench_all(options: SuiteOptions) -> None:
    """Run the command."""
    from copter.bench.suite import Suite

    suite = Suite(options.out, options.suite_settings(), _names(options.only))
    if options.listed:
        _list(suite)
        return
    try:
        with _Bar() as bar:
            result = suite.run(bar.follow)
    except KeyboardInterrupt:
        say(f"interrupted: the same command goes on from {options.out}")
        raise typer.Exit(130) from None
    _show(result)
    say(f"report: {write(options.out, options.out)}")
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
        self._progress: Progress = progress("{task.fields[left]}")
        self._task = self._progress.add_task("suite", total=None, left="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def follow(self, step: SuiteStep) -> None:
        """Show a step, and a line of what it came to."""
        what = f"{step.line} {step.solver}"
        if step.result is None:
            left = f"about {seconds(step.left)} left" if math.isfinite(step.left) else ""
            self._progress.update(
                self._task, description=what, total=step.of, completed=step.number - 1, left=left
            )
            return
        self._progress.update(self._task, completed=step.number)
        from copter.bench.statistics import spread

        one = step.result
        p50 = spread(record["seconds"] for record in one.records[1:] or one.records)["median"]
        text = f"{what}: {one.status}" + (f", {seconds(p50)} a round" if one.records else "")
        uncertified = sum(not record["certified"] for record in one.records)
        text += f", {uncertified} of {len(one.records)} rounds not certified" if uncertified else ""
        text += f" ({one.reason})" if one.reason else ""
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _show(suite: SuiteResult) -> None:
    """Print the verdict, and where copter is not the fastest."""
    from copter.bench.statistics import verdicts

    found = verdicts(suite)
    won = sum(one.won for one in found)
    table(
        f"Fastest at equal certified quality: copter on {won} of {len(found)} lines",
        ("line", "ours", "the fastest other", "its seconds over ours", "least", "most"),
        [
            (one.line, one.ours, one.baseline or "-", *(f"{v:.3g}" for v in (one.ratio, one.low, one.high)))
            for one in found
        ],
        text_columns=3,
    )


def _check(suite: SuiteResult) -> None:
    from copter.bench.checks import problems

    wrong = problems(suite)
    for line in wrong:
        say(line)
    if wrong:
        raise typer.Exit(1)
    say("every answer is what it claims to be")


def report(
    folder: _Folder,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Where to write; into the folder if not given.")
    ] = None,
    papers: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Folder of documents of `copter reproduce NAME --json`: the papers' figures beside ours.",
        ),
    ] = None,
) -> None:
    """Write report.html, report.md and pictures from the results of `copter bench all`."""
    written = write(folder, out or folder, papers)
    output().print(str(written), highlight=False, soft_wrap=True)


def write(folder: Path, out: Path, papers: Path | None = None) -> Path:
    """Write the report of a folder of results, whole or under way.

    Parameters
    ----------
    out : Path
        Folder that it goes to.
    papers : Path, optional
        Folder of the documents of ``copter reproduce``.

    Returns
    -------
    Path
        Of the page.
    """
    from copter.bench.report.page import HTML, make_report, write_report
    from copter.bench.result_files import load_suite

    write_report(make_report(load_suite(folder), notes_of(folder), papers), out)
    return out / HTML


def notes_of(folder: Path) -> dict[str, str]:
    """Read what people wrote on lines, if they did.

    Raises
    ------
    FileError
        The file is there and is no object of texts.
    """
    path = folder / _NOTES
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise FileError(path, f"is no JSON: {error}") from None
    if not isinstance(found, Mapping) or not all(isinstance(text, str) for text in found.values()):
        raise FileError(path, "is no object of texts by names of lines")
    return dict(found)


def compare(
    old: _Folder,
    new: _Folder,
    threshold: Annotated[
        float, typer.Option(min=1.0, help="A ratio whose lower end is above this is a regression.")
    ] = 1.1,
    all_solvers: Annotated[
        bool, typer.Option("--all-solvers", help="Other solvers than copter's too.")
    ] = False,
    fail: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit with 1 if there is a regression.")
    ] = False,
    json_path: JsonPath = None,
) -> None:
    """Compare two folders of results: seconds of a round, new over old, and certificates that were lost."""
    from copter.bench.report.comparison import compare as compared
    from copter.bench.result_files import load_suite

    found = compared(load_suite(old), load_suite(new), threshold=threshold, everybody=all_solvers)
    document = {"differences": found.differences, "changes": found.changes, "regressions": found.regressions}
    publish(document, json_path, lambda: _show_changes(found))
    if fail and found.regressions:
        raise typer.Exit(1)


def _show_changes(found: Comparison) -> None:
    from copter.bench.formats import times

    for difference in found.differences:
        say(f"differs: {difference}")
    table(
        "A round, new over old: median round by round, with its spread",
        ("line", "solver", "outcome", "old", "new", "new / old", "from", "to", "memory"),
        [
            (
                one.line,
                one.solver,
                one.outcome,
                seconds(one.old),
                seconds(one.new),
                *(times(value) for value in (one.ratio, one.low, one.high, one.memory)),
            )
            for one in found.changes
        ],
        text_columns=3,
    )
    for solver, (mean, lines) in found.means().items():
        say(f"{solver}: {times(mean)} over {lines} lines (geometric mean)")
    regressions = found.regressions
    say(f"{len(regressions)} regressions" if regressions else "no regression")
    for one in regressions:
        reason = f": {one.reason}" if one.reason else ""
        say(f"  {one.line}, {one.solver}: {one.outcome}{reason}")
