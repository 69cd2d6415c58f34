"""`copter bench export`: write sequences of LPs for solvers outside copter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from copter.cli.console import output, progress, say, table
from copter.cli.options import Seed

if TYPE_CHECKING:
    from copter.bench.sequences.family import Family

_EXAMPLES = """\b
Examples:
  copter bench export --list
  copter bench export runs/sequences
  copter bench export runs/two --family energy-storage --family sia-nodes-small --rounds 20
  copter bench export runs/rides --family docs/examples/rides.py:Rides
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    bench.command("export", epilog=_EXAMPLES)(export)


def export(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="New or empty folder; each family gets a folder in it."),
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Name of a family, file of a recording, or module:Name of a domain; may be repeated. "
            "Default: all families.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds of each family.")] = 50,
    seed: Seed = 0,
    listed: Annotated[bool, typer.Option("--list", help="List the families without writing files.")] = False,
) -> None:
    """Write sequences of LPs as an MPS file, edits of each round, and certified optima."""
    from copter.bench.sequences.family import families, family_named
    from copter.errors import UnsupportedError

    if listed:
        _list(list(families().values()))
        return
    if folder is None:
        raise typer.BadParameter("must be given, unless --list is given", param_hint="FOLDER")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise typer.BadParameter(f"{folder} exists and is not an empty folder", param_hint="FOLDER")
    try:
        chosen = [family_named(name) for name in family] if family else list(families().values())
    except UnsupportedError as error:
        raise typer.BadParameter(str(error), param_hint="--family") from None
    names = [one.name for one in chosen]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(f"the family {name!r} is given twice", param_hint="--family")
    for one in chosen:
        _write(one, folder / one.name, rounds, seed)
    output().print(str(folder), highlight=False, soft_wrap=True)


def _list(every: list[Family]) -> None:
    table(
        "Families",
        ("family", "changes", "description"),
        [(one.name, ", ".join(one.kinds), one.description) for one in every],
        text_columns=3,
    )


def _write(family: Family, folder: Path, rounds: int, seed: int) -> None:
    """Write a family, with its progress on standard error."""
    from copter.bench.sequences.export import write_family

    with progress() as bar:
        task = bar.add_task(family.name, total=rounds)
        header = write_family(family, folder, rounds, seed, lambda number: bar.update(task, completed=number))
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    first = header["first"]
    say(
        f"{family.name}: {rounds} rounds, {first['columns']:,} columns, {first['rows']:,} rows, {size:.1f} MB"
    )
