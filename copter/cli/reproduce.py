"""`copter reproduce`: tables and figures of the papers, ours beside the printed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copter.cli.console import errors, save_json, seconds, table
from copter.cli.options import JsonPath, Seed

if TYPE_CHECKING:
    from copter.bench.reproduction import Figure, Reproduction

EXAMPLES = """\b
Examples:
  copter reproduce --list
  copter reproduce sia-table-3.3 --seeds 3
  copter reproduce pollux-table-2 --data data/ --json pollux.json
"""


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which one; --list says which there are.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Say which there are, and what differs.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Samples to average over, at most.")] = 3,
    seed: Seed = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, envvar="COPTER_DATA", help="Folder of the real traces, if needed."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option(help="A smaller instance of the same kind.")] = False,
    json_path: JsonPath = None,
) -> None:
    """Measure a table or figure of a paper again, and print ours beside the paper's."""
    from copter.bench.reproduction import Effort, reproductions

    known = reproductions()
    if listed or name is None:
        _list(list(known.values()))
        return
    if name not in known:
        import difflib

        close = difflib.get_close_matches(name, known, 3) or list(known)[:3]
        raise typer.BadParameter(f"{name!r} is not known; did you mean {', '.join(close)}? See --list")
    one = known[name]
    if one.needs_data and data is None:
        raise typer.BadParameter(f"{name} needs real traces: name their folder", param_hint="--data")
    begin = perf_counter()
    say = errors().print
    figures = one.measure(Effort(seeds, data, seed, quick, lambda line: say(line, markup=False)))
    wall = perf_counter() - begin
    if json_path is not None:
        save_json(document(one, figures, wall, seeds=seeds, seed=seed, quick=quick), json_path)
        if str(json_path) == "-":
            return
    _show(one, figures, quick=quick)
    say(f"measured in {seconds(wall)}")


def document(one: Reproduction, figures: Sequence[Figure], wall: float, **settings: Any) -> dict[str, Any]:
    """Return what goes into the JSON file.

    Parameters
    ----------
    one : Reproduction
    figures : sequence of Figure
    wall : float
        Seconds that it took.
    **settings
        Of the effort.

    Returns
    -------
    dict
    """
    from dataclasses import asdict

    from copter.bench.machine import machine, versions

    return {
        "name": one.name,
        "title": one.title,
        "source": one.source,
        "differs": one.differs,
        "settings": settings,
        "wall_seconds": wall,
        "machine": machine(),
        "versions": versions(),
        "figures": [asdict(figure) for figure in figures],
    }


def _list(known: Sequence[Reproduction]) -> None:
    rows = [
        (one.name, one.title, one.differs, "yes" if one.needs_data else "", f"{one.minutes:g}")
        for one in known
    ]
    table(
        "Tables and figures: copter reproduce NAME",
        ("name", "what it shows", "what differs from the paper", "data", "minutes"),
        rows,
        text_columns=4,
    )


def _show(one: Reproduction, figures: Sequence[Figure], *, quick: bool) -> None:
    rows = [
        (
            figure.row,
            figure.column,
            _number(figure.ours, figure.std),
            _number(figure.paper),
            figure.unit,
            _ratio(figure),
        )
        for figure in figures
    ]
    small = " (a smaller instance: not to be compared)" if quick else ""
    table(
        f"{one.title}: {one.source}{small}",
        ("", "figure", "ours", "paper", "unit", "ours/paper"),
        rows,
        text_columns=2,
    )
    errors().print(f"What differs: {one.differs}", markup=False)


def _number(value: float, spread: float = math.nan) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.3g}" + (f" ± {spread:.2g}" if math.isfinite(spread) else "")


def _ratio(figure: Figure) -> str:
    return f"{figure.ours / figure.paper:.2f}" if math.isfinite(figure.paper) and figure.paper else "-"
