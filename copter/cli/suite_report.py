"""`copter bench report` and `copter bench compare`: what a folder of `copter bench all` says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from copter.cli.console import errors, output, save_json, table
from copter.cli.options import JsonPath
from copter.errors import FileError

if TYPE_CHECKING:
    from copter.bench.report.comparison import Comparison

NOTES = "notes.json"
"""In a folder of results: why copter is not the fastest on a line, by the line's name.  Written by people."""

_REPORT_EXAMPLES = """\b
Examples:
  copter bench report runs/full
  copter bench report runs/full --papers docs/benchmarks/papers --out site
"""
_COMPARE_EXAMPLES = """\b
Examples:
  copter bench compare runs/before runs/after
  copter bench compare runs/before runs/after --all-solvers --json -
  copter bench compare runs/before runs/after --fail-on-regression
"""

Folder: TypeAlias = Annotated[
    Path, typer.Argument(exists=True, file_okay=False, help="Folder that `copter bench all` wrote.")
]


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    bench.command("report", epilog=_REPORT_EXAMPLES)(report)
    bench.command("compare", epilog=_COMPARE_EXAMPLES)(compare)


def report(
    folder: Folder,
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
    """Write report.html, report.md and pictures from the results of `copter bench all`.

    \f

    Parameters
    ----------
    folder : Path
    out : Path, optional
    papers : Path, optional
    """  # noqa: D301
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
    from copter.bench.suite.results import load_suite

    write_report(make_report(load_suite(folder), notes_of(folder), papers), out)
    return out / HTML


def notes_of(folder: Path) -> dict[str, str]:
    """Read what people wrote on lines, if they did.

    Returns
    -------
    dict of str to str

    Raises
    ------
    FileError
        The file is there and is no object of texts.
    """
    path = folder / NOTES
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
    old: Folder,
    new: Folder,
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
    """Compare two folders of results: seconds of a round, new over old, and certificates that were lost.

    \f

    Parameters
    ----------
    old, new : Path
    threshold : float
    all_solvers, fail : bool
    json_path : Path, optional
    """  # noqa: D301
    from copter.bench.report.comparison import compare as compared
    from copter.bench.suite.results import load_suite

    found = compared(load_suite(old), load_suite(new), threshold=threshold, everybody=all_solvers)
    if json_path is not None:
        document = {"differences": found.differences, "changes": [asdict(one) for one in found.changes]}
        save_json(document | {"regressions": [asdict(one) for one in found.regressions]}, json_path)
    if str(json_path) != "-":
        _show(found)
    if fail and found.regressions:
        raise typer.Exit(1)


def _show(found: Comparison) -> None:
    from copter.bench.report.numbers import seconds, times

    for difference in found.differences:
        errors().print(f"differs: {difference}", markup=False, highlight=False)
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
        errors().print(
            f"{solver}: {times(mean)} over {lines} lines (geometric mean)", markup=False, highlight=False
        )
    regressions = found.regressions
    errors().print(f"{len(regressions)} regressions" if regressions else "no regression")
    for one in regressions:
        reason = f": {one.reason}" if one.reason else ""
        text = f"  {one.line}, {one.solver}: {one.outcome}{reason}"
        errors().print(text, markup=False, highlight=False)
