"""`copter bench export`: writes a sequence of LPs for solvers outside copter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from copter.cli.command import CommandOptions
from copter.cli.console import output, progress


@dataclass(frozen=True, kw_only=True)
class ExportOptions(CommandOptions):
    """Write a sequence of LPs: an MPS file, the edits of each round, and certified optima."""

    examples: ClassVar[str] = """\b
Examples:
  copter bench export sia-64 runs/sia-64
  copter bench export docs/examples/rides.py:Rides runs/rides --rounds 20
"""

    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Line of the suite (`copter bench all --list`), file of a recording, or module:Name of a "
            "domain.",
        ),
    ]
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New or empty folder.")]
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Largest number of rounds. Default: 50 for a domain, else all.")
    ] = None

    def execute(self) -> None:
        """Write the sequence."""
        from copter.bench.sequences import rounds_of, write_sequence
        from copter.errors import UnsupportedError

        folder = self.folder
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise typer.BadParameter(f"{folder} exists and is not an empty folder", param_hint="FOLDER")
        try:
            rounds = rounds_of(self.name, self.rounds, self.seed)
        except UnsupportedError as error:
            raise typer.BadParameter(str(error), param_hint="NAME") from None
        with progress() as bar:
            task = bar.add_task(self.name, total=None)
            write_sequence(
                self.name, rounds, folder, self.seed, lambda number: bar.update(task, completed=number)
            )
        output().print(str(folder), highlight=False, soft_wrap=True)


COMMANDS = {"bench export": ExportOptions}
