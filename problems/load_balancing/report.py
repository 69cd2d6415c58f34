"""What a run of load balancing leaves: rounds, figures and plots in its folder, and the table at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from copter.bench.course import Record
from copter.bench.rounds import SolverSettings
from copter.cli.console import seconds, table
from copter.cli.plots import over_time
from copter.cli.runfolder import FolderRun, RowFile, RunFolder
from copter.problems.load_balancing.course import Balancing

_ROUND = {
    "round": "counts from 0",
    "movements": "replicas that were not there before",
    "imbalance": "largest load of a server over the smallest, minus 1",
    "balanced": "whether that is within twice the tolerance",
    "memory": "largest share of its memory that a server uses",
    "replicas": "replicas that carry load",
    "integral_objective": "size of the replicas that were not there before",
    "integral_gap": "certified gap of that, relative to it or to the size of a shard if that is more",
    "bound": "certified lower bound on it, in shards of mean size",
    "objective": "cost of the fractional answer, in shards of mean size",
    "t_edit": "seconds in which the solver's program was brought up to date",
    "t_solve": "seconds of the solver",
    "t_shim": "seconds of rounding to replicas",
    "t_total": "seconds of the round: edit, solve and shim",
    "t_store": "seconds in which events became edits of copter's program",
    "t_certify": "seconds of reading and certifying a baseline's answer; not in t_total",
    "status": "why the solver stopped",
    "gap": "certified relative gap of the fractional answer",
    "primal_residual": "relative primal residual of the fractional answer",
    "iterations": "inner iterations of the solver",
    "churn": "share of the nonzeros that changed against the last round",
    "warm_started": "whether the solver started from the last round",
    "n_variables": "columns of the program",
    "n_rows": "rows of the program",
    "nnz": "nonzeros in the resource rows",
}


class BalancingRun(FolderRun):
    """Rounds with the folder that they are written into, if any.

    Parameters
    ----------
    course : Balancing
    chosen : SolverSettings
    path : Path, optional
        Run folder; None writes nothing.
    command : sequence of str
        The command line, for config.json.
    settings : mapping
        Everything else for config.json.
    """

    def __init__(
        self,
        course: Balancing,
        chosen: SolverSettings,
        path: Path | None,
        command: Sequence[str],
        settings: Mapping[str, Any],
    ) -> None:
        self.course = course
        self.records: list[Record] = []
        self.summary: dict[str, Any] = {}
        self._chosen = chosen
        self._begin = perf_counter()
        self._rows: RowFile | None = None
        scenario = course.scenario
        self._title = f"Load balancing: {scenario.shards} shards on {scenario.servers} servers"
        if path is not None:
            self._folder = RunFolder.create(path, f"{self._title}.", command, settings)
            self._rows = self._folder.rows("rounds.csv", _ROUND, "a row per round:")

    def rounds(self) -> Iterator[Record]:
        """Play the rounds; each is in rounds.csv before it is given."""
        for record in self.course.play(self._chosen).records:
            self.records.append(record)
            if self._rows is not None:
                self._rows.write({name: record[name] for name in _ROUND})
            yield record

    def finish(self) -> dict[str, Any]:
        """Write what is known at the end; return the figures of the run."""
        later = self.records[self.course.left_out :] or self.records

        def of(name: str) -> np.ndarray:
            return np.array([record[name] for record in later], float)

        total = of("t_total")
        self.summary = {
            "rounds": len(self.records),
            "rounds_averaged": len(later),
            "movements_per_round": float(of("movements").mean()),
            "imbalance_mean": float(of("imbalance").mean()),
            "imbalance_max": float(of("imbalance").max()),
            "rounds_balanced": float(of("balanced").mean()),
            "memory_max": float(max(record["memory"] for record in self.records)),
            "replicas_mean": float(of("replicas").mean()),
            "max_gap": float(np.nanmax(of("gap"))) if np.isfinite(of("gap")).any() else None,
            "round_p50_s": float(np.median(total)),
            "round_p99_s": float(np.percentile(total, 99)),
            "wall_seconds": perf_counter() - self._begin,
        }
        if self._folder is not None:
            self._folder.write_json(
                "summary.json",
                self.summary,
                "the figures of the table; those of rounds without the first, as is rounds_averaged",
            )
            _plot(self._folder, self.records)
        return self.summary

    def print_summary(self) -> None:
        """Print the table at the end of a run."""
        one = self.summary
        rows = [
            ("rounds", f"{one['rounds']}, {one['rounds_averaged']} of them averaged"),
            ("movements a round", f"{one['movements_per_round']:.2f}"),
            ("imbalance, mean / largest", f"{one['imbalance_mean']:.1%} / {one['imbalance_max']:.1%}"),
            ("rounds in balance", f"{one['rounds_balanced']:.1%}"),
            ("memory used, fullest server", f"{one['memory_max']:.0%}"),
            ("replicas", f"{one['replicas_mean']:.0f}"),
            ("round time, p50 / p99", f"{seconds(one['round_p50_s'])} / {seconds(one['round_p99_s'])}"),
            ("certified gap, largest", "-" if one["max_gap"] is None else f"{one['max_gap']:.1e}"),
            ("run time", seconds(one["wall_seconds"])),
        ]
        table(f"{self._title}, {self._chosen.name}", ("figure", "value"), rows)


def _plot(folder: RunFolder, records: Sequence[Record]) -> None:
    rounds = np.array([record["round"] for record in records])

    def of(name: str) -> np.ndarray:
        return np.array([record[name] for record in records], float)

    axis = "round"
    folder.save_figure(
        "movements.png",
        over_time(rounds, {"movements": of("movements")}, "new replicas", "Movements", axis=axis),
        "replicas that were not there before, by round",
    )
    folder.save_figure(
        "imbalance.png",
        over_time(
            rounds, {"imbalance": 100.0 * of("imbalance")}, "max / min - 1 (%)", "Imbalance", axis=axis
        ),
        "largest load of a server over the smallest, minus 1, by round",
    )
    times = {part: 1e3 * np.maximum(of(f"t_{part}"), 1e-9) for part in ("edit", "solve", "shim")}
    folder.save_figure(
        "time.png",
        over_time(rounds, times, "time (ms)", "Time of each round", axis=axis, logarithmic=True),
        "milliseconds of edit, solve and shim, by round",
    )
