"""Output of `copter run placement`: metrics by policy, a row for each seed, and a plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from copter.cli.command import RunOptions
from copter.cli.console import table
from copter.cli.plots import over_time
from copter.cli.run import CommandRun
from copter.cli.runfolder import RunFolder
from copter.problems.placement.experiment import Experiment
from copter.problems.placement.online.play import DEMANDS, PlayedTasks

_FULL = 100
"""Demand, in percent of the GPUs, at which failures are counted."""

_ROW = {
    "policy": "name of the policy",
    "seed": "seed of the order of the tasks",
    **{f"allocated_at_{at}": f"percent of the GPUs allocated at a demand of {at}%" for at in DEMANDS},
    "tasks": "number of tasks that arrived",
    "failed": "number of tasks that found no place",
}


class PlacementRun(CommandRun):
    """Results of policies and seeds, with their run folder, if any."""

    meaning = "means and standard deviations over seeds, in percent"

    def __init__(self, experiment: Experiment, options: RunOptions, path: Path | None) -> None:
        self.experiment = experiment
        self._groups = [kind.group for kind in experiment.tasks.kinds]
        self._courses: dict[str, dict[int, PlayedTasks]] = {}
        super().__init__(options, path, f"Placement: tasks on {len(experiment.servers)} servers")

    def take(self, policy: str, seed: int, course: PlayedTasks) -> None:
        """Record the result of a policy with a seed."""
        self._courses.setdefault(policy, {})[seed] = course

    def figures(self) -> dict[str, Any]:
        """Return the metrics of each policy."""
        return {
            "servers": len(self.experiment.servers),
            "gpus": int(self.experiment.servers.gpus.sum()),
            "tasks": len(self.experiment.tasks),
            "policies": {name: self._of(list(courses.values())) for name, courses in self._courses.items()},
        }

    def _of(self, courses: list[PlayedTasks]) -> dict[str, Any]:
        """Return the metrics of one policy; None at a demand that was not reached."""
        shown: dict[str, Any] = {}
        for at in DEMANDS:
            values = np.array([course.allocated_at(at) for course in courses])
            there = bool(np.isfinite(values).all())
            spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
            shown[f"allocated_at_{at}"] = float(values.mean()) if there else None
            shown[f"allocated_at_{at}_std"] = spread if there else None
        failures = [course.failures(self._groups, _FULL) for course in courses]
        groups = sorted({group for each in failures for group in each})
        shown["failed_at_100"] = {
            group: float(np.mean([each[group] for each in failures if group in each])) for group in groups
        }
        return shown

    def write(self, folder: RunFolder) -> None:
        """Write a row for each policy and seed, and the plot."""
        rows = folder.rows("seeds.csv", _ROW, "a row per policy and seed:")
        for policy, courses in self._courses.items():
            for seed, course in courses.items():
                rows.write(self._row(policy, seed, course))
        rows.close()
        lines = {name: self._line(courses) for name, courses in self._courses.items()}
        folder.save_figure(
            "allocated.png",
            over_time(
                DEMANDS, lines, "allocated (% of GPUs)", "Allocation by demand", axis="demand (% of GPUs)"
            ),
            "percent of the GPUs that are allocated by demand, means over seeds",
        )

    def _row(self, policy: str, seed: int, course: PlayedTasks) -> dict[str, Any]:
        failed = sum(place is None for place in course.places)
        row = {"policy": policy, "seed": seed, "tasks": len(course.places), "failed": failed}
        return row | {f"allocated_at_{at}": course.allocated_at(at) for at in DEMANDS}

    @staticmethod
    def _line(courses: Mapping[int, PlayedTasks]) -> list[float]:
        return [float(np.mean([course.allocated_at(at) for course in courses.values()])) for at in DEMANDS]

    def print_summary(self) -> None:
        """Print the table of policies."""
        shown = (80, 90, 100, 130)
        rows = []
        for name, figures in self.summary["policies"].items():
            cells = []
            for at in shown:
                mean, spread = figures[f"allocated_at_{at}"], figures[f"allocated_at_{at}_std"]
                cells.append("-" if mean is None else f"{mean:.2f} ± {spread:.2f}")
            failed = ", ".join(
                f"{group} {share:.1f}" for group, share in figures["failed_at_100"].items() if share
            )
            rows.append([name, *cells, failed or "none"])
        columns = ("policy", *(f"at {at}%" for at in shown), "failed at 100% (%)")
        table(f"{self.title}, % of GPUs allocated by demand", columns, rows)
