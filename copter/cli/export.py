"""`copter bench export`: write sequences of LPs for solvers outside copter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from copter.cli.command import CommandOptions
from copter.cli.console import output, progress, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@dataclass(frozen=True, kw_only=True)
class ExportOptions(CommandOptions):
    """Write sequences of LPs as an MPS file, edits of each round, and certified optima."""

    examples: ClassVar[str] = """\b
Examples:
  copter bench export runs/sequences --family sia-64 --family traffic-tiny
  copter bench export runs/rides --family docs/examples/rides.py:Rides --rounds 20
"""

    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="New or empty folder; each sequence gets a folder in it.")
    ]
    family: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Line of the suite (`copter bench all --list`), file of a recording, or module:Name of a "
            "domain; may be repeated.",
        ),
    ]
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Largest number of rounds. Default: all, of a domain 50.")
    ] = None

    def execute(self) -> None:
        """Write the sequences."""
        from copter.bench.sequences import sequence_named, write_sequence
        from copter.errors import UnsupportedError

        folder = self.folder
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise typer.BadParameter(f"{folder} exists and is not an empty folder", param_hint="FOLDER")
        try:
            chosen = [sequence_named(name, self.rounds, self.seed) for name in self.family]
        except UnsupportedError as error:
            raise typer.BadParameter(str(error), param_hint="--family") from None
        names = [one.name for one in chosen]
        for name in names:
            if names.count(name) > 1:
                raise typer.BadParameter(f"the family {name!r} is given twice", param_hint="--family")
        for one in chosen:
            with progress() as bar:
                task = bar.add_task(one.name, total=None)
                header = write_sequence(one, folder / one.name, self.seed, partial(_show, bar, task))
            size = sum(path.stat().st_size for path in (folder / one.name).iterdir()) / 1e6
            first = header["first"]
            what = f"{header['rounds']} rounds, {first['columns']:,} columns, {first['rows']:,} rows"
            say(f"{one.name}: {what}, {size:.1f} MB")
        output().print(str(folder), highlight=False, soft_wrap=True)


def _show(bar: Progress, task: TaskID, number: int) -> None:
    bar.update(task, completed=number)


COMMANDS = {"bench export": ExportOptions}
