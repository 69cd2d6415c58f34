"""`copter reproduce`: tables and figures of the papers, ours beside the printed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copter.cli.command import Spreading
from copter.cli.console import publish, say, seconds, table
from copter.cli.options import JsonPath, Traces
from copter.cli.solvers import check_known

if TYPE_CHECKING:
    from copter.bench.reproduction import Figure, Reproduction

EXAMPLES = """\b
Examples:
  copter reproduce --list
  copter reproduce sia-table-3.3 --seeds 3
  copter reproduce sia-table-3.3 --seeds 10 --ray auto
  copter reproduce pollux-table-2 --data data/ --json pollux.json
"""


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(Spreading):
    """Measure a table or figure of a paper again, and print ours beside the paper's."""

    name: Annotated[str | None, typer.Argument(help="Which one; --list says which there are.")] = None
    listed: Annotated[bool, typer.Option("--list", help="Say which there are, and what differs.")] = False
    seeds: Annotated[int, typer.Option(min=1, help="Samples to average over, at most.")] = 3
    data: Traces = None
    quick: Annotated[bool, typer.Option(help="A smaller instance of the same kind.")] = False
    json_path: JsonPath = None


def reproduce(options: ReproduceOptions) -> None:
    """Run the command."""
    from copter.bench.reproduction import Effort, reproductions

    known = reproductions()
    name = options.name
    if options.listed or name is None:
        _list(list(known.values()))
        return
    one = known.get(check_known(name, list(known), "table or figure"))
    assert one is not None
    if one.needs_data and options.data is None:
        raise typer.BadParameter(f"{name} needs real traces: name their folder", param_hint="--data")
    begin = perf_counter()
    with options.spread() as spread:
        effort = Effort(options.seeds, options.data, options.seed, options.quick, say, spread)
        figures = one.measure(effort)
    wall = perf_counter() - begin

    def show() -> None:
        _show(one, figures, quick=options.quick)
        say(f"measured in {seconds(wall)}")

    publish(_document(one, figures, wall, options), options.json_path, show)


def _document(
    one: Reproduction, figures: Sequence[Figure], wall: float, options: ReproduceOptions
) -> dict[str, Any]:
    """What goes into the JSON file."""
    from copter.bench.machine import machine, versions

    return {
        "name": one.name,
        "title": one.title,
        "source": one.source,
        "differs": one.differs,
        "needs_data": one.needs_data,
        "settings": {
            "seeds": options.seeds,
            "seed": options.seed,
            "quick": options.quick,
            "data": options.data is not None,
        },
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
    say(f"What differs: {one.differs}")


def _number(value: float, spread: float = math.nan) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.3g}" + (f" ± {spread:.2g}" if math.isfinite(spread) else "")


def _ratio(figure: Figure) -> str:
    return f"{figure.ours / figure.paper:.2f}" if math.isfinite(figure.paper) and figure.paper else "-"
