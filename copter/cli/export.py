"""`copter bench export`: write sequences of LPs for solvers outside copter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from copter.cli.console import output, progress, say
from copter.cli.options import Seed

if TYPE_CHECKING:
    from copter.bench.sequences import Sequence

_EXAMPLES = """\b
Examples:
  copter bench export runs/sequences --family sia-64 --family traffic-tiny
  copter bench export runs/rides --family docs/examples/rides.py:Rides --rounds 20
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    bench.command("export", epilog=_EXAMPLES)(export)


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="New or empty folder; each sequence gets a folder in it.")
    ],
    family: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Line of the suite (`copter bench all --list`), file of a recording, or module:Name of a "
            "domain; may be repeated.",
        ),
    ],
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Largest number of rounds. Default: all, of a domain 50.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Write sequences of LPs as an MPS file, edits of each round, and certified optima."""
    from copter.bench.sequences import sequence_named
    from copter.errors import UnsupportedError

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise typer.BadParameter(f"{folder} exists and is not an empty folder", param_hint="FOLDER")
    try:
        chosen = [sequence_named(name, rounds, seed) for name in family]
    except UnsupportedError as error:
        raise typer.BadParameter(str(error), param_hint="--family") from None
    names = [one.name for one in chosen]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(f"the family {name!r} is given twice", param_hint="--family")
    for one in chosen:
        _write(one, folder / one.name, seed)
    output().print(str(folder), highlight=False, soft_wrap=True)


def _write(one: Sequence, folder: Path, seed: int) -> None:
    """Write a sequence, with its progress on standard error."""
    from copter.bench.sequences import write_sequence

    with progress() as bar:
        task = bar.add_task(one.name, total=None)
        header = write_sequence(one, folder, seed, lambda number: bar.update(task, completed=number))
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    first, count = header["first"], header["rounds"]
    say(f"{one.name}: {count} rounds, {first['columns']:,} columns, {first['rows']:,} rows, {size:.1f} MB")
