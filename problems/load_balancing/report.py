"""Files of a run of load balancing: rounds, figures and plots in its folder, and the table at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from copter.bench.settings import SolverSettings
from copter.cli.command import RunOptions
from copter.cli.console import seconds
from copter.cli.plots import over_time, round_times
from copter.cli.run import CourseRun, print_figures
from copter.cli.runfolder import RunFolder
from copter.problems.load_balancing.course import Balancing

_ROUND = {
    "movements": "number of new replicas",
    "imbalance": "largest load of a server over the smallest, minus 1",
    "balanced": "whether the imbalance is at most twice the tolerance",
    "memory": "largest used share of a server's memory",
    "replicas": "number of replicas that carry load",
    "answer_objective": "size of the new replicas",
    "answer_gap": "certified gap of that size, relative to it or to the size of a shard if that is larger",
    "answer_bound": "certified lower bound on the size of the new replicas",
    "proven": "whether the placement is within the band, and its gap is 0",
    "objective": "cost of the fractional answer, in shards of mean size",
}


class BalancingRun(CourseRun):
    """Rounds with their output folder, if any."""

    meaning = "figures of the table; those of rounds, and rounds_averaged, are without the first round"

    def __init__(
        self, course: Balancing, chosen: SolverSettings, options: RunOptions, path: Path | None
    ) -> None:
        scenario = course.scenario
        title = f"Load balancing: {scenario.shards} shards on {scenario.servers} servers"
        super().__init__(course, chosen, _ROUND, options, path, title)

    def figures(self) -> dict[str, Any]:
        """Return the figures of the run."""

        def later(name: str) -> np.ndarray:
            return self.of(name, later=True)

        total, gap = later("seconds"), later("gap")
        return {
            "rounds": len(self.records),
            "rounds_averaged": total.size,
            "movements_per_round": float(later("movements").mean()),
            "imbalance_mean": float(later("imbalance").mean()),
            "imbalance_max": float(later("imbalance").max()),
            "rounds_balanced": float(later("balanced").mean()),
            "memory_max": float(self.of("memory").max()),
            "replicas_mean": float(later("replicas").mean()),
            "rounds_proven": float(later("proven").mean()),
            "max_gap": float(np.nanmax(gap)) if np.isfinite(gap).any() else None,
            "round_p50_s": float(np.median(total)),
            "round_p99_s": float(np.percentile(total, 99)),
        }

    def write(self, folder: RunFolder) -> None:
        """Write the plots."""
        rounds, axis = self.of("round"), "round"
        folder.save_figure(
            "movements.png",
            over_time(rounds, {"movements": self.of("movements")}, "new replicas", "Movements", axis=axis),
            "number of new replicas, by round",
        )
        percent = {"imbalance": 100.0 * self.of("imbalance")}
        folder.save_figure(
            "imbalance.png",
            over_time(rounds, percent, "max / min - 1 (%)", "Imbalance", axis=axis),
            "largest load of a server over the smallest, minus 1, by round",
        )
        folder.save_figure(
            "time.png",
            round_times(rounds, self.of, axis=axis),
            "milliseconds of edit, solve and shim, by round",
        )

    def print_summary(self) -> None:
        """Print the table at the end of a run."""
        one = self.summary
        rows = [
            ("rounds", f"{one['rounds']}, {one['rounds_averaged']} of them averaged"),
            ("movements a round", f"{one['movements_per_round']:.2f}"),
            ("imbalance, mean / largest", f"{one['imbalance_mean']:.1%} / {one['imbalance_max']:.1%}"),
            ("rounds in balance", f"{one['rounds_balanced']:.1%}"),
            ("rounds proven optimal", f"{one['rounds_proven']:.1%}"),
            ("memory used, fullest server", f"{one['memory_max']:.0%}"),
            ("replicas", f"{one['replicas_mean']:.0f}"),
            ("round time, p50 / p99", f"{seconds(one['round_p50_s'])} / {seconds(one['round_p99_s'])}"),
            ("certified gap, largest", "-" if one["max_gap"] is None else f"{one['max_gap']:.1e}"),
            ("run time", seconds(one["wall_seconds"])),
        ]
        print_figures(f"{self.title}, {self.chosen.name}", rows)
