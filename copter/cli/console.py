"""Output of the commands: results to standard output, progress and errors to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from copter.bench.formats import plain as plain
from copter.bench.formats import seconds as seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from copter.bench.report.model import ReportTable

_WIDTH_OF_A_PIPE = 160
STANDARD_OUTPUT = Path("-")
"""Path of a document that is printed to standard output."""


def output() -> Console:
    """Return a console on standard output; if that is not a terminal, 160 columns wide to fit the tables."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE)


def errors() -> Console:
    """Return a console on standard error."""
    from rich.console import Console

    return Console(stderr=True)


def command_line() -> list[str]:
    """Return the command line of this process, for results."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def save_json(document: Mapping[str, Any] | Sequence[Any], path: Path) -> None:
    """Write a JSON document to a file, and create its folder; the path - is standard output."""
    text = json.dumps(plain(document), indent=2, allow_nan=False)
    if path == STANDARD_OUTPUT:
        print(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def publish(document: Mapping[str, Any] | Sequence[Any], path: Path | None, show: Callable[[], None]) -> None:
    """Write a document to `path`, if given; call `show` unless the document went to standard output."""
    if path is not None:
        save_json(document, path)
    if path != STANDARD_OUTPUT:
        show()


def say(text: str) -> None:
    """Print text to standard error, without markup or wrapping."""
    errors().print(text, markup=False, highlight=False, soft_wrap=True)


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1
) -> None:
    """Print a table of texts without markup; the first `text_columns` columns are left-aligned."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=title, title_justify="left", header_style="bold")
    for position, name in enumerate(columns):
        shown.add_column(name, justify="left" if position < text_columns else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(Text, row))
    output().print(shown)


def show_tables(tables: Iterable[ReportTable]) -> None:
    """Print the tables of a report."""
    for each in tables:
        table(each.title, each.heads, [row.cells for row in each.rows], text_columns=len(each.words))


def progress(*columns: str, quiet: bool = False) -> Progress:
    """Return a progress bar on standard error; `columns` are format strings for values of ``task.fields``."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *(TextColumn(column) for column in columns),
        console=errors(),
        disable=quiet,
    )
