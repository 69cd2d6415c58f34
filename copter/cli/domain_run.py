"""Results of `copter run module:Name`: a row per round in its folder, and the table at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.cli.console import seconds
from copter.cli.run import CommandRun, print_figures
from copter.rounds.record import ROW_MEANS, RoundRecord

if TYPE_CHECKING:
    from copter.cli.command import RunOptions
    from copter.cli.runfolder import RowFile, RunFolder


class DomainRun(CommandRun):
    """Rounds of a domain with the folder that they are written into, if any."""

    def __init__(self, name: str, options: RunOptions, path: Path | None) -> None:
        super().__init__(options, path, f"Rounds of {name}", {"domain": name})
        self._records: list[dict[str, Any]] = []
        self._own: list[str] = []
        self._rows: RowFile | None = None

    def take(self, record: RoundRecord) -> None:
        """Keep the record of a round, and write its row."""
        row, self._own = record.row(), list(record.figures)
        if self._folder is not None and not self._records:
            means = {name: ROW_MEANS.get(name, "of the domain") for name in row}
            self._rows = self._folder.rows("rounds.csv", means, "a row per round:")
        self._records.append(row)
        if self._rows is not None:
            self._rows.write(row)

    def figures(self) -> dict[str, Any]:
        """Return the figures of the rounds."""
        rows = self._records
        total = np.array([row["seconds"] for row in rows])
        gaps = [row["answer_gap"] for row in rows if np.isfinite(row["answer_gap"])]
        return {
            "rounds": len(rows),
            "fallbacks": sum(row["path"] == "fallback" for row in rows),
            "late": sum(row["late"] for row in rows),
            "round_p50_s": float(np.median(total)),
            "round_max_s": float(total.max()),
            "max_gap": max(gaps, default=None),
            "figures": {name: float(np.mean([row[name] for row in rows])) for name in self._own},
            "records": rows,
        }

    def write(self, folder: RunFolder) -> None:
        """Write nothing more than the rounds and the summary."""

    def print_summary(self) -> None:
        """Print the table at the end of the run."""
        one = self.summary
        print_figures(
            self.title,
            [
                ("rounds", str(one["rounds"])),
                ("fallbacks, of which late", f"{one['fallbacks']}, {one['late']}"),
                ("round time, median", seconds(one["round_p50_s"])),
                ("round time, largest", seconds(one["round_max_s"])),
                ("certified gap, largest", "-" if one["max_gap"] is None else f"{one['max_gap']:.1e}"),
                *((f"{name}, mean", f"{value:.4g}") for name, value in one["figures"].items()),
            ],
        )
