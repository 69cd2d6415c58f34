"""`copter bench all`, `report` and `compare`: the suite of benchmarks, and reports on its results."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import typer

from copter.cli.command import CommandOptions, Options, WithDocument
from copter.cli.console import output, progress, publish, say, seconds, table
from copter.cli.options import one_of, positive
from copter.errors import FileError

if TYPE_CHECKING:
    from rich.progress import Progress

    from copter.bench.report.comparison import Change
    from copter.bench.result_files import SuiteResult
    from copter.bench.suite import Suite, SuiteSettings, SuiteStep

_NOTES = "notes.json"
"""Optional file in a folder of results: a hand-written explanation for each line where copter is slower."""

_Folder: TypeAlias = Annotated[
    Path, typer.Argument(exists=True, file_okay=False, help="Folder of results of `copter bench all`.")
]


@dataclass(frozen=True, kw_only=True)
class SuiteOptions(CommandOptions):
    """Measure solvers on every family of programs, with the same rounds, checker and tolerances.

    A line is a program with its rounds. Each solver of a line runs in its own process. Results that the
    folder already has are kept, so that the same command resumes an interrupted suite.
    """

    examples: ClassVar[str] = """\b
Examples:
  copter bench all --profile quick --out runs/quick --check
  copter bench all --profile full --out runs/full
  copter bench all --profile full --only sia-1024,shards --out runs/some
"""

    out: Annotated[Path, typer.Option(help="Folder of results; an interrupted suite is resumed.")]
    profile: Annotated[
        str,
        typer.Option(callback=one_of(("quick", "full"), "profile"), help="Sizes of programs: quick or full."),
    ] = "quick"
    only: Annotated[
        str, typer.Option(help="Names of lines or families, separated by commas. Default: all.")
    ] = ""
    solvers: Annotated[
        str, typer.Option(help="Names of solvers, separated by commas. Default: all solvers of each line.")
    ] = ""
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Largest number of rounds of a line. Default: all its rounds.")
    ] = None
    limit: Annotated[
        float | None,
        typer.Option("--time-limit", callback=positive, help="Seconds of a solve. Default: by the profile."),
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(callback=positive, help="Seconds for each solver of a line. Default: by the profile."),
    ] = None
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of every solver. Default: number of cores.")
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Folder of real networks. Default: generated ones."),
    ] = None
    lps: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Folder of linear programs. Default: generated ones."
        ),
    ] = None
    check: Annotated[
        bool, typer.Option(help="Exit with 1 if the checker rejects an answer; times are not checked.")
    ] = False
    listed: Annotated[bool, typer.Option("--list", help="List the lines without running them.")] = False

    def suite_settings(self) -> SuiteSettings:
        """Return the settings of the profile, changed by the given options."""
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
            solvers=_names(self.solvers),
        )

    def execute(self) -> None:
        """Run the suite, or list its lines."""
        from copter.bench.suite import Suite

        suite = Suite(self.out, self.suite_settings(), _names(self.only))
        if self.listed:
            _list(suite)
            return
        try:
            with _Bar() as bar:
                result = suite.run(bar.follow)
        except KeyboardInterrupt:
            say(f"interrupted: the same command resumes from {self.out}")
            raise typer.Exit(130) from None
        _show(result)
        say(f"report: {write(self.out, self.out)}")
        if self.check:
            _check(result)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _list(suite: Suite) -> None:
    table(
        "Lines",
        ("line", "family", "description", "solvers", "rounds"),
        [
            (line.name, line.family, line.title, ", ".join(line.solvers), str(line.rounds))
            for line in suite.lines
        ],
        text_columns=4,
    )


class _Bar:
    """Progress on standard error: current line and solver, number of finished solvers, time left."""

    def __init__(self) -> None:
        self._progress: Progress = progress("{task.fields[left]}")
        self._task = self._progress.add_task("suite", total=None, left="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def follow(self, step: SuiteStep) -> None:
        """Show the step that begins, or the result of the step that ended."""
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
    """Print, for each line, the times of copter and of the fastest other solver."""
    from copter.bench.statistics import verdicts

    found = verdicts(suite)
    won = sum(one.won for one in found)
    table(
        f"Fastest at equal certified quality: copter on {won} of {len(found)} lines",
        ("line", "copter's solver", "fastest other solver", "its seconds / copter's", "least", "most"),
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
    say("the checker accepts every answer")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """Write report.html, report.md and plots from the results of `copter bench all`."""

    examples: ClassVar[str] = """\b
Examples:
  copter bench report runs/full
  copter bench report runs/full --papers bench/results/papers --out site
"""

    folder: _Folder
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder of the report. Default: the folder of results."),
    ] = None
    papers: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Folder with documents of `copter reproduce --all` to add to the report.",
        ),
    ] = None

    def execute(self) -> None:
        """Write the report."""
        written = write(self.folder, self.out or self.folder, self.papers)
        output().print(str(written), highlight=False, soft_wrap=True)


def write(folder: Path, out: Path, papers: Path | None = None) -> Path:
    """Write the report on a folder of results, which may be incomplete.

    Parameters
    ----------
    folder : Path
        Folder of results.
    out : Path
        Folder of the report.
    papers : Path, optional
        Folder of the documents of ``copter reproduce``.

    Returns
    -------
    Path
        The page report.html.
    """
    from copter.bench.report.page import HTML, make_report, write_report
    from copter.bench.result_files import load_suite

    write_report(make_report(load_suite(folder), notes_of(folder), papers), out)
    return out / HTML


def notes_of(folder: Path) -> dict[str, str]:
    """Return the texts of notes.json by name of line; empty if the folder has no such file.

    Raises
    ------
    FileError
        If the file is not a JSON object of texts.
    """
    path = folder / _NOTES
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise FileError(path, f"must be JSON: {error}") from None
    if not isinstance(found, Mapping) or not all(isinstance(text, str) for text in found.values()):
        raise FileError(path, "must be a JSON object that maps names of lines to texts")
    return dict(found)


@dataclass(frozen=True, kw_only=True)
class CompareOptions(WithDocument, Options):
    """Compare two folders of results: the ratio of copter's round times, new / old, and lost certificates."""

    examples: ClassVar[str] = """\b
Examples:
  copter bench compare runs/before runs/after
  copter bench compare runs/before runs/after --fail-on-regression
"""

    old: _Folder
    new: _Folder
    threshold: Annotated[
        float,
        typer.Option(min=1.0, help="Report a regression if the ratio's whole interval exceeds this."),
    ] = 1.1
    fail: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit with 1 if there is a regression.")
    ] = False

    def execute(self) -> None:
        """Compare the folders."""
        from copter.bench.report.comparison import compare
        from copter.bench.result_files import load_suite

        found, changes = compare(load_suite(self.old), load_suite(self.new), self.threshold)
        document = {"differences": found, "changes": changes}
        publish(document, self.json_path, partial(_show_changes, found, changes))
        if self.fail and any(change.regressed for change in changes):
            raise typer.Exit(1)


def _show_changes(differences: Sequence[str], changes: Sequence[Change]) -> None:
    from copter.bench.formats import times

    for difference in differences:
        say(f"differs: {difference}")
    table(
        "Time of a round, new / old: median over the rounds, with its interval",
        ("line", "solver", "outcome", "old", "new", "new / old", "from", "to"),
        [
            (
                one.line,
                one.solver,
                one.outcome,
                seconds(one.old),
                seconds(one.new),
                *(times(value) for value in (one.ratio, one.low, one.high)),
            )
            for one in changes
        ],
        text_columns=3,
    )
    say(f"regressions: {sum(one.regressed for one in changes)} of {len(changes)}")


COMMANDS = {"bench all": SuiteOptions, "bench report": ReportOptions, "bench compare": CompareOptions}
