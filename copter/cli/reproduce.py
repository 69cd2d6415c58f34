"""`copter reproduce`: tables and figures of papers, measured and compared with the published values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from copter.bench.formats import with_deviation
from copter.cli.command import WithDocument, WithProcesses
from copter.cli.console import publish, save_json, say, seconds, table
from copter.cli.options import Traces
from copter.cli.solvers import check_known

if TYPE_CHECKING:
    from copter.bench.reproduction import PaperFigure, Reproduction
    from copter.tasks.tasks import TaskRunner


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(WithDocument, WithProcesses):
    """Measure a table or figure of a paper, and print the results next to the published values."""

    examples: ClassVar[str] = """\b
Examples:
  copter reproduce --list
  copter reproduce sia-table-3.3 --seeds 3
  copter reproduce sia-table-3.3 --seeds 10 --ray auto
  copter reproduce shockwave-table-3 --data data/ --json table.json
  copter reproduce --all papers/ --data data/ --ray auto
"""

    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of a table or figure, or the beginning of several names; --list prints all names."
        ),
    ] = None
    listed: Annotated[
        bool, typer.Option("--list", help="List tables and figures, with their differences from the paper.")
    ] = False
    folder: Annotated[
        Path | None,
        typer.Option(
            "--all",
            metavar="FOLDER",
            help="Write a JSON document of each into FOLDER, unless FOLDER has that document.",
        ),
    ] = None
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Largest number of seeds to average over. Default: by table or figure."),
    ] = None
    data: Traces = None
    quick: Annotated[bool, typer.Option(help="Measure a smaller instance of the same kind.")] = False

    def __post_init__(self) -> None:
        if self.folder is not None and (self.listed or self.json_path is not None):
            wrong = "--list" if self.listed else "--json"
            raise typer.BadParameter(f"cannot be combined with {wrong}", param_hint="--all")

    def execute(self) -> None:
        """Measure, list or write the tables and figures that the options select."""
        from copter.bench.reproduction import reproductions

        known = reproductions()
        name = self.name or ""
        # the name is complete, or the beginning of several names
        chosen = [one for key, one in known.items() if key.startswith(name)]
        if name in known and self.folder is None:
            chosen = [known[name]]
        if not chosen:
            check_known(name, list(known), "table or figure")
        if self.folder is not None:
            _all(self, chosen, self.folder)
        elif self.listed or not name:
            _list(chosen, self.json_path)
        else:
            _each(self, chosen)

    def settings_of(self, one: Reproduction) -> dict[str, Any]:
        """Return the settings of a reproduction, as written to its document."""
        seeds = one.seeds if self.seeds is None else self.seeds
        return {"seeds": seeds, "seed": self.seed, "quick": self.quick, "data": self.data is not None}


def _each(options: ReproduceOptions, chosen: Sequence[Reproduction]) -> None:
    """Measure and show each of the chosen tables and figures."""
    if len(chosen) > 1 and options.json_path is not None:
        names = ", ".join(one.name for one in chosen)
        raise typer.BadParameter(
            f"must have one document, but NAME matches {names}: use --all", param_hint="--json"
        )
    for one in chosen:
        if one.needs_data and options.data is None:
            raise typer.BadParameter(f"{one.name} needs real traces: give their folder", param_hint="--data")
    with options.spread() as spread:
        for one in chosen:
            document, figures = _measure(one, options, spread)
            publish(document, options.json_path, partial(_show, one, document, figures))


def _measure(
    one: Reproduction, options: ReproduceOptions, spread: TaskRunner
) -> tuple[dict[str, Any], Sequence[PaperFigure]]:
    """Measure one table or figure; return its document and its figures."""
    from copter.bench.machine import commit
    from copter.bench.reproduction import Effort

    seeds, of = options.settings_of(one)["seeds"], commit()
    begin = perf_counter()
    figures = one.measure(Effort(seeds, options.data, options.seed, options.quick, say, spread))
    return _document(one, figures, perf_counter() - begin, options, of), figures


def _all(options: ReproduceOptions, chosen: Sequence[Reproduction], folder: Path) -> None:
    """Write the documents that the folder lacks; after an error, continue with the next document."""
    missing = [one for one in chosen if not (folder / f"{one.name}.json").is_file()]
    without = [one.name for one in missing if one.needs_data and options.data is None]
    if without:
        say(f"Skipped, because they need real traces (--data): {', '.join(without)}")
    left = [one for one in missing if one.name not in without]
    say(f"{len(chosen) - len(missing)} done before; {len(left)} to measure")
    failed = []
    with options.spread() as spread:
        for number, one in enumerate(left, 1):
            say(f"{number} of {len(left)}: {one.name}")
            try:
                document, _ = _measure(one, options, spread)
            except Exception as error:  # a reproduction may raise any error
                failed.append(one.name)
                say(f"{one.name}: {type(error).__name__}: {error}")
                continue
            save_json(document, folder / f"{one.name}.json")
    if failed:
        say(f"Failed: {', '.join(failed)}")
        raise typer.Exit(1)


def _document(
    one: Reproduction, figures: Sequence[PaperFigure], wall: float, options: ReproduceOptions, commit: str
) -> dict[str, Any]:
    """Return the JSON document of a measurement."""
    from copter.bench.machine import machine, versions

    return {
        "name": one.name,
        "title": one.title,
        "source": one.source,
        "differs": one.differs,
        "needs_data": one.needs_data,
        "settings": (settings := options.settings_of(one)),
        "workloads": one.played(settings["seeds"]),
        "deviations": one.deviations,
        "commit": commit,
        "wall_seconds": wall,
        "machine": machine(),
        "versions": versions(),
        "figures": [asdict(figure) for figure in figures],
    }


def _list(known: Sequence[Reproduction], path: Path | None) -> None:
    heads = ("name", "content", "differences to the paper", "needs --data", "minutes")
    rows = [
        (one.name, one.title, one.differs, "yes" if one.needs_data else "", f"{one.minutes:g}")
        for one in known
    ]
    title = "Tables and figures: copter reproduce NAME"
    document = [dict(zip(heads, row, strict=True)) for row in rows]
    publish(document, path, lambda: table(title, heads, rows, text_columns=4))


def _show(one: Reproduction, document: Mapping[str, Any], figures: Sequence[PaperFigure]) -> None:
    rows = [
        (
            figure.row,
            figure.column,
            with_deviation(figure.ours, figure.std),
            with_deviation(figure.paper),
            figure.unit,
            _ratio(figure),
        )
        for figure in figures
    ]
    small = " (smaller instance, not comparable)" if document["settings"]["quick"] else ""
    table(
        f"{one.title}: {one.source}{small}",
        ("", "figure", "measured", "paper", "unit", "measured/paper"),
        rows,
        text_columns=2,
    )
    say(f"Differences to the paper: {one.differs}")
    say(f"measured in {seconds(document['wall_seconds'])}")


def _ratio(figure: PaperFigure) -> str:
    return f"{figure.ours / figure.paper:.2f}" if math.isfinite(figure.paper) and figure.paper else "-"
