"""Where the commands write: results to standard output, progress and errors to standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_WIDTH_OF_A_PIPE = 160


def output() -> Console:
    """Console on standard output; piped into a file it is wide enough that no figure is cut."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE)


def errors() -> Console:
    """Console on standard error."""
    from rich.console import Console

    return Console(stderr=True)


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON object, and nothing else, on standard output."""
    print(json.dumps(plain(document), indent=2, allow_nan=False))


def save_json(document: Mapping[str, Any], path: Path) -> None:
    """Write one JSON object to a file, making its folder if need be; the path - means standard output."""
    if str(path) == "-":
        print_json(document)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain(document), indent=2, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """Return `value` as strict JSON can hold it: numpy scalars as Python's, NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1
) -> None:
    """Print a table; the first `text_columns` columns are words, the others figures.

    Parameters
    ----------
    columns : sequence of str
        Their heads.
    rows : iterable of sequence of str
    """
    from rich.table import Table

    shown = Table(title=title, title_justify="left", header_style="bold")
    for position, name in enumerate(columns):
        shown.add_column(name, justify="left" if position < text_columns else "right", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    output().print(shown)


def progress(*columns: str, quiet: bool = False) -> Progress:
    """Progress bar on standard error with live fields, each a format string over `task.fields`."""
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


def seconds(value: float) -> str:
    """Return a time as people read it: 12.3 ms, 4.56 s, 3.2 min."""
    if not math.isfinite(value):
        return "-"
    if value < 1e-3:
        return f"{value * 1e6:.0f} us"
    if value < 1.0:
        return f"{value * 1e3:.1f} ms"
    return f"{value:.2f} s" if value < 120.0 else f"{value / 60.0:.1f} min"
